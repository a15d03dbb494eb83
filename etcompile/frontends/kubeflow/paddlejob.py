"""Turn a PaddleJob (`kubeflow.org/v1`) into a job: collective, or with parameter servers.

See reference/training-operator-paddlejob.md.
"""

from msgspec import structs

from etcompile.frontends.kubeflow import framework
from etcompile.frontends.kubeflow.framework import Described, Framework, Spec
from etcompile.frontends.notes import no_effect
from etcompile.model import Env, Port, Success

FRAMEWORK = Framework(
    kind="PaddleJob",
    types="paddleReplicaSpecs",
    roles=("Master", "Worker"),
    summary="Training Operator: PaddlePaddle jobs, collective or with parameter servers",
    container="paddle",
    port=Port("master", 36543),
    restart="OnFailure",
    without_trainer="Trainer has no policy for Paddle, whose nodes are told of each other",
)
_POD_IP = "POD_IP_DUMMY"


def describe(spec: Spec) -> Described:
    # The variables of reference 1, in its order; the first of `first` is the master.
    first = "Master" if spec.of("Master") else "Worker"
    master = spec.of(first)
    port = master.port if master else None
    address = Env("PADDLE_MASTER", f"{spec.host(first.lower(), 0)}:{port}")
    of_master = (
        Env(_POD_IP, of="first", field="status.podIP"),
        Env("PADDLE_MASTER", f"$({_POD_IP}):{port}", "first"),
        structs.replace(address, of="others"),
    )
    roles = []
    for replica in spec.replicas:
        number = {"Master": "PADDLE_SERVER_NUM", "Worker": "PADDLE_TRAINER_NUM"}[replica.type]
        env = (
            Env("PYTHONUNBUFFERED", "1", default=True),
            Env("PADDLE_JOB_ID", spec.name),
            Env("PADDLE_NNODES", str(spec.total)),
            *(of_master if replica.type == first else (address,)),
            *([Env(number, "1")] if first == "Master" else []),
        )
        roles.append(framework.role(spec, replica, env, master=replica.type == "Master"))
    reason = "the operator reads it and does nothing with it, and neither does etcompile"
    notes = no_effect(spec.source, ("spec", "elasticPolicy"), reason)
    return Described(tuple(roles), Success((first.lower(),)), diagnostics=tuple(notes))


KINDS = (framework.kind(FRAMEWORK, describe),)
