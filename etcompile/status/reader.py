"""The objects that the status of jobs follows from, read from a cluster.

A job is known by the ConfigMap that declares it. The watcher's two ConfigMaps may also be written
by hand, without a label, so they are asked for by name.
"""

from collections.abc import Iterable

from msgspec import Struct, field, structs

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.diagnostics.spelling import probably
from etcompile.k8s.objects import LiveObject
from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError
from etcompile.kubeapi.resources import Resource
from etcompile.model.protocol import HOSTS_END, JOB_LABEL, STATUS_END
from etcompile.plan import applysets
from etcompile.plan.step import ObjectRef
from etcompile.rollout.live import Live
from etcompile.status.job_status import is_config, statuses
from etcompile.status.values import JobStatus

_KINDS = (("v1", "ConfigMap"), ("v1", "Pod"), ("batch/v1", "Job"))
_EVENT = ("v1", "Event")
_WATCHERS = (HOSTS_END, STATUS_END)

Key = tuple[str, str, str]
"""Kind, namespace and name."""


class NoSuchJobError(Exception):
    """No ConfigMap declares a job of that name.

    Attributes:
        namespace: Where it should be; None for all namespaces.
        known: Namespace and name of the jobs that there are, of other namespaces as far as they
            may be read.
    """

    def __init__(self, name: str, namespace: str | None, known: Iterable[tuple[str, str]]) -> None:
        super().__init__(name)
        self.name = name
        self.namespace = namespace
        self.known = tuple(known)

    @property
    def diagnostic(self) -> Diagnostic:
        """The same as a message of the catalogue, with the names that may be meant."""
        where = f"namespace '{self.namespace}'" if self.namespace else "any namespace"
        here = [name for namespace, name in self.known if self.namespace in (None, namespace)]
        elsewhere = [namespace for namespace, name in self.known if name == self.name]
        if elsewhere:
            advice = f"it is in namespace '{elsewhere[0]}': add -n {elsewhere[0]}"
        elif close := probably(self.name, here):
            advice = f"did you mean '{close}'?"
        elif here:
            advice = f"jobs there: {', '.join(dict.fromkeys(here[:8]))}"
        else:
            advice = "there are no jobs at all: has it been applied, and is this the right cluster?"
        facts = {"job": self.name, "where": where, "advice": advice}
        return diagnose(codes.NO_SUCH_JOB_IN_CLUSTER, None, **facts)


class Source(Struct, frozen=True):
    """A kind of objects that a status follows from.

    Args:
        labels: The selector of its objects.
        version: The resource version of the list that was read.
    """

    resource: Resource
    labels: str
    version: str


class Seen(Struct):
    """What was seen of jobs in a cluster; `follow` keeps it up to date.

    Args:
        job: The job; None for all of them.
        namespace: Where; None for all namespaces.
        objects: The ConfigMaps, Pods and Jobs.
        orphans: Namespace and name of jobs that no file declares any more, each with the set of
            jobs that it was applied with.
    """

    job: str | None
    namespace: str | None
    objects: dict[Key, LiveObject] = field(default_factory=dict)
    events: dict[Key, LiveObject] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    orphans: dict[tuple[str, str], str] = field(default_factory=dict)

    def statuses(self) -> list[JobStatus]:
        """The status of each job, by namespace and name."""
        return [
            structs.replace(job, orphan_of=self.orphans.get((job.namespace, job.name), ""))
            for job in statuses(self.objects.values(), self.events.values())
        ]

    def concerns(self, value: LiveObject) -> bool:
        """Whether an object belongs to the jobs."""
        metadata = value["metadata"]
        if value["kind"] == "Event":
            return True
        name: str = metadata["name"]
        if value["kind"] == "ConfigMap" and name.endswith(_WATCHERS):
            return self.job is None or name in {self.job + end for end in _WATCHERS}
        label = (metadata.get("labels") or {}).get(JOB_LABEL)
        return label is not None and (self.job is None or label == self.job)

    def put(self, value: LiveObject) -> None:
        """Takes in an object as it is now."""
        self._of(value)[key(value)] = value

    def drop(self, value: LiveObject) -> None:
        """Takes out an object that is gone."""
        self._of(value).pop(key(value), None)

    def _of(self, value: LiveObject) -> dict[Key, LiveObject]:
        return self.events if value["kind"] == "Event" else self.objects


def key(value: LiveObject) -> Key:
    """What tells the objects of a status apart."""
    metadata = value["metadata"]
    return value["kind"], metadata["namespace"], metadata["name"]


def seen(cluster: Cluster, job: str | None, namespace: str | None) -> Seen:
    """What there is of a job, or of all.

    Args:
        job: The job; None for all of them, which leaves out their events.
        namespace: Where; None for all namespaces.

    Raises:
        NoSuchJobError: no job of that name is there.
        ClusterError: something cannot be read.
    """
    snapshot = Seen(job, namespace)
    selector = JOB_LABEL if job is None else f"{JOB_LABEL}={job}"
    for version, kind in _KINDS:
        _take_in(snapshot, cluster, cluster.resource(version, kind), selector)
    configs = [value for value in snapshot.objects.values() if is_config(value)]
    if job is not None and not configs:
        raise NoSuchJobError(job, namespace, _known(cluster, namespace))
    of_watchers = [
        ObjectRef("v1", "ConfigMap", config["metadata"]["namespace"], name + end)
        for config in configs
        for name in [config["metadata"]["labels"][JOB_LABEL]]
        for end in _WATCHERS
    ]
    for value in Live(cluster).get(of_watchers):
        snapshot.put(dict(value))
    parents = cluster.list(
        cluster.resource("v1", "ConfigMap"), namespace, labels=applysets.SET, metadata_only=True
    )
    snapshot.orphans = applysets.orphans(parents.items)
    if job is not None:
        _take_in(snapshot, cluster, cluster.resource(*_EVENT), "")
    return snapshot


def _take_in(snapshot: Seen, cluster: Cluster, resource: Resource, selector: str) -> None:
    listing = cluster.list(resource, snapshot.namespace, labels=selector)
    for value in listing.items:
        snapshot.put(value)
    snapshot.sources.append(Source(resource, selector, listing.resource_version))


def _known(cluster: Cluster, namespace: str | None) -> list[tuple[str, str]]:
    """The jobs that there are, wherever this user may look."""
    resource = cluster.resource("v1", "ConfigMap")
    for where in dict.fromkeys((None, namespace)):
        try:
            listing = cluster.list(resource, where, labels=JOB_LABEL, metadata_only=True)
        except ClusterError as error:
            if error.status != 403:
                raise
            continue
        jobs = [value["metadata"] for value in listing.items]
        return sorted({(metadata["namespace"], metadata["labels"][JOB_LABEL]) for metadata in jobs})
    return []
