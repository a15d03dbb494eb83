"""What the supervisor of a command that restarts in place is told: the annotation `EPOCH` of a Pod.

It stands in the model because the watcher writes it, and who tells since when a command has run
reads it as well (docs/recovery.md).
"""

from msgspec import Struct

from etcompile.model.run_record import DIGITS, LATEST


class Command(Struct, frozen=True, gc=False):
    """What the supervisor of a Pod was told, and what was seen of its container just then.

    The latter tells, from the Pod alone, whether the command has stopped since (docs/recovery.md).

    Args:
        epoch: The epoch that it is about.
        run: Run it; else end what is older, and wait.
        ends: How often the container had ended.
        since: Since when the containers had been ready, or not ready, in the words of the kubelet;
            `NEW` for a Pod that was created with the command, `STOPPED` for one that was known to
            run nothing and was told to wait.
        at: When it was told, in seconds since 1970.
        reminded: When it was told the same again; 0 if it never was.
    """

    epoch: int
    run: bool
    ends: int = 0
    since: str = ""
    at: float = 0.0
    reminded: float = 0.0


NEW, STOPPED = "new", "stopped"
"""In place of a time: of a Pod that was created with its command, or that ran nothing already."""


def command_text(command: Command) -> str:
    """The annotation `EPOCH` of a Pod; a supervisor reads its first two words."""
    verb = "run" if command.run else "hold"
    text = f"{command.epoch} {verb} {command.ends} {command.since or '-'} {command.at:.0f}"
    return f"{text} {command.reminded:.0f}" if command.reminded else text


def read_command(text: str) -> Command | None:
    """What a supervisor was told; None if it was told nothing that it can read."""
    words = text.split()
    if len(words) < 2 or words[1] not in ("run", "hold"):
        return None
    epoch, ends = _number(words[0]), _number(words[2]) if len(words) > 2 else 0
    if epoch is None:
        return None
    since = words[3] if len(words) > 3 and words[3] != "-" else ""
    at = _time(words[4]) if len(words) > 4 else 0.0
    reminded = _time(words[5]) if len(words) > 5 else 0.0
    return Command(epoch, words[1] == "run", ends or 0, since, at, reminded)


def _number(word: str) -> int | None:
    return int(word) if word.isdecimal() and len(word) <= DIGITS else None


def _time(word: str) -> float:
    return float(word) if word.isdecimal() and float(word) < LATEST else 0.0
