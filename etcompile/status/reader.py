"""Read the objects that the status of jobs follows from, and keep them up to date by watches.

A job is identified by the ConfigMap that declares it. The watcher's two ConfigMaps may also be
written by hand, without a label, so they are read by name.
"""

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping
from functools import partial

from msgspec import Struct, field, structs

from etcompile import frontends
from etcompile.causes.causes import known
from etcompile.causes.log import tail_of
from etcompile.compiler.stored import StoredJobError
from etcompile.compiler.stored_run import StoredRun
from etcompile.diagnostics import RefusedError, codes, diagnose
from etcompile.diagnostics.spelling import probably
from etcompile.k8s.names import is_label, is_subdomain
from etcompile.k8s.objects import LiveObject
from etcompile.k8s.pods import (
    KUBECTL_NAMES,
    containers,
    ends,
    init_containers,
    running_init,
    terminated,
)
from etcompile.k8s.quota_usage import shortages
from etcompile.kubeapi.client import Cluster, event_time
from etcompile.kubeapi.controller.informer import Informer, Name
from etcompile.kubeapi.errors import ClusterError
from etcompile.kubeapi.resources import Resource
from etcompile.model import protocol
from etcompile.model.protocol import HOSTS_END, JOB_LABEL, STATUS_END, WATCHES
from etcompile.plan import applysets
from etcompile.plan.step import ObjectRef
from etcompile.rollout.live import Live
from etcompile.status.explanations import Explanation
from etcompile.status.job_status import is_config, jobs_among, statuses, watchers
from etcompile.status.values import JobStatus, Replica

_KINDS = (("v1", "ConfigMap"), ("v1", "Pod"), ("batch/v1", "Job"))
_WATCHERS = (HOSTS_END, STATUS_END)
_MOST_LOGS = 8
_MOST_LINES = 120
_TOGETHER = 0.1
"""Seconds within which changes count as one: a thousand Pods that start are a few updates."""


class Seen(Struct):
    """The objects of jobs in a cluster; `follow` keeps them up to date.

    Args:
        job: The job; None for all of them.
        namespace: None for all namespaces.
        pod: The Pod that the user named instead of the job; empty if none.
        objects: ConfigMaps, Pods, Jobs and Events, by kind, namespace and name.
        lists: Each kind with the label selector of its watch, and the version that was read.
        orphans: Namespace and name of jobs that no file declares any more, each with the set of
            jobs that it was applied with.
        watchers: The watchers when this was read (`job_status.watchers`); None if unknown.
        services: The names of the job's Services then; None if unknown.
    """

    job: str | None
    namespace: str | None
    pod: str = ""
    objects: dict[tuple[str, str, str], LiveObject] = field(default_factory=dict)
    lists: list[tuple[Resource, str, str]] = field(default_factory=list)
    orphans: dict[tuple[str, str], str] = field(default_factory=dict)
    watchers: Mapping[str, str] | None = None
    services: frozenset[str] | None = None

    def statuses(self) -> list[JobStatus]:
        return [
            structs.replace(job, orphan_of=self.orphans.get((job.namespace, job.name), ""))
            for job in statuses(self.objects.values(), None, self.watchers, self.services)
        ]

    def read(self, cluster: Cluster) -> None:
        self.objects, self.lists = {}, []
        for version, kind in _KINDS if self.job is None else (*_KINDS, ("v1", "Event")):
            labels = JOB_LABEL if self.job is None else f"{JOB_LABEL}={self.job}"
            resource = cluster.resource(version, kind)
            try:
                listing = cluster.list(
                    resource, self.namespace, labels="" if kind == "Event" else labels
                )
            except ClusterError as error:
                if error.status != 403 or self.needs(kind):
                    raise
                continue
            for value in listing.items:
                self.take_in("ADDED", value)
            # The watcher's ConfigMaps may have no label: watch all, and skip others.
            followed = "" if kind in ("ConfigMap", "Event") else labels
            self.lists.append((resource, followed, listing.resource_version))
        configs = [value["metadata"] for value in self.objects.values() if is_config(value)]
        records = [
            ObjectRef("v1", "ConfigMap", config["namespace"], config["labels"][JOB_LABEL] + end)
            for config in configs
            for end in _WATCHERS
        ]
        for record in Live(cluster).get(records):
            self.take_in("ADDED", dict(record))
        maps = cluster.resource("v1", "ConfigMap")
        parents = cluster.list(maps, self.namespace, labels=applysets.SET, metadata_only=True)
        self.orphans = applysets.orphans(parents.items)
        self.services = None
        with contextlib.suppress(ClusterError):  # without the right to list them
            if self.job is not None:
                resource, label = cluster.resource("v1", "Service"), f"{JOB_LABEL}={self.job}"
                listed = cluster.list(resource, self.namespace, labels=label, metadata_only=True)
                self.services = frozenset(service["metadata"]["name"] for service in listed.items)
        leases = cluster.resource("coordination.k8s.io/v1", "Lease")
        self.watchers = None
        for where in (None, self.namespace):  # wherever this user may list
            with contextlib.suppress(ClusterError):
                items = cluster.list(leases, where, labels=WATCHES).items
                # Another namespace may have a watcher for all.
                self.watchers = watchers(items, cluster.now()) or ({} if where is None else None)
                break

    def needs(self, kind: str) -> bool:
        """Return True if the state of these jobs is unknown without the objects of a kind."""
        if kind != "Job":
            return kind != "Event"
        jobs = (its.job for its in jobs_among(self.objects.values()))
        return any(role.batch for job in jobs if job is not None for role in job.roles)

    def take_in(self, change: str, value: LiveObject) -> None:
        kind, metadata = value["kind"], value["metadata"]
        name, job = metadata["name"], (metadata.get("labels") or {}).get(JOB_LABEL)
        if kind == "ConfigMap" and name.endswith(_WATCHERS):
            is_ours = self.job is None or name in {self.job + end for end in _WATCHERS}
        else:
            is_ours = kind == "Event" or (job is not None and self.job in (None, job))
        if change == "DELETED":
            self.objects.pop((kind, metadata["namespace"], name), None)
        elif is_ours:
            self.objects[kind, metadata["namespace"], name] = value

    def retain(self, kind: str, names: Container[tuple[str, str]]) -> None:
        for key in [*self.objects]:
            if key[0] == kind and key[1:] not in names:
                del self.objects[key]


def seen(cluster: Cluster, job: str | None, namespace: str | None) -> Seen:
    """Read the objects of a job, or of all.

    Args:
        job: The job, as `find_job` takes it; None for all of them, which leaves out their events.
        namespace: None for all namespaces.

    Raises:
        NoSuchJobError: there is no job of that name.
        AnotherJobError: as of `find_job`.
        ClusterError: something cannot be read.
    """
    named = find_job(cluster, job, namespace) if job is not None else None
    view = Seen(named.name, named.namespace, named.pod) if named else Seen(None, namespace)
    view.read(cluster)
    return view


def with_logs(cluster: Cluster, view: Seen, why: Explanation) -> Explanation:
    """Add what only more requests show: quotas, claims, and logs.

    Of each init container that a replica waits in, that is the last line of its log. What cannot be
    read is left out: the rest does not need that right.
    """
    held: list[Replica] = []
    why = _with_quotas(cluster, view, why)
    for replica in why.held:
        pod = view.objects.get(("Pod", why.status.namespace, replica.name), {})
        name, said = running_init(pod), ""
        if pod and "unbound" in replica.message:
            said = "; ".join(_unbound(cluster, view, pod))
        elif name and len(held) < _MOST_LOGS:
            with contextlib.suppress(ClusterError, IndexError):
                last = deque(cluster.log(replica.name, name, why.status.namespace, tail=1), 1)[0]
                said = f"container {name}: {last.removeprefix('etcompile: ')}"
        message = f"{replica.message}; {said}" if replica.message else said
        held.append(structs.replace(replica, message=message) if said else replica)
    return _with_tail(cluster, view, structs.replace(why, held=tuple(held)))


def _with_quotas(cluster: Cluster, view: Seen, why: Explanation) -> Explanation:
    """Say which quota keeps Pods from being created."""
    namespace, missing = why.status.namespace, [r for r in why.held if r.state == "Missing"]
    config = next((value for value in view.objects.values() if is_config(value)), None)
    if not missing or config is None:
        return why
    words = ""
    with contextlib.suppress(ClusterError, StoredJobError):
        quotas = cluster.list(cluster.resource("v1", "ResourceQuota"), namespace).items
        run = StoredRun(config) if quotas else None
        new = [pod for r in missing if run for _, pod in run.pods(r.role, [r.index])]
        words = "; ".join(str(lack) for quota in quotas for lack in shortages(quota, new, {}))
    if not words:
        return why
    held = [structs.replace(r, message=words) if r in missing else r for r in why.held]
    return structs.replace(why, held=tuple(held), advice=(known().waits["Quota"], *why.advice))


def _unbound(cluster: Cluster, view: Seen, pod: LiveObject) -> Iterator[str]:
    """Describe the claims of a Pod that have no volume yet."""
    claims = [
        volume.get("persistentVolumeClaim") or {} for volume in pod["spec"].get("volumes") or ()
    ]
    for name in [claim["claimName"] for claim in claims if claim]:
        about = {"kind": "PersistentVolumeClaim", "name": name}
        events = (value for value in view.objects.values() if value["kind"] == "Event")
        its = [e for e in events if about.items() <= (e.get("involvedObject") or {}).items()]
        last = max(its, key=event_time, default={}).get("message") or "no volume fits it yet"
        with contextlib.suppress(ClusterError):
            resource = cluster.resource("v1", "PersistentVolumeClaim")
            claim = cluster.get(resource, name, pod["metadata"]["namespace"])
            if claim is not None and (claim.get("status") or {}).get("phase") != "Bound":
                class_name = claim["spec"].get("storageClassName") or "none"
                yield f"claim {name}, StorageClass {class_name}: {last}"


def _with_tail(cluster: Cluster, view: Seen, why: Explanation) -> Explanation:
    """Add the log of a first failure of unknown cause: the status of its Pod holds 2 KiB of it."""
    first = why.last.first if why.last is not None else None
    pod = view.objects.get(("Pod", why.status.namespace, first.pod)) if first else None
    if first is None or pod is None or not first.cause.is_vague:
        return why
    for status in (*init_containers(pod), *containers(pod)):
        uid = f"{pod['metadata']['uid']}.{status.get('name')}.{ends(status)}"
        if first.uid == uid and terminated(status):
            lines: list[str] = []
            with contextlib.suppress(ClusterError):
                where = first.pod, first.container, why.status.namespace
                lines = [*deque(cluster.log(*where, tail=_MOST_LINES), _MOST_LINES)]
            tail = tail_of("\n".join(lines))
            if first.tail and first.tail.splitlines()[-1:] != tail.splitlines()[-1:]:
                return why  # no end of a log: the program wrote it as its termination message
            read = structs.replace(first, tail=tail)
            advice = (read.cause.advice if a == first.cause.advice else a for a in why.advice)
            attempts = (structs.replace(why.attempts[0], first=read), *why.attempts[1:])
            return structs.replace(why, attempts=attempts, advice=tuple(filter(None, advice)))
    return why


def follow(cluster: Cluster, view: Seen, interval: float = _TOGETHER) -> Iterator[Seen]:
    """Keep the objects up to date in place, and yield them after each change.

    Args:
        interval: Seconds, at least, between two of them.

    Raises:
        ClusterError: a watch ended for good.
    """
    changes: queue.Queue[Callable[[], None] | ClusterError] = queue.Queue()

    def followed(resource: Resource, labels: str, version: str) -> Informer:
        def changed(value: LiveObject, gone: bool) -> None:  # noqa: FBT001
            changes.put(partial(view.take_in, "DELETED" if gone else "MODIFIED", value))

        def listed(uids: Mapping[Name, str], _version: int) -> None:
            changes.put(partial(view.retain, resource.kind, uids))

        def failed(error: ClusterError) -> bool:
            if not error.expired and (error.status != 403 or view.needs(resource.kind)):
                changes.put(error)
            return error.expired

        return Informer(
            cluster,
            resource.api_version,
            resource.kind,
            view.namespace,
            changed,
            listed,
            failed,
            labels=labels,
            version=version,
        )

    informers = [followed(*listing) for listing in view.lists]
    for informer in informers:
        threading.Thread(target=informer.run, daemon=True).start()
    earliest = time.monotonic()
    try:
        while True:
            several = [changes.get()]
            time.sleep(max(_TOGETHER, earliest - time.monotonic()))
            earliest = time.monotonic() + interval
            with contextlib.suppress(queue.Empty):
                while True:
                    several.append(changes.get_nowait())
            for change in several:
                if isinstance(change, ClusterError):
                    raise change
                change()
            yield view
    finally:
        for informer in informers:
            informer.close()


# Names of jobs ------------------------------------------------------------------------------------


class NoSuchJobError(RefusedError):
    """No ConfigMap declares a job of that name; the diagnostic suggests others."""


class AnotherJobError(RefusedError):
    """The name is not that of a job: its kind is wrong, or its Pod belongs to none."""

    def __init__(self, name: str, problem: str, advice: str) -> None:
        facts = {"name": name, "problem": problem, "advice": advice}
        super().__init__([diagnose(codes.ANOTHER_JOB, None, **facts)])


class JobName(Struct, frozen=True):
    """A job in a cluster."""

    name: str
    namespace: str | None  # None for all that have a job of this name
    pod: str = ""  # that it was named by


def find_job(cluster: Cluster, word: str, namespace: str | None) -> JobName:
    """Find the job that a word names.

    Args:
        word: `bert`, `pytorchjob/bert`, `bert-worker-0` or `pod/bert-worker-0`; kinds as kubectl
            takes them.
        namespace: None for all namespaces.

    Raises:
        NoSuchJobError: there is no such job.
        AnotherJobError: the kind is unknown or that of no such job, or the Pod belongs to no job.
        ClusterError: the cluster cannot be read.
    """
    kind, slash, name = word.rpartition("/")
    is_pod = kind.lower() in KUBECTL_NAMES
    kinds = {known.name for known in frontends.jobs_called(kind)} if slash and not is_pod else set()
    if slash and not (is_pod or kinds):
        every = {known.name.lower() for known in frontends.kinds() if known.pod_templates}
        known_kinds = f"kinds are pod, {', '.join(sorted(every))}"
        raise AnotherJobError(word, f"there is no kind '{kind}' of jobs", known_kinds)
    if is_label(name) and not is_pod:
        maps = cluster.resource("v1", "ConfigMap")
        labelled = cluster.list(maps, namespace, labels=f"{JOB_LABEL}={name}").items
        jobs = jobs_among(value for value in labelled if is_config(value))
        meant = [its for its in jobs if not kinds or its.job is None or its.job.kind in kinds]
        if meant:
            return JobName(name, meant[0].namespace if len(meant) == 1 else namespace)
        for job in (its.job for its in jobs if its.job):
            raise AnotherJobError(word, f"the job '{name}' is a {job.kind}", f"leave out {kind}/")
    if is_subdomain(name) and not kinds:
        resource, fields = cluster.resource("v1", "Pod"), f"metadata.name={name}"
        pods = [pod["metadata"] for pod in cluster.list(resource, namespace, fields=fields).items]
        owned = [pod for pod in pods if (pod.get("labels") or {}).get(JOB_LABEL)]
        if owned:
            where = owned[0]["namespace"] if len(owned) == 1 else namespace
            return JobName(owned[0]["labels"][JOB_LABEL], where, name)
        if is_pod and pods:
            raise AnotherJobError(
                word, "the Pod belongs to no job", "etcompile status lists the jobs"
            )
    if is_pod:
        raise AnotherJobError(
            word, f"there is no such Pod in {_place(namespace)}", "name its job instead"
        )
    raise _no_such_job(cluster, name, namespace)


def _place(namespace: str | None) -> str:
    return f"namespace '{namespace}'" if namespace else "any namespace"


def _no_such_job(cluster: Cluster, job: str, namespace: str | None) -> NoSuchJobError:
    resource, jobs = cluster.resource("v1", "ConfigMap"), set[tuple[str, str]]()
    left = ""  # of a job that was deleted: its run record stays
    for where in (namespace, None):  # wherever this user may list
        with contextlib.suppress(ClusterError):
            for value in cluster.list(resource, where, labels=JOB_LABEL, metadata_only=True).items:
                metadata = value["metadata"]
                place, name = metadata["namespace"], metadata["labels"][JOB_LABEL]
                if protocol.is_config(metadata):
                    jobs.add((place, name))
                elif name == job and namespace in (None, place):
                    left = metadata["name"]
    here = [name for place, name in sorted(jobs) if namespace in (None, place)]
    if left:
        advice = f"it was deleted: only its ConfigMap {left} is left"
    elif elsewhere := sorted(place for place, name in jobs if name == job):
        advice = f"it is in namespace '{elsewhere[0]}': add -n {elsewhere[0]}"
    elif close := probably(job, here):
        advice = f"did you mean '{close}'?"
    elif here:
        advice = f"jobs there: {', '.join(dict.fromkeys(here[:8]))}"
    else:
        advice = "there are no jobs at all: has it been applied, and is this the right cluster?"
    facts = {"job": job, "where": _place(namespace), "advice": advice}
    return NoSuchJobError([diagnose(codes.NO_SUCH_JOB_IN_CLUSTER, None, **facts)])
