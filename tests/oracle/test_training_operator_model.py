"""What etcompile renders, held against the model of the Training Operator: any shape of job.

The model is itself held against the recordings (test_training_operator_recordings), so that it
is not a second opinion of ours. Shapes that show a listed difference are written down, the
others are searched for.
"""

import copy
import functools
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

import etcompile
import gang_model
import test_training_operator_recordings as recorded
import training_operator
from differences import ABSENT, Difference
from etcompile import Options
from randomness import examples
from recordings import unlisted
from specs import kubeflow_job, replicas
from training_operator import KINDS

TYPES = {
    "TFJob": ("Chief", "Evaluator", "PS", "Worker"),
    "PyTorchJob": ("Master", "Worker"),
    "XGBoostJob": ("Master", "Worker"),
    "PaddleJob": ("Master", "Worker"),
    "JAXJob": ("Worker",),
    "MXJob": ("Scheduler", "Server", "Worker", "TunerTracker", "TunerServer", "Tuner"),
}
ONE_MASTER = ("PyTorchJob", "XGBoostJob")
"""Kinds whose webhook wants `Master.replicas: 1`, written out."""


def template(replica: dict[str, Any]) -> dict[str, Any]:
    pod_template: dict[str, Any] = replica["template"]
    return pod_template


def with_sidecar(kind: str, *env: dict[str, str]) -> dict[str, Any]:
    replica = replicas(kind)
    sidecar = {"name": "logs", "image": "example.com/logs:1", **({"env": [*env]} if env else {})}
    template(replica)["spec"]["containers"].insert(0, sidecar)
    return replica


def with_data(kind: str) -> dict[str, Any]:
    replica = replicas(kind, volumeMounts=[{"name": "data", "mountPath": "/data"}])
    template(replica)["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
    return replica


def with_annotation(kind: str) -> dict[str, Any]:
    replica = replicas(kind)
    template(replica)["metadata"] = {"annotations": {"sidecar.istio.io/inject": "false"}}
    return replica


def without_command() -> dict[str, Any]:
    role = replicas("PyTorchJob", securityContext={"runAsUser": 1}, imagePullPolicy="Always")
    template(role)["spec"]["containers"][0].pop("command", None)
    return role


def with_init_container() -> dict[str, Any]:
    role = replicas("PyTorchJob")
    template(role)["spec"]["initContainers"] = [{"name": "load", "image": "example.com/load:1"}]
    return role


def with_ports(*ports: dict[str, Any]) -> dict[str, Any]:
    return kubeflow_job("JAXJob", {"Worker": replicas("JAXJob", ports=list(ports))})


def pytorch(worker: Any, **spec: Any) -> dict[str, Any]:
    return kubeflow_job("PyTorchJob", {"Master": 1, "Worker": worker}, **spec)


def dynamic(**types: Any) -> dict[str, Any]:
    return kubeflow_job("TFJob", types, enableDynamicWorker=True)


RANK = {"name": "RANK", "value": "7"}
LEVEL = {"name": "LEVEL", "value": "info"}
SHAPES = {
    "worker-only PyTorchJob": kubeflow_job("PyTorchJob", {"Worker": 3}),
    "standalone": kubeflow_job("PyTorchJob", {"Worker": 1}, elasticPolicy={"standalone": True}),
    "sidecars": kubeflow_job("JAXJob", {"Worker": with_sidecar("JAXJob")}),
    "sidecar with variables": pytorch(with_sidecar("PyTorchJob", RANK, LEVEL)),
    "own variable": pytorch(replicas("PyTorchJob", env=[RANK])),
    "non-root": pytorch(replicas("PyTorchJob", securityContext={"runAsUser": 1000})),
    "no command": pytorch(without_command()),
    "own init container": pytorch(with_init_container()),
    "unnamed port": with_ports({"containerPort": 80}),
    "unnamed port that is the kind's own": with_ports({"containerPort": 6666}),
    "two unnamed ports": with_ports({"containerPort": 80}, {"containerPort": 81}),
    "udp": with_ports({"name": "rdma", "containerPort": 4791, "protocol": "UDP"}),
    "tuning": kubeflow_job("MXJob", {"TunerTracker": 1, "TunerServer": 1, "Tuner": 1}),
    "dynamic without servers": dynamic(Worker=2),
    "single dynamic worker": dynamic(Worker=1),
    "single dynamic worker with a variable": dynamic(Worker=replicas("TFJob", env=[RANK])),
    "dynamic with all": dynamic(Chief=1, Evaluator=1, PS=2, Worker=2),
    "annotations": kubeflow_job("TFJob", {"Worker": with_annotation("TFJob")}),
    "volumes": kubeflow_job("TFJob", {"Worker": with_data("TFJob")}),
}


# Any job ------------------------------------------------------------------------------------------

VARIABLE = st.sampled_from(
    (
        *("A", "RANK", "WORLD_SIZE", "PET_NNODES", "MASTER_ADDR", "TF_CONFIG", "MX_CONFIG"),
        *("COORDINATOR_PORT", "PADDLE_MASTER", "JAX_PROCESS_ID", "POD_IP_DUMMY"),
    )
)
ENV = st.lists(VARIABLE, unique=True, max_size=3).map(
    lambda names: [{"name": name, "value": f"my {name}"} for name in names]
)
NAMES = st.dictionaries(
    st.sampled_from(["team", "example.com/a", "training.kubeflow.org/job-role"]),
    st.sampled_from(["nlp", "master", "1"]),
    max_size=2,
)


@st.composite
def ports(draw: st.DrawFn, default: str) -> list[Any]:
    """Ports of a container: of the kind's own name or another, of none, TCP or UDP."""
    numbers = draw(st.lists(st.integers(1, 65535), unique=True, max_size=3))
    port_list = []
    for number in numbers:
        used = {port.get("name") for port in port_list}
        free = [
            name for name in (default, "http", "rdma", None) if name is None or name not in used
        ]
        name = draw(st.sampled_from(free))
        protocol = draw(st.sampled_from([None, "TCP"] + (["UDP"] if name == "rdma" else [])))
        port = {"name": name, "containerPort": number, "protocol": protocol}
        port_list.append({key: value for key, value in port.items() if value is not None})
    return port_list


@st.composite
def templates(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    """Pod templates with a bit of everything."""
    _, name, port, _, _ = KINDS[kind]
    main: dict[str, Any] = {"name": name, "image": "example.com/trainer:1"}
    main |= draw(st.sampled_from([{}, {"command": ["train"]}, {"args": ["--fast"]}]))
    main |= {"env": draw(ENV), "ports": draw(ports(port))}
    containers = [main]
    for other in draw(st.lists(st.sampled_from(["logs", "proxy"]), unique=True)):
        env = [entry for entry in draw(ENV) if entry["name"] != "POD_IP_DUMMY"]
        one = {"name": other, "image": "example.com/other", "env": env}
        containers.insert(draw(st.integers(0, 1)), one)
    spec: dict[str, Any] = {"containers": containers}
    if draw(st.booleans()):
        spec["initContainers"] = [{"name": "get", "image": "busybox:1", "env": draw(ENV)}]
    if draw(st.booleans()):
        spec["restartPolicy"] = draw(st.sampled_from(["Always", "Never"]))
    if draw(st.booleans()):
        spec |= {"volumes": [{"name": "data", "emptyDir": {}}], "hostNetwork": draw(st.booleans())}
        main["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    metadata = {"labels": draw(NAMES), "annotations": draw(NAMES)}
    metadata |= draw(st.sampled_from([{}, {"name": "mine"}, {"finalizers": ["example.com/keep"]}]))
    return {"metadata": metadata, "spec": spec}


@st.composite
def elastic_policies(draw: st.DrawFn, workers: int) -> dict[str, Any]:
    """Elastic policies that let that many workers be."""
    optional = {
        "minReplicas": st.integers(1, workers),
        "maxReplicas": st.integers(workers, 20),
        "rdzvBackend": st.sampled_from(["c10d", "etcd", "etcd-v2"]),
        "rdzvPort": st.integers(1, 65535),
        "rdzvHost": st.just("etcd-client"),
        "rdzvId": st.just("run-1"),
        "rdzvConf": st.just([{"key": "timeout", "value": "900"}, {"key": "a", "value": ""}]),
        "standalone": st.booleans(),
        "maxRestarts": st.integers(0, 5),
        "nProcPerNode": st.integers(1, 8),
        "metrics": st.just([{"type": "Resource", "resource": {"name": "cpu"}}]),
    }
    policy: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=optional))
    # One bound stands for both.
    if len({"minReplicas", "maxReplicas"} & set(policy)) == 1:
        policy |= {key: workers for key in ("minReplicas", "maxReplicas") if key in policy}
    return policy


@st.composite
def jobs(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    """Jobs that the operator's webhook admits and etcompile does not refuse for a reason."""
    needed = {"XGBoostJob": ["Master"], "JAXJob": ["Worker"], "TFJob": ["Worker"]}.get(kind, [])
    chosen = draw(st.sets(st.sampled_from(TYPES[kind]), min_size=1)) | set(needed)
    chosen -= {"Chief"} if draw(st.booleans()) else set()
    types: dict[str, Any] = {}
    for name in sorted(chosen):
        one = {"replicas": draw(st.integers(1, 3)), "template": draw(templates(kind))}
        one |= draw(
            st.sampled_from([{}, {"restartPolicy": ""}])
            | st.builds(
                lambda policy: {"restartPolicy": policy},
                st.sampled_from(["Always", "OnFailure", "Never", "ExitCode"]),
            )
        )
        if name == "Master" and kind in ONE_MASTER:
            one["replicas"] = 1
        elif draw(st.booleans()):
            one.pop("replicas")
        cased = training_operator.CASED.get(kind, ())
        spelt = draw(st.sampled_from([name, name.lower(), name.upper()])) if name in cased else name
        types[spelt] = one
    job = kubeflow_job(kind, types)
    spec = job["spec"]
    job["metadata"] |= {"annotations": draw(NAMES), "labels": draw(NAMES)}
    if kind != "TFJob" and draw(st.booleans()):
        job["metadata"]["annotations"][recorded.SIDECARS_TOO] = "true"
    optional = {
        "activeDeadlineSeconds": st.sampled_from([0, 1, 3600, 2**40]),
        "cleanPodPolicy": st.sampled_from(["None", "Running", "All"]),
        "backoffLimit": st.integers(0, 3),
        "ttlSecondsAfterFinished": st.integers(0, 3),
    }
    spec["runPolicy"] = draw(st.fixed_dictionaries({}, optional=optional))
    if kind == "TFJob":
        spec |= draw(st.sampled_from([{}, {"successPolicy": ""}, {"successPolicy": "AllWorkers"}]))
        # A single dynamic worker with a TF_CONFIG of its own has nothing to be held against.
        single = sum(training_operator.replicas(job).values()) == 1
        spec["enableDynamicWorker"] = not single and draw(st.booleans())
    if kind == "MXJob":
        spec["jobMode"] = "MXTrain"
    if kind == "PyTorchJob":
        if "Worker" in types and draw(st.booleans()):
            workers = types["Worker"].get("replicas", 1)
            spec["elasticPolicy"] = draw(elastic_policies(workers))
        if "nProcPerNode" not in spec.get("elasticPolicy", {}) and draw(st.booleans()):
            spec["nprocPerNode"] = draw(st.sampled_from(["auto", "cpu", "gpu", "1", "8"]))
    return job


def differences_of(value: dict[str, Any]) -> list[Difference]:
    compilation = etcompile.compile(copy.deepcopy(value), Options(namespace="ml"))
    assert compilation.ok, compilation.diagnostics
    theirs = training_operator.children(value, "ml")
    all_differences = [*overridden(value, theirs)]
    all_differences += recorded.differences(value, theirs, recorded.of_the_job(compilation))
    return all_differences


def overridden(job: Any, objects: list[Any]) -> Iterator[Difference]:
    """Variables that a container has twice; the last of these stays: it is the one that counts."""
    for value in objects:
        for one in value["spec"].get("containers", ()):
            entries = one.get("env", [])
            last = {entry["name"]: index for index, entry in enumerate(entries)}
            path = f"spec.containers[{one['name']}]"
            where = f"spec.{recorded.sidecar_or_not(job, path)}[{one['name']}].env"
            title = f"{job['kind']} {recorded.recordings.title(value)}"
            for index, entry in enumerate(entries):
                if index != last[entry["name"]]:
                    yield Difference(title, f"{where}[{entry['name']}] (twice)", "", ABSENT)
            if entries:
                one["env"] = [e for index, e in enumerate(entries) if index == last[e["name"]]]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_without_a_recording_differs_only_as_listed(shape: str) -> None:
    missing = unlisted(differences_of(SHAPES[shape]), recorded.LISTED)
    assert not missing, missing


@pytest.mark.parametrize("kind", KINDS)
@examples(40)
@given(data=st.data())
def test_any_job_differs_only_as_listed(kind: str, data: st.DataObject) -> None:
    missing = unlisted(differences_of(data.draw(jobs(kind))), recorded.LISTED)
    assert not missing, missing


@pytest.mark.parametrize("row", recorded.LISTED, ids=lambda row: f"{row.kind} {row.path}")
def test_each_listed_difference_occurs(row: Any) -> None:
    assert any(row.lists(difference) for difference in everywhere()), (
        "docs/differences.md lists a difference that does not occur any more"
    )


@functools.cache
def everywhere() -> frozenset[Difference]:
    occurring = {one for case in recorded.CREATED for one in recorded.differences_of(case)}
    occurring |= {*gang_model.differences(gang_model.job("PyTorchJob"))}
    return frozenset(occurring.union(*map(differences_of, SHAPES.values())))


def test_the_group_of_a_gang_differs_only_as_listed() -> None:
    differences = gang_model.differences(gang_model.job("PyTorchJob"))
    assert not unlisted(differences, recorded.LISTED)
