"""Fields of Trainer 2.0 and 2.1 that 2.2 renamed or dropped: files have them still.

The API server of a later Trainer drops them, and strict clients refuse them
(reference/trainer-v2.md 2; defect T23).
"""

from collections.abc import Iterator, Mapping

from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.k8s.path import dotted
from etcompile.k8s.traced import Traced

OVERRIDES = ("podTemplateOverrides", "podSpecOverrides")
"""What `runtimePatches` were called in 2.1 and in 2.0."""
_OF_TORCH: ValuePath = ("spec", "mlPolicy", "torch", "numProcPerNode")
_OF_JOB: ValuePath = ("spec", "trainer", "numProcPerNode")


def with_patches(job: Source) -> tuple[Traced, Diagnostic] | None:
    """A TrainJob with its overrides as patches of the Jobs that they name, and a warning of that.

    Returns:
        None if it has no overrides, or some that no patch can say: of all Jobs, or beside patches.
    """
    spec = Traced(job.data, job).part("spec")
    if spec is None or not isinstance(spec.value, Mapping) or "runtimePatches" in spec.value:
        return None
    fields = spec.parts()
    name = next((name for name in OVERRIDES if name in fields), None)
    if name is None or not isinstance(fields[name].value, list):
        return None
    overrides = fields.pop(name)
    patches = []
    for number, override in enumerate(overrides.items()):
        pod = override.parts()
        jobs = pod.pop("targetJobs", None)
        named = [entry.part("name") for entry in jobs.items()] if jobs else []
        names = [entry for entry in named if entry is not None and isinstance(entry.value, str)]
        if not names or len(names) != len(named):
            return None
        template = override.with_fields(pod)
        if name == "podSpecOverrides":
            template = override.with_fields({"spec": template})
        template = _nested(override, template, "spec", "template")
        entries = [override.with_fields({"name": entry, "template": template}) for entry in names]
        replicated = override.with_items(entries)
        manager = f"trainer.kubeflow.org/{name.lower()}-{number}"
        patches.append(
            override.with_fields(
                {
                    "manager": Traced(manager, override.source, override.path),
                    "trainingRuntimeSpec": _nested(
                        override, replicated, "template", "spec", "replicatedJobs"
                    ),
                }
            )
        )
    spec = spec.with_fields({**fields, "runtimePatches": overrides.with_items(patches)})
    note = _renamed(job, ("spec", name), "write it as spec.runtimePatches")
    return Traced(job.data, job).with_changes({"spec": spec}), note


def _nested(place: Traced, value: Traced, *fields: str) -> Traced:
    """A value below fields that nobody wrote, at the place of an override."""
    for field in reversed(fields):
        value = place.with_fields({field: value})
    return value


def notes(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """Warnings for numbers of processes that only the older versions take."""
    torch = runtime.data["spec"].get("mlPolicy", {}).get("torch") or {}
    if "numProcPerNode" in torch:
        advice = "write a number into spec.trainer.numProcPerNode of each TrainJob; auto needs none"
        yield _renamed(runtime, _OF_TORCH, advice)
    if isinstance(job.data["spec"].get("trainer", {}).get("numProcPerNode"), str):
        yield _renamed(job, _OF_JOB, "leave it out, or write a number")


def _renamed(source: Source, path: ValuePath, advice: str) -> Diagnostic:
    place = source.locate(path, key=True)
    return diagnose(codes.FORMER_TRAINER, place, field=dotted(path), advice=advice)
