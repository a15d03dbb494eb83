"""From kubeconfig files, or a Pod's own mount, to where a cluster is and who asks.

kubectl's rules, which are its documentation's: an explicit file must exist and is the only one;
else the files of KUBECONFIG are merged, and the first to set a value or to define a name wins;
else `~/.kube/config`; and where nothing is configured, the ServiceAccount of the Pod we run in.
Relative paths are relative to the file they stand in. The `kubernetes` package is not used for
it: there the last `current-context` wins, a credential plugin that fails leaves the request
anonymous, and importing it takes longer than asking an API server for a thousand Pods.
"""

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from etcompile.kubeapi.access import Access, ExecPlugin, Pem, User
from etcompile.kubeapi.errors import ClusterError

MOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a Pod finds its ServiceAccount's token, namespace and CA."""


class _Entry(Struct, frozen=True):
    """A named entry of a kubeconfig, with the file it stands in."""

    value: Mapping[str, Any]
    file: Path


class _Merged(Struct, frozen=True):
    """Several kubeconfigs as one."""

    files: tuple[Path, ...]
    current: str
    clusters: Mapping[str, _Entry]
    contexts: Mapping[str, _Entry]
    users: Mapping[str, _Entry]


def access(
    context: str | None = None,
    namespace: str | None = None,
    kubeconfig: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    mount: Path = MOUNT,
) -> Access:
    """Where the cluster is and who asks, by kubectl's rules.

    Args:
        context: The context to take instead of the current one.
        namespace: The namespace to take instead of the context's.
        kubeconfig: The one file to read.
        environment: Of the process; `os.environ` if None.
        mount: Where a Pod finds its ServiceAccount.

    Raises:
        ClusterError: with reason `Kubeconfig`; the message names the file.
    """
    env = os.environ if environment is None else environment
    merged = _merged(_files(kubeconfig, env), explicit=kubeconfig is not None)
    nothing = not merged.contexts and not merged.current
    if nothing and context is None and kubeconfig is None and env.get("KUBERNETES_SERVICE_HOST"):
        return _in_cluster(env, namespace, mount)
    return _of_context(merged, context, namespace)


def contexts(kubeconfig: str | Path | None = None) -> list[str]:
    """The names of the contexts, as `access` finds them."""
    files = _files(kubeconfig, os.environ)
    return sorted(_merged(files, explicit=kubeconfig is not None).contexts)


def _files(kubeconfig: str | Path | None, env: Mapping[str, str]) -> tuple[Path, ...]:
    """The files to merge, the weightiest first."""
    if kubeconfig is not None:
        return (Path(kubeconfig).expanduser(),)
    if listed := env.get("KUBECONFIG"):
        return tuple(Path(name).expanduser() for name in listed.split(os.pathsep) if name)
    return (Path(env.get("HOME") or "~").expanduser() / ".kube" / "config",)


def _merged(files: Sequence[Path], *, explicit: bool) -> _Merged:
    """One configuration of all files; what an earlier one defines, a later one cannot change."""
    current = ""
    tables: dict[str, dict[str, _Entry]] = {"clusters": {}, "contexts": {}, "users": {}}
    for file in files:
        content = _content(file, explicit=explicit)
        current = current or str(content.get("current-context") or "")
        for table, known in tables.items():
            for entry in _list(content.get(table), f"{file}: {table}"):
                name = str(entry.get("name", ""))
                value = entry.get(table.removesuffix("s")) or {}
                known.setdefault(name, _Entry(value, file))
    return _Merged(tuple(files), current, tables["clusters"], tables["contexts"], tables["users"])


def _content(file: Path, *, explicit: bool) -> Mapping[str, Any]:
    """A file's content; a file that KUBECONFIG names and is not there is an empty one."""
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        if explicit:
            raise _fault(f"there is no kubeconfig {file}") from None
        return {}
    except OSError as error:
        raise _fault(f"cannot read the kubeconfig {file}: {error.strerror}") from None
    try:
        content = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except yaml.YAMLError as error:
        # The error's own text quotes the line, and the line may hold a token.
        mark = getattr(error, "problem_mark", None)
        place = f":{mark.line + 1}" if mark else ""
        raise _fault(f"the kubeconfig {file}{place} is not YAML") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise _fault(f"the kubeconfig {file} is not a mapping")
    return content


def _list(value: Any, where: str) -> list[Mapping[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise _fault(f"{where} is not a list of named entries")
    return value


def _of_context(merged: _Merged, context: str | None, namespace: str | None) -> Access:
    name = context or merged.current
    read = ", ".join(str(file) for file in merged.files)
    known = ", ".join(sorted(merged.contexts))
    if not name:
        if not known:
            raise _fault(
                f"no cluster is configured (looked in {read})",
                "set KUBECONFIG, or pass --kubeconfig FILE",
            )
        raise _fault(f"no current-context is set in {read}", f"pass --context: {known}")
    if name not in merged.contexts:
        where = f"there is no context {name!r} in {read}"
        raise _fault(where, f"the contexts are: {known}" if known else "")
    entry = merged.contexts[name]
    cluster = _named(merged.clusters, entry, name, "cluster")
    user = _named(merged.users, entry, name, "user")
    said = namespace or entry.value.get("namespace") or "default"
    return _access(name, str(said), cluster, user, str(entry.value.get("user") or ""))


def _named(table: Mapping[str, _Entry], context: _Entry, name: str, what: str) -> _Entry:
    """The cluster or the user that a context names; a context without a user is anonymous."""
    wanted = str(context.value.get(what) or "")
    if wanted in table:
        return table[wanted]
    if not wanted and what == "user":
        return _Entry({}, context.file)
    raise _fault(
        f"context {name!r} of {context.file} names the {what} {wanted!r}, which is not defined"
    )


def _access(name: str, namespace: str, cluster: _Entry, user: _Entry, user_name: str) -> Access:
    value = cluster.value
    server = str(value.get("server") or "")
    if not server:
        raise _fault(f"the cluster of context {name!r} has no server ({cluster.file})")
    authority = _pem(cluster, "certificate-authority")
    insecure = bool(value.get("insecure-skip-tls-verify"))
    if insecure and authority:
        raise _fault(
            f"the cluster of context {name!r} has a CA and insecure-skip-tls-verify"
            f" ({cluster.file})",
            "leave out insecure-skip-tls-verify",
        )
    found = _user(user, user_name)
    if "://" not in server:
        secured = authority or insecure or found.certificate
        server = f"{'https' if secured else 'http'}://{server}"
    return Access(
        server.rstrip("/"),
        namespace,
        name,
        found,
        authority=authority,
        verify=not insecure,
        server_name=str(value.get("tls-server-name") or ""),
        proxy=str(value["proxy-url"]) if value.get("proxy-url") else None,
        compression=not value.get("disable-compression"),
        extension=_extension(value),
    )


def _user(entry: _Entry, name: str) -> User:
    value = entry.value
    token = str(value.get("token") or "")
    provider = value.get("auth-provider")
    if not token and provider and not value.get("exec"):
        token = _provider_token(provider, name)
    return User(
        name,
        token,
        _path(entry, value.get("tokenFile")),
        str(value.get("username") or ""),
        str(value.get("password") or ""),
        _pem(entry, "client-certificate"),
        _pem(entry, "client-key"),
        _plugin(entry, name) if value.get("exec") else None,
        tuple(_impersonation(value)),
    )


def _provider_token(provider: Mapping[str, Any], name: str) -> str:
    """The token that an auth-provider has left in the file.

    kubectl alone renews it, and writes the file: whoever else did would throw away the login,
    because a refresh token is good for one use.
    """
    config = provider.get("config") or {}
    token = str(config.get("id-token") or config.get("access-token") or "")
    if provider.get("name") != "oidc" or not token:
        raise ClusterError(
            "Credentials",
            f"user {name!r} has the auth-provider {provider.get('name')!r}, which is gone from"
            " kubectl too",
            hint="use a credential plugin (`exec` in the kubeconfig)",
        )
    return token


def _plugin(entry: _Entry, name: str) -> ExecPlugin:
    value = entry.value["exec"]
    version = str(value.get("apiVersion") or "")
    if not version.startswith("client.authentication.k8s.io/v1"):
        raise _fault(f"exec of user {name!r} has the apiVersion {version!r} ({entry.file})")
    command = str(value.get("command") or "")
    if not command:
        raise _fault(f"exec of user {name!r} has no command ({entry.file})")
    if os.sep in command:
        command = _path(entry, command)
    return ExecPlugin(
        command,
        tuple(str(argument) for argument in value.get("args") or ()),
        {str(pair["name"]): str(pair["value"]) for pair in value.get("env") or ()},
        version,
        str(value.get("interactiveMode") or "IfAvailable"),
        bool(value.get("provideClusterInfo")),
        str(value.get("installHint") or "").strip(),
    )


def _impersonation(value: Mapping[str, Any]) -> list[tuple[str, str]]:
    headers = []
    if value.get("as"):
        headers.append(("Impersonate-User", str(value["as"])))
    if value.get("as-uid"):
        headers.append(("Impersonate-Uid", str(value["as-uid"])))
    headers += [("Impersonate-Group", str(group)) for group in value.get("as-groups") or ()]
    for key, values in (value.get("as-user-extra") or {}).items():
        headers += [(f"Impersonate-Extra-{key}", str(text)) for text in values]
    return headers


def _extension(cluster: Mapping[str, Any]) -> Any:
    for entry in cluster.get("extensions") or ():
        if entry.get("name") == "client.authentication.k8s.io/exec":
            return entry.get("extension")
    return None


def _path(entry: _Entry, value: Any) -> str:
    return str(entry.file.absolute().parent / str(value)) if value else ""


def _pem(entry: _Entry, key: str) -> Pem:
    """A file of certificates, or its content in base64; the content counts where both stand."""
    data = entry.value.get(f"{key}-data")
    if not data:
        return Pem(file=_path(entry, entry.value.get(key)))
    try:
        text = base64.b64decode("".join(str(data).split()), validate=True)
        return Pem(text=text.decode())
    except (binascii.Error, UnicodeDecodeError):
        raise _fault(f"{key}-data in {entry.file} is not PEM in base64") from None


def _in_cluster(env: Mapping[str, str], namespace: str | None, mount: Path) -> Access:
    """The access of the ServiceAccount of the Pod we run in."""
    host, port = env["KUBERNETES_SERVICE_HOST"], env.get("KUBERNETES_SERVICE_PORT", "443")
    token = mount / "token"
    if not token.exists():
        raise _fault(
            f"this Pod has no ServiceAccount token ({token})",
            "let automountServiceAccountToken be true, or give a kubeconfig",
        )
    own = mount / "namespace"
    said = (
        namespace or env.get("POD_NAMESPACE") or (own.read_text().strip() if own.exists() else "")
    )
    authority = mount / "ca.crt"
    return Access(
        f"https://{f'[{host}]' if ':' in host else host}:{port}",
        said or "default",
        "",
        User("the Pod's ServiceAccount", token_file=str(token)),
        authority=Pem(file=str(authority)) if authority.exists() else Pem(),
        proxy="",  # the API server's Service is never behind one
    )


def _fault(message: str, hint: str = "") -> ClusterError:
    return ClusterError("Kubeconfig", message, hint=hint)
