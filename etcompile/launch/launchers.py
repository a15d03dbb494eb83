"""Read commands that start a training on other hosts, up to the program that they run.

They are mpirun of Open MPI (orterun, prterun), of MPICH and of Intel MPI (Hydra), and horovodrun.
After an unknown option, its values look like arguments of the program, so the launch is not `sure`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from etcompile.launch.shell import (
    Word,
    command_line,
    commands,
    file_name,
    script_of,
    script_words,
    whole_number,
)


class Option(NamedTuple):
    """An option of a launcher, as it is written.

    Args:
        name: With its dashes.
    """

    name: str
    values: tuple[Word, ...] = ()

    @property
    def number(self) -> int | None:
        return whole_number(self.values[0].text) if self.values and self.values[0].literal else None


class Launch(Struct, frozen=True):
    """The command of a launcher.

    Args:
        program: The launcher: mpirun, mpiexec or horovodrun.
        contexts: The options before each program; mpirun takes several programs, separated by `:`.
        sure: The launcher runs in any case, and all its options are known.
    """

    program: str
    contexts: tuple[tuple[Option, ...], ...]
    sure: bool

    @property
    def options(self) -> Iterator[Option]:
        return (option for options in self.contexts for option in options)

    def numbers(self, *names: str) -> Iterator[tuple[str, int]]:
        """Yield the options of these names whose values are literal numbers."""
        for option in self.options:
            if option.name in names and (value := option.number) is not None:
                yield option.name, value

    def has(self, *names: str) -> bool:
        return any(option.name in names for option in self.options)


def launches(container: Mapping[str, Any]) -> tuple[Launch, ...]:
    """Return what a container's command line starts on other hosts, as far as it is literal."""
    result: list[Launch] = []
    for command in commands(container):
        program, words = command.program, command.words[1:]
        if not command.words[0].literal or program not in _OPTIONS:
            continue
        contexts, sure = [], command.sure
        ends = [at for at, word in enumerate(words) if word.text == ":" and program != "horovodrun"]
        for start, end in zip((0, *(at + 1 for at in ends)), (*ends, len(words)), strict=True):
            options, all_known = _options(words[start:end], _OPTIONS[program])
            contexts.append(options)
            sure = sure and all_known
        result.append(Launch(program, tuple(contexts), sure))
    return tuple(result)


def _options(
    words: Sequence[Word], values: Mapping[str, int | None]
) -> tuple[tuple[Option, ...], bool]:
    options: list[Option] = []
    all_known, place = True, 0
    while place < len(words):
        text = words[place].text
        if not words[place].literal and not text.startswith("-"):
            # A variable may hold options, or be the program.
            return tuple(options), False
        if not text.startswith("-") or text in ("-", "--"):
            return tuple(options), all_known
        name, equals, value = text.partition("=")
        count = values.get(name)
        all_known = all_known and count is not None
        place += 1
        if equals:
            options.append(Option(name, (Word(value, words[place - 1].literal),)))
            continue
        if count is None:
            # A number is a value, so that `-f 5` does not end the options.
            count = int(place < len(words) and words[place].text.isdecimal())
        if len(words) < place + count:
            return tuple(options), False
        options.append(Option(name, tuple(words[place : place + count])))
        place += count
    return tuple(options), all_known


_MPI: Mapping[str, int | None] = {
    f"{dashes}{name}": count
    for count, names in {
        # Open MPI 4 (orterun) and 5 (prterun), then Hydra, as MPICH and Intel MPI have it.
        0: "allow-run-as-root oversubscribe nooversubscribe nolocal no-local q quiet v verbose"
        " V version h bynode byslot bycore bysocket byboard bind-to-core bind-to-socket"
        " bind-to-none report-bindings tag-output timestamp-output merge-stderr-to-stdout"
        " display-map display-devel-map display-allocation display-topo display-diffable-map"
        " do-not-launch leave-session-attached debug-daemons debug-daemons-file d debug-devel"
        " noprefix use-hwthread-cpus use-hwthreads-as-cpus get-stack-traces"
        " report-state-on-timeout enable-recovery disable-recovery continuous report-events"
        " pernode xml preload-binary index-argv-by-rank show-progress overload-allowed"
        " do-not-resolve novm enable-instant-on-support stop-on-exec autorestart"
        " genvall genvnone envall envnone verbose info print-all-exitcodes print-rank-map"
        " disable-auto-cleanup disable-hostname-propagation enable-x disable-x l prepend-rank"
        " ordered-output silent-abort noconf rr localroot localonly rdma RDMA ib IB psm psm2 PSM"
        " tmi TMI mx MX dapl DAPL ofi OFI envuser genvuser",
        1: "n np c H host hostfile machinefile default-hostfile x map-by rank-by bind-to N npernode"
        " npersocket rf rankfile wd wdir path prefix output-filename stdin timeout tmpdir xterm"
        " cpus-per-proc cpus-per-rank cpu-set cpu-list slot-list preload-files cartofile cf"
        " ompi-server server-wait-time report-uri report-pid max-restarts personality hnp am"
        " output display runtime-options with-ft launch-agent pset dvm-uri stream-buffering"
        " forward-signals mca-base-param-file debugger keepalive set-cwd-to-session-dir ppr"
        " gpu-support memory-alloc-kinds"
        " ppn perhost grr hosts f machine hosts-group genvlist genvexcl envlist envexcl launcher"
        " launcher-exec bootstrap bootstrap-exec rmk iface binding membind topolib demux"
        " order-nodes usize outfile-pattern outfile errfile-pattern errfile prepend-pattern"
        " nameserver gtool gtoolfile branch-count gpus-per-proc umask arch pmi-connect",
        2: "mca gmca prtemca gprtemca pmixmca gpmixmca omca gomca env genv",
    }.items()
    for name in names.split()
    for dashes in ("-", "--")
}

_HOROVOD: Mapping[str, int | None] = {
    option: count
    for count, options in {
        0: "-v --version -cb --check-build --disable-cache --verbose --autotune --no-autotune"
        " --hierarchical-allreduce --no-hierarchical-allreduce --hierarchical-allgather"
        " --no-hierarchical-allgather --timeline-mark-cycles --no-timeline-mark-cycles"
        " --no-stall-check --stall-check --tcp --log-with-timestamp --log-without-timestamp"
        " --log-hide-timestamp --gloo --use-gloo --mpi --use-mpi --jsrun --use-jsrun"
        " --mpi-threads-disable --no-mpi-threads-disable --prefix-output-with-timestamp"
        " --output-with-timestamp --torque --no-torque",
        1: "-np --num-proc -p --ssh-port -i --ssh-identity-file --network-interfaces"
        " --network-interface --nics --start-timeout --output-filename --config-file"
        " --fusion-threshold-mb --cycle-time-ms --cache-capacity --autotune-log-file"
        " --autotune-warmup-samples --autotune-steps-per-sample --autotune-bayes-opt-max-samples"
        " --autotune-gaussian-process-noise --min-np --min-num-proc --max-np --max-num-proc"
        " --slots-per-host --slots --elastic-timeout --reset-limit --host-discovery-script"
        " --timeline-filename --stall-check-warning-time-seconds"
        " --stall-check-shutdown-time-seconds --mpi-args --num-nccl-streams --thread-affinity"
        " --gloo-timeout-seconds"
        " --binding-args --log-level -H --hosts -hostfile --hostfile",
        2: "--blacklist-cooldown-range --cooldown-range",
    }.items()
    for option in options.split()
}

_OPTIONS: Mapping[str, Mapping[str, int | None]] = {
    "mpirun": _MPI,
    "mpiexec": _MPI,
    "mpiexec.hydra": _MPI,
    "horovodrun": _HOROVOD,
}


LAUNCHERS = ("horovodrun", "mpirun", "mpiexec", "deepspeed", "torchrun")
_LEAST = ("--min-np", "--min-num-proc")


def command_words(container: Mapping[str, Any]) -> list[str]:
    words = command_line(container)
    script = script_of(words)
    return words if script is None else script_words(script)


def launch_program(container: Mapping[str, Any]) -> str | None:
    programs = (file_name(word) for word in command_words(container))
    return next((program for program in programs if program in LAUNCHERS), None)


def may_launch(container: Mapping[str, Any]) -> bool:
    """Report quickly whether a container may run mpirun, mpiexec or horovodrun."""
    return any(name in word for word in command_line(container) for name in LAUNCHERS[:3])


def discovers_hosts(container: Mapping[str, Any]) -> bool:
    return any("--host-discovery-script" in word for word in command_words(container))


def least_workers(
    launcher: Mapping[str, Any],
    replicas: int,
    slots: int,
    *,
    others: int = 0,
    stated: int | None = None,
) -> int:
    """Return how many workers a launcher needs to begin.

    Only an elastic horovodrun, or an unknown launcher with a `stated` number, needs fewer than all.
    `slots` are the processes of each worker, `others` the hosts besides the workers.
    """
    program = launch_program(launcher)
    if program is not None and (program != "horovodrun" or not discovers_hosts(launcher)):
        return replicas
    least = (
        value
        for launch in (launches(launcher) if program else ())
        if launch.program == "horovodrun"
        for _, value in launch.numbers(*_LEAST)
    )
    if slots > 0 and (value := next(least, None)) is not None:
        return min(max(-(-value // slots) - others, 1), replicas)
    return replicas if stated is None else min(stated, replicas)
