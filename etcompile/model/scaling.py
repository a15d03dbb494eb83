"""Describe a request to change the number of a job's workers, written as a file in Git.

An intent comes from a separate document and meets its job when intents are folded
(`etcompile.compiler.fold`).
"""

from collections.abc import Mapping

from msgspec import Struct, field

from etcompile.model.job import CustomResource, Labels, Origin

MOST_PODS = 150_000
"""The most Pods of one job, which is the most that Kubernetes supports in a cluster
(kubernetes.io/docs/setup/best-practices/cluster-large)."""


class Intent(Struct, frozen=True):
    """The common fields of all intents.

    Args:
        generated: The name is a prefix (`generateName`).
        of: The API version of its job, if the intent names one, and the job's kind.
        created: When the cluster received it, an RFC 3339 time, if the file is a dump.
        sequence: Its place among the job's intents, if annotated.
    """

    kind: str
    name: str
    generated: bool
    namespace: str | None
    job: str
    of: tuple[str | None, str]
    origin: Origin
    created: str | None
    sequence: int | None

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}{'*' if self.generated else ''}"


class ScaleOut(Intent, frozen=True):
    """Adds workers.

    Args:
        label: The label of its Pods that holds the intent's name, if the kind has one.
    """

    count: int
    label: str | None


class ScaleIn(Intent, frozen=True):
    """Removes the named workers, or else the `count` with the highest indexes."""

    count: int | None
    pods: tuple[str, ...]
    pod_origins: Mapping[str, Origin] = field(default_factory=dict)


class Planned(Struct, frozen=True):
    """A replica in a plan.

    Args:
        resources: Resources of its main container; empty for the template's.
    """

    name: str | None
    role: str | None
    index: int | None
    rank: int | None
    resources: Labels
    origin: Origin


class ScalePlan(Intent, frozen=True):
    """Sets the numbers of replicas, and names those that come, go or move.

    Args:
        resources: By role, the resources of the main containers of new replicas.
        move: Replicas that go and are followed by another of the same rank.
    """

    replicas: Mapping[str, int]
    resources: Mapping[str, Labels]
    create: tuple[Planned, ...]
    remove: tuple[Planned, ...]
    move: tuple[Planned, ...]
    custom: CustomResource
