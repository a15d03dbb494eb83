"""What each gang scheduler is told of one elastic job, and what of that scaling changes.

The job is the worked one of reference/gang-scheduling.md: a launcher and four workers, of which
two will do.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

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


GOLDENS = Path(__file__).parent / "goldens"
CASES: dict[str, dict[str, str]] = {name: {} for name in SCHEDULERS if name != "native"}
CASES |= {f"native-{one}": {"kubernetes_version": one} for one in ("1.35", "1.36", "1.37")}
MORE = {
    "kueue": {"queue_priority": "high", "extra_queue_priority": "low"},
    "kai": {},
    "native": {},
}
"""Further annotations of the job; the other schedulers have a timeout."""


def added(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What an object has that another one has not, lists that both have aside."""
    result = {}
    for key, value in after.items():
        if key not in before:
            result[key] = value
        elif isinstance(value, dict) and (inner := added(before[key], value)):
            result[key] = inner
    return result


@pytest.mark.parametrize("case", CASES)
def test_worked_job_has_the_gang_of_the_golden_file(
    case: str, request: pytest.FixtureRequest
) -> None:
    """The group, and what the gang adds to the launcher, a worker that must fit, and another."""
    gang = case.partition("-")[0]
    job = worked(gang, **MORE.get(gang, {"timeout": "600"}))
    compilation, plain = ganged(gang, job, **CASES[case]), ganged("none", job)
    shown = [o for o in compilation.objects if o["kind"] in ("PodGroup", "Workload")]
    shown += [
        {name: added(pod(plain, name), pod(compilation, name))}
        for name in ("launcher", "worker-1", "worker-3")
    ]
    text = yaml.safe_dump_all([json.loads(json.dumps(one)) for one in shown], width=1000)
    file = GOLDENS / f"{case}.yaml"
    if request.config.getoption("--update-goldens"):
        file.write_text(text, "utf-8")
    assert file.read_text("utf-8") == text


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


def test_yunikorn_starts_pods_as_they_fit_only_for_who_says_so() -> None:
    compilation = ganged("yunikorn", worked("yunikorn", on_timeout="best-effort"))
    policy = "yunikorn.apache.org/schedulingPolicyParameters"
    text = pod(compilation, "launcher")["metadata"]["annotations"][policy]
    assert text == "gangSchedulingStyle=Soft"


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
