"""Authenticate requests to the API server, and renew what they show.

Threads share one of these. Files are read again every minute, as the kubelet rotates them; a
plugin's answer is used until it expires; a 401 renews any of them, once. A credential plugin reads
the request from KUBERNETES_EXEC_INFO and prints an ExecCredential
(`client.authentication.k8s.io`). Its standard error is ours: it may prompt people to log in.
"""

import base64
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import urllib3
from msgspec import Meta, Struct

from etcompile.kubeapi.errors import ClusterError
from etcompile.kubeapi.kubeconfig import Access, ExecPlugin, pem

_REREAD = 60.0
"""Seconds after which files are read again; Kubernetes' own clients wait that long."""


class Credential(Struct, frozen=True):
    """What a request shows to the API server.

    Args:
        headers: Those of every request, as `http.client` takes them; a name may be there several
            times.
        certificate: A client certificate; empty for none.
    """

    headers: dict[str, str] | urllib3.HTTPHeaderDict
    certificate: str
    key: str


class Credentials:
    """The credentials of an access, always current; safe to share between threads."""

    def __init__(self, access: Access, clock: Callable[[], float] = time.monotonic) -> None:
        self._access = access
        self._clock = clock
        self._lock = threading.Lock()
        self._current: Credential | None = None
        self._until = float("inf")

    def current(self) -> Credential:
        """Return the current credential.

        Raises:
            ClusterError: with reason `Credentials`: a token cannot be read, a plugin failed.
        """
        with self._lock:
            if self._access.client is not None:
                client = self._access.client
                try:
                    settings = client.configuration.auth_settings().values()
                except Exception as error:
                    problem = f"the client cannot renew its token: {error}"
                    raise ClusterError("Credentials", problem) from error
                named = {each["key"]: each["value"] for each in settings}
                headers = {
                    name: _encoded(name, str(value))
                    for name, value in {**client.default_headers, **named}.items()
                    if value and name.lower() not in _NOT_OF_CLIENTS
                }
                return Credential(headers, "", "")
            if self._current is not None and self._clock() < self._until:
                return self._current
            try:
                return self._renew()
            except ClusterError:
                # Files may be missing for a moment while somebody replaces them.
                if self._current is None or self._access.user.exec:
                    raise
                self._until = self._clock() + _REREAD
                return self._current

    def renewed(self, refused: Credential) -> bool:
        """Renew a credential that got a 401; return whether it has changed."""
        if self._access.client is not None:
            return self.current() != refused
        user = self._access.user
        if not (user.token_file or user.client_certificate or (user.exec and not user.token)):
            return False
        with self._lock:
            if self._current is refused:
                self._renew()
            return self._current != refused

    def _renew(self) -> Credential:
        access, user = self._access, self._access.user
        certificate = pem(user.client_certificate, user.client_certificate_data)
        key = pem(user.client_key, user.client_key_data)
        read_again = user.token_file or (user.client_certificate and not user.exec)
        until = self._clock() + _REREAD if read_again else float("inf")
        authorization = ""
        if user.token_file:
            try:
                token = Path(user.token_file).read_text(errors="surrogateescape").strip()
                problem = f"the token file {user.token_file} is empty"
            except OSError as error:
                token = ""
                problem = f"cannot read the token file {user.token_file}: {error.strerror}"
            if not token and not user.token:
                raise ClusterError("Credentials", problem)
            authorization = f"Bearer {token or user.token}"
        elif user.token:
            authorization = f"Bearer {user.token}"
        elif user.username or user.password:
            authorization = basic(user.username, user.password)
        elif user.exec is not None:
            status = _issued(user.exec, access)
            authorization = f"Bearer {status.token}" if status.token else ""
            if status.client_certificate_data:
                certificate, key = status.client_certificate_data, status.client_key_data or ""
            if status.expiration_timestamp:
                left = (status.expiration_timestamp - datetime.now(UTC)).total_seconds()
                until = min(until, self._clock() + max(0.0, left))
        shown = [("Authorization", authorization)] if authorization else []
        pairs = [(name, _encoded(name, value)) for name, value in (*shown, *user.impersonation)]
        headers: dict[str, str] | urllib3.HTTPHeaderDict = dict(pairs)
        if len(headers) < len(pairs):  # a user may be impersonated with several groups
            headers = urllib3.HTTPHeaderDict(pairs)
        self._current, self._until = Credential(headers, certificate, key), until
        return self._current


_NOT_OF_CLIENTS = frozenset({"accept", "accept-encoding", "content-type", "user-agent"})
"""Headers that say what a request of ours is, or who sends it."""


def basic(username: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"


def _encoded(name: str, value: str) -> str:
    """Encode a header as UTF-8, as `http.client` writes it: each byte a character."""
    if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value):
        raise ClusterError(
            "Credentials",
            f"the value of the HTTP header {name} has a line break or another control character",
            hint="check the user in the kubeconfig",
        )
    return value.encode(errors="surrogateescape").decode("latin-1")


# Credential plugins ------------------------------------------------------------------------------


class _Issued(Struct, frozen=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: Annotated[datetime, Meta(tz=True)] | None = None


class _ExecCredential(Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Issued | None = None


_CREDENTIAL = msgspec.json.Decoder(_ExecCredential)


def _issued(plugin: ExecPlugin, access: Access) -> _Issued:
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not terminal:
        raise _fault(plugin, "needs a terminal for its prompt")
    interactive = terminal and plugin.interactive_mode != "Never"
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        of = access.cluster
        authority = pem(of.certificate_authority, of.certificate_authority_data)
        optional = {
            "tls-server-name": of.tls_server_name,
            "insecure-skip-tls-verify": of.insecure_skip_tls_verify,
            "certificate-authority-data": authority.encode(),  # as base64
            "proxy-url": of.proxy_url,
        }
        spec["cluster"] = {"server": of.server} | {
            name: value for name, value in optional.items() if value
        }
        if of.plugin_config is not None:
            spec["cluster"]["config"] = of.plugin_config
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    try:
        done = subprocess.run(  # noqa: S603 (the user's kubeconfig says so)
            [plugin.command, *plugin.args],
            env={
                **os.environ,
                **{entry["name"]: entry.get("value", "") for entry in plugin.env},
                "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
            },
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
        )
    except (OSError, ValueError) as error:
        problem = f"cannot be run: {getattr(error, 'strerror', error)}"
        raise _fault(plugin, problem, plugin.install_hint.strip()) from None
    if done.returncode:
        raise _fault(plugin, f"failed with exit code {done.returncode}")
    try:
        answer = _CREDENTIAL.decode(done.stdout)
    except ValueError:
        answer = _ExecCredential()
    if (answer.kind, answer.api_version) != ("ExecCredential", plugin.api_version):
        raise _fault(plugin, f"printed no valid ExecCredential of {plugin.api_version}")
    status = answer.status or _Issued()
    if bool(status.client_certificate_data) != bool(status.client_key_data) or not (
        status.token or status.client_certificate_data
    ):
        raise _fault(plugin, "printed neither a token nor a certificate with its key")
    return status


def _fault(plugin: ExecPlugin, problem: str, hint: str = "") -> ClusterError:
    return ClusterError(
        "Credentials", f"the credential plugin {plugin.command} {problem}", hint=hint
    )
