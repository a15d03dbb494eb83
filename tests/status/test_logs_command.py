"""`etcompile logs`: lines of several Pods, from an API server whose kubelet is the test."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from etcompile.cli.logs import rank_of
from etcompile.kubeapi import connect

LOG = b"epoch 1\n\npassword=hunter2hunter2\n\x1b[31mred\nthe end without a line break"


DISCOVERY = {
    "kind": "APIResourceList",
    "groupVersion": "v1",
    "resources": [{"name": "pods", "namespaced": True, "kind": "Pod", "verbs": ["get"]}],
}


class _Answers(http.server.BaseHTTPRequestHandler):
    """The log of a container, as a kubelet sends it: in chunks where it is followed."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = LOG if "/log?" in self.path else json.dumps(DISCOVERY).encode()
        self.send_response(200)
        if "follow=true" in self.path:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for start in range(0, len(body), 7):
                part = body[start : start + 7]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    file = tmp_path / "kubeconfig"
    url = f"http://127.0.0.1:{server.server_address[1]}"
    file.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "here",
            }
        )
    )
    yield file
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("follow", [False, True])
def test_every_line_arrives_empty_and_unended_ones_too(kubeconfig: Path, *, follow: bool) -> None:
    with connect(None, "ml", kubeconfig) as cluster:
        lines = [*cluster.log("bert-worker-0", "main", follow=follow, tail=3)]
    assert lines == LOG.decode().split("\n")


def test_the_rank_is_the_one_that_the_program_sees() -> None:
    def pod(env: dict[str, str], **labels: str) -> dict[str, object]:
        container = {"name": "main", "env": [{"name": k, "value": v} for k, v in env.items()]}
        named = {f"etcompile.dev/{key}": value for key, value in labels.items()}
        return {"metadata": {"labels": named}, "spec": {"containers": [container]}}

    assert rank_of(pod({"RANK": "1"}, index="0")) == 1
    assert rank_of(pod({}, index="4")) == 4
    assert rank_of(pod({}, index="9", rank="2")) == 2
    assert rank_of(pod({"RANK": "$(X)"})) is None


def test_contexts_are_completed(kubeconfig: Path) -> None:
    from etcompile.cli.main import _etcompile

    words = {"COMP_WORDS": f"etcompile status --kubeconfig {kubeconfig} --context h"}
    environment = {**words, "COMP_CWORD": "5", "_ETCOMPILE_COMPLETE": "bash_complete"}
    done = CliRunner().invoke(_etcompile, [], env=environment, prog_name="etcompile")
    assert done.output.splitlines() == ["plain,here"]
