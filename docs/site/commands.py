"""A page for every command, made of what its `--help` is made of.

click writes the help of a command with a formatter: here is one that writes Markdown for Sphinx
instead of text for a terminal, so that the pages say what `--help` says, in the same sections.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

_SPECIAL = re.compile(r"([\\*_<\[\]])")


class Markdown(click.HelpFormatter):
    """Writes the help of a command as Markdown.

    Args:
        program: The command and its group, `etcompile argocd plugin`.
        level: The level of the headings of its sections.
    """

    def __init__(self, program: str, level: int) -> None:
        super().__init__(width=10_000, max_width=10_000)
        self._program = program
        self._level = level
        self._section = ""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:  # noqa: ARG002
        """Write the usage of the command."""
        self.write(f"```text\n{prog} {args}\n```\n\n")

    def write_text(self, text: str) -> None:
        """Write paragraphs; one that begins with click's mark keeps its lines."""
        for paragraph in text.split("\n\n"):
            if paragraph.startswith("\b\n"):
                self.write(f"```text\n{paragraph[2:]}\n```\n\n")
            else:
                self.write(escaped(" ".join(paragraph.split())) + "\n\n")

    def write_paragraph(self) -> None:
        """Write an empty line, which click requests between parts."""
        self.write("\n")

    def write_heading(self, heading: str) -> None:
        """Write the heading of a section."""
        self.write(f"{'#' * self._level} {heading}\n\n")

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Write a section: its heading, and what is written within."""
        self._section = name
        self.write_heading(name)
        yield

    @contextmanager
    def indentation(self) -> Iterator[None]:
        """Leave out indentation, which would turn text into code."""
        yield

    def write_dl(
        self,
        rows: Sequence[tuple[str, str]],
        col_max: int = 30,  # noqa: ARG002
        col_spacing: int = 2,  # noqa: ARG002
    ) -> None:
        """Write a list of commands or options, each of which can be linked and searched."""
        if self._section == "Commands":
            self.write("| command | does |\n|---|---|\n")
            for name, text in rows:
                self.write(f"| {self._link(name)} | {escaped(text)} |\n")
            self.write("\n")
            return
        for name, text in rows:
            self.write(f"::::{{option}} {name}\n{escaped(text)}\n::::\n\n")

    def _link(self, command: str) -> str:
        own = " ".join((self._program, command))
        if self._program.count(" "):  # a group's command stands on the group's page
            return f"[`{own}`](#{own.replace(' ', '-')})"
        return f"[`{own}`](cli/{command}.md)"


def escaped(text: str) -> str:
    """Escape a text, so that Markdown finds nothing but code in it."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else _SPECIAL.sub(r"\\\1", part) for part in parts)


def pages(root: click.Group) -> Iterator[tuple[str, str]]:
    """Return the pages of all commands: Sphinx's name of each, and its text."""
    context = click.Context(root, info_name="etcompile", **root.context_settings)
    names = root.list_commands(context)
    yield "cli", _page(root, context, 2, names)
    for name in names:
        command = root.get_command(context, name)
        assert command is not None, name
        own = _context(command, name, context)
        yield f"cli/{name}", _page(command, own, 2)


def _context(command: click.Command, name: str, parent: click.Context) -> click.Context:
    return click.Context(command, info_name=name, parent=parent, **command.context_settings)


def _page(
    command: click.Command, context: click.Context, level: int, below: Sequence[str] = ()
) -> str:
    program = context.command_path
    title = "Command line" if level == 2 and not context.parent else f"`{program}`"
    formatter = Markdown(program, level)
    command.format_help(context, formatter)
    text = f"{'#' * (level - 1)} {title}\n\n```{{program}} {program}\n```\n\n{formatter.getvalue()}"
    if below:
        entries = "\n".join(f"{name} <cli/{name}>" for name in below)
        return f"{text}\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None, name
            own = _context(inner, name, context)
            text += "\n" + _page(inner, own, level + 1)
    return text
