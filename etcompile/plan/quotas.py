"""A plan and the quotas of its namespaces to what must be gone before there is room.

A run that takes the place of another needs room beside it, and under a full quota there is none:
its Pods would wait for ever for those that are deleted after them. Then the old ones go first, if
that makes room enough. If it does not, the plan is refused before anything is touched: a gang that
runs is never ended for one that cannot exist.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct, structs

from etcompile.k8s import jobs, pods
from etcompile.k8s.objects import Object
from etcompile.k8s.requests import limits_of, requested
from etcompile.model import quantity
from etcompile.plan.schedule import in_turn, ring
from etcompile.plan.step import ObjectKey, Plan, Reason, Step

Amounts = Mapping[str, Decimal]

_COMPUTE = ("cpu", "memory", "ephemeral-storage")


class Quota(Struct, frozen=True):
    """A ResourceQuota.

    Args:
        hard: The most of each resource.
        used: How much is used.
        scopes: The selectors that an object must match to count, as in its scopeSelector.
    """

    name: str
    hard: Amounts
    used: Amounts
    scopes: tuple[Mapping[str, Any], ...] = ()


class Shortage(Struct, frozen=True):
    """A resource of which a quota has too little.

    Args:
        free: How much is free now.
        wanted: How much new objects need.
        freed: How much the plan's deletions give back.
    """

    quota: str
    resource: str
    free: Decimal
    wanted: Decimal
    freed: Decimal

    def __str__(self) -> str:
        left, needed = _plain(self.free), _plain(self.wanted)
        return f"the quota {self.quota} has {left} {self.resource} left, and {needed} are needed"


Read = Callable[[str, Object], Sequence[Object]]
"""Reads the ResourceQuotas of a namespace. Where that is not allowed: those that have no room for
an object that is to be made there."""


def quota(value: Object) -> Quota:
    """A ResourceQuota object as what it means."""
    spec, status = value.get("spec") or {}, value.get("status") or {}
    named = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    selected = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    hard = status.get("hard") or spec.get("hard") or {}
    return Quota(
        value["metadata"]["name"],
        _numbers(hard),
        _numbers(status.get("used") or {}),
        (*named, *selected),
    )


def usage(value: Object) -> Amounts:
    """What a Pod, or the Pods of a Job, count for in quotas that they match; nothing of others.

    The rules of the Pod and object count evaluators in Kubernetes' pkg/quota/v1/evaluator/core.
    """
    spec = value.get("spec") or {}
    if value["kind"] == "Job" and value["apiVersion"].startswith("batch/"):
        own = {"count/jobs.batch": Decimal(1)}
        if jobs.is_over(value) or jobs.is_suspended(value):
            return own
        pod = {"apiVersion": "v1", "kind": "Pod", **(spec.get("template") or {})}
        times = Decimal(1 if spec.get("parallelism") is None else spec["parallelism"])
        return own | {name: amount * times for name, amount in usage(pod).items()}
    if (value["apiVersion"], value["kind"]) != ("v1", "Pod"):
        return {}
    found = {"count/pods": Decimal(1)}
    if pods.has_ended(value):
        return found
    found["pods"] = Decimal(1)
    for name, amount in requested(spec).items():
        found[f"requests.{name}"] = amount
        if name in _COMPUTE:
            found[name] = amount
    limits = requested(spec, limits_of)
    return found | {f"limits.{name}": amount for name, amount in limits.items()}


def within_quotas(plan: Plan, live: Mapping[ObjectKey, Object], read: Read) -> Plan:
    """The plan with what must be gone first, or refused where there would be no room.

    Args:
        plan: The plan as it is without regard to quotas.
        live: By key, the live objects that are not declared.
        read: Reads quotas; asked only where Pods are made and others deleted or left behind.
    """
    made, gone = _by_namespace(plan, "create"), _by_namespace(plan, "delete")
    behind = _left_behind(plan, live)
    steps = {step.id: step for step in plan.steps}
    for namespace in made.keys() & (gone.keys() | behind.keys()):
        wanted = [(step, step.manifest) for step in made[namespace] if step.manifest is not None]
        pod = next((value for step, value in wanted if _is_workload(step)), None)
        if pod is None:
            continue
        if not any(map(_is_workload, gone[namespace])):
            if namespace in behind:
                short = [*_shortages(map(quota, read(namespace, pod)), wanted, ())]
                _keep(steps, made[namespace], behind[namespace], short)
            continue
        quotas = [quota(value) for value in read(namespace, pod)]
        freed = [(step, live[step.ref.key]) for step in gone[namespace] if step.ref.key in live]
        short = [*_shortages(quotas, wanted, freed)]
        if not short:
            continue
        jobs = {step.job for step in made[namespace] if _is_workload(step)}
        if all(shortage.wanted <= shortage.free + shortage.freed for shortage in short):
            first = [step for step in gone[namespace] if _is_workload(step)]
            steps = _first(steps, first, f"it goes first: {short[0]}")
        else:
            # A run that is over is not ended by anything.
            ending = {step.job for step, value in freed if "pods" in usage(value)} & jobs
            worst = next(
                shortage for shortage in short if shortage.wanted > shortage.free + shortage.freed
            )
            _refuse(steps, made[namespace], ending, worst)
    changed = structs.replace(plan, steps=tuple(steps.values()))
    if changed.steps == plan.steps or ring(changed.steps) is not None:
        return plan
    return structs.replace(changed, steps=tuple(in_turn(changed.steps)))


def _left_behind(plan: Plan, live: Mapping[ObjectKey, Object]) -> dict[str, set[str | None]]:
    """By namespace, the jobs of which Pods run that their Services would no longer lead to."""
    moved = {
        step.job
        for step in plan.steps
        if step.action == "update"
        and step.ref.kind == "Service"
        and any(change.steps[:2] == ("spec", "selector") for change in step.changes)
    }
    found: dict[str, set[str | None]] = defaultdict(set)
    for step in plan.steps:
        value = live.get(step.ref.key) if step.action == "unmanaged" and step.job in moved else None
        if value is not None and "pods" in usage(value):
            found[step.ref.namespace or plan.namespace or ""].add(step.job)
    return found


def _by_namespace(plan: Plan, action: str) -> dict[str, list[Step]]:
    found: dict[str, list[Step]] = defaultdict(list)
    for step in plan.steps:
        if step.action == action:
            found[step.ref.namespace or plan.namespace or ""].append(step)
    return found


def _shortages(
    quotas: Iterable[Quota],
    wanted: Sequence[tuple[Step, Object]],
    freed: Sequence[tuple[Step, Object]],
) -> Iterator[Shortage]:
    for resource_quota in quotas:
        needs, gives = _sum(resource_quota, wanted), _sum(resource_quota, freed)
        for name, most in resource_quota.hard.items():
            free = most - resource_quota.used.get(name, Decimal(0))
            if needs.get(name, Decimal(0)) > max(free, Decimal(0)):
                yield Shortage(
                    resource_quota.name, name, free, needs[name], gives.get(name, Decimal(0))
                )


def _sum(of: Quota, values: Sequence[tuple[Step, Object]]) -> Amounts:
    total: dict[str, Decimal] = defaultdict(Decimal)
    for _, value in values:
        if all(value["kind"] == "Pod" and _in_scope(scope, value) for scope in of.scopes):
            for name, amount in usage(value).items():
                total[name] += amount
    return total


def _in_scope(selector: Mapping[str, Any], pod: Object) -> bool:
    """Whether a Pod is in a scope of a quota (pkg/quota/v1/evaluator/core/pods.go)."""
    spec = pod.get("spec") or {}
    name, operator = selector.get("scopeName"), selector.get("operator")
    bare = not requested(spec)
    if name == "PriorityClass":
        own, values = spec.get("priorityClassName") or "", selector.get("values") or ()
        return {
            "In": own in values,
            "NotIn": own not in values,
            "Exists": bool(own),
            "DoesNotExist": not own,
        }.get(str(operator), True)
    return {
        "Terminating": spec.get("activeDeadlineSeconds") is not None,
        "NotTerminating": spec.get("activeDeadlineSeconds") is None,
        "BestEffort": bare,
        "NotBestEffort": not bare,
    }.get(str(name), True)


def _first(steps: dict[str, Step], first: Sequence[Step], reason: str) -> dict[str, Step]:
    """The steps with deletions that make room before anything else is made."""
    early = {step.id for step in first}
    refs = {step.ref for step in first}
    made: dict[str, Step] = {}
    for name, step in steps.items():
        if step.action == "wait" and step.until == "drained" and step.ref in refs:
            continue  # all of the old run goes: there is nothing to drain to
        if name in early:
            after = tuple(step_id for step_id in step.after if step_id in early)
            made[name] = structs.replace(
                step, after=after, why=(*step.why, Reason(reason)), makes_room=True
            )
        else:
            made[name] = step
    return made


def _refuse(
    steps: dict[str, Step], made: Iterable[Step], jobs: set[str | None], short: Shortage
) -> None:
    """Refuses to make Pods of a job whose others would go for nothing."""
    for step in made:
        if step.job in jobs and _is_workload(step):
            reason = Reason(
                f"{short}; what the plan deletes gives back {_plain(short.freed)} only, so the"
                " Pods that are there would be deleted for Pods that cannot be created"
            )
            steps[step.id] = structs.replace(steps[step.id], why=(reason,), needs="room")


def _keep(
    steps: dict[str, Step],
    made: Iterable[Step],
    jobs: set[str | None],
    short: Sequence[Shortage],
) -> None:
    """Refuses to make Pods of a job that would be cut off from its others for nothing."""
    for step in made if short else ():
        if step.job in jobs and _is_workload(step):
            reason = Reason(
                f"{short[0]}; the Services of the job would be switched from the running Pods to"
                " Pods that cannot be created; with --prune, the old Pods are deleted first"
            )
            steps[step.id] = structs.replace(steps[step.id], why=(reason,), needs="room")


def _is_workload(step: Step) -> bool:
    return (step.ref.group, step.ref.kind) in (("", "Pod"), ("batch", "Job"))


def _numbers(amounts: Mapping[str, Any]) -> dict[str, Decimal]:
    found = {name: quantity.number(value) for name, value in amounts.items()}
    return {name: value for name, value in found.items() if value is not None}


def _plain(amount: Decimal) -> str:
    return f"{max(amount, Decimal(0)).normalize():f}"
