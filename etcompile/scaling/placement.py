"""Chooses the file and the name of a new intent, so that it counts after all others.

If all others have a sequence number, or were created in a cluster, the new one gets the next
number. An intent without a number counts after every one that has one, in the order of the files.
After such an intent, the new one needs a file whose name sorts later, and no number
(docs/scaling.md).
"""

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from msgspec import Struct

from etcompile.compiler.fold import ordered
from etcompile.load import Document
from etcompile.model import Intent
from etcompile.naming import natural
from etcompile.scaling.intents import Way

_NUMBERED = re.compile(r"scale-(?P<number>\d{1,9})-(?:out|in)\.ya?ml", re.ASCII)
_WIDTH = 3


class Place(Struct, frozen=True):
    """Where the intent goes.

    Args:
        path: Its file, which is not there yet.
        stem: What to name the intent: `scale-003-out`.
        sequence: Its sequence number; None if the file's name is what counts.
    """

    path: Path
    stem: str
    sequence: int | None


def place(
    job: Document, intents: Sequence[Intent], files: Sequence[str], way: Way, taken: Collection[str]
) -> Place:
    """The place of one intent more.

    Args:
        job: The job's document.
        intents: The intents that select it.
        files: The file of each of them.
        way: Whether it adds or removes workers.
        taken: Stems that would give it a name which another intent has.
    """
    file_of = dict(zip(map(id, intents), files, strict=True))
    in_order, _ = ordered(intents)
    last = file_of[id(in_order[-1])] if in_order else job.file
    folder = Path(last).parent
    there = {path.name for path in folder.iterdir()}
    numbers = [match["number"] for name in there if (match := _NUMBERED.fullmatch(name))]
    width = max(map(len, numbers), default=_WIDTH)
    sequences = [intent.sequence for intent in intents if intent.sequence is not None]
    number = max([0, *sequences, *map(int, numbers)]) + 1
    unnumbered = [
        intent for intent in in_order if intent.sequence is None and intent.created is None
    ]
    stems = [name.partition(".")[0] for name in there]
    while (stem := f"scale-{number:0{width}}-{way}") in taken or any(
        other.endswith(stem) for other in stems
    ):
        number += 1
    if not unnumbered:
        return Place(folder / f"{stem}.yaml", stem, number)
    name = f"{stem}.yaml"
    if natural(name) <= natural(Path(last).name):
        # '_' comes after the dot of the other's suffix.
        name = f"{Path(last).stem}_{name}"
    return Place(folder / name, stem, None)
