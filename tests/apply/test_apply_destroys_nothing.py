"""What was not ours, or holds data, survives every option that does not name it."""

import json

import pytest

from specs import claim, kubeflow_job, scale_in, training_job

EVERYTHING = ("--replace", "--adopt", "--prune", "--config", "take-ownership=*")


def test_a_claim_is_replaced_only_if_it_is_named(run, write, writes, ask):
    write(claim("checkpoints", "ReadWriteOnce"))
    run("apply", "jobs", "--wait", "none", code=0)
    uid = ask("GET", "persistentvolumeclaims/checkpoints")["metadata"]["uid"]
    before = writes()
    write(claim("checkpoints", "ReadWriteMany"))
    for options in ((), EVERYTHING):
        done = run("apply", "jobs", *options, code=5)
        assert "may delete its volume and everything on it" in done.stderr
        assert "--replace-data PersistentVolumeClaim/checkpoints" in done.stderr
        assert writes() == before
    assert "replace-data" in run("diff", "jobs", "--replace").stdout
    assert '["ReadWriteOnce"], and would be ["ReadWriteMany"]' in done.stderr
    # No controller manager runs that would take it away once no Pod uses the claim.
    ask("PATCH", "persistentvolumeclaims/checkpoints", {"metadata": {"finalizers": None}})
    run("apply", "jobs", "--replace-data", "checkpoints", "--wait", "none", code=0)
    replaced = ask("GET", "persistentvolumeclaims/checkpoints")
    assert replaced["metadata"]["uid"] != uid
    assert replaced["spec"]["accessModes"] == ["ReadWriteMany"]


def test_removed_access_mode_is_a_difference(run, write):
    write(claim("checkpoints", "ReadWriteOnce", "ReadOnlyMany"))
    run("apply", "jobs", "--wait", "none", code=0)
    write(claim("checkpoints", "ReadWriteOnce"))
    done = run("diff", "jobs", code=1)
    assert "- ReadOnlyMany" in done.stdout


def test_a_claim_that_stays_because_it_is_in_use_is_not_said_to_be_deleted(run, write):
    write(claim("checkpoints", "ReadWriteOnce"))
    run("apply", "jobs", "--wait", "none")
    write(claim("checkpoints", "ReadWriteMany"))
    # The API server gives each claim the finalizer that its controller would take away.
    done = run("apply", "jobs", "--replace-data", "checkpoints", "--timeout", "5s", code=3)
    assert "done: nothing\n" in done.stdout
    assert "timed out: it is being deleted, kept by the finalizers kubernetes.io/pvc" in done.stdout


def test_objects_of_people_are_replaced_only_on_request(run, write, writes, ask):
    service = {"metadata": {"name": "mnist-worker-0"}, "spec": {"ports": [{"port": 80}]}}
    pod = {
        "metadata": {"name": "mnist-launcher"},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    }
    ask("POST", "services", service)
    ask("POST", "pods", pod)
    write(training_job(replicas=1))
    done = run("apply", "jobs", "--replace", "--prune", "--config", "take-ownership=*", code=4)
    for what in ("Service mnist-worker-0", "Pod mnist-launcher"):
        assert f"{what}: kubectl-create made it" in done.stderr
    assert "hint: --replace" not in done.stderr
    assert writes() == []


def test_adopted_config_map_is_reported_and_preserves_other_keys(run, write, ask, kubelet, writes):
    theirs = {"metadata": {"name": "mnist-config"}, "data": {"notes": "kept nowhere else"}}
    ask("POST", "configmaps", theirs)
    write(training_job(replicas=1))
    refused = run("apply", "jobs", code=4)
    assert "ConfigMap mnist-config: kubectl-create made it" in refused.stderr
    assert writes() == []
    adopted = run("apply", "jobs", "--adopt", code=0)
    assert "adopted" in adopted.stdout
    gone = run("delete", "jobs", code=0)
    assert "mnist-config  released: it also holds data.notes of kubectl-create" in gone.stdout
    left = ask("GET", "configmaps/mnist-config")
    assert left["data"] == theirs["data"]
    assert not left["metadata"].get("labels")
    assert "etcompile" not in {one["manager"] for one in left["metadata"]["managedFields"]}
    names = [one["metadata"]["name"] for one in ask("GET", "configmaps")["items"]]
    assert names == ["mnist-config"]
    assert "mnist" not in run("status").stdout


@pytest.mark.parametrize("how", ["delete", "prune"])
def test_a_job_goes_though_somebody_edited_its_map(run, write, ask, kubelet, objects, how):
    write(training_job(replicas=1))
    run("apply", "jobs", "--config", "set=team", code=0)
    config = ask("GET", "configmaps/mnist-config")
    key = min(config["data"])
    ask("PATCH", "configmaps/mnist-config", {"data": {key: "edited"}}, manager="kubectl-edit")
    if how == "delete":
        done = run("delete", "jobs", "--config", "set=team")
    else:
        write(claim("checkpoints", "ReadWriteOnce"))
        done = run("apply", "jobs", "--config", "set=team", "--prune", "--wait", "none")
    assert done.returncode == 0, done.stdout + done.stderr
    left = ask("GET", "configmaps/mnist-config")
    assert left["data"] == {key: "edited"}
    assert not left["metadata"].get("labels")
    pods = [name for name in objects() if name.startswith("Pod/")]
    assert pods == []


@pytest.mark.parametrize(
    "command",
    [
        ("apply", *EVERYTHING),
        ("apply", *EVERYTHING, "--target", "Pod/mnist-worker-0"),
        ("apply", *EVERYTHING, "--target", "Pod/mnist-launcher"),
        ("delete", "--adopt"),
    ],
    ids=["apply", "apply what both have", "apply what only the other has", "delete"],
)
def test_a_job_of_another_kind_with_the_same_name_is_left_alone(
    applied, run, write, writes, kubelet, command, objects
):
    applied("mnist", replicas=1)
    before = writes(), objects().keys()
    write(kubeflow_job("PyTorchJob", {"Worker": 1}))
    done = run(command[0], "jobs", *command[1:], code=4)
    assert "TrainingJob mnist" in done.stderr
    assert (writes(), objects().keys()) == before


def annotated(**container):
    document = training_job(replicas=2)
    worker = document["spec"]["etReplicaSpecs"]["worker"]["template"]
    worker.setdefault("metadata", {})["annotations"] = {"etcompile.dev/prevent-destroy": "true"}
    worker["spec"]["containers"][0] |= container
    return document


def test_what_prevents_its_deletion_is_neither_replaced_nor_pruned_nor_deleted(
    run, write, writes, kubelet
):
    write(annotated())
    run("apply", "jobs", code=0)
    before = writes()
    write(annotated(workingDir="/data"))
    replaced = run("apply", "jobs", *EVERYTHING, "--replace-data", "*", code=4)
    assert "etcompile.dev/prevent-destroy forbids deleting it" in replaced.stderr
    write(annotated())
    write(scale_in("less", 1), name="in")
    pruned = run("apply", "jobs", *EVERYTHING, code=4)
    assert "mnist-worker-1: its annotation" in pruned.stderr
    run("delete", "jobs", "--adopt", code=4)
    assert writes() == before


def test_a_run_with_targets_changes_nothing_else_and_forgets_nothing(
    applied, run, write, kubelet, objects, writes
):
    applied(replicas=2)
    changed = training_job(replicas=2)
    for role in ("launcher", "worker"):
        template = changed["spec"]["etReplicaSpecs"][role]["template"]
        template["spec"]["containers"][0]["image"] = "other:2"
    write(changed)
    count = len(writes())
    run("apply", "jobs", "--target", "pod/mnist-worker-1", "--wait", "none", code=0)
    images = {
        name: value["spec"]["containers"][0]["image"]
        for name, value in objects().items()
        if name.startswith("Pod/")
    }
    assert images["Pod/mnist-worker-1"] == "other:2"
    assert "other:2" not in (images["Pod/mnist-worker-0"], images["Pod/mnist-launcher"])
    assert {line for line in writes()[count:] if "configmaps/etcompile-" not in line} == {
        "patch pods/mnist-worker-1"
    }
    # What was not a target is still a member: it can be deleted with its job.
    run("delete", "jobs", code=0)
    assert objects() == {}


def test_a_target_that_names_nothing_is_refused(run, write, writes):
    write(training_job(replicas=1))
    done = run("apply", "jobs", "--target", "Pod/mnist-worker-O", code=7)
    assert "--target Pod/mnist-worker-O names no object of the plan" in done.stderr
    assert "did you mean Pod/mnist-worker-0?" in done.stderr
    assert writes() == []


def test_terminal_prompts_before_anything_is_deleted(
    applied, writes, kubelet, objects, on_terminal
):
    applied(replicas=2)
    before = writes()
    code, shown = on_terminal("delete", "jobs", answer="n", TERM="dumb")
    assert code == 130
    assert b"objects will be deleted (context test, server https://" in shown
    assert b"mnist-launcher" in shown
    assert shown.splitlines()[-1] == b"nothing was changed"
    assert b"error" not in shown
    assert writes() == before
    code, shown = on_terminal("delete", "jobs", answer="y", TERM="dumb")
    assert code == 0, shown
    assert objects() == {}


def test_yes_answers_beforehand(applied, kubelet, objects, on_terminal):
    applied(replicas=1)
    code, shown = on_terminal("delete", "jobs", "--yes", answer="n")
    assert code == 0, shown
    assert b"[y/N]" not in shown
    assert objects() == {}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--context", "staging"), "it was made for the context"),
        (("--namespace", "elsewhere"), "it was made for the namespace"),
    ],
)
def test_an_option_that_contradicts_a_plan_is_refused(run, write, writes, options, words):
    write(training_job(replicas=1))
    run("diff", "jobs", "--plan", "plan.json")
    done = run("apply", "plan.json", *options, code=7)
    assert words in done.stderr
    assert writes() == []


@pytest.mark.parametrize(
    "option",
    [
        *("--prune", "--replace", "--run=auto", "--target=x", "--config=set=x", "--overlay=dev"),
        *("--config=profile=argocd", "--replace-data=x", "--config=skip-managed-by=true"),
    ],
)
def test_option_that_a_plan_file_decides_is_reported(run, write, writes, option):
    write(training_job(replicas=1))
    run("diff", "jobs", "--plan", "plan.json")
    done = run("apply", "plan.json", option, code=2)
    named = option.replace("--config=", "--config ").partition("=")[0]
    assert f"give {named} to etcompile diff instead" in done.stderr
    assert writes() == []


def test_a_json_job_whose_variables_are_called_as_a_plan_s_fields_is_no_plan(
    run, tmp_path, kubelet
):
    document = kubeflow_job("PyTorchJob", {"Worker": 1})
    container = document["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    container[0]["env"] = [{"name": "steps", "value": "1"}, {"name": "digest", "value": "2"}]
    (tmp_path / "job.json").write_text(json.dumps(document))
    run("apply", "job.json", code=0)


@pytest.mark.parametrize(
    "command",
    [
        ("apply", "jobs", "--prune", "--wait", "none"),
        ("delete", "jobs"),
        ("delete", "--job", "mnist"),
        ("apply", "jobs", "--prune", "--wait", "none", "moved"),
    ],
)
def test_copy_by_a_user_with_all_labels_stays_the_users(
    run, write, ask, kubelet, objects, command, tmp_path
):
    """As `kubectl expose pod` makes a Service: with the Pod's labels, that of its set too."""
    write(training_job(replicas=1))
    write(training_job("other", replicas=1), name="other")
    run("apply", "jobs", code=0)
    labels = ask("GET", "pods/mnist-launcher")["metadata"]["labels"]
    exposed = {"metadata": {"name": "board", "labels": labels}, "spec": {"ports": [{"port": 80}]}}
    created = ask("POST", "services", exposed, manager="kubectl-expose")
    config = ask("GET", "configmaps/mnist-config")
    metadata = {"name": "mnist-saved", "labels": config["metadata"]["labels"]}
    ask("POST", "configmaps", {"metadata": metadata, "data": config["data"]})
    if command[-1] == "moved":
        command = command[:-1]
        (tmp_path / "jobs" / "job.yaml").unlink()
    done = run(*command, code=0)
    live = objects()
    assert (
        live["Service/board"]["metadata"]["resourceVersion"]
        == (created["metadata"]["resourceVersion"])
    )
    assert "ConfigMap/mnist-saved" in live
    if command[0] == "delete":
        assert "board (kubectl-expose made it, with labels of the job)" in done.stderr
    assert "ConfigMap/mnist-config" not in live or command[0] == "apply"


def test_copy_with_the_name_of_a_new_object_is_not_adopted(run, write, ask, writes):
    write(training_job(replicas=1))
    run("apply", "jobs", "--wait", "none", code=0)
    labels = ask("GET", "pods/mnist-launcher")["metadata"]["labels"]
    metadata = {"name": "mnist-worker-1", "labels": labels}
    ask("POST", "services", {"metadata": metadata, "spec": {"ports": [{"port": 80}]}})
    before = writes()
    write(training_job(replicas=2))
    done = run("apply", "jobs", "--wait", "none", code=4)
    assert "Service mnist-worker-1: kubectl-create made it" in done.stderr
    assert writes() == before
