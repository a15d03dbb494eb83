"""Build all objects of a run, or the Pods of some of its replicas exactly as they are among these.

The compiler builds a job here, and the watcher one of its Pods again. The two must agree byte for
byte, or Argo CD and Flux would not recognize the second Pod (reference/gitops.md 1.6). So only this
module orders run, gang, overlays, preflight and annotations.
"""

from collections.abc import Sequence

from msgspec import structs

from etcompile import backend, emit, overlays
from etcompile.compiler.stored import stored_value, with_patches
from etcompile.k8s.objects import Object, wave
from etcompile.model import Job, Member, Settings
from etcompile.model.run_identity import in_run, with_settings

_REPLICAS = frozenset({"Pod", "Service"})
"""The kinds of objects that each replica has, and that the watcher may recreate."""


def run_of(job: Job, settings: Settings) -> Job:
    job = with_settings(job, settings)
    return in_run(job, backend.run_id(job, settings.run))


def with_first_replicas(job: Job) -> Job:
    """Return the job with only the first replica of each role, which represents the others."""
    roles = (structs.replace(role, members=role.members[:1]) for role in job.roles)
    return structs.replace(job, roles=tuple(roles))


def objects(
    job: Job, settings: Settings, texts: backend.Texts, edits: Sequence[overlays.Edit]
) -> tuple[overlays.PatchedObjects, Job]:
    """Build the objects of a job after overlays, and the job as the run that they are.

    Overlays of Pods and Services are stored with the job, and what changes Pods is part of the
    run's identity. Which edits those are is known only after they were applied, so the identity and
    the stored job are written into the finished objects.
    """
    run = run_of(job, settings)
    patched = _patched(run, backend.lower(run, settings, texts, ""), edits)
    of_replicas = [edit for edit, kinds in patched.edits.items() if kinds & _REPLICAS]
    changed = run_of(with_patches(job, of_replicas), settings)
    if changed.run_id != run.run_id:  # a run ID of `auto`, which all names contain
        patched = _patched(changed, backend.lower(changed, settings, texts, ""), edits)
    stored = emit.to_yaml(stored_value(changed, settings, of_replicas))
    identified = backend.identified(changed, patched.objects, stored)
    return structs.replace(patched, objects=tuple(identified)), changed


def pods(
    job: Job,
    settings: Settings,
    role: str,
    members: Sequence[Member],
    edits: Sequence[overlays.Edit],
    run: str,
) -> tuple[Object, ...]:
    """Build a Pod for each replica of a role, after overlays, or the Job that creates it.

    Only these are built: one Pod of a job of a thousand costs as much as one Pod. A replica that
    the job does not have replaces the declared one with the same place.
    """
    return _patched(job, backend.lower_pods(job, role, members, settings, run), edits).objects


def _patched(
    job: Job, objects: Sequence[Object], edits: Sequence[overlays.Edit]
) -> overlays.PatchedObjects:
    patched = overlays.PatchedObjects(tuple(objects), (), {}, ())
    if edits:
        from etcompile.overlays import object_patches  # noqa: PLC0415 - few runs have overlays

        labels = backend.protected_labels(job)
        patched = object_patches.patched_objects(objects, edits, protected_labels=labels)
    return structs.replace(patched, objects=backend.with_preflight(job, patched.objects))


def situation_of_some(
    job: Job, settings: Settings, declared: Job, edits: Sequence[overlays.Edit]
) -> backend.Situation:
    """Return the situation of a run when only some of its objects are annotated."""
    around = backend.Situation.around(job, declared, settings.gang)
    if "kapp" not in settings.profiles:
        return around  # only kapp needs the waves of the other objects
    # Pods of a role have the same wave, unless an overlay names one of them. Waves that an overlay
    # sets on other kinds are unknown here, because the stored job does not have them.
    few = backend.lower(with_first_replicas(job), settings, backend.Texts(None), "")
    waves = {wave(value) for value in _patched(job, few, edits).objects}
    return structs.replace(around, waves=tuple(sorted(waves)))
