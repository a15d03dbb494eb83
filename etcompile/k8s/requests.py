"""What a Pod asks for as schedulers and quotas count it, and the sum of many.

Kubernetes' own arithmetic: containers and sidecars, or the largest init container, with the
Pod's overhead, and limits where there are no requests. The operators' sums leave out most of
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
    # Resources of which a process takes one, by vendor, and whether torchrun counts them by itself.
    (r"nvidia\.com/(gpu(\.shared)?|mig-.+)|amd\.com/(gpu|[sdqc]px_nps\d)", True),
    (r"gpu\.intel\.com/(i915|xe)|habana\.ai/gaudi|huawei\.com/Ascend.+", True),
    (r"cambricon\.com/(mlu|MLU)\w*|(mthreads|metax-tech)\.com/gpu|hygon\.com/dcunum", True),
    (r"google\.com/tpu|aws\.amazon\.com/(neuron|neuroncore|neurondevice)", False),
)
"""Others, such as nvidia.com/gpumem and aliyun.com/gpu-mem, are shares of one device."""
_BINARY = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")
_BYTES = ("memory", "ephemeral-storage", "hugepages-", "storage")


def of_container(container: Mapping[str, Any]) -> Amounts:
    """What a container asks for; a limit is the request where there is none."""
    resources = container.get("resources") or {}
    return {**_amounts(resources.get("limits")), **_amounts(resources.get("requests"))}


def limits_of(container: Mapping[str, Any]) -> Amounts:
    """The limits of a container."""
    return _amounts((container.get("resources") or {}).get("limits"))


def requested(
    spec: Mapping[str, Any], of: Callable[[Mapping[str, Any]], Amounts] = of_container
) -> Amounts:
    """The effective request of a Pod.

    Args:
        of: What counts of a container: `limits_of` gives the effective limits.
    """
    sidecars: Amounts = {}
    largest: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = of(container)
        if container.get("restartPolicy") == "Always":
            sidecars = added(sidecars, own)
            largest = highest([largest, sidecars])
        else:
            largest = highest([largest, added(sidecars, own)])
    running = sidecars
    for container in spec.get("containers") or ():
        running = added(running, of(container))
    total = highest([largest, running])
    # Since 1.34 a Pod may say it for all of its containers.
    total |= of(spec)
    overhead = _amounts(spec.get("overhead"))
    if of is limits_of:  # it raises a limit and makes none
        overhead = {name: amount for name, amount in overhead.items() if name in total}
    return added(total, overhead)


def total(parts: Iterable[tuple[int, Amounts]]) -> Amounts:
    """The sum of so many times each."""
    whole: Amounts = {}
    for count, amounts in parts:
        whole = added(whole, {name: count * amount for name, amount in amounts.items()})
    return whole


def added(one: Amounts, other: Amounts) -> Amounts:
    """The sum of two, resource by resource."""
    return {name: one.get(name, Decimal(0)) + other.get(name, Decimal(0)) for name in one | other}


def highest(several: Iterable[Amounts]) -> Amounts:
    """The largest of several, resource by resource."""
    largest: Amounts = {}
    for amounts in several:
        for name, amount in amounts.items():
            largest[name] = max(largest.get(name, amount), amount)
    return largest


def written(amounts: Amounts) -> dict[str, str]:
    """The amounts as quantities in Kubernetes' canonical form, without those that are zero."""
    return {name: _text(name, amount) for name, amount in sorted(amounts.items()) if amount}


def _amounts(written: Mapping[str, Any] | None) -> Amounts:
    numbers = {name: quantity.number(amount) for name, amount in (written or {}).items()}
    return {name: number for name, number in numbers.items() if number is not None}


def _text(name: str, amount: Decimal) -> str:
    if amount != amount.to_integral_value():
        return f"{(amount * 1000).to_integral_value(rounding='ROUND_CEILING')}m"
    number = int(amount)
    if name.startswith(_BYTES):
        for power, suffix in zip(range(6, 0, -1), _BINARY, strict=True):
            if number % 1024**power == 0:
                return f"{number // 1024**power}{suffix}"
    return str(number)


def gpus(container: Mapping[str, Any]) -> int:
    """How many GPUs the operators see in a container's requests, else its limits; 0 for none.

    They look for "gpu" in the names of resources (reference/trainer-v2.md 5.1,
    reference/training-operator.md 2). An amount of 0 is no GPU.
    """
    for field in ("requests", "limits"):
        amounts = container.get("resources", {}).get(field, {})
        # Beside nvidia.com/gpu there may be nvidia.com/gpumem, which is memory.
        for name in sorted(amounts, key=lambda name: not name.endswith("/gpu")):
            if "gpu" in name.lower() and (count := int(quantity.number(amounts[name]) or 0)) > 0:
                return count
    return 0


def devices(container: Mapping[str, Any], *, counted: bool = False) -> dict[str, int]:
    """The devices that a container requests: resource to number.

    Args:
        counted: Only those that torchrun counts by itself.
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
    """How many devices the resource claims of a container give it; None if that is not known.

    Args:
        spec: The PodSpec.
        claims: The specs of ResourceClaims and of what ResourceClaimTemplates make, by kind and
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
