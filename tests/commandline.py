"""Commands that tests run.

`etcompile` runs in this process, because one of its own takes a third of a second to start. What
only a process shows, such as its environment, its signals and its pipes, is tested `at_a_shell`.
"""

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from etcompile.cli.main import program


def etcompile(
    *words: object, cwd: Path | None = None, stdin: str | None = None, code: int | None = None
) -> "subprocess.CompletedProcess[str]":
    """What a command comes to.

    Args:
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


def at_a_shell(*words: object, **how: Any) -> "subprocess.CompletedProcess[str]":
    """What a command comes to in a process of its own; `how` is as for `subprocess.run`."""
    command = [sys.executable, "-m", "etcompile", *map(str, words)]
    how = {"capture_output": True, "timeout": 60, "encoding": "utf-8", **how}
    return subprocess.run(command, check=False, **how)


def git(folder: Path, *words: object, **how: Any) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *map(str, words)]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, **how)
    return done.stdout.decode()
