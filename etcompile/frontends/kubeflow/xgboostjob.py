"""Turn an XGBoostJob (`kubeflow.org/v1`), also of LightGBM, into a job with a master and workers.

See reference/training-operator-xgboostjob.md.
"""

from etcompile.frontends.kubeflow import framework
from etcompile.frontends.kubeflow.framework import Described, Framework, Spec
from etcompile.model import Env, IndexedEnv, Port, Success, Variable

FRAMEWORK = Framework(
    kind="XGBoostJob",
    types="xgbReplicaSpecs",
    roles=("Master", "Worker"),
    summary="Training Operator: XGBoost and LightGBM jobs",
    container="xgboost",
    port=Port("xgboostjob-port", 9999),
    restart="Never",
    trainer="xgboost",
)


def describe(spec: Spec) -> Described:
    master, worker = spec.of("Master"), spec.of("Worker")
    workers: tuple[Env, ...] = ()
    if worker is not None and spec.total > 1:
        hosts = ",".join(spec.host("worker", index) for index in range(worker.replicas))
        workers = (Env("WORKER_PORT", str(worker.port)), Env("WORKER_ADDRS", hosts))
    roles = []
    for replica in spec.replicas:
        before = master.replicas if master and replica.type == "Worker" else 0
        env: tuple[Variable, ...] = (
            Env("MASTER_PORT", str(master.port if master else "")),
            Env("MASTER_ADDR", spec.host("master", 0)),
            Env("WORLD_SIZE", str(spec.total)),
            IndexedEnv("RANK", ("", ""), before),
            Env("PYTHONUNBUFFERED", "1", default=True),
            *workers,
        )
        roles.append(framework.role(spec, replica, env, master=replica.type == "Master"))
    return Described(tuple(roles), Success(("master",)))


KINDS = (framework.kind(FRAMEWORK, describe),)
