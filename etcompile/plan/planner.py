"""Plan what makes live objects what is desired: the step of each, why, and in what order.

`matching` says which fields seem to differ, the API server which of them it would change. What is
declared, what exists, whose it is, and what the API server accepts decide the action: the rules are
tried in order, and the first that applies decides. `schedule` says what waits for what.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct, structs

from etcompile.k8s.listkeys import ABSENT
from etcompile.k8s.managedfields import last_written
from etcompile.k8s.objects import Object, is_going, labels_of
from etcompile.k8s.path import keyed, overlap
from etcompile.model.protocol import JOB_LABEL, ROLE_LABEL
from etcompile.model.run_record import RunRecord
from etcompile.plan import owners
from etcompile.plan.comparison import Raw
from etcompile.plan.matches import (
    Difference,
    Matches,
    created,
    difference,
    manifest_of,
    unchanged,
)
from etcompile.plan.mounts import held
from etcompile.plan.schedule import DRAIN, Draft, host_names, hosts_in, in_turn, ordered
from etcompile.plan.scope import Rights, is_named
from etcompile.plan.step import (
    IDLE,
    Action,
    Declared,
    FieldChange,
    How,
    Need,
    ObjectRef,
    Plan,
    Reason,
    Remedy,
    Step,
    conflict,
    deletion,
    masked,
    reference,
    unmanaged,
)
from etcompile.plan.updates import Change, changes

PRUNE = Remedy("prune", "--prune deletes it")
"""What to do about an object that is left because nothing says to delete it."""
ADOPT = Remedy("adopt", "--adopt takes it over")
"""What to do about an object of somebody else."""
_IS_GOING = (Reason("it is being deleted already"),)
_REPLACE = Remedy("replace", "--replace deletes and recreates it")


class Watched(Struct, frozen=True):
    """What a watcher has written about a job.

    Args:
        hosts: The ConfigMap of the live host lists.
        ended: The record of the declared run, if that is over: it has all the Pods that it needs.
    """

    hosts: Object | None = None
    ended: RunRecord | None = None


class Answer(Struct, frozen=True):
    """What the API server says about a difference.

    Args:
        desired: What is to be sent: as declared, but for what admission makes of new objects.
        places: Where applying that would change the live object.
        result: The live object afterwards; None if the API server refuses the update.
    """

    desired: Object
    places: tuple[Raw, ...]
    accepted: bool
    result: Object | None = None
    immutable: tuple[str, ...] = ()


def plan(
    desired: Iterable[Declared],
    live: Iterable[Object],
    rights: Rights | None = None,
    *,
    against: str = "cluster",
    namespace: str = "default",
    pods: Mapping[str, Iterable[Object]] = MappingProxyType({}),
) -> Plan:
    """Plan what makes live objects what is desired, without asking an API server.

    Args:
        live: Those of the same names as the desired ones, and the members of the inventories.
        pods: By namespace, the Pods that may use what the plan destroys.

    Returns:
        The plan. Steps that wait for each other in a ring (`schedule.ring`) are in no order.
    """
    matching = Matches(desired, rights or Rights(), namespace)
    for value in live:
        matching.add(value)
    steps = arranged(matching, decided(matching), pods)
    return Plan(steps, against, namespace=namespace if against == "cluster" else None)


def decided(
    matching: Matches,
    answers: Iterable[Answer | None] | None = None,
    watched: Mapping[str | None, Watched] = MappingProxyType({}),
    now: float = 0.0,
) -> list[Draft]:
    """Decide what to do about each object.

    Args:
        answers: What the API server says about each difference; None without a cluster.
        watched: By job, what a watcher has written.
        now: The time by the API server's clock, in seconds since 1970.
    """
    rights, others = matching.rights, matching.other_jobs
    differences = matching.differences
    resolutions = {
        key: resolved(seeming, answer, rights, matching.inventories)
        for (key, seeming), answer in zip(
            differences.items(), answers or [None] * len(differences), strict=True
        )
    }
    runs: dict[tuple[str | None, str], frozenset[str]] = {}
    drafts: list[Draft] = []
    for key, (ref, value, group) in matching.desired.items():
        if group.listed and value["kind"] == "Pod":
            runs[group.job, owners.run_of(value)] = group.listed
        if key in resolutions:
            steps = [resolutions[key]]
        else:
            steps = matching.steps.get(key) or [created(value, ref)]
        record = watched.get(group.job, Watched()).ended
        if record and owners.run_of(value) and steps[-1].action == "create":
            why = f"its run has {record.phase.lower()}; `etcompile restart` runs it again"
            steps = [unmanaged(steps[-1], why)]
        for step in steps:
            if group.job in others and step.action == "wait":
                continue
            drafts.append(Draft(structs.replace(step, job=group.job, origin=group.origin), value))
    drain = DRAIN if rights.drain is None else rights.drain
    titles = {group.inventory: group.job for group in matching.groups if group.inventory}
    for value in matching.undeclared.values():
        step = left_over(value, rights, matching.inventories)
        metadata = value["metadata"]
        name, where = (metadata.get("labels") or {}).get(JOB_LABEL), metadata.get("namespace")
        labelled = f"{where}/{name}" if where and name else name
        job = titles.get(owners.inventory(value) or "") or labelled or None
        since = 0.0
        role = labels_of(value).get(ROLE_LABEL)
        if role in runs.get((job, owners.run_of(value)), ()):
            # Since when no host list names it: that of the files, or the one that a watcher keeps.
            since = matching.listed.get(job, 0.0)
            if (hosts := watched.get(job, Watched()).hosts) is not None:
                named = set().union(*map(hosts_in, (hosts.get("data") or {}).values()))
                is_named = not named.isdisjoint(host_names(value))
                since = now if is_named else max(since, last_written(hosts, "data"))
            since += since > 0  # times of managed fields are cut to the second
        drains = since > 0 and now < since + drain
        drafts.append(Draft(structs.replace(step, job=job), value, since if drains else None))
    # All that exists under the names of a job is another job's if that has its name, and not only
    # the ConfigMap by which it is known: a run that is limited to a Pod must not replace that Pod.
    for place, draft in enumerate(drafts if others else ()):
        step, other = draft.step, others.get(draft.step.job or "")
        if other is None or step.action == "unchanged":
            continue
        kind, _, name = other.partition(" ")
        reason = (
            f"its job has the name of the {other}, and two such jobs cannot share a namespace:"
            f" rename it, or first run etcompile delete --job {kind.lower()}/{name}"
        )
        if step.action == "unmanaged":
            step = unmanaged(step, reason)
        else:
            step = structs.replace(step, changes=(), after=(), manifest=None)
            step = conflict(step, Reason(reason))
        drafts[place] = structs.replace(draft, step=step)
    return drafts


def arranged(
    matching: Matches, drafts: Sequence[Draft], pods: Mapping[str, Iterable[Object]]
) -> tuple[Step, ...]:
    """Return the steps in order, without those that would destroy what other Pods use.

    Args:
        pods: By namespace, the Pods that may use what the plan destroys.
    """
    rights, namespace = matching.rights, matching.namespace
    idle = [draft for draft in drafts if draft.step.action in IDLE]
    acting = [draft for draft in drafts if draft.step.action not in IDLE]
    late = [draft for draft in idle if draft.step.ref.key_in(namespace) in matching.unready]
    jobs = {key: group.job for key, (_, _, group) in matching.desired.items()}
    acting = held(acting, pods, namespace, jobs)
    waits = {group.job: group.waits for group in matching.groups}
    drain = math.ceil(DRAIN if rights.drain is None else rights.drain)
    steps = in_turn(ordered(acting, waits, late, drain)) if acting else []
    return (*steps, *(draft.step for draft in idle))


# One object ---------------------------------------------------------------------------------------


def matched(
    desired: Object,
    live: Object,
    ref: ObjectRef,
    rights: Rights,
    inventory: str | None,
    inventories: Collection[str] = (),
) -> Step:
    seeming = difference(desired, live, ref, rights, inventory)
    if seeming is None:
        return unchanged(live, ref)
    return resolved(seeming, None, rights, inventories)


def resolved(
    seeming: Difference, answer: Answer | None, rights: Rights, inventories: Collection[str] = ()
) -> Step:
    """Decide what to do about an object that seems to differ.

    Args:
        inventories: The ids of all ApplySets that the declarations are of: the object may come
            from another one.
    """
    desired, live = seeming.desired, seeming.live
    places, result = seeming.places, None
    step = unchanged(live, seeming.ref)
    if answer is not None:
        desired, places, result = answer.desired, answer.places, answer.result
        if not places:
            return step
    limits = changes(live, result or desired, places)
    if answer is not None and answer.accepted:
        limits = [change for change in limits if change.verdict != "refused"]
    step = structs.replace(
        step, changes=_changes(desired, places, limits, rights), manifest=manifest_of(desired)
    )
    owned = seeming.owned
    if owned is None:
        return _decided(step, limits, rights)
    holder = owners.holder(live, owned, inventories)
    if owner := owners.owner(live, controller=True):
        return conflict(step, Reason(f"{owner} controls it and would undo the change"))
    why: list[Reason] = []
    needs: Need | None = None
    if holder and not rights.adopt:
        why.append(Reason(holder, ADOPT))
        needs = "adopt"
    for manager in dict.fromkeys(change.manager for change in step.changes if change.manager):
        paths = ", ".join(change.path for change in step.changes if change.manager == manager)
        option = f"--config take-ownership={manager.replace(', ', ',')}"
        remedy = Remedy("take-ownership", f"{option} takes the field over")
        why.append(Reason(f"{manager} owns {paths}", remedy))
        needs = needs or "take-ownership"
    if why:
        return conflict(step, *why, needs=needs)
    decided = _decided(step, limits, rights, holder, answer.immutable if answer else ())
    if decided.action != "replace":
        return decided
    # A new object is as it is declared, and admission makes of it what it makes of all.
    decided = structs.replace(decided, manifest=manifest_of(seeming.declared))
    # The fields that cannot change, without the option that would allow it.
    immutable = Reason(decided.why[-1].text)
    if owners.prevents_destruction(desired, live):
        return conflict(decided, immutable, Reason(owners.FORBIDDEN))
    lost = owners.lost_with(live, desired)
    if lost is None:
        return decided
    if is_named(reference(live), rights.replace_data):
        return structs.replace(decided, why=(immutable, Reason(lost)), needs=None)
    words = f"--replace-data {seeming.ref.kind}/{seeming.ref.name} replaces it anyway"
    why = [immutable, Reason(lost, Remedy("replace-data", words))]
    return structs.replace(decided, why=tuple(why), needs="replace-data")


def left_over(live: Object, rights: Rights, inventories: Collection[str]) -> Step:
    """Decide what to do about an object that exists and is not declared.

    Args:
        inventories: The ids of the ApplySets that the declarations are of.
    """
    step = deletion(live, "it is no longer in the files")
    if rights.between_files:
        return step
    if owners.inventory(live) not in inventories:
        return unmanaged(step, "it is not in the inventory")
    if is_going(live):
        if rights.prune and step.ref.kind == "Pod":  # what it needs is deleted after it
            limit = 60 + (live["metadata"].get("deletionGracePeriodSeconds") or 0)
            return structs.replace(step, action="wait", until="gone", why=_IS_GOING, limit=limit)
        return unmanaged(step, str(_IS_GOING[0]))
    if tool := owners.tracker(live):
        return unmanaged(step, f"{tool} manages it")
    if owner := owners.owner(live):
        return unmanaged(step, f"it is deleted with its owner {owner}")
    if (maker := owners.stranger(live)) and not rights.adopt:
        return unmanaged(step, f"{maker} made it, with labels of the job")
    spared = owners.spared(step, live)
    if spared.action == "unmanaged" or rights.prune:
        return spared
    return unmanaged(step, "it is no longer in the files", PRUNE)


def _decided(
    step: Step,
    limits: Iterable[Change],
    rights: Rights,
    holder: str | None = None,
    immutable: Sequence[str] = (),
) -> Step:
    refused = [change.field for change in limits if change.verdict == "refused"] or immutable
    why = [Reason(f"it is taken over: {holder}")] if holder else []
    if refused:
        fields = ", ".join(dict.fromkeys(refused))
        allowed = rights.replace or rights.between_files
        reason = f"{fields} cannot be changed on an existing object"
        why.append(Reason(reason, None if allowed else _REPLACE))
        needs: Need | None = None if allowed else "replace"
        return structs.replace(step, action="replace", why=tuple(why), needs=needs)
    why += [
        Reason(f"{change.field} changes, which restarts the container in place")
        for change in limits
    ]
    action: Action = "adopt" if holder else "update"
    return structs.replace(step, action=action, why=tuple(dict.fromkeys(why)))


def _changes(
    desired: Object, places: tuple[Raw, ...], limits: Iterable[Change], rights: Rights
) -> tuple[FieldChange, ...]:
    kind: str = desired["kind"]
    refused = [change.path for change in limits if change.verdict == "refused"]
    fields = []
    for place in places:
        how: How = (
            "added" if place.before is ABSENT else "removed" if place.after is ABSENT else "changed"
        )
        managers = [name for name in place.managers if not rights.take_ownership & {name, "*"}]
        fields.append(
            FieldChange(
                path=keyed(place.path),
                how=how,
                before=None if how == "added" else masked(kind, place.path, place.before),
                after=None if how == "removed" else masked(kind, place.path, place.after),
                manager=", ".join(managers) or None,
                immutable=any(overlap(place.path, path) for path in refused),
                steps=place.path,
            )
        )
    return tuple(sorted(fields, key=lambda change: change.steps))
