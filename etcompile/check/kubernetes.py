"""Check Kubernetes objects and Pod templates against the API of one Kubernetes version.

The schemas are the bundle in `schemas/kubernetes/` (its README says where they come from): a small
file per version with what every run needs, and `rest.json` with all other kinds, which is opened
only for one of them. `pod_rules` checks what no schema can say about a Pod.
"""

import functools
import json
import re
from typing import Any

from etcompile import data
from etcompile.check.faults import Fault, Problem, faults, with_fix
from etcompile.check.json_schemas import Validator, needed_definitions
from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.k8s import quantity
from etcompile.k8s.path import value_at

_FOLDER = data.folder("schemas") / "kubernetes"
_METADATA = "meta.v1.ObjectMeta"
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


@functools.cache
def versions() -> tuple[str, ...]:
    """Return the Kubernetes versions that can be checked against, newest last: `1.25` and so on."""
    files = (re.fullmatch(r"1\.(\d+)\.json", entry.name) for entry in _FOLDER.iterdir())
    return tuple(f"1.{minor}" for minor in sorted(int(name[1]) for name in files if name))


def template_faults(value: Any, path: ValuePath, version: str) -> list[Fault]:
    template = value_at(value, path)
    if template is None:
        return []
    return faults(_validator(version, _POD_TEMPLATE), template, root="the Pod template", at=path)


def check_claim_template(source: Source, path: ValuePath, version: str) -> list[Diagnostic]:
    definition = _definition(version, "v1", "PersistentVolumeClaim")
    template = value_at(source.data, path)
    if definition is None or template is None:
        return []
    problems = faults(_validator(version, definition), template, root="the claim", at=path)
    return [diagnostic(source, fault, version) for fault in problems]


def check_object(source: Source, version: str) -> list[Diagnostic]:
    """Report the faults of an object in a Kubernetes version, ignoring its status.

    A kind that this version does not have, in this apiVersion, is one warning.
    """
    value = source.data
    kind = value["kind"]
    definition = _definition(version, value["apiVersion"], kind)
    if definition is None:
        facts = {"kind": kind, "version": value["apiVersion"], "kubernetes": version}
        return [diagnose(codes.KUBERNETES_UNKNOWN_KIND, source.locate(("kind",)), **facts)]
    # A cluster of another version may have written the status, and it never leaves etcompile.
    hidden = {"status"}
    if isinstance(value.get("sops"), dict):
        hidden |= {"sops", "data", "stringData"}  # only SOPS can check the encrypted data
    declared = {field: part for field, part in value.items() if field not in hidden}
    problems = faults(_validator(version, definition), declared, root=kind)
    if problems:
        return [diagnostic(source, fault, version) for fault in problems]
    return check_metadata(source, version)


def check_metadata(source: Source, version: str) -> list[Diagnostic]:
    metadata = source.data.get("metadata") or {}
    of_metadata = _validator(version, _METADATA)
    by_schema = faults(of_metadata, metadata, root="metadata", at=("metadata",))
    mistyped = (fault for fault in by_schema if fault.problem == "type")
    problems = [diagnostic(source, fault, version) for fault in mistyped]
    names = ("name", "generateName")
    if not isinstance(metadata, dict) or any(metadata.get(n) not in (None, "") for n in names):
        return problems
    # No schema forbids an object without a name, and every API server refuses it.
    facts = {"where": "metadata", "problem": "needs 'name'", "advice": ""}
    place = source.locate(("metadata", "name") if metadata else ("metadata",))
    return [*problems, diagnose(codes.KUBERNETES_INVALID, place, **facts)]


def check_types(source: Source, version: str) -> list[Diagnostic]:
    """Report values of a live object with other types than the API's.

    A server of any version may return fields, choices and kinds that this version does not know,
    but no wrong types.
    """
    value = source.data
    if not isinstance(value.get("status"), dict | None):
        facts = {"where": "status", "problem": "must be a mapping", "advice": ""}
        return [diagnose(codes.KUBERNETES_INVALID, source.locate(("status",)), **facts)]
    definition = _definition(version, value["apiVersion"], value["kind"])
    declared = {field: part for field, part in value.items() if field != "status"}
    if definition is None:
        return []
    problems = faults(_validator(version, definition), declared, root=value["kind"])
    return [diagnostic(source, fault, version) for fault in problems if fault.problem == "type"]


def diagnostic(source: Source, fault: Fault, version: str) -> Diagnostic:
    path, at_key = fault.place
    place = source.locate(path, key=at_key)
    facts = dict(fault.facts)
    # The text of a Secret from a program has no line that says what to hide.
    if "found" in facts and (place.hidden or value_at(source.data, ("kind",)) == "Secret"):
        facts["found"] = "(hidden)"
    if fault.problem == "unknown":
        definition, field = fault.definition or "", facts["field"]
        known = [
            version
            for version in versions()
            if field in _bundle(version)["$defs"].get(definition, {}).get("properties", ())
        ]
        elsewhen = ""
        if known and known[-1] == versions()[-1]:
            since = f"set kubernetes-version to {known[0]} or later"
            elsewhen = f"Kubernetes has it since {known[0]}: {since}"
        elif known:
            elsewhen = f"only Kubernetes {known[0]} to {known[-1]} have it; remove it"
        facts["advice"] = elsewhen or facts["advice"]
        facts |= {"kind": definition.rpartition(".")[2] or facts["where"], "version": version}
        problem = diagnose(codes.KUBERNETES_UNKNOWN_FIELD, place, **facts)
        # A field of another version is spelt correctly.
        return problem if elsewhen else with_fix(problem, fault, source)
    what = _PROBLEMS[fault.problem].format_map(facts)
    if fault.definition == "byte":
        facts["advice"] = _BASE64_ADVICE
    elif fault.definition == "api.resource.Quantity" and fault.problem == "form":
        what = f"'{facts['found']}' is not a quantity"
        meant = quantity.probably(facts["found"])
        facts["advice"] = f"did you mean '{meant}'?" if meant else "for example 500m, 2, 4Gi"
    said = {"where": facts["where"], "problem": what, "advice": facts["advice"]}
    return with_fix(diagnose(codes.KUBERNETES_INVALID, place, **said), fault, source)


# The bundle -----------------------------------------------------------------------------------


@functools.cache
def _bundle(version: str) -> dict[str, Any]:
    if version not in versions():
        known = f"{versions()[0]} to {versions()[-1]}"
        raise ValueError(f"no schemas of Kubernetes {version}; there are {known}")
    return _read(f"{version}.json")


@functools.cache
def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((_FOLDER / name).read_text(encoding="utf-8"))
    return content


@functools.cache
def _rest(table: str, version: str) -> dict[str, Any]:
    """Return a table of `rest.json` as of a version: its entries are [first, last, value]."""
    order = versions()
    here = order.index(version)
    return {
        name: value
        for name, spans in _read("rest.json")[table].items()
        for first, last, value in spans
        if order.index(first) <= here <= order.index(last)
    }


def _definition(version: str, api_version: str, kind: str) -> str | None:
    core: dict[str, str] = _bundle(version)["kinds"]
    name = f"{api_version}/{kind}"
    if name in core:
        return core[name]
    group = api_version.rpartition("/")[0]
    if "." in group and not group.endswith(".k8s.io"):
        return None  # a custom resource; Kubernetes' groups have no dot or end in .k8s.io
    return _rest("kinds", version).get(name)


@functools.cache
def _validator(version: str, definition: str) -> Validator:
    definitions = _bundle(version)["$defs"]
    if definition not in definitions:
        definitions = {**definitions, **_rest("definitions", version)}
    rules = {"$ref": f"#/$defs/{definition}"}
    return Validator({**rules, "$defs": needed_definitions(rules, definitions)})
