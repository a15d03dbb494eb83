"""The command: what it serves over HTTP, and what it does with `--once`."""

import urllib.error
import urllib.request
from contextlib import closing

import pytest
from click.testing import CliRunner
from watched import QUICK, Running, eventually, training_job

from etcompile.cli.watch import command
from etcompile.integrations.watcher_manifests import NAME
from etcompile.kubeapi.controller.endpoints import Endpoints


def test_endpoints_serve_health_readiness_and_metrics(place, watching):
    running = watching()
    place.begin()
    checks = {"/healthz": running.watcher.healthy, "/readyz": running.watcher.ready}
    with closing(Endpoints("127.0.0.1", 0, running.watcher.metrics.text, checks)) as serving:

        def get(path: str) -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{serving.port}{path}") as answer:
                return answer.read().decode()

        assert get("/healthz") == "healthy\n"
        assert get("/readyz") == "ready\n"
        metrics = get("/metrics")
        assert "etcompile_watch_leader 1.0" in metrics
        assert "etcompile_watch_pods 3.0" in metrics
        writes = 'etcompile_watch_api_writes_total{kind="ConfigMap",status="ok",verb="create"}'
        assert writes in metrics
        labels = f'job_name="bert",job_namespace="{place.namespace}"'
        goodput = f"etcompile_watch_goodput_ratio{{{labels}}}"
        eventually(lambda: goodput in get("/metrics"))
        with pytest.raises(urllib.error.HTTPError):
            get("/other")


def test_failing_check_is_answered_with_503():
    checks = {"/readyz": lambda: (False, "not yet")}
    with closing(Endpoints("127.0.0.1", 0, bytes, checks)) as serving:
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://127.0.0.1:{serving.port}/readyz")
        with caught.value as answer:
            assert (answer.code, answer.read()) == (503, b"not yet\n")


def test_once_replaces_what_failed_and_ends(place, granted, control_plane):
    place.kubelets()
    place.submit(training_job())
    eventually(lambda: len(place.ready()) == 2)
    kubeconfig = control_plane.kubeconfig(token=granted(), namespace=place.namespace)
    first = Running(kubeconfig, place.namespace, leads=False, timeouts=QUICK)
    first.watcher.once()
    assert place.hosts() == ["bert-worker-0", "bert-worker-1"]
    uid = place.uid("bert-worker-1")
    place.fails("bert-worker-1")
    first.cluster.close()
    second = Running(kubeconfig, place.namespace, leads=False, timeouts=QUICK)
    second.watcher.once()
    assert place.uid("bert-worker-1") not in ("", uid)
    second.cluster.close()


def test_once_leaves_jobs_to_the_watcher_that_holds_the_lease(place, watching, control_plane):
    running = watching()
    eventually(lambda: running.leading.valid)
    kubeconfig = control_plane.kubeconfig(token="admin-token", namespace=place.namespace)
    result = CliRunner().invoke(command, ["--once", "--kubeconfig", str(kubeconfig)])
    assert result.exit_code == 0, result.output
    assert "nothing to do" in result.output
    assert NAME not in result.output
