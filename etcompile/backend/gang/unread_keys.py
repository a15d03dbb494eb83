"""Report labels and annotations of a gang scheduler that nothing reads in this output.

A job has them for the scheduler of the cluster that it was written for. Without that scheduler in
the setting `gang` they have no effect, or Kueue, Volcano and KAI schedule each Pod alone
(reference/gang-scheduling.md 2, 4 and 7).
"""

from collections.abc import Iterator, Sequence

from etcompile.backend.gang import scheduler_of
from etcompile.backend.gang.group import QUEUE_KEYS
from etcompile.diagnostics import Diagnostic, Location, Source, codes, diagnose
from etcompile.k8s.objects import Object
from etcompile.model import Job, Settings
from etcompile.model.protocol import ROLE_LABEL
from etcompile.model.schedulers import KUEUE_QUEUE, QUEUE_FIELDS, SCHEDULER_NAMES, reader_of

_GROUPS_ALONE = ("volcano", "kai")
"""Schedulers that create a group of one for a Pod without a group and an owner."""


def unread_of_job(job: Job, settings: Settings) -> Iterator[Diagnostic]:
    reads = scheduler_of(settings.gang).reads_job if settings.gang != "none" else None
    for field, texts in (("labels", job.gang.labels), ("annotations", job.gang.annotations)):
        for key in sorted(texts):
            reader = reader_of(key)
            is_misplaced = field not in QUEUE_FIELDS.get(key, (field,))
            if reader is None or is_misplaced:
                continue
            if reader == settings.gang and (
                reads is None or not reads.isdisjoint((key, key.partition("/")[0]))
            ):
                continue
            place = job.origin.locate("metadata", field, key, key=True)
            what = f"{field.removesuffix('s')} {key}"
            if reader == settings.gang:
                reason = f"{scheduler_of(reader).title} reads it from Pods only"
                advice = "write it in the metadata of the Pod templates"
                yield diagnose(codes.NO_EFFECT, place, where=what, reason=reason, advice=advice)
            else:
                yield _unread(what, reader, settings, place)


def misplaced(job: Job) -> Iterator[Diagnostic]:
    """Warn of a queue in a label that is read from an annotation, or the other way round."""
    places = [(job.origin.at("metadata"), job.gang.labels, job.gang.annotations)]
    templates = [role.template for role in job.roles]
    places += [(pod.origin.at("metadata"), pod.labels, pod.annotations) for pod in templates]
    for origin, labels, annotations in places:
        for field, texts in (("labels", labels), ("annotations", annotations)):
            for key in sorted(texts.keys() & QUEUE_FIELDS.keys()):
                if field in (read := QUEUE_FIELDS[key]):
                    continue
                what = f"{field.removesuffix('s')} {key}"
                title = scheduler_of(str(reader_of(key))).title
                reason = (
                    f"{title} reads it as {'a label' if field != 'labels' else 'an annotation'}"
                )
                place = origin.locate(field, key, key=True)
                advice = f"move it to metadata.{read[0]}"
                yield diagnose(codes.NO_EFFECT, place, where=what, reason=reason, advice=advice)


def unread_of_pods(
    job: Job, settings: Settings, objects: Sequence[Object], changed: Sequence[Source]
) -> Iterator[Diagnostic]:
    reported: set[tuple[str, str]] = set()
    for value in objects:
        pod = value["spec"]["template"] if value["kind"] == "Job" else value
        if value["kind"] not in ("Pod", "Job"):
            continue
        metadata = pod["metadata"]
        role = (metadata.get("labels") or {}).get(ROLE_LABEL, "")
        for key in QUEUE_KEYS:
            if key.scheduler == settings.gang or key.name not in (metadata.get(key.field) or ()):
                continue
            # Kueue admits a Job by the Job's label and ignores the label of its Pod.
            if (role, key.title) in reported or (key.name == KUEUE_QUEUE and pod is not value):
                continue
            reported.add((role, key.title))
            # The key comes from the role's template, from an overlay, or from the job.
            path, known = ("metadata", key.field, key.name), job.role(role)
            place = job.origin.locate(*path, key=True)
            if known and key.name in getattr(known.template, key.field):
                place = known.template.origin.locate(*path, key=True)
            else:
                for source in changed:
                    if key.name in (source.data["metadata"].get(key.field) or ()):
                        place = source.locate(path, key=True)
                        break
            name = pod["spec"].get("schedulerName")
            if key.name == KUEUE_QUEUE:
                yield diagnose(codes.QUEUED_ONE_BY_ONE, place, role=role, label=KUEUE_QUEUE)
            elif name == SCHEDULER_NAMES.get(key.scheduler):
                if settings.gang == "none" and key.scheduler in _GROUPS_ALONE:
                    facts = {"role": role, "key": key.title, "gang": key.scheduler}
                    reader = scheduler_of(key.scheduler).title
                    yield diagnose(codes.SCHEDULED_ONE_BY_ONE, place, **facts, scheduler=reader)
            elif key.name not in getattr(job.gang, key.field):
                yield _unread(f"{key.title} of {role}", key.scheduler, settings, place)


def _unread(what: str, reader: str, settings: Settings, place: Location) -> Diagnostic:
    name = scheduler_of(reader).title
    kueue = what == f"label {KUEUE_QUEUE}"
    if settings.gang != "none":
        reason = "only Kueue has LocalQueues" if kueue else f"only {name} reads it"
        facts = {"field": what, "scheduler": scheduler_of(settings.gang).title, "reason": reason}
        return diagnose(codes.GANG_FIELD, place, **facts)
    reason = f"only {name} reads it, and no gang scheduler is chosen"
    if kueue:
        reason = "Kueue queues Pods, and only the setting gang = kueue gives them its labels"
    advice = f"set gang to {reader}"
    return diagnose(codes.NO_EFFECT, place, where=what, reason=reason, advice=advice)
