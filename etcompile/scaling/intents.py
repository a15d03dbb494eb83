"""A request for more or fewer workers to the intent that says so: the way back of a fold.

Whether the request can be met is not checked here: the intent is folded like any other, so that it
is refused for the same reasons, in the same words.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from etcompile.compiler.fold import ordered
from etcompile.load import Document
from etcompile.model import Intent, Job, Role
from etcompile.naming import natural

SEQUENCE = "etcompile.dev/sequence"
_OWN = "etcompile.dev/v1alpha1"
_LABEL_LIMIT = 63
"""Characters of a label's value: the Pods of a ScaleOut have its name in one."""
_NUMBERED = re.compile(r"scale-(?P<number>\d{1,9})-(?:out|in)\.ya?ml", re.ASCII)
_WIDTH = 3

Way = Literal["out", "in"]


class Request(Struct, frozen=True):
    """How many workers there are to be, said in one of four ways.

    Args:
        to: So many in all.
        add: So many more.
        remove: So many fewer, those with the highest indexes.
        pods: Without these.
    """

    to: int | None = None
    add: int | None = None
    remove: int | None = None
    pods: tuple[str, ...] = ()


class Change(Struct, frozen=True):
    """What a request means for a job as it is: `toAdd` or `toDelete` of an intent's spec."""

    way: Way
    spec: Mapping[str, Any]


def number_of(role: Role) -> int:
    """How many replicas people say there are: those of a role, and those counted with them."""
    return len(role.members) + (role.bounds.others if role.bounds else 0)


def change(job: Job, request: Request) -> Change | None:
    """What has to change in a job after its intents; None if it has as many workers already."""
    if request.pods:
        # A worker that is named twice is deleted once.
        return Change("in", {"toDelete": {"podNames": [*dict.fromkeys(request.pods)]}})
    more = request.add or -(request.remove or 0)
    if request.to is not None:
        more = request.to - (number_of(job.scaled_role) if job.scaled_role else 0)
    if more == 0:
        return None
    if more > 0:
        return Change("out", {"toAdd": {"count": more}})
    return Change("in", {"toDelete": {"count": -more}})


def intent_document(
    job: Job, wanted: Change, name: str, sequence: int | None, *, versioned: bool = False
) -> dict[str, Any]:
    """The ScaleOut or ScaleIn that changes a job.

    Args:
        sequence: Its number among the job's intents; None leaves its order to the files.
        versioned: The selector must name the job's API version, too.

    Returns:
        A document: et-operator's own kind for its TrainingJob, etcompile's for any other.
    """
    upstream = job.kind == "TrainingJob"
    selector = {"name": job.name}
    if not upstream:
        version = {"apiVersion": job.api_version} if versioned else {}
        selector = {**version, "kind": job.kind, **selector}
    metadata: dict[str, Any] = {"name": name}
    if job.namespace is not None:
        metadata["namespace"] = job.namespace
    if sequence is not None:
        metadata["annotations"] = {SEQUENCE: str(sequence)}
    return {
        "apiVersion": job.api_version if upstream else _OWN,
        "kind": "ScaleOut" if wanted.way == "out" else "ScaleIn",
        "metadata": metadata,
        "spec": {"selector": selector, **wanted.spec},
    }


def intent_name(job: Job, stem: str) -> str:
    """A name for an intent of the job; `stem` tells it from others: `scale-003-out`."""
    name = f"{job.name}-{stem}"
    return name if len(name) <= _LABEL_LIMIT else stem


class Place(Struct, frozen=True):
    """Where an intent goes.

    Args:
        path: Its file, which does not exist yet.
        stem: What to name the intent: `scale-003-out`.
        sequence: Its sequence number; None if the file's name is what counts.
    """

    path: Path
    stem: str
    sequence: int | None


def place(job: Document, intents: Sequence[Intent], way: Way, names: Collection[str]) -> Place:
    """The place of a new intent, so that it counts after all others.

    If all others have a sequence number, or were created in a cluster, the new one gets the next
    number. An intent without a number counts after every one that has one, in the order of the
    files. After such an intent, the new one needs a file whose name sorts later, and no number
    (docs/scaling.md).

    Args:
        names: Stems that would give it a name which another intent has.
    """
    in_order, _ = ordered(intents)
    last = in_order[-1].origin.locate().file if in_order else job.file
    folder = Path(last).parent
    files = {path.name for path in folder.iterdir()}
    numbers = [match["number"] for name in files if (match := _NUMBERED.fullmatch(name))]
    width = max(map(len, numbers), default=_WIDTH)
    sequences = [intent.sequence for intent in intents if intent.sequence is not None]
    number = max([0, *sequences, *map(int, numbers)]) + 1
    stems = [name.partition(".")[0] for name in files]
    while (stem := f"scale-{number:0{width}}-{way}") in names or any(
        other.endswith(stem) for other in stems
    ):
        number += 1
    if all(intent.sequence is not None or intent.created is not None for intent in in_order):
        return Place(folder / f"{stem}.yaml", stem, number)
    name = f"{stem}.yaml"
    if natural(name) <= natural(Path(last).name):
        # '_' comes after the dot of the other's suffix.
        name = f"{Path(last).stem}_{name}"
    return Place(folder / name, stem, None)
