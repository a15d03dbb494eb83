"""The API server's rules for claims of devices (dynamic resource allocation).

CEL expressions are not compiled here: whether one is sound, only the API server can tell.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from etcompile.k8s.names import is_key, is_subdomain
from etcompile.k8s.validation import claims, forms
from etcompile.k8s.validation.objects.checks import choice, label, moved, subdomain
from etcompile.k8s.validation.objects.kind import Kind
from etcompile.k8s.validation.rule import Broken, Rule, Subject

_EXACT = "requests[*].exactly"
_OTHER = "requests[*].firstAvailable[*]"


def _one_way(value: Mapping[str, Any], _: Subject) -> bool:
    return (value.get("exactly") is None) == (not value.get("firstAvailable"))


def _count(value: Mapping[str, Any], _: Subject) -> bool:
    count, mode = value.get("count"), value.get("allocationMode", "ExactCount")
    if not isinstance(count, int):
        return False
    return count != 0 if mode == "All" else mode == "ExactCount" and count < 0


def _no_expression(value: Mapping[str, Any], _: Subject) -> bool:
    return value.get("cel") is None


def _unknown_requests(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    known: set[str] = set()
    for _index, request in forms.mappings(value, "requests"):
        name = str(request.get("name"))
        known.add(name)
        known |= {
            f"{name}/{alternative.get('name')}"
            for _i, alternative in forms.mappings(request, "firstAvailable")
        }
    for field in ("constraints", "config"):
        for index, item in forms.mappings(value, field):
            for number, text in forms.texts(item, "requests"):
                if text not in known:
                    yield Broken((field, index, "requests", number))


def _no_domain(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    name = value.get("matchAttribute")
    if isinstance(name, str) and not is_key(name):
        yield Broken(("matchAttribute",), {"problem": f"'{name}' is not the name of an attribute"})
    elif isinstance(name, str) and "/" not in name:
        yield Broken(
            ("matchAttribute",), {"problem": f"'{name}' needs a domain: example.com/{name}"}
        )


def _bad_driver(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    driver = value.get("driver")
    if isinstance(driver, str) and not is_subdomain(driver):
        yield Broken(("driver",))


def _selector(path: str) -> Rule:
    return Rule(
        f"{path}.selectors[*]",
        _no_expression,
        "needs 'cel'",
        breaks="{}",
        takes="{cel: {expression: 'true'}}",
    )


def _request(path: str, name: str) -> tuple[Rule, ...]:
    def spec(fields: str) -> str:
        return f"{{{name}deviceClassName: a, {fields}}}"

    return (
        subdomain(f"{path}.deviceClassName"),
        choice(f"{path}.allocationMode", "ExactCount", "All", empty=True),
        Rule(
            path,
            _count,
            "count must be above 0, and left out where allocationMode is All",
            breaks=spec("allocationMode: All, count: 2"),
            takes=spec("allocationMode: ExactCount, count: 2"),
        ),
        _selector(path),
    )


_REQUEST = "requests: [{name: a, exactly: {deviceClassName: a}}]"
_DEVICES = (
    label("requests[*].name"),
    label(f"{_OTHER}.name"),
    Rule(
        "requests",
        forms.twice(),
        "another request has the name '{value}'",
        breaks="[{name: a, exactly: &b {deviceClassName: a}}, {name: a, exactly: *b}]",
        takes="[{name: a, exactly: &b {deviceClassName: a}}, {name: b, exactly: *b}]",
        on=list,
    ),
    Rule(
        "requests[*].firstAvailable",
        forms.twice(),
        "another request has the name '{value}'",
        breaks="[{name: a, deviceClassName: a}, {name: a, deviceClassName: a}]",
        takes="[{name: a, deviceClassName: a}, {name: b, deviceClassName: a}]",
        on=list,
    ),
    Rule(
        "requests[*]",
        _one_way,
        "needs one of exactly and firstAvailable",
        breaks="{name: a}",
        takes="{name: a, exactly: {deviceClassName: a}}",
    ),
    *_request(_EXACT, ""),
    *_request(_OTHER, "name: a, "),
    Rule(
        "",
        _unknown_requests,
        "no request has the name '{value}'",
        breaks=f"{{{_REQUEST}, constraints: [{{requests: [b], matchAttribute: a.b/c}}]}}",
        takes=f"{{{_REQUEST}, constraints: [{{requests: [a], matchAttribute: a.b/c}}]}}",
    ),
    Rule(
        "config[*].opaque",
        _bad_driver,
        "'{value}' is not the name of a driver",
        breaks="{driver: A b, parameters: {a: b}}",
        takes="{driver: a.b, parameters: {a: b}}",
        advice=forms.SUBDOMAIN_ADVICE,
    ),
    *(
        structs.replace(rule, since=34)
        for rule in (
            Rule(
                f"{_EXACT}.tolerations[*].key",
                forms.unless_empty_or(is_key),
                "'{value}' is not a valid key",
                breaks="a b",
                takes="a-b",
                advice=forms.KEY_ADVICE,
                on=str,
            ),
            choice(f"{_EXACT}.tolerations[*].operator", "Exists", "Equal", empty=True),
        )
    ),
    structs.replace(
        choice(f"{_EXACT}.tolerations[*].effect", "NoSchedule", "NoExecute", empty=True),
        since=34,
        until=35,
    ),
    Rule(
        "constraints[*]",
        _no_domain,
        "{problem}",
        breaks="{matchAttribute: a}",
        takes="{matchAttribute: a.b/c}",
    ),
)


def _claim(kind: str, spec: str, devices: str) -> str:
    return (
        f"{{apiVersion: resource.k8s.io/v1, kind: {kind}, metadata: {{name: a}}, spec: "
        f"{spec.format(f'{{devices: {{{devices}}}}}')}}}"
    )


_FIRST = "requests: [{name: a, firstAvailable: [{name: a, deviceClassName: a}]}]"
_CLAIMS = tuple(
    Kind(
        (f"resource.k8s.io/v1/{kind}",),
        _claim(kind, spec, _REQUEST),
        (*moved(_DEVICES, f"{path}.devices"), *more),
        examples={
            f"{path}.devices.requests[*].firstAvailable": _claim(kind, spec, _FIRST),
        },
    )
    for kind, spec, path, more in (
        ("ResourceClaim", "{}", "spec", ()),
        (
            "ResourceClaimTemplate",
            "{{spec: {}}}",
            "spec.spec",
            claims.metadata_rules("spec.metadata", "{{{}}}".format),
        ),
    )
)
KINDS = (
    *_CLAIMS,
    Kind(
        ("resource.k8s.io/v1/DeviceClass",),
        "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: a}, spec: {}}",
        (
            _selector("spec"),
            Rule(
                "spec.config[*].opaque",
                _bad_driver,
                "'{value}' is not the name of a driver",
                breaks="{driver: A b, parameters: {a: b}}",
                takes="{driver: a.b, parameters: {a: b}}",
                advice=forms.SUBDOMAIN_ADVICE,
            ),
        ),
    ),
)
