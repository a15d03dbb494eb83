"""Finds the files of a source that hold jobs, by a regular expression on their text.

Argo CD asks every plugin about each Application that names none. A TFJob in the source does not
mean that etcompile should compile it, because its operator may be installed. So such a source is
ours only if a file name says so (reference/gitops.md 6.1).
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from etcompile import frontends
from etcompile.compiler.runtimes import RUNTIME_KINDS
from etcompile.diagnostics import Diagnostic
from etcompile.integrations.argocd.request import repository
from etcompile.load import Boundary, access
from etcompile.load.sources import sources

_GLANCE = 1024 * 1024
"""Bytes of a file that are looked at."""
_MOST = 20
"""So many names fit into a tooltip."""
MARK = ".etjob.yaml"
"""The end of a file name that says: compile this with etcompile."""


def job_files(paths: Iterable[str], boundary: Boundary, *, marked: bool) -> Iterator[str]:
    """The files that hold a job.

    Args:
        paths: Files, folders and globs.
        boundary: Where all of them must lie.
        marked: Only those whose name says that etcompile compiles them.
    """
    for path, shown in _files_of({kind.name for kind in frontends.kinds()}, paths, boundary):
        if path.endswith(MARK) or not marked:
            yield shown


def choices(folder: Path, environment: Mapping[str, str]) -> dict[str, list[str]]:
    """What there is to choose from, by the name of the parameter."""
    top = repository(folder, environment)
    boundary = Boundary(str(top))
    found = {
        "paths": sorted(
            shown.removeprefix("./") for shown in job_files(["."], boundary, marked=False)
        ),
        "overlay": sorted(
            os.path.relpath(path, folder)
            for path, _ in _files_of({"Overlay"}, [str(top)], boundary)
        ),
        "runtimes": sorted(
            os.path.relpath(path, folder)
            for path, _ in _files_of(RUNTIME_KINDS, [str(top)], boundary)
        ),
    }
    for names in found.values():
        if (more := len(names) - _MOST) > 0:
            names[_MOST:] = [f"and {more} more"]
    return found


def _files_of(
    kinds: Iterable[str], paths: Iterable[str], boundary: Boundary
) -> Iterator[tuple[str, str]]:
    """The files that hold an object of these kinds, each with what to call it."""
    names = "|".join(sorted(kinds))
    of_kind = re.compile(
        rf"""(^|[{{,]\s*)["']?kind["']?\s*:\s*["']?({names})["']?\s*([,}}#]|$)""", re.MULTILINE
    )
    for path in paths:
        for file in sources(path, boundary).files:
            if isinstance(file, Diagnostic):
                continue  # told by whoever reads it
            try:
                text = access.content(file.path, boundary, _GLANCE).decode(errors="replace")
            except OSError:
                continue
            if of_kind.search(text):
                yield file.path, file.shown
