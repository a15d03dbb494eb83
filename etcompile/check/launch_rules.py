"""Compare the launcher's command line with its workers.

Only certain cases are reported: a horovodrun or mpirun that always runs and whose numbers are
literal. Shell variables, branches and options that change the meaning are ignored.
reference/et-operator.md 9 says what horovodrun does with the numbers.
"""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.launch.launchers import Launch, launches
from etcompile.launch.shell import command_line
from etcompile.model import Bounds, Job, Origin, Role

_PROCESSES = ("-np", "--np", "-n", "--n", "-c", "--c")
_HOROVOD_PROCESSES = ("-np", "--num-proc")
_LEAST = ("--min-np", "--min-num-proc")
_MOST = ("--max-np", "--max-num-proc")
_NETWORK = ("--network-interfaces", "--network-interface", "--nics")

_OTHER_HOSTS = ("-H", "--H", "-host", "--host", "-hosts", "--hosts", "-app", "--app")
"""Options that name other hosts, or other slots, than the job's hostfile."""
_HOST_FILES = (
    *("-hostfile", "--hostfile", "-machinefile", "--machinefile", "-f", "--default-hostfile"),
)
_JOB_FILE = "/hostfile"
"""The end of the path of the job's hostfile."""
_HOROVOD_FILES = ("/etc/edl/hostfile", "/etc/mpi/hostfile")
"""Where a job has a list in Horovod's format, if its key `hostfile` is one."""
_HYDRA = frozenset({"genv", "genvlist", "genvall", "genvnone", "env", "envlist", "ppn", "perhost"})
_HYDRA_ONLY = _HYDRA | {"f", "iface", "launcher", "bootstrap", "rmk", "hosts", "print-rank-map"}
"""Options that only Hydra has: it starts more processes than there are slots without a warning."""


def check_launch(job: Job) -> list[Diagnostic]:
    workers = job.scaled_role
    if workers is None or not any(lines.live for lines in job.host_lists):
        return []
    problems: list[Diagnostic] = []
    for role in job.roles:
        container = role.template.main_container
        commands = launches(container)
        # Only for a single launch that certainly runs.
        if role is not workers and len(commands) == 1 and commands[0].sure:
            origin = role.template.main_origin.at("command" if container.get("command") else "args")
            problems += _misfits(commands[0], origin, role, job, workers)
    return problems


def _misfits(
    launch: Launch, origin: Origin, role: Role, job: Job, workers: Role
) -> Iterator[Diagnostic]:
    count, slots = len(workers.members), job.slots
    # A launcher with a GPU, or one that is configured so, is a host like the workers.
    hosts = {name for lines in job.host_lists if lines.live for name in lines.roles}
    others = sum(len(role.members) for role in job.roles if role.name in hosts - {workers.name})
    capacity = (count + others) * slots
    bounds = workers.bounds or Bounds()
    least_name, most_name = bounds.names
    processes = _processes(launch)
    low, high = (next(launch.numbers(*names), None) for names in (_LEAST, _MOST))

    def misfit(option: tuple[str, int | str], problem: str, advice: str) -> Diagnostic:
        flag, value = option
        facts = {"program": launch.program, "flag": flag, "value": value}
        facts |= {"problem": problem, "advice": advice}
        return diagnose(codes.LAUNCHER_ARGUMENTS, origin.locate(), **facts)

    if processes and processes[1] > capacity and _stays_within_slots(launch, job, role):
        noun = "host" if others else "worker"
        available = f"{count + others} {noun}{'s' * (count + others != 1)} of {slots}"
        available += f" slot{'s' * (slots != 1)}"
        problem = f"the job starts with {available}, {capacity} in all"
        advice = "lower it, or start with more workers, or more slots for each"
        yield misfit(processes, problem, advice)
    if launch.program != "horovodrun":
        line = next(
            (host_list.line for host_list in job.host_lists if host_list.key == "hostfile"), ""
        )
        for option in (
            launch.options if line.endswith(":{slots}") and _is_open_mpi(launch, job) else ()
        ):
            if option.name in _HOST_FILES and (path := option.values[0].text) in _HOROVOD_FILES:
                problem = "its lines are HOST:SLOTS, as Horovod reads them, and Open MPI cannot"
                yield misfit((option.name, path), problem, "use /job/hostfile")
        return
    if processes:
        flag, number = processes
        if low and low[1] > number:
            yield misfit(low, f"it is above {flag} {number}", f"use at most {number}")
        if high and high[1] < number:
            yield misfit(high, f"it is below {flag} {number}", f"use at least {number}")
    if bounds.maximum and high and high[1] > (most := (bounds.maximum + others) * slots):
        problem = f"{most_name} {bounds.maximum + bounds.others} allows {most} at most"
        yield misfit(high, problem, f"raise {most_name}, or lower it")
    floor = (bounds.minimum + others) * slots
    if low and workers.bounds and bounds.minimum > 1 and low[1] > floor:
        scaled_in = f"{least_name} {bounds.minimum + bounds.others}"
        problem = f"scaled in to {scaled_in} only {floor} are left"
        yield misfit(low, problem, f"raise {least_name}, or lower it")
    if count + others == 1 and not launch.has(*_NETWORK):
        yield diagnose(codes.TWO_HOSTS, origin.locate(), replicas=count)


def _processes(launch: Launch) -> tuple[str, int] | None:
    names = _HOROVOD_PROCESSES if launch.program == "horovodrun" else _PROCESSES
    total, flag = 0, ""
    for options in launch.contexts:
        named = [option for option in options if option.name in names]
        if len(named) != 1 or (value := named[0].number) is None:
            return None
        total, flag = total + value, named[0].name
    return flag, total


def _stays_within_slots(launch: Launch, job: Job, role: Role) -> bool:
    """Return whether a launch refuses more processes than the job's hosts have slots.

    Open MPI and horovodrun do, unless a word or a variable lets them oversubscribe; Hydra does not.
    For hosts outside of the job the answer is no.
    """
    if launch.has(*_OTHER_HOSTS, "--slots-per-host"):
        return False
    for option in launch.options:
        if option.name in _HOST_FILES and not option.values[0].text.endswith(_JOB_FILE):
            return False
    if launch.program != "horovodrun" and not _is_open_mpi(launch, job):
        return False
    container = role.template.main_container
    variables = (f"{env['name']}={env.get('value', '')}" for env in container.get("env", ()))
    texts = (*command_line(container), *variables)
    return not any("oversubscribe" in text.lower() for text in texts)


def _is_open_mpi(launch: Launch, job: Job) -> bool:
    implementation = job.document["spec"].get("mpiImplementation", "OpenMPI")
    if launch.program == "mpiexec.hydra" or implementation != "OpenMPI":
        return False
    return all(option.name.lstrip("-") not in _HYDRA_ONLY for option in launch.options)
