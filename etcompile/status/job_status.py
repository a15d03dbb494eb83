"""Derive the status of jobs from objects of a cluster, without reading anything.

The job in its ConfigMap says what should exist; Pods with its label are what exists. So missing
Pods and surplus Pods both show.

The phase is the watcher's if it has written one down. Without a watcher, the phase follows from the
Pods by the success rule of the job, regardless of what somebody may still do: a replica that failed
stays failed until somebody replaces its Pod.
"""

import functools
import re
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from etcompile import backend
from etcompile.causes.goodput import (
    advanced,
    goodput,
    in_training,
    read_timeline,
    spans_of,
)
from etcompile.compiler.stored import StoredJobError, read_text
from etcompile.k8s.objects import LiveObject, created_at, labels_of, timestamp
from etcompile.kubeapi.client import event_time
from etcompile.model import Job, Settings
from etcompile.model.protocol import (
    JOB_LABEL,
    ROLE_LABEL,
    RUN_LABEL,
    STORED_JOB,
    WATCHES,
    hosts_name,
    status_name,
)
from etcompile.model.protocol import is_config as names_config
from etcompile.model.run_completion import Decider, Outcome, completion, named
from etcompile.model.run_record import ENDED, UNREADABLE, RunRecord, labelled_rank, written_record
from etcompile.plan.owners import run_of
from etcompile.status.replica_states import labelled_replica, owning_job, replicas_of, state
from etcompile.status.values import (
    ALIVE,
    Epoch,
    Hosts,
    JobEvent,
    JobStatus,
    Phase,
    Replica,
    RoleStatus,
    common_words,
)

_HOST = re.compile(r"^[A-Za-z0-9][-A-Za-z0-9.]*", re.MULTILINE)
_REPORTED: Mapping[str, Phase] = {
    phase.lower(): phase
    for phase in ("Pending", "Running", "Restarting", "Succeeded", "Failed", "Suspended")
}
_OUTCOMES: Mapping[str, Outcome] = {"Succeeded": "done", "Failed": "out"}


class JobObjects(Struct, frozen=True):
    """The objects of one job: the ConfigMap that declares it, its Pods and Jobs by name.

    Args:
        job: The declared job; None if this version of etcompile cannot read it.
        settings: Those that the job was compiled with; None without a job.
        problem: Why it cannot be read.
        run: The spec hash of the declared run; empty without a job.
        record: The watcher's run record, of any run.
        hosts: The watcher's host lists; empty if there are none.
        status: The `data` of `J-status`; empty if there is none.
        events: The Events of its namespace, the oldest first.
    """

    namespace: str
    name: str
    config: LiveObject
    job: Job | None
    settings: Settings | None
    problem: str
    run: str
    record: RunRecord | None
    pods: dict[str, LiveObject]
    jobs: dict[str, LiveObject]
    hosts: Mapping[str, str]
    status: Mapping[str, str]
    events: Sequence[LiveObject]

    @property
    def reported(self) -> tuple[Phase, str] | None:
        """Return the phase that the watcher reported for this run, if any, and why."""
        record, done = self.record or RunRecord(""), self.status.get("done", "").strip()
        runs = {self.run, *map(run_of, self.pods.values())} - {""}
        if (record.run or done) and not {record.run, done} & runs:
            return None  # of an earlier run
        phase = _REPORTED.get(self.status.get("phase", "").strip().lower())
        if phase not in ENDED and record.config not in ("", self.config["metadata"].get("uid")):
            return None  # of a job that was deleted before its run was over
        if phase is not None:
            why = ": ".join(filter(None, (record.reason, record.message)))
            return phase, f"reported by the watcher: {why}" if why else "reported by the watcher"
        return ("Succeeded", "its run is marked as done") if done else None


def is_config(value: LiveObject) -> bool:
    return names_config(value["metadata"]) and STORED_JOB in (value.get("data") or {})


def statuses(
    objects: Iterable[LiveObject],
    now: float | None = None,
    watchers: Mapping[str, str] | None = None,
    services: frozenset[str] | None = None,
) -> list[JobStatus]:
    """Return the status of each job that the objects declare, by namespace and name.

    Args:
        objects: ConfigMaps, Pods, Jobs and Events in any order; others are ignored.
        now: When they were read, in seconds since 1970; None for now.
        watchers: The result of `watchers`; None if unknown.
        services: The names of the existing Services of a single job; None if unknown.
    """
    at = time.time() if now is None else now
    return [status_of_job(its, at, watchers, services) for its in jobs_among(objects)]


def watchers(leases: Iterable[LiveObject], now: float) -> dict[str, str]:
    """Return when each namespace was last watched (RFC 3339), empty if it is now; `*` is all."""
    last: dict[str, str] = {}
    for lease in leases:
        spec = lease.get("spec") or {}
        renewed, duration = spec.get("renewTime") or "", spec.get("leaseDurationSeconds") or 0
        is_live = bool(renewed) and datetime.fromisoformat(renewed).timestamp() + duration >= now
        for namespace in lease["metadata"].get("annotations", {}).get(WATCHES, "").split(","):
            before = last.get(namespace, renewed)
            last[namespace] = "" if is_live or not before else max(before, renewed)
    return last


def jobs_among(objects: Iterable[LiveObject]) -> list[JobObjects]:
    configs: list[LiveObject] = []
    maps: dict[tuple[str, str], Mapping[str, str]] = {}
    events: defaultdict[str, list[LiveObject]] = defaultdict(list)
    labelled: defaultdict[tuple[str, str, str], dict[str, LiveObject]] = defaultdict(dict)
    for value in objects:
        metadata = value["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        if value["kind"] == "ConfigMap":
            maps[namespace, name] = value.get("data") or {}
            configs += [value] if is_config(value) else []
        elif value["kind"] == "Event":
            events[namespace].append(value)
        else:
            label = (metadata.get("labels") or {}).get(JOB_LABEL, "")
            labelled[value["kind"], namespace, label][name] = value
    for reported in events.values():
        # Events of the same second are ordered by name, so that a table does not jump.
        reported.sort(key=lambda event: (event_time(event), event["metadata"]["name"]))
    every = []
    for config in configs:
        namespace, name = config["metadata"]["namespace"], config["metadata"]["labels"][JOB_LABEL]
        job, settings, problem = _stored(config["data"][STORED_JOB])
        status = maps.get((namespace, status_name(name)), {})
        every.append(
            JobObjects(
                namespace,
                name,
                config,
                job,
                settings,
                problem,
                run=backend.spec_hash(job) if job is not None else "",
                record=written_record(status),
                pods=labelled["Pod", namespace, name],
                jobs=labelled["Job", namespace, name],
                hosts=maps.get((namespace, hosts_name(name)), {}),
                status=status,
                events=events[namespace],
            )
        )
    return sorted(every, key=lambda its: (its.namespace, its.name))


def status_of_job(
    its: JobObjects,
    now: float,
    watchers: Mapping[str, str] | None = None,
    services: frozenset[str] | None = None,
) -> JobStatus:
    """Return the status of a job at a time, in seconds since 1970; the rest as of `statuses`."""
    job, metadata = its.job, its.config["metadata"]
    record = its.record or RunRecord("")
    desired: dict[str, int | None]
    if job is not None:
        replicas = [
            replica
            for role in job.roles
            for replica in replicas_of(role, its.pods, its.jobs, record)
        ]
        desired = {role.name: len(role.members) for role in job.roles}
        phase, because = derived(job, replicas)
        surplus = tuple(_surplus(job, replicas, its))
    else:
        replicas = [labelled_replica(pod) for pod in its.pods.values()]
        replicas.sort(key=lambda replica: (replica.role, replica.index or 0))
        desired = dict.fromkeys(replica.role for replica in replicas)
        phase, because = "Unknown", f"{metadata['name']} cannot be read: {its.problem}"
        surplus = ()
    if reported := its.reported:
        from_pods, (phase, words) = phase, reported
        if phase == "Running" and from_pods == "Pending":
            # The watcher waits a while: Pods that are replaced are back in a moment.
            phase, words = "Pending", f"no Pod is running; {words}"
        # The watcher may have reported that before the job became unreadable.
        unread = job is None and record.reason != UNREADABLE
        because = f"{words}; {because}" if unread else words
    unwatched = None
    if reported and phase not in ENDED and watchers is not None:
        looks = [watchers[name] for name in (its.namespace, "*") if name in watchers]
        unwatched = max(looks, default="") if all(looks) else None
    timeline = epoch = None
    if job is not None and record.run == its.run:
        spans = []
        for pod in its.pods.values():
            if run_of(pod) == record.run:
                labels = labels_of(pod)
                rank = labels.get(ROLE_LABEL, ""), labelled_rank(labels)
                spans.append((rank, spans_of(pod)))
        trained = in_training(job, spans, record, now)
        timeline = advanced(read_timeline(its.status), record, trained, now)
        if record.epoch is not None:
            at = timestamp(record.restarted_at) if record.epoch and record.restarted_at else ""
            epoch = Epoch(record.epoch, record.epoch_reason, at)
    missing = frozenset[str]()
    if services is not None and job is not None and its.settings and phase not in ENDED:
        missing = backend.service_names(job, its.settings) - services
    # The first of the job's host lists, live where the watcher writes one.
    lists = [host_list.key for host_list in job.host_lists if host_list.live] if job else []
    hosts = None
    if lists:
        live = next((its.hosts[key] for key in lists if its.hosts.get(key)), None)
        lines = live if live is not None else (its.config.get("data") or {}).get(lists[0], "")
        hosts = Hosts(tuple(_HOST.findall(lines)), live=live is not None)
    roles = []
    for role_name, count in desired.items():
        members = [replica for replica in replicas if replica.role == role_name]
        states = Counter[str](replica.state for replica in members)
        ended = states["Succeeded"], states["Failed"]
        running = sum(states[name] for name in ALIVE)
        # Where another Pod may take over the rank, a failure counts even if its Pod is not
        # replaced.
        replaced = max(record.replaced.get(role_name, 0), record.failures.get(role_name, 0))
        restarts = sum(replica.restarts for replica in members) + replaced
        roles.append(RoleStatus(role_name, count, running, states["Ready"], *ended, restarts))
    names = {its.name, metadata["name"], *its.pods, *(replica.name for replica in replicas)}
    return JobStatus(
        namespace=its.namespace,
        name=its.name,
        kind=job.kind if job else "",
        phase=phase,
        reported=reported is not None,
        unwatched_since=unwatched,
        because=because,
        created=created_at(its.config),
        run=job.run_id if job else None,
        roles=tuple(roles),
        replicas=tuple(replicas),
        hosts=hosts,
        surplus=surplus,
        missing_services=tuple(sorted(missing)),
        epoch=epoch,
        timeline=timeline,
        goodput=goodput(timeline, now) if timeline is not None else None,
        events=tuple(_job_events(its.events, names)),
    )


@functools.lru_cache(maxsize=256)
def _stored(text: str) -> tuple[Job | None, Settings | None, str]:
    """Return the job of that text and its settings; None if it cannot be read, and why."""
    try:
        stored = read_text(text)
    except StoredJobError as error:
        return None, None, str(error)
    return stored.job, stored.settings, ""


def _surplus(job: Job, replicas: Sequence[Replica], its: JobObjects) -> Iterator[str]:
    members = [(role.pod_name(member), role.batch) for role in job.roles for member in role.members]
    declared = {replica.name for replica in replicas} | {name for name, _ in members}
    batches = {name for name, is_batch in members if is_batch}
    for name, pod in sorted(its.pods.items()):
        of_run = run_of(pod) or its.run
        if name in declared or owning_job(pod) in batches:
            if of_run != its.run:
                yield f"{name} ({state(pod)}, of another run, {of_run})"
            continue
        run = labels_of(pod).get(RUN_LABEL)
        of = "" if run == job.run_id else f", run {run}" if run else ", the run without an ID"
        yield f"{name} ({state(pod)}{of})"


def _job_events(events: Sequence[LiveObject], names: Collection[str]) -> Iterator[JobEvent]:
    """Yield the events of objects with these names, the newest first; equal ones are one event.

    A thousand Pods that cannot be scheduled are a thousand events that say the same; kubelets
    repeat theirs for hours.
    """
    groups: dict[tuple[str, str, str], list[LiveObject]] = {}
    for event in reversed(events):
        name = (event.get("involvedObject") or {}).get("name") or ""
        if name in names:
            words = common_words(event.get("message") or "", name)
            key = event.get("type") or "", event.get("reason") or "", words
            groups.setdefault(key, []).append(event)
    for group in groups.values():
        about = [event["involvedObject"] for event in group]
        counts = [e.get("count") or (e.get("series") or {}).get("count") or 1 for e in group]
        yield JobEvent(
            at=event_time(group[0]),
            warning=group[0].get("type") == "Warning",
            reason=group[0].get("reason") or "",
            message=" ".join((group[0].get("message") or "").split()),
            objects=tuple(dict.fromkeys(f"{of.get('kind')}/{of.get('name')}" for of in about)),
            count=sum(map(int, counts)),
        )


# The phase --------------------------------------------------------------------------------------


def derived(job: Job, replicas: Sequence[Replica]) -> tuple[Phase, str]:
    """Return the phase that follows from the replicas, and why.

    Args:
        replicas: All of the job, missing ones included.
    """
    deciding = [replica for replica in replicas if replica.role in job.run.success.roles]
    deciders = [
        Decider(r.name, r.index in (0, None), _OUTCOMES.get(r.state, "open")) for r in deciding
    ]
    ends = completion(job.run.success, deciders)
    if ends.end == "succeeded":
        return "Succeeded", ends.why
    if job.run.suspended:
        return "Suspended", "suspended by its spec"
    # No Pod is named: `why` finds out which of them failed first.
    if ends.end == "hopeless":
        return "Failed", f"{named([r.role for r in deciding if r.name in ends.names])} failed"
    # An elastic role goes on with its minimum. In other roles, replicas wait for each other in
    # every step of the training, so that one failure holds up all.
    for role in job.roles:
        members = [replica for replica in replicas if replica.role == role.name]
        failed = sum(replica.state == "Failed" for replica in members)
        needed = role.bounds.minimum if role.bounds else len(members)
        if failed and len(members) - failed < needed:
            return "Failed", f"{role.name} failed"
    if at_work := [replica.name for replica in deciding if replica.state in ALIVE]:
        return "Running", f"{named(at_work)} {'is' if len(at_work) == 1 else 'are'} running"
    if any(replica.state in ALIVE for replica in replicas):
        are = "is" if len(deciding) == 1 else "are"
        return "Starting", f"{named([replica.name for replica in deciding])} {are} not running yet"
    if all(replica.state == "Missing" for replica in replicas):
        return "Pending", "none of its Pods exists"
    return "Pending", "no Pod is running yet"
