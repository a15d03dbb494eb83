"""The plan that removes a job: launchers first, and what other objects need last.

Nothing is desired here, as it is in `planner`. Whose an object is, and whether it holds data that
cannot be made again, decides what happens to it.
"""

from collections.abc import Callable, Collection, Iterable

from msgspec import structs

from etcompile.k8s.objects import Object
from etcompile.k8s.references import references
from etcompile.model.protocol import MANAGER, config_names
from etcompile.plan import claims, protection
from etcompile.plan.mounts import SHARED, Mounts, ReadPods
from etcompile.plan.order import Draft, ordered
from etcompile.plan.schedule import in_turn
from etcompile.plan.step import (
    REMOVES,
    ObjectKey,
    ObjectRef,
    Plan,
    Reason,
    Remedy,
    Step,
    deletion,
    reference,
)

_ADOPT = Remedy("adopt", "--adopt deletes it anyway")
_EVERYWHERE = frozenset({"default", "kube-root-ca.crt"})
"""A ServiceAccount and a ConfigMap that each namespace has."""

EMPTY_INVENTORY = "nothing of the job is left in this inventory"
"""Why the parent of an ApplySet is deleted by a step of its own."""


def removal(
    belongings: Iterable[tuple[str, Object]],
    wave: Callable[[Object], int],
    *,
    adopt: bool = False,
    applied: Collection[str] = (),
    declared: Collection[ObjectKey] = (),
    context: str | None = None,
    reason: str = "its job is deleted",
    namespace: str = "default",
    read_pods: ReadPods | None = None,
) -> Plan:
    """The plan that removes jobs.

    Args:
        belongings: Live objects, each with the title of the job that it belongs to.
        wave: The wave of an object (`etcompile.emit.wave`).
        adopt: Delete also what another tool looks after.
        applied: The titles of the jobs that etcompile has applied. What etcompile never wrote is
            not theirs, whatever its labels say. Another job was applied by whoever wrote its
            ConfigMap, and what neither wrote is not its own.
        declared: The keys (`ObjectRef.key`) of objects that files declare: these are theirs,
            whoever has applied them.
        context: The cluster's context, if there is one.
        reason: Why the objects are deleted, in plain words.
        namespace: The namespace of objects that name none.
        read_pods: Reads all Pods of a namespace, which may use what is deleted; None if nothing
            is deleted that other Pods may use.
    """
    found = list(belongings)
    uids = {value["metadata"].get("uid") for _, value in found}
    appliers = {
        job: claims.managers(value)
        for job, value in found
        if value["kind"] == "ConfigMap"
        and value["metadata"]["name"] in config_names(job.rpartition("/")[2])
    }
    drafts, left = [], []
    for job, value in found:
        step = structs.replace(_step(value, uids, reason, adopt=adopt), job=job)
        if step.action in REMOVES and not adopt:
            if job in applied:
                step = _of_strangers(step, value)
            elif step.ref.key not in declared and not value["metadata"].get("ownerReferences"):
                step = _of_strangers(step, value, appliers.get(job, frozenset()))
        if step.action == "unmanaged":
            left.append(step)
        else:
            drafts.append(Draft(step, value))
    if read_pods is not None:
        drafts = Mounts(namespace, read_pods).held(drafts)
    steps = ordered(drafts, {}, wave) if drafts else []
    # A watcher brings Pods back as long as the ConfigMap that declares their job is there.
    first = max((step.wave for step in steps), default=0)
    steps = [
        structs.replace(step, wave=first, after=())
        if step.ref.kind == "ConfigMap"
        and step.ref.name in config_names((step.job or "").rpartition("/")[2])
        else step
        for step in steps
    ]
    return Plan((*in_turn(steps), *left), context=context)


def named_by(values: Iterable[Object], namespace: str) -> list[ObjectRef]:
    """What the objects of a job name and may leave behind: Secrets, claims, ConfigMaps, accounts.

    Args:
        values: The objects, live or declared.
        namespace: The namespace of those that name none.

    Returns:
        Each once, without those that every namespace has. Whether they exist is not known.
    """
    found = (
        ObjectRef(
            "v1", named.kind, named.namespace or reference(value).namespace or namespace, named.name
        )
        for value in values
        for named in references(value)
        if named.kind in SHARED and not named.group and named.name not in _EVERYWHERE
    )
    return list(dict.fromkeys(found))


def left_behind(live: Object, job: str | None) -> Step:
    """The step of an object that jobs used, and that is not theirs."""
    words = "the job used it, and etcompile did not create it"
    if tool := claims.tracker(live):
        words = f"the job used it, and {tool} manages it"
    return structs.replace(deletion(live, words), action="unmanaged", job=job)


def _of_strangers(step: Step, live: Object, appliers: frozenset[str] = frozenset()) -> Step:
    """The deletion of an object, unless somebody else made it and copied the labels of a job.

    Args:
        step: The deletion.
        live: The object as the cluster has it.
        appliers: The field managers of those who applied the job, if etcompile did not.
    """
    maker = None if claims.managers(live) & appliers else claims.stranger(live, MANAGER)
    words = f"{maker} made it, with labels of the job"
    return structs.replace(step, action="unmanaged", why=(Reason(words),)) if maker else step


def _step(live: Object, uids: set[str | None], reason: str, *, adopt: bool) -> Step:
    step = deletion(live, reason)
    if (tool := claims.tracker(live)) and not adopt:
        tracked = Reason(f"{tool} manages it, and would create it again", _ADOPT)
        return structs.replace(step, action="conflict", why=(tracked,), needs="adopt")
    owners = live["metadata"].get("ownerReferences") or ()
    if any(owner.get("uid") not in uids for owner in owners):
        why = f"it is deleted with its owner {claims.owner(live)}"
    elif annotation := claims.keep_annotation(live):
        why = f"it has the annotation {annotation}"
    else:
        return protection.spared(step, live, MANAGER)
    return structs.replace(step, action="unmanaged", why=(Reason(why),))
