"""Count what objects use of the ResourceQuotas of their namespace."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from etcompile.k8s import jobs, pods, quantity
from etcompile.k8s.objects import Object
from etcompile.k8s.requests import Amounts, limits_of, requested

_COMPUTE = ("cpu", "memory", "ephemeral-storage")


class Shortage(NamedTuple):
    """A resource of which a quota has less left than new objects need."""

    quota: str
    resource: str
    most: Decimal
    free: Decimal  # negative if the quota is exceeded already
    needed: Decimal
    freed: Decimal  # what deletions give back

    @property
    def lasts(self) -> bool:
        return self.needed > max(self.free + self.freed, Decimal(0))

    def __str__(self) -> str:
        left, needed = plain(self.free), plain(self.needed)
        return f"the quota {self.quota} has {left} {self.resource} left, and {needed} are needed"


def shortages(quota: Object, new: Iterable[Object], freed: Amounts) -> Iterator[Shortage]:
    """Yield what a ResourceQuota lacks for new objects; `freed` is what deletions give back."""
    spec, status = quota.get("spec") or {}, quota.get("status") or {}
    used, needs = status.get("used") or {}, total_usage(new, spec)
    for resource, hard in (status.get("hard") or spec.get("hard") or {}).items():
        most = quantity.number(hard)
        if most is not None and resource in needs:
            free = most - (quantity.number(used.get(resource, 0)) or 0)
            if needs[resource] > max(free, Decimal(0)):
                back = freed.get(resource, Decimal(0))
                name = quota["metadata"]["name"]
                yield Shortage(name, resource, most, free, needs[resource], back)


def plain(amount: Decimal) -> str:
    return f"{max(amount, Decimal(0)).normalize():f}"


def total_usage(values: Iterable[Object], spec: Mapping[str, Any]) -> Amounts:
    named = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    selected = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    scopes = [*named, *selected]
    total: Amounts = defaultdict(Decimal)
    for value in values:
        if all(value["kind"] == "Pod" and _in_scope(scope, value) for scope in scopes):
            for name, amount in usage(value).items():
                total[name] += amount
    return total


def usage(value: Object) -> Amounts:
    """Return what a Pod, or the Pods of a Job, use of quotas; nothing for other kinds.

    The rules are those of the evaluators in Kubernetes' pkg/quota/v1/evaluator/core.
    """
    spec = value.get("spec") or {}
    if value["kind"] == "Job" and value["apiVersion"].startswith("batch/"):
        count = {"count/jobs.batch": Decimal(1)}
        if jobs.is_over(value) or jobs.is_suspended(value):
            return count
        pod = {"apiVersion": "v1", "kind": "Pod", **(spec.get("template") or {})}
        times = Decimal(1 if spec.get("parallelism") is None else spec["parallelism"])
        return count | {name: amount * times for name, amount in usage(pod).items()}
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
    """Return whether a Pod is in a scope of a quota (pkg/quota/v1/evaluator/core/pods.go)."""
    spec = pod.get("spec") or {}
    name, operator = selector.get("scopeName"), selector.get("operator")
    if name == "PriorityClass":
        priority, values = spec.get("priorityClassName") or "", selector.get("values") or ()
        return {
            "In": priority in values,
            "NotIn": priority not in values,
            "Exists": bool(priority),
            "DoesNotExist": not priority,
        }.get(str(operator), True)
    return {
        "Terminating": spec.get("activeDeadlineSeconds") is not None,
        "NotTerminating": spec.get("activeDeadlineSeconds") is None,
        "BestEffort": not requested(spec),
        "NotBestEffort": bool(requested(spec)),
    }.get(str(name), True)
