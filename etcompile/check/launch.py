"""The launcher's command line held against the workers it will find.

Only what can be read with certainty: a horovodrun or mpirun whose numbers are written out and
which runs whatever happens. Shell variables, branches and options that say otherwise are left
alone. What horovodrun does with the numbers is in reference/et-operator.md 9.
"""

from collections.abc import Iterator

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.launch.launchers import Launch, launches
from etcompile.launch.shell import given_words
from etcompile.model import Bounds, Job, Origin, Role

_PROCESSES = ("-np", "--np", "-n", "--n", "-c", "--c")
_HOROVOD_PROCESSES = ("-np", "--num-proc")
_LEAST = ("--min-np", "--min-num-proc")
_MOST = ("--max-np", "--max-num-proc")
_NETWORK = ("--network-interfaces", "--network-interface", "--nics")

_OWN_HOSTS = ("-H", "--H", "-host", "--host", "-hosts", "--hosts", "-app", "--app")
"""Options that name other hosts, or other slots, than the job's hostfile does."""
_HOST_FILES = (
    "-hostfile",
    "--hostfile",
    "-machinefile",
    "--machinefile",
    "-f",
    "--default-hostfile",
)
_OWN_FILE = "/hostfile"
"""How the path of the hostfile ends that the job itself brings."""
_HYDRA = frozenset({"genv", "genvlist", "genvall", "genvnone", "env", "envlist", "ppn", "perhost"})
_HYDRA_ONLY = _HYDRA | {"f", "iface", "launcher", "bootstrap", "rmk", "hosts", "print-rank-map"}
"""Options that only Hydra has: it starts more processes than there are slots without a word."""


class _Command(Struct, frozen=True):
    launch: Launch
    origin: Origin

    @property
    def place(self) -> Location:
        """Where it stands, which takes a while to look up."""
        return self.origin.locate()


def check_launch(job: Job) -> list[Diagnostic]:
    """Warnings about a launcher that asks for more, or fewer, processes than there are."""
    workers = job.scaled_role
    if workers is None or not any(lines.live for lines in job.host_lists):
        return []
    problems: list[Diagnostic] = []
    for role in job.roles:
        if role is not workers and (command := _command(role)):
            problems += _fits(command, role, job, workers)
    return problems


def _command(role: Role) -> _Command | None:
    """The launch of a role's trainer, if there is one alone and nothing about it is in doubt."""
    container = role.template.main_container
    found = launches(container)
    if len(found) != 1 or not found[0].sure:
        return None
    field = "command" if container.get("command") else "args"
    return _Command(found[0], role.template.main_origin.at(field))


def _processes(launch: Launch) -> tuple[str, int] | None:
    """How many processes it asks for, over all its programs, with the option that says so."""
    names = _HOROVOD_PROCESSES if launch.program == "horovodrun" else _PROCESSES
    total, flag = 0, ""
    for options in launch.contexts:
        given = [option for option in options if option.name in names]
        if len(given) != 1 or (value := given[0].number) is None:
            return None
        total, flag = total + value, given[0].name
    return flag, total


def _keeps_to_slots(launch: Launch, job: Job, role: Role) -> bool:
    """Whether a launch refuses more processes than the job's hosts have slots.

    Open MPI and horovodrun do; Hydra starts what it is told to. Other hosts than the job's own, or
    leave to start more than there are slots, make it nobody's business here.
    """
    if launch.has(*_OWN_HOSTS, "--slots-per-host"):
        return False
    for option in launch.options:
        if option.name in _HOST_FILES and not option.values[0].text.endswith(_OWN_FILE):
            return False
    return not (_is_hydra(launch, job) or _oversubscribes(role))


def _is_hydra(launch: Launch, job: Job) -> bool:
    if launch.program == "horovodrun":
        return False
    if launch.program == "mpiexec.hydra":
        return True
    named = job.document["spec"].get("mpiImplementation", "OpenMPI")
    return named != "OpenMPI" or any(o.name.lstrip("-") in _HYDRA_ONLY for o in launch.options)


def _oversubscribes(role: Role) -> bool:
    """Whether a word or a variable lets Open MPI start more processes than there are slots."""
    container = role.template.main_container
    variables = container.get("env", ())
    texts = [*given_words(container), *(f"{e['name']}={e.get('value', '')}" for e in variables)]
    return any("oversubscribe" in text.lower() for text in texts)


def _fits(command: _Command, role: Role, job: Job, workers: Role) -> Iterator[Diagnostic]:
    count, slots = len(workers.members), job.slots
    # A launcher with a GPU, or one that is told to, is a host like the workers.
    hosts = {name for lines in job.host_lists if lines.live for name in lines.roles}
    others = sum(len(role.members) for role in job.roles if role.name in hosts - {workers.name})
    noun = "host" if others else "worker"
    capacity = (count + others) * slots
    ceiling = workers.bounds.maximum if workers.bounds else None
    most = (ceiling + others) * slots if ceiling else None
    bounds = workers.bounds or Bounds()
    least_name, most_name = bounds.names
    launch = command.launch
    np = _processes(launch)
    low, high = (next(launch.numbers(*names), None) for names in (_LEAST, _MOST))

    def misfit(which: tuple[str, int], problem: str, advice: str) -> Diagnostic:
        flag, value = which
        facts = {"program": launch.program, "flag": flag, "value": value}
        return diagnose(
            codes.LAUNCHER_ARGUMENTS, command.place, **facts, problem=problem, advice=advice
        )

    if np and np[1] > capacity and _keeps_to_slots(launch, job, role):
        available = f"{count + others} {_plural(noun, count + others)} of {slots}"
        available += f" {_plural('slot', slots)}"
        yield misfit(
            np,
            f"the job starts with {available}, {capacity} in all",
            "lower it, or start with more workers, or more slots for each",
        )
    if launch.program != "horovodrun":
        return
    if np and low and low[1] > np[1]:
        yield misfit(low, f"it is above {np[0]} {np[1]}", f"use at most {np[1]}")
    if np and high and high[1] < np[1]:
        yield misfit(high, f"it is below {np[0]} {np[1]}", f"use at least {np[1]}")
    if high and most and high[1] > most:
        yield misfit(
            high,
            f"{most_name} {(ceiling or 0) + bounds.beside} allows {most} at most",
            f"raise {most_name}, or lower it",
        )
    floor = (workers.bounds.minimum + others) * slots if workers.bounds else capacity
    if low and workers.bounds and workers.bounds.minimum > 1 and low[1] > floor:
        yield misfit(
            low,
            f"scaled in to {least_name} {bounds.minimum + bounds.beside} only {floor} are left",
            f"raise {least_name}, or lower it",
        )
    if count + others == 1 and not launch.has(*_NETWORK):
        yield diagnose(codes.TWO_HOSTS, command.place, replicas=count)


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
