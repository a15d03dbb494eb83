"""A credential plugin: a program that prints a token or a client certificate.

The protocol is `client.authentication.k8s.io`: the program reads the request from the variable
KUBERNETES_EXEC_INFO and prints an ExecCredential. Its standard error is ours, as with kubectl: it
may ask people to log in. A plugin that fails ends the command; going on without credentials would
show people a Forbidden instead.
"""

import os
import subprocess
import sys
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from etcompile.kubeapi.access import Access, ExecPlugin
from etcompile.kubeapi.errors import ClusterError


class Issued(Struct, frozen=True, rename="camel"):
    """The status of an ExecCredential.

    Args:
        token: A bearer token.
        client_certificate_data: A client certificate in PEM.
        client_key_data: The private key, in PEM.
        expiration_timestamp: When they expire; None for never.
    """

    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: Annotated[datetime, Meta(tz=True)] | None = None


class _ExecCredential(Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: Issued | None = None


_CREDENTIAL = msgspec.json.Decoder(_ExecCredential)


def issued(plugin: ExecPlugin, access: Access) -> Issued:
    """Runs a plugin.

    Args:
        plugin: Which program, and how.
        access: The cluster, for plugins that need to know it.

    Raises:
        ClusterError: with reason `Credentials`.
    """
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not terminal:
        raise _fault(plugin, "needs a terminal for its prompt")
    interactive = terminal and plugin.interactive_mode != "Never"
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        spec["cluster"] = _cluster(access)
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    try:
        done = subprocess.run(  # noqa: S603 (the user's kubeconfig says so)
            [plugin.command, *plugin.args],
            env={
                **os.environ,
                **{variable.name: variable.value for variable in plugin.env},
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
    except msgspec.ValidationError as error:
        problem, _, place = str(error).replace("`", "").partition(" - at $.")
        raise _fault(plugin, f"printed a wrong {place or 'object'}: {problem.lower()}") from None
    except ValueError:
        raise _fault(plugin, "printed no ExecCredential") from None
    if answer.kind != "ExecCredential":
        raise _fault(plugin, "printed no ExecCredential")
    if answer.api_version != plugin.api_version:
        versions = f"{answer.api_version}, the kubeconfig wants {plugin.api_version}"
        raise _fault(plugin, f"speaks {versions}")
    status = answer.status or Issued()
    if bool(status.client_certificate_data) != bool(status.client_key_data) or not (
        status.token or status.client_certificate_data
    ):
        raise _fault(plugin, "printed neither a token nor a certificate with its key")
    return status


def _cluster(access: Access) -> dict[str, Any]:
    """The cluster as the protocol describes it."""
    cluster: dict[str, Any] = {"server": access.server}
    if access.server_name:
        cluster["tls-server-name"] = access.server_name
    if not access.verify:
        cluster["insecure-skip-tls-verify"] = True
    if access.authority:
        cluster["certificate-authority-data"] = access.authority.read().encode()  # as base64
    if access.proxy:
        cluster["proxy-url"] = access.proxy
    if access.extension is not None:
        cluster["config"] = access.extension
    return cluster


def _fault(plugin: ExecPlugin, problem: str, hint: str = "") -> ClusterError:
    return ClusterError(
        "Credentials", f"the credential plugin {plugin.command} {problem}", hint=hint
    )
