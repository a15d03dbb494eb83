"""What the user, or a policy, does not allow is known before anything is written."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from apply.policies import deny
from specs import training_job, with_worker
from waiting import eventually

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


MOST = ("get", "list", "watch", "create", "patch", "delete")


@pytest.mark.parametrize("missing", ["create", "patch", "list", "watch"])
def test_a_verb_that_is_not_allowed_is_named_before_the_first_write(
    as_user, write, writes, missing, namespace
):
    write(training_job(replicas=2))
    verbs = tuple(verb for verb in MOST if verb != missing)
    done = as_user(rules(pods=verbs))("apply", "jobs", code=6)
    words = f"you are not allowed to {missing} pods in the namespace {namespace}"
    assert words in done.stderr
    assert "kubectl auth can-i" in done.stderr
    assert writes() == []


@pytest.mark.parametrize("missing", MOST)
def test_replaced_pods_stay_if_a_verb_of_any_later_request_is_missing(
    applied, as_user, write, kubelet, objects, writes, missing
):
    """A command that deletes Pods needs the right to create them again, and to follow that."""
    applied(replicas=2)
    before, pods = writes(), pod_uids(objects)
    write(with_worker(replicas=2, workingDir="/data"))
    user = as_user(rules(pods=tuple(verb for verb in MOST if verb != missing)))
    done = user("apply", "jobs", "--replace", code=6)
    assert missing in done.stderr
    assert "kubectl auth can-i" in done.stderr
    assert (writes(), pod_uids(objects)) == (before, pods)


@pytest.mark.parametrize("missing", ["get", "list", "watch", "delete"])
def test_delete_by_files_deletes_nothing_if_a_verb_of_any_request_is_missing(
    applied, as_user, kubelet, objects, writes, missing
):
    applied(replicas=2)
    before, pods = writes(), pod_uids(objects)
    user = as_user(rules(pods=tuple(verb for verb in MOST if verb != missing)))
    assert missing in user("delete", "jobs", code=6).stderr
    assert (writes(), pod_uids(objects)) == (before, pods)


def test_rights_for_single_names_are_enough(as_user, write, kubelet):
    write(training_job(replicas=1))
    names = ["mnist-launcher", "mnist-worker-0"]
    by_name = {
        "apiGroups": [""],
        "resources": ["pods"],
        "verbs": ["get", "create", "patch", "delete"],
        "resourceNames": names,
    }
    granted = [*rules(pods=("list", "watch")), by_name]
    as_user(granted)("apply", "jobs", "--timeout", "60s", code=0)


def test_policy_that_denies_one_pod_of_a_role_stops_all_before_any_write(
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


@pytest.fixture
def dry_runs(control_plane, namespace):
    """The Pods that were tried, by verb: `create mnist-worker-0`."""

    def tried() -> list[str]:
        return [
            f"{event['verb']} {Path(urlsplit(event['requestURI']).path).name}"
            for event in control_plane.audit(namespace)
            if event["objectRef"]["resource"] == "pods" and "dryRun" in event["requestURI"]
        ]

    return tried


ONE_EACH = ["patch mnist-launcher", "patch mnist-worker-0"]


def test_without_policies_one_pod_of_a_role_is_tried(run, job, kubelet, kubeconfig, dry_runs):
    job(replicas=8)
    run("apply", "jobs", "--wait", "none", KUBECONFIG=str(kubeconfig), code=0)
    assert sorted(dry_runs()) == ONE_EACH


def test_policy_that_reads_no_name_needs_one_dry_run_of_a_role(
    run, job, kubelet, kubeconfig, control_plane, namespace, dry_runs
):
    latest = "object.spec.containers.all(c, !c.image.endsWith(':latest'))"
    remove = deny(control_plane, namespace, latest, "pin the image")
    job(replicas=8)
    done = run("apply", "jobs", "--wait", "none", KUBECONFIG=str(kubeconfig))
    remove()
    assert done.returncode == 0, done.stderr
    assert sorted(dry_runs()) == ONE_EACH


def test_first_and_last_pod_are_tried_if_a_webhook_sees_pods(
    run, job, kubelet, kubeconfig, control_plane, namespace, dry_runs
):
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    webhook = {
        "name": "pods.example.com",
        "rules": [{**rule, "operations": ["CREATE"]}],
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    control_plane.ask("POST", path, {"metadata": {"name": namespace}, "webhooks": [webhook]})
    job(replicas=8)
    done = run("apply", "jobs", "--wait", "none", KUBECONFIG=str(kubeconfig))
    control_plane.ask("DELETE", f"{path}/{namespace}")
    assert done.returncode == 0, done.stderr
    assert sorted(dry_runs()) == ["create pods", *ONE_EACH]


def test_last_pod_is_refused_before_any_write_if_policies_cannot_be_read(
    as_user, job, writes, control_plane, namespace, dry_runs
):
    short = "size(object.metadata.name) <= size('mnist-worker-0')"
    remove = deny(control_plane, namespace, short, "the name is too long")
    job(replicas=11)
    done = as_user(rules())("apply", "jobs", "--wait", "none")
    remove()
    assert done.returncode == 7, done.stderr
    assert "Pod mnist-worker-10" in done.stderr
    assert writes() == []
    assert sorted(dry_runs()) == ["create pods", *ONE_EACH]


def test_unread_policy_that_denies_one_pod_ends_apply_with_6_and_what_was_written(
    as_user, job, writes, control_plane, namespace
):
    denied = "object.metadata.name != 'mnist-worker-5'"
    remove = deny(control_plane, namespace, denied, "number five is bad luck")
    job(replicas=8)
    user = as_user(rules())
    done = user("apply", "jobs", "--wait", "none")
    remove()
    assert done.returncode == 6, done.stderr
    assert "number five is bad luck" in done.stderr
    assert "create Pod mnist-worker-5: " in done.stdout.replace(f"{namespace}/", "")
    assert "create pods/mnist-worker-4" in writes()
    # The API server heeds a policy for a moment after it is gone.
    again = ("apply", "jobs", "--wait", "none")
    eventually(lambda: user(*again).returncode == 0, 60, lambda: "it does not go on")


def test_read_only_user_gets_a_diff_and_the_list_of_skipped_checks(
    applied, as_user, job, kubelet, writes
):
    applied(replicas=2)
    before = writes()
    reads = ("get", "list", "watch")
    user = as_user(rules(**dict.fromkeys(KINDS, reads)))
    same = user("diff", "jobs", code=0)
    assert "ET8021" not in same.stderr  # nothing seems to differ, so nothing is asked
    job(replicas=1)
    done = user("diff", "jobs", code=1)
    assert "warning[ET8021]" in done.stderr
    assert 'cannot patch resource "configmaps"' in done.stderr
    assert "update   ConfigMap mnist-config" in done.stdout
    assert writes() == before
