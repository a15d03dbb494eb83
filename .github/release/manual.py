"""Prints the man page etcompile(1): `python manual.py 2026-11-28 > etcompile.1`.

click writes the help of a command with a formatter: here is one that writes roff, so that the page
says what `--help` says.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from etcompile import __version__
from etcompile.cli.main import program


class Roff(click.HelpFormatter):
    """Writes the help of a command in the macros of man(7)."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:  # noqa: ARG002
        """Write the usage of the command."""
        self.write(f".B {escaped(prog)}\n{escaped(args)}\n")

    def write_text(self, text: str) -> None:
        """Write paragraphs."""
        for paragraph in text.split("\n\n"):
            self.write(f".P\n{escaped(' '.join(paragraph.split()))}\n")

    def write_paragraph(self) -> None:
        """Write nothing: each paragraph begins with a macro."""

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Write the title of a list before it."""
        self.write(f".P\n.B {escaped(name)}\n")
        yield

    @contextmanager
    def indentation(self) -> Iterator[None]:
        """Leave indentation to the macros."""
        yield

    def write_dl(
        self,
        rows: Sequence[tuple[str, str]],
        col_max: int = 30,  # noqa: ARG002
        col_spacing: int = 2,  # noqa: ARG002
    ) -> None:
        """Write a list of commands or options."""
        for name, text in rows:
            self.write(f".TP\n.B {escaped(name)}\n{escaped(' '.join(text.split()))}\n")


def escaped(text: str) -> str:
    """Escape a line of text, so that roff finds no request and no escape in it."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def sections(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the section of a command, then those of its subcommands."""
    formatter = Roff()
    command.format_help(context, formatter)
    title = "DESCRIPTION" if context.parent is None else context.command_path
    yield f".{'SH' if context.parent is None else 'SS'} {escaped(title)}\n{formatter.getvalue()}"
    if isinstance(command, click.Group):
        if context.parent is None:
            yield ".SH COMMANDS\n"
        for name in command.list_commands(context):
            if inner := command.get_command(context, name):
                settings = inner.context_settings
                own = click.Context(inner, info_name=name, parent=context, **settings)
                yield from sections(inner, own)


def page(date: str) -> str:
    """Return the man page of a version released on that date."""
    context = click.Context(program, info_name="etcompile", **program.context_settings)
    head = (
        f'.TH ETCOMPILE 1 "{date}" "etcompile {__version__}" "User Commands"\n'
        ".SH NAME\netcompile \\- compile training jobs to plain Kubernetes manifests\n"
    )
    return head + "".join(sections(program, context))


if __name__ == "__main__":
    click.echo(page(sys.argv[1]), nl=False)
