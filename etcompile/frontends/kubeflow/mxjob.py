"""Turn an MXJob (`kubeflow.org/v1`, Training Operator 1.7) into a job.

It has a scheduler, servers, workers and tuners. See reference/training-operator-mxjob.md.
"""

import json
from collections.abc import Iterator
from typing import Any

from etcompile.frontends.kubeflow import framework
from etcompile.frontends.kubeflow.framework import Described, Framework, Replica, Spec
from etcompile.frontends.kubeflow.run_policy import FIELDS
from etcompile.frontends.notes import no_effect
from etcompile.model import Env, IndexedEnv, Port, Success, Variable

_TUNING = ("TunerTracker", "TunerServer", "Tuner")
_TRAINING = ("Scheduler", "Server", "Worker")
_TUNER_KEY = "tuner-server-key"

FRAMEWORK = Framework(
    kind="MXJob",
    types="mxReplicaSpecs",
    roles=(*_TRAINING, *_TUNING),
    summary="Training Operator 1.7: MXNet jobs",
    container="mxnet",
    port=Port("mxjob-port", 9091),
    restart="Never",
    any_case=_TRAINING,
    policy=FIELDS - {"managedBy"},
    without_trainer="Trainer has no policy for MXNet, whose nodes have roles",
)


def describe(spec: Spec) -> Described:
    # The roles that decide that the run is done (reference 3); a tuning job ends with its tuners.
    # With the operator it never ends (reference/training-operator.md 7, defect 46).
    deciding = next((name for name in ("Scheduler", "Tuner", "Worker") if spec.of(name)), None)
    every = tuple(replica.role for replica in spec.replicas)
    success = Success((deciding.lower(),) if deciding else every)
    roles = tuple(
        framework.role(
            spec,
            replica,
            tuple(_variables(spec, replica)),
            master=replica.type == "Server",
            recovery={
                # Only the scheduler ends them, which a tuning job does not have.
                "serves": replica.type in ("TunerTracker", "TunerServer"),
                # The scheduler judges failures that are not retried (reference 3).
                "vital": replica.restart != "ExitCode",
            },
        )
        for replica in spec.replicas
    )
    # Upstream requires a mode and never reads it.
    mode, tunes = spec.fields.get("jobMode"), any(spec.of(name) for name in _TUNING)
    if mode is None or (mode == "MXTune") == tunes:
        return Described(roles, success)
    what, right = ("tunes", "MXTune") if tunes else ("trains", "MXTrain")
    reason = f"its replica types make this a job that {what}"
    notes = no_effect(spec.source, ("spec", "jobMode"), reason, f"write {right}")
    return Described(roles, success, diagnostics=tuple(notes))


def _variables(spec: Spec, replica: Replica) -> Iterator[Variable]:
    scheduler = spec.of("Scheduler")
    servers, workers = spec.of("Server"), spec.of("Worker")
    roles = sorted(spec.replicas, key=lambda peer: peer.role)
    config: dict[str, Any] = {
        "cluster": {
            peer.role: [
                {"url": spec.host(peer.role, index), "port": peer.port}
                for index in range(peer.replicas)
            ]
            for peer in roles
        },
        "labels": {peer.role: peer.template.annotations.get(_TUNER_KEY, "") for peer in roles},
        "task": {"type": replica.role, "index": 0},
    }
    text = json.dumps(config, separators=(",", ":"))
    yield IndexedEnv("MX_CONFIG", (text.removesuffix("0}}"), "}}"))
    yield Env("DMLC_PS_ROOT_PORT", str(scheduler.port if scheduler else 0))
    yield Env("DMLC_PS_ROOT_URI", spec.host("scheduler", 0) if scheduler else "")
    yield Env("DMLC_NUM_SERVER", str(servers.replicas if servers else 0))
    yield Env("DMLC_NUM_WORKER", str(workers.replicas if workers else 0))
    yield Env("DMLC_ROLE", replica.role)
    yield Env("DMLC_USE_KUBERNETES", "1")
    if replica.type == "Worker":
        yield IndexedEnv("DMLC_WORKER_ID", ("", ""))


KINDS = (framework.kind(FRAMEWORK, describe),)
