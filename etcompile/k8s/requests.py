"""Compute what a Pod requests as schedulers and quotas count it, and sums over Pods.

This is Kubernetes' arithmetic: containers and sidecars, or the largest init container, plus the
Pod's overhead, with limits in place of missing requests. The operators' sums leave out most of
that (reference/training-operator.md 7, defect 17).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from etcompile.k8s import quantity
from etcompile.k8s.path import mappings_of

Amounts = dict[str, Decimal]

_DEVICES = (
    # Resources that a process takes one of, by vendor, and whether torchrun counts them by itself.
    (r"nvidia\.com/(gpu(\.shared)?|mig-.+)|amd\.com/(gpu|[sdqc]px_nps\d)", True),
    (r"gpu\.intel\.com/(i915|xe)|habana\.ai/gaudi|huawei\.com/Ascend.+", True),
    (r"cambricon\.com/(mlu|MLU)\w*|(mthreads|metax-tech)\.com/gpu|hygon\.com/dcunum", True),
    (r"google\.com/tpu|aws\.amazon\.com/(neuron|neuroncore|neurondevice)", False),
)
"""Others, such as nvidia.com/gpumem and aliyun.com/gpu-mem, are shares of one device."""
_BINARY = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")
_BYTES = ("memory", "ephemeral-storage", "hugepages-", "storage")


def of_container(container: Mapping[str, Any]) -> Amounts:
    """Return what a container requests; a limit stands in for a missing request."""
    resources = container.get("resources") or {}
    return {**_amounts(resources.get("limits")), **_amounts(resources.get("requests"))}


def limits_of(container: Mapping[str, Any]) -> Amounts:
    return _amounts((container.get("resources") or {}).get("limits"))


def requested(
    spec: Mapping[str, Any], of: Callable[[Mapping[str, Any]], Amounts] = of_container
) -> Amounts:
    """Return the effective request of a Pod.

    Args:
        of: What counts of a container; pass `limits_of` for the effective limits.
    """
    sidecars: Amounts = {}
    largest: Amounts = {}
    for container in spec.get("initContainers") or ():
        amounts = of(container)
        if container.get("restartPolicy") == "Always":
            sidecars = added(sidecars, amounts)
            largest = highest([largest, sidecars])
        else:
            largest = highest([largest, added(sidecars, amounts)])
    running = sidecars
    for container in spec.get("containers") or ():
        running = added(running, of(container))
    total = highest([largest, running])
    # Since 1.34 a Pod may set requests for all of its containers together.
    total |= of(spec)
    overhead = _amounts(spec.get("overhead"))
    if of is limits_of:  # overhead raises a limit but does not create one
        overhead = {name: amount for name, amount in overhead.items() if name in total}
    return added(total, overhead)


def total(parts: Iterable[tuple[int, Amounts]]) -> Amounts:
    whole: Amounts = {}
    for count, amounts in parts:
        whole = added(whole, {name: count * amount for name, amount in amounts.items()})
    return whole


def added(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, Decimal(0)) + other.get(name, Decimal(0)) for name in one | other}


def highest(several: Iterable[Amounts]) -> Amounts:
    largest: Amounts = {}
    for amounts in several:
        for name, amount in amounts.items():
            largest[name] = max(largest.get(name, amount), amount)
    return largest


def written(amounts: Amounts) -> dict[str, str]:
    """Write amounts as quantities in Kubernetes' canonical form, leaving out zeros."""
    texts: dict[str, str] = {}
    for name, amount in sorted(amounts.items()):
        if amount != amount.to_integral_value():
            texts[name] = f"{(amount * 1000).to_integral_value(rounding='ROUND_CEILING')}m"
        elif number := int(amount):
            powers = zip(range(6, 0, -1), _BINARY, strict=True) if name.startswith(_BYTES) else ()
            whole = (f"{number // 1024**n}{unit}" for n, unit in powers if number % 1024**n == 0)
            texts[name] = next(whole, str(number))
    return texts


def _amounts(written: Mapping[str, Any] | None) -> Amounts:
    numbers = {name: quantity.number(amount) for name, amount in (written or {}).items()}
    return {name: number for name, number in numbers.items() if number is not None}


def gpus(container: Mapping[str, Any]) -> int:
    """Return how many GPUs the operators count in a container's requests, else in its limits.

    They look for "gpu" in the names of resources (reference/trainer-v2.md 5.1,
    reference/training-operator.md 2). An amount of 0 is no GPU.
    """
    for field in ("requests", "limits"):
        amounts = container.get("resources", {}).get(field, {})
        # nvidia.com/gpu comes first: nvidia.com/gpumem, which is memory, may stand next to it.
        for name in sorted(amounts, key=lambda name: not name.endswith("/gpu")):
            if "gpu" in name.lower() and (count := int(quantity.number(amounts[name]) or 0)) > 0:
                return count
    return 0


def devices(container: Mapping[str, Any], *, counted: bool = False) -> dict[str, int]:
    """Return how many devices of each resource a container requests.

    Args:
        counted: Only the devices that torchrun counts by itself.
    """
    resources = container.get("resources", {})
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    forms = [form for form, is_counted in _DEVICES if is_counted or not counted]
    numbers = {
        name: int(quantity.number(amount) or 0)
        for name, amount in amounts.items()
        if any(re.fullmatch(form, name) for form in forms)
    }
    return {name: number for name, number in numbers.items() if number > 0}


def claimed(
    container: Mapping[str, Any], spec: Mapping[str, Any], claims: Mapping[tuple[str, str], Any]
) -> int | None:
    """Return how many devices the resource claims of a container give it; None if unknown.

    Args:
        spec: The PodSpec.
        claims: Specs of ResourceClaims and of the claims of ResourceClaimTemplates, by kind and
            name.
    """
    total = 0
    entries = {entry["name"]: entry for entry in spec.get("resourceClaims") or ()}
    for use in container.get("resources", {}).get("claims") or ():
        entry = entries.get(use["name"], {})
        claim = claims.get(
            ("ResourceClaimTemplate", str(entry.get("resourceClaimTemplateName")))
        ) or claims.get(("ResourceClaim", str(entry.get("resourceClaimName"))))
        if not isinstance(claim, dict):
            return None
        for _, request in mappings_of(claim.get("devices"), "requests"):
            if use.get("request") not in (None, request.get("name")):
                continue
            # `exactly` since v1beta2; the scheduler chooses one of several alternatives.
            exact = request.get("exactly") or request
            choices = [choice for _, choice in mappings_of(request, "firstAvailable")] or [exact]
            counts = {
                choice.get("allocationMode") != "All" and (choice.get("count") or 1)
                for choice in choices
                if isinstance(choice, dict)
            }
            count = counts.pop() if len(counts) == 1 else False
            if not isinstance(count, int) or not count:
                return None
            total += count
    return total
