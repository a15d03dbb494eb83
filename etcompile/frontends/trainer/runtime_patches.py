"""`runtimePatches` of a TrainJob: what others change of its runtime's Pod templates.

reference/trainer-v2.md 4.3. A patch is a strategic merge patch: lists of named entries are merged
entry by entry, all others replaced. Apart from the merge, which begins where this ends.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, Location, Source, ValuePath
from etcompile.frontends.notes import no_effect, not_compiled, unused
from etcompile.k8s.path import value_at
from etcompile.k8s.strategic import merged
from etcompile.k8s.traced import Traced
from etcompile.model import Origin

_PATCHES: ValuePath = ("spec", "runtimePatches")
_PATCHED: ValuePath = ("trainingRuntimeSpec", "template")
_TEMPLATE: ValuePath = ("spec", "template")
_OF_THE_JOB = ("node", "dataset-initializer", "model-initializer")
"""Containers whose variables only the TrainJob sets."""


class Patched(Struct, frozen=True):
    """A runtime with the patches of a job.

    Args:
        value: The runtime, each part with the place where it was written.
        relative: The file of the runtime.
    """

    value: Traced
    relative: str

    @property
    def data(self) -> Any:
        """The runtime, JSON."""
        return self.value.value

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:
        """The place of a value, in the file of the job or of the runtime."""
        return self.value.locate(path, key=key)


def patched(job: Source, runtime: Source) -> Source:
    """A runtime with the patches of a job, in the order of their list."""
    if not _patches(job):
        return runtime
    value = Traced(runtime.data, runtime)
    jobs = (*_TEMPLATE, "spec", "replicatedJobs")
    names = [replicated["name"] for replicated in value_at(runtime.data, jobs)]
    for number in range(len(_patches(job))):
        patch = Traced(job.data, job).at((*_PATCHES, number, *_PATCHED))
        if patch is None:
            continue
        if metadata := patch.part("metadata"):
            value = _merged(value, _TEMPLATE, patch.with_fields({"metadata": metadata}))
        entries = patch.at(("spec", "replicatedJobs"))
        for entry in entries.items() if entries else ():
            if template := entry.part("template"):
                path = (*jobs, names.index(entry.value["name"]), "template")
                value = _merged(value, path, template)
    return Patched(value, runtime.relative)


def _merged(value: Traced, path: ValuePath, patch: Traced) -> Traced:
    def change(part: Traced) -> Traced:
        return merged(part, patch, "TrainingRuntime", path, new_first=True, directives=False)

    return value.changed(path, change)


def problems(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """Why patches cannot be merged: for what is not there, or not theirs to change."""
    jobs = {
        replicated["name"]: replicated["template"]["spec"]["template"]["spec"]
        for replicated in runtime.data["spec"]["template"]["spec"]["replicatedJobs"]
    }
    for number, patch in enumerate(_patches(job)):
        origin = Origin(job, (*_PATCHES, number))
        for place, entry in enumerate(_jobs(_change(patch))):
            there = origin.at(*_PATCHED, "spec", "replicatedJobs", place)
            if entry["name"] not in jobs:
                # Trainer would add one without containers (defect T22).
                why = f"the runtime has none of this name, only {', '.join(jobs)}"
                where = f"patch of replicatedJob '{entry['name']}'"
                yield not_compiled(there.locate("name"), where, why, "name one of these")
                continue
            pod = entry.get("template", {}).get("spec", {}).get("template", {}).get("spec", {})
            below = there.at("template", "spec", "template", "spec")
            yield from _of_pod(below, pod, jobs[entry["name"]])


def notes(job: Source) -> Iterator[Diagnostic]:
    """Warnings for parts of patches without effect: metadata of objects that there are not."""
    for number, patch in enumerate(_patches(job)):
        if patch.get("trainingRuntimeSpec") in (None, {}):
            place = job.locate((*_PATCHES, number, "manager"))
            yield unused(place, f"patch of {patch['manager']}", "it changes nothing")
        if "time" in patch:
            reason = "it is a note of Trainer's own"
            yield from no_effect(job, (*_PATCHES, number, "time"), reason)


def _of_pod(
    origin: Origin, patch: Mapping[str, Any], pod: Mapping[str, Any]
) -> Iterator[Diagnostic]:
    """What is wrong with a patch of a Pod template."""
    for field in ("containers", "initContainers"):
        known = {container["name"]: container for container in pod.get(field, ())}
        kind = "init container" if field == "initContainers" else "container"
        for number, container in enumerate(patch.get(field, ())):
            name = container["name"]
            there = origin.at(field, number)
            if name not in known:
                # Trainer would add one without an image (defect T22).
                names = ", ".join(known) or "none"
                why = f"the template has no {kind} of this name: {names}"
                yield not_compiled(
                    there.locate("name"), f"patch of {kind} '{name}'", why, "correct it"
                )
            elif name in _OF_THE_JOB and container.get("env"):
                why = "only the TrainJob itself sets variables there"
                advice = "write them into spec.trainer.env or spec.initializer"
                yield not_compiled(
                    there.locate("env"), f"env of {kind} '{name}' in a patch", why, advice
                )
            else:
                yield from _variables(there, container, known[name])
    volumes = {volume["name"]: volume for volume in pod.get("volumes", ())}
    for number, volume in enumerate(patch.get("volumes", ())):
        types = volume.keys() - {"name"}
        others = volumes.get(volume["name"], {}).keys() - {"name"}
        if others and types and not types & others:
            # The two would be merged, and no Pod may have such a volume (defect T21).
            why = f"it is {next(iter(others))} in the runtime, and would be both"
            where = f"{next(iter(types))} of volume '{volume['name']}' in a patch"
            yield not_compiled(origin.locate("volumes", number), where, why, "give it another name")


def _variables(
    origin: Origin, patch: Mapping[str, Any], container: Mapping[str, Any]
) -> Iterator[Diagnostic]:
    """Variables that would have a value and a source of one."""
    known = {entry["name"]: entry for entry in container.get("env", ())}
    for number, entry in enumerate(patch.get("env", ())):
        merged = {**known.get(entry["name"], {}), **entry}
        if merged.get("value") and "valueFrom" in merged:
            why = "it would have the value of one and the valueFrom of the other"
            where = f"variable {entry['name']} in a patch"
            yield not_compiled(origin.locate("env", number), where, why, "give it another name")


def _patches(job: Source) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = job.data["spec"].get("runtimePatches") or ()
    return found


def _change(patch: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = patch.get("trainingRuntimeSpec", {}).get("template", {})
    return found


def _jobs(change: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = change.get("spec", {}).get("replicatedJobs", ())
    return found
