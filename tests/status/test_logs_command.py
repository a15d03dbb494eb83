"""`etcompile logs`: lines of several Pods, from an API server whose kubelet is the test."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from etcompile.cli.logs import rank_of
from etcompile.k8s.pods import current_init, running_init
from etcompile.kubeapi import connect
from etcompile.status.explanations import Explanation, explanations
from etcompile.status.reader import Seen, with_logs
from specs import kubeflow_job
from status.explained import objects, unschedulable

FINISHED = "2026-11-23T10:00:00Z"
LAST_LINE = "the end without a line break"
LOG = f"epoch 1\n\npassword=hunter2hunter2\n\x1b[31mred\n{LAST_LINE}".encode()


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


def job_and_worker() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The objects of a job, and the Pod of its worker."""
    values = objects(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 1}))
    assert (values[-1]["kind"], values[-1]["metadata"]["name"]) == ("Pod", "mnist-worker-0")
    return values, values[-1]


def explained_with_logs(
    kubeconfig: Path, values: list[dict[str, Any]], *pods: dict[str, Any]
) -> Explanation:
    """The explanation of a job, with the logs of these Pods."""
    [why] = explanations(values)
    there = {("Pod", "ml", pod["metadata"]["name"]): pod for pod in pods}
    with connect(kubeconfig=str(kubeconfig)) as cluster:
        return with_logs(cluster, Seen("mnist", "ml", objects=there), why)


def test_log_of_a_running_init_container_says_what_a_pod_waits_for(kubeconfig: Path) -> None:
    values, pod = job_and_worker()
    name = "wait-for-workers"
    init = {"name": name, "state": {"running": {}}}
    pod["status"] = {"phase": "Pending", "initContainerStatuses": [init]}
    assert running_init(pod) == name
    assert running_init({**pod, "status": {**pod["status"], "phase": "Running"}}) == ""
    held = {one.name: one for one in explained_with_logs(kubeconfig, values, pod).held}
    last = LOG.decode().splitlines()[-1]
    assert held["mnist-worker-0"].message.endswith(f"container {name}: {last}")
    assert last not in held["mnist-master-0"].message


def test_log_of_the_first_failure_is_read_if_the_status_of_its_pod_is_too_short(
    kubeconfig: Path,
) -> None:
    values, pod = job_and_worker()
    pod["metadata"]["uid"] = "u-1"
    how = {"exitCode": 1, "reason": "Error", "message": LAST_LINE, "finishedAt": FINISHED}
    main = {"name": "pytorch", "state": {"terminated": how}}
    pod["status"] = {"phase": "Failed", "containerStatuses": [main]}
    [why] = explanations(values)
    assert why.last is not None
    assert why.last.first.tail == LAST_LINE
    failure = explained_with_logs(kubeconfig, values, pod).last
    assert failure is not None
    assert failure.first.tail.startswith("epoch 1\n\npassword=")
    assert failure.first.tail.endswith(LAST_LINE)
    assert "hunter2" not in failure.first.tail
    how["message"] = "what the program wrote to /dev/termination-log\n"
    failure = explained_with_logs(kubeconfig, values, pod).last
    assert failure is not None
    assert failure.first.tail == how["message"].strip()


@pytest.mark.parametrize("exists", [True, False])
def test_unbound_claims_of_a_pod_without_volumes_or_that_is_gone_are_none(
    kubeconfig: Path, *, exists: bool
) -> None:
    values, pod = job_and_worker()
    words = "pod has unbound immediate PersistentVolumeClaims"
    pod["status"] = unschedulable(words)
    pod["spec"] = {name: value for name, value in pod["spec"].items() if name != "volumes"}
    held = explained_with_logs(kubeconfig, values, *([pod] if exists else [])).held
    [message] = [replica.message for replica in held if replica.name == "mnist-worker-0"]
    assert message.endswith(words)


def test_default_container_of_logs_is_the_init_container_that_a_pod_waits_for() -> None:
    ended = {"terminated": {"exitCode": 1}}
    backing_off = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}
    waits = {"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}

    def at(phase: str, init: dict[str, object], main: dict[str, object] = waits) -> str:
        inits = [{"name": "first", "state": {"terminated": {"exitCode": 0}}}, {"name": "b", **init}]
        status = {"phase": phase, "initContainerStatuses": inits, "containerStatuses": [main]}
        return current_init({"status": status})

    assert at("Pending", {"state": {"running": {}}}) == "b"
    assert at("Pending", backing_off) == "b"
    assert at("Failed", {"state": ended}) == "b"
    runs = {"name": "main", "state": {"running": {}}}
    assert (
        at("Running", {"restartCount": 1, "state": {"running": {}}, "lastState": ended}, runs) == ""
    )


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
    from etcompile.cli.main import program

    words = {"COMP_WORDS": f"etcompile status --kubeconfig {kubeconfig} --context h"}
    environment = {**words, "COMP_CWORD": "5", "_ETCOMPILE_COMPLETE": "bash_complete"}
    done = CliRunner().invoke(program, [], env=environment, prog_name="etcompile")
    assert done.output.splitlines() == ["plain,here"]
