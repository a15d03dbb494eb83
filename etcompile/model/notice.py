"""What the commands of a run are told of a disturbance: the annotation `NOTICE` of their Pods.

The watcher writes it when a Pod is about to go (`watch.rules.disruption`), `etcompile checkpoint`
when somebody asks. A supervisor heeds it once, by the first word (`templates/supervise.sh.j2`).
"""

from msgspec import Struct

from etcompile.model.run_record import LATEST

SAME = 30.0
"""Seconds in which whatever else happens is told by the same notice."""
REMINDED = 3.0
"""Seconds after which a notice is given once more: nobody answers it, and a kubelet may lose it."""
_REPORT = "REPORT"
"""In place of a signal: the supervisor is to tell in its log what its processes do."""
_AGAIN = " (again)"


class Notice(Struct, frozen=True):
    """A notice.

    Args:
        name: By which supervisors know whether they have heeded it.
        text: All of it, the value of the annotation: name, signal, until when the first Pod has to
            be gone in seconds since 1970, and why.
        at: When it was given, in seconds since 1970; 0 if nobody has said so.
        repeated: It was given once more.
    """

    name: str = ""
    text: str = ""
    at: float = 0.0
    repeated: bool = False

    @property
    def why(self) -> str:
        """Why it was given, in a sentence."""
        return " ".join(self.text.removesuffix(_AGAIN).split(" ")[3:])

    @property
    def is_report(self) -> bool:
        """Whether it asks what processes do, and tells of no disturbance."""
        word = "".join(self.text.split(" ")[1:2])
        return word.partition("+")[0] == _REPORT

    def again(self) -> "Notice":
        """The same, given once more."""
        return Notice(self.name, self.text + _AGAIN, self.at, repeated=True)


def notice(epoch: int, at: float, signal: str, due: float, why: str) -> Notice:
    """A new notice.

    Args:
        epoch: The epoch of the run.
        at: The time, in seconds since 1970.
        signal: What processes that handle it are sent: `USR1`.
        due: Until when the first Pod has to be gone, in seconds since 1970; 0 if none has to.
        why: Why, in a sentence.
    """
    name = f"{epoch}-{at:.0f}"
    return Notice(name, f"{name} {signal} {due:.0f} {' '.join(why.split())}", float(f"{at:.0f}"))


def report_request(epoch: int, at: float, stack_signal: str | None, why: str) -> Notice:
    """A notice that asks supervisors what their processes do.

    Args:
        epoch: The epoch of the run.
        at: The time, in seconds since 1970.
        stack_signal: What makes a program write where it is, such as `USR1`; None for nothing.
        why: Why they are asked, in a sentence.
    """
    word = _REPORT if stack_signal is None else f"{_REPORT}+{stack_signal}"
    return notice(epoch, at, word, 0, why)


def read_notice(text: str) -> Notice:
    """The notice that an annotation is; an empty one if it says nothing."""
    name = text.partition(" ")[0]
    at = name.partition("-")[2]
    known = at.isdecimal() and float(at) < LATEST
    return Notice(name, text, float(at) if known else 0.0, text.endswith(_AGAIN))
