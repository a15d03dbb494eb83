"""Define the values that go into and come out of a rollout's decisions, and its outcome.

People and programs see `StepEvent` while it runs, and `Outcome` at its end.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from msgspec import Struct, field, structs

from etcompile.diagnostics import Diagnostic
from etcompile.exitcodes import CLUSTER, INTERRUPTED, NOT_READY
from etcompile.k8s.objects import Object
from etcompile.kubeapi.errors import ClusterError
from etcompile.model.protocol import JOB_LABEL
from etcompile.model.run_record import RunRecord
from etcompile.plan.scope import Rights
from etcompile.plan.step import IDLE, ObjectRef, Plan, Step
from etcompile.rollout.machine.reasons import Key, ObjectState
from etcompile.rollout.refusals import Refusal, RefusedError

Place = tuple[str, str, str]
"""API version, kind and namespace; the latter is empty for kinds that have none."""

Phase = Literal["create", "update", "delete"]
"""Which part of a step is written: a replacement is a deletion and then a creation."""

Effect = Literal["created", "updated", "adopted", "released", "deleted", "deleting"]
"""What a write has done."""

Status = Effect | Literal["waiting", "running", "ready", "succeeded", "held", "kept", "failed"]


OURS = (JOB_LABEL,)
"""The label of an object that a watch for jobs reports."""


class Choices(Struct, frozen=True):
    """How to roll out.

    Args:
        wait: For objects to be ready; for the run to end; or only where the order needs it.
        timeout: Seconds for all of it; None for no limit.
        drain: Seconds for a Pod to drain that left the host list; None for the plan's.
    """

    wait: Literal["ready", "complete", "none"] = "ready"
    timeout: float | None = None
    drain: float | None = None
    concurrency: int = 32


class ProposedJob(Struct, frozen=True):
    """What a rollout needs to know of a job besides the steps.

    Args:
        deciding: The Pods whose success is that of the run (`JobObjects.deciding`).
        runs: The spec hashes of the runs that it declares.
        ended: The record of its run, if that is over.
        remaining: Members of its ApplySet that are not declared and stay; None for those that the
            plan leaves alone.
        version: What its inventory was before its objects were read: the plan is stale if it is
            something else when the plan is done (`rollout.inventory.seen_version`).
    """

    deciding: tuple[tuple[str, ...], ...] = ()
    runs: frozenset[str] = frozenset()
    ended: RunRecord | None = None
    remaining: Sequence[ObjectRef] | None = None
    version: str | None = None


class Proposal(Struct, frozen=True, kw_only=True):
    """A plan, and what its execution needs to know besides.

    Args:
        plan: The plan: `plan.steps`, in order, each with its `action`, `ref`, `reasons` and
            `changes`; `plan.refused` are those that are refused.
        before: Plans that are done first, one after the other; if one fails, the rest is not done.
        pause: Seconds between two of them.
        jobs: By title, the jobs that the plan changes.
        secrets: The manifests of Secrets, which no plan contains.
        states: How far live objects are that take time to become ready.
        accepted: The objects whose planned update the API server has accepted in a dry run.
    """

    plan: Plan
    rights: Rights = Rights()
    before: tuple[Plan, ...] = ()
    pause: float = 0.0
    jobs: Mapping[str, ProposedJob] = field(default_factory=dict)
    secrets: Mapping[ObjectRef, Object] = field(default_factory=dict)
    states: Mapping[Key, ObjectState] = field(default_factory=dict)
    accepted: frozenset[ObjectRef] = frozenset()
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def full_plan(self) -> Plan:
        steps = (step for part in (*self.before, self.plan) for step in part.steps)
        return structs.replace(self.plan, steps=tuple(steps))


# Events ------------------------------------------------------------------------------------------


class Written(Struct, frozen=True):
    """The result of a request, with the object as it is now; None if it is gone."""

    status: Effect
    live: Object | None


class Wrote(Struct, frozen=True):
    step: Step
    phase: Phase
    written: Written


class NotWritten(Struct, frozen=True):
    step: Step
    phase: Phase
    error: ClusterError | RefusedError


class Seen(Struct, frozen=True):
    """How far an object is.

    Args:
        observed: How far it is; None if it is gone.
        going: Why it is not gone yet, if it is being deleted; why it went, if it is gone.
    """

    place: Place
    name: str
    uid: str
    observed: ObjectState | None
    going: str = ""


class Listed(Struct, frozen=True):
    """All that is there, at the beginning of a watch: UIDs by name."""

    place: Place
    uids: Mapping[str, str]


class Hint(Struct, frozen=True):
    """What a Kubernetes Event, or the Pod of a Job, says about an object.

    Args:
        unbound: A claim that is bound when its first Pod is there, so nothing waits for it.
        uid: The object's; empty if the Event does not say.
    """

    namespace: str
    kind: str
    name: str
    text: str
    unbound: bool = False
    uid: str = ""


class RunEnded(Struct, frozen=True):
    """A watcher has recorded that a run of a job is over."""

    namespace: str
    config_map: str
    record: RunRecord


class Lost(Struct, frozen=True):
    """Something that the rollout needs has failed.

    Args:
        step: The step that it was for; None if all that follows is unknown.
    """

    ref: ObjectRef
    error: ClusterError
    step: Step | None = None


class Interrupted(Struct, frozen=True):
    """The user ends the rollout."""


class Tick(Struct, frozen=True):
    """Time has passed."""


Event = Wrote | NotWritten | Seen | Listed | Hint | RunEnded | Lost | Interrupted | Tick


# Commands ----------------------------------------------------------------------------------------


class Write(Struct, frozen=True):
    """Do a part of a step; its answer is `Wrote` or `NotWritten`."""

    step: Step
    phase: Phase


class Follow(Struct, frozen=True):
    """Report from now on how far objects of this kind and namespace are.

    Args:
        ref: An object that must be among them.
        step: The step that fails if that is not possible; None if the rollout does.
        labels: The keys of the object's labels; None if they have to be read.
    """

    ref: ObjectRef
    step: Step | None = None
    labels: Collection[str] | None = OURS


class FollowNotes(Struct, frozen=True):
    """Report from now on what Events or run records of a namespace say, if they may be read."""

    kind: Literal["Event", "ConfigMap"]
    namespace: str


class Relist(Struct, frozen=True):
    """List all that is followed again: a watch may have gone silent."""


class StepEvent(Struct, frozen=True):
    """A change of state of an object, for people and programs that follow the rollout.

    Args:
        moment: When, in seconds since the epoch; the executor fills it in.
    """

    ref: ObjectRef
    action: str
    status: Status
    reason: str = ""
    job: str | None = None
    moment: float = 0.0


Command = Write | Follow | FollowNotes | Relist | StepEvent


# The end -----------------------------------------------------------------------------------------


class Unready(Struct, frozen=True):
    """An object that is there but not as it should be.

    Args:
        failed: It will not get there by itself.
        over: Its run has failed; only a new one can succeed.
    """

    ref: ObjectRef
    reason: str
    failed: bool
    job: str | None = None
    over: bool = False


class Outcome(Struct, frozen=True):
    """What a rollout came to.

    Args:
        deleted: Steps that were to replace an object, have deleted it, and have made no new one.
        left: The steps that were not done, each with the reason.
        changed: Anything was written, even if no step was done.
    """

    done: tuple[Step, ...] = ()
    deleted: tuple[Step, ...] = ()
    left: tuple[tuple[Step, str], ...] = ()
    unready: tuple[Unready, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    interrupted: bool = False
    timed_out: bool = False
    changed: bool = False

    @property
    def code(self) -> int:
        """The exit code; a code that promises that nothing was changed only if that is true."""
        if self.interrupted:
            return INTERRUPTED
        if self.refusals and self.changed:
            return CLUSTER
        if self.refusals:
            return min(refusal.code for refusal in self.refusals)
        return NOT_READY if self.unready or self.left or self.timed_out else 0

    def after(self, first: "Outcome") -> "Outcome":
        changed = first.changed or self.changed
        return structs.replace(self, done=(*first.done, *self.done), changed=changed)

    def without(self, plans: tuple[Plan, ...]) -> "Outcome":
        words = "not started, because an earlier step was not done"
        left = [(step, words) for plan in plans for step in plan.steps if step.action not in IDLE]
        return structs.replace(self, left=(*self.left, *left))
