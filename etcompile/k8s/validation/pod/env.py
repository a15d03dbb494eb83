"""Environment variables and where they come from (ValidateEnv, ValidateEnvFrom)."""

import re
from collections.abc import Iterator

from etcompile.k8s.names import is_key, is_subdomain
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.pod.places import CONTAINER, Value, containers
from etcompile.k8s.validation.rule import Broken, Check, Rule, Subject
from etcompile.model import quantity

_ENV = f"{CONTAINER}.env[*]"
_FROM = f"{CONTAINER}.envFrom[*]"

_NAME = r"[ -<>-~]+"
"""Printable ASCII without '=': the rule since 1.32; older versions allow less."""
_STRICT_NAME = r"(?a)(?!\.\.)(?!\.$)[-._a-zA-Z][-._a-zA-Z0-9]*"
_KEY = r"(?a)[-._a-zA-Z0-9]{1,253}"
_SUBSCRIPT = r"(?s)(?P<path>[^\[]+)\['(?P<key>.*)'\]"

_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")
_NEW_SOURCES = (*_SOURCES, "fileKeyRef")
"""Before 1.35 the API server leaves a fileKeyRef out."""
_FIELDS = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.host"),
    *("spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP"),
    "status.podIPs",
)
VOLUME_FIELDS = (
    *("metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations"),
    "metadata.uid",
)
_AMOUNTS = tuple(
    f"{field}.{name}"
    for field in ("limits", "requests")
    for name in ("cpu", "memory", "ephemeral-storage")
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_BYTES = ("1", *(f"1{unit}{binary}" for unit in "kKMGTPE" for binary in ("", "i")))

NAME_ADVICE = "use letters, digits, '_', '-' and '.', and begin with a letter or '_'"


def is_map_key(text: str) -> bool:
    """Whether a text can be a key of a ConfigMap or Secret."""
    return bool(re.fullmatch(_KEY, text)) and text != "." and not text.startswith("..")


def _is_name(text: str) -> bool:
    return re.fullmatch(_NAME, text) is not None


def _is_loose_only(text: str, _: Subject) -> bool:
    return _is_name(text) and not re.fullmatch(_STRICT_NAME, text)


def _both(env: Value, _: Subject) -> bool:
    return bool(env.get("value")) and isinstance(env.get("valueFrom"), dict)


def _no_source(*names: str) -> Check:
    return lambda source, _: not forms.given(source, names)


def _only_file(source: Value, _: Subject) -> bool:
    return forms.given(source, _NEW_SOURCES) == ["fileKeyRef"]


def _file_and(source: Value, _: Subject) -> Iterator[Broken]:
    found = forms.given(source, _NEW_SOURCES)
    if len(found) > 1 and "fileKeyRef" in found:
        yield Broken((), {"found": " and ".join(found)})


def bad_field(known: tuple[str, ...]) -> Check:
    """The check that a field of a Pod can be told to its containers.

    Args:
        known: The fields that can, besides single labels and annotations.
    """

    def check(path: str, _: Subject) -> bool:
        if match := re.fullmatch(_SUBSCRIPT, path):
            key = match["key"]
            if match["path"] == "metadata.annotations":
                return not is_key(key.lower())
            return match["path"] != "metadata.labels" or not is_key(key)
        return path not in known

    return check


def bad_amount(name: str, _: Subject) -> bool:
    """Whether a text names no amount of a container that can be told to it."""
    return name not in _AMOUNTS and not name.startswith(_HUGE_PAGES)


def bad_divisor(source: Value, _: Subject) -> Iterator[Broken]:
    """A divisor is one of a few units of its resource."""
    resource, divisor = source.get("resource"), source.get("divisor")
    if divisor is None or isinstance(divisor, bool) or not isinstance(resource, str):
        return
    number = quantity.number(divisor) if isinstance(divisor, str | int | float) else None
    if number is None or number == 0 or bad_amount(resource, _):
        return
    cpu = resource.endswith(".cpu")
    units = ("1", "1m") if cpu else _BYTES
    binary = str(divisor).endswith("i")
    known = [unit for unit in units if unit == "1" or unit.endswith("i") == binary]
    if number not in {quantity.number(unit) for unit in known}:
        yield Broken(("divisor",), {"units": "1 or 1m" if cpu else "1, 1k, 1Ki, 1M, 1Mi, ..."})


def _file_volume(spec: Value, subject: Subject) -> Iterator[Broken]:
    """A file with variables lies in an emptyDir of the Pod."""
    volumes = {str(volume.get("name")): volume for _, volume in forms.mappings(spec, "volumes")}
    for at, container in containers(spec):
        for index, env in forms.mappings(container, "env"):
            name = forms.mapping(env, "valueFrom", "fileKeyRef").get("volumeName")
            if not isinstance(name, str) or name in subject.known_volumes:
                continue
            volume = volumes.get(name)
            if volume is None or volume.get("emptyDir") is None:
                yield Broken((*at, "env", index, "valueFrom", "fileKeyRef", "volumeName"))


def _is_prefix_of_subdomain(text: str) -> bool:
    return is_subdomain(f"{text[:-1]}a" if len(text) > 1 and text[-1] == "-" else text)


def _keyed(kind: str) -> tuple[Rule, ...]:
    """The rules for a variable out of a ConfigMap or a Secret."""
    at = f"{_ENV}.valueFrom.{kind}"

    def example(text: str) -> str:
        return f"env: [{{name: A, valueFrom: {{{kind}: {{{text}}}}}}}]"

    return (
        Rule(
            at,
            forms.lacks("name"),
            "needs 'name'",
            example("key: k"),
            example("name: a, key: k"),
        ),
        Rule(
            f"{at}.name",
            forms.unless_empty_or(is_subdomain),
            "'{value}' is not a name",
            example("name: A_b, key: k"),
            example("name: a-b, key: k"),
            forms.SUBDOMAIN_ADVICE,
            on=str,
        ),
        Rule(
            f"{at}.key",
            forms.unless(is_map_key),
            "'{value}' is not a key",
            example("name: a, key: k/l"),
            example("name: a, key: k.l"),
            "use letters, digits, '-', '_' and '.'",
            on=str,
        ),
    )


def _whole(kind: str) -> tuple[Rule, ...]:
    """The rules for all variables of a ConfigMap or a Secret."""
    at = f"{_FROM}.{kind}"
    return (
        Rule(
            at,
            forms.lacks("name"),
            "needs 'name'",
            f"envFrom: [{{{kind}: {{}}}}]",
            f"envFrom: [{{{kind}: {{name: a}}}}]",
        ),
        Rule(
            f"{at}.name",
            forms.unless_empty_or(_is_prefix_of_subdomain),
            "'{value}' is not a name",
            f"envFrom: [{{{kind}: {{name: A_b}}}}]",
            f"envFrom: [{{{kind}: {{name: a-b}}}}]",
            forms.SUBDOMAIN_ADVICE,
            on=str,
        ),
    )


def _from(text: str) -> str:
    return f"env: [{{name: A, valueFrom: {{{text}}}}}]"


RULES = (
    Rule(
        f"{_ENV}.name",
        forms.unless(_is_name),
        "'{value}' is not a name for an environment variable",
        "env: [{name: A=B}]",
        "env: [{name: A.B}]",
        "use printable ASCII characters without '='",
        on=str,
    ),
    Rule(
        f"{_ENV}.name",
        _is_loose_only,
        "'{value}' is not a name for an environment variable",
        "env: [{name: a/b}]",
        "env: [{name: a.b}]",
        NAME_ADVICE,
        on=str,
        until=31,
    ),
    Rule(
        _ENV,
        _both,
        "has both value and valueFrom",
        "env: [{name: A, value: a, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
        _from("fieldRef: {fieldPath: metadata.name}"),
        "remove one of the two",
    ),
    Rule(
        f"{_ENV}.valueFrom",
        forms.several(*_SOURCES),
        "takes one source, not {found}",
        _from("fieldRef: {fieldPath: metadata.name}, secretKeyRef: {name: a, key: a}"),
        _from("fieldRef: {fieldPath: metadata.name}"),
        at_key=True,
    ),
    Rule(
        f"{_ENV}.valueFrom",
        _file_and,
        "takes one source, not {found}",
        _from(
            "fieldRef: {fieldPath: metadata.name}, fileKeyRef: {volumeName: data, path: a, key: A}"
        ),
        _from("fieldRef: {fieldPath: metadata.name}"),
        at_key=True,
        since=35,
    ),
    Rule(
        f"{_ENV}.valueFrom",
        _no_source(*_NEW_SOURCES),
        f"needs one of {', '.join(_SOURCES)}",
        _from(""),
        _from("fieldRef: {fieldPath: metadata.name}"),
        at_key=True,
    ),
    Rule(
        f"{_ENV}.valueFrom",
        _only_file,
        f"needs one of {', '.join(_SOURCES)}",
        _from("fileKeyRef: {volumeName: data, path: a, key: A}"),
        _from("fieldRef: {fieldPath: metadata.name}"),
        "the API server leaves fileKeyRef out before Kubernetes 1.35",
        at_key=True,
        until=34,
    ),
    Rule(
        f"{_ENV}.valueFrom.fieldRef.fieldPath",
        bad_field(_FIELDS),
        "'{value}' is not a field that a container can be told",
        _from("fieldRef: {fieldPath: spec.containers}"),
        _from("fieldRef: {fieldPath: spec.nodeName}"),
        "use metadata.name, metadata.namespace, metadata.uid, metadata.labels['KEY'],"
        " metadata.annotations['KEY'], spec.nodeName, spec.serviceAccountName, status.hostIP"
        " or status.podIP",
        on=str,
    ),
    Rule(
        f"{_ENV}.valueFrom.fieldRef.apiVersion",
        forms.one_of("v1", ""),
        "must be v1, not '{value}'",
        _from("fieldRef: {apiVersion: v2, fieldPath: spec.nodeName}"),
        _from("fieldRef: {apiVersion: v1, fieldPath: spec.nodeName}"),
        on=str,
    ),
    Rule(
        f"{_ENV}.valueFrom.resourceFieldRef.resource",
        bad_amount,
        "'{value}' is not an amount that a container can be told",
        _from("resourceFieldRef: {resource: limits.nvidia.com/gpu}"),
        _from("resourceFieldRef: {resource: limits.cpu}"),
        f"use {', '.join(_AMOUNTS)} or hugepages",
        on=str,
    ),
    Rule(
        f"{_ENV}.valueFrom.resourceFieldRef",
        bad_divisor,
        "must be {units}, not {value}",
        _from("resourceFieldRef: {resource: limits.cpu, divisor: 2m}"),
        _from("resourceFieldRef: {resource: limits.cpu, divisor: 1m}"),
    ),
    *_keyed("configMapKeyRef"),
    *_keyed("secretKeyRef"),
    Rule(
        "spec",
        _file_volume,
        "'{value}' is not an emptyDir of this Pod",
        "containers: [{name: a, image: a:1, env: [{name: A, valueFrom: {fileKeyRef:"
        " {volumeName: none, path: a, key: A}}}]}]",
        "containers: [{name: a, image: a:1}]",
        since=35,
    ),
    Rule(
        _FROM,
        forms.lacks("configMapRef", "secretRef"),
        "needs configMapRef or secretRef",
        "envFrom: [{prefix: A}]",
        "envFrom: [{prefix: A, secretRef: {name: a}}]",
    ),
    Rule(
        _FROM,
        forms.several("configMapRef", "secretRef"),
        "takes one source, not {found}",
        "envFrom: [{configMapRef: {name: a}, secretRef: {name: a}}]",
        "envFrom: [{configMapRef: {name: a}}, {secretRef: {name: a}}]",
        "make two entries of it",
    ),
    Rule(
        f"{_FROM}.prefix",
        forms.unless_empty_or(_is_name),
        "'{value}' cannot begin the name of an environment variable",
        "envFrom: [{prefix: A=, secretRef: {name: a}}]",
        "envFrom: [{prefix: A_, secretRef: {name: a}}]",
        "use printable ASCII characters without '='",
        on=str,
    ),
    Rule(
        f"{_FROM}.prefix",
        _is_loose_only,
        "'{value}' cannot begin the name of an environment variable",
        'envFrom: [{prefix: "1", secretRef: {name: a}}]',
        "envFrom: [{prefix: A, secretRef: {name: a}}]",
        NAME_ADVICE,
        on=str,
        until=31,
    ),
    *_whole("configMapRef"),
    *_whole("secretRef"),
)
