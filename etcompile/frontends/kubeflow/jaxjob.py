"""Turn a JAXJob (`kubeflow.org/v1`) into a job: workers that find the first one, the coordinator.

See reference/training-operator-jaxjob.md.
"""

from etcompile.frontends.kubeflow import framework
from etcompile.frontends.kubeflow.framework import Described, Framework, Spec
from etcompile.model import Env, IndexedEnv, Port, Success

FRAMEWORK = Framework(
    kind="JAXJob",
    types="jaxReplicaSpecs",
    roles=("Worker",),
    summary="Training Operator: JAX jobs",
    container="jax",
    port=Port("jaxjob-port", 6666),
    restart="Never",
    trainer="jax",
)


def describe(spec: Spec) -> Described:
    workers = spec.part("Worker")
    host, total = spec.host("worker", 0), str(spec.total)
    env = (
        Env("PYTHONUNBUFFERED", "1", default=True),
        Env("COORDINATOR_PORT", str(workers.port)),
        Env("COORDINATOR_ADDRESS", host),
        Env("NUM_PROCESSES", total),
        IndexedEnv("PROCESS_ID", ("", "")),
        # JAX reads these, and none of the operator's (reference defect 45).
        Env("JAX_COORDINATOR_ADDRESS", f"{host}:{workers.port}", default=True),
        Env("JAX_NUM_PROCESSES", total, default=True),
        IndexedEnv("JAX_PROCESS_ID", ("", ""), default=True),
    )
    role = framework.role(spec, workers, env, first_is_master=True)
    return Described((role,), Success(("worker",)))


KINDS = (framework.kind(FRAMEWORK, describe),)
