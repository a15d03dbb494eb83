"""The ways to a cluster that a kubeconfig, or a Pod, can describe."""

import base64
import os
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from controlplane.certificates import SERVER_NAME
from etcompile.kubeapi import ClusterError, Retries, connect
from etcompile.kubeapi.authentication import Credentials
from etcompile.kubeapi.kubeconfig import access

ONCE = Retries(attempts=1)


def whoami(cluster) -> str:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
    name: str = cluster.create(review)["status"]["userInfo"]["username"]
    return name


def user_of(file: Path) -> str:
    """The name of the user that a kubeconfig describes."""
    with connect(kubeconfig=file) as cluster:
        return whoami(cluster)


def refused(file: Path, match: str | None = None, **how: Any) -> ClusterError:
    """Why a cluster does not answer to a kubeconfig; `match` is in the message."""
    with (
        connect(kubeconfig=file, **how) as cluster,
        pytest.raises(ClusterError, match=match) as caught,
    ):
        cluster.version()
    return caught.value


def test_a_token(written):
    assert user_of(written({"token": "nobody-token"})) == "nobody"


def test_a_client_certificate_in_files_named_relative_to_the_kubeconfig(written, control_plane):
    certificate, key = control_plane.authority.user("alice", [])
    path = written({})
    user = {
        "client-certificate": os.path.relpath(certificate, path.parent),
        "client-key": os.path.relpath(key, path.parent),
    }
    assert user_of(written(user)) == "alice"


def test_a_client_certificate_and_a_ca_as_data(written, control_plane, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    certificate, key = control_plane.authority.user("bob", [])

    def data(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    path = written(
        {"client-certificate-data": data(certificate), "client-key-data": data(key)},
        certificate_authority=None,
        certificate_authority_data=data(control_plane.authority.file),
    )
    with connect(kubeconfig=path) as cluster:
        assert whoami(cluster) == "bob"
        assert not [*tmp_path.glob("etcompile-*")]


def test_a_service_account_with_rights_in_its_namespace_only(control_plane, namespace):
    token = control_plane.service_account(namespace, "builder")
    control_plane.grant(namespace, f"system:serviceaccount:{namespace}:builder")
    path = control_plane.kubeconfig(token=token, namespace=namespace)
    with connect(kubeconfig=path) as cluster:
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
        cluster.create(config_map)
        with pytest.raises(ClusterError, match="forbidden") as caught:
            cluster.get(cluster.resource("v1", "ConfigMap"), "x", "kube-system")
    assert caught.value.diagnostics[0].code == "ET8004"
    assert "can-i" in (caught.value.diagnostics[0].hint or "")


def test_somebody_else_is_acted_as(written):
    user = {"token": "admin-token", "as": "carol", "as-groups": ["system:masters", "ops"]}
    assert user_of(written(user)) == "carol"


def test_a_wrong_token_is_one_clear_error(written):
    error = refused(written({"token": "wrong"}), match="Unauthorized")
    assert error.diagnostics[0].code == "ET8002"
    assert error.attempts == 1


def test_a_token_file_is_read_again_every_minute(written, tmp_path):
    token = tmp_path / "token"
    token.write_text("first\n")
    now = 0.0
    credentials = Credentials(access(kubeconfig=written({"tokenFile": "token"})), lambda: now)
    assert credentials.current().headers == {"Authorization": "Bearer first"}
    token.write_text("second")
    assert credentials.current().headers == {"Authorization": "Bearer first"}
    now = 61.0
    assert credentials.current().headers == {"Authorization": "Bearer second"}


# ---- credential plugins ----------------------------------------------------------------------


TELL = """
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
count = pathlib.Path(__file__).with_suffix(".count")
count.write_text(str(int(count.read_text()) + 1 if count.exists() else 1))
status = {"token": os.environ.get("TOKEN", "nobody-token")}
"""
PRINT = """
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


def test_plugin_runs_once_while_its_token_is_valid(written, plugin, tmp_path):
    user = {"exec": plugin(TELL + PRINT, env=[{"name": "TOKEN", "value": "admin-token"}])}
    with connect(kubeconfig=written(user)) as cluster:
        assert [whoami(cluster) for _ in range(3)] == ["admin"] * 3
    assert (tmp_path / "plugin.count").read_text() == "1"


def test_plugin_runs_again_when_its_token_has_expired(written, plugin, tmp_path):
    expiring = 'status["expirationTimestamp"] = "2020-01-01T00:00:00Z"'
    with connect(kubeconfig=written({"exec": plugin(TELL + expiring + PRINT)})) as cluster:
        assert [whoami(cluster) for _ in range(3)] == ["nobody"] * 3
    assert int((tmp_path / "plugin.count").read_text()) >= 3


def test_plugin_runs_again_after_a_401(written, plugin, tmp_path):
    second = 'status["token"] = "stale" if count.read_text() == "1" else "admin-token"'
    assert user_of(written({"exec": plugin(TELL + second + PRINT)})) == "admin"
    assert (tmp_path / "plugin.count").read_text() == "2"


def test_a_plugin_can_give_a_certificate(written, plugin, control_plane):
    certificate, key = control_plane.authority.user("dave", [])
    credentials = f"""
status = {{"clientCertificateData": pathlib.Path({str(certificate)!r}).read_text(),
          "clientKeyData": pathlib.Path({str(key)!r}).read_text()}}
"""
    assert user_of(written({"exec": plugin(TELL + credentials + PRINT)})) == "dave"


def test_plugin_receives_the_cluster_info(written, plugin, control_plane):
    checks = """
cluster = info["spec"]["cluster"]
assert cluster["server"] == os.environ["SERVER"], cluster
assert cluster["certificate-authority-data"], cluster
assert info["spec"]["interactive"] is False
"""
    environment = [{"name": "SERVER", "value": control_plane.server}]
    entry = plugin(TELL + checks + PRINT, provideClusterInfo=True, env=environment)
    assert user_of(written({"exec": entry})) == "nobody"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("sys.exit('log in first')", "failed with exit code 1"),
        ("print('hello')", "printed no valid ExecCredential"),
        (TELL + "status = {}" + PRINT, "neither a token nor a certificate"),
        (TELL + "info['apiVersion'] = 'x/v9'" + PRINT, "no valid ExecCredential of client.auth"),
    ],
)
def test_a_plugin_that_fails_ends_the_command(written, plugin, source, said):
    error = refused(written({"exec": plugin(source)}), match=said)
    assert error.diagnostics[0].code == "ET8002"


def test_a_plugin_that_is_missing_says_how_to_install_it(written, plugin):
    entry = plugin("", command="no-such-plugin", installHint="brew install it")
    error = refused(written({"exec": entry}), match="no-such-plugin cannot be run")
    assert error.hint == "brew install it"


# ---- which file, which context -----------------------------------------------------------------


def test_the_first_file_of_kubeconfig_wins(written, monkeypatch):
    mine = written({"token": "nobody-token"}, "mine", "ml")
    other = written({"token": "admin-token"}, "other", "prod")
    monkeypatch.setenv("KUBECONFIG", f"{mine}{os.pathsep}/no/such/file{os.pathsep}{other}")
    with connect() as cluster:
        assert (cluster.context, cluster.namespace, whoami(cluster)) == ("mine", "ml", "nobody")
    with connect(context="other") as cluster:
        assert (cluster.context, cluster.namespace, whoami(cluster)) == ("other", "prod", "admin")
    with connect(context="other", namespace="x") as cluster:
        assert cluster.namespace == "x"
    with connect(kubeconfig=other) as cluster:
        assert cluster.context == "other"


def test_what_the_first_file_defines_the_second_cannot_change(written, tmp_path, monkeypatch):
    first = written({"token": "nobody-token"}, "same")
    second = tmp_path / "second"
    second.write_text(first.read_text().replace("nobody-token", "admin-token"))
    monkeypatch.setenv("KUBECONFIG", f"{first}{os.pathsep}{second}")
    with connect() as cluster:
        assert whoami(cluster) == "nobody"


def test_the_home_folder_is_the_last_resort(written, tmp_path, monkeypatch):
    (tmp_path / ".kube").mkdir()
    written({"token": "nobody-token"}, "home").rename(tmp_path / ".kube" / "config")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with connect() as cluster:
        assert cluster.context == "home"


def test_a_pod_uses_its_service_account(tmp_path, control_plane, namespace, monkeypatch):
    (tmp_path / "token").write_text(control_plane.service_account(namespace, "default"))
    (tmp_path / "namespace").write_text(namespace)
    (tmp_path / "ca.crt").write_bytes(control_plane.authority.file.read_bytes())
    host, port = control_plane.server.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr("etcompile.kubeapi.kubeconfig.MOUNT", tmp_path)
    with connect() as cluster:
        assert (cluster.server, cluster.namespace) == (control_plane.server, namespace)
        assert whoami(cluster) == f"system:serviceaccount:{namespace}:default"


CONTEXT = "\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a"
FAULTS = [
    ("clusters: [", "is not YAML"),
    ("- a", "the file: expected object, got array"),
    ("contexts: {}", "contexts: expected array, got object"),
    ("contexts: [{name: a, context: {cluster: a}}]", "no current-context is set"),
    ("contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: b", "there is no context 'b'"),
    (
        "contexts: [{name: a, context: {cluster: z}}]\ncurrent-context: a",
        "names the cluster 'z', which is not defined",
    ),
    ("clusters: [{name: a, cluster: {}}]" + CONTEXT, "has no server"),
    (
        "clusters: [{name: a, cluster: {server: 'https://x', certificate-authority-data: '%'}}]"
        + CONTEXT,
        "is not PEM in base64",
    ),
    (
        "clusters: [{name: a, cluster: {server: 'https://x', certificate-authority: /no/ca}}]"
        + CONTEXT,
        "there is no certificate file /no/ca",
    ),
    ("", "no cluster is configured"),
]


@pytest.mark.parametrize(("text", "said"), FAULTS, ids=[said for _, said in FAULTS])
def test_a_kubeconfig_with_a_fault_is_one_clear_error(tmp_path, text, said):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ClusterError, match=said) as caught:
        connect(kubeconfig=path).version()
    assert str(path) in str(caught.value) or "certificate" in said
    assert caught.value.diagnostics[0].code == "ET8001"
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_wrong_context_are_named(written, tmp_path):
    with pytest.raises(ClusterError, match=r"there is no kubeconfig .*absent"):
        connect(kubeconfig=tmp_path / "absent")
    with pytest.raises(ClusterError, match="there is no context 'prdo'") as caught:
        connect(kubeconfig=written({}, "prod"), context="prdo")
    assert caught.value.diagnostics[0].hint == "the contexts are: prod"


def test_a_broken_kubeconfig_does_not_show_its_secrets(tmp_path):
    path = tmp_path / "config"
    path.write_text("users:\n- name: a\n  user: {token: very-secret: x}\n")
    with pytest.raises(ClusterError) as caught:
        connect(kubeconfig=path)
    assert f"{path}:3" in str(caught.value)
    assert "very-secret" not in str(caught.value)


# ---- TLS and proxies ---------------------------------------------------------------------------


def test_a_certificate_of_another_authority_is_refused_at_once(written, tmp_path):
    from controlplane.certificates import Authority

    stranger = Authority(tmp_path).file
    path = written({"token": "admin-token"}, certificate_authority=str(stranger))
    error = refused(path, match="is not trusted")
    assert error.attempts == 1
    assert error.diagnostics[0].code == "ET8003"


def test_a_certificate_is_not_looked_at_where_the_kubeconfig_says_so(written):
    path = written(
        {"token": "admin-token"}, certificate_authority=None, insecure_skip_tls_verify=True
    )
    assert user_of(path) == "admin"


def test_a_server_may_have_another_name_in_its_certificate(written):
    user = {"token": "admin-token"}
    assert user_of(written(user, tls_server_name=SERVER_NAME)) == "admin"
    refused(written(user, tls_server_name="other.test"), match="is not trusted")


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ("https://127.0.0.1:1", "cannot connect to 127.0.0.1:1: connection refused (context "),
        ("https://[::1]:1", "cannot connect to [::1]:1: "),
        ("https://nowhere.invalid", "cannot find the host of nowhere.invalid:443 (context "),
        ("https://127.0.0.1:many", "'127.0.0.1:many' has no port that can be"),
    ],
)
def test_a_server_that_never_answered_fails_at_once_by_its_name(written, server, problem):
    notices = []
    path = written({"token": "x"}, server=server)
    error = refused(path, retries=Retries(attempts=3, first=0.01), notice=notices.append)
    assert error.attempts == 1
    assert notices == []
    assert not error.uncertain
    assert problem in error.message


def test_a_server_that_has_answered_is_waited_for_when_it_goes_away(written):
    class Once(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"gitVersion": "v1.34.4"}')

        def log_message(self, *arguments):
            pass

    notices = []
    with HTTPServer(("127.0.0.1", 0), Once) as server:
        threading.Thread(target=server.handle_request).start()
        path = written({}, server=f"http://127.0.0.1:{server.server_port}")
        cluster = connect(
            kubeconfig=path, retries=Retries(attempts=3, first=0.01), notice=notices.append
        )
        cluster.version()
    with cluster, pytest.raises(ClusterError, match="connection refused") as caught:
        cluster.version()
    assert caught.value.attempts == 3
    assert len(notices) == 2


@pytest.mark.parametrize(
    ("alert", "attempts"),
    [
        pytest.param(50, 3, id="decode error"),
        pytest.param(80, 3, id="internal error"),
        pytest.param(40, 1, id="handshake failure"),
        pytest.param(42, 1, id="bad certificate"),
        pytest.param(116, 1, id="certificate required"),
    ],
)
def test_an_alert_of_the_server_ends_it_unless_it_blames_the_bytes(written, alert, attempts):
    class Alert(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(4096)
            self.request.sendall(bytes([21, 3, 3, 0, 2, 2, alert]))  # RFC 8446 5.1 and 6

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Alert) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        path = written({"token": "x"}, server=f"https://127.0.0.1:{server.server_address[1]}")
        error = refused(path, retries=Retries(attempts=3, first=0.01))
        server.shutdown()
    assert error.attempts == attempts


def test_a_server_on_loopback_is_reached_without_the_proxy_of_the_environment(written, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    assert user_of(written({"token": "admin-token"})) == "admin"
