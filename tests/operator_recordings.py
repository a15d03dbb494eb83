"""What real operators did with a job: recordings of our own lab, as values.

Each recording is a file of `tests/recordings`: the requests by which an operator made and changed
objects, and the objects that stood in the cluster. An object that resembles an earlier one of its
file is written as the differences from it.
"""

import copy
import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

FOLDER = Path(__file__).parent / "recordings"


class Recording(Struct, frozen=True, eq=False):
    """A recording of one operator.

    Args:
        documents: What the user created, without the namespace, which is that of all.
        edits: The job after each later edit by the user that the API server took.
        ends: The number of the last request that belongs to the start, and to each edit.
        requests: The requests that the API server carried out, in order: `n` (their number),
            `verb`, `resource`, `name` and, but for deletions, `body`, with the server's defaults.
        objects: What stood in the cluster, by the name of the moment; `objects` is the end.
        init_image: The image that the operator was told to use in init containers.
    """

    operator: str
    name: str
    namespace: str
    documents: list[Any]
    edits: list[Any]
    ends: list[int]
    requests: list[dict[str, Any]]
    objects: dict[str, list[Any]]
    init_image: str | None = None

    def input(self) -> list[Any]:
        return copy.deepcopy(self.documents)

    def file(self, folder: Path) -> Path:
        return written(self.documents, folder / "input.yaml")


def written(documents: Sequence[Any], file: Path) -> Path:
    file.write_text("".join(f"---\n{json.dumps(one, indent=1)}\n" for one in documents), "utf-8")
    return file


@functools.cache
def trainer_runtimes() -> list[Any]:
    """The ClusterTrainingRuntimes that were installed when Trainer was recorded."""
    return list(json.loads((FOLDER / "trainer-runtimes.json").read_text("utf-8")))


@functools.cache
def recordings(operator: str) -> tuple[Recording, ...]:
    return tuple(unpacked(path) for path in sorted((FOLDER / operator).glob("*.json")))


def unpacked(file: Path) -> Recording:
    value = msgspec.json.decode(file.read_bytes())
    bodies: list[Any] = []
    for holder in _holders(value):
        body = holder.pop("body", None)
        if body is None:
            body = msgspec.json.decode(msgspec.json.encode(bodies[holder.pop("like")]))
            for path, *changed in holder.pop("but"):
                _change(body, path, changed)
        bodies.append(body)
        holder["body"] = body
    value["objects"] = {
        moment: [one["body"] for one in holders] for moment, holders in value["objects"].items()
    }
    return msgspec.convert(
        {"operator": file.parent.name, "name": file.stem, **value}, Recording, strict=True
    )


def _holders(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What has a body, in the order in which it is written."""
    yield from (request for request in value["requests"] if request["verb"] != "delete")
    for holders in value["objects"].values():
        yield from holders


def _change(value: Any, path: list[Any], changed: list[Any]) -> None:
    *above, last = path
    for step in above:
        value = value[step]
    if changed:
        value[last] = changed[0]
    else:
        del value[last]
