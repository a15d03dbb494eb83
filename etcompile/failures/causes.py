"""What an exit code, a reason and the last lines say of why something ended.

Data, from the most telling to the least: what a program says of its peers counts before its exit
code, since whoever loses a peer ends with whatever code it likes. Each row says whose fault it is:
the program's, its node's, the platform's that needed the room, or a peer's, whose loss it is a
consequence of. By that `etcompile why` finds the first cause, and the watcher the bad nodes.

The texts are those of the libraries (the row names where each stands); a text is looked for in
any case.
"""

import functools
import signal as signals
from typing import Literal

from msgspec import Struct, structs

from etcompile.k8s import pods

Blame = Literal["program", "node", "platform", "peer", "unknown"]
"""Whose fault it is. `platform`: somebody needed the room, or has stopped it. `peer`: another
rank's, of which this is a consequence."""


class Cause(Struct, frozen=True):
    """Why something ended.

    Args:
        name: In one word, as metrics and records have it.
        text: In a sentence's middle: `ran out of memory`.
        blame: Whose fault it is.
        advice: What to do; empty if nothing general can be said.
    """

    name: str
    text: str
    blame: Blame
    advice: str = ""

    @property
    def is_consequence(self) -> bool:
        """Whether it only says that something else failed before."""
        return self.blame == "peer"


_MEMORY = (
    "raise resources.limits.memory, or use less: smaller batches, fewer data loader workers; what"
    " /dev/shm holds counts as well"
)
_DEVICE = (
    "look at the node: dmesg and nvidia-smi -q say more; kubectl cordon keeps Pods away from it,"
    " and etcompile restart runs the job elsewhere"
)

_START = "the command, or what it is to run in, is not in the image"
_SHM = "mount an emptyDir with medium: Memory at /dev/shm: it has 64 MiB otherwise"

_OF_REASONS = (
    Cause("OOMKilled", "ran out of memory", "program", _MEMORY),
    Cause("Evicted", "was evicted", "platform", "its node was drained, or short of room"),
    Cause("Preempted", "made room for a Pod of higher priority", "platform"),
    Cause("NodeLost", "was on a node that does not answer any more", "node"),
    Cause("NodeShutdown", "was on a node that was shut down", "platform"),
    Cause("Terminated", "was ended by its node", "platform"),
    Cause("Deleted", "was deleted by somebody", "platform"),
    Cause("Vanished", "went while no watcher was running", "platform"),
    Cause(
        "Stuck",
        "wrote nothing for too long",
        "program",
        "its last lines say where it was; etcompile.dev/stuck-after says how long is too long",
    ),
    Cause(
        "DeadlineExceeded",
        "ran longer than activeDeadlineSeconds allows",
        "platform",
        "raise activeDeadlineSeconds, if it was to take so long",
    ),
    Cause("ContainerCannotRun", "could not be started", "program", _START),
    Cause(
        "ProbeFailed",
        "was ended because a probe of it failed",
        "program",
        "a program that trains may be too busy to answer: see livenessProbe and startupProbe",
    ),
)
PROBE_FAILED = "ProbeFailed"
"""The reason of a container that was ended for its probe; only Events tell."""
_BY_REASON = {cause.name: cause for cause in _OF_REASONS}
_BY_REASON |= {
    "StartError": _BY_REASON["ContainerCannotRun"],
    "Shutdown": _BY_REASON["NodeShutdown"],
}
_REFUSED = Cause(
    "Refused", "was not admitted by its node", "node", "nothing of it ran; it comes back by itself"
)
_NO_ROOM = structs.replace(
    _REFUSED,
    text="was not admitted by its node, which had less room than the scheduler thought",
)

_HARDWARE = (
    # CUDA's own words (cuda.h, cudaGetErrorString) and those of its driver (Xid in dmesg).
    "uncorrectable ecc error",
    "uncorrectable nvlink error",
    "hardware stack error",
    "gpu has fallen off the bus",
    "gpu is lost",
    "nvrm: xid",
    "cuda error: unspecified launch failure",
    "no cuda-capable device is detected",
    "all cuda-capable devices are busy or unavailable",
    "cuda driver version is insufficient",
    "driver/library version mismatch",
    "cuda error: system not yet initialized",
    "unable to determine the device handle",
    "nvidia-container-cli: initialization error",
    # InfiniBand (NCCL's ibvwrap.cc and net_ib.cc).
    "got async event : local catastrophic error",
    "ibv_open_device failed",
)
_NOT_STARTED = frozenset({"ContainerCannotRun", "StartError"})
_BY_DEVICE = Cause("Hardware", "met a fault of its device or driver", "node", _DEVICE)
_PEERS = (
    # TCP, as every library passes it on.
    "connection reset by peer",
    "connection closed by peer",
    "connection closed by remote peer",
    "broken pipe",
    "connection refused",
    "connection timed out",
    "a peer has gone",
    "socket closed",
    "no route to host",
    "name or service not known",
    "temporary failure in name resolution",
    # NCCL (nccl.h, ncclGetErrorString) and torch's process groups.
    "ncclremoteerror",
    "a call failed possibly due to a network error or a remote process exiting prematurely",
    "nccl communicator was aborted",
    "watchdog caught collective operation timeout",
    "remote process has terminated",
    "failed to recv, got 0 bytes",
    "wait timeout after",
    "connectionreseterror",
    "brokenpipeerror",
    "distnetworkerror",
    "distbackenderror: nccl error",
    "rendezvousclosederror",
    "rendezvoustimeouterror",
    "sigterm: 15",
    "received 15 death signal",
    "signalexception: process",
    # Horovod, MPI (ORTE, PRRTE, Hydra), gRPC, JAX, TensorFlow, Paddle, Rabit.
    "horovodinternalerror",
    "has lost communication with a remote daemon",
    "ompi_errors_are_fatal",
    "hydt_bscd",
    "hydu_sock",
    "another process has exited",
    "statuscode.unavailable",
    "coordination service agent",
    "jax distributed service detected fatal errors",
    "the tasks have crashed",
    "unavailableerror",
    "collective ops is aborted",
    "local rank exited",
    "rabit",
)
_SILENT = Cause("Unknown", "ended, and nobody says why", "unknown")
_LAST = "last"
_ANYWHERE = "anywhere"
_BY_TEXT: tuple[tuple[str, tuple[str, ...], Cause], ...] = (
    (_ANYWHERE, _HARDWARE, _BY_DEVICE),
    (
        _ANYWHERE,
        ("cuda out of memory", "cublas_status_alloc_failed", "resource_exhausted: out of memory"),
        Cause(
            "DeviceMemory",
            "ran out of the device's memory",
            "program",
            "use smaller batches, or more devices",
        ),
    ),
    (
        _ANYWHERE,
        ("no space left on device", "disk quota exceeded"),
        Cause(
            "DiskFull",
            "found no space left on a device",
            "program",
            "what it writes to is full; /dev/shm has 64 MiB unless a volume is mounted there",
        ),
    ),
    (
        _ANYWHERE,
        ("bus error", "unable to open shared memory object", "insufficient shared memory"),
        Cause("SharedMemory", "had too little shared memory", "program", _SHM),
    ),
    (
        _ANYWHERE,
        ("exec format error",),
        Cause(
            "ExecFormat",
            "is a program for another kind of processor",
            "program",
            "build the image for the nodes' architecture, or select nodes of its own",
        ),
    ),
    (
        _LAST,
        ("modulenotfounderror:", "importerror:"),
        Cause("Import", "could not import a module", "program", "install it in the image"),
    ),
    (
        _LAST,
        ("read-only file system", "permission denied", "permissionerror:"),
        Cause(
            "Permission",
            "was not allowed to read or write something",
            "program",
            "see securityContext: runAsUser, fsGroup and readOnlyRootFilesystem",
        ),
    ),
    (
        _LAST,
        ("filenotfounderror:", "no such file or directory"),
        Cause("NoSuchFile", "did not find a file", "program", "is the volume mounted there?"),
    ),
    (_LAST, _PEERS, Cause("PeerLost", "lost the connection to another rank", "peer")),
)
"""Where a text counts, the texts, and what they mean. `anywhere`: nobody writes it who does not die
of it. `last`: programs warn of it as well, so of several that one counts which was written last."""
_CODES: dict[int, Cause] = {
    126: Cause("NotExecutable", "was not allowed to run its command", "program",
               "give the file the right to be executed"),
    127: Cause("CommandNotFound", "did not find its command", "program",
               "the command is not in the image, or not in PATH"),
    143: Cause("Terminated", "was told to end", "peer"),
    130: Cause("Terminated", "was interrupted", "peer"),
}  # fmt: skip
_SIGNALS: dict[int, Cause] = {
    signals.SIGSEGV: Cause("Segfault", "read or wrote memory that is not its own", "program",
                           "a library is broken or does not fit: PYTHONFAULTHANDLER=1 says where"),
    signals.SIGBUS: Cause("SharedMemory", "had too little shared memory", "program",
                          _SHM),
    signals.SIGABRT: Cause("Aborted", "ended itself after an error", "program"),
    signals.SIGKILL: Cause("Killed", "was killed", "unknown",
                           "by whom is not known: its node's memory may have run out, or a"
                           " liveness probe failed"),
    signals.SIGFPE: Cause("Arithmetic", "divided by zero", "program"),
    signals.SIGILL: Cause("IllegalInstruction", "met an instruction that the processor does not"
                          " have", "program", "build the image for the nodes' processors"),
}  # fmt: skip
OTHER_NODE_WANTED = Cause(
    "PreflightNode",
    "was sent to another node by its preflight check",
    "node",
    "look at the node: the last lines of the check say what is wrong there",
)
PREFLIGHT_FAILED = Cause(
    "Preflight",
    "failed its preflight check",
    "program",
    "its last lines say what is missing; etcompile.dev/preflight is the check",
)
_EVERY = (
    *_OF_REASONS,
    _REFUSED,
    *(cause for _, _, cause in _BY_TEXT),
    *_CODES.values(),
    *_SIGNALS.values(),
    OTHER_NODE_WANTED,
    PREFLIGHT_FAILED,
    _SILENT,
)
_STRIKES = frozenset(cause.name for cause in _EVERY if cause.blame in ("node", "unknown"))
NAMES = frozenset(cause.name for cause in _EVERY) | {"Exception", "ExitCode"}
"""The names of all causes."""
_LONGEST = 160
"""Characters of a line that tells of an exception."""
_EXCEPTIONS = ("Error", "Exception", "Interrupt", "Exit")
_TRACEBACK = "traceback (most recent call last)"


def is_strike(name: str) -> bool:
    """Whether a failure counts against the node on which it happened.

    What the program did, what somebody else did with the Pod, and what followed from the loss of
    a peer do not. What is killed and nobody knows by whom does: where memory has run out the
    kubelet says so.

    Args:
        name: Of the cause, as records have it.
    """
    return name in _STRIKES


@functools.lru_cache(maxsize=256)
def cause_of(reason: str, code: int | None, signal: int, text: str) -> Cause:
    """Why something ended.

    Args:
        reason: Kubernetes' word for it.
        code: The exit code; None if there is none.
        signal: The signal that ended it; 0 if none.
        text: What Kubernetes says of it, and the last lines that it wrote.
    """
    if reason in _BY_REASON:
        # What prepares a container's devices fails before its program is looked for.
        broken = reason in _NOT_STARTED and any(word in text.lower() for word in _HARDWARE)
        return _BY_DEVICE if broken else _BY_REASON[reason]
    if code is None and pods.is_refusal(reason):
        return _NO_ROOM if reason.startswith("OutOf") else _REFUSED
    signal = signal or (code - 128 if code is not None and 128 < code < 160 else 0)
    found, is_sure = _by_text(text.lower())
    # What a shell cannot run ends with a code of its own, whatever it says of it.
    if found is not None and (is_sure or code not in (126, 127)):
        return found
    if code in _CODES:
        return _CODES[code]
    if signal in _SIGNALS:
        return _SIGNALS[signal]
    if code is None:
        return _SILENT
    if name := _exception(text):
        return Cause("Exception", f"ended with an exception, {name}", "program")
    return Cause("ExitCode", f"ended with exit code {code}", "program")


def _by_text(text: str) -> tuple[Cause | None, bool]:
    """The cause that a text names, if it names one, and whether it counts wherever it stands."""
    last: tuple[int, Cause] | None = None
    for where, words, cause in _BY_TEXT:
        place = max(text.rfind(word) for word in words)
        if place < 0:
            continue
        if where == _ANYWHERE:
            return cause, True
        if last is None or place > last[0]:
            last = place, cause
    return (last[1] if last else None), False


def _exception(text: str) -> str:
    """The last exception of a Python program, in a line; empty if there is none."""
    if _TRACEBACK not in text.lower():
        return ""
    for line in reversed(text.splitlines()):
        path, _, words = line[:_LONGEST].partition(":")
        name = path.rpartition(".")[2]
        if name.endswith(_EXCEPTIONS) and path.replace(".", "_").isidentifier():
            return f"{name}: {words.strip()}" if words.strip() else name
    return ""
