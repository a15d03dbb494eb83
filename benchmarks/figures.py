"""Figures into docs/benchmarks.md, where each script has a place between two comments."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path

import etcompile

_END = "<!-- end of figures -->"


def write_figures(docs: Path, name: str, text: str) -> None:
    """Replaces the figures of a script in docs/benchmarks.md."""
    path = docs / "benchmarks.md"
    mark = f"<!-- figures: {name} -->"
    before, separator, rest = path.read_text("utf-8").partition(mark)
    _, end, after = rest.partition(_END)
    if not (separator and end):
        raise SystemExit(f"{path} has no place for the figures of {name}")
    path.write_text(f"{before}{mark}\n\n{text.strip()}\n\n{end}{after}", "utf-8")


def measured_on(date: str, load: float, *others: str) -> str:
    """The sentence that says when, where and of which versions figures are."""
    versions = (
        f"etcompile {etcompile.__version__}",
        f"Python {platform.python_version()}",
        *others,
    )
    machine = f"{os.cpu_count()} cores ({platform.system()}, {platform.machine()})"
    return f"Measured on {date} on {machine}, load {load:.1f}: {', '.join(versions)}."


def short_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, whose first column names what was measured."""
    lines = (head, ("---", *("---:" for _ in head[1:])), *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
