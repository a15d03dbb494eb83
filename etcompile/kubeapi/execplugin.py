"""A credential plugin: a program that prints a token or a client certificate.

The protocol is `client.authentication.k8s.io`: the program learns what it is asked in the
variable KUBERNETES_EXEC_INFO and prints an ExecCredential. A plugin that fails ends the command
with the plugin's own words; going on without credentials would show people a Forbidden instead.
"""

import os
import subprocess
import sys
from typing import Any

import msgspec
from msgspec import Struct

from etcompile.kubeapi.access import Access, ExecPlugin, Pem
from etcompile.kubeapi.errors import ClusterError


class Issued(Struct, frozen=True):
    """What a plugin printed.

    Args:
        token: A bearer token; may be empty.
        certificate: A client certificate in PEM; may be empty.
        expires: When it expires, RFC 3339; empty for never.
    """

    token: str
    certificate: str
    key: str
    expires: str


def issued(plugin: ExecPlugin, access: Access) -> Issued:
    """Runs a plugin.

    Args:
        plugin: Which program, and how.
        access: The cluster, for plugins that want to know.

    Raises:
        ClusterError: with reason `Credentials`.
    """
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive == "Always" and not terminal:
        raise _fault(plugin, "needs a terminal for its prompt")
    interactive = terminal and plugin.interactive != "Never"
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.cluster_info:
        spec["cluster"] = _cluster(access)
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {
        **os.environ,
        **plugin.environment,
        "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
    }
    try:
        done = subprocess.run(  # noqa: S603 (the user's kubeconfig says so)
            [plugin.command, *plugin.arguments],
            env=environment,
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            # Whoever is asked to log in must see what to do.
            stderr=None if interactive else subprocess.PIPE,
            check=False,
        )
    except OSError as error:
        raise _fault(plugin, f"cannot be run: {error.strerror}", plugin.install_hint) from None
    if done.returncode:
        said = " ".join((done.stderr or b"").decode(errors="replace").split())
        raise _fault(
            plugin, f"failed with exit code {done.returncode}{said and f': {said[-300:]}'}"
        )
    return _read(plugin, done.stdout)


def _read(plugin: ExecPlugin, printed: bytes) -> Issued:
    """What the ExecCredential says."""
    try:
        answer = msgspec.json.decode(printed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        answer = None
    if not isinstance(answer, dict) or answer.get("kind") != "ExecCredential":
        raise _fault(plugin, "printed no ExecCredential")
    if answer.get("apiVersion") != plugin.api_version:
        raise _fault(
            plugin, f"speaks {answer.get('apiVersion')}, the kubeconfig wants {plugin.api_version}"
        )
    status = answer.get("status") or {}
    found = Issued(
        str(status.get("token") or ""),
        str(status.get("clientCertificateData") or ""),
        str(status.get("clientKeyData") or ""),
        str(status.get("expirationTimestamp") or ""),
    )
    if not found.token and not (found.certificate and found.key):
        raise _fault(plugin, "printed neither a token nor a certificate with its key")
    return found


def _cluster(access: Access) -> dict[str, Any]:
    """The cluster as plugins are told of it."""
    told: dict[str, Any] = {"server": access.server}
    if access.server_name:
        told["tls-server-name"] = access.server_name
    if not access.verify:
        told["insecure-skip-tls-verify"] = True
    if access.authority:
        told["certificate-authority-data"] = _bytes(access.authority)
    if access.proxy:
        told["proxy-url"] = access.proxy
    if access.extension is not None:
        told["config"] = access.extension
    return told


def _bytes(pem: Pem) -> bytes:
    """What msgspec writes as base64."""
    if pem.text:
        return pem.text.encode()
    with open(pem.file, "rb") as file:  # noqa: PTH123 (a name, not a Path)
        return file.read()


def _fault(plugin: ExecPlugin, problem: str, hint: str = "") -> ClusterError:
    return ClusterError(
        "Credentials", f"the credential plugin {plugin.command} {problem}", hint=hint
    )
