"""What programs find in their environment, held against the models of the operators.

Variables of a template that refer to each other and to the job's, and that the job sets too: the
values must be those that upstream's list comes to.
"""

import copy
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import training_operator
import upstream
import upstream_mpi
from kubelet_rule import environment
from specs import compiled, kubeflow_job, mpi_job, training_job

JOBS = {
    "TFJob": kubeflow_job("TFJob", {"PS": 1, "Worker": 2}),
    "PyTorchJob": kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2}),
    "XGBoostJob": kubeflow_job("XGBoostJob", {"Master": 1, "Worker": 2}),
    "PaddleJob": kubeflow_job("PaddleJob", {"Worker": 2}),
    "JAXJob": kubeflow_job("JAXJob", {"Worker": 2}),
    "MXJob": kubeflow_job("MXJob", {"Scheduler": 1, "Server": 1, "Worker": 2}, jobMode="MXTrain"),
    "TrainingJob": training_job(launcherAttachMode="kubexec"),
    "MPIJob v1": mpi_job("v1"),
    "MPIJob v2beta1": mpi_job("v2beta1"),
}
MODELS = {"TrainingJob": upstream.children, "MPIJob": upstream_mpi.children}
"""Of the kinds that the Training Operator's model does not know."""
UNBUFFERED = "PYTHONUNBUFFERED"
OUR_ADDITIONS = (
    *("JAX_", "PRTE_", "OMPI_MCA_plm_rsh_no_tree_spawn", "ETCOMPILE_TEMPLATE_"),
    UNBUFFERED,
)
"""Variables that only etcompile sets (docs/differences.md)."""


def containers(job: dict[str, Any]) -> list[dict[str, Any]]:
    (roles,) = (value for key, value in job["spec"].items() if key.endswith("ReplicaSpecs"))
    return [one for role in roles.values() for one in role["template"]["spec"]["containers"]]


def pods(objects: Any) -> dict[str, Any]:
    env_by_pod = {}
    for value in objects:
        if value["kind"] in ("Pod", "Job"):
            template = value["spec"]["template"] if value["kind"] == "Job" else value
            env_by_pod[value["metadata"]["name"]] = template["spec"]["containers"][0].get("env", [])
    return env_by_pod


@pytest.mark.parametrize("name", JOBS)
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_references_come_to_what_they_come_to_upstream(name: str, data: st.DataObject) -> None:
    job = JOBS[name]
    model = MODELS.get(job["kind"], training_operator.children)
    theirs = pods(model(copy.deepcopy(job), "ml"))
    known = sorted({one["name"] for env in theirs.values() for one in env} | {"MINE", "OTHER"})
    known = [one for one in known if one != UNBUFFERED]  # the template's counts here
    pieces = st.sampled_from(("x-", "$$", *(f"$({one})" for one in known)))
    chosen = data.draw(st.lists(st.sampled_from(known), unique=True, max_size=5))
    values = st.lists(pieces, max_size=3).map("".join)
    env = [{"name": one, "value": data.draw(values)} for one in chosen]
    copied_job = copy.deepcopy(job)
    for container in containers(copied_job):
        container["env"] = copy.deepcopy(env)
    theirs = pods(model(copy.deepcopy(copied_job), "ml"))
    ours = pods(compiled(copied_job, namespace="ml").objects)
    assert theirs.keys() == ours.keys()
    for pod, expected in theirs.items():
        wanted = environment(expected)
        resolved = environment(ours[pod])
        assert {
            k: v for k, v in resolved.items() if k in wanted or not k.startswith(OUR_ADDITIONS)
        } == wanted, pod
