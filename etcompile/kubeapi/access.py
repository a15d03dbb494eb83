"""The values needed to talk to a cluster: its address, the user, and the credentials.

They come from a kubeconfig or from the files that a Pod mounts. The code that sends requests does
not need to know which.
"""

from pathlib import Path
from typing import Any

from msgspec import Struct

from etcompile.kubeapi.errors import ClusterError


class Pem(Struct, frozen=True):
    """A certificate or key: the file that holds it, or its text."""

    file: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.file or self.text)

    def read(self) -> str:
        """The text, read from the file where there is one.

        Raises:
            ClusterError: with reason `Kubeconfig`: the file cannot be read.
        """
        if not self.file:
            return self.text
        try:
            return Path(self.file).read_text(errors="replace")
        except FileNotFoundError:
            raise ClusterError("Kubeconfig", f"there is no certificate file {self.file}") from None
        except OSError as error:
            problem = f"cannot read the certificate file {self.file}: {error.strerror}"
            raise ClusterError("Kubeconfig", problem) from None


class Variable(Struct, frozen=True):
    """A variable of a plugin's environment."""

    name: str = ""
    value: str = ""


class ExecPlugin(Struct, frozen=True, rename="camel"):
    """A program that prints credentials: `exec` of a user in a kubeconfig.

    Args:
        command: What to run; a path with a separator is relative to the kubeconfig.
        env: Variables to add to our environment.
        api_version: Of its ExecCredential.
        interactive_mode: `Never`, `IfAvailable` or `Always`: whether it gets our standard input.
        provide_cluster_info: Whether it needs to know the cluster.
        install_hint: How to install it.
    """

    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    api_version: str = ""
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False
    install_hint: str = ""


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
        headers: Headers of every request, those that impersonate another user.
    """

    name: str = ""
    token: str = ""
    token_file: str = ""
    username: str = ""
    password: str = ""
    certificate: Pem = Pem()
    key: Pem = Pem()
    plugin: ExecPlugin | None = None
    headers: tuple[tuple[str, str], ...] = ()


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
