"""Every link of every page leads somewhere, as GitHub shows them, and no page is left out.

`tests/site` does the same with what the site makes of the pages.
"""

import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands_on_pages import PAGES, ROOT
from markdown_it import MarkdownIt
from markdown_it.token import Token

DOCS = ROOT / "docs"
NOT_ON_THE_SITE = frozenset({DOCS / "editors" / "vscode" / "README.md"})
"""The README of an extension, which its own list of extensions shows."""
FOLDERS = ("diagnostics", "kinds", "contributing", "reference")
"""Folders whose own README lists their pages."""
_MARKDOWN = MarkdownIt("commonmark").enable("table")
_HTML_LINK = re.compile(r'(?:href|src|srcset)="([^"]+)"')


@functools.cache
def tokens(page: Path) -> tuple[Token, ...]:
    return tuple(_MARKDOWN.parse(page.read_text("utf-8")))


def links(page: Path) -> Iterator[str]:
    """The links and pictures of a page, in Markdown and in HTML."""
    for token in tokens(page):
        if token.type == "html_block":
            yield from _HTML_LINK.findall(token.content)
        for child in token.children or ():
            if child.type in ("link_open", "image"):
                yield str(child.attrs.get("href") or child.attrs.get("src"))
            elif child.type == "html_inline":
                yield from _HTML_LINK.findall(child.content)


@functools.cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of headings, as GitHub makes them."""
    counts: Counter[str] = Counter()
    names = set()
    for heading, inline in zip(tokens(page), tokens(page)[1:], strict=False):
        if heading.type != "heading_open":
            continue
        shown = (part for part in inline.children or () if part.type in ("text", "code_inline"))
        text = "".join(part.content for part in shown)
        slug = re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-")
        names.add(f"{slug}-{counts[slug]}" if counts[slug] else slug)
        counts[slug] += 1
    return frozenset(names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_page = target.suffix == ".md"
        if not target.exists() or (anchor and is_page and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_of_the_documentation_is_listed() -> None:
    listed = {
        (folder / link.partition("#")[0]).resolve()
        for folder in (DOCS, *(DOCS / name for name in FOLDERS))
        for link in links(folder / "README.md")
        if not re.match(r"[a-z]+:", link)
    }
    pages = {path for path in PAGES if path.is_relative_to(DOCS)} - NOT_ON_THE_SITE
    assert pages - listed == {DOCS / "README.md"}


def test_nothing_is_listed_twice() -> None:
    links = re.findall(
        r"^\| \[[^\]]+\]\(([^)]+)\) \|", (DOCS / "README.md").read_text("utf-8"), re.MULTILINE
    )
    assert len(links) > 25
    assert [link for link, times in Counter(links).items() if times > 1] == []


def test_pictures_say_what_they_show() -> None:
    for page in PAGES:
        for token in tokens(page):
            for child in token.children or ():
                if child.type == "image":
                    assert child.content, (page, child.attrs)
            if token.type == "html_block":
                images = re.findall(r"<img[^>]*>", token.content)
                assert all(re.search(r'alt="[^"]{20,}"', image) for image in images), page
