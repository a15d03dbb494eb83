"""Asks the commands of a job that runs to write a checkpoint, without the watcher."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from etcompile.compiler.stored import StoredJobError
from etcompile.diagnostics import codes, diagnose
from etcompile.exitcodes import INPUT
from etcompile.k8s import pods
from etcompile.k8s.objects import LiveObject, is_going
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.model import Member, Role
from etcompile.model.notice import REMINDED, SAME, Notice, notice, read_notice
from etcompile.model.protocol import INDEX_LABEL, NOTICE, ROLE_LABEL, RUN_STATE, status_name
from etcompile.model.protocol import WATCHER as MANAGER
from etcompile.model.run_record import written_record
from etcompile.model.supervision import first_replica
from etcompile.operations.proposal import ImpossibleError, Result
from etcompile.operations.stored_runs import stored_run
from etcompile.status import Seen, seen

_ASKED = "somebody has asked for a checkpoint"


class CheckpointRequest(Struct, frozen=True):
    """What came of asking for a checkpoint.

    Args:
        job: The job: `nlp/bert`.
        signal: What processes that handle it are sent: `USR1`.
        asked: The Pods that were asked.
        not_running: Pods whose command does not run, which were not asked.
        earlier: Why all were asked a moment ago, if so; then nobody is asked again.
        ago: How long ago that was, in seconds.
    """

    job: str
    signal: str
    asked: tuple[str, ...] = ()
    not_running: tuple[str, ...] = ()
    earlier: str = ""
    ago: float = 0.0


def request_checkpoint(
    cluster: Cluster,
    job: str,
    *,
    why: str = _ASKED,
    concurrency: int = 16,
    pause: Callable[[float], None] = time.sleep,
) -> CheckpointRequest:
    """Asks all commands of a job at the same time to write a checkpoint.

    The Pod of its first replica gets the annotation `etcompile.dev/notice`, or each of its Pods
    where each restarts by itself. The supervisors pass the signal on that the job names in
    `etcompile.dev/checkpoint-signal` (docs/recovery.md). Nobody answers, so each Pod is told twice,
    and its supervisor heeds that once.

    Args:
        cluster: Where the job is.
        job: The name of the job, in the default namespace.
        why: The reason that the supervisors log.
        concurrency: The number of parallel writes.
        pause: Waits for so many seconds.

    Raises:
        ClusterError: the cluster cannot be read, or refuses.
        NoSuchJobError: there is no such job.
        ImpossibleError: nobody can be asked.
    """
    found = seen(cluster, job, cluster.namespace)
    try:
        run = stored_run(found)
    except StoredJobError as error:
        raise _impossible(job, str(error)) from error
    in_place = run.job.run.in_place
    if in_place is None or in_place.checkpoint_signal is None:
        advice = "set etcompile.dev/restart: in-place and etcompile.dev/checkpoint-signal: USR1"
        raise _impossible(job, "it names no signal for that", advice)
    title = f"{run.namespace}/{job}"
    mains = {role.name: role.template.main for role in run.job.roles if role.name in in_place.roles}
    supervised = [*_supervised(found.objects.values(), mains)]
    running = [pod for pod, runs in supervised if runs]
    others = tuple(_name(pod) for pod, runs in supervised if not runs)
    if not running:
        raise _impossible(job, "no command of it is running", f"see etcompile status {job}")
    now = cluster.now()
    last = max((_notice(pod) for pod in running), key=lambda given: given.at)
    if now < last.at + SAME:
        # Pods that go are part of the same disturbance, and one checkpoint is enough.
        return CheckpointRequest(
            title, in_place.checkpoint_signal, (), others, last.why, now - last.at
        )
    new = notice(_epoch(found, job), now, in_place.checkpoint_signal, why)
    first = first_replica(run.job)
    spoken_to = [pod for pod in running if first is None or _is(pod, *first)]
    if not spoken_to:
        raise _impossible(job, "the supervisor of its first replica tells all, and does not run")
    told = _annotate(cluster, spoken_to, new, concurrency)
    pause(REMINDED)
    _annotate(cluster, told, new.again(), concurrency)
    asked = running if first is not None and told else told
    return CheckpointRequest(
        title, in_place.checkpoint_signal, tuple(_name(pod) for pod in asked), others
    )


def _supervised(
    objects: Iterable[LiveObject], mains: Mapping[str, str]
) -> Iterator[tuple[LiveObject, bool]]:
    """The Pods in which a supervisor passes signals on, and whether its command runs.

    Args:
        objects: Objects of the job.
        mains: Of each role with supervisors, the container whose command has one: it is ready
            exactly while the command runs.
    """
    for value in objects:
        if value["kind"] != "Pod" or is_going(value) or pods.has_ended(value):
            continue
        volumes = (value.get("spec") or {}).get("volumes") or ()
        role = (value["metadata"].get("labels") or {}).get(ROLE_LABEL) or ""
        if role in mains and any(volume["name"] == RUN_STATE for volume in volumes):
            ready = (container for container in pods.containers(value) if container.get("ready"))
            yield value, any(container.get("name") == mains[role] for container in ready)


def _is(pod: LiveObject, role: Role, member: Member) -> bool:
    """Whether a Pod is that of a replica."""
    labels = pod["metadata"].get("labels") or {}
    index = None if member.index is None else str(member.index)
    return labels.get(ROLE_LABEL) == role.name and labels.get(INDEX_LABEL) == index


def _annotate(
    cluster: Cluster, told: Sequence[LiveObject], given: Notice, concurrency: int
) -> list[LiveObject]:
    """Gives a notice to Pods; those that are still there."""
    kind = cluster.resource("v1", "Pod")

    def tell(pod: LiveObject) -> bool:
        metadata = pod["metadata"]
        change = {"metadata": {"uid": metadata["uid"], "annotations": {NOTICE: given.text}}}
        try:
            cluster.patch(
                kind, metadata["name"], change, metadata["namespace"], field_manager=MANAGER
            )
        except ClusterError as error:
            if error.conflict or error.not_found:
                return False  # that Pod has gone meanwhile
            raise
        return True

    with ThreadPoolExecutor(concurrency) as pool:
        return [pod for pod, done in zip(told, pool.map(tell, told), strict=True) if done]


def _notice(pod: LiveObject) -> Notice:
    return read_notice((pod["metadata"].get("annotations") or {}).get(NOTICE) or "")


def _name(pod: LiveObject) -> str:
    name: str = pod["metadata"]["name"]
    return name


def _epoch(found: Seen, job: str) -> int:
    """The epoch of the run; 0 if no watcher looks after it."""
    for value in found.objects.values():
        if value["kind"] == "ConfigMap" and value["metadata"]["name"] == status_name(job):
            record = written_record(value.get("data") or {})
            return (record.epoch or 0) if record is not None else 0
    return 0


def _impossible(job: str, problem: str, advice: str = "") -> ImpossibleError:
    told = diagnose(codes.CANNOT_BE_ASKED, None, job=job, problem=problem, advice=advice)
    return ImpossibleError(Result(INPUT, (told,)))
