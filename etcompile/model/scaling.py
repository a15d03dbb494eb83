"""A wish to change the number of a job's workers, written as a file in Git.

Apart from the job, because an intent comes from a document of its own and only meets its job
when intents are folded (`etcompile.compiler.fold`).
"""

from collections.abc import Mapping

from msgspec import Struct, field

from etcompile.model.job import CustomResource, Labels, Origin

MOST_PODS = 150_000
"""Pods that one job may have: Kubernetes is made for no more in a whole cluster
(kubernetes.io/docs/setup/best-practices/cluster-large)."""


class Intent(Struct, frozen=True):
    """What both kinds of intent share.

    Args:
        generated: The name is a prefix (`generateName`).
        of: That job's API version, if the intent names one, and its kind.
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
        """What messages call it."""
        return f"{self.kind} {self.name}{'*' if self.generated else ''}"


class ScaleOut(Intent, frozen=True):
    """Adds workers.

    Args:
        label: The label its Pods carry its name under, if the kind has one.
    """

    count: int
    label: str | None


class ScaleIn(Intent, frozen=True):
    """Removes workers: those named, else the `count` with the highest indexes."""

    count: int | None
    pods: tuple[str, ...]
    pod_origins: Mapping[str, Origin] = field(default_factory=dict)


class Planned(Struct, frozen=True):
    """What a plan says of one replica.

    Args:
        resources: What its main container is to have; empty for the template's.
    """

    name: str | None
    role: str | None
    index: int | None
    rank: int | None
    resources: Labels
    origin: Origin


class ScalePlan(Intent, frozen=True):
    """Says how many replicas there are to be, and which come, go or move.

    Args:
        resources: By role, what the main containers of replicas to come are to have.
        move: Replicas that go and are followed by another of the same rank.
    """

    replicas: Mapping[str, int]
    resources: Mapping[str, Labels]
    create: tuple[Planned, ...]
    remove: tuple[Planned, ...]
    move: tuple[Planned, ...]
    custom: CustomResource
