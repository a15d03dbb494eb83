"""The ApplySet of a job: what is pruned and what never is, and that kubectl reads the same set."""

import json
import os
import subprocess
import time
import urllib.error

import pytest
import yaml

import definitions
from etcompile._version import __version__
from etcompile.plan.applysets import applyset_id, parent
from specs import kubeflow_job, manifest, scale_in, training_job

PART_OF = "applyset.kubernetes.io/part-of"


def annotations(objects):
    return objects()["ConfigMap/etcompile-mnist"]["metadata"]["annotations"]


def test_the_parent_says_what_kubectl_wants_to_read(applied, kubelet, objects, namespace, tmp_path):
    (tmp_path / "etcompile.toml").write_text('repository-name = "team"\n')
    applied(replicas=1)
    live = objects()
    id_ = applyset_id(parent("mnist", namespace))
    metadata = live["ConfigMap/etcompile-mnist"]["metadata"]
    assert metadata["labels"]["applyset.kubernetes.io/id"] == id_
    source = metadata["annotations"].pop("etcompile.dev/set-source")
    assert source == "team/jobs"
    assert metadata["annotations"].pop("etcompile.dev/set-default-namespace") == namespace
    assert metadata["annotations"] == {
        "applyset.kubernetes.io/tooling": f"etcompile/v{__version__}",
        "applyset.kubernetes.io/contains-group-kinds": "ConfigMap,Pod,Service,ServiceAccount",
        "applyset.kubernetes.io/additional-namespaces": "",
    }
    members = {
        name
        for name, one in live.items()
        if (one["metadata"].get("labels") or {}).get(PART_OF) == id_
    }
    assert members == live.keys() - {"ConfigMap/etcompile-mnist", "Secret/mnist"}


def test_prune_removes_exactly_what_left_the_files(
    applied, run, write, kubelet, objects, ask, namespace
):
    applied(replicas=4)
    before = objects().keys()
    # A stranger, and one that only looks like a member.
    ask("POST", "configmaps", {"metadata": {"name": "stranger"}})
    label = {PART_OF: applyset_id(parent("other", namespace))}
    ask("POST", "configmaps", {"metadata": {"name": "others", "labels": label}})
    for name, metadata in {
        "mnist-worker-1": {"ownerReferences": [_owner(objects)]},
        "mnist-worker-2": {
            "annotations": {
                "argocd.argoproj.io/tracking-id": f"team:/Pod:{namespace}/mnist-worker-2"
            }
        },
    }.items():
        ask("PATCH", f"pods/{name}", {"metadata": metadata})
    write(scale_in("less", 3), name="in")
    run("apply", "jobs", "--prune", "--config", "drain=0", code=0)
    gone = before - objects().keys()
    assert gone == {
        "Pod/mnist-worker-3",
        "Service/mnist-worker-1",
        "Service/mnist-worker-2",
        "Service/mnist-worker-3",
    }
    assert {"ConfigMap/stranger", "ConfigMap/others"} <= objects().keys()


def _owner(objects):
    config = objects()["ConfigMap/mnist-config"]["metadata"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": config["name"], "uid": config["uid"]}


@pytest.mark.parametrize("flags", [(), ("--prune",)], ids=["left", "pruned"])
def test_diff_foresees_what_apply_does_with_what_left(applied, run, write, kubelet, objects, flags):
    applied(replicas=2)
    before = objects().keys()
    write(scale_in("less", 1), name="in")
    plan = json.loads(run("diff", "jobs", "--output", "json", *flags).stdout)
    foreseen = {
        f"{step['object']['kind']}/{step['object']['name']}"
        for step in plan["steps"]
        if step["action"] == "delete"
    }
    run("apply", "jobs", "--config", "drain=0", *flags, code=0)
    gone = before - objects().keys()
    assert gone == foreseen
    assert gone == ({"Pod/mnist-worker-1", "Service/mnist-worker-1"} if flags else set())


def test_nothing_is_pruned_before_all_is_applied(applied, run, write, kubelet, objects):
    applied(replicas=2)
    service = manifest("Service", "web", spec={"clusterIP": "10.255.0.1", "ports": [{"port": 80}]})
    before = objects().keys()
    write(scale_in("less", 1), service, name="in")
    run("apply", "jobs", "--prune", code=7)
    assert objects().keys() == before


def test_the_parent_names_a_kind_as_long_as_there_are_members_of_it(
    run, write, kubelet, objects, namespace
):
    document = training_job(replicas=1, launcherAttachMode="kubexec")
    document["metadata"]["namespace"] = namespace
    write(document)
    run("apply", "jobs", code=0)
    kinds = annotations(objects)["applyset.kubernetes.io/contains-group-kinds"]
    assert "Role.rbac.authorization.k8s.io" in kinds.split(",")
    document["spec"]["launcherAttachMode"] = "ssh"
    write(document)
    run("apply", "jobs", "--replace", code=0)
    assert annotations(objects)["applyset.kubernetes.io/contains-group-kinds"] == kinds
    run("apply", "jobs", "--prune", code=0)
    kinds = annotations(objects)["applyset.kubernetes.io/contains-group-kinds"]
    assert kinds == "ConfigMap,Pod,Service,ServiceAccount"


@pytest.fixture
def kubectl(kubectl_program, kubeconfig, tmp_path):
    """`kubectl(arguments...)` runs the real one, with ApplySets on."""

    def run(*arguments):
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "KUBECTL_APPLYSET": "true"}
        return subprocess.run(
            [kubectl_program, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_kubectl_reads_our_set_takes_it_over_and_gives_it_back(
    applied, run, kubelet, kubectl, objects, tmp_path, namespace
):
    applied(replicas=2)
    before = objects().keys()
    rendered = [
        one
        for one in yaml.safe_load_all(run("render", "jobs").stdout)
        if "worker-1" not in one["metadata"]["name"]
    ]
    (tmp_path / "rendered.yaml").write_text(yaml.safe_dump_all(rendered))
    apply = ("apply", "--server-side", "--prune", f"--namespace={namespace}")
    apply += ("--applyset=configmaps/etcompile-mnist",)
    refused = kubectl(*apply, "-f", "rendered.yaml")
    assert refused.returncode != 0
    assert "etcompile" in refused.stderr  # it reads whose set it is
    tooling = "applyset.kubernetes.io/tooling=kubectl/v1.34.4"
    annotated = kubectl("annotate", "--overwrite", "configmap", "etcompile-mnist", tooling)
    assert annotated.returncode == 0, annotated.stderr
    # The same manifests conflict with their own defaults when kubectl sends them.
    done = kubectl(*apply, "--force-conflicts", "-f", "rendered.yaml")
    assert done.returncode == 0, done.stderr
    assert before - objects().keys() == {"Pod/mnist-worker-1", "Service/mnist-worker-1"}
    run("apply", "jobs", "--adopt", code=0)
    assert objects().keys() == before
    assert annotations(objects)["applyset.kubernetes.io/tooling"] == f"etcompile/v{__version__}"
    assert "nothing had to be changed" in run("apply", "jobs").stdout


@pytest.mark.parametrize("how", [("--server-side",), ()], ids=["server-side", "client-side"])
def test_what_kubectl_has_applied_is_adopted_without_a_conflict(
    run, job, kubelet, kubectl, objects, tmp_path, namespace, how
):
    job(replicas=1)
    (tmp_path / "rendered.yaml").write_text(run("render", "jobs").stdout)
    theirs = kubectl("apply", *how, f"--namespace={namespace}", "-f", "rendered.yaml")
    assert theirs.returncode == 0, theirs.stderr
    before = {name: one["metadata"]["uid"] for name, one in objects().items()}
    refused = run("apply", "jobs", code=4)
    assert "kubectl" in refused.stderr
    run("apply", "jobs", "--adopt", code=0)
    after = {name: one["metadata"]["uid"] for name, one in objects().items()}
    assert before.items() <= after.items()
    id_ = applyset_id(parent("mnist", namespace))
    assert all(objects()[name]["metadata"]["labels"][PART_OF] == id_ for name in before)
    assert "nothing had to be changed" in run("apply", "jobs").stdout


def test_a_job_that_is_left_to_another_controller_loses_nothing(run, write, kubelet, objects):
    first, second = ({**kubeflow_job("PyTorchJob", {"Worker": 1})} for _ in range(2))
    first["metadata"], second["metadata"] = {"name": "first"}, {"name": "second"}
    write(first, second)
    run("apply", "jobs", "--wait", "none", code=0)
    before = objects()
    second["spec"]["runPolicy"] = {"managedBy": "kueue.x-k8s.io/multikueue"}
    write(first, second)
    run("apply", "jobs", "--prune", "--wait", "none", code=7)
    done = run(
        "apply", "jobs", "--prune", "--wait", "none", "--config=skip-managed-by=true", code=0
    )
    assert "ET2112" in done.stderr
    assert objects().keys() == before.keys()


@pytest.fixture
def pod_groups(control_plane, namespace):
    """Volcano's PodGroups, which are served in v1beta1 only; gives the names of those there."""
    definitions.install(control_plane, [definitions.CRDS / "volcano.yaml"])
    url = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups"

    def names():
        return {item["metadata"]["name"] for item in control_plane.ask("GET", url)["items"]}

    for _ in range(100):
        try:
            names()
            break
        except urllib.error.HTTPError:
            time.sleep(0.1)
    return names


def gang_of(replicas):
    document = training_job(replicas=replicas)
    for role in document["spec"]["etReplicaSpecs"].values():
        resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
        role["template"]["spec"]["containers"][0]["resources"] = resources
    return document


def test_a_member_of_a_kind_without_v1_is_deleted_with_its_job(run, write, kubelet, pod_groups):
    write(gang_of(1))
    run("apply", "jobs", "--config", "gang=volcano", "--wait", "none", code=0)
    assert pod_groups() == {"mnist"}
    run("delete", "--job", "mnist", code=0)
    assert pod_groups() == set()


def test_a_member_of_a_kind_that_nothing_declares_any_more_is_pruned(
    run, write, kubelet, pod_groups, objects
):
    write(gang_of(1))
    run("apply", "jobs", "--config", "gang=volcano", "--wait", "none", code=0)
    left = run("apply", "jobs", "--replace", "--wait", "none", code=0)
    assert "--prune deletes them" in left.stderr
    assert "PodGroup" in annotations(objects)["applyset.kubernetes.io/contains-group-kinds"]
    run("apply", "jobs", "--prune", "--wait", "none", code=0)
    assert pod_groups() == set()
    assert "PodGroup" not in annotations(objects)["applyset.kubernetes.io/contains-group-kinds"]
