"""Select, deduplicate and sort the diagnostics that a run reports."""

import re
from collections.abc import Collection, Iterator, Sequence

from etcompile.compiler.load import Sources
from etcompile.diagnostics import Diagnostic, codes, has_errors
from etcompile.k8s.path import texts_in

_INDEX = r"\[[0-9]+\]"


def reported(
    problems: Sequence[Diagnostic], sources: Sources
) -> tuple[tuple[Diagnostic, ...], tuple[Diagnostic, ...]]:
    options, failed = sources.options, has_errors(problems)
    if failed:
        # Hide advice while there are errors.
        problems = [problem for problem in problems if not problem.code.startswith("ET9")]
    suppressed: Sequence[Diagnostic] = ()
    if options.ignore or sources.inputs.comments:
        from etcompile.diagnostics import suppression  # noqa: PLC0415 - few runs need it

        problems = suppression.marked(
            problems,
            sources.inputs.comments,
            options.ignore,
            complete=not failed,
            linted=options.lint,
        )
        suppressed = [problem for problem in problems if problem.suppressed is not None]
        problems = [problem for problem in problems if problem.suppressed is None]
    files = sources.files
    overlay_files = {document.file for document in sources.environment.documents}
    in_order: Sequence[Diagnostic] = _in_order(problems, files, overlay_files)
    if in_order:
        from etcompile.load.placeholders import hints_for_documents  # noqa: PLC0415 - few need it

        def texts(file: str) -> Iterator[str]:
            of_file = (document for document in sources.inputs.documents if document.file == file)
            readable = (document.data for document in of_file if document.kind != "Secret")
            return (text for data in readable for _, text in texts_in(data))

        in_order = hints_for_documents(in_order, texts)
    return tuple(in_order), _in_order(suppressed, files, overlay_files)


def _in_order(
    diagnostics: Sequence[Diagnostic], files: Sequence[str], overlay_files: Collection[str]
) -> tuple[Diagnostic, ...]:
    """Sort diagnostics by file and line, and report those of overlays once."""
    if not diagnostics:
        return ()
    numbers = {file: number for number, file in enumerate(files)}

    def place(diagnostic: Diagnostic) -> tuple[int, int, int]:
        location = diagnostic.location
        if location is None:
            return (len(numbers) + 1, 0, 0)
        return (numbers.get(location.file, -1), location.line or 0, location.column or 0)

    # Report a problem of an overlay once, however many objects it concerns.
    different: dict[object, Diagnostic] = {}
    for number, diagnostic in enumerate(diagnostics):
        at = diagnostic.location
        # Overlays that are Python values have no lines that distinguish problems.
        if at and at.file in overlay_files and (at.line or diagnostic.code.startswith("ET6")):
            # Messages name the object, and indexes may differ between objects.
            is_patch = diagnostic.code == codes.OVERLAY_PATCH
            words = "" if is_patch else re.sub(_INDEX, "", diagnostic.message)
            different.setdefault((diagnostic.code, at, words), diagnostic)
        else:
            different[number] = diagnostic
    return tuple(sorted(different.values(), key=place))
