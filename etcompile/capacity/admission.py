"""Pods to what the API server makes of them before they are scheduled; pure.

What the admission plugins Priority, RuntimeClass and LimitRanger of Kubernetes 1.34 add to a Pod,
and why LimitRanger or validation refuses it then.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from etcompile.capacity.snapshot import Snapshot
from etcompile.k8s.objects import Object
from etcompile.k8s.quantity import number
from etcompile.k8s.requests import limits_of, of_container


def admitted(snapshot: Snapshot, pod: Object, unknown: dict[str, None]) -> Object:
    """A Pod with what the API server adds to it; what cannot be known goes to `unknown`."""
    spec = pod["spec"]
    spec = {**spec, "priority": _priority(snapshot, spec, unknown)}
    if runtime := spec.get("runtimeClassName"):
        named = (each for each in snapshot.runtime_classes if each["metadata"]["name"] == runtime)
        if (runtime_class := next(named, None)) is None:
            unknown[f"the snapshot has no RuntimeClass {runtime}"] = None
            runtime_class = {}
        scheduling = runtime_class.get("scheduling") or {}
        spec["overhead"] = (runtime_class.get("overhead") or {}).get("podFixed") or {}
        labels = [owner.get("nodeSelector") or {} for owner in (spec, scheduling)]
        tolerations = [owner.get("tolerations") or () for owner in (spec, scheduling)]
        spec |= {"nodeSelector": labels[0] | labels[1], "tolerations": [*chain(*tolerations)]}
    for limit in _limits(snapshot, pod):
        if limit["type"] == "Pod" or limit.get("maxLimitRequestRatio"):
            unknown["a LimitRange limits whole Pods, or limits by their requests"] = None
        for field in ("initContainers", "containers"):
            spec[field] = [_with_defaults(each, limit) for each in spec.get(field) or ()]
    return {**pod, "spec": spec}


def refusals(snapshot: Snapshot, pod: Object) -> Iterator[str]:
    """Why the LimitRanges of its namespace do not allow a Pod that has their defaults."""
    spec, limits = pod["spec"], [*_limits(snapshot, pod)]
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]) if limits else ():
        name, requests, most = container["name"], of_container(container), limits_of(container)
        for resource in sorted(requests.keys() & most.keys()):
            if requests[resource] > most[resource]:
                yield f"the container {name} asks more {resource} than a LimitRange gives it"
        for limit in limits:
            for resource, bound in (limit.get("max") or {}).items():
                if resource not in most or most[resource] > (number(bound) or 0):
                    yield f"a LimitRange lets the container {name} have {resource}: {bound} at most"
            for resource, bound in (limit.get("min") or {}).items():
                if requests.get(resource, 0) < (number(bound) or 0):
                    yield f"a LimitRange makes the container {name} ask {resource}: {bound}"


def _limits(snapshot: Snapshot, pod: Object) -> Iterator[Mapping[str, Any]]:
    """What LimitRanges say of Pods and containers in the namespace of a Pod."""
    for value in snapshot.limit_ranges:
        if value["metadata"]["namespace"] == pod["metadata"].get("namespace"):
            yield from (each for each in value["spec"]["limits"] if "Claim" not in each["type"])


def _with_defaults(container: Object, limit: Mapping[str, Any]) -> Object:
    own = container.get("resources") or {}
    limits, requests = own.get("limits") or {}, own.get("requests") or {}
    both = {
        "limits": {**(limit.get("default") or {}), **limits},
        "requests": {**(limit.get("defaultRequest") or {}), **limits, **requests},
    }
    return {**container, "resources": {**own, **both}}


def _priority(snapshot: Snapshot, spec: Mapping[str, Any], unknown: dict[str, None]) -> int:
    values = {each["metadata"]["name"]: each["value"] for each in snapshot.priority_classes}
    defaults = (each["value"] for each in snapshot.priority_classes if each.get("globalDefault"))
    name = spec.get("priorityClassName")
    if name and name not in values:
        unknown[f"the snapshot has no PriorityClass {name}"] = None
    priority: int = values.get(name, spec.get("priority", next(defaults, 0)))
    return priority
