"""Check the rules of the API server that have to compute, under the names `rules.yaml` gives them.

Each function takes the value at the place of its rule and its subject. It yields the places that
break the rule, or returns True if the value as a whole does. It may raise on a value of a type that
it does not expect: the schema reports those.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct

from etcompile.diagnostics.spelling import closest
from etcompile.k8s import quantity
from etcompile.k8s.bookkeeping import ANNOTATIONS_LIMIT, DATA_LIMIT
from etcompile.k8s.names import is_key, is_port_name
from etcompile.k8s.path import containers_of, mapping_at, mappings_of, value_at

Path = tuple[str | int, ...]
"""Keys and list indexes, from the value that is checked."""


class Subject(Struct, frozen=True):
    """The value that is checked, with what a rule may need to know beyond its place."""

    value: Mapping[str, Any]  # the whole: a Pod, a Pod template or another object
    minor: int | None = None  # 34 for Kubernetes 1.34; None: only rules that all versions have
    known_volumes: Collection[str] = ()  # volumes that the Pod will have besides those in the value
    # Whether Pods are made of the value as it is. In the template of a controller the API server
    # checks less.
    pod: bool = True


class Broken(Struct, frozen=True):
    """A place where a rule is broken."""

    path: Path = ()
    facts: Mapping[str, Any] = {}  # values for the message and the hint besides `{value}`
    at_key: bool = False  # the key is wrong, not its value


Value = Mapping[str, Any]


# Any object ---------------------------------------------------------------------------------------


def annotations_size(annotations: Value, _: Subject) -> Iterator[Broken]:
    words = (word for pair in annotations.items() for word in pair if isinstance(word, str))
    size = sum(len(word.encode("utf-8", "replace")) for word in words)
    if size > ANNOTATIONS_LIMIT:
        yield Broken((), {"size": -(-size // 1024)}, at_key=True)


# Containers ---------------------------------------------------------------------------------------


def container_names(spec: Value, _: Subject) -> Iterator[Broken]:
    seen: set[str] = set()
    for at, container in containers_of(spec):
        name = container.get("name")
        if isinstance(name, str):
            if name in seen:
                yield Broken((*at, "name"))
            seen.add(name)


def host_ports(spec: Value, _: Subject) -> Iterator[Broken]:
    """Reject a port of the node that two containers use; init containers run one by one."""
    seen: set[tuple[Any, ...]] = set()
    for at, container in containers_of(spec):
        used = seen if at[0] == "containers" else set()
        for index, port in mappings_of(container, "ports"):
            number = port.get("hostPort")
            if number and isinstance(number, int):
                place = (str(port.get("protocol") or "TCP"), str(port.get("hostIP") or ""), number)
                if place in used:
                    yield Broken((*at, "ports", index, "hostPort"))
                used.add(place)


def host_network_ports(spec: Value, _: Subject) -> Iterator[Broken]:
    for index, container in mappings_of(spec, "containers"):
        for number, port in mappings_of(container, "ports"):
            host = port.get("hostPort")
            if host and host != port.get("containerPort"):
                path: Path = ("containers", index, "ports", number, "hostPort")
                yield Broken(path, {"port": port.get("containerPort")})


def port(value: Any, _: Subject) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and not 1 <= value <= 65535
    return isinstance(value, str) and not is_port_name(value)


_DEFAULT_GRACE = 30


def sleep_seconds(spec: Value, _: Subject) -> Iterator[Broken]:
    grace = spec.get("terminationGracePeriodSeconds")
    grace = _DEFAULT_GRACE if grace is None else grace
    for at, container in containers_of(spec):
        for hook in ("postStart", "preStop"):
            seconds = value_at(container, ("lifecycle", hook, "sleep", "seconds"))
            if seconds is not None and not 0 <= seconds <= max(grace, 1):
                yield Broken((*at, "lifecycle", hook, "sleep", "seconds"), {"grace": grace})


# Volumes ------------------------------------------------------------------------------------------

_ADVISED = 20
"""Mounts that get a suggestion: each one compares the names of all volumes."""
_LISTED = 8


def unknown_volumes(spec: Value, subject: Subject) -> Iterator[Broken]:
    declared = (volume.get("name") for _, volume in mappings_of(spec, "volumes"))
    names = [name for name in (*declared, *subject.known_volumes) if isinstance(name, str)]
    known = set(names)
    reported = 0
    for at, container in containers_of(spec):
        for use in ("volumeMounts", "volumeDevices"):
            for index, mount in mappings_of(container, use):
                name = mount.get("name")
                if isinstance(name, str) and name not in known:
                    reported += 1
                    hint = ""
                    if reported <= _ADVISED:
                        hint = _volume_hint(name, [*dict.fromkeys(names)])
                    yield Broken((*at, use, index, "name"), {"hint": hint})


def _volume_hint(name: str, volumes: Sequence[str]) -> str:
    if near := closest(name, volumes):
        return f"did you mean '{near}'?"
    if not volumes:
        return "the Pod has no volumes"
    more = len(volumes) - _LISTED
    listed = ", ".join(volumes[:_LISTED])
    return f"its volumes are: {listed}{f' and {more} more' if more > 0 else ''}"


# Amounts of resources -----------------------------------------------------------------------------

_STANDARD = ("cpu", "memory", "ephemeral-storage")
_HUGE = "hugepages-"


def amount(value: Any) -> Decimal | None:
    is_text = isinstance(value, str | int | float) and not isinstance(value, bool)
    return quantity.number(value) if is_text else None


def negative(value: Any, _: Subject) -> bool:
    number = amount(value)
    return number is not None and number < 0


def not_positive(value: Any, _: Subject) -> bool:
    number = amount(value)
    return number is not None and number <= 0


def _amounts(resources: Any) -> Iterator[tuple[str, str, Any]]:
    for field in ("limits", "requests"):
        for name, value in mapping_at(resources, (field,)).items():
            yield field, name, value


def _is_native(name: str) -> bool:
    """Return whether Kubernetes itself accounts for a resource, not a device plugin."""
    if "/" in name:
        return "kubernetes.io/" in name
    return name in _STANDARD or name.startswith(_HUGE)


def _is_shared(name: str) -> bool:
    """Return whether requests may exceed what exists, and so differ from the limit."""
    return _is_native(name) and not name.startswith(_HUGE)


def negative_amounts(resources: Value, subject: Subject) -> Iterator[Broken]:
    for field, name, value in _amounts(resources):
        if negative(value, subject):
            yield Broken((field, name))


def resource_names(resources: Value, _: Subject) -> Iterator[Broken]:
    for field, name, _amount in _amounts(resources):
        is_extended = not _is_native(name)
        if is_extended and "/" not in name:
            facts = {"value": name, "what": "a resource of containers"}
            yield Broken((field, name), facts, at_key=True)
        elif "/" in name or name.startswith(_HUGE):
            # A quota of it has its name with the prefix `requests.`.
            quota = not is_extended or (is_key(f"requests.{name}") and name[:9] != "requests.")
            if not is_key(name) or not quota:
                facts = {"value": name, "what": "a name for a resource"}
                yield Broken((field, name), facts, at_key=True)


def whole_amounts(resources: Value, _: Subject) -> Iterator[Broken]:
    for field, name, value in _amounts(resources):
        number = amount(value)
        is_divided = number is not None and number != number.to_integral_value()
        if is_divided and "/" in name and not _is_native(name):
            yield Broken((field, name))


def _requests(resources: Value) -> Iterator[tuple[str, Decimal, Decimal | None, Any]]:
    """Yield each request that is a number: resource, amount, the limit's number, the limit."""
    limits = mapping_at(resources, ("limits",))
    for name, value in mapping_at(resources, ("requests",)).items():
        limit = limits.get(name)
        number, most = amount(value), amount(limit)
        if number is not None and (limit is None or (most is not None and most >= 0)):
            yield name, number, most, limit


def requests_without_limit(resources: Value, _: Subject) -> Iterator[Broken]:
    for name, _number, most, _limit in _requests(resources):
        if most is None and not _is_shared(name):
            yield Broken(("requests", name), {"name": name})


def requests_unlike_limits(resources: Value, _: Subject) -> Iterator[Broken]:
    for name, number, most, limit in _requests(resources):
        if most is not None and not _is_shared(name) and number != most:
            yield Broken(("requests", name), {"limit": limit})


def requests_above_limits(resources: Value, _: Subject) -> Iterator[Broken]:
    for name, number, most, limit in _requests(resources):
        if most is not None and _is_shared(name) and number > most:
            yield Broken(("requests", name), {"limit": limit})


def unknown_claims(spec: Value, _: Subject) -> Iterator[Broken]:
    known = {str(claim.get("name")) for _, claim in mappings_of(spec, "resourceClaims")}
    for at, container in containers_of(spec):
        for index, claim in mappings_of(container.get("resources"), "claims"):
            if str(claim.get("name")) not in known:
                yield Broken((*at, "resources", "claims", index, "name"))


# ConfigMaps and Secrets ---------------------------------------------------------------------------


def data_size(value: Value, _: Subject) -> Iterator[Broken]:
    encoded = "data" if value.get("kind") == "Secret" else "binaryData"
    size = 0
    for field in ("data", "binaryData", "stringData"):
        for text in mapping_at(value, (field,)).values():
            if isinstance(text, str) and field == encoded:
                size += max(0, (len(text) - text.count("\n")) * 3 // 4 - text[-2:].count("="))
            elif isinstance(text, str):
                size += len(text.encode("utf-8", "replace"))
    if size > DATA_LIMIT:
        yield Broken((), {"size": -(-size // 1024)})
