"""A gang whose scheduler needs a queue, and a job that names none."""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.subject import LintedJob
from etcompile.model.schedulers import QUEUE_ANNOTATIONS, QUEUE_LABELS

CODE = codes.GANG_WITHOUT_QUEUE
_NEEDED = {"kueue": "Kueue", "kai": "KAI"}
"""The schedulers that leave Pods waiting, and say little of it, where their queue is not there
(reference/gang-scheduling.md 4.1, 7). Others have no queues, or make the default one."""


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for a gang of a scheduler that needs a queue, where nobody names it."""
    scheduler = job.settings.gang
    if scheduler not in _NEEDED or job.job.gang.queue is not None:
        return
    labels = [name for name, reader in QUEUE_LABELS.items() if reader == scheduler]
    marks = [name for name, reader in QUEUE_ANNOTATIONS.items() if reader == scheduler]
    given = [(job.job.gang.labels, job.job.gang.annotations)]
    given += [(role.template.labels, role.template.annotations) for role in job.job.roles]
    if any(
        not own.keys().isdisjoint(labels) or not notes.keys().isdisjoint(marks)
        for own, notes in given
    ):
        return
    used = [
        found[name]
        for pods in job.pods
        for found in (pods.metadata.get("labels", {}),)
        for name in labels
        if name in found
    ]
    if used:
        place = job.job.origin.locate("metadata", "name")
        facts = {"scheduler": _NEEDED[scheduler], "queue": used[0], "label": labels[0]}
        yield diagnose(CODE, place, job=job.job.name, **facts)
