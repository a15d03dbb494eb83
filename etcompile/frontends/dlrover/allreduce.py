"""Build roles for AllreduceStrategy: workers that meet at a master (reference 6.6, B).

The master runs on its `local` platform: it has the same rendezvous, key-value store and node check
as upstream's, but does not use the API, so no Pod needs rights and no CRD is necessary. The watcher
does the rest: it replaces failed workers and decides when the run has ended.
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
from etcompile.frontends.dlrover import elastic_pods
from etcompile.frontends.dlrover.elastic_spec import MASTER, MASTER_PORT, PARAMETER_SERVERS, Spec
from etcompile.frontends.notes import no_effect
from etcompile.frontends.rendezvous import Rendezvous, parsed, rendezvous, runs_agent
from etcompile.model import Bounds, ConfigFile, Origin, Success
from etcompile.model.protocol import SCRIPTS_PATH

_START = "start-master.sh"
_PRIME = "prime-rendezvous.py"
_LIMITS = ("the minimum of --nnodes", "the maximum of --nnodes")


def described(spec: Spec) -> dict[str, Any]:
    meeting = meeting_of(spec)
    count = spec.replicas("worker")
    # Fewer than all are enough if the rendezvous accepts fewer (reference 4.3).
    least = meeting.minimum if meeting and meeting.minimum < count else None
    files: tuple[ConfigFile, ...] = ()
    if meeting:
        values = {"port": MASTER_PORT, **structs.asdict(meeting)}
        start = ConfigFile(_START, _START, {"prime": f"{SCRIPTS_PATH}/{_PRIME}"})
        files = (start, ConfigFile(_PRIME, _PRIME, values))
    command = (
        # The script primes the master with the number of nodes.
        *(("sh", f"{SCRIPTS_PATH}/{_START}") if meeting else ()),
        *elastic_pods.PROGRAM,
        *("--platform", "local"),
        *("--job_name", spec.name),
        *("--node_num", str(max(count, 1))),
        *("--port", str(MASTER_PORT)),
        *elastic_pods.command_options(spec, local=True),
    )
    master = elastic_pods.master_role(
        spec,
        command,
        account=None,
        scripts=(_START, _PRIME) if meeting else (),
        # It never ends by itself, so it can be restarted. It exits with 0 only when the run is
        # done, and must not be restarted then.
        serves=True,
        pod_restart="OnFailure",
        restart="OnFailure",
    )
    env = tuple(elastic_pods.variables(spec, "worker", count, master=True))
    # While no Pod has the master's address, agents may find no route and give up.
    fields = {"name": "wait-for-master", "port": MASTER_PORT}
    gate = hosts.peer_gate(MASTER, DEFAULT_GATE_TIMEOUT, **fields)
    bounds = Bounds(quorum=count)
    if meeting:
        place = Origin(spec.source, _command_path(spec))
        bounds = Bounds(meeting.minimum, meeting.maximum, place, _LIMITS)
    # As upstream, no replica follows a worker that ran out of memory (defect 14), because it would
    # do so again. The run fails if too few are left.
    relaunch = elastic_pods.relaunch(spec, budget=True, never=("OOMKilled", 247), joint=True)
    worker = elastic_pods.role(
        spec, "worker", count, env, gate=gate, bounds=bounds, relaunch=relaunch
    )
    return {
        "roles": (master, worker),
        # The gate reads the master's name from a list.
        "host_lists": (hosts.peer_list(MASTER),),
        "files": files,
        "success": Success(("worker",), least=least),
    }


def meeting_of(spec: Spec) -> Rendezvous | None:
    """Return the size of the rendezvous, by the annotation or the workers' command."""
    workers = spec.replicas("worker")
    read = rendezvous(spec.main("worker"), workers)
    annotated = spec.annotation(NNODES)
    sizes = parsed(annotated, workers) if annotated is not None else None
    if sizes is None:
        return read
    low, high = sizes
    return structs.replace(read or Rendezvous(1, 1), minimum=low, maximum=high)


def _command_path(spec: Spec) -> ValuePath:
    """Return the path of the annotation or command that sets how many nodes meet."""
    if spec.annotation(NNODES) is not None:
        return ("metadata", "annotations", NNODES)
    place, main = spec.main_place("worker"), spec.main("worker")
    path = ("spec", "replicaSpecs", "worker", "template", "spec", "containers", place)
    field = next((field for field in ("args", "command") if main.get(field)), None)
    return (*path, field) if field else path


def notes(spec: Spec) -> Iterator[Diagnostic]:
    annotated, count = spec.annotation(NNODES), spec.replicas("worker")
    if annotated is not None and parsed(annotated, 1) is None:
        yield annotation_value(spec.source, NNODES, "like 4 or 3:4")
    elif (meeting := meeting_of(spec)) is None:
        seen = "runs no dlrover-run that can be seen"
        if runs_agent(spec.main("worker")):
            seen = "takes --nnodes or --node_unit from a variable"
        place = spec.source.locate(_command_path(spec))
        yield diagnose(codes.RENDEZVOUS_UNKNOWN, place, seen=seen, name=NNODES)
    elif count % meeting.unit and meeting.minimum <= count <= meeting.maximum:
        facts = {
            "program": "dlrover-run",
            "flag": "--node_unit",
            "value": meeting.unit,
            "problem": f"{count % meeting.unit} of {count} workers would always be left over",
            "advice": "change one of the two",
        }
        place = spec.source.locate(_command_path(spec))
        yield diagnose(codes.LAUNCHER_ARGUMENTS, place, **facts)
    fields = {"resourceLimits": "nobody sizes the Pods of AllreduceStrategy"}
    if spec.fields.get("optimizeMode") != "single-job":
        fields["optimizeMode"] = "there is nothing to optimize with AllreduceStrategy"
    for field, reason in fields.items():
        yield from no_effect(spec.source, ("spec", field), reason)
    if spec.types["worker"].get("autoScale"):
        reason = "with AllreduceStrategy DLRover looks for free nodes and always finds none"
        yield from elastic_pods.unused_fields(spec, "worker", {"autoScale": reason})
    if spec.annotation(PARAMETER_SERVERS) is not None:
        reason = "this job has no parameter servers"
        yield unused_annotation(spec.source, PARAMETER_SERVERS, reason, "")
    for name in ("ps", "chief", "master", "evaluator"):
        if name in spec.types:
            at = spec.origin(name).locate(key=True)
            yield diagnose(codes.TYPE_OF_OTHER_STRATEGY, at, where=name)
