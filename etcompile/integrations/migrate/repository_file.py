"""A job's own file of a repository, changed so that it says what runs.

What somebody wrote is worth more than a dump: its comments, its order and its anchors. So the file
is edited as `check --fix` edits, one value after the other, and not a character besides. Only
values are changed; a field that is there or not there on one side alone is told, if what is
rendered depends on it. What does not is a default that a cluster has filled in.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from etcompile.diagnostics import Diagnostic, ValuePath, codes, diagnose, has_errors
from etcompile.diagnostics.fix import Fix, Replace
from etcompile.fixes import with_fix
from etcompile.k8s.fieldpath import dotted, value_at
from etcompile.load import Document, access, load
from etcompile.model import Job
from etcompile.model.job import Origin, PodAdditions, PodTemplate
from etcompile.model.protocol import SPEC_HASH, STORED_JOB
from etcompile.stages.stored import read_text

_MARK = "\ufeff"
_OWN = "etcompile.dev/"
"""Prefix of annotations that tell etcompile something, and that no operator knows of."""
_IN_PODS = (PodTemplate, PodAdditions)
"""Parts of a job that its Pods show."""
_WIDEST = 60
"""Characters of a value that a message shows."""

Rendered = Callable[[Sequence[Document]], Any]
"""What documents render to, to be compared; None if they are refused."""


class Wanted(Struct, frozen=True):
    """A document as it is to be written.

    Args:
        document: Without what only a cluster can have written.
        live: All of it, as the cluster has it.
    """

    document: Document
    live: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Its kind and name."""
        return self.document.label


class Rewritten(Struct, frozen=True):
    """A file that says what runs.

    Args:
        file: Its path.
        content: What it is to hold.
        changes: What was changed, each as `field: before -> after`.
        documents: What it holds then.
        diagnostics: What speaks against it, and what it still says differently.
    """

    file: Path
    content: bytes
    changes: tuple[str, ...] = ()
    documents: tuple[Document, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


class _Difference(Struct, frozen=True):
    """A field that a file and what runs have otherwise.

    Args:
        path: Where, from the root of the document.
        before: What the file has; None if nothing.
        after: What runs; None if nothing.
    """

    path: ValuePath
    before: Any
    after: Any

    @property
    def is_scalar(self) -> bool:
        """One scalar stands for another."""
        return _is_scalar(self.before) and _is_scalar(self.after)


def rewritten(file: Path, wanted: Sequence[Wanted], rendered: Rendered) -> Rewritten:
    """A file with the values that jobs run with.

    Args:
        file: The file, which has the jobs.
        wanted: The jobs, and what else is to be as it runs if the file has it.
        rendered: Tells whether a difference matters.

    Returns:
        The file, which nobody has written yet. Bad input never raises.
    """
    given = load([str(file)])
    if has_errors(given.diagnostics):
        return Rewritten(file, b"", diagnostics=given.diagnostics)
    content = access.content(str(file))
    text = content.decode()
    mark = _MARK if text.startswith(_MARK) else ""
    text = text.removeprefix(_MARK)
    documents = given.documents
    changes: list[str] = []
    for each in wanted:
        number = _number_of(documents, each)
        if number is None:
            continue
        for difference in _differences(documents[number], each):
            made = _edited(file, (text, documents), number, difference)
            if made is not None:
                text, documents = made
                of = f"{each.label}: " if len(wanted) > 1 else ""
                changes.append(f"{of}{_told(difference)}")
    rest = tuple(_left(documents, wanted, rendered))
    told = (*given.diagnostics, *rest)
    return Rewritten(file, f"{mark}{text}".encode(), tuple(changes), documents, told)


def absent(file: Path, documents: Iterable[Document], wanted: Wanted) -> Diagnostic | None:
    """ET5025 if a file does not have a job.

    Args:
        file: Its path, as the user gave it.
        documents: What it holds.
        wanted: The job.
    """
    documents = list(documents)
    if _number_of(documents, wanted) is not None:
        return None
    others = [d.label for d in documents if d.kind == wanted.document.kind]
    has = f"it has {', '.join(others)}" if others else "name the file that has it"
    return refused(file, wanted, "it is not in that file", has)


def refused(file: Path, wanted: Wanted, reason: str, advice: str) -> Diagnostic:
    """ET5025: a job cannot be written into a file.

    Args:
        file: Its path, as the user gave it.
        wanted: The job.
        reason: Why not, as a clause.
        advice: What to do.
    """
    facts = {"job": wanted.label, "file": str(file), "reason": reason, "advice": advice}
    return diagnose(codes.NOT_REWRITTEN, wanted.document.locate(("metadata", "name")), **facts)


def meaning(objects: Sequence[Mapping[str, Any]]) -> Any:
    """What a cluster does with the objects of a job, to be compared.

    Two documents may say the same with other words: a default that is written out. That changes
    the text that the watcher reads and the hash of the spec, and nothing that happens.

    Args:
        objects: Those of one job, as rendered.
    """
    pods = any(value["kind"] == "Pod" for value in objects)
    made: list[Any] = []
    for value in objects:
        metadata = dict(value["metadata"])
        annotations = metadata.get("annotations") or {}
        metadata["annotations"] = {k: v for k, v in annotations.items() if k != SPEC_HASH}
        data = value.get("data")
        if value["kind"] == "ConfigMap" and isinstance(data, Mapping) and STORED_JOB in data:
            job = read_text(data[STORED_JOB]).job
            data = {**data, STORED_JOB: _facts(job, templates=not pods)}
        made.append({**value, "metadata": metadata, "data": data})
    return made


def _facts(value: Any, *, templates: bool) -> Any:
    """A part of a job without where it stands and in which words it was written.

    Args:
        value: A job, or a part of it.
        templates: With what its Pods show if it has some.
    """
    if isinstance(value, Origin) or (isinstance(value, _IN_PODS) and not templates):
        return None
    if isinstance(value, Struct):
        return [
            _facts(getattr(value, name), templates=templates)
            for name in value.__struct_fields__
            if not (isinstance(value, Job) and name in ("document", "identity"))
        ]
    if isinstance(value, Mapping):
        return {key: _facts(below, templates=templates) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [_facts(below, templates=templates) for below in value]
    return value


def _number_of(documents: Iterable[Document], wanted: Wanted) -> int | None:
    """Which document of a file is meant: a file need not say the namespace."""
    meant = wanted.document
    for number, found in enumerate(documents):
        here = found.namespace in (None, meant.namespace or "default")
        if here and (found.kind, found.name) == (meant.kind, meant.name):
            return number
    return None


# Differences --------------------------------------------------------------------------------------


def _differences(document: Document, wanted: Wanted) -> Iterator[_Difference]:
    """What a document of a file has otherwise: of its spec, its labels and its annotations."""
    meant = wanted.document.data
    for path in (("spec",), ("metadata", "labels"), ("metadata", "annotations")):
        for found in _between(
            path,
            value_at(document.data, path),
            value_at(meant, path),
            value_at(wanted.live, path),
        ):
            if not (found.path[0] == "metadata" and str(found.path[-1]).startswith(_OWN)):
                yield found


def _between(path: ValuePath, before: Any, after: Any, live: Any) -> Iterator[_Difference]:
    """The differences of two values.

    Args:
        path: Where they stand.
        before: That of the file.
        after: That which is meant, without defaults.
        live: That of the cluster, whose defaults count where the file has written one.
    """
    if after is None and before is not None:
        after = live
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in [*before, *(key for key in after if key not in before)]:
            below = live.get(key) if isinstance(live, Mapping) else None
            yield from _between((*path, key), before.get(key), after.get(key), below)
    elif isinstance(before, list) and isinstance(after, list) and _pairs(before, after):
        for number, other in _pairs(before, after):
            below = value_at(live, (other,))
            yield from _between((*path, number), before[number], after[other], below)
    elif before != after or isinstance(before, bool) != isinstance(after, bool):
        yield _Difference(path, before, after)


def _pairs(before: Sequence[Any], after: Sequence[Any]) -> list[tuple[int, int]]:
    """The items of two lists that are the same one: by name, or else by place; none if unclear."""
    if len(before) != len(after):
        return []
    names = [[_name(item) for item in items] for items in (before, after)]
    ours, theirs = names
    if None in ours or len(set(ours)) < len(ours) or set(ours) != set(theirs):
        return [(number, number) for number in range(len(before))]
    return [(number, theirs.index(name)) for number, name in enumerate(ours)]


def _name(item: Any) -> str | None:
    found = item.get("name") if isinstance(item, Mapping) else None
    return found if isinstance(found, str) else None


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float)


# Edits --------------------------------------------------------------------------------------------


_Documents = tuple[Document, ...]


def _edited(
    file: Path, now: tuple[str, _Documents], number: int, change: _Difference
) -> tuple[str, _Documents] | None:
    """A text and its documents with one value changed, and no other; None if that cannot be had.

    A value that an alias repeats stands in several places, of which only one may be meant.
    """
    if not change.is_scalar:
        return None
    text, documents = now
    fix = Fix("", (Replace(documents[number].locate(change.path), change.after),), is_safe=True)
    made = with_fix(text, fix)
    if made is None:
        return None
    with access.instead_of({str(file): made.encode()}):
        again = load([str(file)]).documents
    meant = [found.data for found in documents]
    meant[number] = _with(meant[number], change.path, change.after)
    return (made, again) if [found.data for found in again] == meant else None


def _with(value: Any, path: ValuePath, after: Any) -> Any:
    """A copy with another value at a path; without that field if it is None."""
    if not path:
        return after
    step, rest = path[0], path[1:]
    if isinstance(value, list):
        return [_with(item, rest, after) if at == step else item for at, item in enumerate(value)]
    made = dict(value) if isinstance(value, Mapping) else {}
    if not rest and after is None:
        made.pop(step, None)
    else:
        made[step] = _with(made.get(step), rest, after)
    return made


# What is left -------------------------------------------------------------------------------------


def _left(
    documents: Sequence[Document], wanted: Iterable[Wanted], rendered: Rendered
) -> Iterator[Diagnostic]:
    """The differences that stay in the file, as far as other objects are rendered for them."""
    usual = rendered(documents)
    for each in wanted:
        number = _number_of(documents, each)
        if number is None:
            continue
        document = documents[number]
        for found in _differences(document, each):
            changed = list(documents)
            changed[number] = _changed(document, found)
            if found.is_scalar or rendered(changed) != usual:
                yield _warning(document, each, found)


def _changed(document: Document, found: _Difference) -> Document:
    return structs.replace(document, data=_with(document.data, found.path, found.after))


def _warning(document: Document, wanted: Wanted, found: _Difference) -> Diagnostic:
    where = dotted(found.path)
    if found.after is None:
        what, advice = f"it runs without {where}", "take it out here"
    elif found.before is None:
        what = f"it runs with {where}: {_shown(found.after)}"
        advice = "write it here"
    else:
        what = f"it runs with {_shown(found.after)} for {where}"
        advice = "change it here"
    facts = {"job": wanted.label, "what": what, "advice": advice}
    return diagnose(codes.RUNS_OTHERWISE, document.locate(found.path), **facts)


def _told(found: _Difference) -> str:
    return f"{dotted(found.path)}: {_shown(found.before)} -> {_shown(found.after)}"


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."
