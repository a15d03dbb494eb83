"""A job is run again: all its Pods go, with what was written down of the run, and come anew."""

import json
import signal

import pytest
import yaml

from apply.kubelet import ended, ready
from specs import elastic_job, kubeflow_job
from world import mpi_job

PODS = {"mnist-launcher", "mnist-worker-0", "mnist-worker-1"}


def uids(objects, kind="Pod"):
    return {
        name.partition("/")[2]: one["metadata"]["uid"]
        for name, one in objects().items()
        if name.startswith(f"{kind}/")
    }


@pytest.fixture
def applied(run, job, kubelet, objects):
    job(replicas=2)
    run("apply", "jobs", code=0)
    return uids(objects)


@pytest.fixture
def mark(ask, objects):
    """Writes the watcher's two ConfigMaps, as it does when a run has ended."""

    def write(manager="etcompile-watcher", **more):
        run = objects()["Pod/mnist-launcher"]["metadata"]["annotations"]["etcompile.dev/spec-hash"]
        record = {"metadata": {"name": "mnist-etcompile-status"}, "data": {"done": run, **more}}
        ask("POST", "configmaps", record, manager=manager)
        hosts = {
            "metadata": {"name": "mnist-etcompile-hosts"},
            "data": {"hostfile": "mnist-worker-1:1\n"},
        }
        if manager == "etcompile-watcher":
            ask("POST", "configmaps", hosts, manager=manager)

    return write


def test_failed_launcher_recreates_all_pods(
    run, applied, kubelet, objects, mark, writes, namespace
):
    kubelet.let("mnist-launcher", ended(code=1))
    failed = run("apply", "jobs", code=3)
    assert failed.stdout.endswith("to run it again: etcompile restart mnist\n"), failed.stdout
    assert f"etcompile restart mnist -n {namespace}" in run("status", "mnist").stdout
    mark(phase="Failed")
    before = len(writes())
    kubelet.let("mnist-launcher", ready())
    done = run("restart", "mnist", code=0)
    now = uids(objects)
    assert now.keys() == applied.keys() == PODS
    assert not {*now.values()} & {*applied.values()}
    left = objects()
    assert "ConfigMap/mnist-etcompile-status" not in left
    assert "ConfigMap/mnist-etcompile-hosts" not in left
    assert "ConfigMap/mnist-config" in left
    # All have gone, and the record too, before the first new one comes; launchers go first.
    requests = [one for one in writes()[before:] if "etcompile-mnist" not in one]
    verbs = [one.split()[0] for one in requests]
    assert verbs == ["delete"] * 5 + ["create"] * 3
    assert requests[0] == "delete pods/mnist-launcher"
    assert {*requests[3:5]} == {
        "delete configmaps/mnist-etcompile-status",
        "delete configmaps/mnist-etcompile-hosts",
    }
    assert "done: 3 created, 5 deleted" in done.stdout


def test_nothing_else_changes_and_the_files_still_say_the_same(run, applied, objects):
    rest = {name: one for name, one in objects().items() if not name.startswith("Pod/")}
    run("restart", "mnist", "-q", code=0)
    now = objects()
    for name, value in rest.items():
        assert now[name]["metadata"]["uid"] == value["metadata"]["uid"]
    parent = now["ConfigMap/etcompile-mnist"]["metadata"]
    assert parent["annotations"] == rest["ConfigMap/etcompile-mnist"]["metadata"]["annotations"]
    assert "no differences" in run("diff", "jobs").stdout
    run("delete", "jobs", code=0)
    assert objects() == {}


@pytest.mark.parametrize("how", ["client", "server"])
def test_a_dry_run_shows_what_would_be_done_and_does_nothing(run, applied, writes, how):
    before = writes()
    done = run("restart", "mnist", f"--dry-run={how}", code=0)
    assert "3 to create, 3 to delete" in done.stdout
    assert "3 objects will be deleted" in done.stdout
    assert writes() == before


@pytest.mark.parametrize(
    "document", [mpi_job(), mpi_job(version="v2beta1"), elastic_job({"worker": 2})]
)
def test_every_kind_can_be_restarted(run, write, kubelet, objects, namespace, document):
    document["metadata"] = {"name": "mnist", "namespace": namespace}
    if document["apiVersion"].endswith("v2beta1"):
        document["spec"]["slotsPerWorker"] = 1
    write(document)
    run("apply", "jobs", code=0)
    before = uids(objects) | uids(objects, "Job")
    run("restart", "mnist", code=0)
    after = uids(objects) | uids(objects, "Job")
    assert before.keys() == after.keys()
    assert not {*before.values()} & {*after.values()}
    assert "no differences" in run("diff", "jobs").stdout


def test_missing_objects_are_created_and_undeclared_ones_stay(run, applied, ask, objects):
    ask("DELETE", "pods/mnist-worker-1")
    labels = objects()["Pod/mnist-worker-0"]["metadata"]["labels"]
    spec = {"containers": [{"name": "debug", "image": "busybox:1"}]}
    theirs = {"metadata": {"name": "my-debugger", "labels": labels}, "spec": spec}
    ask("POST", "pods", theirs, manager="kubectl-debug")
    before = uids(objects)
    run("restart", "mnist", code=0)
    now = uids(objects)
    assert now.keys() == PODS | {"my-debugger"}
    assert now["my-debugger"] == before["my-debugger"]


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"annotations": {"etcompile.dev/prevent-destroy": "true"}}, "forbids deleting it"),
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}, "Flux Kustomization apps"),
        ({"annotations": {"etcompile.dev/prune": "disabled"}}, "etcompile.dev/prune"),
    ],
)
def test_a_pod_that_must_not_be_deleted_refuses_it(run, applied, ask, writes, metadata, words):
    ask("PATCH", "pods/mnist-worker-0", {"metadata": metadata})
    before = writes()
    done = run("restart", "mnist", code=4)
    assert words in done.stderr
    assert writes() == before


def test_a_marker_that_a_person_wrote_goes_and_what_only_has_its_name_refuses(
    run, applied, mark, objects
):
    mark(manager="kubectl-create")
    run("restart", "mnist", code=0)
    assert "ConfigMap/mnist-etcompile-status" not in objects()
    mark(manager="kubectl-create", notes="of mine")
    done = run("restart", "mnist", code=4)
    assert "kubectl-create made it, and it holds notes" in done.stderr
    assert "ConfigMap/mnist-etcompile-status" in objects()


def test_a_job_that_is_not_there_is_refused(run, applied, writes):
    before = writes()
    done = run("restart", "mnits", code=7)
    assert "did you mean 'mnist'?" in done.stderr
    assert writes() == before


def test_a_job_that_is_suspended_is_refused(run, write, kubelet, namespace):
    document = kubeflow_job("PyTorchJob", {"Worker": 1}, runPolicy={"suspend": True})
    document["metadata"]["namespace"] = namespace
    write(document)
    run("apply", "jobs", code=0)
    done = run("restart", "mnist", code=7)
    assert "mnist cannot be restarted: it is suspended" in done.stderr


def test_one_that_cannot_delete_creates_nothing(run, applied, ask, objects, kubelet):
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    ask("PATCH", "pods/mnist-worker-0", held)
    done = run("restart", "mnist", "--timeout", "4s", code=3)
    assert "kept by the finalizers example.com/hold" in done.stdout
    assert "create Pod" in done.stdout.split("not done:")[1]
    assert uids(objects).keys() == {"mnist-worker-0"}
    ask("PATCH", "pods/mnist-worker-0", {"metadata": {"finalizers": None}})
    run("restart", "mnist", code=0)
    assert uids(objects).keys() == PODS


def test_killed_restart_is_finished_by_the_next(run, start, applied, objects, slow):
    started = start("restart", "mnist", "--concurrency", "1", KUBECONFIG=str(slow.kubeconfig))
    while started.poll() is None and slow.count() < 4:
        pass
    started.send_signal(signal.SIGKILL)
    started.wait()
    run("restart", "mnist", code=0)
    assert uids(objects).keys() == PODS
    assert "no differences" in run("diff", "jobs").stdout


def test_events_belong_to_one_rollout(run, applied):
    done = run("restart", "mnist", "--output", "json")
    reported = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["event"] for one in reported].count("plan") == 1
    assert [one["event"] for one in reported].count("end") == 1
    assert (reported[-1]["event"], reported[-1]["exit"], reported[-1]["done"]) == ("end", 0, 6)


def test_a_job_that_another_tool_applied_needs_leave(run, job, kubelet, ask, objects):
    job(replicas=1)
    for value in yaml.safe_load_all(run("render", "jobs").stdout):
        ask("POST", f"{value['kind'].lower()}s", value)
    before = uids(objects)
    run("restart", "mnist", code=0)
    assert uids(objects).keys() == before.keys()
    assert not {*uids(objects).values()} & {*before.values()}
    assert "ConfigMap/etcompile-mnist" not in objects()
