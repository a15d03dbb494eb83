"""The order in which the intents of a job count.

A cluster executes intents as they come, and et-operator the newest first (reference defect
24). Files have no time, so the order is: intents that a cluster has already received, by
their creationTimestamp; then those numbered by the annotation `etcompile.dev/sequence`; then
all others, in the order of the input files and of the documents in them.
"""

from collections.abc import Iterable

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.model import Intent


def ordered(intents: Iterable[Intent]) -> tuple[list[Intent], list[Diagnostic]]:
    """The intents of one job in the order in which they count.

    Args:
        intents: The intents, in the order of their files and documents.

    Returns:
        The same intents in order, and an error for each sequence number used twice.
    """
    intents = list(intents)
    problems = []
    seen: dict[int, Intent] = {}
    for intent in intents:
        if intent.sequence is None or intent.created is not None:
            continue
        first = seen.setdefault(intent.sequence, intent)
        if first is not intent:
            place = intent.origin.locate("metadata", "annotations", "etcompile.dev/sequence")
            facts = {"intent": intent.title, "sequence": intent.sequence, "other": first.title}
            problems.append(diagnose(codes.SAME_SEQUENCE, place, **facts))
    # sorted() is stable: equal keys stay in the order of the files.
    return sorted(intents, key=_turn), problems


def _turn(intent: Intent) -> tuple[int, str, int]:
    if intent.created is not None:
        return (0, intent.created, 0)
    if intent.sequence is not None:
        return (1, "", intent.sequence)
    return (2, "", 0)
