"""Objects of a cluster to why a job is as it is.

Two questions have two answers. What has ended is explained by the log of failures that the watcher
keeps (`etcompile.failures`): of each attempt the first that failed, and what followed from it. What
has not begun is explained by what it waits for, in the words of whoever keeps it waiting. Without a
watcher there is no log: then the Pods that are still there tell what they can.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf

from msgspec import Struct, structs

from etcompile import backend
from etcompile.failures import (
    PROBE_FAILED,
    Failure,
    FailureLog,
    avoided_nodes,
    failures_of,
    first_causes,
    read_log,
)
from etcompile.k8s import pods
from etcompile.k8s.objects import LiveObject, seconds
from etcompile.kubeapi.client import event_time
from etcompile.model import Job
from etcompile.model.protocol import JOB_LABEL, PREFLIGHT, SPEC_HASH, status_name
from etcompile.model.run_record import RunRecord, written_record
from etcompile.model.supervision import UNSUPERVISED_EVENT
from etcompile.status.job_status import is_config, statuses, stored_job
from etcompile.status.values import ENDED, JobStatus, Replica, Told, alike

_CONTAINER = re.compile(r"spec\.containers\{(.+)\}")
_ENDED_BY_PROBE = re.compile(r"failed (?:liveness|startup) probe")
_TOGETHER = 2.0
"""Seconds, at most, between what a probe says and what the kubelet does about it."""
_ENDED_BY_SIGNAL = ("Killed", "Terminated")
_CREATES = ("Refused", "FailedCreate", "JobNotStarting", "NameTaken", "UnreadableJob")
"""Reasons of Events that say why Pods were not created."""


class Attempt(Struct, frozen=True):
    """One attempt of a run, and what it failed of.

    Args:
        number: Which; 0 for the first.
        first: What failed first.
        followed: What followed from it, each with how often: `lost the connection to another rank`.
        others: The failures that are known besides.
        again: How often the replica failed again that had failed first, and came back.
    """

    number: int
    first: Failure
    followed: tuple[tuple[str, int], ...] = ()
    others: tuple[Failure, ...] = ()
    again: int = 0


class Held(Struct, frozen=True):
    """What keeps replicas from being ready.

    Args:
        names: Their Pods.
        state: What they are.
        reason: In one word.
        message: The rest.
    """

    names: tuple[str, ...]
    state: str
    reason: str
    message: str


class Explanation(Struct, frozen=True):
    """Why a job is as it is.

    Args:
        status: What it is.
        attempts: The attempts that failed, the newest first.
        held: What keeps replicas from being ready; of a run that is over nothing.
        refused: What was told of Pods that were not created.
        nodes: Nodes on which something failed for a reason of its own, each with how often what
            happened there, the worst first.
        restarts: How often the run was restarted, and of how many times; None for no limit.
        kept: A watcher keeps the log of failures.
        avoided: The nodes that Pods avoid which come instead of others.
        warned: The Pods whose preflight check has warned.
        advice: What to do now.
    """

    status: JobStatus
    attempts: tuple[Attempt, ...] = ()
    held: tuple[Held, ...] = ()
    refused: tuple[Told, ...] = ()
    nodes: tuple[tuple[str, Mapping[str, int]], ...] = ()
    restarts: int = 0
    limit: int | None = None
    kept: bool = False
    avoided: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.status.phase in ENDED

    @property
    def last(self) -> Attempt | None:
        """The attempt that failed last."""
        return self.attempts[0] if self.attempts else None


def explanations(
    objects: Iterable[LiveObject],
    events: Iterable[LiveObject] = (),
    now: float | None = None,
) -> list[Explanation]:
    """Why each job is as it is, by namespace and name.

    Args:
        objects: ConfigMaps, Pods and Jobs, in any order; others are passed over.
        events: What was told of them.
        now: When they were read, in seconds since 1970; None for just now.
    """
    every, told = [*objects], [*events]
    return [_explained(status, every, told) for status in statuses(every, told, now)]


def _explained(
    status: JobStatus, objects: Sequence[LiveObject], events: Sequence[LiveObject]
) -> Explanation:
    own = [
        value
        for value in objects
        if value["metadata"]["namespace"] == status.namespace
        and (value["metadata"].get("labels") or {}).get(JOB_LABEL) == status.name
    ]
    config = next((value for value in own if is_config(value)), None)
    job = stored_job(config) if config is not None else None
    data = next(
        (
            value.get("data") or {}
            for value in objects
            if value["kind"] == "ConfigMap"
            and value["metadata"]["namespace"] == status.namespace
            and value["metadata"]["name"] == status_name(status.name)
        ),
        {},
    )
    run = backend.spec_hash(job) if job is not None else ""
    record, log = written_record(data), read_log(data)
    if record is not None and run and record.run != run:
        record = None
    if log is not None and run and log.run != run:
        log = None
    its_pods = [value for value in own if value["kind"] == "Pod" and _is_of(value, run)]
    attempts = _attempts(log, its_pods, _probes(events))
    over = status.phase in ENDED
    warnings = _warnings(status, events)
    unsupervised = {
        str((event.get("involvedObject") or {}).get("uid")): f"unsupervised: {event.get('message')}"
        for event in events
        if event.get("reason") == UNSUPERVISED_EVENT
    }
    held = () if over else tuple(_held(status, job, its_pods, warnings, unsupervised))
    refused = tuple(event for event in status.events if event.warning and event.reason in _CREATES)
    return Explanation(
        status,
        attempts,
        held,
        () if over else refused,
        _nodes(log),
        record.restarts if record is not None else 0,
        job.run.backoff_limit if job is not None else None,
        kept=record is not None,
        avoided=_avoided(job, log),
        warned=tuple(sorted(pod["metadata"]["name"] for pod in its_pods if _has_warned(pod))),
        advice=tuple(dict.fromkeys(_advice(status, attempts, held, job, record, log))),
    )


def _has_warned(pod: LiveObject) -> bool:
    """Whether the preflight of a Pod has warned: it has gone on, and left a word."""
    return any(
        init.get("name") == PREFLIGHT
        and (how := pods.terminated(init)).get("exitCode") == 0
        and bool(how.get("message"))
        for init in pods.init_containers(pod)
    )


def _is_of(pod: LiveObject, run: str) -> bool:
    annotations = pod["metadata"].get("annotations") or {}
    return not run or annotations.get(SPEC_HASH, run) == run


# What has ended ---------------------------------------------------------------------------------


def _attempts(
    log: FailureLog | None,
    its_pods: Iterable[LiveObject],
    probes: Mapping[tuple[str, str], str],
) -> tuple[Attempt, ...]:
    failures = [*log.failures] if log is not None else []
    # What was not written down: no watcher has looked yet, or none is there.
    known = set(log.noted) if log is not None else set()
    current = max((failure.attempt for failure in failures), default=0)
    failures += [
        structs.replace(failure, attempt=current)
        for pod in its_pods
        for failure in failures_of(pod)
        if failure.uid not in known
    ]
    failures = [
        structs.replace(failure, reason=PROBE_FAILED, message=probes[whose])
        if (whose := (failure.uid.partition(".")[0], failure.container)) in probes
        and failure.cause.name in _ENDED_BY_SIGNAL
        else failure
        for failure in failures
    ]
    left_out = log.left_out if log is not None else {}
    found = []
    for number, first in sorted(first_causes(failures).items(), reverse=True):
        others = [
            failure for failure in failures if failure.attempt == number and failure is not first
        ]
        others.sort(key=lambda failure: failure.at)
        own = [other for other in others if (other.role, other.index) == (first.role, first.index)]
        followed = Counter(other.cause.text for other in others if other not in own)
        if more := left_out.get(str(number), 0):
            followed["failed as well"] += more
        found.append(Attempt(number, first, tuple(followed.most_common()), tuple(others), len(own)))
    return tuple(found)


def _probes(events: Iterable[LiveObject]) -> dict[tuple[str, str], str]:
    """What a probe said last of a container that was ended for it, by the Pod's UID and its name.

    The Pod itself does not tell: to its status a container that is ended for its probe is one that
    some signal has ended. Events do, for as long as they are kept, usually an hour: that it is
    started again because of a probe, or that it was stopped as its probe failed once more.
    """
    ended: dict[tuple[str, str], float] = {}
    said: dict[tuple[str, str], tuple[float, str]] = {}
    for event in sorted(events, key=event_time):
        about = event.get("involvedObject") or {}
        container = _CONTAINER.fullmatch(about.get("fieldPath") or "")
        if container is None or not about.get("uid"):
            continue
        whose, words = (about["uid"], container[1]), " ".join((event.get("message") or "").split())
        at = seconds(event_time(event)) or 0.0
        if event.get("reason") == "Killing":
            ended[whose] = inf if _ENDED_BY_PROBE.search(words) else at
        elif event.get("reason") == "Unhealthy" and not words.startswith("Readiness"):
            said[whose] = at, words
    return {
        whose: said[whose][1]
        for whose, at in ended.items()
        if whose in said and (at == inf or abs(at - said[whose][0]) <= _TOGETHER)
    }


def _nodes(log: FailureLog | None) -> tuple[tuple[str, Mapping[str, int]], ...]:
    if log is None:
        return ()
    worst = sorted(log.nodes.items(), key=lambda row: (-sum(row[1].values()), row[0]))
    return tuple((node, causes) for node, causes in worst)


def _avoided(job: Job | None, log: FailureLog | None) -> tuple[str, ...]:
    if job is None or log is None:
        return ()
    return avoided_nodes(log, job.run.avoid_nodes_after)


# What has not begun -----------------------------------------------------------------------------


def _warnings(status: JobStatus, events: Iterable[LiveObject]) -> dict[str, str]:
    """Of each Pod the last warning: a volume that cannot be mounted is told of in no other way."""
    found: dict[str, str] = {}
    for event in sorted(events, key=event_time):
        about = event.get("involvedObject") or {}
        warns = event.get("type") == "Warning" and about.get("kind") == "Pod"
        if warns and about.get("namespace") == status.namespace:
            words = " ".join((event.get("message") or "").split())
            found[str(about.get("name"))] = f"{event.get('reason')}: {words}"
    return found


def _held(
    status: JobStatus,
    job: Job | None,
    its_pods: Iterable[LiveObject],
    warnings: Mapping[str, str],
    unsupervised: Mapping[str, str],
) -> Iterator[Held]:
    by_name = {pod["metadata"]["name"]: pod for pod in its_pods}
    waiting: list[Replica] = []
    for replica in status.not_ready:
        if replica.state == "Failed":
            continue
        message = _gate(replica, status, job, by_name.get(replica.name)) or replica.message
        if replica.reason in _VAGUE:
            message = warnings.get(replica.name, message)
        if (pod := by_name.get(replica.name)) is not None:
            message = unsupervised.get(pod["metadata"].get("uid"), message)
        waiting.append(structs.replace(replica, message=message))
    for replicas in alike(waiting):
        first, names = replicas[0], tuple(replica.name for replica in replicas)
        yield Held(names, first.state, first.reason, first.message)


def _gate(replica: Replica, status: JobStatus, job: Job | None, pod: LiveObject | None) -> str:
    """Whom the gate of a replica waits for; empty if that is not what it is at."""
    role = job.role(replica.role) if job is not None else None
    gate = role.additions.gate if role is not None else None
    if gate is None or pod is None:
        return ""
    waits = any(
        container.get("name") == gate.name and pods.is_running(container)
        for container in pods.init_containers(pod)
    )
    if not waits:
        return ""
    ends = [
        other
        for other in status.replicas
        if other.role in gate.completed and other.state != "Succeeded"
    ]
    missing = [
        other
        for other in status.replicas
        if other.role in gate.roles and other.state not in ("Ready", "Succeeded")
    ]
    words = (
        (ends, "1 Pod that has not succeeded", "{} Pods that have not succeeded"),
        (missing, "1 Pod that is not ready", "{} Pods that are not ready"),
    )
    return "; ".join(
        f"waits for {single if len(others) == 1 else many.format(len(others))}: {_names(others)}"
        for others, single, many in words
        if others
    )


def _names(replicas: Sequence[Replica]) -> str:
    told = ", ".join(f"{other.name} ({other.reason or other.state})" for other in replicas[:4])
    return f"{told} and {len(replicas) - 4} more" if len(replicas) > 4 else told


# What to do -------------------------------------------------------------------------------------


def _advice(
    status: JobStatus,
    attempts: Sequence[Attempt],
    held: Sequence[Held],
    job: Job | None,
    record: RunRecord | None,
    log: FailureLog | None,
) -> Iterator[str]:
    if status.phase == "Succeeded":
        return
    if attempts and (advice := attempts[0].first.cause.advice):
        yield advice
    for waiting in held:
        if waiting.reason in _HELD:
            yield _HELD[waiting.reason]
        if waiting.reason == "NodeLost":
            yield _of_lost_node(job)
    avoided = _avoided(job, log)
    if avoided and any(waiting.reason == "Unschedulable" for waiting in held):
        yield (
            f"it avoids {len(avoided)} nodes that failed before ({', '.join(avoided[:4])}): mend "
            "them and restart the run, or add others"
        )
    if record is None and job is not None and status.phase == "Failed":
        yield "run etcompile watch: it keeps what failed, and brings back what can come back"
    if status.phase == "Failed":
        yield f"then run it again: etcompile restart {status.name} -n {status.namespace}"


def _of_lost_node(job: Job | None) -> str:
    limit = job.run.lost_node_after if job is not None else None
    if limit is not None:
        return f"nothing: after {limit} s without an answer the watcher deletes the Pod by force"
    return (
        "wait for the node, or if it is gone for good delete the Pod by force (kubectl delete pod"
        " --force --grace-period=0); etcompile.dev/lost-node-after on the job does it by itself"
    )


_VAGUE = frozenset({"ContainerCreating", "Pending", "PodInitializing"})
"""Reasons that say nothing of what keeps a Pod."""
_HELD: Mapping[str, str] = {
    "Unschedulable": "make room, ask for less, or add nodes that have what the scheduler misses",
    "ImagePullBackOff": "is the image's name right, and may its imagePullSecrets pull it?",
    "ErrImagePull": "is the image's name right, and may its imagePullSecrets pull it?",
    "InvalidImageName": "write the image's name as registry/name:tag",
    "CreateContainerConfigError": "create the ConfigMap or the Secret that it names",
    "SchedulingGated": "a queue holds it back: look at its Workload",
    "Suspended": "take the suspension out of the job's file, and apply it",
}
"""What to do, by what holds a Pod back."""
