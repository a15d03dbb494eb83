"""The steps of a plan: what is done to each object, and what each step waits for.

`diff` shows these values, a plan file holds them, and `apply` carries them out. How they are made
is in `etcompile.plan.planner`.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, get_args

from msgspec import Struct, structs

from etcompile.k8s.objects import Object

Action = Literal[
    "create",
    "adopt",
    "update",
    "replace",
    "wait",
    "delete",
    "release",
    "conflict",
    "unmanaged",
    "unchanged",
]
"""What a step does.

`create`, `update` and `delete` are what they say. `adopt` applies an object that exists and that
etcompile has not made. `replace` deletes an object, waits until it is gone and creates it anew,
because a field may not change. `release` takes away what etcompile has written on an object that
also holds what others have written. `wait` changes nothing. `conflict` is refused: somebody else
looks after the object, or after a field that is to change. `unmanaged` is left alone, though it is
not declared. `unchanged` has nothing to do.
"""
ACTIONS: tuple[Action, ...] = get_args(Action)
MAKES = frozenset({"create", "adopt", "update", "replace"})
"""Actions after which an object is there as it is declared."""
REMOVES = frozenset({"delete", "release"})
"""Actions after which nothing of ours is there."""
WRITES = MAKES | REMOVES
"""Actions that write to the cluster."""
IDLE = frozenset({"unchanged", "unmanaged"})
"""Actions that do nothing."""
DESTROYS = frozenset({"replace", "delete"})
"""Actions that delete an object."""

Until = Literal["ready", "gone", "drained"]
"""What a wait is for: the Pod is Ready; the object is not there any more; or its work has left a
Pod that is no longer on the host list, which shows in nothing, so that only its limit ends it."""

Need = Literal["replace", "replace-data", "adopt", "take-ownership", "room"]
"""The option without which a step is refused; or room in a quota, which no option gives."""

Option = Literal["prune", "adopt", "replace", "replace-data"]
"""The option, without its dashes, that does something about a reason."""

How = Literal["added", "removed", "changed"]


ObjectKey = tuple[str, str, str, str]
"""API group, kind, namespace and name of an object: it has them in every version."""


class ObjectRef(Struct, frozen=True, order=True):
    """Which object.

    Args:
        api_version: API group and version.
        namespace: Its namespace; empty if it names none.
        name: Its name; a generated one's prefix.
    """

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def group(self) -> str:
        """The API group, empty for core."""
        return self.api_version.rpartition("/")[0]

    @property
    def key(self) -> ObjectKey:
        """What the API server tells objects apart by; `default` stands for no namespace."""
        return self.key_in("default")

    def key_in(self, namespace: str) -> ObjectKey:
        """The same in a cluster whose default namespace this is."""
        return self.group, self.kind, self.namespace or namespace, self.name

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        return f"{kind} {where}{self.name}"


def reference(value: Object) -> ObjectRef:
    """The reference of an object."""
    metadata = value["metadata"]
    name = metadata.get("name") or metadata.get("generateName") or ""
    return ObjectRef(value["apiVersion"], value["kind"], metadata.get("namespace") or "", name)


class FieldChange(Struct, frozen=True):
    """A field that a step changes.

    Args:
        path: Where it stands: `spec.containers[main].image`.
        how: It is added, removed, or changed.
        before: Its value on the live object; None if it is added. Never a value of a Secret.
        after: Its value once the step is done; None if it is removed.
        manager: Who else owns it, where this is why the step is a conflict.
        immutable: Why the object has to be replaced: the API refuses this change.
        steps: The path in steps: keys, and `[name]` or `[index]` for an item of a list.
    """

    path: str
    how: How
    before: Any = None
    after: Any = None
    manager: str | None = None
    immutable: bool = False
    steps: tuple[str, ...] = ()


class Remedy(Struct, frozen=True):
    """An option that does something about a reason.

    Args:
        words: What it does, in a clause that begins with it: `--prune deletes it`.
    """

    option: Option
    words: str


class Reason(Struct, frozen=True):
    """Why a step is what it is.

    What is decided by a reason is decided by its remedy: its text is for people only.

    Args:
        text: Why, in plain words.
        remedy: What to do about it; None if no option does anything.
    """

    text: str
    remedy: Remedy | None = None

    @classmethod
    def read(cls, shown: str, remedy: Remedy | None) -> "Reason":
        """The reason that is shown so, and has that remedy."""
        return cls(shown.removesuffix(_clause(remedy)), remedy)

    def __str__(self) -> str:
        return self.text + _clause(self.remedy)


def _clause(remedy: Remedy | None) -> str:
    """What is shown of a remedy, after its reason."""
    return f"; {remedy.words}" if remedy else ""


class Step(Struct, frozen=True, dict=True):
    """One thing to do about one object.

    Args:
        action: What.
        ref: The object.
        why: The reasons for it.
        changes: The fields that change; none for an object that is created or deleted whole.
        after: The ids of the steps that must be done before it begins, apart from waves.
        wave: When its turn is among the steps of its job. Steps that make something wait for
            those of lower waves, deletions for those of higher ones (`etcompile.plan.schedule`).
        job: The job that it belongs to; None for other objects.
        needs: The option without which this step is refused; None if nothing is missing.
        until: What a `wait` waits for.
        limit: Seconds after which a `wait` ends; None leaves that to whoever waits.
        uid: The UID of the live object that it was decided for; None if there is none.
        resource_version: The same object's resourceVersion.
        manifest: What is to be applied, for create, adopt, update and replace. None for a Secret
            with values: no plan carries these.
        origin: Where the object is declared: `jobs/bert.yaml`.
        makes_room: A deletion that comes before anything that is made in its namespace: a quota
            has no room for new Pods until it is done.
    """

    action: Action
    ref: ObjectRef
    why: tuple[Reason, ...] = ()
    changes: tuple[FieldChange, ...] = ()
    after: tuple[str, ...] = ()
    wave: int = 0
    job: str | None = None
    needs: Need | None = None
    until: Until | None = None
    limit: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    manifest: Object | None = None
    origin: str | None = None
    makes_room: bool = False

    @cached_property
    def id(self) -> str:
        """What other steps name it by: unique in its plan."""
        what = f"{self.action} until {self.until}" if self.until else self.action
        return f"{what} {self.ref}"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why, in plain words, and what to do about it."""
        return tuple(map(str, self.why))

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """What to do about its reasons."""
        return tuple(reason.remedy for reason in self.why if reason.remedy is not None)


def deletion(live: Object, reason: str, remedy: Remedy | None = None) -> Step:
    """The step that deletes an object, as it is now.

    Args:
        live: The object as the cluster has it.
        reason: Why, in plain words.
        remedy: What to do about that, if the object is not deleted.
    """
    metadata = live["metadata"]
    return Step(
        "delete",
        reference(live),
        (Reason(reason, remedy),),
        uid=metadata.get("uid"),
        resource_version=metadata.get("resourceVersion"),
    )


def release(live: Object, keys: Sequence[str]) -> Step:
    """The step that leaves an object to the others who have written on it.

    Args:
        live: The object as the cluster has it.
        keys: What they have written: `data.notes of kubectl-edit`.
    """
    step = deletion(live, f"it also holds {', '.join(keys)}: only what etcompile wrote is removed")
    namespace = {"namespace": step.ref.namespace} if step.ref.namespace else {}
    # Applied by our field manager, this takes away every field that nobody else has.
    nothing = {
        "apiVersion": step.ref.api_version,
        "kind": step.ref.kind,
        "metadata": {"name": step.ref.name, **namespace},
    }
    return structs.replace(step, action="release", manifest=nothing)


class JobSet(Struct, frozen=True):
    """A set of jobs.

    Args:
        id: What tells it from others: a label value.
        source: What people call it: `--set NAME`, or the folder.
        owner: The repository that it is of: what `source` begins with.
        whole: Whether all jobs of the set are compiled; else no job is an orphan.
        orphans: Its jobs in the cluster that are not declared any more.
    """

    id: str
    source: str
    owner: str = ""
    whole: bool = True
    orphans: tuple[str, ...] = ()


class Plan(Struct, frozen=True):
    """Steps from live objects to desired ones.

    Args:
        steps: One for each object and some that wait, in an order in which they may be done one
            by one.
        against: What the desired objects were compared with: `cluster`, or a folder's or a
            revision's name.
        context: The name of the cluster's context, where there is one.
        namespace: The namespace of objects that name none, where there is a cluster.
        cluster: Which cluster that is (`etcompile.rollout.live.cluster_identity`).
        job_set: The set of jobs that is applied; None for single files.
    """

    steps: tuple[Step, ...]
    against: str = "cluster"
    context: str | None = None
    namespace: str | None = None
    cluster: str | None = None
    job_set: JobSet | None = None

    @property
    def differs(self) -> bool:
        """Whether there is anything to do, or anything that somebody refuses."""
        return any(step.action not in ("unchanged", "unmanaged", "wait") for step in self.steps)

    @property
    def refused(self) -> tuple[Step, ...]:
        """The steps that need an option, or that somebody else's claim forbids."""
        return tuple(step for step in self.steps if step.needs or step.action == "conflict")

    def counts(self) -> dict[Action, int]:
        """How many steps of each action there are, in the order of `ACTIONS`."""
        found = dict.fromkeys(ACTIONS, 0)
        for step in self.steps:
            found[step.action] += 1
        return {action: count for action, count in found.items() if count}
