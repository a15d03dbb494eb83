"""`runtimePatches` of a TrainJob: what others change of its runtime's Pod templates.

reference/trainer-v2.md 4.3. A patch is a strategic merge patch: lists of named entries are merged
entry by entry, all others replaced. Apart from the merge, which begins where this ends.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, Location, Source, ValuePath
from etcompile.frontends.notes import no_effect, not_compiled, unused
from etcompile.model import Origin

_PATCHES: ValuePath = ("spec", "runtimePatches")
_PATCHED: ValuePath = ("trainingRuntimeSpec", "template")
_TEMPLATE: ValuePath = ("spec", "template")
_NAMED = ("containers", "initContainers", "volumes", "env", "imagePullSecrets", "schedulingGates")
_KEYS = {**dict.fromkeys(_NAMED, "name"), "volumeMounts": "mountPath"}
"""Lists that are merged entry by entry, and what their entries are called by."""
_OF_THE_JOB = ("node", "dataset-initializer", "model-initializer")
"""Containers whose variables only the TrainJob sets."""

_Places = dict[ValuePath, Origin]


class Patched(Struct, frozen=True):
    """A runtime with the patches of a job.

    Args:
        data: The runtime, JSON.
        places: Where its parts were written, by their path in it; a value below one of these
            paths stands below that origin.
        relative: The file of the runtime.
    """

    data: dict[str, Any]
    places: Mapping[ValuePath, Origin]
    relative: str

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:
        """The place of a value, in the file of the job or of the runtime."""
        return written(self.places, path).locate(key=key)


def written(places: Mapping[ValuePath, Origin], path: ValuePath) -> Origin:
    """Where a value was written."""
    length = next(n for n in range(len(path), -1, -1) if path[:n] in places)
    return places[path[:length]].at(*path[length:])


def patched(job: Source, runtime: Source) -> Source:
    """A runtime with the patches of a job, in the order of their list."""
    if not _patches(job):
        return runtime
    data = dict(runtime.data)
    spec = data["spec"] = dict(data["spec"])
    template = spec["template"] = dict(spec["template"])
    job_set = template["spec"] = dict(template["spec"])
    jobs = job_set["replicatedJobs"] = list(job_set["replicatedJobs"])
    places: _Places = {(): Origin(runtime)}
    for number, patch in enumerate(_patches(job)):
        origin = Origin(job, (*_PATCHES, number, *_PATCHED))
        change = _change(patch)
        if metadata := change.get("metadata"):
            path: ValuePath = (*_TEMPLATE, "metadata")
            before = template.get("metadata", {}), _below(places, path)
            template["metadata"], found = _merged(before, metadata, origin.at("metadata"))
            _put(places, path, found)
        for place, entry in enumerate(_jobs(change)):
            index = [replicated["name"] for replicated in jobs].index(entry["name"])
            path = (*_TEMPLATE, "spec", "replicatedJobs", index, "template")
            there = origin.at("spec", "replicatedJobs", place, "template")
            before = jobs[index]["template"], _below(places, path)
            made, found = _merged(before, entry.get("template", {}), there)
            jobs[index] = {**jobs[index], "template": made}
            _put(places, path, found)
    return Patched(data, places, runtime.relative)


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


def _merged(
    before: tuple[Mapping[str, Any], Mapping[ValuePath, Origin]],
    patch: Mapping[str, Any],
    origin: Origin,
) -> tuple[dict[str, Any], _Places]:
    """A mapping with a patch merged in, and where its parts were written."""
    value, places = before
    made = dict(value)
    found = dict(places)
    for key, change in patch.items():
        if change is None:
            # The API server drops it from the TrainJob, so that it takes nothing away.
            continue
        there = origin.at(key)
        own: _Places
        if isinstance(change, Mapping) and isinstance(value.get(key), Mapping):
            old = value[key], _below(places, (key,))
            made[key], own = _merged(old, change, there)
        elif key in _KEYS and isinstance(value.get(key), list) and isinstance(change, list):
            listed = value[key], _below(places, (key,))
            made[key], own = _merged_list(listed, change, there, _KEYS[key])
        else:
            made[key], own = change, {(): there}
        _put(found, (key,), own)
    return made, found


def _merged_list(
    before: tuple[Sequence[Mapping[str, Any]], Mapping[ValuePath, Origin]],
    patch: Sequence[Mapping[str, Any]],
    origin: Origin,
    key: str,
) -> tuple[list[Any], _Places]:
    """A list with a patch merged in, entry by entry."""
    values, places = before
    order = [entry[key] for entry in values]
    changed: list[tuple[Any, _Places]] = []
    for number, entry in enumerate(patch):
        there = origin.at(number)
        if entry[key] in order:
            index = order.index(entry[key])
            old = values[index], _below(places, (index,))
            changed.append(_merged(old, entry, there))
        else:
            changed.append((dict(entry), {(): there}))
    names = {entry[key] for entry in patch}
    kept: list[tuple[Any, _Places]] = [
        (entry, _below(places, (index,)))
        for index, entry in enumerate(values)
        if entry[key] not in names
    ]
    made: list[Any] = []
    found: _Places = {(): places[()]}
    for number, (value, own) in enumerate(_in_order(changed, kept, order, key)):
        made.append(value)
        _put(found, (number,), own)
    return made, found


def _in_order(
    changed: list[tuple[Any, _Places]],
    kept: list[tuple[Any, _Places]],
    order: Sequence[str],
    key: str,
) -> Iterator[tuple[Any, _Places]]:
    """The order of a strategic merge patch: both orders are kept, and the patch's entries go first.

    Only an entry of the runtime that stood in front of one of the patch's goes before that.
    """
    left, right = changed[:], kept[:]
    while left and right:
        mine, other = left[0][0][key], right[0][0][key]
        is_later = mine in order and order.index(mine) > order.index(other)
        yield (right if is_later else left).pop(0)
    yield from (*left, *right)


def _below(places: Mapping[ValuePath, Origin], path: ValuePath) -> _Places:
    """The origins of a value and of what is in it, by paths that begin there."""
    length = len(path)
    found = {there[length:]: origin for there, origin in places.items() if there[:length] == path}
    return {**found, (): written(places, path)}


def _put(places: _Places, path: ValuePath, own: Mapping[ValuePath, Origin]) -> None:
    """Writes the origins of a value in place of those that were there."""
    for there in [known for known in places if known[: len(path)] == path]:
        del places[there]
    places |= {(*path, *below): origin for below, origin in own.items()}


def _patches(job: Source) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = job.data["spec"].get("runtimePatches") or ()
    return found


def _change(patch: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = patch.get("trainingRuntimeSpec", {}).get("template", {})
    return found


def _jobs(change: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = change.get("spec", {}).get("replicatedJobs", ())
    return found
