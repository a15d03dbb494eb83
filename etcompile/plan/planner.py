"""Desired and live objects to a plan: what to do about each, why, and in what order.

The one function that strings the parts together: `comparison` says which fields seem to differ, the
API server which of them it would change (`Ask`), `classes` what follows for one object, `schedule`
what waits for what and whose turn it is.
"""

from collections.abc import Iterable, Mapping

from msgspec import structs

from etcompile.k8s import pods
from etcompile.k8s.objects import Object, is_going
from etcompile.model.protocol import JOB_LABEL
from etcompile.plan import owners
from etcompile.plan.applysets import INVENTORY_ID
from etcompile.plan.classes import (
    Ask,
    Difference,
    created,
    difference,
    left_over,
    resolved,
    unchanged,
)
from etcompile.plan.mounts import ReadPods, held
from etcompile.plan.schedule import Draft, in_turn, ordered, ring
from etcompile.plan.scope import Rights
from etcompile.plan.step import (
    IDLE,
    Declared,
    ObjectKey,
    Plan,
    Reason,
    Step,
    conflict,
    reference,
    unmanaged,
)


def plan(
    desired: Iterable[Declared],
    live: Iterable[Object],
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
        live: The live ones, in any order: those of the same names as the desired ones, and the
            members of the inventories.
        ask: Asks the API server which differences it would change; None without a cluster.
        read_pods: Reads the Pods that may use what is destroyed; None without a cluster.

    Returns:
        The plan. Steps that wait for each other in a ring (`schedule.ring`) are in no order.
    """
    rights = rights or Rights()
    groups = list(desired)
    wanted: dict[ObjectKey, tuple[Object, Declared]] = {}
    for group in groups:
        for value in group.objects:
            wanted[reference(value).key_in(namespace)] = (value, group)
    inventories = frozenset(group.inventory for group in groups if group.inventory)
    matches, left, unready, others = _matched(wanted, live, rights, namespace, inventories, ask)
    titles = {group.inventory: group.job for group in groups if group.inventory}
    drafts: list[Draft] = []
    for key, (value, group) in wanted.items():
        for step in matches.get(key) or [created(value, reference(value))]:
            if group.job in others and step.action == "wait":
                continue
            placed = structs.replace(step, job=group.job, origin=group.origin)
            drafts.append(Draft(_of_another(placed, others), value))
    for value in left:
        step = left_over(value, rights, inventories)
        metadata = value["metadata"]
        name, where = (metadata.get("labels") or {}).get(JOB_LABEL), metadata.get("namespace")
        labelled = f"{where}/{name}" if where and name else name
        job = titles.get(owners.inventory(value) or "") or labelled or None
        drafts.append(Draft(_of_another(structs.replace(step, job=job), others), value))
    idle = [draft for draft in drafts if draft.step.action in IDLE]
    late = [draft for draft in idle if draft.step.ref.key_in(namespace) in unready]
    drafts = [draft for draft in drafts if draft.step.action not in IDLE]
    if read_pods is not None:
        jobs = {key: group.job for key, (_, group) in wanted.items()}
        drafts = held(drafts, read_pods, namespace, jobs)
    waits = {group.job: group.waits for group in groups}
    acting = ordered(drafts, waits, late) if drafts else []
    if ring(acting) is None:
        acting = in_turn(acting)
    steps = (*acting, *(draft.step for draft in idle))
    return Plan(steps, against, context, namespace if against == "cluster" else None)


def _matched(
    wanted: Mapping[ObjectKey, tuple[Object, Declared]],
    live: Iterable[Object],
    rights: Rights,
    namespace: str,
    inventories: frozenset[str],
    ask: Ask | None,
) -> tuple[dict[ObjectKey, list[Step]], list[Object], set[ObjectKey], dict[str, str]]:
    """The steps of objects that are declared and exist, and the objects that only exist.

    Returns:
        Both, the keys of the Pods that are as they should be and not Ready, and by job the job of
        another kind that has its name already.
    """
    others: dict[str, str] = {}
    unready: set[ObjectKey] = set()
    matches: dict[ObjectKey, list[Step]] = {}
    differences: dict[ObjectKey, Difference] = {}
    left: dict[ObjectKey, Object] = {}
    # Where a job of any kind that has the name of one of ours would have its ConfigMap.
    configs = {
        structs.replace(reference(desired), name=name).key_in(namespace): (desired, group.job)
        for desired, group in wanted.values()
        if group.job and not rights.whole
        for name in owners.names_of_config(desired)
    }
    for value in live:
        key = reference(value).key_in(namespace)
        config, job = configs.get(key, (value, None))
        if job and (other := owners.other_job(config, value)):
            others[job] = other
        if key not in wanted:
            if INVENTORY_ID not in (value["metadata"].get("labels") or {}):
                left[key] = value
            continue
        desired, group = wanted[key]
        ref = reference(desired)
        if ref.key in group.create_only and not is_going(value):
            # It is left as it is, but must have what it exists for.
            step, missing = unchanged(value, ref), owners.missing_keys(desired, value)
            reason = (
                f"it has no {' and no '.join(missing)}, which the Pods of the job mount: delete"
                " it, or give the job another Secret with --secret existing:NAME"
            )
            matches[key] = [conflict(step, Reason(reason)) if missing else step]
        elif not rights.whole and is_going(value):
            metadata, words = value["metadata"], "the one that exists is being deleted"
            finalizers = ", ".join(metadata.get("finalizers") or ())
            why = Reason(f"{words}, kept by the finalizers {finalizers}" if finalizers else words)
            gone = Step("wait", ref, (why,), until="gone", uid=metadata.get("uid"))
            matches[key] = [gone, structs.replace(created(desired, ref, words), after=(gone.id,))]
        else:
            seeming = difference(desired, value, ref, rights, group.inventory, group.job)
            if seeming is None:
                matches[key] = [unchanged(value, ref)]
            else:
                differences[key] = seeming
            is_run = not rights.whole and ref.kind == "Pod" and pods.phase(value) != "Succeeded"
            if is_run and not pods.is_ready(value):
                unready.add(key)
    seemings = [*differences.values()]
    answers = ask(seemings) if ask is not None and seemings else [None] * len(seemings)
    for (key, seeming), answer in zip(differences.items(), answers, strict=True):
        matches[key] = [resolved(seeming, answer, rights, inventories)]
    return matches, list(left.values()), unready, others


def _of_another(step: Step, others: Mapping[str, str]) -> Step:
    """The step, refused if a job of another kind has the name of its job.

    All that exists under these names is the other job's, and not only the ConfigMap by which it is
    known: a run that is limited to a Pod must not replace that Pod.
    """
    other = others.get(step.job or "")
    if other is None or step.action == "unchanged":
        return step
    reason = f"its job has the name of the {other}: two such jobs cannot share a namespace"
    if step.action == "unmanaged":
        return unmanaged(step, reason)
    return conflict(structs.replace(step, changes=(), after=(), manifest=None), Reason(reason))
