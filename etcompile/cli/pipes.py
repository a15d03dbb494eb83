"""Standard output and standard error as pipes whose reader may go before a command ends.

`etcompile apply jobs/ | head -1` must neither stop half-way nor end with another exit code than
that of the rollout, and neither must anything else: what nobody reads any more is dropped.
"""

import io
import os
import stat
import sys
from typing import Any, TextIO


class _Pipe(io.FileIO):
    """A file descriptor that takes everything, also when nobody reads it any more."""

    gone = False

    def write(self, data: Any, /) -> int:
        """Writes what the reader takes; the rest goes nowhere."""
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            self.gone = True
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return memoryview(data).nbytes


def outlive_readers() -> None:
    """Replaces the standard streams that are pipes by such as outlive their readers."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        try:
            mode = os.fstat(stream.fileno()).st_mode
        except (AttributeError, OSError, ValueError):
            continue  # closed, or nothing that the operating system knows
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            stream.flush()
            raw: Any = _Pipe(stream.fileno(), "wb", closefd=False)
            pipe = io.BufferedWriter(raw)
            text = io.TextIOWrapper(
                pipe,
                encoding=stream.encoding,
                errors=stream.errors,
                newline="\n",
                line_buffering=stream.line_buffering or name == "stderr",
            )
            setattr(sys, name, text)


def reader_is_gone() -> bool:
    """Whether nobody reads standard output any more: what goes on for ever may end."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return bool(getattr(raw, "gone", False))


def give_up(stream: TextIO) -> None:
    """Lets what is still to be written of a stream go nowhere, so that it cannot fail at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
