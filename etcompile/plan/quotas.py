"""A plan and the quotas of its namespaces to what must be deleted first.

A run that takes the place of another needs quota for both. If there is none, the old Pods are
deleted first, if that frees enough; otherwise the plan is refused: a gang that runs is never ended
for one that cannot exist. The API server's dry run does not know: it looks at one Pod at a time.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from etcompile.k8s.objects import Object
from etcompile.k8s.quota_usage import plain, shortages, total_usage, usage
from etcompile.plan.schedule import in_turn, ring
from etcompile.plan.step import ObjectKey, Plan, Reason, Step

Read = Callable[[str], Sequence[Object]]
"""Reads the ResourceQuotas of a namespace."""


def within_quotas(plan: Plan, live: Mapping[ObjectKey, Object], read: Read) -> Plan:
    """The plan with what must be deleted first, or refused where there would be no room.

    Args:
        live: By key, the live objects that are not declared.
    """
    created: dict[str, list[Step]] = defaultdict(list)
    deleted: dict[str, list[Step]] = defaultdict(list)
    for step in plan.steps:
        if step.action in ("create", "delete"):
            side = created if step.action == "create" else deleted
            side[step.ref.namespace or plan.namespace or ""].append(step)
    behind = _left_behind(plan, live)
    steps = {step.id: step for step in plan.steps}
    for namespace in created.keys() & (deleted.keys() | behind.keys()):
        workloads = [step for step in created[namespace] if _is_workload(step) and step.manifest]
        first = [step for step in deleted[namespace] if _is_workload(step)]
        if not workloads or not (first or namespace in behind):
            continue
        wanted = [step.manifest for step in created[namespace] if step.manifest is not None]
        freed = [live[step.ref.key] for step in deleted[namespace] if step.ref.key in live]
        quotas = read(namespace)
        short = [
            each
            for quota in quotas
            for each in shortages(quota, wanted, total_usage(freed if first else (), quota["spec"]))
        ]
        if not short:
            continue
        if not first:
            refused, worst = behind[namespace], short[0]
            words = (
                "the Services of the job would be switched from the running Pods to Pods that"
                " cannot be created; with --prune, the old Pods are deleted first"
            )
        elif not any(shortage.lasts for shortage in short):
            steps = _deleted_first(steps, first, f"it goes first: {short[0]}")
            continue
        else:
            # A run that is over is not ended by anything.
            refused = {
                step.job
                for step in deleted[namespace]
                if step.ref.key in live and "pods" in usage(live[step.ref.key])
            }
            worst = next(shortage for shortage in short if shortage.lasts)
            words = (
                f"the plan frees only {plain(worst.freed)}, so the old Pods would be deleted for"
                " new ones that cannot be created"
            )
        for step in workloads:
            if step.job in refused:
                why = (Reason(f"{worst}; {words}"),)
                steps[step.id] = structs.replace(steps[step.id], why=why, needs="room")
    if tuple(steps.values()) == plan.steps or ring(steps.values()) is not None:
        return plan
    return structs.replace(plan, steps=tuple(in_turn(steps.values())))


def _left_behind(plan: Plan, live: Mapping[ObjectKey, Object]) -> dict[str, set[str | None]]:
    """By namespace, the jobs of which Pods run that their Services would no longer lead to."""
    switched = {
        step.job
        for step in plan.steps
        if step.action == "update"
        and step.ref.kind == "Service"
        and any(change.steps[:2] == ("spec", "selector") for change in step.changes)
    }
    behind: dict[str, set[str | None]] = defaultdict(set)
    for step in plan.steps:
        if step.action == "unmanaged" and step.job in switched:
            value = live.get(step.ref.key)
            if value is not None and "pods" in usage(value):
                behind[step.ref.namespace or plan.namespace or ""].add(step.job)
    return behind


def _deleted_first(steps: Mapping[str, Step], first: Sequence[Step], why: str) -> dict[str, Step]:
    """The steps with deletions that come before anything else is created."""
    early = {step.id for step in first}
    refs = {step.ref for step in first}
    result: dict[str, Step] = {}
    for name, step in steps.items():
        if step.action == "wait" and step.until == "drained" and step.ref in refs:
            continue  # all of the old run is deleted: there is nothing to drain to
        if name in early:
            after = tuple(other for other in step.after if other in early)
            reasons = (*step.why, Reason(why))
            result[name] = structs.replace(step, after=after, why=reasons, frees_quota=True)
        else:
            result[name] = step
    return result


def _is_workload(step: Step) -> bool:
    return (step.ref.group, step.ref.kind) in (("", "Pod"), ("batch", "Job"))
