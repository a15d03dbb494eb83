"""The Markdown of the repository as the Markdown that Sphinx is given.

The pages are written for GitHub. Three things differ there and here: a folder's page is its README
and not its index, a link may lead to a file that the site does not have, and GitHub draws Mermaid
and chooses between a light and a dark picture by itself.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from contents import DOCS, HOME, ROOT, Section, sections

REPOSITORY = "https://github.com/etcompile/etcompile"
PICTURES = DOCS / "pictures"

_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(
    r'<picture>\s*<source[^>]*srcset="(?P<dark>[^"]+)"[^>]*>\s*'
    r'<img alt="(?P<alt>[^"]+)" src="(?P<light>[^"]+)"[^>]*>\s*</picture>'
)
_LINK = re.compile(r"(?<!\\)\]\((?![a-z]+:|#)([^)\s]+)\)")
_CODE = re.compile(r"(`+).+?\1")


class BrokenLinkError(Exception):
    """A page names a file that there is not."""


def document_name(source: Path) -> str:
    """Return Sphinx's name of a page: its path without suffix, `index` for a folder's page.

    Args:
        source: Its file.
    """
    if not source.is_relative_to(DOCS):
        own = source.relative_to(ROOT).with_suffix("").as_posix().lower()
        return own.removesuffix("/readme") if "/" in own else f"project/{own.replace('_', '-')}"
    name = source.relative_to(DOCS).with_suffix("")
    return (name.parent / "index" if name.name == "README" else name).as_posix()


def staged(source: Path, pages: Mapping[Path, str]) -> str:
    """Convert a page for Sphinx.

    Args:
        source: Its file.
        pages: The pages of the site and what Sphinx calls them.

    Raises:
        BrokenLinkError: It links a file that there is not.
    """
    text = source.read_text("utf-8")
    text = MERMAID.sub(lambda found: _drawn(found[1], source), text)
    text = _PICTURE.sub(lambda found: _both(found["light"], found["dark"], found["alt"]), text)
    text = "\n".join(_with_links(text.split("\n"), source, pages))
    lists = sections(source) if source.name == "README.md" and source.is_relative_to(DOCS) else ()
    return text + "".join(_tree(part, source, pages) for part in lists)


def diagram_file(text: str) -> str:
    """Return the name of a Mermaid diagram's picture, without the theme and the suffix."""
    return f"diagram-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _drawn(text: str, source: Path) -> str:
    """Replace a Mermaid diagram by the two pictures that `docs/pictures/make.py` drew of it."""
    name = diagram_file(text)
    folder = os.path.relpath(PICTURES, source.parent)
    labels = re.findall(r"\bas (.+)|\[\(?([^\]()]+)", text.replace("<br/>", " "))
    words = ", ".join((first or second).strip('"') for first, second in labels)
    return _both(f"{folder}/{name}-light.svg", f"{folder}/{name}-dark.svg", f"Diagram: {words}")


def _both(light: str, dark: str, alternative: str) -> str:
    """Two images, of which the theme shows one."""
    return f"![{alternative}]({light}){{.only-light}}\n![{alternative}]({dark}){{.only-dark}}"


def _with_links(lines: list[str], source: Path, pages: Mapping[Path, str]) -> list[str]:
    """Rewrite links for the page's place in Sphinx; code stays as it is."""
    found = []
    fence = ""
    for line in lines:
        mark = _FENCE.match(line)
        if mark and (not fence or line.strip() == fence):
            fence = "" if fence else mark[1]
        if fence or mark or line.startswith("    "):
            found.append(line)
            continue
        code = [part.span() for part in _CODE.finditer(line)]
        found.append(
            _LINK.sub(
                lambda link, code=code: (
                    link[0]
                    if any(start <= link.start() < end for start, end in code)
                    else f"]({_target(link[1], source, pages)})"
                ),
                line,
            )
        )
    return found


def _target(link: str, source: Path, pages: Mapping[Path, str]) -> str:
    """Where a link leads on the site: to a page, to a picture, else to the file on GitHub."""
    path, _, anchor = link.partition("#")
    file = (source.parent / path).resolve()
    if not file.exists():
        raise BrokenLinkError(f"{source.relative_to(ROOT)}: there is no {link}")
    here = Path(pages[source]).parent
    end = f"#{anchor}" if anchor else ""
    for page in (file, file / HOME.name):
        if page in pages:
            return os.path.relpath(f"{pages[page]}.md", here) + end
    if file.suffix in (".png", ".svg"):
        return os.path.relpath(file.relative_to(DOCS), here)
    kind = "tree" if file.is_dir() else "blob"
    return f"{REPOSITORY}/{kind}/main/{file.relative_to(ROOT).as_posix()}{end}"


def _tree(part: Section, source: Path, pages: Mapping[Path, str]) -> str:
    """Return the navigation below a page: the pages of its list."""
    here = Path(pages[source]).parent
    lines = [
        f"{entry.title} <{os.path.relpath(pages[entry.source], here)}>" for entry in part.entries
    ]
    caption = f":caption: {part.title}\n" if part.title and source == HOME else ""
    return "\n```{toctree}\n:hidden:\n" + caption + "\n" + "\n".join(lines) + "\n```\n"
