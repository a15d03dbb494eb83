"""Explain the status of a job from objects of a cluster.

A failure is explained by the log of failures that the watcher writes (`etcompile.causes`): the
first failure of each attempt, and what followed from it. A Pod that has not started is explained by
what it waits for, in the words of the scheduler or kubelet. Without a watcher there is no log; then
the Pods that still exist are all there is.

The verdict of the job itself comes first: if a run reached its deadline, errors of its containers
after that are not the cause. Then come the statuses of Pods and containers, and the Events of these
Pods.
"""

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf

from msgspec import Struct, structs

from etcompile.causes.causes import PROBE_FAILED, cause_of, known, missing_object
from etcompile.causes.log import (
    Failure,
    FailureLog,
    avoided_nodes,
    failures_of,
    first_causes,
    read_log,
    tied_with,
)
from etcompile.k8s import pods
from etcompile.k8s.objects import LiveObject, seconds
from etcompile.k8s.path import containers_of
from etcompile.kubeapi.client import event_time
from etcompile.model import Job
from etcompile.model.protocol import PREFLIGHT
from etcompile.model.run_record import ENDED, RunRecord
from etcompile.model.supervision import UNSUPERVISED_EVENT
from etcompile.naming import some
from etcompile.plan.owners import run_of
from etcompile.status.job_status import JobObjects, jobs_among, status_of_job
from etcompile.status.values import VAGUE, JobEvent, JobStatus, Replica, grouped

_CONTAINER = re.compile(r"spec\.(?:initContainers|containers)\{(.+)\}")
_ENDED_BY_PROBE = re.compile(r"failed (?:liveness|startup) probe")
_TOGETHER = 2.0  # seconds, at most, between a failed probe and the kubelet's reaction
_LONGEST_END = 600.0  # seconds, at most, from the kubelet's Event to the end of the container
_CREATES = ("Refused", "FailedCreate", "JobNotStarting", "NameTaken", "UnreadableJob")
"""Reasons of Events that say why Pods were not created."""


class Attempt(Struct, frozen=True):
    """An attempt of a run, 0 for the first, and its failures.

    Args:
        tied: Failures in the same second that are as likely to be the first.
        followed: What followed from it, each with how often: `lost the connection to another rank`.
        again: How often the replica that failed first came back and failed again.
        running: The Pods that did not fail, if every failed one had waited for another.
    """

    number: int
    first: Failure
    tied: tuple[Failure, ...] = ()
    followed: tuple[tuple[str, int], ...] = ()
    others: tuple[Failure, ...] = ()
    again: int = 0
    running: tuple[str, ...] = ()


class Explanation(Struct, frozen=True):
    """An explanation of the status of a job.

    Args:
        verdict: The rule that ended the run, in a sentence; empty if none did.
        attempts: The attempts that failed, the newest first.
        held: The replicas that are not ready, each with what it waits for; none if the run is over.
        refused: Events about Pods that were not created.
        nodes: Failures by node and cause, the worst node first.
        limit: How often the run may be restarted; None for no limit.
        has_log: Whether a watcher keeps the log of failures.
        warned: The Pods whose preflight check warned.
    """

    status: JobStatus
    verdict: str = ""
    attempts: tuple[Attempt, ...] = ()
    held: tuple[Replica, ...] = ()
    refused: tuple[JobEvent, ...] = ()
    nodes: tuple[tuple[str, Mapping[str, int]], ...] = ()
    restarts: int = 0
    limit: int | None = None
    has_log: bool = False
    avoided: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def over(self) -> bool:
        return self.status.phase in ENDED

    @property
    def last(self) -> Attempt | None:
        return self.attempts[0] if self.attempts else None


def explanations(
    objects: Iterable[LiveObject],
    now: float | None = None,
    watchers: Mapping[str, str] | None = None,
    services: frozenset[str] | None = None,
) -> list[Explanation]:
    """Explain each job, by namespace and name; the arguments are those of `statuses`."""
    at = time.time() if now is None else now
    return [
        _explained(its, status_of_job(its, at, watchers, services)) for its in jobs_among(objects)
    ]


def _explained(its: JobObjects, status: JobStatus) -> Explanation:
    job, run, record = its.job, its.run, its.record
    record = None if record is not None and run and record.run != run else record
    log = read_log(its.status)
    log = FailureLog(run) if log is None or log.run != (run or log.run) else log
    its_pods = {n: pod for n, pod in its.pods.items() if not run or run_of(pod) in ("", run)}
    verdict, until = "", inf
    if status.phase == "Failed" and record is not None and record.reason == "DeadlineExceeded":
        limit = job.run.deadline if job is not None else None
        allowed = f" ({limit} s)" if limit is not None else ""
        verdict = f"DeadlineExceeded: the job ran longer than its activeDeadlineSeconds{allowed}"
        until = record.finished if record.finished is not None else 0.0
    is_over = status.phase in ENDED
    refused = [event for event in status.events if event.warning and event.reason in _CREATES]
    # A preflight that warned ended with 0 and left a message.
    warned = {
        name
        for name, pod in its_pods.items()
        for init in pods.init_containers(pod)
        if init.get("name") == PREFLIGHT and (how := pods.terminated(init)).get("message")
        if how.get("exitCode") == 0
    }
    why = Explanation(
        status,
        verdict,
        tuple(_attempts(status, log, its_pods, its.events, until)),
        () if is_over else tuple(_held(status, job, its_pods, its.events)),
        () if is_over else tuple(refused),
        tuple(sorted(log.nodes.items(), key=lambda row: (-sum(row[1].values()), row[0]))),
        record.restarts if record is not None else 0,
        job.run.backoff_limit if job is not None else None,
        has_log=record is not None,
        avoided=avoided_nodes(log, job.run.avoid_nodes_after) if job else (),
        warned=tuple(sorted(warned)),
    )
    advice = [*dict.fromkeys(_advice(why, job, record))]
    if len(advice) == 1:
        advice = [advice[0].removeprefix("then ")]
    return structs.replace(why, advice=tuple(advice))


# What has ended ---------------------------------------------------------------------------------


def _attempts(
    status: JobStatus,
    log: FailureLog,
    its_pods: Mapping[str, LiveObject],
    events: Sequence[LiveObject],
    until: float,
) -> Iterator[Attempt]:
    """Yield the attempts that failed, the newest first.

    Args:
        until: When a rule of the job ended the run: later failures follow from that.
    """
    failures = [*log.failures]
    # Failures that no watcher has written down yet.
    noted = set(log.noted)
    current = max((failure.attempt for failure in failures), default=0)
    failures += [
        structs.replace(failure, attempt=current)
        for pod in its_pods.values()
        for failure in failures_of(pod)
        if failure.uid not in noted
    ]
    kubelets = _ended_by_kubelet(events)
    for place, failure in enumerate(failures):
        reported = kubelets.get((failure.uid.partition(".")[0], failure.container))
        if reported and failure.cause.name in ("Killed", "Terminated"):
            first_time, last_time, reason, message = reported
            at = failure.at if failure.at is not None else last_time
            # Not the kill of an hour ago.
            if first_time - _TOGETHER <= at <= last_time + _LONGEST_END:
                at = min(at, last_time)
                failures[place] = structs.replace(failure, at=at, reason=reason, message=message)
    if until < inf:
        failures = [f for f in failures if f.at is not None and f.at < until]
    firsts = first_causes(failures)
    if current in firsts and firsts[current].cause.may_follow:
        # Replicas that ended with exit code 0 before the first of those that lost a peer.
        before = firsts[current].at
        for replica in status.replicas:
            pod = its_pods.get(replica.name) if replica.state == "Succeeded" else None
            for container in pods.containers(pod) if pod is not None else ():
                ended = seconds(pods.terminated(container).get("finishedAt"))
                if ended is not None and (before is None or ended <= before):
                    failures.append(
                        Failure(
                            replica.role,
                            replica.index or 0,
                            replica.name,
                            attempt=current,
                            at=ended,
                            node=replica.node,
                            container=str(container.get("name")),
                            code=0,
                        )
                    )
        firsts = first_causes(failures)
    for number, first in sorted(firsts.items(), reverse=True):
        whose = first.role, first.index, first.container
        others = [f for f in failures if f.attempt == number and f is not first]
        others.sort(key=lambda failure: failure.at if failure.at is not None else inf)
        same = tied_with(first, others)
        again, followed = 0, Counter[str]()
        for other in others:
            cause = other.cause
            if (other.role, other.index, other.container) == whose:
                again += 1
            elif cause.name == "Connection" and not first.cause.may_follow:
                # It broke after something else had failed, so that was the other end.
                followed[cause_of("PeerLost").text] += 1
            elif other not in same:
                followed[cause.text] += 1
        if more := log.left_out.get(number, 0):
            followed["failed as well"] += more
        running: tuple[str, ...] = ()
        if first.cause.is_consequence and number == current:
            working = ("Running", "Ready")
            running = tuple(r.name for r in status.replicas if r.state in working)
        ordered = tuple(followed.most_common())
        yield Attempt(number, first, tuple(same), ordered, tuple(others), again, running)


def _ended_by_kubelet(
    events: Iterable[LiveObject],
) -> dict[tuple[str, str], tuple[float, float, str, str]]:
    """Return the first and last time, reason and message of each container that its kubelet killed.

    The status of the Pod does not say so: it only shows that a signal ended the container. Events
    do, usually for an hour: the container is restarted because of a probe, or stopped as its probe
    failed again.

    Args:
        events: The older first.

    Returns:
        By the Pod's UID and the name of the container.
    """
    ended: dict[tuple[str, str], float] = {}
    said: dict[tuple[str, str], tuple[float, float, str, str]] = {}
    for event in events:
        about, reason = event.get("involvedObject") or {}, event.get("reason")
        container = _CONTAINER.fullmatch(about.get("fieldPath") or "")
        at = seconds(event_time(event))
        if container is None or not about.get("uid") or at is None:
            continue
        whose, words = (about["uid"], container[1]), " ".join((event.get("message") or "").split())
        # One Event stands for all equal ones.
        begun = seconds(event.get("firstTimestamp")) or at
        if reason == "Killing":
            ended[whose] = inf if _ENDED_BY_PROBE.search(words) else at
        elif reason == "Unhealthy" and not words.startswith("Readiness"):
            begun = min(begun, said[whose][0]) if whose in said else begun
            said[whose] = begun, at, PROBE_FAILED, words
        elif reason == "FailedPostStartHook":
            said[whose], ended[whose] = (begun, at, reason, words), inf
    return {
        whose: said[whose]
        for whose, at in ended.items()
        if whose in said and (at == inf or abs(at - said[whose][1]) <= _TOGETHER)
    }


# What has not begun -----------------------------------------------------------------------------


def _held(
    status: JobStatus,
    job: Job | None,
    its_pods: Mapping[str, LiveObject],
    events: Iterable[LiveObject],
) -> Iterator[Replica]:
    # By its UID: another Pod may have had the name before.
    names = {str(pod["metadata"].get("uid")): name for name, pod in its_pods.items()}
    warnings: dict[str, str] = {}
    unsupervised: dict[str, str] = {}
    for event in events:
        name = names.get((event.get("involvedObject") or {}).get("uid") or "", "")
        words = " ".join((event.get("message") or "").split())
        if name and event.get("reason") == UNSUPERVISED_EVENT:
            unsupervised[name] = f"unsupervised: {words}"
        elif name and event.get("type") == "Warning":
            # A volume that cannot be mounted is reported in no other way.
            warnings[name] = f"{event.get('reason')}: {words}"
    for replica in status.not_ready:
        if replica.state != "Failed":
            message = _gate(replica, status, job, its_pods.get(replica.name)) or replica.message
            if replica.reason in VAGUE:
                message = warnings.get(replica.name, message)
            message = unsupervised.get(replica.name, message)
            yield structs.replace(replica, message=message)


def _gate(replica: Replica, status: JobStatus, job: Job | None, pod: LiveObject | None) -> str:
    role = job.role(replica.role) if job is not None else None
    gate = role.additions.gate if role is not None else None
    if gate is None or pod is None:
        return ""
    inits = pods.init_containers(pod)
    if not any(init.get("name") == gate.name and pods.is_running(init) for init in inits):
        return ""
    parts = []
    for roles, good, end in (
        (gate.completed, ("Succeeded",), "succeed"),
        (gate.roles, ("Ready", "Succeeded"), "be ready"),
    ):
        others = [o for o in status.replicas if o.role in roles and o.state not in good]
        if others:
            names = some([f"{other.name} ({other.reason or other.state})" for other in others])
            parts.append(f"waits for {names} to {end}")
    return "; ".join(parts)


# What to do -------------------------------------------------------------------------------------


def _advice(why: Explanation, job: Job | None, record: RunRecord | None) -> Iterator[str]:
    status = why.status
    if status.phase == "Succeeded":
        return
    if status.missing_services:
        yield f"apply the job again; missing Services: {some(status.missing_services)}"
    if why.verdict:
        yield "raise activeDeadlineSeconds if the job may take that long"
    if why.last is not None and (advice := why.last.first.cause.advice):
        first = why.last.first
        role = job.role(first.role) if job and first.cause.name == "OOMKilled" else None
        spec = role.template.spec if role is not None else {}
        limits = [
            (container.get("resources") or {}).get("limits") or {}
            for _, container in containers_of(spec)
            if container.get("name") == first.container
        ]
        limit = limits[0].get("memory") if limits else None
        yield f"{advice}; its limit is {limit}" if limit else advice
    for held, *_ in grouped(why.held):
        if (missing := missing_object(held.message)) is not None and "key" in missing:
            yield "add the key {key} to the {kind} {name}".format_map(missing)
        elif missing is not None:
            command = (
                known()
                .creates[missing["kind"]]
                .format(name=missing["name"], namespace=status.namespace)
            )
            yield f"create it: {command}"
        elif held.reason in known().waits:
            yield known().waits[held.reason]
        if held.reason == "NodeLost" and job is not None and job.run.lost_node_after is not None:
            limit = job.run.lost_node_after
            yield f"nothing: after {limit} s without an answer the watcher deletes the Pod by force"
        elif held.reason == "NodeLost":
            yield (
                "wait for the node, or if it is gone for good delete the Pod by force (kubectl"
                " delete pod --force --grace-period=0); etcompile.dev/lost-node-after on the job"
                " does it by itself"
            )
    if why.avoided and any(held.reason == "Unschedulable" for held in why.held):
        yield (
            f"it avoids {len(why.avoided)} nodes that failed before ({', '.join(why.avoided[:4])}):"
            " mend them and restart the run, or add others"
        )
    if status.phase == "Failed":
        if record is None and job is not None:
            yield "run etcompile watch: it keeps what failed, and brings back what can come back"
        yield f"then run it again: etcompile restart {status.name} -n {status.namespace}"
