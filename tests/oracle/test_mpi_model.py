"""What etcompile renders for MPIJobs of any shape, held against models of their operators.

The models are first held against the recordings, so that they are not a second opinion of ours.
"""

import copy
import functools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gang_model
import test_mpi_recordings as recorded
from differences import Difference, Row
from operator_recordings import Recording
from randomness import examples
from recordings import identity, unlisted
from upstream_mpi import children

PLAIN = [(o, c) for o, c in recorded.COMPARED if not c.name.startswith("gang-")]


@pytest.mark.parametrize(("operator", "recording"), PLAIN, ids=recorded.named)
def test_the_model_is_what_was_recorded(operator: str, recording: Recording) -> None:
    start = next(iter(recorded.moments(recording)))
    modelled = {identity(value): value for value in children(start.job, recording.namespace)}
    assert modelled == {key: unowned(value) for key, value in start.standing.items()}


def unowned(value: Mapping[str, Any]) -> dict[str, Any]:
    """An object without what says that the custom resource owns it, and without run-time data."""
    metadata = {k: v for k, v in value["metadata"].items() if k != "ownerReferences"}
    stripped = {k: v for k, v in value.items() if k != "status"} | {"metadata": metadata}
    if value["kind"] == "Job":
        template = value["spec"]["template"]
        meta = {k: v for k, v in template["metadata"].items() if k != "ownerReferences"}
        stripped["spec"] = {**value["spec"], "template": {**template, "metadata": meta}}
    return stripped


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


ENV = st.lists(
    st.sampled_from(
        (
            "MINE",
            "OMPI_MCA_plm_rsh_agent",
            "OMPI_MCA_orte_default_hostfile",
            "PRTE_MCA_plm_ssh_args",
            "I_MPI_HYDRA_BOOTSTRAP",
            "I_MPI_PERHOST",
            "NVIDIA_VISIBLE_DEVICES",
            "K_MPI_JOB_ROLE",
        )
    ),
    unique=True,
    max_size=3,
)
COMMANDS = st.sampled_from(
    (
        {"command": ["mpirun", "train"]},
        {"command": ["sh", "-c"], "args": ["mpirun train"]},
        {"args": ["train"]},
        {},
    )
)
RESOURCES = st.sampled_from(
    (
        {},
        {"limits": {"cpu": "500m", "memory": "3072Mi"}},
        {"limits": {"nvidia.com/gpu": 2}},
        {"limits": {"example.com/gpu-slice": "1", "cpu": 1}},
        {"limits": {"example.com/resourcetype": "1"}},
    )
)


@st.composite
def containers(draw: st.DrawFn, name: str) -> dict[str, Any]:
    container = {"name": name, "image": draw(st.sampled_from(("mpi:5", "mpi", "r.io/mpi:latest")))}
    container |= draw(COMMANDS)
    if env := draw(ENV):
        container["env"] = [{"name": one, "value": "user's"} for one in env]
    if resources := draw(RESOURCES):
        container["resources"] = resources
    if draw(st.booleans()):
        container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    if draw(st.booleans()):
        container["securityContext"] = {"runAsUser": 1000}
    return container


@st.composite
def templates(draw: st.DrawFn, role: str) -> dict[str, Any]:
    sidecars = draw(st.integers(0, 2))
    inits = draw(st.integers(0, 1))
    spec: dict[str, Any] = {
        "containers": [draw(containers(role))]
        + [draw(containers(f"sidecar-{number}")) for number in range(sidecars)],
        "volumes": [{"name": "data", "emptyDir": {}}],
    }
    if inits:
        spec["initContainers"] = [draw(containers("first"))]
    spec |= draw(
        some(
            hostNetwork=st.booleans(),
            hostname=st.just("own"),
            subdomain=st.just("own"),
            dnsPolicy=st.sampled_from(("Default", "ClusterFirst")),
            dnsConfig=st.sampled_from(
                ({"searches": ["example.org"]}, {"options": [{"name": "ndots", "value": "1"}]})
            ),
            serviceAccountName=st.just("trainer"),
            nodeSelector=st.just({"pool": "gpu"}),
            restartPolicy=st.sampled_from(("Never", "OnFailure", "Always")),
            activeDeadlineSeconds=st.just(60),
        )
    )
    metadata = draw(
        some(
            labels=st.just({"team": "nlp", "training.kubeflow.org/job-name": "mine"}),
            annotations=st.just({"sidecar.istio.io/inject": "false"}),
        )
    )
    return {"metadata": metadata, "spec": spec}


@st.composite
def replicas(draw: st.DrawFn, role: str, policies: tuple[str, ...]) -> dict[str, Any]:
    replica = {"template": draw(templates(role))}
    return replica | draw(some(restartPolicy=st.sampled_from(policies)))


POLICY = {
    "cleanPodPolicy": st.sampled_from(("None", "Running", "All")),
    "activeDeadlineSeconds": st.integers(0, 90),
    "backoffLimit": st.integers(0, 9),
    "ttlSecondsAfterFinished": st.integers(0, 90),
}


@st.composite
def v1_jobs(draw: st.DrawFn) -> dict[str, Any]:
    policies = ("Always", "OnFailure", "Never", "ExitCode", "")
    roles = {"Launcher": draw(replicas("launcher", policies))}
    if draw(st.booleans()):
        roles["Worker"] = draw(replicas("worker", policies))
        if draw(st.booleans()):
            roles["Worker"]["replicas"] = draw(st.sampled_from((0, 1, 2, 11)))
    spec: dict[str, Any] = {"mpiReplicaSpecs": roles}
    spec |= draw(
        some(
            slotsPerWorker=st.integers(1, 8),
            runPolicy=some(**POLICY),
            cleanPodPolicy=POLICY["cleanPodPolicy"],
            **({"mainContainer": st.just("worker")} if "Worker" in roles else {}),
        )
    )
    return document("kubeflow.org/v1", spec)


@st.composite
def v2_jobs(draw: st.DrawFn) -> dict[str, Any]:
    policies = ("OnFailure", "Never", "")
    roles = {"Launcher": draw(replicas("launcher", policies))}
    if draw(st.booleans()):
        roles["Worker"] = draw(replicas("worker", policies))
        roles["Worker"]["replicas"] = draw(st.sampled_from((1, 2, 11)))
    spec: dict[str, Any] = {"mpiReplicaSpecs": roles}
    spec |= draw(
        some(
            slotsPerWorker=st.integers(0, 8),
            mpiImplementation=st.sampled_from(("OpenMPI", "Intel", "MPICH")),
            runLauncherAsWorker=st.booleans(),
            launcherCreationPolicy=st.sampled_from(("AtStartup", "WaitForWorkersReady")),
            sshAuthMountPath=st.sampled_from(("", "/root/.ssh", "/home/mpiuser/.ssh")),
            runPolicy=some(**POLICY, suspend=st.booleans()),
        )
    )
    return document("kubeflow.org/v2beta1", spec)


def document(version: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "MPIJob", "metadata": {"name": "pi"}, "spec": spec}


def differences_of(job: dict[str, Any]) -> list[Difference]:
    theirs = {identity(value): value for value in children(job, "ml")}
    return list(recorded.differing(theirs, recorded.rendered(job, "ml")))


def full(version: str, **spec: Any) -> dict[str, Any]:
    """A job whose templates have a bit of everything that is treated differently."""
    roles: dict[str, Any] = {}
    for role in ("launcher", "worker"):
        env = ("OMPI_MCA_orte_default_hostfile", "K_MPI_JOB_ROLE")
        main = {
            "name": role,
            "image": "mpi:5",
            "command": ["run"],
            "env": [{"name": name, "value": "user's"} for name in env],
            "securityContext": {"runAsUser": 1000},
        }
        pod = {
            "containers": [main],
            "initContainers": [{"name": "first", "image": "mpi:5"}],
            "dnsConfig": {"searches": ["example.org"]},
            "serviceAccountName": "trainer",
            "activeDeadlineSeconds": 60,
        }
        roles[role.capitalize()] = {"template": {"spec": pod}}
    roles["Worker"]["replicas"] = 2
    return document(version, {"mpiReplicaSpecs": roles, **spec})


def training_operator_shapes() -> Iterator[dict[str, Any]]:
    job = full("kubeflow.org/v1", runPolicy={"activeDeadlineSeconds": 20})
    yield job
    roles = copy.deepcopy(job["spec"]["mpiReplicaSpecs"])
    roles["Worker"]["restartPolicy"] = "Always"
    del roles["Worker"]["template"]["spec"]["activeDeadlineSeconds"]
    yield {**job, "spec": {**job["spec"], "mpiReplicaSpecs": roles}}
    yield {**job, "spec": {"mpiReplicaSpecs": {"Launcher": roles["Launcher"]}}}


def without_root() -> dict[str, Any]:
    """A job of the MPI Operator whose user is in no image's passwd file."""

    def role(**more: Any) -> dict[str, Any]:
        pod = {"containers": [{"name": "main", "image": "mpi:5", **more}]}
        return {"template": {"spec": {**pod, "securityContext": {"runAsUser": 12345}}}}

    roles = {"Launcher": role(command=["run"]), "Worker": {**role(), "replicas": 2}}
    return document("kubeflow.org/v2beta1", {"mpiReplicaSpecs": roles})


SHAPES = {
    "training-operator": list(training_operator_shapes()),
    "mpi-operator": [full("kubeflow.org/v2beta1"), without_root()],
}


GANGS = {
    "training-operator": gang_model.job("MPIJob"),
    "mpi-operator": gang_model.job("MPIJob", "v2beta1"),
}


@pytest.mark.parametrize("operator", GANGS)
def test_the_group_of_a_gang_differs_only_as_listed(operator: str) -> None:
    assert not unlisted(gang_model.differences(GANGS[operator]), recorded.LISTED[operator])


@pytest.mark.parametrize("operator", SHAPES)
def test_a_shape_without_a_recording_differs_only_as_listed(operator: str) -> None:
    for job in SHAPES[operator]:
        assert not unlisted(differences_of(job), recorded.LISTED[operator])


ROWS = [(operator, row) for operator, listed in recorded.LISTED.items() for row in listed]


@pytest.mark.parametrize(
    ("operator", "row"), ROWS, ids=lambda one: one if isinstance(one, str) else one.path
)
def test_each_listed_difference_occurs(operator: str, row: Row) -> None:
    assert any(row.lists(difference) for difference in everywhere(operator)), (
        "docs/differences.md lists a difference that does not occur any more"
    )


@functools.cache
def everywhere(operator: str) -> frozenset[Difference]:
    cases = [case for compared_operator, case in recorded.COMPARED if compared_operator == operator]
    occurring = {one for case in cases for one in recorded.differences_of(case)}
    occurring |= {*gang_model.differences(GANGS[operator])}
    return frozenset(occurring.union(*map(differences_of, SHAPES[operator])))


@examples(60)
@given(v1_jobs())
def test_any_job_of_the_training_operator_differs_only_as_listed(job: dict[str, Any]) -> None:
    assert not unlisted(differences_of(job), recorded.LISTED["training-operator"])


@examples(60)
@given(v2_jobs())
def test_any_job_of_the_mpi_operator_differs_only_as_listed(job: dict[str, Any]) -> None:
    assert not unlisted(differences_of(job), recorded.LISTED["mpi-operator"])
