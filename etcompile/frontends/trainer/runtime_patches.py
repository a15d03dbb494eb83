"""Apply and check `runtimePatches` of a TrainJob, which change its runtime's Pod templates.

See reference/trainer-v2.md 4.3. A patch is a strategic merge patch: lists of named entries are
merged by entry, all others replaced. The API server refuses two entries with one name in such a
list, and a merge would lose one of them. Overrides of older versions become patches.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.frontends.kind import Prepared
from etcompile.frontends.notes import no_effect, not_compiled, unused
from etcompile.frontends.trainer.training_run import JOB_SET, POD
from etcompile.k8s.listkeys import POD_LISTS, key_values
from etcompile.k8s.path import dotted, mapping_at, value_at
from etcompile.k8s.strategic import merged
from etcompile.k8s.traced import Traced
from etcompile.model import Origin

_PATCHES: ValuePath = ("spec", "runtimePatches")
_PATCHED: ValuePath = ("trainingRuntimeSpec", "template")
_TEMPLATE: ValuePath = ("spec", "template")
_OF_THE_JOB = ("node", "dataset-initializer", "model-initializer")
"""Containers whose variables only the TrainJob may set."""
_KEYS: Mapping[str, tuple[str, ...]] = {
    **POD_LISTS,
    "dependsOn": ("name",),
    "replicatedJobs": ("name",),
    "runtimePatches": ("manager",),
    "targets": ("jobName",),
}
"""The fields that identify the entries of a list, by the list's name."""
_KEYS_IN_PATCHES = {**_KEYS, "volumeMounts": ("name",)}
"""The same for patches of a TrainJob, which may mount each volume once."""


def patched(job: Source, runtime: Source) -> Source:
    if not _patches(job):
        return runtime
    value = Traced(runtime.data, runtime)
    jobs = (*JOB_SET, "replicatedJobs")
    names = [replicated["name"] for replicated in value_at(runtime.data, jobs)]
    for number in range(len(_patches(job))):
        patch = Traced(job.data, job).at((*_PATCHES, number, *_PATCHED))
        if patch is None:
            continue
        changes: list[tuple[ValuePath, Traced]] = []
        if metadata := patch.part("metadata"):
            changes.append((_TEMPLATE, patch.with_fields({"metadata": metadata})))
        entries = patch.at(("spec", "replicatedJobs"))
        for entry in entries.items() if entries else ():
            if template := entry.part("template"):
                path = (*jobs, names.index(entry.value["name"]), "template")
                changes.append((path, template))
        for path, changed in changes:
            merge = partial(
                merged,
                patch=changed,
                kind="TrainingRuntime",
                at=path,
                new_first=True,
                directives=False,
            )
            value = value.changed(path, merge)
    return value


def problems(job: Source, runtime: Source) -> list[Diagnostic]:
    """Report patches that cannot be merged: duplicate entries; else missing targets."""
    twice = [
        *_duplicates(Origin(job, ("spec",)), job.data["spec"], _KEYS_IN_PATCHES),
        *_duplicates(Origin(runtime, ("spec",)), runtime.data["spec"], _KEYS),
    ]
    if twice:
        return twice
    missing: list[Diagnostic] = []
    jobs = {
        replicated["name"]: value_at(replicated, POD)
        for replicated in value_at(runtime.data, (*JOB_SET, "replicatedJobs"))
    }
    for number, patch in enumerate(_patches(job)):
        origin = Origin(job, (*_PATCHES, number, *_PATCHED, "spec", "replicatedJobs"))
        entries = value_at(patch, (*_PATCHED, "spec", "replicatedJobs")) or ()
        for place, entry in enumerate(entries):
            if entry["name"] not in jobs:
                # Trainer would add one without containers (defect T22).
                why = f"the runtime has none of this name, only {', '.join(jobs)}"
                where = f"patch of replicatedJob '{entry['name']}'"
                at = origin.locate(place, "name")
                missing.append(not_compiled(at, where, why, "name one of these"))
                continue
            for field in ("containers", "initContainers"):
                known = [container["name"] for container in jobs[entry["name"]].get(field, ())]
                kind = "init container" if field == "initContainers" else "container"
                for index, container in enumerate(mapping_at(entry, POD).get(field, ())):
                    name = container["name"]
                    there = origin.at(place, *POD, field, index)
                    if name not in known:
                        # Trainer would add one without an image (defect T22).
                        names = ", ".join(known) or "none"
                        why = f"the template has no {kind} of this name: {names}"
                        where = f"patch of {kind} '{name}'"
                        missing.append(not_compiled(there.locate("name"), where, why, "correct it"))
                    elif name in _OF_THE_JOB and container.get("env"):
                        why = "only the TrainJob itself sets variables there"
                        advice = "write them into spec.trainer.env or spec.initializer"
                        where = f"env of {kind} '{name}' in a patch"
                        missing.append(not_compiled(there.locate("env"), where, why, advice))
    return missing


def _duplicates(
    origin: Origin, value: Any, tables: Mapping[str, tuple[str, ...]]
) -> Iterator[Diagnostic]:
    if isinstance(value, list):
        for number, entry in enumerate(value):
            yield from _duplicates(origin.at(number), entry, tables)
    for name, inner in value.items() if isinstance(value, Mapping) else ():
        keys = tables.get(name) if isinstance(inner, list) else None
        seen: set[tuple[str, ...]] = set()
        for number, entry in enumerate(inner if keys else ()):
            if keys is None or not isinstance(entry, Mapping):
                continue
            named = tuple(str(value) for value in key_values(entry, keys))
            if named in seen:
                where = f"{dotted((*origin.path, name))} '{' '.join(named)}'"
                reason = f"another entry of the list has this {' and '.join(keys)}"
                place = origin.locate(name, number)
                yield not_compiled(place, where, reason, "remove one of them")
            seen.add(named)
        yield from _duplicates(origin.at(name), inner, tables)


def notes(job: Source) -> Iterator[Diagnostic]:
    for number, patch in enumerate(_patches(job)):
        if patch.get("trainingRuntimeSpec") in (None, {}):
            place = job.locate((*_PATCHES, number, "manager"))
            yield unused(place, f"patch of {patch['manager']}", "it changes nothing")
        if "time" in patch:
            reason = "it is a note of Trainer's own"
            yield from no_effect(job, (*_PATCHES, number, "time"), reason)


def _patches(job: Source) -> Sequence[Mapping[str, Any]]:
    patches: Sequence[Mapping[str, Any]] = job.data["spec"].get("runtimePatches") or ()
    return patches


_OVERRIDES = ("podTemplateOverrides", "podSpecOverrides")
"""The names of a TrainJob's `runtimePatches` in Trainer 2.1 and 2.0. The API server of a later
Trainer drops them, and strict clients refuse them (reference 2; T23)."""


def from_overrides(job: Source) -> Prepared | None:
    """Convert the overrides of a TrainJob to patches of the Jobs that they name, with a warning.

    They stay if no patch can express them: overrides of all Jobs, or next to patches.
    """
    spec = mapping_at(job.data, ("spec",))
    name = next((name for name in _OVERRIDES if name in spec), "")
    if not isinstance(spec.get(name), list) or "runtimePatches" in spec:
        return None
    overrides, patches = ("spec", name), ("spec", "runtimePatches")
    values = []
    sources: dict[ValuePath, ValuePath] = {patches: overrides}
    for number, override in enumerate(spec[name]):
        targets = value_at(override, ("targetJobs",))
        listed = targets if isinstance(targets, list) else ()
        jobs = [value_at(target, ("name",)) for target in listed]
        if not jobs or not all(isinstance(target, str) for target in jobs):
            return None
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
    return Prepared(data, sources, warning)
