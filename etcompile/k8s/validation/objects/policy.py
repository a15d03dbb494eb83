"""The API server's rules for what bounds and scales workloads: quotas, budgets, classes."""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.k8s.names import is_key, is_label
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.objects import amounts
from etcompile.k8s.validation.objects.checks import (
    SEGMENT_ADVICE,
    at_least,
    choice,
    filled,
    is_segment,
    label,
    labels,
    selector,
    share,
    share_up_to_all,
)
from etcompile.k8s.validation.objects.kind import Kind
from etcompile.k8s.validation.rule import Broken, Rule, Subject
from etcompile.k8s.validation.tolerations import toleration_rules

# ResourceQuotas -------------------------------------------------------------------------------

_SCOPES = (
    *("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass"),
    "CrossNamespacePodAffinity",
)
_COMPUTE = frozenset(
    {
        *("pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu"),
        *("limits.memory", "ephemeral-storage", "requests.ephemeral-storage"),
        "limits.ephemeral-storage",
    }
)
_OPPOSITES = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))


def _amounts(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    for name, amount in value.items():
        number = amounts.number(amount)
        if number is None:
            continue
        if number < 0:
            yield Broken((name,), {"problem": f"must not be negative: {amount}"})
        elif amounts.is_whole(name) and number != number.to_integral_value():
            yield Broken((name,), {"problem": f"must be a whole number, not {amount}"})


def _scoped(scopes: list[Any], hard: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """What is wrong with scopes, by their index."""
    for index, scope in enumerate(scopes):
        if scope not in _SCOPES:
            yield index, f"must be one of {', '.join(_SCOPES)}, not '{scope}'"
            continue
        allowed = {"pods"} if scope == "BestEffort" else _COMPUTE
        for name in hard:
            if name in amounts.QUOTA and name not in allowed:
                yield index, f"a quota of {name} cannot have the scope {scope}"
        for pair in _OPPOSITES:
            if scope in pair and set(pair) <= set(map(str, scopes)):
                yield index, f"the scopes {' and '.join(pair)} exclude each other"


def _scopes(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    hard = forms.mapping(value, "hard")
    listed = [text for _, text in forms.texts(value, "scopes")]
    for index, problem in _scoped(listed, hard):
        yield Broken(("scopes", index), {"problem": problem})
    expressions = list(forms.mappings(value.get("scopeSelector"), "matchExpressions"))
    named = [requirement.get("scopeName") for _, requirement in expressions]
    for index, problem in _scoped(named, hard):
        yield Broken(("scopeSelector", "matchExpressions", index), {"problem": problem})
    for index, expression in expressions:
        if problem := _expression(expression):
            yield Broken(("scopeSelector", "matchExpressions", index), {"problem": problem})


def _expression(value: Mapping[str, Any]) -> str:
    operator, values = value.get("operator"), value.get("values")
    if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
        return f"the operator must be one of In, NotIn, Exists, DoesNotExist, not '{operator}'"
    if value.get("scopeName") != "PriorityClass" and operator != "Exists":
        return "the operator must be Exists for this scope"
    if operator in ("In", "NotIn") and not values:
        return f"needs values, as its operator is {operator}"
    if operator in ("Exists", "DoesNotExist") and values:
        return f"cannot have values, as its operator is {operator}"
    return ""


_QUOTA = (
    amounts.names("spec.hard", amounts.is_resource_of_quotas, "{gpus: 1}", "{pods: 1}"),
    Rule(
        "spec.hard",
        _amounts,
        "{problem}",
        breaks="{pods: '1.5'}",
        takes="{pods: '1'}",
    ),
    Rule(
        "spec",
        _scopes,
        "{problem}",
        breaks="{hard: {secrets: 1}, scopes: [Terminating]}",
        takes="{hard: {pods: 1}, scopes: [Terminating]}",
    ),
)

# LimitRanges ----------------------------------------------------------------------------------

_LIMIT_TYPES = ("Container", "Pod", "PersistentVolumeClaim")
_PARTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _limit_type(value: str, _: Subject) -> bool:
    return not is_key(value) or ("/" not in value and value not in _LIMIT_TYPES)


def _same_type(value: list[Any], _: Subject) -> Iterator[Broken]:
    seen: set[str] = set()
    for index, item in enumerate(value):
        kind = item.get("type") if isinstance(item, dict) else None
        if isinstance(kind, str):
            if kind in seen:
                yield Broken((index, "type"))
            seen.add(kind)


def _limit_names(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    contained = value.get("type") in ("Pod", "Container")
    form = amounts.is_resource_of_containers if contained else amounts.is_resource
    for part in _PARTS:
        for name in forms.mapping(value, part):
            if not form(name):
                yield Broken((part, name), {"name": name, "type": value.get("type")}, at_key=True)


def _pod_defaults(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    if value.get("type") == "Pod":
        for part in ("default", "defaultRequest"):
            if value.get(part):
                yield Broken((part,), at_key=True)


def _claim_storage(value: Mapping[str, Any], _: Subject) -> bool:
    found = {**forms.mapping(value, "max"), **forms.mapping(value, "min")}
    return value.get("type") == "PersistentVolumeClaim" and "storage" not in found


_ORDER = (
    ("min", "max"),
    ("min", "defaultRequest"),
    ("defaultRequest", "max"),
    ("defaultRequest", "default"),
    ("min", "default"),
    ("default", "max"),
)


def _limit_order(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    # The API server fills in defaults first: default from max, defaultRequest from default or min.
    parts = {part: dict(forms.mapping(value, part)) for part in _PARTS}
    if value.get("type") == "Container":
        parts["default"] = {**parts["max"], **parts["default"]}
        parts["defaultRequest"] = {**parts["min"], **parts["default"], **parts["defaultRequest"]}
        for name, amount in parts["min"].items():
            given = forms.mapping(value, "defaultRequest"), forms.mapping(value, "default")
            if not any(name in defaults for defaults in given) and name not in parts["max"]:
                parts["defaultRequest"][name] = amount
    for low, high in _ORDER:
        for name in parts[low].keys() & parts[high].keys():
            least, most = amounts.number(parts[low][name]), amounts.number(parts[high][name])
            if least is not None and most is not None and least > most:
                told = low if name in forms.mapping(value, low) else high
                facts = {"low": low, "high": high, "name": name}
                yield Broken((told, name) if name in forms.mapping(value, told) else (), facts)


def _limit_ratio(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    least, most = forms.mapping(value, "min"), forms.mapping(value, "max")
    for name, amount in forms.mapping(value, "maxLimitRequestRatio").items():
        ratio = amounts.number(amount)
        low, high = amounts.number(least.get(name)), amounts.number(most.get(name))
        if ratio is not None and ratio < 1:
            yield Broken(("maxLimitRequestRatio", name), {"problem": "must be at least 1"})
        elif ratio is not None and low and high is not None and ratio > high / low:
            problem = "is greater than max divided by min"
            yield Broken(("maxLimitRequestRatio", name), {"problem": problem})


_LIMITS = (
    Rule(
        "spec.limits[*].type",
        _limit_type,
        f"must be one of {', '.join(_LIMIT_TYPES)}, not '{{value}}'",
        breaks="Node",
        takes="Container",
        on=str,
    ),
    Rule(
        "spec.limits",
        _same_type,
        "another entry has the type {value}",
        breaks="[{type: Pod}, {type: Pod}]",
        takes="[{type: Pod}]",
        advice="put both into one entry",
        on=list,
    ),
    Rule(
        "spec.limits[*]",
        _limit_names,
        "'{name}' is not a resource of the type {type}",
        breaks="{type: Container, max: {storage: 1Gi}}",
        takes="{type: Container, max: {memory: 1Gi}}",
    ),
    Rule(
        "spec.limits[*]",
        _pod_defaults,
        "cannot be set with the type Pod",
        breaks="{type: Pod, default: {cpu: 1}}",
        takes="{type: Container, default: {cpu: 1}}",
    ),
    Rule(
        "spec.limits[*]",
        _claim_storage,
        "needs min.storage or max.storage",
        breaks="{type: PersistentVolumeClaim}",
        takes="{type: PersistentVolumeClaim, max: {storage: 1Gi}}",
    ),
    Rule(
        "spec.limits[*]",
        _limit_order,
        "{low} of {name} is greater than {high}",
        breaks="{type: Container, min: {cpu: 2}, max: {cpu: 1}}",
        takes="{type: Container, min: {cpu: 1}, max: {cpu: 1}}",
    ),
    Rule(
        "spec.limits[*]",
        _limit_ratio,
        "{problem}",
        breaks="{type: Container, maxLimitRequestRatio: {cpu: '0.5'}}",
        takes="{type: Container, maxLimitRequestRatio: {cpu: 1}}",
    ),
)

# Autoscalers and budgets ----------------------------------------------------------------------

_SOURCES = {
    "Resource": "resource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
    "ContainerResource": "containerResource",
}


def _metric(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    wanted, found = _SOURCES.get(str(value.get("type"))), forms.given(value, (*_SOURCES.values(),))
    if wanted is not None and found != [wanted]:
        yield Broken((), {"field": wanted, "type": value["type"]})


def _no_target(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    for field, needed, both in (
        ("resource", ("averageUtilization", "averageValue"), False),
        ("containerResource", ("averageUtilization", "averageValue"), False),
        ("external", ("value", "averageValue"), False),
        ("object", ("value", "averageValue"), True),
        ("pods", ("averageValue",), True),
    ):
        source = value.get(field)
        if not isinstance(source, dict):
            continue
        found = forms.given(forms.mapping(source, "target"), needed)
        if not found or (len(found) > 1 and not both):
            yield Broken(
                (field, "target"), {"problem": f"needs {' or '.join(needed)}"}, at_key=True
            )


def _range(value: Mapping[str, Any], _: Subject) -> bool:
    least, most = value.get("minReplicas"), value.get("maxReplicas")
    return isinstance(least, int) and isinstance(most, int) and most < least


def _is_target(value: Mapping[str, Any]) -> bool:
    target = forms.mapping(value, "target")
    if target.get("type") not in ("Utilization", "Value", "AverageValue"):
        return False
    for field in ("value", "averageValue", "averageUtilization"):
        number = amounts.number(target.get(field))
        if number is not None and number <= 0:
            return False
    return True


def _segment(path: str) -> Rule:
    return Rule(
        path,
        forms.unless(is_segment),
        "'{value}' is not a valid name",
        breaks="a/b",
        takes="a",
        advice=SEGMENT_ADVICE,
        on=str,
    )


_REF = "scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: a}"
_SCALER = (
    at_least("spec.minReplicas", 1),
    at_least("spec.maxReplicas", 1),
    Rule(
        "spec",
        _range,
        "maxReplicas must be at least minReplicas",
        breaks=f"{{minReplicas: 3, maxReplicas: 2, {_REF}}}",
        takes=f"{{minReplicas: 2, maxReplicas: 2, {_REF}}}",
    ),
    _segment("spec.scaleTargetRef.(kind|name)"),
    Rule(
        "spec.scaleTargetRef",
        lambda value, _: "/" not in str(value.get("apiVersion", "")),
        "needs an apiVersion with a group",
        breaks="{kind: Deployment, name: a}",
        takes="{apiVersion: apps/v1, kind: Deployment, name: a}",
        advice="write apiVersion: apps/v1 for a Deployment",
        since=34,
    ),
)
_BEHAVIOR = "spec.behavior.(scaleUp|scaleDown)"
_SCALER_2 = (
    *_SCALER,
    choice("spec.metrics[*].type", *_SOURCES),
    Rule(
        "spec.metrics[*]",
        _metric,
        "a metric of type {type} needs the field {field}, and no other source",
        breaks="{type: Resource}",
        takes="{type: Resource, resource: {name: cpu, target: {type: Utilization,"
        " averageUtilization: 5}}}",
    ),
    Rule(
        "spec.metrics[*]",
        _no_target,
        "{problem}",
        breaks="{type: Resource, resource: {name: cpu, target: {type: Utilization}}}",
        takes="{type: Resource, resource: {name: cpu, target: {type: Utilization,"
        " averageUtilization: 5}}}",
    ),
    Rule(
        "spec.metrics[*].(resource|pods|object|external|containerResource)",
        lambda value, _: not _is_target(value),
        "the target must have a type (Utilization, Value, AverageValue) and be above 0",
        breaks="{name: cpu, target: {type: AverageValue, averageValue: 0}}",
        takes="{name: cpu, target: {type: AverageValue, averageValue: 1}}",
    ),
    filled("spec.metrics[*].resource.name", "cpu"),
    Rule(
        "spec.metrics[*].containerResource",
        lambda value, _: (
            not amounts.is_resource_of_containers(str(value.get("name")))
            or not is_label(str(value.get("container")))
        ),
        "needs the name of a resource and the name of a container",
        breaks="{name: x, container: a, target: {type: AverageValue, averageValue: 1}}",
        takes="{name: cpu, container: a, target: {type: AverageValue, averageValue: 1}}",
    ),
    Rule(
        "spec.metrics[*].(pods|object|external)",
        lambda value, _: not is_segment(str(forms.mapping(value, "metric").get("name", ""))),
        "the metric needs a name without '/' and '%'",
        breaks="{metric: {name: a/b}, target: {type: AverageValue, averageValue: 1}}",
        takes="{metric: {name: a}, target: {type: AverageValue, averageValue: 1}}",
    ),
    Rule(
        "spec.metrics[*].object.describedObject",
        lambda value, _: not all(is_segment(str(value.get(key, ""))) for key in ("kind", "name")),
        "needs a kind and a name without '/' and '%'",
        breaks="{apiVersion: a/v1, kind: a, name: a/b}",
        takes="{apiVersion: a/v1, kind: a, name: b}",
    ),
    Rule(
        f"{_BEHAVIOR}.stabilizationWindowSeconds",
        forms.outside(0, 3600),
        "must be between 0 and 3600, not {value}",
        breaks="3601",
        takes="3600",
        on=int,
    ),
    choice(f"{_BEHAVIOR}.selectPolicy", "Max", "Min", "Disabled"),
    Rule(
        f"{_BEHAVIOR}.policies",
        forms.empty,
        "must not be empty",
        breaks="[]",
        takes="[{type: Pods, value: 1, periodSeconds: 1}]",
        on=list,
    ),
    Rule(
        f"{_BEHAVIOR}.policies[*]",
        lambda value, _: (
            value.get("type") not in ("Pods", "Percent")
            or not _between(value.get("value"), 1, 2**31)
            or not _between(value.get("periodSeconds"), 1, 1800)
        ),
        "needs type Pods or Percent, a value above 0 and periodSeconds of 1 to 1800",
        breaks="{type: Pods, value: 1, periodSeconds: 1801}",
        takes="{type: Pods, value: 1, periodSeconds: 1800}",
    ),
)


def _between(value: Any, least: int, most: int) -> bool:
    return not isinstance(value, int) or least <= value <= most


_BUDGET = (
    Rule(
        "spec",
        forms.several("minAvailable", "maxUnavailable"),
        "has both minAvailable and maxUnavailable",
        breaks="{minAvailable: 1, maxUnavailable: 1}",
        takes="{minAvailable: 1}",
        advice="remove one of the two",
    ),
    share("spec.(minAvailable|maxUnavailable)"),
    share_up_to_all("spec.(minAvailable|maxUnavailable)"),
    *selector("spec.selector"),
    choice("spec.unhealthyPodEvictionPolicy", "IfHealthyBudget", "AlwaysAllow"),
)

# Classes --------------------------------------------------------------------------------------

_HIGHEST = 1_000_000_000
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def _priority(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    name, number = forms.mapping(value, "metadata").get("name"), value.get("value")
    if not isinstance(name, str) or not isinstance(number, int):
        return
    if name.startswith("system-"):
        if _SYSTEM.get(name) != number or value.get("globalDefault"):
            problem = "names that begin with 'system-' are Kubernetes' own"
            yield Broken(("metadata", "name"), {"problem": problem})
    elif number > _HIGHEST:
        yield Broken(("value",), {"problem": f"must be at most {_HIGHEST}, not {number}"})


def _overhead(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    for name, amount in value.items():
        number = amounts.number(amount)
        if not amounts.is_resource_of_containers(name):
            yield Broken(
                (name,), {"problem": f"'{name}' is not a resource of containers"}, at_key=True
            )
        elif number is not None and number < 0:
            yield Broken((name,), {"problem": f"must not be negative: {amount}"})
        elif number is not None and amounts.is_extended(name) and number % 1:
            yield Broken((name,), {"problem": f"must be a whole number, not {amount}"})


def _same_toleration(value: list[Any], _: Subject) -> Iterator[Broken]:
    seen: set[tuple[str, ...]] = set()
    for index, toleration in enumerate(value):
        if isinstance(toleration, dict):
            key = tuple(
                str(toleration.get(field) or "") for field in ("key", "operator", "value", "effect")
            )
            if key in seen:
                yield Broken((index,))
            seen.add(key)


_RUNTIME = (
    label("handler"),
    Rule(
        "overhead.podFixed",
        _overhead,
        "{problem}",
        breaks="{cpus: 1}",
        takes="{cpu: 1}",
    ),
    *labels("scheduling.nodeSelector"),
    *toleration_rules("scheduling.tolerations[*]", "{{{}}}".format),
    Rule(
        "scheduling.tolerations",
        _same_toleration,
        "is there twice",
        breaks="[{key: a, operator: Exists}, {key: a, operator: Exists}]",
        takes="[{key: a, operator: Exists}]",
        on=list,
    ),
)

_OF_CONTAINER = "name: cpu, container: a"
_OF_OBJECT = "metric: {name: a}, describedObject: {apiVersion: a/v1, kind: a, name: a}"
KINDS = (
    Kind(
        ("v1/ResourceQuota",),
        "{apiVersion: v1, kind: ResourceQuota, metadata: {name: a}, spec: {hard: {pods: 1}}}",
        _QUOTA,
    ),
    Kind(
        ("v1/LimitRange",),
        "{apiVersion: v1, kind: LimitRange, metadata: {name: a}, spec: {limits: [{type:"
        " Container}]}}",
        _LIMITS,
    ),
    Kind(
        ("autoscaling/v2/HorizontalPodAutoscaler",),
        "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec:"
        f" {{maxReplicas: 2, {_REF}, metrics: [{{type: Resource, resource: {{name: cpu, target:"
        " {type: Utilization, averageUtilization: 5}}}], behavior: {scaleUp: {policies: [{type:"
        " Pods, value: 1, periodSeconds: 5}]}}}}",
        _SCALER_2,
        examples={
            f"spec.metrics[*].{place}": "{apiVersion: autoscaling/v2, kind:"
            " HorizontalPodAutoscaler, metadata: {name: a}, spec: {maxReplicas: 2,"
            f" {_REF}, metrics: [{{type: {kind}, {field}: {{{fields}, target: {{type: AverageValue,"
            " averageValue: 1}}}]}}"
            for place, kind, field, fields in (
                ("containerResource", "ContainerResource", "containerResource", _OF_CONTAINER),
                ("(pods|object", "Pods", "pods", "metric: {name: a}"),
                ("object", "Object", "object", _OF_OBJECT),
            )
        },
    ),
    Kind(
        ("autoscaling/v1/HorizontalPodAutoscaler",),
        "{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec:"
        f" {{maxReplicas: 2, {_REF}}}}}",
        (*_SCALER, at_least("spec.targetCPUUtilizationPercentage", 1)),
    ),
    Kind(
        ("policy/v1/PodDisruptionBudget",),
        "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a}, spec:"
        " {minAvailable: 1, selector: {matchLabels: {a: b}}}}",
        _BUDGET,
        form="loose",
    ),
    Kind(
        ("scheduling.k8s.io/v1/PriorityClass",),
        "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a}, value: 5}",
        (
            Rule(
                "",
                _priority,
                "{problem}",
                breaks="{value: 1000000001}",
                takes="{value: 1000000000}",
            ),
            choice("preemptionPolicy", "Never", "PreemptLowerPriority"),
        ),
    ),
    Kind(
        ("coordination.k8s.io/v1/Lease",),
        "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a}, spec: {}}",
        (at_least("spec.leaseDurationSeconds", 1), at_least("spec.leaseTransitions", 0)),
    ),
    Kind(
        ("node.k8s.io/v1/RuntimeClass",),
        "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: a}, handler: a}",
        _RUNTIME,
    ),
)
