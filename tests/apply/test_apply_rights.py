"""What the user, or a policy, does not allow is known before anything is written."""

import pytest

from apply.policies import deny
from specs import training_job

KINDS = ("configmaps", "events", "persistentvolumeclaims", "pods", "secrets", "services")


def rules(**fewer: tuple[str, ...]) -> list[dict[str, object]]:
    """All verbs for the kinds of a job's objects, and only some for those that are named."""
    return [
        {"apiGroups": [""], "resources": [kind], "verbs": [*fewer.get(kind, ("*",))]}
        for kind in (*KINDS, "serviceaccounts")
    ] + [{"apiGroups": ["*"], "resources": ["roles", "rolebindings", "jobs"], "verbs": ["*"]}]


def pod_uids(objects) -> dict[str, str]:
    return {
        name: value["metadata"]["uid"]
        for name, value in objects().items()
        if name.startswith("Pod/")
    }


MOST = ("get", "list", "watch", "create", "patch", "update", "delete")


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("create", "you are not allowed to create pods in the namespace {}"),
        ("patch", "you are not allowed to patch pods in the namespace {}"),
        ("list", "you are not allowed to list pods in the namespace {}"),
        ("watch", "you are not allowed to watch pods in the namespace {}"),
    ],
)
def test_a_verb_that_is_not_allowed_is_named_before_the_first_write(
    as_user, write, writes, missing, words, namespace
):
    write(training_job(replicas=2))
    verbs = tuple(verb for verb in MOST if verb != missing)
    done = as_user(rules(pods=verbs))("apply", "jobs")
    assert done.returncode == 6, done.stderr
    assert words.format(namespace) in done.stderr
    assert "kubectl auth can-i" in done.stderr
    assert writes() == []


def test_a_deletion_that_is_not_allowed_is_named_before_anything_is_written(
    run, as_user, job, kubelet, writes
):
    job(replicas=2)
    assert run("apply", "jobs").returncode == 0
    before = writes()
    job(replicas=1)
    verbs = tuple(verb for verb in MOST if verb != "delete")
    user = as_user(rules(pods=verbs))
    for done in (user("apply", "jobs", "--prune"), user("delete", "jobs")):
        assert done.returncode == 6, done.stderr
        assert "you are not allowed to delete pods" in done.stderr
    assert writes() == before
    done = user("apply", "jobs", "--wait", "none")
    assert done.returncode == 0, done.stderr  # it deletes nothing, and needs no such right


@pytest.mark.parametrize("missing", ["get", "create", "patch", "delete", "list", "watch"])
@pytest.mark.parametrize("command", ["restart", "replace", "delete"])
def test_pods_stay_if_a_verb_of_any_later_request_is_missing(
    run, as_user, write, kubelet, objects, writes, command, missing
):
    """A command that deletes Pods needs the right to create them again, and to follow that."""
    document = training_job(replicas=2)
    write(document)
    assert run("apply", "jobs").returncode == 0
    before, pods = writes(), pod_uids(objects)
    if command == "replace":
        worker = document["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]
        worker["containers"][0]["workingDir"] = "/data"
        write(document)
    user = as_user(rules(pods=tuple(verb for verb in MOST if verb != missing)))
    arguments = {
        "restart": ("restart", "mnist"),
        "replace": ("apply", "jobs", "--replace"),
        "delete": ("delete", "jobs", "--yes"),
    }[command]
    done = user(*arguments)
    if command == "delete" and missing in ("create", "patch"):
        assert done.returncode == 0, done.stderr  # it creates nothing
        return
    assert done.returncode == 6, done.stdout + done.stderr
    assert missing in done.stderr
    assert (writes(), pod_uids(objects)) == (before, pods)


def test_rights_for_single_names_are_enough(as_user, write, kubelet, writes):
    write(training_job(replicas=1))
    names = ["mnist-launcher", "mnist-worker-0"]
    by_name = {
        "apiGroups": [""],
        "resources": ["pods"],
        "verbs": ["get", "create", "patch", "delete"],
        "resourceNames": names,
    }
    granted = [*rules(pods=("list", "watch")), by_name]
    done = as_user(granted)("apply", "jobs", "--timeout", "60s")
    assert done.returncode == 0, done.stderr


def test_a_policy_that_denies_one_pod_of_a_role_is_found_before_the_others_are_made(
    run, job, writes, control_plane, namespace
):
    denied = "object.metadata.name != 'mnist-worker-5'"
    remove = deny(control_plane, namespace, denied, "number five is bad luck")
    job(replicas=8)
    before = writes()
    done = run("apply", "jobs", "--wait", "none")
    remove()
    assert done.returncode == 7, done.stderr
    assert "Pod mnist-worker-5" in done.stderr
    assert "number five is bad luck" in done.stderr
    assert writes() == before


def test_without_policies_one_pod_of_a_role_is_tried(run, job, kubelet, proxy, through):
    job(replicas=8)
    done = run("apply", "jobs", "--wait", "none", KUBECONFIG=str(through))
    assert done.returncode == 0, done.stderr
    assert proxy.count("PATCH", r"pods/.*dryRun") == 2


def test_who_may_only_read_gets_a_diff_and_is_told_what_was_not_asked(
    run, as_user, job, kubelet, writes
):
    job(replicas=2)
    assert run("apply", "jobs").returncode == 0
    before = writes()
    reads = ("get", "list", "watch")
    user = as_user(rules(**dict.fromkeys(KINDS, reads)))
    same = user("diff", "jobs")
    assert same.returncode == 0, same.stderr
    assert "ET8021" not in same.stderr  # nothing seems to differ, so nothing is asked
    job(replicas=1)
    done = user("diff", "jobs")
    assert done.returncode == 1, done.stderr
    assert "warning[ET8021]" in done.stderr
    assert 'cannot patch resource "configmaps"' in done.stderr
    assert "update   ConfigMap mnist-config" in done.stdout
    assert writes() == before
