"""The plans that run a job again, from its live Pods and its declared ones.

All old Pods must be gone before the first new one is created. A single plan cannot do that, because
within a job it creates before it deletes. Between the two, the watcher's record of the run is
deleted; otherwise the new Pods would find that they are done (`docs/protocol.md`).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, structs

from etcompile.k8s.objects import Object
from etcompile.model.protocol import MANAGER
from etcompile.plan import claims
from etcompile.plan.classes import created
from etcompile.plan.order import Draft, ordered
from etcompile.plan.removal import removal
from etcompile.plan.schedule import in_turn
from etcompile.plan.step import Plan, Reason, Step, deletion, reference

_REASON = "its job is run again"
_KNOWN = frozenset({"done", "phase", "record"})
"""The keys of the record of a run; a person may write `done`."""


class Restart(Struct, frozen=True):
    """How a job is run again.

    Args:
        removal: The Pods that go, and what is refused or left alone.
        records: What was written down of the run, which goes when they are gone.
        creation: What comes then.
    """

    removal: Plan
    records: Plan
    creation: Plan

    @property
    def whole(self) -> Plan:
        """All as one plan, to be looked at: it cannot be done as one."""
        parts = (self.removal, self.records, self.creation)
        return structs.replace(
            self.removal, steps=tuple(step for part in parts for step in part.steps)
        )


def restart(
    pods: Iterable[Object],
    live: Iterable[Object],
    records: Iterable[Object],
    wave: Callable[[Object], int],
    *,
    job: str,
    waits: Mapping[str, tuple[str, ...]],
    config: str,
    applied: bool,
    adopt: bool = False,
    context: str | None = None,
    namespace: str = "default",
) -> Restart:
    """The plans that run a job again.

    Args:
        pods: The Pods, and Jobs of Kubernetes, that the job declares, each with its namespace.
        live: Those that there are.
        records: What the watcher keeps of the run, or a person wrote in its place.
        wave: The wave of an object (`etcompile.emit.wave`).
        job: The job's title.
        waits: The names of Pods that wait, each with those of the Pods it waits for.
        config: The UID of the ConfigMap that declares the job.
        applied: Whether etcompile has applied the job (`removal.removal`).
        adopt: Also Pods that another tool looks after, or that other people made.
        context: The cluster's context, if there is one.
        namespace: The namespace of objects that name none.
    """
    wanted = {reference(value): value for value in pods}
    going, left = [], []
    for value in live:
        ref = reference(value)
        if claims.controller(value) and ref not in wanted:
            continue  # it goes with the Job that made it
        if ref in wanted or _follows(value, config):
            going.append((job, _unowned(value, config)))
        else:
            reason = "the job does not declare it"
            left.append(structs.replace(deletion(value, reason), action="unmanaged", job=job))
    jobs = (job,) if applied else ()
    removed = removal(
        going,
        wave,
        adopt=adopt,
        applied=jobs,
        declared={ref.key for ref in wanted},
        context=context,
        reason=_REASON,
    ).steps
    # A Pod that is in the way and must not be deleted.
    steps = [
        structs.replace(step, action="conflict", needs=None) if step.action == "unmanaged" else step
        for step in removed
    ]
    member = job if applied else None
    there = {reference(value) for _, value in going}
    drafts = [
        Draft(structs.replace(created(value, ref, reason), job=member), value)
        for ref, value in wanted.items()
        for reason in [_REASON if ref in there else "it does not exist"]
    ]
    made = in_turn(ordered(drafts, {member: waits}, wave))
    return Restart(
        Plan((*steps, *left), context=context, namespace=namespace),
        Plan(
            tuple(_record(record, job) for record in records), context=context, namespace=namespace
        ),
        Plan(tuple(made), context=context, namespace=namespace),
    )


def _follows(value: Object, config: str) -> bool:
    """Whether the watcher made a Pod in the place of another: its owner is the job's ConfigMap."""
    owners = value["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == config for owner in owners)


def _unowned(value: Object, config: str) -> dict[str, Any]:
    """The object without its job as an owner: the job stays, and the object goes all the same."""
    metadata = value["metadata"]
    owners = [
        owner for owner in metadata.get("ownerReferences") or () if owner.get("uid") != config
    ]
    return {**value, "metadata": {**metadata, "ownerReferences": owners}}


def _record(value: Object, job: str) -> Step:
    """What becomes of the record of the run that is over, or of its host list."""
    step = structs.replace(deletion(value, "it is of the run before"), job=job)
    strange = sorted({*(value.get("data") or {})} - _KNOWN)
    maker = claims.stranger(value, MANAGER)
    if maker and strange:
        words = f"{maker} made it, and it holds {', '.join(strange)}"
        return structs.replace(step, action="conflict", why=(Reason(words),))
    return step
