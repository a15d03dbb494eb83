"""Plan how to remove a job, or to run it again.

To remove a job, launchers are deleted first, and last what other objects need. To run it again, all
old Pods must be gone before the first new one is created, which a single plan cannot do: within a
job it creates before it deletes. Between the two, the watcher's record of the run is deleted;
otherwise the new Pods would learn from it that they are done (`docs/protocol.md`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec import structs

from etcompile.k8s.objects import Object, is_going
from etcompile.model.protocol import config_names
from etcompile.plan import owners
from etcompile.plan.matches import created
from etcompile.plan.mounts import held
from etcompile.plan.schedule import Draft, in_turn, ordered
from etcompile.plan.step import (
    MISSING,
    REMOVES,
    RUN_AGAIN,
    ObjectKey,
    Plan,
    Reason,
    Remedy,
    Step,
    conflict,
    deletion,
    reference,
    unmanaged,
)

_ADOPT = Remedy("adopt", "--adopt deletes it anyway")
EMPTY_INVENTORY = "nothing of the job is left in this inventory"
"""Why the parent of an ApplySet is deleted by a step of its own."""

_KEYS_OF_RECORD = frozenset({"done", "phase", "record"})
"""The keys of the record of a run; a person may write `done`."""


def removable(
    belongings: Iterable[tuple[str, Object]],
    *,
    adopt: bool = False,
    applied: Collection[str] = (),
    declared: Collection[ObjectKey] = (),
    reason: str = "its job is deleted",
) -> list[Draft]:
    """Decide which objects of jobs to delete.

    Args:
        belongings: Live objects, each with the title of its job.
        applied: The titles of the jobs that etcompile has applied. What etcompile never wrote is
            not theirs, whatever its labels say. Another job was applied by whoever wrote its
            ConfigMap, and what neither wrote is not its own.
        declared: The keys (`ObjectRef.key`) of objects that files declare: these are theirs,
            whoever has applied them.
    """
    belongings = list(belongings)
    uids = {value["metadata"].get("uid") for _, value in belongings}
    appliers = {
        job: owners.managers(value)
        for job, value in belongings
        if value["kind"] == "ConfigMap"
        and value["metadata"]["name"] in config_names(job.rpartition("/")[2])
    }
    drafts = []
    for job, value in belongings:
        step, metadata = structs.replace(deletion(value, reason), job=job), value["metadata"]
        references = metadata.get("ownerReferences") or ()
        configs = config_names(job.rpartition("/")[2])
        if any(owner.get("controller") and owner.get("uid") in uids for owner in references):
            continue  # it ends with the Job that created it, whose deletion waits for that
        ends = references and is_going(value)
        if (tool := owners.tracker(value)) and not adopt:
            tracked = Reason(f"{tool} manages it, and would create it again", _ADOPT)
            step = conflict(step, tracked, needs="adopt")
        elif ends:
            pass  # somebody has deleted the Job that created it
        elif any(
            # Nobody need wait until the garbage collector misses the job's own ConfigMap.
            owner.get("uid") not in uids
            and not (owner.get("kind") == "ConfigMap" and owner.get("name") in configs)
            for owner in references
        ):
            step = unmanaged(step, f"it is deleted with its owner {owners.owner(value)}")
        else:
            step = owners.spared(step, value)
        if step.action in REMOVES and not (adopt or ends):
            # Somebody else may have created it, and copied the labels of a job.
            writers = frozenset() if job in applied else appliers.get(job, frozenset())
            is_ours = job not in applied and (step.ref.key in declared or references)
            maker = owners.stranger(value)
            if maker and not is_ours and not owners.managers(value) & writers:
                step = unmanaged(step, f"{maker} made it, with labels of the job")
        drafts.append(Draft(step, value))
    return drafts


def removal(
    drafts: Sequence[Draft],
    pods: Mapping[str, Iterable[Object]] = MappingProxyType({}),
    namespace: str = "default",
) -> tuple[Step, ...]:
    """Return the steps that remove objects, in order.

    Args:
        pods: By namespace, all Pods: what others use stays.
        namespace: Of objects that name none.
    """
    acting = held(
        [draft for draft in drafts if draft.step.action != "unmanaged"], pods, namespace, {}
    )
    steps = ordered(acting, {}) if acting else []
    # A watcher brings Pods back as long as the ConfigMap that declares their job is there.
    first = max((step.wave for step in steps), default=0)
    steps = [
        structs.replace(step, wave=first, after=())
        if step.ref.kind == "ConfigMap"
        and step.ref.name in config_names((step.job or "").rpartition("/")[2])
        else step
        for step in steps
    ]
    left = (draft.step for draft in drafts if draft.step.action == "unmanaged")
    return (*in_turn(steps), *left)


# Running a job again ------------------------------------------------------------------------------


def restart(
    pods: Iterable[Object],
    live: Iterable[Object],
    records: Iterable[Object],
    *,
    job: str,
    waits: Mapping[str, tuple[str, ...]],
    config: str,
    applied: bool,
    adopt: bool = False,
    context: str | None = None,
    namespace: str = "default",
) -> tuple[Plan, Plan, Plan]:
    """Return the plans that run a job again, one after the other.

    Args:
        pods: The Pods, and Jobs of Kubernetes, that the job declares, each with its namespace.
        records: What the watcher stores of the run, or a person wrote in its place.
        config: The UID of the ConfigMap that declares the job.
        adopt: Also Pods that another tool manages, or that other people created.

    Returns:
        The first deletes the old Pods, the second what was written down of their run, and the
        third creates the new Pods.
    """
    wanted = {reference(value): value for value in pods}
    going: list[tuple[str, Object]] = []
    left = []
    for value in live:
        ref, metadata = reference(value), value["metadata"]
        references = metadata.get("ownerReferences") or ()
        # The job stays, and the object is deleted all the same: it no longer counts as an owner.
        others = [owner for owner in references if owner.get("uid") != config]
        controlled = owners.owner(value, controller=True) and ref not in wanted
        if controlled and not is_going(value):
            continue  # it is deleted with the Job that created it
        # One that the watcher created in the place of another is owned by the job's ConfigMap.
        if ref in wanted or len(others) < len(references) or controlled:
            going.append((job, {**value, "metadata": {**metadata, "ownerReferences": others}}))
        else:
            step = structs.replace(deletion(value), job=job)
            left.append(unmanaged(step, "the job does not declare it"))
    drafts = removable(
        going,
        adopt=adopt,
        applied=(job,) if applied else (),
        declared={ref.key for ref in wanted},
        reason=RUN_AGAIN,
    )
    steps = removal(drafts)
    # A Pod that is in the way and must not be deleted.
    removed = [conflict(step, *step.why) if step.action == "unmanaged" else step for step in steps]
    member = job if applied else None
    present = {reference(value) for _, value in going}
    drafts = []
    for ref, value in wanted.items():
        step = created(value, ref, RUN_AGAIN if ref in present else MISSING)
        drafts.append(Draft(structs.replace(step, job=member), value))
    forgotten = []
    for record in records:
        step = structs.replace(deletion(record, "it is of the run before"), job=job)
        strange = sorted({*(record.get("data") or {})} - _KEYS_OF_RECORD)
        if strange and (maker := owners.stranger(record)):
            words = f"{maker} made it, and it holds {', '.join(strange)}"
            step = conflict(step, Reason(words))
        forgotten.append(step)
    parts = ((*removed, *left), tuple(forgotten), tuple(in_turn(ordered(drafts, {member: waits}))))
    first, second, third = (Plan(part, context=context, namespace=namespace) for part in parts)
    return first, second, third
