"""Compare new output with an output folder, and report changes that a live object refuses.

The last output is what the cluster has, as far as Git knows, so such a change is reported before
anything is merged (reference/gitops.md 1.3). Only documents whose text changes are parsed: after a
scale-out that is not a single Pod.
"""

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from etcompile.check import kubernetes
from etcompile.check.output_rules import identity
from etcompile.diagnostics import Diagnostic, codes, diagnose, has_errors
from etcompile.diagnostics.message_text import excerpts
from etcompile.emit import HEADER
from etcompile.emit.output_state import Comparison, compare
from etcompile.k8s.path import value_path
from etcompile.load import Document, Limits, access, parse
from etcompile.load.revision import Revision, RevisionError, unpack
from etcompile.model import protocol
from etcompile.model.run_identity import is_only_another_run
from etcompile.plan.updates import Change, changes

_SEPARATOR = "\n---\n"
_LIMITS = Limits(file_bytes=sys.maxsize, documents=sys.maxsize)
"""None, because etcompile wrote these files."""

_LONG = 80
"""Characters of a value in a message. A longer variable describes the whole job, like TF_CONFIG."""


def replacements(
    directory: Path,
    comparison: Comparison,
    files: Mapping[str, str],
    version: str,
    *,
    replaced: bool = False,
    shown: str | None = None,
) -> list[Diagnostic]:
    """Report how new output, texts by path, changes the objects of an output folder.

    An object that this version of Kubernetes does not accept cannot be live. If the user deletes
    the objects that cannot change (`replaced`), these are warnings.
    """
    old: dict[str, str] = {}
    for path in map(str, (*comparison.changed, *comparison.stale)):
        try:
            if path.endswith(".yaml"):
                text = access.content(str(directory / path)).decode()
                old[path] = text.replace("\r\n", "\n")
        except (OSError, UnicodeDecodeError):
            continue  # broken by hand, so no cluster has its objects
    written = map(str, (*comparison.changed, *comparison.missing))
    new = {path: files[path] for path in written if path.endswith(".yaml")}
    before, now = (
        {_body(part) for text in texts.values() for part in text.split(_SEPARATOR)}
        for texts in (old, new)
    )
    both = before & now
    after = {
        identity(document.data): document
        for path, text in (new.items() if old else ())
        for document in _read(path, text, both)
    }
    renamed: list[Document] = []
    # One diagnostic for each field and its two values, however many objects it is in.
    same: dict[tuple[str, ...], list[tuple[Document, Change]]] = {}
    for path, text in old.items():
        for document in _read(f"{shown or directory}/{path}", text, both):
            value, standing = after.get(identity(document.data)), document.data
            if value is None or has_errors(kubernetes.check_object(document, version)):
                continue
            if protocol.is_config(standing["metadata"]):
                stored = (
                    str((data.get("data") or {}).get(protocol.STORED_JOB) or "")
                    for data in (standing, value.data)
                )
                renamed += [document] if is_only_another_run(*stored) else []
            for change in changes(standing, value.data):
                values = (_generalized(part, document, change) for part in (change.old, change.new))
                kind = (str(document.api_version), str(document.kind), str(document.namespace))
                key = (*kind, change.field, change.verdict, *values)
                same.setdefault(key, []).append((document, change))
    problems = []
    if renamed:
        labels = (document.data["metadata"]["labels"] for document in renamed)
        jobs = ", ".join(str(named[protocol.JOB_LABEL]) for named in labels)
        place = renamed[0].locate(("data", protocol.STORED_JOB))
        problems.append(diagnose(codes.ONLY_ANOTHER_RUN, place, jobs=jobs))
    for entries in same.values():
        documents = [document for document, _ in entries]
        problems.append(_diagnostic(documents, entries[0][1], replaced=replaced))
    return problems


def replacements_since(
    base: Revision, directory: Path, files: Mapping[str, str], version: str, *, replaced: bool
) -> list[Diagnostic]:
    """Report how new output changes the objects of a folder as it was at a revision."""
    inside = base.within(str(directory))
    if inside is None:
        raise RevisionError(f"{directory} is not in the repository {base.top}")
    with tempfile.TemporaryDirectory(prefix="etcompile-") as folder:
        unpack(base, [inside], Path(folder))
        old, shown = Path(folder, inside), f"{base.name}:{inside}"
        comparison = compare(old, files)
        return replacements(old, comparison, files, version, replaced=replaced, shown=shown)


def _body(part: str) -> str:
    """Return a document without the header, which only the first one of a file has."""
    if part.startswith(HEADER):
        part = part.removeprefix(HEADER).partition("\n")[2]
    return part.strip("\n")


def _read(file: str, text: str, unchanged: set[str]) -> Iterator[Document]:
    # Blank lines for unchanged documents preserve the line numbers of the others.
    text = _SEPARATOR.join(
        "\n" * part.count("\n") if _body(part) in unchanged else part
        for part in text.split(_SEPARATOR)
    )
    for document in parse(text, file=file, limits=_LIMITS).documents:
        if document.name and document.kind != "Kustomization":
            yield document


def _generalized(value: object, old: Document, change: Change) -> str:
    """Return a value without what differs between the Pods of a role.

    That is their names and, in variables, numbers such as ranks. Long variables describe all hosts
    of the job, and are ignored.
    """
    text = json.dumps(value, sort_keys=True).replace(str(old.name), "*")
    if ".env" not in change.field:
        return text
    return re.sub(r"\d+", "#", text) if len(text) <= _LONG else ""


def _diagnostic(objects: list[Document], change: Change, *, replaced: bool) -> Diagnostic:
    first = objects[0]
    what = first.label
    if len(objects) > 1:
        names = [str(document.name) for document in objects]
        shown = ", ".join(names[:2] if len(names) > 3 else names[:-1])
        rest = f"{len(names) - 2} more" if len(names) > 3 else names[-1]
        what = f"{first.kind}s {shown} and {rest}"
    before = after = "a value that is not shown"
    if not change.secret:
        before, after = (
            "nothing" if value is None else json.dumps(value, sort_keys=True, ensure_ascii=False)
            for value in (change.old, change.new)
        )
        # Long values are shown from their first difference.
        before, after = excerpts(before, after, _LONG)
    facts = {"what": what, "field": change.field, "old": before, "new": after}
    place = first.locate(value_path(first.data, change.path))
    labels = first.data["metadata"].get("labels", {})
    of_job = first.kind == "Pod" and protocol.JOB_LABEL in labels
    run = "start a new run with another ID in the annotation etcompile.dev/run"
    if change.verdict == "restarts":
        advice = f"{run}, so that versions do not mix" if of_job else ""
        return diagnose(codes.IMAGE_IN_PLACE, place, **facts, advice=advice)
    if replaced:
        return diagnose(codes.REPLACED_OBJECT, place, **facts)
    them, others = ("them", "new names") if len(objects) > 1 else ("it", "a new name")
    another = run if of_job else f"give {them} {others}"
    delete = f"pass --replace, and delete {them} in the cluster before this is applied"
    return diagnose(codes.IMMUTABLE_CHANGE, place, **facts, advice=f"{another}; or {delete}")
