"""What each gang scheduler is told of one elastic job, and what of that scaling changes.

The job is the worked one of reference/gang-scheduling.md: a launcher and four workers, of which
two will do.
"""

import json
from typing import Any

import pytest

import etcompile
from etcompile import Compilation, Options, Settings
from etcompile.model import GANGS
from specs import (
    by_name,
    compiled,
    dlrover_type,
    elastic_job,
    kubeflow_job,
    mpi_job,
    replicas,
    scale_in,
    scale_out,
    training_job,
)

SCHEDULERS = GANGS[1:]
QUEUES = {"yunikorn": "root.research"}
LAUNCHER = {"requests": {"cpu": 1, "memory": "2Gi"}}
WORKER = {"requests": {"cpu": "8", "memory": "32Gi"}, "limits": {"nvidia.com/gpu": 1}}
ELASTIC = (
    *("horovodrun", "-np", "4", "--min-np", "2"),
    *("--host-discovery-script", "/etc/edl/discover_hosts.sh", "python", "train.py"),
)


def worked(gang: str, **annotations: str) -> dict[str, Any]:
    """The worked job; annotations without their prefix."""
    job = training_job("ej", replicas=4)
    types = job["spec"]["etReplicaSpecs"]
    types["worker"] |= {"minReplicas": 2, "maxReplicas": 4}
    [launcher] = types["launcher"]["template"]["spec"]["containers"]
    launcher |= {"resources": LAUNCHER, "command": list(ELASTIC)}
    [worker] = types["worker"]["template"]["spec"]["containers"]
    worker["resources"] = WORKER
    gang_settings = {
        "queue": QUEUES.get(gang, "research"),
        "priority_class": "train-high",
        **annotations,
    }
    job["metadata"]["annotations"] = {
        f"etcompile.dev/gang-{name.replace('_', '-')}": text for name, text in gang_settings.items()
    }
    return job


def ganged(gang: str, *documents: dict[str, Any], **settings: Any) -> Compilation:
    chosen = Settings(gang=gang, run="r7", **settings)
    return compiled(*(documents or (worked(gang),)), settings=chosen, namespace="ml")


def group(compilation: Compilation) -> dict[str, Any]:
    [value] = [o for o in compilation.objects if o["kind"] in ("PodGroup", "Workload")]
    return dict(value)


def pod(compilation: Compilation, name: str) -> Any:
    return by_name(compilation)["Pod", f"ej-r7-{name}"]


def marks(value: Any, *domains: str) -> dict[str, str]:
    metadata = value["metadata"]
    all_marks = {**metadata["labels"], **metadata["annotations"]}
    return {k: v for k, v in all_marks.items() if k.partition("/")[0] in domains}


def test_volcano_pod_group_lists_each_role() -> None:
    compilation = ganged("volcano", worked("volcano", timeout="600"))
    value = group(compilation)
    assert value["apiVersion"] == "scheduling.volcano.sh/v1beta1"
    assert value["metadata"]["name"] == "ej-r7"
    assert value["metadata"]["annotations"] == {"volcano.sh/sla-waiting-time": "600s"}
    # The launcher's init container asks for room on the disk, which counts too.
    resources = {"cpu": "17", "memory": "66Gi", "nvidia.com/gpu": "2", "ephemeral-storage": "5Gi"}
    assert value["spec"] == {
        "minMember": 3,
        "minTaskMember": {"launcher": 1, "worker": 2},
        "minResources": resources,
        "queue": "research",
        "priorityClassName": "train-high",
    }
    worker = pod(compilation, "worker-3")
    assert worker["spec"]["schedulerName"] == "volcano"
    assert worker["spec"]["priorityClassName"] == "train-high"
    assert marks(worker, "scheduling.k8s.io", "volcano.sh") == {
        "scheduling.k8s.io/group-name": "ej-r7",
        "volcano.sh/task-spec": "worker",
        "volcano.sh/task-priority": "1",
    }
    priority = [
        int(pod(compilation, name)["metadata"]["annotations"]["volcano.sh/task-priority"])
        for name in ("launcher", "worker-0", "worker-1", "worker-2", "worker-3")
    ]
    assert priority == sorted(priority, reverse=True)


def test_coscheduling_pod_group_covers_all_pods_together() -> None:
    compilation = ganged("coscheduling", worked("coscheduling", timeout="600"))
    value = group(compilation)
    assert value["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    assert value["spec"]["minMember"] == 3
    assert value["spec"]["scheduleTimeoutSeconds"] == 600
    assert value["spec"]["minResources"]["cpu"] == "17"
    worker = pod(compilation, "worker-3")
    assert marks(worker, "scheduling.x-k8s.io") == {"scheduling.x-k8s.io/pod-group": "ej-r7"}
    assert worker["spec"]["schedulerName"] == "scheduler-plugins-scheduler"


def test_kueue_gets_a_group_of_the_minimum_and_the_others_one_by_one() -> None:
    job = worked("kueue", queue_priority="high", extra_queue_priority="low")
    compilation = ganged("kueue", job)
    assert not [value for value in compilation.objects if value["kind"] == "PodGroup"]
    inside = marks(pod(compilation, "worker-1"), "kueue.x-k8s.io")
    assert inside == {
        "kueue.x-k8s.io/queue-name": "research",
        "kueue.x-k8s.io/pod-group-name": "ej-r7",
        "kueue.x-k8s.io/pod-group-total-count": "3",
        "kueue.x-k8s.io/role-hash": "worker",
        "kueue.x-k8s.io/priority-class": "high",
        "kueue.x-k8s.io/pod-group-pod-index-label": "etcompile.dev/index",
    }
    del inside["kueue.x-k8s.io/pod-group-pod-index-label"]
    ends = {
        "kueue.x-k8s.io/role-hash": "launcher",
        "kueue.x-k8s.io/retriable-in-group": "false",
        "kueue.x-k8s.io/pod-group-pod-index": "0",
    }
    assert marks(pod(compilation, "launcher"), "kueue.x-k8s.io") == inside | ends
    assert marks(pod(compilation, "worker-3"), "kueue.x-k8s.io") == {
        "kueue.x-k8s.io/queue-name": "research",
        "kueue.x-k8s.io/priority-class": "low",
    }
    assert "schedulerName" not in pod(compilation, "worker-0")["spec"]


def test_kueue_gets_the_topology_of_a_job_on_each_pod_of_the_group() -> None:
    job = worked("kueue")
    required, slices = "podset-required-topology", "podset-slice-size"
    of_job = {f"kueue.x-k8s.io/{required}": "rack", f"kueue.x-k8s.io/{slices}": "2"}
    job["metadata"].setdefault("annotations", {}).update(of_job)
    worker = job["spec"]["etReplicaSpecs"]["worker"]["template"]
    of_template = {"kueue.x-k8s.io/podset-preferred-topology": "block"}
    worker.setdefault("metadata", {})["annotations"] = of_template
    compilation = ganged("kueue", job)
    assert of_job.items() <= pod(compilation, "launcher")["metadata"]["annotations"].items()
    # What a template says of its topology counts for its Pods.
    annotations = pod(compilation, "worker-1")["metadata"]["annotations"]
    assert of_template.items() <= annotations.items()
    assert f"kueue.x-k8s.io/{required}" not in annotations
    assert compilation.diagnostics == ()


@pytest.mark.parametrize(
    ("version", "api", "kind"),
    [
        ("1.35", "scheduling.k8s.io/v1alpha1", "Workload"),
        ("1.36", "scheduling.k8s.io/v1alpha2", "PodGroup"),
        ("1.37", "scheduling.k8s.io/v1beta1", "PodGroup"),
    ],
)
def test_native_gang_has_the_form_of_its_kubernetes_version(
    version: str, api: str, kind: str
) -> None:
    compilation = ganged("native", kubernetes_version=version)
    value, spec = group(compilation), pod(compilation, "worker-3")["spec"]
    assert (value["apiVersion"], value["kind"]) == (api, kind)
    gang = {"gang": {"minCount": 3}}
    if version == "1.35":
        assert value["spec"] == {"podGroups": [{"name": "all", "policy": gang}]}
        assert spec["workloadRef"] == {"name": "ej-r7", "podGroup": "all"}
        return
    assert value["spec"]["schedulingPolicy"] == gang
    assert spec["schedulingGroup"] == {"podGroupName": "ej-r7"}
    # 1.36 refuses it unless another feature gate is on.
    assert value["spec"].get("priorityClassName") == (None if version == "1.36" else "train-high")
    # It has Pods beyond the minimum, of which the scheduler may preempt one.
    assert "disruptionMode" not in value["spec"]


@pytest.mark.parametrize(
    ("types", "elastic", "mode"),
    [
        ({"Master": 1, "Worker": 3}, None, {"all": {}}),
        ({"Worker": 3}, {"minReplicas": 2, "maxReplicas": 5}, None),
        ({"Worker": 3}, {"minReplicas": 3, "maxReplicas": 5}, None),
    ],
)
def test_only_a_gang_without_elastic_pods_is_disrupted_as_a_whole(
    types: dict[str, int], elastic: dict[str, int] | None, mode: dict[str, Any] | None
) -> None:
    job = kubeflow_job("PyTorchJob", types, **({"elasticPolicy": elastic} if elastic else {}))
    compilation = ganged("native", job, kubernetes_version="1.37")
    assert group(compilation)["spec"].get("disruptionMode") == mode


def test_scaling_does_not_change_the_immutable_disruption_mode() -> None:
    job = training_job()
    [launcher] = job["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]["containers"]
    launcher["command"] = ["mpirun", "-np", "2", "train"]
    for intents in ([], [scale_out("more", 2)]):
        compilation = ganged("native", job, *intents, kubernetes_version="1.37")
        assert group(compilation)["spec"]["disruptionMode"] == {"all": {}}


@pytest.mark.parametrize(
    ("gang", "version", "code"),
    [
        ("native", "1.35", "ET2087"),
        ("native", "1.36", None),
        ("native", "1.37", None),
        ("kueue", "1.37", None),
        ("volcano", "1.37", "ET2092"),
        ("kai", "1.37", "ET2092"),
    ],
)
def test_a_gang_is_placed_by_a_label_of_nodes_or_the_label_is_reported(
    gang: str, version: str, code: str | None
) -> None:
    label = "topology.kubernetes.io/zone"
    job = kubeflow_job("PyTorchJob", {"Worker": 2})
    job["metadata"]["annotations"] = {"etcompile.dev/gang-topology": label}
    settings = Settings(gang=gang, run="r7", kubernetes_version=version)
    compilation = etcompile.compile([job], Options(namespace="ml", settings=settings))
    reported = [one.code for one in compilation.diagnostics if one.code != "ET2083"]
    assert reported == ([code] if code else [])
    if gang == "native" and not code:
        assert group(compilation)["spec"]["schedulingConstraints"] == {"topology": [{"key": label}]}
    if gang == "kueue":
        notes = by_name(compilation)["Pod", "mnist-r7-worker-1"]["metadata"]["annotations"]
        assert notes["kueue.x-k8s.io/podset-required-topology"] == label


def test_yunikorn_annotations_are_complete_on_each_pod() -> None:
    compilation = ganged("yunikorn", worked("yunikorn", timeout="600"))
    members = {name: pod(compilation, name) for name in ("launcher", "worker-0", "worker-3")}
    notes = {name: marks(value, "yunikorn.apache.org") for name, value in members.items()}
    names = [one.pop("yunikorn.apache.org/task-group-name") for one in notes.values()]
    assert names == ["launcher", "worker", "worker"]
    assert notes["launcher"] == notes["worker-0"] == notes["worker-3"]
    of_launcher = notes["launcher"]
    assert of_launcher["yunikorn.apache.org/app-id"] == "ej-r7"
    assert of_launcher["yunikorn.apache.org/queue"] == "root.research"
    policy = of_launcher["yunikorn.apache.org/schedulingPolicyParameters"]
    assert policy == "placeholderTimeoutInSeconds=600 gangSchedulingStyle=Hard"
    groups = json.loads(of_launcher["yunikorn.apache.org/task-groups"])
    assert [(one["name"], one["minMember"]) for one in groups] == [("launcher", 1), ("worker", 2)]
    assert groups[1]["minResource"] == {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}


def test_yunikorn_starts_pods_as_they_fit_only_for_who_says_so() -> None:
    compilation = ganged("yunikorn", worked("yunikorn", on_timeout="best-effort"))
    policy = "yunikorn.apache.org/schedulingPolicyParameters"
    text = pod(compilation, "launcher")["metadata"]["annotations"][policy]
    assert text == "gangSchedulingStyle=Soft"


def test_kai_pod_group_has_a_subgroup_per_role() -> None:
    compilation = ganged("kai")
    assert group(compilation)["spec"] == {
        "queue": "research",
        "priorityClassName": "train-high",
        "subGroups": [{"name": "launcher", "minMember": 1}, {"name": "worker", "minMember": 2}],
    }
    worker = pod(compilation, "worker-3")
    assert marks(worker, "kai.scheduler", "pod-group-name") == {
        "kai.scheduler/subgroup-name": "worker",
        "kai.scheduler/queue": "research",
        "kai.scheduler/skip-podgrouper": "true",
        "pod-group-name": "ej-r7",
    }
    assert worker["spec"]["schedulerName"] == "kai-scheduler"


def test_koordinator_gets_a_group_whose_minimum_may_change() -> None:
    compilation = ganged("koordinator", worked("koordinator", timeout="600"))
    value = group(compilation)
    assert value["apiVersion"] == "scheduling.sigs.k8s.io/v1alpha1"
    assert (value["spec"]["minMember"], value["spec"]["scheduleTimeoutSeconds"]) == (3, 600)
    assert value["metadata"]["annotations"]["gang.scheduling.koordinator.sh/mode"] == "Strict"
    worker = pod(compilation, "worker-3")
    assert worker["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io"] == "ej-r7"
    assert worker["metadata"]["labels"]["quota.scheduling.koordinator.sh/name"] == "research"


@pytest.mark.parametrize("gang", SCHEDULERS)
def test_scaling_touches_no_pod_and_no_gang_that_is_there(gang: str) -> None:
    job = worked(gang)
    job["spec"]["etReplicaSpecs"]["worker"]["maxReplicas"] = 8
    before = by_name(ganged(gang, job))
    for scaler in (scale_out("more", 2, job="ej"), scale_in("less", 2, job="ej")):
        after = by_name(ganged(gang, job, scaler))
        for key in before.keys() & after.keys():
            if key[0] in ("Pod", "PodGroup"):
                assert after[key] == before[key], key


@pytest.mark.parametrize("gang", SCHEDULERS)
def test_a_gang_is_named_as_the_job_and_as_its_run(gang: str) -> None:
    for run, name in (("r7", "ej-r7"), *([] if gang == "kueue" else [(None, "ej")])):
        settings = Settings(gang=gang, run=run)
        compilation = compiled(worked(gang), settings=settings, namespace="ml")
        launcher = by_name(compilation)["Pod", f"{name}-launcher"]
        text = json.dumps([launcher["metadata"], launcher["spec"].get("schedulingGroup")])
        assert f'"{name}"' in text
        groups = [o["metadata"]["name"] for o in compilation.objects if o["kind"] == "PodGroup"]
        assert groups in ([], [name])


def test_groups_come_before_their_pods_and_are_annotated_like_others() -> None:
    settings = Settings(gang="volcano", profiles=("argocd",))
    compilation = compiled(worked("volcano"), settings=settings, namespace="ml")
    kinds = [value["kind"] for value in compilation.objects]
    assert kinds.index("PodGroup") < kinds.index("Pod")
    notes = group(compilation)["metadata"]["annotations"]
    assert notes["argocd.argoproj.io/sync-wave"] == "0"
    assert notes["argocd.argoproj.io/sync-options"] == "SkipDryRunOnMissingResource=true"


def test_a_job_that_is_not_elastic_needs_all_of_its_pods() -> None:
    launcher = training_job(replicas=4)
    for command in (["mpirun", "-np", "4", "train"], ["horovodrun", "-np", "4", "train"]):
        [main] = launcher["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]["containers"]
        main["command"] = command
        launcher["spec"]["etReplicaSpecs"]["worker"]["minReplicas"] = 1
        assert group(ganged("volcano", launcher))["spec"]["minMember"] == 5


def test_what_horovod_begins_with_counts_slots() -> None:
    job = worked("volcano")
    del job["spec"]["etReplicaSpecs"]["worker"]["minReplicas"]
    job["spec"]["slotsPerWorker"] = 2
    assert group(ganged("volcano", job))["spec"]["minTaskMember"] == {"launcher": 1, "worker": 1}


def test_an_elastic_pytorch_job_gangs_on_its_minimum() -> None:
    policy = {"minReplicas": 2, "maxReplicas": 8, "rdzvBackend": "c10d"}
    job = kubeflow_job("PyTorchJob", {"Worker": 5}, elasticPolicy=policy)
    assert group(ganged("volcano", job))["spec"]["minMember"] == 2


def test_min_available_fills_other_roles_before_workers() -> None:
    job = kubeflow_job(
        "TFJob",
        {"Chief": 1, "PS": 2, "Worker": 4},
        runPolicy={"schedulingPolicy": {"minAvailable": 5}},
    )
    minima = group(ganged("volcano", job))["spec"]["minTaskMember"]
    assert minima == {"chief": 1, "ps": 2, "worker": 2}


def test_resources_that_somebody_names_count_as_they_are() -> None:
    policy = {"minResources": {"cpu": 4, "nvidia.com/gpu": "2"}}
    job = kubeflow_job("JAXJob", {"Worker": 2}, runPolicy={"schedulingPolicy": policy})
    assert group(ganged("volcano", job))["spec"]["minResources"] == {
        "cpu": "4",
        "nvidia.com/gpu": "2",
    }
    named = worked("volcano", min_resources="cpu=4, memory=8Gi")
    resources = group(ganged("volcano", named))["spec"]["minResources"]
    assert resources == {"cpu": "4", "memory": "8Gi"}


def test_requests_are_what_a_scheduler_counts() -> None:
    small = {"requests": {"cpu": "250m"}, "limits": {"memory": "1Gi"}}
    big = {"requests": {"cpu": "2", "memory": "512Mi"}}
    worker = replicas("JAXJob", 2, resources=small)
    worker["template"]["spec"] |= {
        "initContainers": [
            {"name": "proxy", "image": "a:1", "restartPolicy": "Always", "resources": small},
            {"name": "fetch", "image": "a:1", "resources": big},
        ],
        "overhead": {"cpu": "100m"},
        "runtimeClassName": "kata",
    }
    spec = group(ganged("volcano", kubeflow_job("JAXJob", {"Worker": worker})))["spec"]
    # Twice: the proxy beside the larger init container, 2250m, and the runtime's own.
    assert spec["minResources"] == {"cpu": "4700m", "memory": "4Gi"}


def test_a_suspended_job_has_no_gang() -> None:
    job = kubeflow_job("JAXJob", {"Worker": 2}, runPolicy={"suspend": True})
    compilation = ganged("volcano", job)
    assert {value["kind"] for value in compilation.objects} == {"ConfigMap"}


def test_the_pod_of_a_launcher_job_is_marked() -> None:
    job = mpi_job("v2beta1")
    job["metadata"] = {"name": "ej", "annotations": {"scheduling.volcano.sh/queue-name": "q"}}
    for role in job["spec"]["mpiReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["resources"] = WORKER
    compilation = ganged("volcano", job)
    assert group(compilation)["spec"]["queue"] == "q"
    launcher = by_name(compilation)["Job", "ej-r7-launcher"]["spec"]["template"]
    assert launcher["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "ej-r7"
    assert launcher["spec"]["schedulerName"] == "volcano"
    # Kueue queues a Job by itself: there the launcher is a Pod.
    assert ("Pod", "ej-r7-launcher") in by_name(ganged("kueue", job))


@pytest.mark.parametrize("gang", SCHEDULERS)
def test_the_launcher_begins_with_the_workers_that_its_gang_begins_with(gang: str) -> None:
    compilation = ganged(gang)
    script = by_name(compilation)["ConfigMap", "ej-config"]["data"]["wait-for-workers.sh"]
    assert "-ge 2 ]" in script
    inits = pod(compilation, "launcher")["spec"]["initContainers"]
    [gate] = [one for one in inits if one["name"] == "wait-for-workers"]
    assert "/etc/etcompile/hosts" in [mount["mountPath"] for mount in gate["volumeMounts"]]
    plain = by_name(compiled(worked(gang), namespace="ml"))["ConfigMap", "ej-config"]["data"]
    assert "enough to begin" not in plain["wait-for-workers.sh"]


def test_an_elastic_dlrover_job_gangs_on_its_master_and_fewest_workers() -> None:
    resources = {"requests": {"cpu": "4", "memory": "8Gi"}}
    command = ["dlrover-run", "--nnodes=2:4", "--nproc_per_node=1", "train.py"]
    marks = {"etcompile.dev/gang-queue": "research", "etcompile.dev/dlrover-version": "0.5.0"}
    worker = dlrover_type(4, command=command, resources=resources)
    job = elastic_job({"worker": worker}, name="ej", annotations=marks)
    spec = group(ganged("volcano", job))["spec"]
    minima = spec["minTaskMember"]
    assert (spec["queue"], minima["worker"], sum(minima.values())) == ("research", 2, 3)
