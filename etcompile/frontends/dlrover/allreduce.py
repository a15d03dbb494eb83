"""AllreduceStrategy to roles: workers that meet at a master which makes no Pods (reference 6.6, B).

The master runs on its `local` platform: the same rendezvous, key-value store and node check as
upstream's, without the API, so that no Pod of the job has rights and no kind need be defined. What
that master leaves undone is the watcher's: who follows a failed worker, and when the run has ended.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import structs

from etcompile.diagnostics import Diagnostic, ValuePath, codes, diagnose
from etcompile.frontends import hosts
from etcompile.frontends.annotations import (
    DEFAULT_GATE_TIMEOUT,
    NNODES,
    annotation_value,
    unused_annotation,
)
from etcompile.frontends.dlrover import elastic_spec, master, replica_types
from etcompile.frontends.dlrover.elastic_spec import MASTER, MASTER_PORT, Spec
from etcompile.frontends.notes import no_effect
from etcompile.frontends.rendezvous import Rendezvous, parsed, rendezvous, runs_agent
from etcompile.model import Bounds, ConfigFile, Origin, Role, Success
from etcompile.model.protocol import SCRIPTS_PATH

_START = "start-master.sh"
_PRIME = "prime-rendezvous.py"
_LIMITS = ("the minimum of --nnodes", "the maximum of --nnodes")
_OTHER_TYPES = ("ps", "chief", "master", "evaluator")


def roles(spec: Spec) -> tuple[Role, ...]:
    """The master and the workers."""
    return _master(spec, meeting(spec)), _worker(spec, meeting(spec))


def changes(spec: Spec) -> dict[str, Any]:
    """Fields of the job that only this strategy has."""
    met = meeting(spec)
    # The gate needs to know the master by its name, in a list like any other.
    return {
        "host_lists": (hosts.peer_list(MASTER),),
        "files": tuple(_files(met)) if met else (),
    }


def success(spec: Spec) -> Success:
    """The workers decide; with fewer than all when the rendezvous takes fewer (reference 4.3)."""
    met = meeting(spec)
    least = met.minimum if met and met.minimum < spec.replicas("worker") else None
    return Success(("worker",), least=least)


def meeting(spec: Spec) -> Rendezvous | None:
    """How many nodes meet at the master: by the annotation, else by the workers' command."""
    workers = spec.replicas("worker")
    read = rendezvous(spec.main("worker"), workers)
    given = spec.annotation(NNODES)
    sizes = parsed(given, workers) if given is not None else None
    if sizes is None:
        return read
    low, high = sizes
    return structs.replace(read or Rendezvous(1, 1), minimum=low, maximum=high)


def _files(met: Rendezvous) -> Iterator[ConfigFile]:
    yield ConfigFile(_START, _START, {"prime": f"{SCRIPTS_PATH}/{_PRIME}"})
    values = {
        "port": MASTER_PORT,
        "minimum": met.minimum,
        "maximum": met.maximum,
        "lastcall": met.lastcall,
        "unit": met.unit,
        "join": met.join,
    }
    yield ConfigFile(_PRIME, _PRIME, values)


def _master(spec: Spec, met: Rendezvous | None) -> Role:
    # Without a number of nodes there is nothing that it could be told.
    start = ("sh", f"{SCRIPTS_PATH}/{_START}") if met else ()
    command = (
        *start,
        *master.PROGRAM,
        *("--platform", "local"),
        *("--job_name", spec.name),
        *("--node_num", str(max(spec.replicas("worker"), 1))),
        *("--port", str(MASTER_PORT)),
        *master.words(spec, local=True),
    )
    made = master.role(spec, command, account=None)
    role = replica_types.ends_with_run(made)
    return structs.replace(
        role,
        additions=structs.replace(role.additions, scripts=(_START, _PRIME) if met else ()),
        recovery=structs.replace(
            role.recovery,
            # It never ends by itself, so it may always be started again; and it ends well only when
            # the run is done, and must not be started again then.
            pod_restart="OnFailure",
            restart="OnFailure",
        ),
    )


def _worker(spec: Spec, met: Rendezvous | None) -> Role:
    count = spec.replicas("worker")
    env = replica_types.variables(spec, "worker", count, master=True)
    place = Origin(spec.source, _command_path(spec))
    role = replica_types.role(spec, "worker", count, tuple(env))
    return structs.replace(
        role,
        additions=structs.replace(
            role.additions,
            # Until somebody is behind the master's address, agents may find no route and give up.
            gate=hosts.peer_gate(MASTER, DEFAULT_GATE_TIMEOUT, "wait-for-master", MASTER_PORT),
        ),
        bounds=Bounds(met.minimum, met.maximum, place, _LIMITS) if met else Bounds(quorum=count),
        recovery=structs.replace(
            role.recovery,
            # Upstream never follows a worker that ran out of memory, and says nothing (defect 14):
            # it would do so again. Here the run fails if too few are left.
            relaunch=structs.replace(
                replica_types.relaunch(spec, budget=True),
                never=replica_types.OUT_OF_MEMORY,
                joint=True,
            ),
        ),
    )


def _command_path(spec: Spec) -> ValuePath:
    if spec.annotation(NNODES) is not None:
        return ("metadata", "annotations", NNODES)
    containers = spec.types["worker"]["template"]["spec"]["containers"]
    place = next(
        i for i, container in enumerate(containers) if container["name"] == spec.mains["worker"]
    )
    path = ("spec", "replicaSpecs", "worker", "template", "spec", "containers", place)
    field = next((field for field in ("args", "command") if containers[place].get(field)), None)
    return (*path, field) if field else path


def notes(spec: Spec) -> Iterator[Diagnostic]:
    """What is wrong with the job, and what of it changes nothing."""
    given = spec.annotation(NNODES)
    if given is not None and parsed(given, 1) is None:
        yield annotation_value(spec.source, NNODES, "like 4 or 3:4")
    elif (met := meeting(spec)) is None:
        place = spec.source.locate(_command_path(spec))
        seen = "runs no dlrover-run that can be seen"
        if runs_agent(spec.main("worker")):
            seen = "takes --nnodes or --node_unit from a variable"
        yield diagnose(codes.RENDEZVOUS_UNKNOWN, place, seen=seen, name=NNODES)
    else:
        yield from _misfits(spec, met)
    yield from _unused(spec)


def _misfits(spec: Spec, met: Rendezvous) -> Iterator[Diagnostic]:
    """What Bounds do not say: workers that the unit leaves idle."""
    count = spec.replicas("worker")
    if count % met.unit and met.minimum <= count <= met.maximum:
        facts = {"program": "dlrover-run", "flag": "--node_unit", "value": met.unit}
        idle = count % met.unit
        problem = f"{idle} of {count} workers would always be left over"
        place = spec.source.locate(_command_path(spec))
        yield diagnose(
            codes.LAUNCHER_ARGUMENTS,
            place,
            **facts,
            problem=problem,
            advice="change one of the two",
        )


def _unused(spec: Spec) -> Iterator[Diagnostic]:
    fields = {"resourceLimits": "nobody sizes the Pods of AllreduceStrategy"}
    if spec.fields.get("optimizeMode") != "single-job":
        fields["optimizeMode"] = "there is nothing to optimize with AllreduceStrategy"
    for field, reason in fields.items():
        yield from no_effect(spec.source, ("spec", field), reason)
    if spec.types["worker"].get("autoScale"):
        reason = "with AllreduceStrategy DLRover looks for free nodes and always finds none"
        yield from replica_types.unused_fields(spec, "worker", {"autoScale": reason})
    if spec.annotation(elastic_spec.PARAMETER_SERVERS) is not None:
        reason = "this job has no parameter servers"
        yield unused_annotation(spec.source, elastic_spec.PARAMETER_SERVERS, reason, "")
    for name in _OTHER_TYPES:
        if name in spec.types:
            place = spec.origin(name).locate(key=True)
            yield diagnose(codes.TYPE_OF_OTHER_STRATEGY, place, where=name)
