"""`etcompile restart` beside a watcher that is at work: a new run, which it then looks after."""

import pytest
import yaml
from watched import eventually, training_job

PODS = {"bert-launcher", "bert-worker-0", "bert-worker-1"}


@pytest.fixture(autouse=True)
def job_file(tmp_path):
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(training_job()))


@pytest.mark.parametrize("how", ["failed", "succeeded", "running"])
def test_restarted_job_has_a_new_run_that_the_watcher_supervises(place, watching, run, how):
    place.kubelets()
    assert run("apply", "job.yaml").returncode == 0
    watching()
    eventually(lambda: place.data("bert-etcompile-status").get("phase") == "Running")
    before = {name: place.uid(name) for name in PODS}
    if how != "running":
        place.becomes(
            "bert-launcher",
            "Failed" if how == "failed" else "Succeeded",
            1 if how == "failed" else 0,
        )
        eventually(lambda: place.data("bert-etcompile-status").get("done"))
    done = run("restart", "bert")
    assert done.returncode == 0, done.stdout + done.stderr
    now = {name: place.uid(name) for name in PODS}
    assert all(now.values())
    assert not {*now.values()} & {*before.values()}
    # It runs, is counted from the beginning, and is nobody's earlier run.
    eventually(lambda: place.data("bert-etcompile-status").get("phase") == "Running")
    assert not place.data("bert-etcompile-status").get("done")
    eventually(lambda: sorted(place.hosts()) == ["bert-worker-0", "bert-worker-1"])
    place.fails("bert-worker-1")
    eventually(lambda: place.uid("bert-worker-1") not in ("", now["bert-worker-1"]))
    assert place.uid("bert-launcher") == now["bert-launcher"]
    unchanged = run("diff", "job.yaml")
    assert unchanged.returncode == 0, unchanged.stdout
    place.becomes("bert-launcher", "Succeeded", 0)
    eventually(lambda: place.data("bert-etcompile-status").get("phase") == "Succeeded")
