"""Desired and live objects to a plan: what to do about each, why, and in what order.

The one function that strings the parts together: `comparison` says which fields seem to differ, the
API server which of them it would change (`Ask`), `classes` what follows for one object, `order`
what waits for what, `schedule` whose turn it is.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field, structs

from etcompile.k8s import pods
from etcompile.k8s.objects import Object, is_going
from etcompile.model.protocol import JOB_LABEL
from etcompile.plan import claims
from etcompile.plan.classes import (
    Ask,
    Difference,
    created,
    difference,
    left_over,
    resolved,
    unchanged,
)
from etcompile.plan.inventory import INVENTORY_ID
from etcompile.plan.mounts import Mounts, ReadPods
from etcompile.plan.order import Draft, ordered
from etcompile.plan.rights import Rights
from etcompile.plan.schedule import in_turn, ring
from etcompile.plan.step import IDLE, ObjectKey, ObjectRef, Plan, Reason, Step, reference


class Declared(Struct, frozen=True):
    """Desired objects that belong together: those of a job, or those of none.

    Args:
        job: The job as people call it, `nlp/bert`; None for other objects.
        objects: Kubernetes objects, JSON, in the order in which they are applied.
        waits: The names of Pods that wait, each with those of the Pods it waits for
            (`etcompile.compiler.JobObjects.waits`).
        origin: Where they come from, as people name it: `jobs/bert.yaml`.
        inventory: The id of the ApplySet that they are members of; None for none.
        create_only: The keys (`ObjectRef.key`) of objects that are created if they are not there
            and otherwise left as they are, such as a generated key pair.
    """

    job: str | None
    objects: Iterable[Object]
    waits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    origin: str | None = None
    inventory: str | None = None
    create_only: frozenset[ObjectKey] = frozenset()


def plan(
    desired: Iterable[Declared],
    live: Iterable[Object],
    wave: Callable[[Object], int],
    rights: Rights | None = None,
    *,
    against: str = "cluster",
    context: str | None = None,
    namespace: str = "default",
    ask: Ask | None = None,
    read_pods: ReadPods | None = None,
) -> Plan:
    """The plan that makes live objects what is desired.

    Args:
        desired: What is declared, each object with its job.
        live: The live ones, in any order: those of the same names as the desired ones, and the
            members of the inventories. Each is looked at once and not kept, unless it is not
            desired.
        wave: The wave of an object (`etcompile.emit.wave`).
        rights: What may be done; nothing beyond the ordinary if None.
        against: What the live objects are called.
        context: The cluster's context, if there is one.
        namespace: The namespace of objects that name none.
        ask: Asks the API server which differences are some; None without a cluster.
        read_pods: Reads all Pods of a namespace, which may use what is destroyed; None without a
            cluster.

    Returns:
        The plan. If its steps wait for each other in a ring, they are in no particular order, and
        `etcompile.plan.schedule.ring` tells so.
    """
    rights = rights or Rights()
    groups = list(desired)
    wanted: dict[ObjectKey, tuple[Object, Declared]] = {}
    for group in groups:
        for value in group.objects:
            wanted[reference(value).key_in(namespace)] = (value, group)
    inventories = frozenset(group.inventory for group in groups if group.inventory)
    mounts = Mounts(namespace, read_pods)
    live = mounts.noted(live)
    found, left, unready, others = _matched(wanted, live, rights, namespace, inventories, ask)
    titles = {group.inventory: group.job for group in groups if group.inventory}
    jobs = {
        (group.job.rpartition("/")[0], group.job.rpartition("/")[2]): group.job
        for group in groups
        if group.job
    }
    drafts: list[Draft] = []
    idle: list[Step] = []
    late: list[Draft] = []
    for key, (value, group) in wanted.items():
        for step in found.get(key) or [created(value, reference(value))]:
            if group.job in others and step.action == "wait":
                continue
            placed = structs.replace(step, job=group.job, origin=group.origin)
            placed = _of_another(placed, others)
            if placed.action in IDLE:
                idle.append(placed)
                if key in unready:
                    late.append(Draft(placed, value))
            else:
                drafts.append(Draft(placed, value))
    for value in left:
        step = left_over(value, rights, inventories)
        job = titles.get(claims.inventory(value) or "") or _job(value, jobs)
        placed = _of_another(structs.replace(step, job=job), others)
        if placed.action in IDLE:
            idle.append(placed)
        else:
            drafts.append(Draft(placed, value))
    if not rights.whole:
        drafts = mounts.held(drafts, {key: group.job for key, (_, group) in wanted.items()})
    waits = {group.job: group.waits for group in groups}
    steps = ordered(drafts, waits, wave, late) if drafts else []
    if ring(steps) is None:
        steps = in_turn(steps)
    return Plan((*steps, *idle), against, context, namespace if against == "cluster" else None)


def _matched(
    wanted: Mapping[ObjectKey, tuple[Object, Declared]],
    live: Iterable[Object],
    rights: Rights,
    namespace: str,
    inventories: frozenset[str],
    ask: Ask | None,
) -> tuple[dict[ObjectKey, list[Step]], list[Object], set[ObjectKey], dict[str, str]]:
    """The steps of objects that are declared and there, and the objects that are only there.

    Returns:
        Both, the keys of the Pods that are as they should be and not Ready, and by job the job of
        another kind that has its name already.
    """
    others: dict[str, str] = {}
    unready: set[ObjectKey] = set()
    found: dict[ObjectKey, list[Step]] = {}
    differences: dict[ObjectKey, Difference] = {}
    left: dict[ObjectKey, Object] = {}
    beside = {
        structs.replace(reference(desired), name=name).key_in(namespace): (desired, group)
        for desired, group in wanted.values()
        if (name := claims.config_of_others(desired))
    }
    for value in live:
        key = reference(value).key_in(namespace)
        if key not in wanted:
            desired, group = beside.get(key, (value, None))
            job = group.job if group and not rights.whole else None
            if job and (other := claims.other_job(desired, value)):
                others[job] = other
            if INVENTORY_ID not in (value["metadata"].get("labels") or {}):
                left[key] = value
            continue
        desired, group = wanted[key]
        ref = reference(desired)
        if group.job and not rights.whole and (other := claims.other_job(desired, value)):
            others[group.job] = other
        if ref.key in group.create_only and not is_going(value):
            found[key] = [_left_as_it_is(desired, value, ref)]
        elif not rights.whole and is_going(value):
            found[key] = _recreated(desired, value, ref)
        else:
            seeming = difference(desired, value, ref, rights, group.inventory, group.job)
            if seeming is None:
                found[key] = [unchanged(value, ref)]
            else:
                differences[key] = seeming
            is_run = not rights.whole and ref.kind == "Pod" and pods.phase(value) != "Succeeded"
            if is_run and not pods.is_ready(value):
                unready.add(key)
    answers = (
        ask([*differences.values()])
        if ask is not None and differences
        else [None] * len(differences)
    )
    for (key, seeming), answer in zip(differences.items(), answers, strict=True):
        found[key] = [resolved(seeming, answer, rights, inventories)]
    return found, list(left.values()), unready, others


def _left_as_it_is(desired: Object, live: Object, ref: ObjectRef) -> Step:
    """The step for an object that is left as it is, if it holds what it is there for."""
    step = unchanged(live, ref)
    missing = claims.missing_keys(desired, live)
    if not missing:
        return step
    reason = (
        f"it has no {' and no '.join(missing)}, which the Pods of the job mount: delete it, or give"
        " the job another Secret with --secret existing:NAME"
    )
    return structs.replace(step, action="conflict", why=(Reason(reason),))


def _of_another(step: Step, others: Mapping[str, str]) -> Step:
    """The step, refused if a job of another kind has the name of its job.

    All that is there under these names is the other job's, and not only the ConfigMap by which
    it is known: a run that is limited to a Pod must not replace that Pod.
    """
    other = others.get(step.job or "")
    if other is None or step.action == "unchanged":
        return step
    why = (Reason(claims.same_name(other)),)
    if step.action == "unmanaged":
        return structs.replace(step, why=why)
    return structs.replace(
        step, action="conflict", why=why, changes=(), after=(), needs=None, manifest=None
    )


def _recreated(desired: Object, live: Object, ref: ObjectRef) -> list[Step]:
    """What to do about an object that is being deleted: wait until it is gone, and make it."""
    uid = live["metadata"].get("uid")
    gone = Step("wait", ref, (Reason(claims.going(live)),), until="gone", uid=uid)
    made = created(desired, ref, "the one that exists is being deleted")
    return [gone, structs.replace(made, after=(gone.id,))]


def _job(value: Object, jobs: Mapping[tuple[str, str], str]) -> str | None:
    """The job that an object says it belongs to, as it is called here."""
    metadata = value["metadata"]
    name = (metadata.get("labels") or {}).get(JOB_LABEL)
    namespace = metadata.get("namespace") or ""
    if not name:
        return None
    return jobs.get((namespace, name)) or (f"{namespace}/{name}" if namespace else str(name))
