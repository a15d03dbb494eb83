"""Find where a cluster is and which user talks to it.

That is in kubeconfig files, a Pod's mount or a program's client, by kubectl's rules: an explicit
file must exist and is the only one; else the files of KUBECONFIG are merged, and the first to set a
value or to define a name wins; else `~/.kube/config`; and where nothing is configured, the
ServiceAccount of the Pod we run in.
"""

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import msgspec
import urllib3
import yaml
from msgspec import Struct, field, structs

from etcompile.k8s.objects import without_nulls
from etcompile.kubeapi.errors import ClusterError, KubeconfigError

MOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a Pod finds its ServiceAccount's token, namespace and CA."""

_EXEC = "client.authentication.k8s.io"
_KEY = "!#$&'*+^`|"
"""What the name of an HTTP header may hold (RFC 9110 5.6.2) that `quote` would escape."""

_Entry = TypeVar("_Entry", bound=Struct)


class ExecPlugin(Struct, frozen=True, rename="camel"):
    """A program that prints credentials: `exec` of a user in a kubeconfig.

    Args:
        env: Variables, each with `name` and `value`.
        api_version: That of its ExecCredential.
        interactive_mode: `Never`, `IfAvailable` or `Always`: whether it gets our standard input.
    """

    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[dict[str, str], ...] = ()
    api_version: str = ""
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False
    install_hint: str = ""


class _Provider(Struct, frozen=True):
    name: str = ""
    config: dict[str, str] = {}


class User(Struct, frozen=True, rename="kebab"):
    """The user of a kubeconfig. The first of these that is set counts: token, password, plugin."""

    token: str = ""
    token_file: str = field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: ExecPlugin | None = None
    auth_provider: _Provider | None = None
    impersonate: str = field(name="as", default="")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: dict[str, tuple[str, ...]] = {}

    @property
    def impersonation(self) -> list[tuple[str, str]]:
        pairs = [("User", self.impersonate)] if self.impersonate else []
        pairs += [("Uid", self.as_uid)] if self.as_uid else []
        pairs += [("Group", group) for group in self.as_groups]
        # The API server unescapes the key.
        pairs += [
            (f"Extra-{quote(key, safe=_KEY)}", text)
            for key, values in self.as_user_extra.items()
            for text in values
        ]
        return [(f"Impersonate-{kind}", text) for kind, text in pairs]


class KubeCluster(Struct, frozen=True, rename="kebab"):
    """Where an API server is, and how it proves its identity."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: tuple[dict[str, Any], ...] = ()

    @property
    def plugin_config(self) -> Any:
        entries = {entry.get("name"): entry.get("extension") for entry in self.extensions}
        return entries.get(f"{_EXEC}/exec")


class ApiClient(Protocol):
    """What etcompile uses of a `kubernetes.client.ApiClient`; it never imports that package."""

    @property
    def configuration(self) -> Any: ...
    @property
    def default_headers(self) -> Mapping[str, Any]: ...
    @property
    def rest_client(self) -> Any: ...


class Access(Struct, frozen=True):
    """A cluster, and how to talk to it: its paths are absolute, its data is text.

    Args:
        context: The context's name; empty inside a Pod, and with a client.
        client: A program's client, whose connections and headers are used.
    """

    context: str
    namespace: str
    cluster: KubeCluster
    user: User
    client: ApiClient | None = None


class _Context(Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(Struct, frozen=True):
    name: str = ""
    cluster: KubeCluster = KubeCluster()


class _NamedContext(Struct, frozen=True):
    name: str = ""
    context: _Context = _Context()


class _NamedUser(Struct, frozen=True):
    name: str = ""
    user: User = User()


class _Config(Struct, frozen=True, rename="kebab"):
    api_version: str = field(name="apiVersion", default="v1")
    kind: str = "Config"
    current_context: str = ""
    clusters: tuple[_NamedCluster, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()
    users: tuple[_NamedUser, ...] = ()


_CONFIG = msgspec.json.Decoder(_Config)


class _Merged(Struct, frozen=True):
    """Several kubeconfigs as one; each entry with the file that defines it."""

    files: tuple[Path, ...]
    current: str
    clusters: Mapping[str, tuple[KubeCluster, Path]]
    contexts: Mapping[str, tuple[_Context, Path]]
    users: Mapping[str, tuple[User, Path]]


def access(
    context: str | ApiClient | None = None,
    namespace: str | None = None,
    kubeconfig: str | Path | None = None,
) -> Access:
    """Find the cluster and the user, by kubectl's rules or from a client.

    Raises:
        ClusterError: with reason `Kubeconfig`; the message names the file.
        TypeError: the context is neither a name nor a client.
    """
    if context is not None and not isinstance(context, str):
        connections = getattr(getattr(context, "rest_client", None), "pool_manager", None)
        if not isinstance(connections, urllib3.PoolManager):
            kind = f"{type(context).__module__}.{type(context).__qualname__}"
            raise TypeError(f"a context is a name or a kubernetes.client.ApiClient, not a {kind}")
        settings = context.configuration
        cluster = KubeCluster(
            settings.host.rstrip("/"), certificate_authority=settings.ssl_ca_cert or ""
        )
        return Access("", namespace or "default", cluster, User(), context)
    merged = _merged(kubeconfig)
    chosen = merged.contexts or merged.current or context is not None or kubeconfig is not None
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    if chosen or not host:
        return _of_context(merged, context, namespace)
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    token, home, authority = (MOUNT / name for name in ("token", "namespace", "ca.crt"))
    if not token.exists():
        raise KubeconfigError(
            f"this Pod has no ServiceAccount token ({token})",
            "let automountServiceAccountToken be true, or give a kubeconfig",
        )
    namespace = namespace or os.environ.get("POD_NAMESPACE")
    if not namespace and home.exists():
        namespace = home.read_text().strip()
    cluster = KubeCluster(
        f"https://{f'[{host}]' if ':' in host else host}:{port}",
        certificate_authority=str(authority) if authority.exists() else "",
    )
    return Access("", namespace or "default", cluster, User(token_file=str(token)))


def contexts(kubeconfig: str | Path | None = None) -> list[str]:
    return sorted(_merged(kubeconfig).contexts)


def _merged(kubeconfig: str | Path | None) -> _Merged:
    names = [Path(os.environ.get("HOME") or "~") / ".kube" / "config"]
    if kubeconfig is not None:
        names = [Path(kubeconfig)]
    elif listed := os.environ.get("KUBECONFIG"):
        names = [Path(name) for name in listed.split(os.pathsep) if name]
    files = tuple(name.expanduser() for name in names)
    current = ""
    clusters: dict[str, tuple[KubeCluster, Path]] = {}
    contexts: dict[str, tuple[_Context, Path]] = {}
    users: dict[str, tuple[User, Path]] = {}
    for file in files:
        config = _config(file, explicit=kubeconfig is not None)
        current = current or config.current_context
        for cluster in config.clusters:
            clusters.setdefault(cluster.name, (cluster.cluster, file))
        for context in config.contexts:
            contexts.setdefault(context.name, (context.context, file))
        for user in config.users:
            users.setdefault(user.name, (user.user, file))
    return _Merged(files, current, clusters, contexts, users)


def _config(file: Path, *, explicit: bool) -> _Config:
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        if explicit:
            raise KubeconfigError(f"there is no kubeconfig {file}") from None
        return _Config()
    except OSError as error:
        raise KubeconfigError(f"cannot read the kubeconfig {file}: {error.strerror}") from None
    try:
        content = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
        config = _CONFIG.decode(msgspec.json.encode(without_nulls(content) or {}))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        if isinstance(error, msgspec.ValidationError):
            words = str(error).replace("`", "").replace(" | null", "")
            problem, _, place = words.partition(" - at $")
            where = place.lstrip(".") or "the file"
            raise KubeconfigError(f"the kubeconfig {file}: {where}: {problem.lower()}") from None
        # The error's own text quotes the line, and the line may hold a token.
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise KubeconfigError(f"the kubeconfig {file}{line} is not YAML") from None
    if (config.api_version, config.kind) != ("v1", "Config"):
        raise KubeconfigError(
            f"{file} is no kubeconfig: it is {config.kind} of {config.api_version}"
        )
    for entries in (config.clusters, config.contexts, config.users):
        names = [entry.name for entry in entries]
        for name in names:
            if names.count(name) > 1:
                raise KubeconfigError(f"the kubeconfig {file} defines {name!r} twice in one list")
    return config


def _of_context(merged: _Merged, name: str | None, namespace: str | None) -> Access:
    name = name or merged.current
    read = ", ".join(str(file) for file in merged.files)
    known = ", ".join(sorted(merged.contexts))
    if not name:
        if not known:
            raise KubeconfigError(
                f"no cluster is configured (looked in {read})",
                "set KUBECONFIG, or pass --kubeconfig FILE",
            )
        raise KubeconfigError(f"no current-context is set in {read}", f"pass --context: {known}")
    if name not in merged.contexts:
        where = f"there is no context {name!r} in {read}"
        raise KubeconfigError(where, f"the contexts are: {known}" if known else "")
    context, file = merged.contexts[name]
    undefined = f"context {name!r} of {file} names the {{}} {{!r}}, which is not defined"
    if context.cluster not in merged.clusters:
        raise KubeconfigError(undefined.format("cluster", context.cluster))
    if context.user and context.user not in merged.users:
        raise KubeconfigError(undefined.format("user", context.user))
    cluster, cluster_file = merged.clusters[context.cluster]
    if not cluster.server:
        raise KubeconfigError(f"the cluster of context {name!r} has no server ({cluster_file})")
    cluster = _usable(cluster, cluster_file, "certificate_authority")
    authority = cluster.certificate_authority or cluster.certificate_authority_data
    if cluster.insecure_skip_tls_verify and authority:
        raise KubeconfigError(
            f"the cluster of context {name!r} has a CA and insecure-skip-tls-verify"
            f" ({cluster_file})",
            "leave out insecure-skip-tls-verify",
        )
    user = _user(*merged.users.get(context.user, (User(), file)), context.user)
    server = cluster.server
    if "://" not in server:
        certificate = user.client_certificate or user.client_certificate_data
        secured = authority or cluster.insecure_skip_tls_verify or certificate
        server = f"{'https' if secured else 'http'}://{server}"
    cluster = structs.replace(cluster, server=server.rstrip("/"))
    if not server.lower().startswith("https://"):
        # As with kubectl, no credentials are sent where anybody can read them.
        user = User(
            impersonate=user.impersonate,
            as_uid=user.as_uid,
            as_groups=user.as_groups,
            as_user_extra=user.as_user_extra,
        )
    return Access(name, namespace or context.namespace or "default", cluster, user)


def _user(user: User, file: Path, name: str) -> User:
    plugin, provider = user.exec, user.auth_provider
    user = _usable(user, file, "client_certificate", "client_key", "token_file")
    if provider and not user.token and not plugin:
        # kubectl alone renews it, and writes the file: whoever else did would throw away the
        # login, because a refresh token is good for one use.
        token = provider.config.get("id-token") or provider.config.get("access-token") or ""
        if provider.name != "oidc" or not token:
            raise ClusterError(
                "Credentials",
                f"user {name!r} has the auth-provider {provider.name!r},"
                " which kubectl has dropped too",
                hint="use a credential plugin (`exec` in the kubeconfig)",
            )
        user = structs.replace(user, token=token)
    if plugin:
        version, mode = plugin.api_version, plugin.interactive_mode
        for valid, what in (
            (version in (f"{_EXEC}/v1", f"{_EXEC}/v1beta1"), f"the apiVersion {version!r}"),
            (mode in ("Never", "IfAvailable", "Always"), f"the interactiveMode {mode!r}"),
            (plugin.command, "no command"),
            (all(entry.get("name") for entry in plugin.env), "a variable without a name"),
        ):
            if not valid:
                raise KubeconfigError(f"exec of user {name!r} has {what} ({file})")
        if os.sep in plugin.command:
            user = structs.replace(user, exec=_usable(plugin, file, "command"))
    if user.impersonation and not user.impersonate:
        raise KubeconfigError(
            f"user {name!r} impersonates a uid, groups or extra without `as` ({file})"
        )
    return user


def _usable(entry: _Entry, file: Path, *names: str) -> _Entry:
    """Return an entry with absolute paths, and with its data decoded.

    Data counts where a path stands beside it.
    """
    changes: dict[str, str] = {}
    for name in names:
        if data := getattr(entry, f"{name}_data", ""):
            try:
                content = base64.b64decode("".join(data.split()), validate=True)
            except ValueError:
                key = name.replace("_", "-")
                raise KubeconfigError(f"{key}-data in {file} is not PEM in base64") from None
            changes |= {name: "", f"{name}_data": content.decode(errors="replace")}
        elif path := getattr(entry, name):
            changes[name] = str(file.absolute().parent / path)
    return structs.replace(entry, **changes)


def pem(file: str, text: str) -> str:
    """Return a certificate or key, read from its file if it has one."""
    if not file:
        return text
    try:
        return Path(file).read_text(errors="replace")
    except FileNotFoundError:
        raise KubeconfigError(f"there is no certificate file {file}") from None
    except OSError as error:
        raise KubeconfigError(
            f"cannot read the certificate file {file}: {error.strerror}"
        ) from None
