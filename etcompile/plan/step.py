"""Define what a plan consists of: what is declared, and a step for each object.

`diff` shows these values, a plan file holds them (`etcompile.plan.plan_file`), and `apply` carries
them out. `etcompile.plan.planner` creates them.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Literal, get_args

from msgspec import Struct, field, structs

from etcompile.diagnostics.credentials import is_credential
from etcompile.diagnostics.redaction import HIDDEN, redacted
from etcompile.k8s.objects import Object
from etcompile.k8s.path import KeyedPath

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
etcompile did not create. `replace` deletes an object, waits until it is gone and creates it again,
because a field may not change. `release` removes what etcompile has written on an object that also
holds what others have written. `wait` changes nothing. `conflict` is refused: somebody else manages
the object, or a field that is to change. `unmanaged` is left alone, though it is not declared.
`unchanged` has nothing to do.
"""
ACTIONS: tuple[Action, ...] = get_args(Action)
MAKES = frozenset({"create", "adopt", "update", "replace"})
"""Actions after which an object is there as it is declared."""
REMOVES = frozenset({"delete", "release"})
"""Actions after which nothing of ours is there."""
WRITES = MAKES | REMOVES
IDLE = frozenset({"unchanged", "unmanaged"})
"""Actions that do nothing."""
DESTROYS = frozenset({"replace", "delete"})
"""Actions that delete an object."""

Until = Literal["ready", "gone", "drained"]
"""What a wait is for: the Pod is Ready; the object does not exist any more; or its work has left a
Pod that is no longer on the host list, which shows in nothing, so that only its limit ends it."""

MISSING, RUN_AGAIN = "it does not exist", "its job is run again"
"""Reasons to create an object, which a plan for people leaves out."""

Need = Literal["replace", "replace-data", "adopt", "take-ownership", "room"]
"""The option without which a step is refused; or room in a quota, which no option gives."""

Option = Literal["prune", "adopt", "replace", "replace-data", "take-ownership"]
"""The option, without its dashes, that does something about a reason."""

How = Literal["added", "removed", "changed"]

ObjectKey = tuple[str, str, str, str]
"""API group, kind, namespace and name of an object: it has them in every version."""


class ObjectRef(Struct, frozen=True, order=True, omit_defaults=True, rename="camel"):
    """Which object.

    Args:
        name: For an object with a generated name, its prefix.
    """

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def key(self) -> ObjectKey:
        """What the API server tells objects apart by; `default` stands for no namespace."""
        return self.key_in("default")

    @property
    def resource(self) -> str:
        """Return the object as kubectl takes it in a command: `service/bert`, `job.batch/bert`."""
        kind = self.kind.lower()
        return f"{kind}.{self.group}/{self.name}" if self.group else f"{kind}/{self.name}"

    def key_in(self, namespace: str) -> ObjectKey:
        return self.group, self.kind, self.namespace or namespace, self.name

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        return f"{kind} {where}{self.name}"


def reference(value: Object) -> ObjectRef:
    metadata = value["metadata"]
    name = metadata.get("name") or metadata.get("generateName") or ""
    return ObjectRef(value["apiVersion"], value["kind"], metadata.get("namespace") or "", name)


class Declared(Struct, frozen=True):
    """Desired objects that belong together: those of a job, or those of none.

    Args:
        job: The job's title, `nlp/bert`; None for other objects.
        objects: Kubernetes objects, JSON, in the order in which they are applied.
        waits: The names of Pods (or of the Jobs that create them) that wait, each with those of
            the Pods it waits for.
        origin: Where they come from, for people: `jobs/bert.yaml`.
        listed: The roles whose Pods are on a host list that changes.
        create_only: The keys (`ObjectRef.key`) of objects that are created if they do not exist
            and otherwise left as they are, such as a generated key pair.
    """

    job: str | None
    objects: Iterable[Object]
    waits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    origin: str | None = None
    inventory: str | None = None
    listed: frozenset[str] = frozenset()
    create_only: frozenset[ObjectKey] = frozenset()


class FieldChange(Struct, frozen=True, omit_defaults=True):
    """A field that a step changes.

    Args:
        before: Its value on the live object; None if it is added. Never a value of a Secret.
        after: Its value once the step is done; None if it is removed.
        manager: The other owner, where this is why the step is a conflict.
        immutable: The API refuses this change, so the object has to be replaced.
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

    Code decides by the remedy: the text is for people only.
    """

    text: str
    remedy: Remedy | None = None

    def __str__(self) -> str:
        return f"{self.text}; {self.remedy.words}" if self.remedy else self.text


class Step(Struct, frozen=True, dict=True, omit_defaults=True, rename="camel"):
    """One thing to do about one object.

    Args:
        after: The ids of the steps that must be done before it begins, apart from waves.
        wave: When its turn is among the steps of its job. Steps that create something wait for
            those of lower waves, deletions for those of higher ones (`etcompile.plan.schedule`).
        needs: The option without which this step is refused; None if nothing is missing.
        limit: Seconds after which a `wait` ends; None leaves that to whoever waits.
        since: When these seconds began, in seconds since 1970; None if they begin with the step.
        manifest: What is to be applied, for create, adopt, update and replace. None for a Secret
            with values: no plan contains these.
        origin: Where the object is declared: `jobs/bert.yaml`.
        frees_quota: A deletion that comes before anything that is created in its namespace,
            because a quota has no room for new Pods until it is done.
    """

    action: Action
    ref: ObjectRef = field(name="object")
    why: tuple[Reason, ...] = ()
    changes: tuple[FieldChange, ...] = ()
    after: tuple[str, ...] = ()
    wave: int = 0
    job: str | None = None
    needs: Need | None = None
    until: Until | None = None
    limit: int | None = None
    since: float | None = None
    uid: str | None = None
    resource_version: str | None = None
    manifest: Object | None = None
    origin: str | None = None
    frees_quota: bool = field(default=False, name="makesRoom")

    @cached_property
    def id(self) -> str:
        """The name by which other steps refer to it: unique in its plan."""
        what = f"{self.action} until {self.until}" if self.until else self.action
        return f"{what} {self.ref}"

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(map(str, self.why))

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        return tuple(reason.remedy for reason in self.why if reason.remedy is not None)


def deletion(live: Object, reason: str = "") -> Step:
    uid, version = (live["metadata"].get(name) for name in ("uid", "resourceVersion"))
    return Step("delete", reference(live), (Reason(reason),), uid=uid, resource_version=version)


def unmanaged(step: Step, reason: str, remedy: Remedy | None = None) -> Step:
    why = (Reason(reason, remedy),)
    return structs.replace(step, action="unmanaged", why=why, needs=None, after=())


def conflict(step: Step, *why: Reason, needs: Need | None = None) -> Step:
    return structs.replace(step, action="conflict", why=why, needs=needs)


class JobSet(Struct, frozen=True):
    """A set of jobs.

    Args:
        source: Its name for people: `--config set=NAME`, or the folder.
        owner: The repository that it is of: what `source` begins with.
        origin: The Git remote or first commit of a repository that `owner` names otherwise.
        complete: Whether all jobs of the set are compiled; else no job is an orphan.
        orphans: Its jobs in the cluster that are not declared any more.
    """

    id: str
    source: str
    owner: str = ""
    origin: str = ""
    complete: bool = field(default=True, name="whole")
    orphans: tuple[str, ...] = ()


class Plan(Struct, frozen=True):
    """Steps from live objects to desired ones.

    Args:
        steps: One for each object and some that wait, in an order in which they may be done one
            by one.
        against: What the desired objects were compared with: `cluster`, or a folder's or a
            revision's name.
        namespace: The namespace of objects that name none, where there is a cluster.
        cluster: Which cluster that is (`etcompile.rollout.live.cluster_identity`).
    """

    steps: tuple[Step, ...]
    against: str = "cluster"
    context: str | None = None
    namespace: str | None = None
    cluster: str | None = None
    job_set: JobSet | None = field(default=None, name="set")

    @property
    def differs(self) -> bool:
        return any(step.action not in ("unchanged", "unmanaged", "wait") for step in self.steps)

    @property
    def refused(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.needs or step.action == "conflict")

    def counts(self) -> dict[Action, int]:
        counts = dict.fromkeys(ACTIONS, 0)
        for step in self.steps:
            counts[step.action] += 1
        return {action: count for action, count in counts.items() if count}


# Values that nobody may see -----------------------------------------------------------------------

_SECRET_FIELDS = ("data", "stringData")


def has_values(value: Object) -> bool:
    return value["kind"] == "Secret" and any(value.get(name) for name in _SECRET_FIELDS)


def masked(kind: str, path: KeyedPath, value: Any) -> Any:
    """Return a field's value without credentials; of a Secret's value, only how long it is.

    A change in a plan holds nothing else, so nothing that shows, writes or logs changes can reveal
    one. An object that is to be applied stays as its author wrote it.
    """
    if kind != "Secret" or value is None or not path or path[0] not in _SECRET_FIELDS:
        return _without_credentials(path, value)
    if isinstance(value, Mapping):
        return {key: _size(inner, path[0]) for key, inner in value.items()}
    return _size(value, path[0])


def _without_credentials(path: KeyedPath, value: Any) -> Any:
    """Remove the credentials in a value, recognised by their form or by their name."""
    if isinstance(value, str):
        name = path[-2] if len(path) > 1 and path[-1] == "value" else path[-1] if path else ""
        return HIDDEN if is_credential(name.strip("[]"), value) else redacted(value)
    if isinstance(value, Mapping):
        item = value.get("name")
        here = (*path, f"[{item}]") if isinstance(item, str) and "value" in value else path
        return {key: _without_credentials((*here, key), inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_credentials(path, item) for item in value]
    return value


def _size(value: Any, field_name: str) -> str:
    text = str(value).encode()
    if field_name == "data":
        try:
            text = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return "(hidden)"
    return f"(hidden, {len(text)} bytes)"
