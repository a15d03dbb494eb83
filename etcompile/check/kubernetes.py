"""Kubernetes objects and Pod templates held against the API of one Kubernetes version.

The schemas are the bundle in `schemas/kubernetes/` (its README says where they come from): a
small file a version with what every run needs, and `rest.json` with all other kinds, which is
opened only when one of them appears. What no schema can say about a Pod is in `pods`.
"""

import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from etcompile import data
from etcompile.check.corrections import with_fix
from etcompile.check.explain import Fault, Problem, faults
from etcompile.check.validator import Validator
from etcompile.diagnostics import Diagnostic, Location, Source, ValuePath, codes, diagnose
from etcompile.k8s.objects import without_nulls
from etcompile.k8s.path import value_at
from etcompile.model import quantity

_POD_TEMPLATE = "core.v1.PodTemplateSpec"
_PROBLEMS: dict[Problem, str] = {
    "missing": "needs '{field}'",
    "type": "must be {expected}, not {found}",
    "choice": "must be {expected}, not {found}",
    "range": "must be {expected}, not {found}",
    "form": "is not {expected}",  # the value may be a secret
    "empty": "must not be empty",
    "other": "{problem}",
}
_BASE64_ADVICE = "encode it with base64; in a Secret, write it under stringData instead"


def versions() -> tuple[str, ...]:
    """The Kubernetes versions that can be checked against, newest last: `1.25` and so on."""
    return _versions()


def check_pod_template(source: Source, path: ValuePath, version: str) -> list[Diagnostic]:
    """What a Kubernetes version has against a Pod template.

    Args:
        source: The document that holds it.
        path: Where; a template that is not there has no faults.
        version: One of `versions()`.

    Returns:
        An error for each fault, at its place.

    Raises:
        ValueError: the version is unknown.
    """
    return [
        diagnostic(source, fault, version) for fault in template_faults(source.data, path, version)
    ]


def template_faults(value: Any, path: ValuePath, version: str) -> list[Fault]:
    """The same, as faults.

    Args:
        value: The document that holds the template, JSON.
        path: Where.
        version: One of `versions()`.
    """
    template = value_at(value, path)
    if template is None:
        return []
    return _faults(template, version, _POD_TEMPLATE, root="the Pod template", at=path)


def check_claim_template(source: Source, path: ValuePath, version: str) -> list[Diagnostic]:
    """What the API server would have against a claim that is made of a template.

    Args:
        source: The document that holds it.
        path: Where it has the template: a PersistentVolumeClaim without apiVersion and kind.
        version: One of `versions()`.

    Returns:
        An error for each fault, at its place.

    Raises:
        ValueError: the version is unknown.
    """
    definition = _definition(version, "v1", "PersistentVolumeClaim")
    template = value_at(source.data, path)
    if definition is None or template is None:
        return []
    found = _faults(template, version, definition, root="the claim", at=path)
    return [diagnostic(source, fault, version) for fault in found]


def check_object(source: Source, version: str) -> list[Diagnostic]:
    """What a Kubernetes version has against an object, whatever its status says.

    Args:
        source: The object: a mapping with apiVersion and kind.
        version: One of `versions()`.

    Returns:
        An error for each fault, at its place; for a kind that this version does not have, in
        this apiVersion, one warning.

    Raises:
        ValueError: the version is unknown.
    """
    return _object(source.data, version, source)


def check_types(source: Source, version: str) -> list[Diagnostic]:
    """Where an object of a cluster has values of other types than the API gives them.

    What a server of any version gave out has none, though it may have fields and choices that
    this version does not know.

    Args:
        source: The object: a mapping with apiVersion and kind.
        version: One of `versions()`.

    Returns:
        An error for each fault, at its place; none for a kind that this version does not have.
    """
    value: dict[str, Any] = dict(source.data)
    status = value.pop("status", None)
    found: list[Diagnostic] = []
    if status is not None and not isinstance(status, dict):
        facts = {"where": "status", "problem": "must be a mapping", "advice": ""}
        found.append(diagnose(codes.KUBERNETES_INVALID, source.locate(("status",)), **facts))
    if definition := _definition(version, value["apiVersion"], value["kind"]):
        faults = _faults(value, version, definition, root=value["kind"])
        found += [diagnostic(source, fault, version) for fault in faults if fault.problem == "type"]
    return found


def check_value(value: dict[str, Any], version: str) -> list[Diagnostic]:
    """The same as `check_object` for an object that was never written down.

    Args:
        value: The object: a mapping with apiVersion and kind.
        version: One of `versions()`.

    Returns:
        The same diagnostics, without locations.

    Raises:
        ValueError: the version is unknown.
    """
    return _object(value, version, None)


def _object(value: dict[str, Any], version: str, source: Source | None) -> list[Diagnostic]:
    definition = _definition(version, value["apiVersion"], value["kind"])
    if definition is None:
        facts = {"kind": value["kind"], "version": value["apiVersion"], "kubernetes": version}
        return [diagnose(codes.KUBERNETES_UNKNOWN_KIND, _place(source, ("kind",)), **facts)]
    # A status is what some cluster wrote, maybe of another version; it never leaves etcompile.
    hidden = {"status"}
    if isinstance(value.get("sops"), dict):
        hidden |= {"sops", "data", "stringData"}  # what it holds, only SOPS can tell
    declared = {field: part for field, part in value.items() if field not in hidden}
    found = _faults(declared, version, definition, root=value["kind"])
    problems = [diagnostic(source, fault, version) for fault in found]
    return problems or list(_nameless(value, source))


def _nameless(value: dict[str, Any], source: Source | None) -> Iterator[Diagnostic]:
    """An object without a name, which no schema forbids and every API server refuses."""
    # A review is a question to the API server and a list holds objects: neither is stored.
    if value["kind"].endswith(("Review", "List")) or value["kind"] == "TokenRequest":
        return
    metadata = value.get("metadata") or {}
    if not metadata.get("name") and not metadata.get("generateName"):
        place = _place(source, ("metadata",), at_key=True)
        facts = {"where": "metadata", "problem": "needs 'name'", "advice": ""}
        yield diagnose(codes.KUBERNETES_INVALID, place, **facts)


def _faults(
    value: object, version: str, definition: str, *, root: str, at: ValuePath = ()
) -> list[Fault]:
    validator = _validator(version, definition)
    # Valid with its nulls is valid without: the bundle has no type that null is of.
    if validator.is_valid(value):
        return []
    return faults(validator, without_nulls(value), root=root, at=at)


def diagnostic(source: Source | None, fault: Fault, version: str) -> Diagnostic:
    """The error that a fault of a Pod template or an object is."""
    told = _told(source, fault, version)
    if fault.problem == "unknown" and _elsewhen(fault.definition or "", fault.facts["field"]):
        return told  # it is spelt as it should be
    return with_fix(told, fault, source)


def _told(source: Source | None, fault: Fault, version: str) -> Diagnostic:
    path, at_key = fault.place
    place = _place(source, path, at_key=at_key)
    facts = dict(fault.facts)
    # A Secret that a program passes has no text that says what to hide.
    of_secret = source is not None and value_at(source.data, ("kind",)) == "Secret"
    if "found" in facts and (of_secret or (place is not None and place.hidden)):
        facts["found"] = "(hidden)"
    if fault.problem == "unknown":
        kind = (fault.definition or "").rpartition(".")[2] or facts["where"]
        if fault.definition:
            facts["advice"] = _elsewhen(fault.definition, facts["field"]) or facts["advice"]
        return diagnose(codes.KUBERNETES_UNKNOWN_FIELD, place, **facts, kind=kind, version=version)
    if fault.definition == "byte":
        facts["advice"] = _BASE64_ADVICE
    problem = _PROBLEMS[fault.problem].format_map(facts)
    if fault.definition == "api.resource.Quantity" and fault.problem == "form":
        problem = f"'{facts['found']}' is not a quantity"
        facts["advice"] = _meant_quantity(facts["found"])
    return diagnose(
        codes.KUBERNETES_INVALID,
        place,
        where=facts["where"],
        problem=problem,
        advice=facts["advice"],
    )


def _meant_quantity(found: str) -> str:
    meant = quantity.probably(found)
    return f"did you mean '{meant}'?" if meant else "for example 500m, 2, 4Gi"


def _place(source: Source | None, path: ValuePath, *, at_key: bool = False) -> Location | None:
    return source.locate(path, key=at_key) if source else None


def _elsewhen(definition: str, field: str) -> str:
    """Which other Kubernetes versions know the field; nothing for one that none knows."""
    known = [
        version
        for version in versions()
        if field in _bundle(version)["$defs"].get(definition, {}).get("properties", ())
    ]
    if not known:
        return ""
    if known[-1] == versions()[-1]:
        return f"Kubernetes has it since {known[0]}: set kubernetes-version to {known[0]} or later"
    return f"only Kubernetes {known[0]} to {known[-1]} have it; remove it"


def pod_template_schema(version: str) -> Mapping[str, Any]:
    """The JSON Schema of a Pod template; not to be changed.

    Args:
        version: One of `versions()`.

    Raises:
        ValueError: the version is unknown.
    """
    return _validator(version, _POD_TEMPLATE).rules


def object_schema(api_version: str, kind: str, version: str) -> Mapping[str, Any] | None:
    """The JSON Schema of a built-in kind; None if this version has none.

    Raises:
        ValueError: the version is unknown.
    """
    definition = _definition(version, api_version, kind)
    return None if definition is None else _validator(version, definition).rules


# The bundle -----------------------------------------------------------------------------------


@functools.cache
def _versions() -> tuple[str, ...]:
    files = (re.fullmatch(r"1\.(\d+)\.json", entry.name) for entry in _folder().iterdir())
    return tuple(f"1.{minor}" for minor in sorted(int(name[1]) for name in files if name))


def _folder() -> Any:
    return data.folder("schemas") / "kubernetes"


@functools.cache
def _bundle(version: str) -> dict[str, Any]:
    if version not in _versions():
        known = f"{_versions()[0]} to {_versions()[-1]}"
        raise ValueError(f"no schemas of Kubernetes {version}; there are {known}")
    return _read(f"{version}.json")


@functools.cache
def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((_folder() / name).read_text(encoding="utf-8"))
    return content


def _rest(table: str, version: str) -> dict[str, Any]:
    """A table of `rest.json` as of a version: its entries are [first, last, value]."""
    order = _versions()
    here = order.index(version)
    return {
        name: value
        for name, spans in _read("rest.json")[table].items()
        for first, last, value in spans
        if order.index(first) <= here <= order.index(last)
    }


def _definition(version: str, api_version: str, kind: str) -> str | None:
    """The definition of a kind; None if this version has none."""
    core: dict[str, str] = _bundle(version)["kinds"]
    name = f"{api_version}/{kind}"
    if name in core:
        return core[name]
    group = api_version.rpartition("/")[0]
    if "." in group and not group.endswith(".k8s.io"):
        return None  # a custom resource: Kubernetes' own groups look otherwise
    return _rest_kinds(version).get(name)


@functools.cache
def _rest_kinds(version: str) -> dict[str, str]:
    return _rest("kinds", version)


@functools.cache
def _validator(version: str, definition: str) -> Validator:
    definitions = _bundle(version)["$defs"]
    if definition not in definitions:
        definitions = {**definitions, **_rest_definitions(version)}
    return Validator({"$ref": f"#/$defs/{definition}", "$defs": definitions})


@functools.cache
def _rest_definitions(version: str) -> dict[str, Any]:
    return _rest("definitions", version)
