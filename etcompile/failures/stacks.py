"""Where the processes of ranks are, by the stacks that they write on a signal.

A rank that computes for ever, or waits for something that never comes, looks from outside like one
that waits for it. Their stacks differ: of a run that hangs all ranks but one stand in the same
collective. Stacks are what Python's `faulthandler.register` writes.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

_REQUEST = re.compile(r"etcompile: process (\d{1,9}) is sent (\w{1,8}) for its stack$")
_THREAD = re.compile(
    r"(?:(?:Current thread|Thread) 0x[0-9a-f].*|Stack) \(most recent call first\):$"
)
_FRAME = re.compile(r'  File "(.{0,4096})", line (\d{1,9}) in (.{1,512})$')
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python\d|^<frozen ")
"""The path of a file that nobody who trains has written."""
_DEEPEST = 12
"""Frames of a stack that are kept."""


class Frame(Struct, frozen=True):
    """A call: the path of its source, the line there, and the function without its class."""

    file: str
    line: int
    function: str

    @property
    def text(self) -> str:
        """The call in a few words: `load_batch (data.py, line 41)`."""
        return f"{self.function} ({self.file.rpartition('/')[2]}, line {self.line})"


class Stack(Struct, frozen=True):
    """The calls of a process's main thread, the innermost first."""

    process: int
    frames: tuple[Frame, ...]

    @property
    def place(self) -> tuple[str, str]:
        """The file and the function of the innermost call.

        Not the calls around it: ranks come to the same collective on ways of their own, since one
        of them may be about to write down what all have computed.
        """
        return self.frames[0].file, self.frames[0].function

    @property
    def text(self) -> str:
        """The innermost call, and the innermost of its own code if that is a library's."""
        own = [frame for frame in self.frames if not _LIBRARY.search(frame.file)][:1]
        calls = [self.frames[0], *(frame for frame in own if frame is not self.frames[0])]
        return ", called from ".join(frame.text for frame in calls)

    @property
    def lines(self) -> list[str]:
        """The stack as lines to keep, the innermost call first."""
        calls = [f"  {frame.text}" for frame in self.frames[:_DEEPEST]]
        return [f"process {self.process}, the innermost call first:", *calls]


def stacks(lines: Sequence[str]) -> list[Stack]:
    """The stacks in a log, without times, in the order in which they were requested.

    Of each process the thread that comes last counts: that is its first one.
    """
    every: list[tuple[int, list[Frame]]] = []
    is_inside = False
    for line in lines:
        if request := _REQUEST.match(line):
            every.append((int(request[1]), []))
        elif is_inside and (call := _FRAME.match(line)):
            every[-1][1].append(Frame(call[1], int(call[2]), call[3]))
            continue
        is_inside = bool(every and _THREAD.match(line))
        if is_inside:
            every[-1][1].clear()
    return [Stack(process, tuple(frames)) for process, frames in every if frames]


def elsewhere(by_rank: Mapping[str, Sequence[Stack]]) -> dict[str, Stack]:
    """The ranks that are not where most of them are, each with the stack that says so.

    A rank without stacks is not counted. Where no place has more than half of the ranks there are
    none: nobody can say who of them waits for whom.
    """
    places = {rank: frozenset(s.place for s in own) for rank, own in by_rank.items() if own}
    common, count = Counter(places.values()).most_common(1)[0] if places else (frozenset(), 0)
    if 2 * count <= len(places):
        return {}
    return {
        rank: next(stack for stack in by_rank[rank] if stack.place not in common)
        for rank, own in places.items()
        if not own <= common
    }
