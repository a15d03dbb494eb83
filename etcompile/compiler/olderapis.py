"""Convert documents of older operators to the form that their kind has today.

The API versions are those of tf-operator, pytorch-operator, mxnet-operator, xgboost-operator and
mpi-operator before their kinds became `kubeflow.org/v1`. Such a document is read as a current one,
with a warning; its schema refuses fields that no longer exist.

Older operators, and tools that still write for them, have the run policy's fields directly under
`spec`, where the Training Operator's API drops them. They are moved here, with a warning, and so
are the overrides of Trainer 2.0 and 2.1.
"""

import functools
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, structs

from etcompile import frontends
from etcompile.check.document_rules import schema_rules
from etcompile.diagnostics import Diagnostic, ValuePath, codes, diagnose
from etcompile.diagnostics.diagnostic import Fix, Replace
from etcompile.frontends import Kind
from etcompile.k8s.path import mapping_at, value_at
from etcompile.load import Document
from etcompile.load.loader import relocated


class Placed(Struct, frozen=True):
    """A document with its fields where its kind reads them.

    Args:
        changes: The changes, for people: `spec.backoffLimit moves to spec.runPolicy...`.
        diagnostics: A warning, if anything changed.
    """

    document: Document
    changes: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def current(document: Document) -> Placed:
    """Return a document in its current form, for a hand-over."""
    today, _ = in_current_version(document)
    kind = frontends.find(today.api_version, today.kind)
    in_place = Placed(today) if kind is None else placed(today, kind)
    if today is document:
        return in_place
    renamed = f"apiVersion {document.api_version} becomes {today.api_version}"
    return structs.replace(in_place, changes=(renamed, *in_place.changes))


def in_current_version(document: Document) -> tuple[Document, list[Diagnostic]]:
    before, name = document.api_version or "", document.kind or ""
    if frontends.find(before, name) is not None:
        return document, []
    versions = frontends.older_versions(name)
    today = next((row.today for row in versions if row.version == before), "")
    if not today:
        return document, []
    place = document.locate(("apiVersion",))
    facts = {"kind": name, "version": before, "today": today}
    fix = Fix(f"write apiVersion: {today}", (Replace(place, today),), is_safe=True)
    warning = structs.replace(diagnose(codes.FORMER_VERSION, place, **facts), fix=fix)
    return relocated(document, {**document.data, "apiVersion": today}, {}), [warning]


def placed(document: Document, kind: Kind) -> Placed:
    """Move the run policy's fields of a Kubeflow document from `spec` to `runPolicy`.

    A field that is already in `runPolicy` takes precedence. The names of the fields are those of
    the kind's schema (reference/training-operator.md 1.1, 1.2). The document need not be valid.
    """
    spec = mapping_at(document.data, ("spec",))
    fields = _policy_fields(kind.schema)
    names = [name for name in spec if name in fields]
    before = spec.get("runPolicy", {})
    if not names or not isinstance(before, Mapping):
        return Placed(document)
    moved = {name: spec[name] for name in names if name not in before}
    rest = {name: value for name, value in spec.items() if name not in names}
    policy: ValuePath = ("spec", "runPolicy")
    sources: dict[ValuePath, ValuePath] = {(*policy, name): ("spec", name) for name in moved}
    if not before:
        sources[policy] = ("spec", names[0])
    data = {**document.data, "spec": {**rest, "runPolicy": {**before, **moved}}}
    places = _listed([f"spec.{name} to spec.runPolicy.{name}" for name in moved])
    advice = [f"move {places}"] if moved else []
    left_out = {name: f"spec.runPolicy.{name} counts" for name in names if name not in moved}
    advice += [f"remove spec.{name}: {reason}" for name, reason in left_out.items()]
    is_one = len(names) == 1
    warning = diagnose(
        codes.MISPLACED_POLICY,
        document.locate(("spec", names[0]), key=True),
        fields=_listed([f"spec.{name}" for name in names]),
        verb="stands" if is_one else "stand",
        operator=kind.operator.name if kind.operator else "operator",
        them="it" if is_one else "them",
        advice="; ".join(advice),
    )
    changes = [
        f"spec.{name} is left out: {left_out[name]}"
        if name in left_out
        else f"spec.{name} moves to spec.runPolicy.{name}"
        for name in names
    ]
    return Placed(relocated(document, data, sources), tuple(changes), (warning,))


_OVERRIDES = ("podTemplateOverrides", "podSpecOverrides")
"""The names of a TrainJob's `runtimePatches` in Trainer 2.1 and 2.0. The API server of a later
Trainer drops them, and strict clients refuse them (reference 2; T23)."""


def with_runtime_patches(job: Document) -> tuple[Document, list[Diagnostic]]:
    """Convert the overrides of a TrainJob to patches of the Jobs that they name, with a warning.

    They stay if no patch can express them: overrides of all Jobs, or next to patches.
    """
    spec = mapping_at(job.data, ("spec",))
    name = next((name for name in _OVERRIDES if name in spec), "")
    if not isinstance(spec.get(name), list) or "runtimePatches" in spec:
        return job, []
    overrides, patches = ("spec", name), ("spec", "runtimePatches")
    values = []
    sources: dict[ValuePath, ValuePath] = {patches: overrides}
    for number, override in enumerate(spec[name]):
        targets = value_at(override, ("targetJobs",))
        listed = targets if isinstance(targets, list) else ()
        jobs = [value_at(target, ("name",)) for target in listed]
        if not jobs or not all(isinstance(target, str) for target in jobs):
            return job, []
        pod = {field: value for field, value in override.items() if field != "targetJobs"}
        template = {"spec": pod} if name == "podSpecOverrides" else pod
        entries = [
            {"name": target, "template": {"spec": {"template": template}}} for target in jobs
        ]
        replicated = {"template": {"spec": {"replicatedJobs": entries}}}
        manager = f"trainer.kubeflow.org/{name.lower()}-{number}"
        values.append({"manager": manager, "trainingRuntimeSpec": replicated})
        below = (*patches, number, "trainingRuntimeSpec", "template", "spec", "replicatedJobs")
        sources[(*patches, number)] = (*overrides, number)
        for place in range(len(jobs)):
            pod_template = (*below, place, "template", "spec", "template")
            target = (*pod_template, "spec") if name == "podSpecOverrides" else pod_template
            sources[target] = (*overrides, number)
            sources[(*below, place, "name")] = (*overrides, number, "targetJobs", place, "name")
    left = {field: value for field, value in spec.items() if field != name}
    data = {**job.data, "spec": {**left, "runtimePatches": values}}
    advice = (
        "write it as spec.runtimePatches, each override as {manager: example.com/NAME,"
        " trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: TARGET_JOB, template:"
        " {spec: {template: POD_TEMPLATE}}}]}}}}"
    )
    at = job.locate(overrides, key=True)
    warning = diagnose(codes.FORMER_TRAINER, at, field=f"spec.{name}", advice=advice)
    return relocated(job, data, sources), [warning]


@functools.cache
def _policy_fields(schema: str | Path) -> frozenset[str]:
    whole = value = schema_rules(schema)
    above: frozenset[str] = frozenset()
    for step in ("spec", "runPolicy"):
        above = frozenset(value.get("properties", ()))
        value = value.get("properties", {}).get(step, {})
        while reference := value.get("$ref"):
            value = whole["$defs"][reference.rpartition("/")[2]]
    return frozenset(value.get("properties", ())) - above


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
