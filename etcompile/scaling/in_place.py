"""Changes the number of workers in the job's own file (`scale --in-place`).

The file is edited as `check --fix` edits: only this number changes. A job that has intents keeps
its number, because the intents count from there.
"""

from pathlib import Path

from msgspec import structs

from etcompile import frontends
from etcompile.diagnostics import Diagnostic, ValuePath, codes, diagnose
from etcompile.diagnostics.fix import Fix, Replace
from etcompile.fixes import with_fix
from etcompile.k8s.path import dotted, value_at
from etcompile.load import access
from etcompile.scaling.proposal import Proposal
from etcompile.scaling.selection import Chosen

_MARK = "\ufeff"


def in_place(found: Chosen, made: Proposal) -> tuple[Proposal | None, list[Diagnostic]]:
    """The same number of workers, written into the job's file.

    Args:
        found: The job and its intents.
        made: The intent that would meet the wish, which is refused where this one would be.

    Returns:
        A proposal whose text is that of the job's whole file, or None; and why it cannot be.
    """
    if made.path is None:
        return made, []
    job = found.job
    path = _number(found, made.role)
    if len(found.documents) > 1:
        reason = "it has scale intents, which count from the number in its file"
        return None, [_refused(found, reason, "leave out --in-place, or fold the intents into it")]
    if path is None:
        return None, [_refused(found, f"nothing in it says how many {made.role} there are", "")]
    where = dotted(path)
    if value_at(job.data, path) is None:
        advice = f"write {where}: {made.after} there"
        return None, [_refused(found, f"it does not have {where}", advice)]
    text = _text(job.file)
    title = f"{where}: {made.before} -> {made.after}"
    fix = Fix(title, (Replace(job.locate(path), made.after),), is_safe=True)
    after = None if text is None else with_fix(text.removeprefix(_MARK), fix)
    if text is None or after is None:
        advice = f"write {where}: {made.after} there"
        return None, [_refused(found, "its file cannot be edited at that place", advice)]
    mark = _MARK if text.startswith(_MARK) else ""
    return structs.replace(
        made, path=Path(job.file), text=f"{mark}{after}", title=title, replaces=True
    ), []


def _number(found: Chosen, role: str) -> ValuePath | None:
    """The field of a job that says how many replicas of a role there are."""
    kind = frontends.find(found.job.api_version, found.job.kind)
    paths = [*kind.counts_of(found.job.data)] if kind else []
    own = [path for path in paths if str(path[-2]).lower() == role.lower()]
    return next(iter(own or (paths if len(paths) == 1 else ())), None)


def _text(file: str) -> str | None:
    try:
        return access.content(file).decode()
    except (OSError, UnicodeDecodeError):
        return None


def _refused(found: Chosen, reason: str, advice: str) -> Diagnostic:
    place = found.job.locate(("metadata", "name"))
    facts = {"job": found.job.name or "", "reason": reason, "advice": advice}
    return diagnose(codes.NUMBER_NOT_WRITTEN, place, **facts)
