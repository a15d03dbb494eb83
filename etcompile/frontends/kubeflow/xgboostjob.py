"""Turn an XGBoostJob (`kubeflow.org/v1`), also of LightGBM, into a job with a master and workers.

See reference/training-operator-xgboostjob.md.
"""

from etcompile.frontends.kubeflow import framework
from etcompile.frontends.kubeflow.framework import Described, Framework, Replica, Spec
from etcompile.model import Env, IndexedEnv, Port, Success, Variable

FRAMEWORK = Framework(
    kind="XGBoostJob",
    types="xgbReplicaSpecs",
    roles=("Master", "Worker"),
    summary="Training Operator: XGBoost and LightGBM jobs",
    container="xgboost",
    port=Port("xgboostjob-port", 9999),
    restart="Never",
)


def describe(spec: Spec) -> Described:
    roles = (
        framework.role(spec, each, _variables(spec, each), master=each.type == "Master")
        for each in spec.replicas
    )
    return Described(tuple(roles), Success(("master",)))


def _variables(spec: Spec, replica: Replica) -> tuple[Variable, ...]:
    master, worker = spec.of("Master"), spec.of("Worker")
    before = master.replicas if master and replica.type == "Worker" else 0
    alone = (
        Env("MASTER_PORT", str(master.port if master else "")),
        Env("MASTER_ADDR", spec.host("master", 0)),
        Env("WORLD_SIZE", str(spec.total)),
        IndexedEnv("RANK", ("", ""), before),
        Env("PYTHONUNBUFFERED", "1", default=True),
    )
    if worker is None or spec.total <= 1:
        return alone
    hosts = ",".join(spec.host("worker", index) for index in range(worker.replicas))
    return (*alone, Env("WORKER_PORT", str(worker.port)), Env("WORKER_ADDRS", hosts))


KINDS = (framework.kind(FRAMEWORK, describe),)
