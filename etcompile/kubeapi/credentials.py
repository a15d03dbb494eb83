"""What goes into a request so that the API server knows who asks, and how it is renewed.

Threads share one of these. A token file is read again every minute, as the kubelet rotates it;
a plugin's answer is kept until it expires; and after a 401 either is fetched anew, once, by
whichever thread is first.
"""

import base64
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from etcompile.kubeapi.access import Access, Pem
from etcompile.kubeapi.errors import ClusterError
from etcompile.kubeapi.execplugin import Issued, issued

_REREAD = 60.0
"""Seconds after which a token file is read again; Kubernetes' own clients wait that long."""


class Credential(Struct, frozen=True):
    """What to show the API server.

    Args:
        serial: Counts renewals: who was refused with an old one need not ask for a new one.
        headers: Of every request.
        certificate: A client certificate.
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
                self._renew()
            assert self._current is not None  # noqa: S101 (what _renew is for)
            return self._current

    def renewed(self, refused: Credential) -> Credential | None:
        """What to show after a 401; None if there is nothing but what was refused."""
        user = self._access.user
        if user.token and not user.token_file:
            return None
        if not user.token_file and user.plugin is None:
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
        self._until = float("inf")
        authorization, certificate, key = "", user.certificate, user.key
        if user.token_file:
            authorization = f"Bearer {self._from_file(user.token_file, user.token)}"
            self._until = self._clock() + _REREAD
        elif user.token:
            authorization = f"Bearer {user.token}"
        elif user.username or user.password:
            pair = f"{user.username}:{user.password}".encode()
            authorization = f"Basic {base64.b64encode(pair).decode()}"
        elif user.plugin is not None:
            found = issued(user.plugin, access)
            authorization = f"Bearer {found.token}" if found.token else ""
            if found.certificate:
                certificate, key = Pem(text=found.certificate), Pem(text=found.key)
            self._until = self._clock() + _lifetime(found)
        headers = (("Authorization", authorization),) if authorization else ()
        self._current = Credential(serial, (*headers, *user.impersonation), certificate, key)

    @staticmethod
    def _from_file(name: str, otherwise: str) -> str:
        try:
            token = Path(name).read_text().strip()
        except OSError as error:
            if otherwise:
                return otherwise
            raise ClusterError(
                "Credentials", f"cannot read the token file {name}: {error.strerror}"
            ) from None
        if not token and not otherwise:
            raise ClusterError("Credentials", f"the token file {name} is empty")
        return token or otherwise


def _lifetime(found: Issued) -> float:
    """Seconds until what a plugin issued expires; for ever when it does not say."""
    if not found.expires:
        return float("inf")
    try:
        expires = datetime.fromisoformat(found.expires)
    except ValueError:
        return float("inf")
    if expires.tzinfo is None:
        expires = expires.replace(tzinfo=UTC)
    return max(0.0, (expires - datetime.now(UTC)).total_seconds())
