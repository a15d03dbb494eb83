"""What goes into a request so that the API server knows who asks, and how it is renewed.

Threads share one of these. Files of a token or a client certificate are read again every minute,
as the kubelet rotates them; a plugin's answer is kept until it expires; and after a 401 any of
them is renewed, once, by whichever thread is first.
"""

import base64
import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from etcompile.kubeapi.access import Access, Pem
from etcompile.kubeapi.errors import ClusterError
from etcompile.kubeapi.execplugin import issued

_REREAD = 60.0
"""Seconds after which files are read again; Kubernetes' own clients wait that long."""


class Credential(Struct, frozen=True):
    """What to show the API server.

    Args:
        serial: Counts renewals: who was refused with an old one need not ask for a new one.
        headers: Of every request, as `http.client` takes them.
        certificate: A client certificate, read.
    """

    serial: int
    headers: tuple[tuple[str, str], ...]
    certificate: Pem = Pem()
    key: Pem = Pem()


class Credentials:
    """The credentials of an access, always current; safe to share between threads."""

    def __init__(self, access: Access, clock: Callable[[], float] = time.monotonic) -> None:
        self._access = access
        self._clock = clock
        self._lock = threading.Lock()
        self._current: Credential | None = None
        self._until = float("inf")

    def current(self) -> Credential:
        """What to show now.

        Raises:
            ClusterError: with reason `Credentials`: a token cannot be read, a plugin failed.
        """
        with self._lock:
            if self._current is None or self._clock() >= self._until:
                try:
                    self._renew()
                except ClusterError:
                    # Files may be missing for a moment while somebody replaces them.
                    if self._current is None or self._access.user.plugin:
                        raise
                    self._until = self._clock() + _REREAD
            assert self._current is not None  # noqa: S101 (what _renew is for)
            return self._current

    def renewed(self, refused: Credential) -> Credential | None:
        """What to show after a 401; None if there is nothing but what was refused."""
        user = self._access.user
        if not (user.token_file or user.certificate.file or (user.plugin and not user.token)):
            return None
        with self._lock:
            if self._current is not None and self._current.serial == refused.serial:
                self._renew()
            found = self._current
        same = found is None or (found.headers, found.certificate) == (
            refused.headers,
            refused.certificate,
        )
        return None if same else found

    def _renew(self) -> None:
        access, user = self._access, self._access.user
        serial = self._current.serial + 1 if self._current else 0
        certificate, key = user.certificate.read(), user.key.read()
        read_again = user.token_file or (user.certificate.file and not user.plugin)
        until = self._clock() + _REREAD if read_again else float("inf")
        authorization = ""
        if user.token_file:
            authorization = f"Bearer {self._from_file(user.token_file, user.token)}"
        elif user.token:
            authorization = f"Bearer {user.token}"
        elif user.username or user.password:
            authorization = basic(user.username, user.password)
        elif user.plugin is not None:
            status = issued(user.plugin, access)
            authorization = f"Bearer {status.token}" if status.token else ""
            if status.client_certificate_data:
                certificate, key = status.client_certificate_data, status.client_key_data or ""
            if status.expiration_timestamp:
                left = (status.expiration_timestamp - datetime.now(UTC)).total_seconds()
                until = min(until, self._clock() + max(0.0, left))
        headers = [("Authorization", authorization)] if authorization else []
        headers = [(name, _encoded(name, value)) for name, value in [*headers, *user.headers]]
        self._current = Credential(serial, tuple(headers), Pem(text=certificate), Pem(text=key))
        self._until = until

    @staticmethod
    def _from_file(name: str, otherwise: str) -> str:
        try:
            token = Path(name).read_text(errors="surrogateescape").strip()
        except OSError as error:
            if otherwise:
                return otherwise
            raise ClusterError(
                "Credentials", f"cannot read the token file {name}: {error.strerror}"
            ) from None
        if not token and not otherwise:
            raise ClusterError("Credentials", f"the token file {name} is empty")
        return token or otherwise


def basic(username: str, password: str) -> str:
    """The value of a header for basic authentication."""
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"


def _encoded(name: str, value: str) -> str:
    """The value of a header as UTF-8, in the form that `http.client` writes: each byte a character.

    Raises:
        ClusterError: with reason `Credentials`: HTTP cannot carry it.
    """
    if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value):
        raise ClusterError(
            "Credentials",
            f"the value of the HTTP header {name} has a line break or another control character",
            hint="check the user in the kubeconfig",
        )
    return value.encode(errors="surrogateescape").decode("latin-1")
