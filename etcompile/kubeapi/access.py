"""What it takes to talk to a cluster: where it is, who asks, and what proves it.

Apart from the kubeconfig that says so, because a Pod's mount says it too, and because the code
that sends requests should not know which of them it was.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Pem(Struct, frozen=True):
    """A certificate or key: the file that holds it, or its text."""

    file: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.file or self.text)


class ExecPlugin(Struct, frozen=True):
    """A program that prints credentials.

    Args:
        command: What to run; a path with a separator is relative to the kubeconfig.
        environment: What its environment has besides ours.
        api_version: Of the ExecCredential it speaks.
        interactive: `Never`, `IfAvailable` or `Always`: whether it gets our standard input.
        cluster_info: Whether it wants to be told about the cluster.
        install_hint: What to say where it is missing.
    """

    command: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    api_version: str
    interactive: str
    cluster_info: bool
    install_hint: str


class User(Struct, frozen=True):
    """Who asks. The first of these that is set counts, as in kubectl: token, password, plugin.

    Args:
        name: The user's name in the kubeconfig.
        token: A bearer token.
        token_file: A file with one; it is read again now and then.
        username: For basic authentication.
        password: For basic authentication.
        certificate: A client certificate.
        plugin: A credential plugin.
        impersonation: Headers that ask to act as somebody else.
    """

    name: str = ""
    token: str = ""
    token_file: str = ""
    username: str = ""
    password: str = ""
    certificate: Pem = Pem()
    key: Pem = Pem()
    plugin: ExecPlugin | None = None
    impersonation: tuple[tuple[str, str], ...] = ()


class Access(Struct, frozen=True):
    """A cluster, and how to talk to it.

    Args:
        server: The API server's URL, perhaps with a path.
        namespace: The namespace meant when none is given.
        context: The context's name; empty inside a Pod.
        user: Who asks.
        authority: The CA of the server's certificate; the system's if empty.
        verify: Whether to verify that certificate.
        server_name: The name the certificate must have, if it is not the URL's.
        proxy: A proxy's URL; None to take it from the environment.
        compression: Whether answers may be compressed.
        extension: What the kubeconfig keeps for credential plugins.
    """

    server: str
    namespace: str
    context: str
    user: User
    authority: Pem = Pem()
    verify: bool = True
    server_name: str = ""
    proxy: str | None = None
    compression: bool = True
    extension: Any = None
