"""Hold a plan against the quotas of its namespaces.

A run that takes the place of another needs quota for both. If there is none, the old Pods are
deleted first, if that frees enough; otherwise the plan is refused: a gang that runs is never ended
for one that cannot exist. That holds for a new run, for Pods that are replaced, and for a restart.
New Pods that even an empty quota could not hold are refused, too. Where other Pods use the quota,
their end is unknown: the plan says that it may wait. The API server's dry run does not know any of
this: it sees one Pod at a time.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import structs

from etcompile.k8s.objects import Object
from etcompile.k8s.quota_usage import plain, shortages, total_usage, usage
from etcompile.plan.schedule import in_turn, ring
from etcompile.plan.step import DESTROYS, ObjectKey, Plan, Reason, Step

_WORKLOADS = frozenset({("", "Pod"), ("batch", "Job")})


def filled(plan: Plan) -> dict[str, list[Step]]:
    steps: dict[str, list[Step]] = defaultdict(list)
    for step in plan.steps:
        if (
            step.action in ("create", "replace")
            and (step.ref.group, step.ref.kind) in _WORKLOADS
            and step.manifest
        ):
            steps[step.ref.namespace or plan.namespace or ""].append(step)
    return steps


def within_quotas(
    plan: Plan, live: Mapping[ObjectKey, Object], quotas: Mapping[str, Sequence[Object]]
) -> Plan:
    """Return the plan with deletions that come first, or refused where there would be no room.

    Args:
        live: By key, the live objects that the plan deletes or replaces, or leaves behind.
        quotas: By namespace that the plan fills, its ResourceQuotas.
    """
    ended: dict[str, list[Step]] = defaultdict(list)
    for step in plan.steps:
        if step.action in DESTROYS and (step.ref.group, step.ref.kind) in _WORKLOADS:
            ended[step.ref.namespace or plan.namespace or ""].append(step)
    behind = _left_behind(plan, live)
    steps = {step.id: step for step in plan.steps}
    for namespace, workloads in filled(plan).items():
        first = ended[namespace]
        there = [
            (step.job, live.get(step.ref.key_in(plan.namespace or "default"))) for step in first
        ]
        freed = [value for _, value in there if value is not None]
        wanted = [step.manifest for step in workloads if step.manifest is not None]
        short = [
            each
            for quota in quotas[namespace]
            for each in shortages(quota, wanted, total_usage(freed, quota["spec"]))
        ]
        lasting = [each for each in short if each.lasts]
        if short and not lasting:
            if old := [step for step in first if step.action == "delete"]:
                steps = _deleted_first(steps, old, f"it goes first: {short[0]}")
            continue
        if not lasting:
            continue
        # A run that is over has nothing left to end.
        ending = {job for job, value in there if value is not None and "pods" in usage(value)}
        ending &= {step.job for step in workloads}
        refused, worst, words = set[str | None](), lasting[0], ""
        if ending:
            refused = ending
            words = (
                f"the plan frees only {plain(worst.freed)}, so the old Pods would be deleted for"
                " new ones that cannot be created"
            )
        elif namespace in behind:
            refused = behind[namespace]
            words = (
                "the Services of the job would be switched from the running Pods to Pods that"
                " cannot be created; with --prune, the old Pods are deleted first"
            )
        elif never := [each for each in lasting if each.needed > each.most]:
            refused, worst = {step.job for step in workloads}, never[0]
            words = f"it allows {plain(worst.most)} in all"
        for step in workloads:
            if step.job in refused:
                why = (Reason(f"{worst}; {words}"),)
                steps[step.id] = structs.replace(step, why=why, changes=(), needs="room")
            elif not refused and step.action == "create":
                why = (Reason(f"it may have to wait: {worst}"),)
                steps[step.id] = structs.replace(step, why=why)
    if tuple(steps.values()) == plan.steps or ring(steps.values()) is not None:
        return plan
    return structs.replace(plan, steps=tuple(in_turn(steps.values())))


def _left_behind(plan: Plan, live: Mapping[ObjectKey, Object]) -> dict[str, set[str | None]]:
    """Return, by namespace, jobs with running Pods that their Services would leave."""
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
