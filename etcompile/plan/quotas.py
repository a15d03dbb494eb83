"""A plan and the quotas of its namespaces to what must be deleted first.

A run that takes the place of another needs quota for both, and under a full quota there is none:
its Pods would wait for ever for those that are deleted after them. Then the old ones are deleted
first, if that frees enough. If it does not, the plan is refused before anything changes: a gang
that runs is never ended for one that cannot exist. The dry run of the API server does not know
this, because it looks at one Pod at a time.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct, structs

from etcompile.k8s import jobs, pods, quantity
from etcompile.k8s.objects import Object
from etcompile.k8s.requests import limits_of, requested
from etcompile.plan.schedule import in_turn, ring
from etcompile.plan.step import ObjectKey, Plan, Reason, Step

Amounts = dict[str, Decimal]

_COMPUTE = ("cpu", "memory", "ephemeral-storage")

Read = Callable[[str, Object], Sequence[Object]]
"""Reads the ResourceQuotas of a namespace. Where that is not allowed: those that have no room for
an object that is to be created there."""


class _Shortage(Struct, frozen=True):
    """A resource of which a quota has too little: less is free now than new objects need.

    Args:
        freed: How much the plan's deletions give back.
    """

    quota: str
    resource: str
    free: Decimal
    wanted: Decimal
    freed: Decimal

    @property
    def lasts(self) -> bool:
        """Whether there is too little even when everything is deleted."""
        return self.wanted > self.free + self.freed

    def __str__(self) -> str:
        left, needed = _plain(self.free), _plain(self.wanted)
        return f"the quota {self.quota} has {left} {self.resource} left, and {needed} are needed"


def within_quotas(plan: Plan, live: Mapping[ObjectKey, Object], read: Read) -> Plan:
    """The plan with what must be deleted first, or refused where there would be no room.

    Args:
        live: By key, the live objects that are not declared.
        read: Reads quotas; called only where Pods are created and others deleted or left behind.
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
        quotas = read(namespace, workloads[0].manifest or {})
        short = [*_shortages(quotas, wanted, freed if first else ())]
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
                f"what the plan deletes gives back {_plain(worst.freed)} only, so the Pods that"
                " are there would be deleted for Pods that cannot be created"
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


def _shortages(
    quotas: Iterable[Object], wanted: Iterable[Object], freed: Iterable[Object]
) -> Iterator[_Shortage]:
    for quota in quotas:
        spec, status = quota.get("spec") or {}, quota.get("status") or {}
        used = status.get("used") or {}
        named = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
        selected = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
        needs, gives = (_sum(values, [*named, *selected]) for values in (wanted, freed))
        for resource, most in (status.get("hard") or spec.get("hard") or {}).items():
            limit = quantity.number(most)
            if limit is not None and resource in needs:
                free = limit - (quantity.number(used.get(resource, 0)) or 0)
                if needs[resource] > max(free, Decimal(0)):
                    name = quota["metadata"]["name"]
                    freed_here = gives.get(resource, Decimal(0))
                    yield _Shortage(name, resource, free, needs[resource], freed_here)


def _sum(values: Iterable[Object], scopes: Iterable[Mapping[str, Any]]) -> Amounts:
    """What objects use of a quota with these scopes."""
    total: Amounts = defaultdict(Decimal)
    for value in values:
        if all(value["kind"] == "Pod" and _in_scope(scope, value) for scope in scopes):
            for name, amount in usage(value).items():
                total[name] += amount
    return total


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
    amounts = {"count/pods": Decimal(1)}
    if pods.has_ended(value):
        return amounts
    amounts["pods"] = Decimal(1)
    for name, amount in requested(spec).items():
        amounts[f"requests.{name}"] = amount
        if name in _COMPUTE:
            amounts[name] = amount
    limits = requested(spec, limits_of)
    return amounts | {f"limits.{name}": amount for name, amount in limits.items()}


def _in_scope(selector: Mapping[str, Any], pod: Object) -> bool:
    """Whether a Pod is in a scope of a quota (pkg/quota/v1/evaluator/core/pods.go)."""
    spec = pod.get("spec") or {}
    name, operator = selector.get("scopeName"), selector.get("operator")
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
        "BestEffort": not requested(spec),
        "NotBestEffort": bool(requested(spec)),
    }.get(str(name), True)


def _is_workload(step: Step) -> bool:
    return (step.ref.group, step.ref.kind) in (("", "Pod"), ("batch", "Job"))


def _plain(amount: Decimal) -> str:
    return f"{max(amount, Decimal(0)).normalize():f}"
