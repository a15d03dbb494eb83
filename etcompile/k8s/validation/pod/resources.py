"""Amounts of resources, of containers and of a Pod (validateResourceRequirements)."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from etcompile.k8s.names import is_key, is_label, is_subdomain
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.pod.places import CONTAINER, Value, is_sidecar, spec_of
from etcompile.k8s.validation.quantities import negative, number
from etcompile.k8s.validation.rule import Broken, Rule, Subject
from etcompile.model import quantity

_RESOURCES = f"{CONTAINER}.resources"
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_HUGE = "hugepages-"
_OF_PODS = ("cpu", "memory")


def is_native(name: str) -> bool:
    """Whether Kubernetes itself accounts for a resource; a device plugin does for others."""
    if "/" in name:
        return "kubernetes.io/" in name
    return name in _STANDARD or name.startswith(_HUGE)


def _is_extended(name: str) -> bool:
    return "/" in name and not is_native(name)


def _is_shared(name: str) -> bool:
    """Whether more of it may be asked for than there is."""
    return is_native(name) and not name.startswith(_HUGE)


def amounts(resources: Any) -> Iterator[tuple[str, str, Any]]:
    """The limits and requests: field, resource, amount."""
    for field in ("limits", "requests"):
        for name, amount in forms.mapping(resources, field).items():
            yield field, name, amount


def _negatives(resources: Value, subject: Subject) -> Iterator[Broken]:
    for field, name, amount in amounts(resources):
        if negative(amount, subject):
            yield Broken((field, name))


def _unknown(resources: Value, _: Subject) -> Iterator[Broken]:
    for field, name, _amount in amounts(resources):
        if "/" not in name and not is_native(name):
            yield Broken((field, name), {"value": name}, at_key=True)


def _bad_name(resources: Value, _: Subject) -> Iterator[Broken]:
    for field, name, _amount in amounts(resources):
        quota = f"requests.{name}"
        if "/" in name or name.startswith(_HUGE):
            extended = _is_extended(name)
            sound = is_key(name) and not (extended and name.startswith("requests."))
            if not sound or (extended and not is_key(quota)):
                yield Broken((field, name), {"value": name}, at_key=True)


def _fractions(resources: Value, _: Subject) -> Iterator[Broken]:
    for field, name, amount in amounts(resources):
        found = number(amount)
        if found is not None and _is_extended(name) and found != found.to_integral_value():
            yield Broken((field, name))


def _requests(resources: Value) -> Iterator[tuple[str, Decimal, Decimal | None, Any]]:
    """Each request that is a number: resource, amount, the limit's number, the limit."""
    limits = forms.mapping(resources, "limits")
    for name, amount in forms.mapping(resources, "requests").items():
        limit = limits.get(name)
        wanted, most = number(amount), number(limit)
        if wanted is not None and (limit is None or (most is not None and most >= 0)):
            yield name, wanted, most, limit


def _no_limit(resources: Value, _: Subject) -> Iterator[Broken]:
    for name, _wanted, most, _limit in _requests(resources):
        if most is None and not _is_shared(name):
            yield Broken(("requests", name), {"name": name})


def _not_equal(resources: Value, _: Subject) -> Iterator[Broken]:
    for name, wanted, most, limit in _requests(resources):
        if most is not None and not _is_shared(name) and wanted != most:
            yield Broken(("requests", name), {"limit": limit})


def _above(resources: Value, _: Subject) -> Iterator[Broken]:
    for name, wanted, most, limit in _requests(resources):
        if most is not None and _is_shared(name) and wanted > most:
            yield Broken(("requests", name), {"limit": limit})


def _pages_alone(resources: Value, _: Subject) -> Iterator[Broken]:
    names = {name for _, name, _amount in amounts(resources)}
    if names.isdisjoint(_OF_PODS) and any(name.startswith(_HUGE) for name in names):
        yield Broken(at_key=True)


def _parts_of_pages(resources: Value, _: Subject) -> Iterator[Broken]:
    for field, name, amount in amounts(resources):
        if not name.startswith(_HUGE):
            continue
        size, wanted = quantity.number(name.removeprefix(_HUGE)), number(amount)
        if size is None or size <= 0 or size != size.to_integral_value():
            yield Broken((field, name), {"size": f"a page size, which '{name}' does not name"})
        elif wanted is not None and wanted % size:
            yield Broken((field, name), {"size": name.removeprefix(_HUGE)})


def _unknown_claim(spec: Value, _: Subject) -> Iterator[Broken]:
    known = {str(claim.get("name")) for _, claim in forms.mappings(spec, "resourceClaims")}
    for field in ("initContainers", "containers"):
        for index, container in forms.mappings(spec, field):
            resources = forms.mapping(container, "resources")
            for number_, claim in forms.mappings(resources, "claims"):
                if str(claim.get("name")) not in known:
                    yield Broken((field, index, "resources", "claims", number_, "name"))


def _same_claim(resources: Value, _: Subject) -> Iterator[Broken]:
    seen: list[tuple[Any, Any]] = []
    for index, claim in forms.mappings(resources, "claims"):
        name, request = claim.get("name"), claim.get("request") or None
        clash = [r for n, r in seen if n == name and (r == request or r is None or request is None)]
        if clash:
            yield Broken(("claims", index, "name"))
        seen.append((name, request))


def _claim_sources(claim: Value, _: Subject) -> bool:
    return len(forms.given(claim, ("resourceClaimName", "resourceClaimTemplateName"))) != 1


def _never_restarted(spec: Value, _: Subject) -> Iterator[Broken]:
    if spec.get("restartPolicy") != "Never":
        return
    for field in ("initContainers", "containers"):
        for index, container in forms.mappings(spec, field):
            for place, policy in forms.mappings(container, "resizePolicy"):
                if policy.get("restartPolicy") == "RestartContainer":
                    yield Broken((field, index, "resizePolicy", place, "restartPolicy"))


# Of the whole Pod -------------------------------------------------------------------------------


def _not_of_pods(resources: Value, _: Subject) -> Iterator[Broken]:
    for field, name, _amount in amounts(resources):
        if name not in _OF_PODS and not name.startswith(_HUGE):
            yield Broken((field, name), {"value": name}, at_key=True)


def _less_than_containers(resources: Value, subject: Subject) -> Iterator[Broken]:
    """All containers together may not ask for more than their Pod does."""
    wanted = _together(spec_of(subject), defaulted=subject.pod)
    requests, limits = forms.mapping(resources, "requests"), forms.mapping(resources, "limits")
    for name, total in wanted.items():
        field, given = ("requests", requests) if name in requests else ("limits", limits)
        if name not in given or (field == "limits" and not (subject.pod and name in _OF_PODS)):
            continue
        most = number(given[name])
        if most is not None and total > most:
            yield Broken((field, name), {"total": f"{total.normalize():f}"})


def _together(spec: Value, *, defaulted: bool) -> Mapping[str, Decimal]:
    """What the containers of a Pod request at any one time, by resource."""
    running: dict[str, Decimal] = {}
    peak: dict[str, Decimal] = {}
    for _, container in forms.mappings(spec, "initContainers"):
        own = _own(container, defaulted=defaulted)
        for name, amount in own.items():
            peak[name] = max(peak.get(name, Decimal()), running.get(name, Decimal()) + amount)
            if is_sidecar(container):
                running[name] = running.get(name, Decimal()) + amount
    for _, container in forms.mappings(spec, "containers"):
        for name, amount in _own(container, defaulted=defaulted).items():
            running[name] = running.get(name, Decimal()) + amount
    return {
        name: max(running.get(name, Decimal()), peak.get(name, Decimal()))
        for name in running | peak
    }


def _own(container: Value, *, defaulted: bool) -> dict[str, Decimal]:
    """What a container requests; of a Pod, the API server requests a limit that stands alone."""
    resources = forms.mapping(container, "resources")
    limits = forms.mapping(resources, "limits") if defaulted else {}
    both = {**limits, **forms.mapping(resources, "requests")}
    found = {name: number(amount) for name, amount in both.items()}
    return {name: amount for name, amount in found.items() if amount is not None}


def _pages_without_limit(resources: Value, subject: Subject) -> Iterator[Broken]:
    for broken in _no_limit(resources, subject):
        if broken.path[-1] in (name for name in resources["requests"] if name.startswith(_HUGE)):
            yield broken


def _overhead(spec: Value, subject: Subject) -> Iterator[Broken]:
    """What a RuntimeClass adds has the form of limits (validateOverhead)."""
    overhead = forms.mapping(spec, "overhead")
    resources = {"limits": overhead}
    for broken in (*_unknown(resources, subject), *_bad_name(resources, subject)):
        name = str(broken.path[-1])
        problem = f"'{name}' is not a resource of containers"
        yield Broken(("overhead", name), {"problem": problem}, at_key=True)
    for broken in (*_negatives(resources, subject), *_fractions(resources, subject)):
        name = str(broken.path[-1])
        problem = f"must be a whole number of at least 0, not {overhead[name]}"
        yield Broken(("overhead", name), {"problem": problem})


def _limit_above_pod(spec: Value, _: Subject) -> Iterator[Broken]:
    most = forms.mapping(spec, "resources", "limits")
    for index, container in forms.mappings(spec, "containers"):
        for name, amount in forms.mapping(container, "resources", "limits").items():
            own, whole = number(amount), number(most.get(name))
            if own is not None and whole is not None and own > whole:
                path = ("containers", index, "resources", "limits", name)
                yield Broken(path, {"limit": most[name]})


_CLAIMED = "{resourceClaims: [{name: gpu, resourceClaimName: a}], containers: [{name: a, image: a:1"
_NAMES_ADVICE = (
    f"Kubernetes' own are {', '.join(_STANDARD)} and hugepages-*;"
    " others have a domain: example.com/x"
)


def _limits(text: str) -> str:
    return f"resources: {{limits: {{{text}}}}}"


def _rules(at: str, *, since: int = 0) -> tuple[Rule, ...]:
    """The rules for the amounts at a place."""
    return (
        Rule(
            at,
            _negatives,
            "must not be negative: {value}",
            _limits("cpu: -2"),
            _limits("cpu: 2"),
            since=since,
        ),
        Rule(
            at,
            _not_equal,
            "must be equal to the limit {limit}, not {value}",
            "resources: {limits: {cpu: 1, hugepages-2Mi: 4Mi}, requests: {hugepages-2Mi: 2Mi}}",
            "resources: {limits: {cpu: 1, hugepages-2Mi: 4Mi}, requests: {hugepages-2Mi: 4Mi}}",
            since=since,
        ),
        Rule(
            at,
            _above,
            "{value} is above the limit {limit}",
            "resources: {limits: {cpu: 2}, requests: {cpu: 2500m}}",
            "resources: {limits: {cpu: 2}, requests: {cpu: 2000m}}",
            since=since,
        ),
        Rule(
            at,
            _pages_alone,
            "huge pages need cpu or memory as well",
            _limits("hugepages-2Mi: 2Mi"),
            _limits("hugepages-2Mi: 2Mi, memory: 1Gi"),
            "add memory to the limits",
            since=since,
        ),
        Rule(
            at,
            _parts_of_pages,
            "must be a multiple of {size}, not {value}",
            _limits("hugepages-2Mi: 3Mi, memory: 1Gi"),
            _limits("hugepages-2Mi: 4Mi, memory: 1Gi"),
            since=since,
        ),
    )


RULES = (
    *_rules(_RESOURCES),
    *_rules("spec.resources", since=34),
    Rule(
        _RESOURCES,
        _unknown,
        "'{value}' is not a resource of containers",
        _limits("gpu: 1"),
        _limits("example.com/gpu: 1"),
        _NAMES_ADVICE,
    ),
    Rule(
        _RESOURCES,
        _bad_name,
        "'{value}' is not a name for a resource",
        _limits("example.com/a b: 1"),
        _limits("example.com/a-b: 1"),
        _NAMES_ADVICE,
    ),
    Rule(
        _RESOURCES,
        _fractions,
        "must be a whole number, not {value}",
        _limits("example.com/gpu: 500m"),
        _limits("example.com/gpu: 1"),
    ),
    Rule(
        _RESOURCES,
        _no_limit,
        "{name} needs a limit as well as a request",
        "resources: {requests: {example.com/gpu: 1}}",
        "resources: {requests: {example.com/gpu: 1}, limits: {example.com/gpu: 1}}",
        "set resources.limits to {name}: {value} too",
    ),
    Rule(
        "spec",
        _unknown_claim,
        "no claim in spec.resourceClaims is named '{value}'",
        f"{_CLAIMED}, resources: {{claims: [{{name: other}}]}}}}]}}",
        f"{_CLAIMED}, resources: {{claims: [{{name: gpu}}]}}}}]}}",
        since=32,
    ),
    Rule(
        _RESOURCES,
        _same_claim,
        "claim '{value}' is used twice by this container",
        f"{_CLAIMED}, resources: {{claims: [{{name: gpu}}, {{name: gpu}}]}}}}]}}",
        f"{_CLAIMED}, resources: {{claims: [{{name: gpu}}]}}}}]}}",
        "remove one of the two",
        since=34,
    ),
    Rule(
        "spec.resourceClaims",
        forms.twice(),
        "another claim has the name '{value}'",
        "resourceClaims: [{name: a, resourceClaimName: a}, {name: a, resourceClaimName: b}]",
        "resourceClaims: [{name: a, resourceClaimName: a}, {name: b, resourceClaimName: b}]",
        "rename one of the two",
        on=list,
        since=34,
    ),
    Rule(
        "spec.resourceClaims[*].name",
        forms.unless(is_label),
        "'{value}' is not a DNS label",
        "resourceClaims: [{name: A_b, resourceClaimName: a}]",
        "resourceClaims: [{name: a-b, resourceClaimName: a}]",
        forms.LABEL_ADVICE,
        on=str,
        since=34,
    ),
    Rule(
        "spec.resourceClaims[*]",
        _claim_sources,
        "needs either resourceClaimName or resourceClaimTemplateName",
        "resourceClaims: [{name: a}]",
        "resourceClaims: [{name: a, resourceClaimName: a}]",
        since=34,
    ),
    Rule(
        "spec.resourceClaims[*].(resourceClaimName|resourceClaimTemplateName)",
        forms.unless(is_subdomain),
        "'{value}' is not a name",
        "resourceClaims: [{name: a, resourceClaimName: A_b}]",
        "resourceClaims: [{name: a, resourceClaimName: a-b}]",
        forms.SUBDOMAIN_ADVICE,
        on=str,
        since=34,
    ),
    Rule(
        f"{CONTAINER}.resizePolicy[*].resourceName",
        forms.one_of("cpu", "memory"),
        "must be cpu or memory, not '{value}'",
        "resizePolicy: [{resourceName: gpu, restartPolicy: NotRequired}]",
        "resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]",
        on=str,
        since=33,
    ),
    Rule(
        f"{CONTAINER}.resizePolicy[*].restartPolicy",
        forms.one_of("NotRequired", "RestartContainer"),
        "must be NotRequired or RestartContainer, not '{value}'",
        "resizePolicy: [{resourceName: cpu, restartPolicy: Never}]",
        "resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]",
        on=str,
        since=33,
    ),
    Rule(
        f"{CONTAINER}.resizePolicy",
        forms.twice(name="resourceName"),
        "another resizePolicy of this container is for {value}",
        "resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired},"
        " {resourceName: cpu, restartPolicy: NotRequired}]",
        "resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]",
        "remove one of the two",
        on=list,
        since=33,
    ),
    Rule(
        "spec",
        _never_restarted,
        "must be NotRequired, because the restartPolicy of the Pod is Never",
        "{restartPolicy: Never, containers: [{name: a, image: a:1, resizePolicy:"
        " [{resourceName: cpu, restartPolicy: RestartContainer}]}]}",
        "{restartPolicy: Never, containers: [{name: a, image: a:1, resizePolicy:"
        " [{resourceName: cpu, restartPolicy: NotRequired}]}]}",
        since=33,
        until=35,
    ),
    Rule(
        "spec.resources",
        _not_of_pods,
        "'{value}' is not a resource of Pods",
        _limits("example.com/gpu: 1"),
        _limits("cpu: 1"),
        "a Pod may have cpu, memory and hugepages-*; set others for a container",
        since=34,
        until=35,
    ),
    Rule(
        "spec.resources",
        _less_than_containers,
        "must be at least what the containers request together, {total}, not {value}",
        "{resources: {requests: {cpu: 1}}, containers:"
        " [{name: a, image: a:1, resources: {requests: {cpu: 2}}}]}",
        "{resources: {requests: {cpu: 2}}, containers:"
        " [{name: a, image: a:1, resources: {requests: {cpu: 2}}}]}",
        since=34,
    ),
    Rule(
        "spec",
        _limit_above_pod,
        "must be at most the limit of the Pod, {limit}, not {value}",
        "{resources: {limits: {cpu: 1}}, containers:"
        " [{name: a, image: a:1, resources: {requests: {cpu: 1}, limits: {cpu: 2}}}]}",
        "{resources: {limits: {cpu: 2}}, containers:"
        " [{name: a, image: a:1, resources: {requests: {cpu: 1}, limits: {cpu: 2}}}]}",
        since=34,
    ),
    Rule(
        "spec.resources.claims",
        lambda _value, _: True,
        "a Pod cannot have claims among its resources",
        "resources: {limits: {cpu: 1}, claims: [{name: a}]}",
        "resources: {limits: {cpu: 1}}",
        "use spec.resourceClaims and the resources of a container",
        on=list,
        at_key=True,
        since=34,
    ),
    Rule(
        "spec",
        lambda spec, _: spec.get("overhead") is not None and not spec.get("runtimeClassName"),
        "overhead needs a runtimeClassName, whose RuntimeClass sets it",
        "overhead: {cpu: 1}",
        "{}",
        "remove it",
        pods_only=True,
    ),
    Rule(
        "spec",
        _overhead,
        "{problem}",
        "overhead: {gpu: 1}",
        "{}",
        "remove it: the RuntimeClass sets it",
    ),
    Rule(
        "spec.resources",
        _pages_without_limit,
        "{name} needs a limit as well as a request",
        "resources: {requests: {cpu: 1, hugepages-2Mi: 2Mi}}",
        "resources: {requests: {cpu: 1, hugepages-2Mi: 2Mi}, limits: {hugepages-2Mi: 2Mi}}",
        "set resources.limits to {name}: {value} too",
        since=34,
    ),
    Rule(
        f"{_RESOURCES}.claims[*].request",
        forms.unless_empty_or(is_label),
        "'{value}' is not a DNS label",
        f"{_CLAIMED}, resources: {{claims: [{{name: gpu, request: A_b}}]}}}}]}}",
        f"{_CLAIMED}, resources: {{claims: [{{name: gpu, request: a-b}}]}}}}]}}",
        forms.LABEL_ADVICE,
        on=str,
        since=34,
    ),
)
