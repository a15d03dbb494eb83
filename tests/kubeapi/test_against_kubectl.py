"""kubectl as the oracle of our client: the same kubeconfigs through both.

A recording server stands in for the API server, because what matters is what arrives: who asks, as
whom, by which proxy. Where kubectl refuses a kubeconfig, we refuse it too and name the field.
"""

import base64
import contextlib
import http.server
import json
import os
import socketserver
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.certificates import Authority
from etcompile.kubeapi import ClusterError, Retries, connect
from etcompile.kubeapi.authentication import Credentials

ONCE = Retries(attempts=1)


class Recorder(http.server.ThreadingHTTPServer):
    """Answers as `/version` of an API server, and keeps what came."""

    daemon_threads = True

    def __init__(self, handler: type[http.server.BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.seen: list[Any] = []
        self.refusal = 0

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Api(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Recorder

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        headers: dict[str, list[bytes]] = {}
        for name, value in self.headers.items():
            if name.lower().startswith(("authorization", "impersonate")):
                headers.setdefault(name.lower(), []).append(value.encode("latin-1"))
        subject = []
        if isinstance(self.connection, ssl.SSLSocket):
            peer: Any = self.connection.getpeercert() or {}
            subject = [value for part in peer.get("subject", ()) for _, value in part]
        self.server.seen.append((self.path, headers, subject))
        body = json.dumps({"gitVersion": "v1.34.4"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Proxy(Api):
    """An HTTP proxy: it connects, and for plain HTTP it answers itself."""

    def do_CONNECT(self) -> None:
        import socket

        self.server.seen.append(("CONNECT", self.path, self.headers["Proxy-Authorization"]))
        if self.server.refusal:
            self.send_error(self.server.refusal)
            return
        host, port = self.path.rsplit(":", 1)
        with socket.create_connection((host.replace("api.test", "127.0.0.1"), int(port))) as there:
            self.send_response(200)
            self.end_headers()
            relay(self.connection, there)
        self.close_connection = True

    def do_GET(self) -> None:
        if self.server.refusal:
            self.send_error(self.server.refusal)
            return
        super().do_GET()


class Socks(socketserver.BaseRequestHandler):
    """A SOCKS 5 proxy with a user and a password (RFC 1928, 1929)."""

    def handle(self) -> None:
        import socket

        here = self.request
        methods = here.recv(here.recv(2)[1])
        here.sendall(b"\x05\x02" if 2 in methods else b"\x05\x00")
        login = []
        if 2 in methods:
            here.recv(1)
            login = [here.recv(here.recv(1)[0]) for _ in range(2)]
            here.sendall(b"\x01\x00")
        *_, kind = here.recv(4)
        size = {1: 4, 3: 0, 4: 16}[kind] or here.recv(1)[0]
        host = here.recv(size)
        (port,) = struct.unpack(">H", here.recv(2))
        self.server.seen.append((kind, host, login))  # type: ignore[attr-defined]
        with socket.create_connection(("127.0.0.1", port)) as there:
            here.sendall(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00")
            relay(here, there)


def relay(here: Any, there: Any) -> None:
    def back() -> None:
        with contextlib.suppress(OSError):
            while data := there.recv(65536):
                here.sendall(data)

    thread = threading.Thread(target=back, daemon=True)
    thread.start()
    with contextlib.suppress(OSError):
        while data := here.recv(65536):
            there.sendall(data)
        there.shutdown(2)
    thread.join(5)


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def api(authority) -> Iterator[Recorder]:
    """A server with TLS that asks for a client certificate and does without one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.server("api"))
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_OPTIONAL
    with Recorder(Api) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.start()
        yield server
        server.shutdown()


@pytest.fixture
def plain() -> Iterator[Recorder]:
    """The same without TLS."""
    with Recorder(Api) as server:
        server.start()
        yield server
        server.shutdown()


@pytest.fixture
def proxy() -> Iterator[Recorder]:
    with Recorder(Proxy) as server:
        server.start()
        yield server
        server.shutdown()


@pytest.fixture
def written(tmp_path, authority) -> Callable[..., Path]:
    """`written(user, server=…)`: a kubeconfig; its text, or the entries of user and cluster."""

    def write(user: Any = None, text: str = "", **cluster: Any) -> Path:
        path: Path = tmp_path / "config"
        entry = {key.replace("_", "-"): value for key, value in cluster.items()}
        if (
            str(entry.get("server")).startswith("https")
            and "certificate-authority-data" not in entry
        ):
            entry.setdefault("certificate-authority", str(authority.file))
        value = {
            "clusters": [{"name": "a", "cluster": entry}],
            "users": [{"name": "a", "user": user or {}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "current-context": "a",
        }
        path.write_text(text or json.dumps(value))
        return path

    return write


@pytest.fixture
def by_kubectl(kubectl_program) -> Callable[..., str]:
    """Asks for the version; what kubectl says against it, empty if it got an answer."""

    def run(config: Path, **environment: str) -> str:
        done = subprocess.run(
            [kubectl_program, "--kubeconfig", config, "get", "--raw", "/version"],
            env={"PATH": os.environ["PATH"], "HOME": str(config.parent), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return done.stderr if done.returncode else ""

    return run


def by_ours(config: Path) -> str:
    """The same of our client."""
    try:
        with connect(kubeconfig=config, retries=ONCE, timeout=10) as cluster:
            assert cluster.version() == "v1.34.4"
    except ClusterError as error:
        return str(error)
    return ""


def both(by_kubectl: Callable[..., str], config: Path, *servers: Recorder) -> tuple[str, str]:
    """What both say; what arrived at the servers must be the same."""
    kubectl = by_kubectl(config)
    expected = [[*server.seen] for server in servers]
    for server in servers:
        server.seen.clear()
    ours = by_ours(config)
    assert [server.seen for server in servers] == expected
    assert any(expected) or kubectl
    assert bool(kubectl) == bool(ours), (kubectl, ours)
    assert "\n" not in ours
    return kubectl, ours


# ---- who asks --------------------------------------------------------------------------------

USERS = {
    "nobody": {},
    "token": {"token": "secret"},
    "token of other characters": {"token": "bjørn☃"},
    "token with a tab": {"token": "a\tb"},
    "password": {"username": "bjørn", "password": "p:å"},
    "as": {"token": "x", "as": "bjørn"},
    "as with everything": {
        "token": "x",
        "as": "system:serviceaccount:a:b",
        "as-uid": "1-2",
        "as-groups": ["a b", "系统"],
        "as-user-extra": {"scopes": ["a", "b"], "Ex.org/Key %é|~": ["ü"], "a:b,c=d": [""]},
    },
    "null": {"token": None, "as-groups": None, "exec": None},
}


@pytest.mark.parametrize("user", USERS.values(), ids=USERS)
def test_the_same_headers_arrive(by_kubectl, written, api, user):
    if user.get("token") or "username" in user:
        both(by_kubectl, written(user, server=f"https://{api.address}"), api)
    else:  # kubectl asks for a user then
        assert by_ours(written(user, server=f"https://{api.address}")) == ""
        assert [headers for _, headers, _ in api.seen] == [{}]


@pytest.mark.parametrize("user", USERS.values(), ids=USERS)
def test_no_credentials_are_sent_without_tls(by_kubectl, written, plain, user):
    both(by_kubectl, written(user, server=f"http://{plain.address}"), plain)
    assert all("authorization" not in headers for _, headers, _ in plain.seen)


def test_no_credentials_are_sent_to_a_server_without_a_scheme(by_kubectl, written, plain):
    both(by_kubectl, written({"token": "x"}, server=plain.address), plain)


def test_no_plugin_runs_without_tls(written, plain, tmp_path):
    command = ["-c", f"touch {tmp_path}/ran"]
    entry = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": command}
    assert by_ours(written({"exec": entry}, server=f"http://{plain.address}")) == ""
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("character", ["\r\n", "\n", "\0", "\x7f"])
@pytest.mark.parametrize("field", ["token", "tokenFile", "as", "as-groups"])
def test_a_header_with_a_control_character_is_refused_and_not_shown(
    by_kubectl, written, api, tmp_path, field, character
):
    value: Any = f"very{character}secret"
    if field == "tokenFile":
        (tmp_path / "token").write_bytes(value.encode())
        value = "token"
    value = [value] if field == "as-groups" else value
    config = written({"token": "x", "as": "a", field: value}, server=f"https://{api.address}")
    kubectl, ours = both(by_kubectl, config, api)
    header = kubectl.split('"')[-2]
    assert f"HTTP header {header} " in ours
    assert "secret" not in ours


def test_a_file_of_a_token_may_hold_any_bytes(by_kubectl, written, api, tmp_path):
    (tmp_path / "token").write_bytes(b"\xff\xfe\n")
    both(by_kubectl, written({"tokenFile": "token"}, server=f"https://{api.address}"), api)


def data(text: bytes) -> str:
    return base64.b64encode(text).decode()


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
@pytest.mark.parametrize("inline", [True, False])
def test_a_bundle_may_have_comments_in_any_encoding(
    by_kubectl, written, api, authority, tmp_path, encoding, inline
):
    bundle = "# Autorité de Zürich\n".encode(encoding) + authority.file.read_bytes()
    (tmp_path / "bundle").write_bytes(bundle)
    cluster_fields = (
        {"certificate_authority_data": data(bundle)}
        if inline
        else {"certificate_authority": "bundle"}
    )
    both(
        by_kubectl, written({"token": "x"}, server=f"https://{api.address}", **cluster_fields), api
    )


def test_a_client_certificate_arrives_and_is_read_again_when_it_changes(
    by_kubectl, written, api, authority, tmp_path, monkeypatch
):
    def install(name: str) -> None:
        for source, target in zip(authority.user(name, []), ("c.crt", "c.key"), strict=True):
            (tmp_path / target).write_bytes(source.read_bytes())

    install("alice")
    user = {"client-certificate": "c.crt", "client-key": "c.key"}
    config = written(user, server=f"https://{api.address}")
    both(by_kubectl, config, api)
    assert api.seen[-1][2] == ["alice"]
    now = 0.0
    monkeypatch.setattr(
        "etcompile.kubeapi.session.Credentials", lambda access: Credentials(access, lambda: now)
    )
    with connect(kubeconfig=config, retries=ONCE) as cluster:
        cluster.version()
        (tmp_path / "c.crt").write_bytes(authority.user("mallory", [])[0].read_bytes())
        now = 61.0  # the key does not fit: what was there before goes on
        cluster.version()
        (tmp_path / "c.crt").unlink()
        now = 122.0
        cluster.version()
        install("bob")
        now = 183.0
        cluster.version()
    assert [subject for _, _, (subject,) in api.seen[1:]] == ["alice", "alice", "alice", "bob"]


# ---- credential plugins ------------------------------------------------------------------------


def plugin(script: str, **more: Any) -> dict[str, Any]:
    entry = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", f"import json, os, sys\n{script}"],
        "interactiveMode": "IfAvailable",
        **more,
    }
    return {"exec": entry}


def printed(**status: Any) -> str:
    value = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": status,
    }
    return f"print({json.dumps(value)!r})"


def test_what_a_plugin_says_is_shown_where_there_is_no_terminal(by_kubectl, written, api, capfd):
    script = "print('open https://login.test', file=sys.stderr)\n" + printed(token="x")
    both(by_kubectl, written(plugin(script), server=f"https://{api.address}"), api)
    assert "open https://login.test" in capfd.readouterr().err


def test_a_plugin_gets_its_variables(by_kubectl, written, api):
    script = "v = os.environ.get('A') + os.environ['B']\n" + printed(token="@").replace(
        '"@"', "\"' + v + '\""
    )
    user = plugin(script, env=[{"name": "A"}, {"name": "B", "value": "b"}])
    both(by_kubectl, written(user, server=f"https://{api.address}"), api)
    assert api.seen[0][1] == {"authorization": [b"Bearer b"]}


PRINTED = {
    "list": "print('[]')",
    "number": "print(json.dumps(1))",
    "no status": 'print(\'{"apiVersion": "client.authentication.k8s.io/v1", \''
    '\'"kind": "ExecCredential"}\')',
    "status is text": printed().replace("{}", '"x"'),
    "token is a number": printed(token=1),
    "token is an object": printed(token={"a": "b"}),
    "certificate only": printed(clientCertificateData="x"),
    "time is text": printed(token="x", expirationTimestamp="soon"),
    "time is a number": printed(token="x", expirationTimestamp=7),
    "time without a zone": printed(token="x", expirationTimestamp="2030-01-01T00:00:00"),
    "not UTF-8": "sys.stdout.buffer.write(b'\\xff')",
}


@pytest.mark.parametrize("script", PRINTED.values(), ids=PRINTED)
def test_what_a_plugin_prints_is_checked(by_kubectl, written, api, script):
    _, ours = both(by_kubectl, written(plugin(script), server=f"https://{api.address}"), api)
    assert "the credential plugin" in ours


# ---- kubeconfigs with a fault ------------------------------------------------------------------

EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "interactiveMode": "Never"}
SHAPES: dict[str, dict[str, Any]] = {
    "clusters.cluster.server": {"server": 1},
    "clusters.cluster.insecure-skip-tls-verify": {"insecure_skip_tls_verify": "true"},
    "clusters.cluster.extensions": {"extensions": {"a": "b"}},
    "users.user": {"user": "x"},
    "users.user.token": {"user": {"token": 123}},
    "users.user.exec": {"user": {"exec": "x"}},
    "users.user.exec.args": {"user": {"exec": {**EXEC, "args": "x"}}},
    "users.user.exec.env": {"user": {"exec": {**EXEC, "env": {"A": "b"}}}},
    "users.user.as-groups": {"user": {"as": "x", "as-groups": "x"}},
    "users.user.as-user-extra": {"user": {"as": "x", "as-user-extra": ["x"]}},
    "users.user.auth-provider": {"user": {"auth-provider": "x"}},
}


@pytest.mark.parametrize(("field", "shape"), SHAPES.items(), ids=SHAPES)
def test_a_value_of_another_type_is_refused_and_its_field_named(by_kubectl, written, field, shape):
    kubectl, ours = both(by_kubectl, written(**{"server": "https://127.0.0.1:1", **shape}))
    assert field in kubectl
    assert field in ours.replace("[0]", "")


S = "server: 'https://127.0.0.1:1'"
REFUSED = {
    "contexts[0].context:": "contexts: [{name: a, context: x}]",
    "contexts[0].context.namespace:": "contexts: [{name: a, context: {namespace: 1}}]",
    "clusters[0].name:": "clusters: [{name: [a]}]",
    "current-context": "current-context: [a]",
    "Pod": "apiVersion: v1\nkind: Pod",
    "v2": "apiVersion: v2\nkind: Config",
    "a": "clusters: [{name: a}, {name: a}]",
    "interactiveMode": "users: [{name: a, user: {exec: {command: x, interactiveMode: Y,"
    " apiVersion: client.authentication.k8s.io/v1}}}]",
    "command": "users: [{name: a, user: {exec: {interactiveMode: Never,"
    " apiVersion: client.authentication.k8s.io/v1}}}]",
    "variable": "users: [{name: a, user: {exec: {command: x, interactiveMode: Never,"
    " env: [{value: b}], apiVersion: client.authentication.k8s.io/v1}}}]",
    "v1alpha1": "users: [{name: a, user: {exec: {command: x, interactiveMode: Never,"
    " apiVersion: client.authentication.k8s.io/v1alpha1}}}]",
    "impersonates": "users: [{name: a, user: {as-groups: [x]}}]",
    "[::1": "clusters: [{name: a, cluster: {server: 'https://[::1'}}]",
    "a b": "clusters: [{name: a, cluster: {server: 'https://a b'}}]",
    "http://[x": f"clusters: [{{name: a, cluster: {{{S}, proxy-url: 'http://[x'}}}}]",
    "foo": f"clusters: [{{name: a, cluster: {{{S}, proxy-url: 'foo://x'}}}}]",
}


@pytest.mark.parametrize(("named", "text"), REFUSED.items(), ids=REFUSED)
def test_what_kubectl_refuses_is_refused_with_the_culprit_named(by_kubectl, written, named, text):
    if "contexts:" not in text and "current-context" not in text and named not in ("Pod", "v2"):
        text += "\ncontexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a"
    if "users:" not in text and named not in ("Pod", "v2"):
        text += "\nusers: [{name: a}]"
    if "clusters:" not in text and named not in ("Pod", "v2"):
        text += f"\nclusters: [{{name: a, cluster: {{{S}}}}}]"
    _, ours = both(by_kubectl, written(text=text))
    assert named in ours


# ---- proxies -----------------------------------------------------------------------------------


def test_a_proxy_gets_its_user_and_password_decoded(by_kubectl, written, api, proxy):
    url = f"http://bj%C3%B8rn%40corp:p%3A%2F%25@{proxy.address}"
    config = written({"token": "x"}, server=f"https://{api.address}", proxy_url=url)
    both(by_kubectl, config, api, proxy)
    login = base64.b64decode(proxy.seen[0][2].removeprefix("Basic ")).decode()
    assert login == "bjørn@corp:p:/%"


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("status", [407, 403, 503])
def test_refusal_of_the_proxy_is_reported_as_from_the_proxy(
    by_kubectl, written, api, plain, proxy, scheme, status
):
    proxy.refusal = status
    target = api if scheme == "https" else plain
    server = f"{scheme}://{target.address}"
    config = written({"token": "x"}, server=server, proxy_url=f"http://{proxy.address}")
    assert by_kubectl(config)
    ours = by_ours(config)
    assert str(status) in ours
    assert target.seen == []
    if scheme == "https":
        assert f"the proxy {proxy.address} does not connect to {target.address}: {status} " in ours


def test_a_socks_proxy_looks_up_the_host_and_gets_the_login(by_kubectl, written, api):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Socks) as server:
        server.seen = []  # type: ignore[attr-defined]
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        config = written(
            {"token": "x"},
            server=f"https://kubernetes.test:{api.server_address[1]}",
            proxy_url=f"socks5://bj%C3%B8rn:p%40@127.0.0.1:{server.server_address[1]}",
        )
        both(by_kubectl, config, api, server)  # type: ignore[arg-type]
        host = b"kubernetes.test"
        assert server.seen == [(3, host, ["bjørn".encode(), b"p@"])]  # type: ignore[attr-defined]
        server.shutdown()


def test_without_pysocks_a_socks_proxy_is_a_clear_error(written, monkeypatch):
    monkeypatch.setattr("etcompile.kubeapi.transport.find_spec", lambda _: None)
    config = written(server="https://10.0.0.1", proxy_url="socks5://127.0.0.1:1")
    with pytest.raises(ClusterError, match="needs PySocks") as caught:
        connect(kubeconfig=config).version()
    assert caught.value.hint == "install the extra etcompile[socks], as docs/install.md shows"


NO_PROXY = [
    "",
    "*",
    "api.test",
    "API.test",
    ".test",
    "*.test",
    "est",
    "test",
    ".api.test",
    "api.test:PORT",
    "api.test:1",
    "other.test, api.test:PORT",
    "10.0.0.0/8",
]


@pytest.mark.parametrize("value", NO_PROXY)
def test_no_proxy_counts_as_in_kubectl(by_kubectl, written, api, proxy, monkeypatch, value):
    port = str(api.server_address[1])
    environment = {
        "HTTPS_PROXY": f"http://{proxy.address}",
        "NO_PROXY": value.replace("PORT", port),
    }
    # Nobody can look up this name: without the proxy the request fails.
    server = f"https://api.test:{port}"
    config = written({"token": "x"}, server=server, tls_server_name="kubernetes.test")
    kubectl = bool(by_kubectl(config, **environment))
    requests = [*proxy.seen]
    proxy.seen.clear()
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
        monkeypatch.delenv(name.lower(), raising=False)
    assert (bool(by_ours(config)), proxy.seen) == (kubectl, requests)


@pytest.mark.parametrize(
    ("host", "value"),
    [
        ("10.0.0.1", "10.0.0.0/8"),
        ("10.0.0.1", "10.0.0.1:6443"),
        ("10.0.0.1", "10.0.0.1:443"),
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "0.0.1"),
        ("fd00::1", "fd00::/8"),
        ("fd00::1", "fd00::1"),
        ("fd00::1", "[fd00::1]:6443"),
        ("fd00::1", "[fd00::1]:443"),
    ],
)
def test_no_proxy_names_addresses_as_in_kubectl(
    by_kubectl, written, proxy, monkeypatch, host, value
):
    proxy.refusal = 503  # enough to see that it was asked
    environment = {"HTTPS_PROXY": f"http://{proxy.address}", "NO_PROXY": value}
    server = f"https://[{host}]:6443" if ":" in host else f"https://{host}:6443"
    config = written({"token": "x"}, server=server)
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
        monkeypatch.delenv(name.lower(), raising=False)
    with (
        connect(kubeconfig=config, retries=ONCE, timeout=1) as cluster,
        pytest.raises(ClusterError),
    ):
        cluster.version()
    ours = [*proxy.seen]
    proxy.seen.clear()
    with contextlib.suppress(subprocess.TimeoutExpired):
        by_kubectl(config, **environment)
    assert ours == proxy.seen[:1]
