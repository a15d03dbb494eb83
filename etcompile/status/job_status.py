"""Objects of a cluster to the status of jobs. Pure: who reads them, and when, is elsewhere.

What should be there comes from the job itself, which its ConfigMap holds; what is there comes from
the Pods with its label. So a Pod that is missing shows, and one that is left over does, too.
"""

import functools
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from etcompile import backend
from etcompile.compiler.stored import StoredJobError, read_text
from etcompile.goodput import (
    ReplicaSpans,
    Timeline,
    advanced,
    goodput,
    in_training,
    read_timeline,
    spans_of,
)
from etcompile.k8s.objects import LiveObject, timestamp
from etcompile.model import Job
from etcompile.model.protocol import (
    INDEX_LABEL,
    JOB_LABEL,
    RANK_LABEL,
    ROLE_LABEL,
    RUN_LABEL,
    SPEC_HASH,
    STORED_JOB,
    hosts_name,
    status_name,
)
from etcompile.model.protocol import is_config as names_config
from etcompile.model.run_record import DIGITS, UNREADABLE, RunRecord, written_record
from etcompile.status.phase import derived
from etcompile.status.pod_problems import ALIVE, state
from etcompile.status.replicas import labelled_replica, made_by, replicas_of
from etcompile.status.report import told
from etcompile.status.values import ENDED, Epoch, Hosts, JobStatus, Phase, Replica, RoleStatus

_HOST = re.compile(r"[A-Za-z0-9][-A-Za-z0-9.]*")
_REPORTED: Mapping[str, Phase] = {
    phase.lower(): phase
    for phase in ("Pending", "Running", "Restarting", "Succeeded", "Failed", "Suspended")
}


class _Its(Struct, frozen=True):
    """What belongs to one job.

    Args:
        config: The ConfigMap that declares it.
        pods: Its Pods, by name.
        jobs: Its Jobs of Kubernetes, by name.
        hosts: The watcher's host lists; empty if there are none.
        record: The watcher's record of the run; empty if there is none.
    """

    config: LiveObject
    pods: dict[str, LiveObject]
    jobs: dict[str, LiveObject]
    hosts: Mapping[str, str]
    record: Mapping[str, str]


def is_config(value: LiveObject) -> bool:
    """Whether an object is the ConfigMap that declares a job."""
    return names_config(value["metadata"]) and STORED_JOB in (value.get("data") or {})


def statuses(
    objects: Iterable[LiveObject],
    events: Iterable[LiveObject] = (),
    now: float | None = None,
) -> list[JobStatus]:
    """The status of each job that is declared among objects, by namespace and name.

    Args:
        objects: ConfigMaps, Pods and Jobs, in any order; others are passed over.
        events: What was told of them.
        now: When they were read, in seconds since 1970; None for just now.
    """
    at = time.time() if now is None else now
    known = _by_job(objects)
    about: defaultdict[tuple[str, str], list[LiveObject]] = defaultdict(list)
    for event in events:
        of = event.get("involvedObject") or {}
        about[of.get("namespace") or "", of.get("name") or ""].append(event)
    found = [_status(its, about, at) for its in known]
    return sorted(found, key=lambda status: (status.namespace, status.name))


def _by_job(objects: Iterable[LiveObject]) -> Iterator[_Its]:
    configs: list[LiveObject] = []
    maps: dict[tuple[str, str], Mapping[str, str]] = {}
    labelled: dict[str, defaultdict[tuple[str, str], dict[str, LiveObject]]] = {
        kind: defaultdict(dict) for kind in ("Pod", "Job")
    }
    for value in objects:
        metadata = value["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        if value["kind"] == "ConfigMap":
            maps[namespace, name] = value.get("data") or {}
            configs += [value] if is_config(value) else []
        elif value["kind"] in labelled:
            job = (metadata.get("labels") or {}).get(JOB_LABEL, "")
            labelled[value["kind"]][namespace, job][name] = value
    for config in configs:
        namespace = config["metadata"]["namespace"]
        job = config["metadata"]["labels"][JOB_LABEL]
        yield _Its(
            config,
            labelled["Pod"][namespace, job],
            labelled["Job"][namespace, job],
            maps.get((namespace, hosts_name(job)), {}),
            maps.get((namespace, status_name(job)), {}),
        )


def _status(its: _Its, about: Mapping[tuple[str, str], list[LiveObject]], now: float) -> JobStatus:
    metadata = its.config["metadata"]
    name, namespace = metadata["labels"][JOB_LABEL], metadata["namespace"]
    job, problem = _stored(its.config["data"][STORED_JOB])
    record = written_record(its.record) or RunRecord("")
    if job is not None:
        replicas = [
            replica
            for role in job.roles
            for replica in replicas_of(role, its.pods, its.jobs, record)
        ]
        wanted: dict[str, int | None] = {role.name: len(role.members) for role in job.roles}
        phase, because = derived(job, replicas)
        surplus = _surplus(job, replicas, its)
    else:
        replicas = [labelled_replica(pod) for pod in its.pods.values()]
        replicas.sort(key=lambda replica: (replica.role, replica.index or 0))
        wanted = dict.fromkeys(replica.role for replica in replicas)
        phase, because = "Unknown", f"{metadata['name']} cannot be read: {problem}"
        surplus = ()
    reported = _reported(its, job, record)
    if reported:
        phase, words = reported
        # The watcher may have written that down before, or nobody may be watching.
        unread = job is None and record.reason != UNREADABLE
        because = f"{words}; {because}" if unread else words
    of_this_run = job is not None and record.run == backend.spec_hash(job)
    timeline = _timeline(job, its, record, now) if of_this_run and job is not None else None
    names = {name, metadata["name"], *its.pods, *(replica.name for replica in replicas)}
    return JobStatus(
        namespace=namespace,
        name=name,
        kind=job.kind if job else "",
        phase=phase,
        reported=reported is not None,
        because=because,
        created=metadata.get("creationTimestamp") or "",
        run=job.run_id if job else None,
        roles=tuple(_counted(role, count, replicas) for role, count in wanted.items()),
        replicas=tuple(replicas),
        hosts=_hosts(job, its) if job else None,
        surplus=surplus,
        epoch=_epoch(record) if of_this_run else None,
        timeline=timeline,
        goodput=goodput(timeline, now) if timeline is not None else None,
        events=told(
            event for object_name in names for event in about.get((namespace, object_name), ())
        ),
    )


def stored_job(config: LiveObject) -> Job | None:
    """The job that a ConfigMap declares; None if this version of etcompile cannot read it."""
    return _stored(config["data"][STORED_JOB])[0]


@functools.lru_cache(maxsize=256)
def _stored(text: str) -> tuple[Job | None, str]:
    """The job of that text; None if this version of etcompile cannot read it, and why."""
    try:
        return read_text(text).job, ""
    except StoredJobError as error:
        return None, str(error)


def _surplus(job: Job, replicas: Sequence[Replica], its: _Its) -> tuple[str, ...]:
    """The job's Pods that it does not declare, each with what is known of it."""
    own = backend.spec_hash(job)
    declared = {replica.name for replica in replicas}
    declared |= {role.pod_name(member) for role in job.roles for member in role.members}
    batches = {role.pod_name(member) for role in job.roles if role.batch for member in role.members}
    found = []
    for name, pod in sorted(its.pods.items()):
        of_run = (pod["metadata"].get("annotations") or {}).get(SPEC_HASH) or own
        if name in declared or made_by(pod) in batches:
            if of_run != own:
                found.append(f"{name} ({state(pod)}, of another run, {of_run})")
            continue
        run = (pod["metadata"].get("labels") or {}).get(RUN_LABEL)
        of = "" if run == job.run_id else f", run {run}" if run else ", the run without an ID"
        found.append(f"{name} ({state(pod)}{of})")
    return tuple(found)


def _counted(role: str, desired: int | None, replicas: Sequence[Replica]) -> RoleStatus:
    own = [replica for replica in replicas if replica.role == role]
    return RoleStatus(
        name=role,
        desired=desired,
        running=sum(replica.state in ALIVE for replica in own),
        ready=sum(replica.state == "Ready" for replica in own),
        succeeded=sum(replica.state == "Succeeded" for replica in own),
        failed=sum(replica.state == "Failed" for replica in own),
        restarts=sum(replica.restarts for replica in own),
    )


def _epoch(record: RunRecord) -> Epoch | None:
    """The epoch that the watcher has written down; None if commands do not restart in place."""
    if record.epoch is None:
        return None
    at = timestamp(record.restarted_at) if record.epoch and record.restarted_at else ""
    return Epoch(record.epoch, record.epoch_reason, at)


def _timeline(job: Job, its: _Its, record: RunRecord, now: float) -> Timeline | None:
    """What the watcher has written down of the run's time, and what its Pods tell since."""
    spans = []
    for pod in its.pods.values():
        labels = pod["metadata"].get("labels") or {}
        number = labels.get(RANK_LABEL) or labels.get(INDEX_LABEL) or "0"
        own = (pod["metadata"].get("annotations") or {}).get(SPEC_HASH) == record.run
        if own and number.isdecimal() and len(number) <= DIGITS:
            role = labels.get(ROLE_LABEL, "")
            spans.append(ReplicaSpans(role, int(number), spans_of(pod)))
    times = in_training(job, spans, record, now)
    return advanced(read_timeline(its.record), record, times, now)


def _hosts(job: Job, its: _Its) -> Hosts | None:
    """The first of the job's host lists, live where the watcher keeps one."""
    lists = [host_list.key for host_list in job.host_lists if host_list.live]
    for key in lists:
        if its.hosts.get(key):
            return Hosts(tuple(_named(its.hosts[key])), live=True)
    seeds = (its.config.get("data") or {}).get(lists[0], "") if lists else ""
    return Hosts(tuple(_named(seeds)), live=False) if lists else None


def _named(lines: str) -> Iterator[str]:
    """The hosts of a list: each of its lines begins with a name."""
    for line in lines.splitlines():
        if found := _HOST.match(line):
            yield found[0]


def _reported(its: _Its, job: Job | None, record: RunRecord) -> tuple[Phase, str] | None:
    """The phase that the watcher has written down, if it has, of this run."""
    runs = {(pod["metadata"].get("annotations") or {}).get(SPEC_HASH) for pod in its.pods.values()}
    if job is not None:
        runs.add(backend.spec_hash(job))
    done = its.record.get("done", "").strip()
    if (record.run or done) and not {record.run, done} & runs:
        return None  # of an earlier run
    phase = _REPORTED.get(its.record.get("phase", "").strip().lower())
    if phase not in ENDED and record.config not in ("", its.config["metadata"].get("uid")):
        return None  # of a job that was deleted before its run was over
    if phase is not None:
        why = ": ".join(filter(None, (record.reason, record.message)))
        return phase, f"reported by the watcher: {why}" if why else "reported by the watcher"
    return ("Succeeded", "its run is marked as done") if done else None
