"""The `etcompile` commands that pages of documentation show, wherever they show one.

A page is read as Markdown: blocks of code hold whole commands, as somebody would paste them, and
code within a sentence may leave out what the sentence is not about.
"""

import contextlib
import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt
from msgspec import Struct

ROOT = Path(__file__).parents[2]
PAGES = tuple(
    sorted(
        {
            *ROOT.glob("*.md"),
            *(ROOT / "docs").glob("*.md"),
            *(ROOT / "docs").glob("*/*.md"),
            ROOT / "docs" / "editors" / "vscode" / "README.md",
            ROOT / "examples" / "README.md",
            ROOT / "overlays" / "README.md",
            ROOT / "templates" / "README.md",
        }
    )
)
_SHELLS = frozenset({"", "sh", "console", "bash"})
_HEREDOC = re.compile(r"<<'?(\w+)'?.*?^\1$", re.MULTILINE | re.DOTALL)
_CALL = re.compile(
    r"""
    (?: ^ | [|&;(!] | \b exec | \b kubectl ) \s*  # where a command begins
    (?: \w+=\S* \s+ )*                           # variables
    (?: \S*/ )? etcompile (?= \s | $ )
    (
        (?: '[^']*' | "[^"]*"                     # what is quoted
          | \d* [<>]+ &? \s* [^\s|&;]+            # redirections
          | [^'"|&;()<>#\n]                      # all else until the command ends
          | (?<= \S ) \#                         # not a comment
        )*
    )
    """,
    re.VERBOSE,
)
_REDIRECTION = re.compile(r"""(?P<quoted>'[^']*'|"[^"]*")|\d*[<>]+&?\s*\S+""")
_MARKDOWN = MarkdownIt("commonmark").enable("table")


class Command(Struct, frozen=True):
    """A command of etcompile, as a line of a page has it."""

    page: str
    words: tuple[str, ...]  # behind `etcompile`
    whole: bool  # whether it stands in a block, so that nothing of it is left out
    line: str

    def __str__(self) -> str:
        return f"{self.page}: {self.line}"


@functools.cache
def commands(page: Path) -> tuple[Command, ...]:
    """The commands of a page, in order, each as often as it stands there."""
    return tuple(_commands(page))


def _commands(page: Path) -> Iterator[Command]:
    name = page.relative_to(ROOT).as_posix()
    for token in _MARKDOWN.parse(page.read_text("utf-8")):
        if token.type in ("fence", "code_block") and token.info.split(" ")[0] in _SHELLS:
            for words, line in _of_block(token.content):
                yield Command(name, words, True, line)
        for child in token.children or ():
            if child.type == "code_inline":
                # In a table, the sign between columns is written with a backslash.
                line = child.content.replace("\\|", "|")
                for words in _of_line(re.sub(r"(?<=[\w\]])\|(?=[\w\[])", "/", line)):
                    yield Command(name, words, False, line)


def _of_block(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    joined = _HEREDOC.sub("", text).replace("\\\n", " ")
    for line in joined.splitlines():
        shown = line.strip().removeprefix("$ ")
        for words in _of_line(shown):
            yield words, shown


def _of_line(line: str) -> Iterator[tuple[str, ...]]:
    """What follows `etcompile` in a line of a shell, for each time that it is called."""
    for call in _CALL.finditer(line):
        with contextlib.suppress(ValueError):  # no line of a shell: what a command writes
            yield tuple(shlex.split(_REDIRECTION.sub(lambda part: part["quoted"] or "", call[1])))
