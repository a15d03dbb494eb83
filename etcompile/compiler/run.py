"""A run: all its objects, or the Pods of some of its replicas exactly as they are among these.

The compiler makes a job here, and the watcher one of its Pods again. The two must agree byte for
byte, or Argo CD and Flux would not take the second Pod for theirs (reference/gitops.md 1.6). So
this module alone says in which order run, gang, overlays, preflight and annotations apply.
"""

from collections.abc import Sequence

from msgspec import structs

from etcompile import backend, emit, overlays
from etcompile.compiler.stored import stored_value, with_patches
from etcompile.k8s.objects import Object, wave
from etcompile.model import Job, Member, Settings
from etcompile.model.run_identity import in_run, with_settings

_REPLICAS = frozenset({"Pod", "Service"})
"""The kinds of objects that are made for each replica, now or when one is made again."""


def run_of(job: Job, settings: Settings) -> Job:
    """A job after its intents as the run that the settings name."""
    job = with_settings(job, settings)
    return in_run(job, backend.run_id(job, settings.run))


def with_first_replicas(job: Job) -> Job:
    """The job with one replica of each role, which shows what holds for all of them."""
    roles = (structs.replace(role, members=role.members[:1]) for role in job.roles)
    return structs.replace(job, roles=tuple(roles))


def objects(
    job: Job, settings: Settings, texts: backend.Texts, edits: Sequence[overlays.Edit]
) -> tuple[overlays.PatchedObjects, Job]:
    """The objects of a job after overlays, and the job as the run that they are.

    What overlays change of its Pods and Services is part of the stored job, and what changes the
    Pods is part of the run's identity: so these edits must be known before the objects are made.

    Raises:
        TemplateError: a template that the user gave does not render.
    """
    of_replicas = [
        edit
        for edit in edits
        if edit.target.kind in _REPLICAS or (edit.target.kind is None and edit.reach == "objects")
    ]
    if of_replicas:
        # One whose target has neither a name nor labels is for all replicas of a role or for none,
        # so the first replica of each role shows it.
        touching = _touching(with_first_replicas(job), settings, of_replicas)
        narrow = (edit for edit in of_replicas if edit.target.name or edit.target.labels)
        if any(edit not in touching for edit in narrow):
            touching = _touching(job, settings, of_replicas)
        of_replicas = touching
    job = run_of(with_patches(job, of_replicas), settings)
    stored = emit.to_yaml(stored_value(job, settings, of_replicas))
    return _patched(job, backend.lower(job, settings, texts, stored), edits), job


def _touching(job: Job, settings: Settings, edits: Sequence[overlays.Edit]) -> list[overlays.Edit]:
    job = run_of(job, settings)
    touched = _patched(job, backend.lower(job, settings, backend.Texts(None), ""), edits).edits
    return [edit for edit, kinds in touched.items() if kinds & _REPLICAS]


def pods(
    job: Job,
    settings: Settings,
    role: str,
    members: Sequence[Member],
    edits: Sequence[overlays.Edit],
) -> tuple[Object, ...]:
    """The Pods of some replicas after overlays, or the Jobs that make them.

    Only these are made: one Pod of a job of a thousand costs what one Pod costs.

    Args:
        members: Replicas of that role; one that the job does not have takes the place of the one
            whose place it has.

    Returns:
        A Pod for each replica, in the same order.
    """
    return _patched(job, backend.lower_pods(job, role, members, settings), edits).objects


def _patched(
    job: Job, objects: Sequence[Object], edits: Sequence[overlays.Edit]
) -> overlays.PatchedObjects:
    patched = overlays.PatchedObjects(tuple(objects), (), {}, ())
    if edits:
        from etcompile.overlays import object_patches  # noqa: PLC0415 - few runs have overlays

        labels = backend.protected_labels(job)
        patched = object_patches.patched_objects(objects, edits, protected_labels=labels)
    if job.preflight is None:
        return patched
    return structs.replace(patched, objects=backend.with_preflight(job, patched.objects))


def situation_of_some(
    job: Job, settings: Settings, declared: Job, edits: Sequence[overlays.Edit]
) -> backend.Situation:
    """What is around objects of a run where only some are annotated: the others' waves, too."""
    around = backend.Situation.around(job, declared, settings.gang)
    if "kapp" not in settings.profiles:
        return around  # nobody else asks for them
    # Pods of a role are of one wave, unless an overlay names one of them. A wave that an overlay
    # gives to other kinds than Pods and Services is not known here: the job is stored without it.
    few = backend.lower(with_first_replicas(job), settings, backend.Texts(None), "")
    waves = {wave(value) for value in _patched(job, few, edits).objects}
    return structs.replace(around, waves=tuple(sorted(waves)))
