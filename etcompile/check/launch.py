"""The launcher's command line held against the workers it will find.

Only what can be read with certainty: a horovodrun or mpirun whose numbers are written out.
Shell variables and scripts are left alone. What horovodrun does with the numbers is in
reference/et-operator.md 9.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, Location, diagnose
from etcompile.model import Job, Role
from etcompile.model.commands import launch_program

_HOROVOD = {
    "np": ("-np", "--num-proc"),
    "min": ("--min-np", "--min-num-proc"),
    "max": ("--max-np", "--max-num-proc"),
}
_MPI = {"np": ("-np", "-n", "--np", "-c")}
_NETWORK = ("--network-interfaces", "--network-interface", "--nics")


class _Command(Struct, frozen=True):
    program: str
    numbers: Mapping[str, tuple[str, int]]
    """What is asked for (np, min, max) to the flag as written and its value."""
    words: Sequence[str]
    place: Location


def check_launch(job: Job) -> list[Diagnostic]:
    """Warnings about a launcher that asks for more, or fewer, processes than there are."""
    workers = job.scaled_role
    if workers is None:
        return []
    problems: list[Diagnostic] = []
    for role in job.roles:
        if role is not workers and (command := _command(role)):
            problems += _fits(command, job, workers)
    return problems


def _command(role: Role) -> _Command | None:
    container = role.template.main_container
    match launch_program(container):
        case (("horovodrun" | "mpirun" | "mpiexec") as program, words):
            names = [c["name"] for c in role.template.spec["containers"]]
            field = "command" if container.get("command") else "args"
            place = ("spec", "containers", names.index(role.template.main), field)
            flags = _HOROVOD if program == "horovodrun" else _MPI
            where = role.template.origin.locate(*place)
            return _Command(program, _numbers(words, flags), words, where)
    return None


def _numbers(
    words: Sequence[str], flags: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    for meaning, names in flags.items():
        for word, following in zip(words, [*words[1:], ""], strict=False):
            flag, equals, value = word.partition("=")
            value = value if equals else following
            if flag in names and value.isdecimal():
                found.setdefault(meaning, (flag, int(value)))
    return found


def _fits(command: _Command, job: Job, workers: Role) -> Iterator[Diagnostic]:
    count, slots = len(workers.members), job.slots
    # A launcher with a GPU, or one that is told to, is a host like the workers.
    hosts = {name for lines in job.host_lists if lines.live for name in lines.roles}
    others = sum(len(role.members) for role in job.roles if role.name in hosts - {workers.name})
    noun = "host" if others else "worker"
    capacity = (count + others) * slots
    ceiling = workers.bounds.maximum if workers.bounds else None
    most = (ceiling + others) * slots if ceiling else None
    available = f"{count + others} {_plural(noun, count + others)} of {slots}"
    available += f" {_plural('slot', slots)}"
    numbers = command.numbers
    np, low, high = (numbers.get(meaning) for meaning in ("np", "min", "max"))

    def misfit(which: tuple[str, int], problem: str, advice: str) -> Diagnostic:
        flag, value = which
        facts = {"program": command.program, "flag": flag, "value": value}
        return diagnose("ET2030", command.place, **facts, problem=problem, advice=advice)

    if np and np[1] > capacity:
        yield misfit(
            np,
            f"the job starts with {available}, {capacity} in all",
            "lower it, or start with more workers or slotsPerWorker",
        )
    if command.program != "horovodrun":
        return
    if np and low and low[1] > np[1]:
        yield misfit(low, f"it is above {np[0]} {np[1]}", f"use at most {np[1]}")
    if np and high and high[1] < np[1]:
        yield misfit(high, f"it is below {np[0]} {np[1]}", f"use at least {np[1]}")
    if high and most and high[1] > most:
        yield misfit(
            high,
            f"maxReplicas {ceiling} allows {most} at most",
            "raise maxReplicas, or lower it",
        )
    floor = (workers.bounds.minimum + others) * slots if workers.bounds else capacity
    if low and workers.bounds and workers.bounds.minimum > 1 and low[1] > floor:
        yield misfit(
            low,
            f"scaled in to minReplicas {workers.bounds.minimum} only {floor} are left",
            "raise minReplicas, or lower it",
        )
    if count + others == 1 and not any(
        word.partition("=")[0] in _NETWORK for word in command.words
    ):
        yield diagnose("ET2031", command.place, replicas=count)


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
