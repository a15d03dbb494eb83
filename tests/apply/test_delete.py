"""`etcompile delete`: what belongs to a job goes, in order, and what stays is said."""

import json
import time

import pytest
import yaml

from specs import claim, training_job


@pytest.mark.parametrize("how", ["files", "name"])
def test_a_job_goes_launcher_first_and_leaves_nothing(applied, run, kubelet, writes, objects, how):
    applied(replicas=2)
    before = len(writes())
    run("delete", *(["jobs"] if how == "files" else ["--job", "mnist"]), code=0)
    assert objects() == {}
    order = [one[7:] for one in writes()[before:] if one.startswith("delete ")]
    # The ConfigMap tells a watcher that the job is to go.
    assert {*order[:2]} == {"configmaps/mnist-config", "pods/mnist-launcher"}
    assert {*order[2:4]} == {"pods/mnist-worker-0", "pods/mnist-worker-1"}
    assert {*order[-3:-1]} == {"secrets/mnist", "serviceaccounts/mnist-launcher"}
    assert order[-1] == "configmaps/etcompile-mnist"
    again = run("delete", "jobs", code=0)
    assert "nothing had to be changed" in again.stdout


def test_pods_of_another_manager_are_matched_by_the_jobs_label(applied, run, kubelet, ask, objects):
    applied(replicas=1)
    # As another tool applies it: in no set, and with labels of the template's.
    labels = {"app.kubernetes.io/managed-by": "helm", "applyset.kubernetes.io/part-of": None}
    ask("PATCH", "pods/mnist-worker-0", {"metadata": {"labels": labels}})
    run("delete", "--job", "mnist", code=0)
    assert objects() == {}


def test_each_deletion_names_the_uid(applied, run, kubelet, control_plane, namespace):
    applied(replicas=1)
    run("delete", "jobs")
    deleted = [one for one in control_plane.writes(namespace) if one["verb"] == "delete"]
    assert deleted
    assert all(one["requestObject"]["preconditions"]["uid"] for one in deleted)


def test_claims_and_the_secrets_of_others_are_left_and_named(
    run, write, kubelet, ask, namespace, objects
):
    write(training_job(replicas=1), claim("data"))
    label = {"etcompile.dev/job": "mnist", "app.kubernetes.io/managed-by": "etcompile"}
    keys = {"id_rsa": "a", "id_rsa.pub": "b"}
    theirs = {"metadata": {"name": "mnist", "labels": label}, "stringData": keys}
    ask("POST", "secrets", theirs)
    run("apply", "jobs", code=0)
    done = run("delete", "jobs", code=0)
    assert objects().keys() == {"Secret/mnist", "PersistentVolumeClaim/data"}
    assert f"kept: Secret {namespace}/mnist (etcompile did not create it)" in done.stderr
    assert "kept: PersistentVolumeClaim data (it belongs to no job)" in done.stderr


def test_objects_of_a_rendered_job_are_known_by_their_labels(run, job, kubelet, ask, objects):
    """Applied by another tool: there is no inventory."""
    job(replicas=1)
    for value in yaml.safe_load_all(run("render", "jobs").stdout):
        ask("POST", f"{value['kind'].lower()}s", value)
    run("delete", "--job", "mnist", code=0)
    assert objects() == {}


def test_what_a_sync_tool_looks_after_is_not_deleted_behind_its_back(
    applied, run, kubelet, ask, namespace, writes
):
    applied(replicas=1)
    tracking = {"argocd.argoproj.io/tracking-id": f"team:/Pod:{namespace}/mnist-worker-0"}
    ask("PATCH", "pods/mnist-worker-0", {"metadata": {"annotations": tracking}})
    before = writes()
    done = run("delete", "jobs", code=4)
    assert "Argo CD application team manages it" in done.stderr
    assert writes() == before
    run("delete", "jobs", "--adopt", code=0)


def test_object_with_a_finalizer_is_waited_for_by_name(applied, run, kubelet, ask):
    applied(replicas=1)
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    ask("PATCH", "pods/mnist-worker-0", held)
    done = run("delete", "jobs", "--timeout", "3s", code=3)
    assert "kept by the finalizers example.com/hold" in done.stdout
    assert "Service mnist-worker-0" not in done.stdout.split("not done:")[0]
    ask("PATCH", "pods/mnist-worker-0", {"metadata": {"finalizers": None}})
    run("delete", "jobs", code=0)


def test_another_job_is_left_alone(run, write, kubelet, objects):
    write(training_job("one", replicas=1), training_job("two", replicas=1))
    run("apply", "jobs")
    run("delete", "--job", "one", code=0)
    names = {name.partition("/")[2] for name in objects()}
    assert all(name.startswith(("two", "etcompile-two")) for name in names)


@pytest.mark.parametrize("how", [("jobs",), ("--job", "mnist")], ids=["files", "name"])
def test_the_inventory_of_a_job_that_somebody_else_removed_goes_too(
    applied, run, kubelet, objects, erase, how
):
    """As the watcher does once ttlSecondsAfterFinished is over: the inventory is apply's."""
    applied(replicas=1)
    erase("mnist")
    assert objects().keys() == {"ConfigMap/etcompile-mnist"}
    done = run("delete", *how, code=0)
    assert "etcompile-mnist" in done.stdout
    assert "ConfigMap/etcompile-mnist" not in objects()


def test_object_whose_owner_a_killed_delete_has_deleted_is_deleted(
    applied, run, kubelet, objects, ask
):
    applied(replicas=1)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "mnist-config"}
    owner["uid"] = objects()["ConfigMap/mnist-config"]["metadata"]["uid"]
    labels = {"etcompile.dev/job": "mnist"}
    metadata = {"name": "mnist-etcompile-hosts", "labels": labels, "ownerReferences": [owner]}
    ask("POST", "configmaps", {"metadata": metadata}, manager="etcompile-watcher")
    ask("DELETE", "configmaps/mnist-config")
    done = run("delete", "jobs", code=0)
    assert "kept" not in done.stderr
    assert objects() == {}


@pytest.mark.parametrize("how", ["--dry-run", "--dry-run=server"])
def test_a_dry_run_shows_what_would_go_and_deletes_nothing(applied, run, kubelet, writes, how):
    applied(replicas=1)
    before = writes()
    done = run("delete", "jobs", how, code=0)
    assert "delete" in done.stdout
    assert "mnist-launcher" in done.stdout
    assert writes() == before


def test_a_job_that_is_not_there_is_said_not_to_be(run, job, namespace):
    job()
    of_files = run("delete", "jobs", code=0)
    assert f"there is nothing of the job mnist in the namespace {namespace}" in of_files.stderr
    done = run("delete", "--job", "nobody", code=7)
    assert "there is no job 'nobody'" in done.stderr
    run("delete", code=2)


def test_copies_with_the_labels_of_a_missing_job_stay(run, write, ask, writes):
    write(training_job(replicas=1))
    metadata = {"name": "copy", "labels": {"etcompile.dev/job": "mnist"}}
    service = {"metadata": metadata, "spec": {"ports": [{"port": 80}]}}
    ask("POST", "services", service, manager="kubectl-expose")
    data = {"metadata": metadata, "data": {"a": "1"}}
    ask("POST", "configmaps", data)
    for options in (("jobs",), ("--job", "mnist")):
        done = run("delete", *options, code=0)
        for maker in ("kubectl-expose", "kubectl-create"):
            assert f"{maker} made it, with labels of the job" in done.stderr
    assert writes() == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["delete", "--output", "json"], 2),
        (["delete", "--job", "gone", "--output", "json"], 7),
        (["apply", "missing", "--output", "json"], 7),
    ],
)
def test_a_program_always_reads_an_end(run, arguments, code):
    done = run(*arguments, code=code)
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["event"], last["exit"]) == ("end", code)


def test_delete_by_name_reads_no_folder(applied, run, kubelet, objects, tmp_path):
    applied(replicas=1)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "etcompile.toml").write_text("nonsense = [")
    run("delete", "--job", "mnist", code=0)
    assert objects() == {}


@pytest.mark.parametrize("how", ["delete", "prune"])
def test_key_pair_that_may_not_be_read_is_named_as_left(
    run, as_user, write, kubelet, objects, namespace, tmp_path, how
):
    write(training_job(replicas=1), name="one")
    write(training_job("other", replicas=1), name="two")
    run("apply", "jobs", "--config", "set=team", code=0)
    (tmp_path / "jobs" / "one.yaml").unlink()
    core = ["configmaps", "pods", "services", "serviceaccounts", "events"]
    user = as_user([{"apiGroups": [""], "resources": core, "verbs": ["*"]}])
    if how == "delete":
        done = user("delete", "--job", "mnist")
        assert f"kept: Secret {namespace}/mnist (you are not allowed to" in done.stderr
    else:
        secret = ("--config", "secret=existing:other")
        done = user("apply", "jobs", "--config", "set=team", "--prune", "--dry-run=client", *secret)
        assert f"left alone: Secret {namespace}/mnist" in done.stdout
        assert "you are not allowed to read secrets" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Secret/mnist" in objects()


def test_a_watcher_brings_nothing_back_of_a_job_that_is_being_deleted(
    applied, start, kubelet, control_plane, namespace, objects, ask
):
    """One Pod takes long to go; the watcher must not replace the others meanwhile."""
    applied(replicas=3)
    watcher = start("watch", "-n", namespace, "--listen", "")
    assert any("watching" in line for line in watcher.stderr)
    hold = {"metadata": {"finalizers": ["example.com/slow"]}}
    ask("PATCH", "pods/mnist-worker-2", hold)
    before = len(control_plane.writes(namespace))
    deleting = start("delete", "--job", "mnist")
    time.sleep(8)
    assert objects().keys() & {"Pod/mnist-launcher", "Pod/mnist-worker-0"} == set()
    release = {"metadata": {"finalizers": None}}
    ask("PATCH", "pods/mnist-worker-2", release)
    out, err = deleting.communicate(timeout=60)
    assert deleting.returncode == 0, out + err
    time.sleep(3)
    assert not [name for name in objects() if name.startswith("Pod/")]
    created = [
        one["objectRef"]["name"]
        for one in control_plane.writes(namespace)[before:]
        if one["verb"] in ("create", "patch")
        and one["objectRef"]["resource"] == "pods"
        # Not the patch above, nor the one that tells a launcher of its hosts.
        and not any(word in str(one["requestObject"]) for word in ("finalizers", "touched"))
    ]
    assert created == []
