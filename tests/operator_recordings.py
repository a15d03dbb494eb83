"""What real operators did with a job: recordings of our own lab, as values.

Each recording is a file of `tests/recordings`, in a small form: the requests by which an operator
made and changed objects, and the objects that stood in the cluster. An object that resembles an
earlier one of its file is written as the differences from it. The recordings as they were taken are
a folder of files each; where such a folder is at hand (`shared/oracle` beside the checkout, or
ETCOMPILE_RECORDINGS), those of its recordings that have no small form are read from there.
"""

import copy
import functools
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct

ROOT = Path(__file__).parents[1]
SMALL = Path(__file__).parent / "recordings"
FULL = Path(os.environ.get("ETCOMPILE_RECORDINGS", ROOT.parent / "shared" / "oracle"))
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SERVER = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
_OF_TRAINER = ("Pod", "Service", "PersistentVolumeClaim", "PodGroup", "Secret")
"""What Trainer, JobSet and the Job controller made in the end."""
_FAULT = re.compile(
    r"\[\+ *([\d.]+)s\] (?:kubelet|kubectl (?:delete|annotate)|exec endpoint now fails"
    r"|operator process)"
)
"""The lines of steps.txt in which something is done to a job that runs."""


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
        """The documents, to be changed."""
        return copy.deepcopy(self.documents)

    def file(self, folder: Path) -> Path:
        """A file with the documents."""
        return written(self.documents, folder / "input.yaml")


def written(documents: Sequence[Any], file: Path) -> Path:
    """A file with some documents."""
    file.write_text("".join(f"---\n{json.dumps(one, indent=1)}\n" for one in documents), "utf-8")
    return file


@functools.cache
def trainer_runtimes() -> list[Any]:
    """The ClusterTrainingRuntimes that were installed when Trainer was recorded."""
    return list(json.loads((SMALL / "trainer-runtimes.json").read_text("utf-8")))


@functools.cache
def recordings(operator: str) -> tuple[Recording, ...]:
    """All recordings of an operator, by name."""
    by_name = {path.stem: unpacked(path) for path in (SMALL / operator).glob("*.json")}
    others = (path.parent for path in (FULL / operator).glob("*/requests.yaml"))
    by_name |= {path.name: condensed(path) for path in others if path.name not in by_name}
    return tuple(by_name[name] for name in sorted(by_name))


# ---- the small form ------------------------------------------------------------------------------


def unpacked(file: Path) -> Recording:
    """The recording that a file of the small form has."""
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


def packed(recording: Recording) -> str:
    """The small form of a recording: a line for each object."""
    value = msgspec.to_builtins(recording)
    del value["operator"], value["name"]
    value["objects"] = {
        moment: [{"body": one} for one in objects] for moment, objects in value["objects"].items()
    }
    bodies: list[Any] = []
    for holder in _holders(value):
        body = holder["body"]
        best = _line(body)
        for index, earlier in enumerate(bodies):
            if earlier["kind"] == body["kind"]:
                changes = [*_changes(earlier, body)]
                if len(_line(changes)) < len(best):
                    best = _line(changes)
                    holder.pop("body", None)
                    holder |= {"like": index, "but": changes}
        bodies.append(body)
    parts = [f'"{key}": {_line(value[key])}' for key in ("namespace", "ends", "init_image")]
    parts += [f'"{key}": {lines(value[key])}' for key in ("documents", "edits", "requests")]
    moments = (f"{_line(moment)}: {lines(value)}" for moment, value in value["objects"].items())
    parts.append('"objects": {' + ",\n".join(moments) + "}")
    return "{" + ",\n".join(parts) + "}\n"


def _holders(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What has a body, in the order in which it is written."""
    yield from (request for request in value["requests"] if request["verb"] != "delete")
    for holders in value["objects"].values():
        yield from holders


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def lines(values: list[Any]) -> str:
    return "[\n" + ",\n".join(map(_line, values)) + "\n]" if values else "[]"


def _changes(old: Any, new: Any, path: tuple[str | int, ...] = ()) -> Iterator[list[Any]]:
    """What turns one value into another: a path with the new value, or without one."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            if key not in new:
                yield [[*path, key]]
            elif key not in old:
                yield [[*path, key], new[key]]
            else:
                yield from _changes(old[key], new[key], (*path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _changes(one, other, (*path, index))
    elif _line(old) != _line(new):
        yield [[*path], new]


def _change(value: Any, path: list[Any], changed: list[Any]) -> None:
    *above, last = path
    for step in above:
        value = value[step]
    if changed:
        value[last] = changed[0]
    else:
        del value[last]


# ---- the recordings as they were taken -----------------------------------------------------------


def condensed(folder: Path) -> Recording:
    """The recording that a folder has, without what no test compares."""
    operator = folder.parent.name
    requests = entries(folder / "requests.yaml")
    steps = (folder / "steps.txt").read_text("utf-8")
    documents = entries(folder / "input.yaml")
    for value in documents:
        # Upstream's examples name another namespace in some of their documents only.
        value["metadata"].pop("namespace", None)
    edits, ends = _edits(folder, requests, steps)
    image = re.search(r"--init-container-image=(\S+)", steps)
    kinds = {value["kind"] for value in documents}
    moments = {
        path.stem: [_body(one, status=one["kind"] in kinds) for one in entries(path)]
        for path in sorted(folder.glob("objects*.yaml"))
        # Nobody takes over jobs of DLRover, nor compares an edited TrainJob with its first form.
        if operator != "dlrover"
        if operator != "trainer-v2" or not [*folder.glob("edit-*.yaml")]
    }
    return Recording(
        operator=operator,
        name=folder.name,
        namespace=str(requests[0]["namespace"]) if requests else folder.name,
        documents=documents,
        edits=edits,
        ends=ends,
        requests=[_request(one) for one in requests if _counts(operator, one)],
        objects=moments,
        init_image=image[1] if image else None,
    )


def _counts(operator: str, request: dict[str, Any]) -> bool:
    """Whether a request says which objects an operator made, changed or removed."""
    if request["code"] >= 300 or "/exec" in request["resource"]:
        return False
    if request["verb"] in ("create", "delete"):
        return operator != "trainer-v2" or request["body"].get("kind") in _OF_TRAINER
    if operator == "trainer-v2":
        is_list = request["name"].endswith("-mpi-hostfile")
        return request["verb"] == "apply" and (request["body"]["kind"] in _OF_TRAINER or is_list)
    return operator == "mpi-operator" or "mpijob" in request["namespace"]


def _request(request: dict[str, Any]) -> dict[str, Any]:
    trimmed = {key: request[key] for key in ("n", "verb", "resource", "name")}
    if request["verb"] != "delete":
        body = _body(request["body"], status=False)
        # The namespace may be in the request's path alone.
        body["metadata"] = {"namespace": request["namespace"], **body["metadata"]}
        trimmed["body"] = body
    return trimmed


def _body(value: dict[str, Any], *, status: bool) -> dict[str, Any]:
    """An object without what differs from one run of an operator to the next."""
    metadata = {key: one for key, one in value["metadata"].items() if key not in _SERVER}
    if owners := metadata.get("ownerReferences"):
        metadata["ownerReferences"] = [
            {key: one for key, one in owner.items() if key != "uid"} for owner in owners
        ]
    fields = {key: one for key, one in value.items() if status or key != "status"}
    return fields | {"metadata": metadata}


def _edits(folder: Path, requests: list[dict[str, Any]], steps: str) -> tuple[list[Any], list[int]]:
    """The job after each edit; the last request of the start and of each edit."""
    last = requests[-1]["n"] if requests else 0
    if files := sorted(folder.glob("edit-*.yaml")):
        until = r"user: .* -f (?:input|edit-\d+)\.yaml.*\n.*\n *-> requests \d+-(\d+);"
        return [entries(file)[0] for file in files], [*map(int, re.findall(until, steps))]
    accepted = [edit for edit in entries(folder / "edits.yaml") if edit["code"] == 200]
    operator = folder.parent.name
    if operator in ("dlrover", "trainer-v2") and (folder / "initial").exists():
        last = int((folder / "initial").read_text())
    elif operator == "et-operator" or "mpijob" in folder.name:
        times = [float(match[1]) for match in _FAULT.finditer(steps)]
        # What comes within a third of a second before a fault may come of it.
        first = min((time - 0.3 for time in times if time > 1), default=float("inf"))
        last = max((one["n"] for one in requests if one["t"] < first), default=0)
    return [edit["job"] for edit in accepted], [*(edit["after_request"] for edit in accepted), last]


def entries(file: Path) -> list[Any]:
    """The documents of a YAML file; none if it is not there."""
    if not file.exists():
        return []
    return [one for one in yaml.load_all(file.read_text("utf-8"), _LOADER) if one]
