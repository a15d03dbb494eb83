"""`etcompile` run in this process: for tests that look at what a command does and says.

A process of its own takes a third of a second to start. What only a process shows, such as its
environment, its signals and its pipes, is tested with one, in tests/cli.
"""

import contextlib
import subprocess
from pathlib import Path

from click.testing import CliRunner

from etcompile.cli.main import program


def etcompile(
    *words: object, cwd: Path | None = None, stdin: str | None = None, code: int | None = None
) -> "subprocess.CompletedProcess[str]":
    """What a command comes to.

    Args:
        words: The words after `etcompile`.
        cwd: The directory to be in.
        stdin: The standard input.
        code: The exit code that it must end with; None for any.
    """
    arguments = [str(word) for word in words]
    with contextlib.chdir(cwd) if cwd else contextlib.nullcontext():
        done = CliRunner().invoke(program, arguments, input=stdin, prog_name="etcompile")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    if code is not None:
        assert done.exit_code == code, (arguments, done.output)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)
