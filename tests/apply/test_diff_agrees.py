"""`diff` shows what `apply` would refuse, and an apply that is refused leaves nothing behind.

The fixture `run` compares the two in every other test of this folder (`diff_agrees`).
"""

import pytest
import yaml

import definitions
from apply.policies import deny, mutate
from etcompile.plan.applysets import PART_OF
from specs import kubeflow_job


@pytest.mark.parametrize("owner", ["kubectl", "another ApplySet"])
def test_equal_objects_of_another_owner_are_a_conflict_in_both(
    run, job, kubelet, ask, objects, owner
):
    job(replicas=1)
    for value in yaml.safe_load_all(run("render", "jobs").stdout):
        if owner != "kubectl":
            value["metadata"]["labels"][PART_OF] = "applyset-theirs-v1"
        ask("POST", f"{value['kind'].lower()}s", value, manager="kubectl")
    before = objects().keys()
    seen = run("diff", "jobs", "--plan", "plan.json", code=1)
    assert "--adopt takes it over" in seen.stdout
    for applied in ("jobs", "plan.json"):
        run("apply", applied, code=4)
    assert objects().keys() == before
    run("apply", "jobs", "--adopt", "--config", "take-ownership=kubectl", code=0)
    run("diff", "jobs", code=0)


def test_kind_that_is_not_served_is_reported_by_both(run, write, writes):
    write({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}})
    seen, refused = run("diff", "jobs"), run("apply", "jobs")
    assert (seen.returncode, refused.returncode) == (1, 6)
    for done in (seen, refused):
        assert "error[ET8004]" in done.stderr, done.stderr
        assert "Gadget" in done.stderr
    assert writes() == []


def test_generated_name_is_refused_by_both(run, write):
    write({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "seed-"}})
    seen, refused = run("diff", "jobs"), run("apply", "jobs")
    assert (seen.returncode, refused.returncode) == (2, 7)
    assert "ET8011" in seen.stderr
    assert "ET8011" in refused.stderr


def test_inventory_that_cannot_be_restored_is_named_and_ends_with_6(
    as_user, job, control_plane, namespace, objects
):
    """The inventory is the only thing written before a policy refuses the rest."""
    condition = (
        "(has(request.dryRun) && request.dryRun) || object.metadata.name.startsWith('etcompile-')"
    )
    kinds = ("configmaps", "serviceaccounts", "services", "pods")
    remove = deny(control_plane, namespace, condition, "not for real", kinds=kinds)
    job(replicas=1)
    every = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    less = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch"]},
        {"apiGroups": [""], "resources": ["pods", "services", "secrets"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["*"]},
    ]
    done = as_user(less)("apply", "jobs", "--wait", "none", "--config", "secret=existing:keys")
    left = objects().keys()
    undone = as_user(every)("apply", "jobs", "--wait", "none", "--config", "secret=existing:keys")
    remove()
    assert done.returncode == 6, done.stdout + done.stderr
    assert "could not be restored" in done.stderr
    assert "ConfigMap/etcompile-mnist" in left
    assert undone.returncode == 7, undone.stdout + undone.stderr


def test_inventory_whose_labels_a_webhook_changes_is_written_once(run, job, admitting_plane):
    home = admitting_plane.namespace()
    config = str(admitting_plane.kubeconfig(token="admin-token", namespace=home))
    patch = (
        '[JSONPatch{op: "add", value: "platform",'
        ' path: "/metadata/labels/app.kubernetes.io~1managed-by"}]'
    )
    inventory = {"inventory": "object.metadata.name == 'etcompile-mnist'"}
    both = ("CREATE", "UPDATE")
    mutate(admitting_plane, home, patch, operations=both, when=inventory, kinds=("configmaps",))
    job(replicas=1)
    run("apply", "jobs", "--wait", "none", KUBECONFIG=config, code=0)
    before = len(admitting_plane.writes(home))
    run("apply", "jobs", "--wait", "none", KUBECONFIG=config, code=0)
    assert len(admitting_plane.writes(home)) == before


def test_job_of_another_kind_with_the_name_says_how_to_replace_it(run, write):
    write(kubeflow_job("PyTorchJob", {"Master": 1}))
    run("apply", "jobs", "--wait", "none", code=0)
    write(kubeflow_job("TFJob", {"Worker": 1}))
    refused = run("apply", "jobs", "--wait", "none", code=4)
    words = "etcompile delete --job pytorchjob/mnist"
    assert words in refused.stderr
    run(*words.split()[1:], code=0)
    run("apply", "jobs", "--wait", "none", code=0)


def test_live_custom_resource_says_how_to_hand_it_over(
    run, write, control_plane, namespace, tmp_path
):
    """Deleting it, as a hint once said, would end the training."""
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    control_plane.ask("POST", crds, definitions.definition("kubeflow.org", "XGBoostJob"))
    try:
        document = kubeflow_job("XGBoostJob", {"Master": 1})
        path = f"/apis/kubeflow.org/v1/namespaces/{namespace}/xgboostjobs"
        definitions.ask_until_served(control_plane, path, document)
        write(document)
        seen, refused = run("diff", "jobs"), run("apply", "jobs")
        assert (seen.returncode, refused.returncode) == (1, 4), refused.stderr
        words = f"etcompile migrate --from-cluster XGBoostJob/mnist -n {namespace}"
        assert words in refused.stderr
        assert "delete it" not in refused.stderr
        run(*words.split()[1:], "-d", "handed", code=0)
        assert (tmp_path / "handed" / "HANDOVER.md").exists()
    finally:
        control_plane.ask("DELETE", f"{crds}/xgboostjobs.kubeflow.org")
