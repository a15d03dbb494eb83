"""Quantities and names of resources in objects: limits, quotas, capacities.

Apart from the tables because three kinds of objects have them, each with other names.
"""

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from etcompile.k8s.names import is_key
from etcompile.k8s.validation.rule import Broken, Rule, Subject
from etcompile.model import quantity

STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
_OTHERS = frozenset(
    {
        *("pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps"),
        *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers", "storage"),
        *("requests.cpu", "requests.memory", "requests.storage", "requests.ephemeral-storage"),
        *("limits.cpu", "limits.memory", "limits.ephemeral-storage"),
    }
)
"""What else has a name without a domain."""
QUOTA = (_OTHERS | STANDARD) - {"storage"}
_WHOLE = frozenset(
    {
        *("pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps"),
        *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    }
)


def number(value: Any) -> Decimal | None:
    """The number of a quantity; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return quantity.number(value)


def not_positive(value: Any, _: Subject) -> bool:
    """The check that a quantity is above zero."""
    found = number(value)
    return found is not None and found <= 0


def is_huge_pages(name: str) -> bool:
    """Whether a resource is one of huge pages."""
    return name.startswith("hugepages-")


def is_native(name: str) -> bool:
    """Whether Kubernetes itself accounts for a resource."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether a resource is one of devices."""
    return not is_native(name) and not name.startswith("requests.") and is_key(f"requests.{name}")


def is_whole(name: str) -> bool:
    """Whether only whole numbers of a resource exist."""
    return name in _WHOLE or is_extended(name)


def is_resource(name: str) -> bool:
    """Whether a name can be that of any resource."""
    if not is_key(name):
        return False
    known = name in STANDARD or name in _OTHERS or is_huge_pages(name)
    return "/" in name or known or name.startswith("requests.hugepages-")


def is_resource_of_containers(name: str) -> bool:
    """Whether a name can be that of a resource of a container."""
    if not is_key(name):
        return False
    if "/" not in name:
        return name in STANDARD or is_huge_pages(name)
    return is_native(name) or is_extended(name)


def is_resource_of_quotas(name: str) -> bool:
    """Whether a name can stand in a ResourceQuota."""
    if not is_key(name):
        return False
    return (
        "/" in name
        or name in QUOTA
        or is_huge_pages(name)
        or name.startswith("requests.hugepages-")
    )


def names(path: str, form: Callable[[str], bool], breaks: str, takes: str) -> Rule:
    """Names of resources that stand before amounts.

    Args:
        path: Their place.
        form: Whether a name is one of them.
        breaks: An example where one is not.
        takes: Its correction.
    """

    def check(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
        for name in value:
            if not form(name):
                yield Broken((name,), {"name": name}, at_key=True)

    return Rule(
        path,
        check,
        "'{name}' is not the name of a resource",
        breaks=breaks,
        takes=takes,
        advice="Kubernetes' own are cpu, memory, ephemeral-storage and hugepages-*; those of"
        " devices have a domain: example.com/x",
    )
