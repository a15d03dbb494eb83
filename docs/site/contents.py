"""The pages of the site and their order, read from the lists that people read on GitHub.

`docs/README.md` lists every page in tables, a section each; the README of a folder lists the pages
of that folder. The navigation is made of the same tables, so that there is one list of pages.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
HOME = DOCS / "README.md"

_SECTION = re.compile(r"^## (.+)$")
_ROW = re.compile(r"^\| (\[.+?\)) \|")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)\)")


@dataclass(frozen=True, slots=True)
class Entry:
    """A page as a list names it.

    Args:
        title: Its title in the navigation.
        source: The file or, for a page that is made at build time, the folder of its code.
    """

    title: str
    source: Path


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a list.

    Args:
        title: Its heading; "" where the list has none.
        entries: The pages in it.
    """

    title: str
    entries: tuple[Entry, ...]


def sections(page: Path) -> tuple[Section, ...]:
    """Return the lists of pages on a page: the links in the first column of its tables."""
    found: dict[str, list[Entry]] = {}
    title = ""
    for line in page.read_text("utf-8").splitlines():
        if heading := _SECTION.match(line):
            title = heading[1]
        elif row := _ROW.match(line):
            entries = found.setdefault(title, [])
            for name, target in _LINK.findall(row[1]):
                entries.append(Entry(name, (page.parent / target).resolve()))
    return tuple(Section(name, tuple(entries)) for name, entries in found.items())


def listed(page: Path = HOME) -> Iterator[Path]:
    """Every page of the site, in the order of the navigation: a page, then those that it lists."""
    yield page
    if page.name != HOME.name or not page.is_relative_to(DOCS):
        return
    for section in sections(page):
        for entry in section.entries:
            yield from listed(entry.source)
