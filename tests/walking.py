"""A page of documentation as a user walks it: its shell blocks, run in order in one shell.

A block that begins with ```` ```sh ```` is run, and every command of it must succeed; one that
begins with ```` ```sh fails ```` must fail.
"""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct


class Block(Struct, frozen=True):
    """A shell block, under a heading."""

    heading: str
    text: str
    fails: bool = False  # whether its last command is to fail


class Walked(Struct, frozen=True):
    """What came of a block."""

    block: Block
    output: str
    failed: tuple[str, ...]  # its commands that failed

    def check(self) -> str:
        """Its output, if it went as the page says.

        Raises:
            AssertionError: it did not.
        """
        message = f"{self.block.heading}\n{self.block.text}\n{self.output}\nfailed: {self.failed}"
        assert bool(self.failed) is self.block.fails, message
        return self.output


def blocks(page: str) -> list[Block]:
    block_list = []
    heading = ""
    pattern = r"^#+ ([^\n]*)$|^```sh( fails)?\n(.*?)^```$"
    for part in re.finditer(pattern, page, re.MULTILINE | re.DOTALL):
        if part[1]:
            heading = part[1]
        else:
            block_list.append(Block(heading, part[3], bool(part[2])))
    return block_list


class Shell:
    """A shell that stays: folders, variables and jobs of one block are there in the next.

    Args:
        variables: Its environment, beside PATH.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._home = folder / ".walk"
        self._home.mkdir()
        program = self._home / "etcompile"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m etcompile "$@"\n')
        program.chmod(0o755)
        start = folder / "home"
        start.mkdir()
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=start,
            env={
                "HOME": str(start),
                "GIT_CONFIG_GLOBAL": "/dev/null",
                **{f"GIT_{who}_NAME": "You" for who in ("AUTHOR", "COMMITTER")},
                **{f"GIT_{who}_EMAIL": "you@example.com" for who in ("AUTHOR", "COMMITTER")},
                **variables,
                "PATH": f"{self._home}:{variables.get('PATH', os.environ['PATH'])}",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._count = 0
        self._tell("set -o pipefail; set -E")

    def run(self, block: Block, seconds: float = 120.0) -> Walked:
        """Runs a block; after so many seconds, the shell is ended."""
        self._count += 1
        script, output, failed = (
            self._home / f"{self._count}.{end}" for end in ("sh", "out", "failed")
        )
        script.write_text(block.text)
        failed.touch()
        self._tell(f"trap 'echo \"$BASH_COMMAND\" >> {failed}' ERR")
        self._tell(f". {script} </dev/null >{output} 2>&1; trap - ERR; echo done")
        late = threading.Timer(seconds, self._bash.kill)
        late.start()
        assert self._bash.stdout is not None
        answer = self._bash.stdout.readline()
        late.cancel()
        written = output.read_text() if output.exists() else ""
        failed_commands = tuple(dict.fromkeys(failed.read_text().splitlines()))
        assert answer == "done\n", f"not within {seconds} s:\n{block.text}\n{written}"
        # The shell says once more that the file which it read has failed.
        return Walked(
            block, written, tuple(one for one in failed_commands if not one.startswith(". "))
        )

    def close(self) -> None:
        if self._bash.poll() is None:
            self._tell("kill $(jobs -p) 2>/dev/null; exit")
        self._bash.communicate(timeout=120)

    def _tell(self, line: str) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{line}\n")
        self._bash.stdin.flush()
