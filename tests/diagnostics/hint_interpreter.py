"""A small reader of hints: a hint and the place that it is about, to a changed input.

It reads what most hints have in common, such as `did you mean 'replicas'?`, `remove it` or `set
metadata.namespace: ml`. For other hints, `hints.yaml` has recipes, made of the changes here.
"""

import contextlib
import copy
import difflib
import functools
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import yaml

Path = tuple[str | int, ...]
Documents = list[Any]


class Place(NamedTuple):
    """A key or a value of a text: the number of its document, its path, and its words."""

    document: int
    path: Path
    written: str


def places(text: str, line: int, column: int) -> list[Place]:
    """What begins at a place of a text, the innermost first; what holds it, if nothing does."""
    result: list[Place] = []
    nearest: list[Place] = []
    for number, root in enumerate(filter(None, yaml.compose_all(text))):
        for path, node in _nodes(root):
            begin = (node.start_mark.line + 1, node.start_mark.column + 1)
            place = Place(number, path, node.value if isinstance(node, yaml.ScalarNode) else "")
            if begin == (line, column):
                result.append(place)
            elif begin <= (line, column):
                nearest.append(place)
    return result[::-1] or nearest[-1:]


def _nodes(root: yaml.Node) -> Iterator[tuple[Path, yaml.Node]]:
    waiting: list[tuple[Path, yaml.Node]] = [((), root)]
    while waiting:
        path, node = waiting.pop()
        yield path, node
        if isinstance(node, yaml.MappingNode):
            for key, value in reversed(node.value):
                yield (*path, key.value), key
                waiting.append(((*path, key.value), value))
        elif isinstance(node, yaml.SequenceNode):
            waiting += reversed([((*path, n), item) for n, item in enumerate(node.value)])


# Changes ----------------------------------------------------------------------------------------


def steps(words: str) -> Path:
    """`spec.containers[0].name`, `metadata.annotations['example.com/a']` as a path."""
    parts = re.findall(r"\['([^']+)'\]|\[(\d+)\]|([^.\[\]]+)", words)
    return tuple(key or (int(index) if index else name) for key, index, name in parts)


def changed(text: str, document: int, change: Callable[[Any], Any]) -> str:
    documents = [*yaml.safe_load_all(text)]
    value = change(copy.deepcopy(documents[document]))
    documents[document : document + 1] = [] if value is None else [value]
    return str(yaml.safe_dump_all(documents, sort_keys=False, width=1000))


def at(value: Any, path: Path) -> Any:
    """The value at a path; KeyError, IndexError or TypeError if there is none."""
    for step in path:
        value = value[step]
    return value


def put(value: Any, path: Path, new: Any) -> Any:
    """The value with another at a path; mappings on the way are created."""
    inner = value
    for step in path[:-1]:
        inner = inner.setdefault(step, {}) if isinstance(inner, dict) else inner[step]
    inner[path[-1]] = new
    return value


def without(value: Any, path: Path) -> Any:
    """The value without what is at a path; None without everything."""
    if not path:
        return None
    del at(value, path[:-1])[path[-1]]
    return value


def renamed(value: Any, path: Path, name: str) -> Any:
    """The value with another key at a path, in the same place among the others."""
    mapping = at(value, path[:-1])
    items = [(name if key == path[-1] else key, inner) for key, inner in mapping.items()]
    mapping.clear()
    mapping.update(items)
    return value


def apply_change(text: str, change: Mapping[str, Any]) -> str:
    """A text after a `set`, `remove`, `rename`, `move`, `replace` or `append` of a recipe."""
    number = change.get("document", 0)
    match change:
        case {"replace": [old, new]}:
            assert old in text, f"there is no {old!r} to replace"
            return text.replace(old, new)
        case {"append": more}:
            return f"{text.rstrip()}\n---\n{more}"
        case {"set": path, "to": new}:
            return changed(text, number, lambda value: put(value, steps(path), new))
        case {"remove": path}:
            return changed(text, number, lambda value: without(value, steps(path)))
        case {"rename": path, "to": name}:
            return changed(text, number, lambda value: renamed(value, steps(path), name))
        case {"move": path, "to": target}:
            return changed(text, number, lambda value: moved(value, steps(path), steps(target)))
    raise AssertionError(f"no such change: {change}")


def moved(value: Any, path: Path, target: Path) -> Any:
    """The value with what is at a path at another."""
    return without(put(value, target, at(value, path)), path)


# Reading ----------------------------------------------------------------------------------------

_FIELD = r"[A-Za-z][\w.-]*(?:/[\w.-]+)?(?:\[\d+\])*(?:\.[\w.-]+)*"
_LIST = (
    r"(?:its fields are|the kinds of this group are|known are|workers at that point"
    r"|each \w+ here|use one of|the known ones are):? (?P<words>.+)"
)
_SETTING = rf"(?:write|set|add|annotate the job:?)(?: the (annotation|label))? ({_FIELD}): (\S+)"
_AFTERWARDS = r"(?: \(.*\)| to the job| to confirm this| beside it)?"


def clauses(hint: str) -> list[str]:
    parts = re.split(r"; (?:or )?|,? or |, and (?=[a-z]+ )", hint)
    return [part for part in (part.strip() for part in parts) if part]


def reading(clause: str, text: str, place: Place) -> str | None:
    """The text as a clause would have it; None if the clause is not understood."""
    number, path, written = place

    def on_document(change: Callable[[Any], Any]) -> str:
        return changed(text, number, change)

    if match := re.search(r"for example ((?:sed|envsubst) .*) \| etcompile render -", clause):
        return _piped(match[1], text)
    if match := re.fullmatch(r"did you mean '?(?:apiVersion: )?([^']+?)'?\?", clause):
        return on_document(lambda value: _replaced(value, path, written, match[1]))
    if match := re.fullmatch(_LIST, clause):
        words = match["words"].split(", ")
        near = difflib.get_close_matches(written, words, n=1, cutoff=0) or words
        return on_document(lambda value: _replaced(value, path, written, near[0]))
    if clause == "put it in quotes":
        return on_document(lambda value: put(value, path, written))
    if match := re.fullmatch(r"remove the quotes: (\S+)", clause):
        return on_document(lambda value: put(value, path, yaml.safe_load(match[1])))
    if match := re.fullmatch(rf"move it to ({_FIELD})", clause):
        return on_document(lambda value: moved(value, path, (*steps(match[1]), path[-1])))
    if match := re.fullmatch(rf"move ({_FIELD}) to ({_FIELD})", clause):
        return on_document(lambda value: moved(value, steps(match[1]), steps(match[2])))
    if re.fullmatch("remove (?:it|one of the two)(?:,? (?:unless|from) .*)?", clause):
        return on_document(lambda value: without(value, path))
    if match := re.fullmatch(rf"remove (?:the deprecated )?({_FIELD})(?:[, ].*)?", clause):
        return _without(text, place, match[1])
    if match := re.fullmatch(_SETTING + _AFTERWARDS, clause):
        return _with(text, place, match[2], yaml.safe_load(match[3]), match[1] or "")
    if match := re.fullmatch(r"(?:use|write) ([\w.-]+/[\w.-]+)", clause):
        return on_document(lambda value: put(value, path, match[1]))
    return None


def _piped(command: str, text: str) -> str:
    """What the command of a hint writes, with a 1 for each value."""
    command = re.sub(r" (?:< )?FILE\b", "", command)
    names = " ".join(re.findall("envsubst '([^']*)'", command)).replace("$", "").split()
    done = subprocess.run(
        ["bash", "-ec", command.replace("|VALUE|", "|1|")],
        input=text,
        env={"PATH": os.environ["PATH"], **dict.fromkeys(names, "1")},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def _replaced(value: Any, path: Path, written: str, name: str) -> Any:
    """The value with a key or a value at a path replaced, whichever was written there."""
    if path and path[-1] == written:
        return renamed(value, path, name)
    return put(value, path, name)


def _without(text: str, place: Place, name: str) -> str | None:
    whole = [*yaml.safe_load_all(text)][place.document]
    for path in _candidates(place.path, name):
        with contextlib.suppress(KeyError, IndexError, TypeError):
            at(whole, path)
            return changed(text, place.document, functools.partial(without, path=path))
    return None


def _with(text: str, place: Place, name: str, new: Any, kind: str) -> str | None:
    whole = [*yaml.safe_load_all(text)][place.document]
    if kind or "/" in name:
        change = functools.partial(
            put, path=("metadata", f"{kind or 'annotation'}s", name), new=new
        )
        return changed(text, place.document, change)
    for path in _candidates(place.path, name):
        with contextlib.suppress(KeyError, IndexError, TypeError):
            if path == steps(name) or isinstance(at(whole, path[:-1]), dict):
                return changed(text, place.document, functools.partial(put, path=path, new=new))
    return None


def _candidates(path: Path, name: str) -> Iterator[Path]:
    """Where a field of that name may be, from a place outwards."""
    if "/" in name:
        yield from (("metadata", field, name) for field in ("annotations", "labels"))
    elif name.startswith(("spec.", "metadata.")):
        yield steps(name)
    else:
        for length in range(len(path), -1, -1):
            yield (*path[:length], *steps(name))
        yield ("spec", *steps(name))
