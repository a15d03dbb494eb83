"""What the supervisors of a run are asked to do: the annotation `NOTICE` of a Pod.

`etcompile checkpoint` has commands write a checkpoint; the watcher has the commands of a run that
hangs restarted. The annotation is on the Pod of the first replica,
whose supervisor tells the others; where each replica restarts by itself, on each of their Pods. A
supervisor heeds it once, by the first word (`templates/supervise.py`).
"""

from msgspec import Struct

from etcompile.model.run_record import LATEST

SAME = 30.0
"""Seconds in which whatever else happens is told by the same notice."""
REMINDED = 3.0
"""Seconds after which a notice is given once more: nobody answers it, and a kubelet may lose it."""
RESTART = "RESTART"
"""In place of a signal: the supervisor is to begin the next epoch."""
_AGAIN = " (again)"


class Notice(Struct, frozen=True):
    """A notice.

    Args:
        name: By which supervisors know whether they have heeded it.
        text: All of it, the value of the annotation: name, signal, `0`, and why.
        at: When it was given, in seconds since 1970; 0 if nobody has said so.
    """

    name: str = ""
    text: str = ""
    at: float = 0.0

    @property
    def why(self) -> str:
        """Why it was given, in a sentence."""
        return " ".join(self.text.removesuffix(_AGAIN).split(" ")[3:])

    @property
    def is_restart(self) -> bool:
        """Whether it has the commands restarted."""
        return self.text.split(" ")[1:2] == [RESTART]

    def again(self) -> "Notice":
        """The same, given once more."""
        return Notice(self.name, self.text + _AGAIN, self.at)


def notice(epoch: int, at: float, signal: str, why: str) -> Notice:
    """A new notice; `at` is in seconds since 1970, `signal` what processes get: `USR1`, RESTART."""
    name = f"{epoch}-{at:.0f}"
    return Notice(name, f"{name} {signal} 0 {' '.join(why.split())}", float(f"{at:.0f}"))


_NONE = Notice()


def read_notice(text: str) -> Notice:
    """The notice that an annotation is; an empty one if it says nothing."""
    if not text:
        return _NONE  # thousands of Pods have none
    name = text.partition(" ")[0]
    at = name.partition("-")[2]
    known = at.isdecimal() and float(at) < LATEST
    return Notice(name, text, float(at) if known else 0.0)
