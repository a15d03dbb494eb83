"""Fields of Trainer 2.0 and 2.1 that 2.2 renamed or dropped: files have them still.

The API server of a later Trainer drops them, and strict clients refuse them
(reference/trainer-v2.md 2; defect T23).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.k8s.path import dotted

OVERRIDES = ("podTemplateOverrides", "podSpecOverrides")
"""What `runtimePatches` were called in 2.1 and in 2.0."""
_OF_TORCH: ValuePath = ("spec", "mlPolicy", "torch", "numProcPerNode")
_OF_JOB: ValuePath = ("spec", "trainer", "numProcPerNode")
_MANAGER = "trainer.kubeflow.org"


class Patches(Struct, frozen=True):
    """A TrainJob whose overrides are patches.

    Args:
        data: The TrainJob, JSON.
        moved: The path of each patch and of its Pod specs, to the path in the text.
        overrides: The field they were in.
    """

    data: dict[str, Any]
    moved: Mapping[ValuePath, ValuePath]
    overrides: ValuePath


def with_patches(data: Mapping[str, Any]) -> Patches | None:
    """A TrainJob with its overrides as patches of the Jobs that they name.

    Returns:
        None if it has no overrides, or some that no patch can say: of all Jobs, or beside patches.
    """
    spec = data.get("spec")
    if not isinstance(spec, Mapping) or "runtimePatches" in spec:
        return None
    field = next((name for name in OVERRIDES if name in spec), None)
    given = spec.get(field) if field else None
    if field is None or not isinstance(given, list):
        return None
    patches: list[dict[str, Any]] = []
    moved: dict[ValuePath, ValuePath] = {}
    for number, override in enumerate(given):
        names = _names(override) if isinstance(override, Mapping) else []
        if not names:
            return None
        before: ValuePath = ("spec", field, number)
        after: ValuePath = ("spec", "runtimePatches", number)
        moved[after] = before
        pod, below = _pod(override, is_flat=field == "podSpecOverrides")
        above = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
        for place in range(len(names)):
            moved[*after, *above, place] = (*before, "targetJobs", place)
            of_pod = (*after, *above, place, "template", "spec", "template")
            moved |= {(*of_pod, *new): (*before, *old) for new, old in below.items()}
        jobs = [{"name": name, "template": {"spec": {"template": pod}}} for name in names]
        patches.append(
            {
                "manager": f"{_MANAGER}/{field.lower()}-{number}",
                "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}},
            }
        )
    kept = {key: value for key, value in spec.items() if key != field}
    made = {**data, "spec": {**kept, "runtimePatches": patches}}
    return Patches(made, moved, ("spec", field))


def _names(override: Mapping[str, Any]) -> list[Any]:
    """The Jobs that an override is for; none if it does not say, or not so that it can be read."""
    given = override.get("targetJobs")
    jobs = given if isinstance(given, list) else []
    names = [job.get("name") if isinstance(job, Mapping) else None for job in jobs]
    return names if all(isinstance(name, str) for name in names) else []


def _pod(
    override: Mapping[str, Any], *, is_flat: bool
) -> tuple[dict[str, Any], dict[ValuePath, ValuePath]]:
    """The Pod template of an override, and where its parts stand in that."""
    fields = {key: value for key, value in override.items() if key != "targetJobs"}
    if is_flat:
        return {"spec": fields}, {("spec", key): (key,) for key in fields}
    return fields, {(key,): (key,) for key in fields}


def renamed(job: Source, overrides: ValuePath) -> Diagnostic:
    """A warning for overrides that were read as patches."""
    return _former(job, overrides, "write it as spec.runtimePatches")


def notes(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """Warnings for numbers of processes that only the former versions take."""
    torch = runtime.data["spec"].get("mlPolicy", {}).get("torch") or {}
    if "numProcPerNode" in torch:
        advice = "write a number into spec.trainer.numProcPerNode of each TrainJob; auto needs none"
        yield _former(runtime, _OF_TORCH, advice)
    if isinstance(job.data["spec"].get("trainer", {}).get("numProcPerNode"), str):
        yield _former(job, _OF_JOB, "leave it out, or write a number")


def _former(source: Source, path: ValuePath, advice: str) -> Diagnostic:
    place = source.locate(path, key=True)
    return diagnose(codes.FORMER_TRAINER, place, field=dotted(path), advice=advice)
