"""supervise.py, around the command of a replica that restarts in place.

As a plain process, and as process 1 of a PID namespace as it is in a container. Here each replica
decides alone; test_gang_in_place.py has gangs.
"""

import ast
import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from etcompile.backend.texts import Texts
from tests.scripts.conftest import ROOT

SUPERVISOR = Path(__file__).parents[2] / "templates" / "supervise.py"
RUN = "0f3a9c"
"""The spec hash of the run."""
UP = 'echo "up $ETCOMPILE_EPOCH" >> out; '
STAYS = UP + "while :; do sleep 0.1; done"
"""A command that says that it is up, and ends by a signal only."""
HANDLES = "trap 'echo \"told $ETCOMPILE_EPOCH\" >> out; exit 7' TERM; " + STAYS
"""One that says too when it is told to end, and ends with 7."""
UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def _namespaces() -> tuple[str, ...]:
    """The command line that makes a command process 1; empty where nobody may."""
    for options in ((), ("--user", "--map-root-user")):
        with contextlib.suppress(OSError):
            if not subprocess.run(
                [*UNSHARE, *options, "true"], capture_output=True, check=False
            ).returncode:
                return (*UNSHARE, *options)
    return ()


class Container:
    """A folder that looks like the container's, and the supervisor in it."""

    def __init__(self, place, start, until, way, port):
        self.place, self.start, self.until, self.way = place, start, until, way
        self.port = port
        self.run = place / "etc/etcompile/run"
        for folder in ("run", "scripts", "status"):
            (place / "etc/etcompile" / folder).mkdir(parents=True)
        for name, text in {"spec-hash": RUN, "uid": "u", "role": "worker", "index": "3"}.items():
            self.write(name, text)

    def fresh(self):
        """Makes the Pod's own folder as a new Pod has it."""
        for path in self.run.iterdir():
            path.unlink()

    def write(self, name, text):
        """Puts a file there all at once, as the kubelet does."""
        folder = self.place / "etc/etcompile" / ("status" if name == "done" else "scripts")
        (folder / f"{name}.new").write_text(text)
        (folder / f"{name}.new").rename(folder / name)

    def line(self, *command, options=(), stop=5):
        fixed = ["--root", self.place, "--bind", "127.0.0.1", "--port", self.port, "--stop", stop]
        words = [sys.executable, "-SE", SUPERVISOR, *fixed, *options, "--", *command]
        return [*self.way, *map(str, words)]

    def begin(self, *command, **settings):
        """Starts the supervisor around a command, by default a text for sh."""
        popen = {
            name: settings.pop(name) for name in ("env", "stdin", "stdout") if name in settings
        }
        command = ("sh", "-c", *command) if len(command) == 1 else command
        self.process = self.start(*self.line(*command, **settings), cwd=self.place, **popen)
        return self.process

    @property
    def pid(self):
        if not self.way:
            return self.process.pid
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        self.until(lambda: children.read_text().split())
        return int(children.read_text().split()[0])

    def signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        """Ends process 1, and with it all others, as a crash does: the folder stays as it is."""
        self.signal(signal.SIGKILL)
        self.process.wait(20)

    def notice(self, text):
        self.write("notice", text)

    @property
    def said(self):
        with contextlib.suppress(FileNotFoundError):
            return (self.place / "out").read_text().splitlines()
        return []

    def says(self, *lines):
        self.until(lambda: self.said[-len(lines) :] == list(lines))

    @property
    def log(self):
        """What the supervisor says; a command's own shell may tell that its sleep was killed."""
        lines = (self.place / "log").read_text().splitlines(keepends=True)
        return "".join(line for line in lines if line.startswith("etcompile: "))

    def logs(self, text):
        self.until(lambda: text in self.log)

    def ends(self):
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            pytest.fail(f"does not end: {self.said}\n{(self.place / 'log').read_text()}")

    def get(self, path="/ready"):
        """The status line of a probe's answer; empty if nobody listens."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as probe:
                probe.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                return probe.makefile("rb").readline().decode().strip()
        except OSError:
            return ""


@pytest.fixture(params=["process", "init"])
def way(request, require):
    """In front of the supervisor: nothing, or what makes it process 1."""
    if request.param == "process":
        return ()
    namespaces = _namespaces()
    require("namespaces", present=bool(namespaces), why="unshare may not make a PID namespace")
    return namespaces


@pytest.fixture
def container(place, start, until, way, port):
    yield Container(place, start, until, way, port)
    # The supervisor first, or it would begin again.
    while processes := sorted(_inside(place)):
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _inside(place: Path) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state = (folder / "stat").read_text().rsplit(") ", 1)[1][0]
            if state != "Z" and (folder / "cwd").readlink() == place:
                yield int(folder.name)


only_init = pytest.mark.parametrize("way", ["init"], indirect=True)
only_process = pytest.mark.parametrize("way", ["process"], indirect=True)
ONCE = ("--backoff-limit", "0")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# The command as it is ------------------------------------------------------------------------


def test_arguments_input_and_exit_code_pass_unchanged(container, run):
    arguments = ("a b", "*", "", "$HOME", "--", "-x", "two\nlines", "a=b")
    text = 'printf "<%s>" "$@"; cat; echo error >&2; exit 42'
    line = container.line("sh", "-c", text, "sh", *arguments, options=ONCE)
    done = run(*line, input="input")
    shown = "".join(f"<{argument}>" for argument in arguments)
    assert (done.returncode, done.stdout) == (42, shown + "input")
    assert done.stderr == (
        "error\netcompile: the command ended in epoch 0: exit code 42\n"
        "etcompile: epoch 0 is the last (restarts: 0, in a row: 0): backoffLimit 0 is reached: "
        "worker-3 failed first: exit code 42\n"
    )


@only_process
def test_the_environment_is_the_users_and_the_epoch(container, run):
    mine = {"PATH": os.environ["PATH"], "EMPTY": "", "LINES_": "a\nb", "PYTHONPATH": "/nowhere"}
    done = run(*container.line("env", "-0"), env=mine)
    theirs = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)
    assert theirs == {**mine, "ETCOMPILE_EPOCH": "0"}


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("exit 0", 0, ""),
        ("exit 3", 3, "exit code 3"),
        ("kill -KILL $$", 137, "exit code 137 (SIGKILL)"),
        ("kill -SEGV $$", 139, "exit code 139 (SIGSEGV)"),
    ],
)
def test_the_exit_code_is_the_commands(container, run, text, code, words):
    done = run(*container.line("sh", "-c", text, options=ONCE))
    assert (done.returncode, done.stdout) == (code, "")
    ended = f"etcompile: the command ended in epoch 0: {words}\n"
    assert done.stderr.startswith(ended) if code else done.stderr == ""


def test_signals_and_limits_are_as_without_a_supervisor(container, run):
    text = "grep -E '^Sig(Ign|Blk)' /proc/self/status; ulimit -n; ulimit -Hn"
    container.write("index", "0")
    done = run(*container.line("bash", "-c", text, options=("--first", "worker-0")))
    plain = run("bash", "-c", "ulimit -n; ulimit -Hn")
    blocked, ignored, *limits = done.stdout.splitlines()
    assert int(blocked.split()[1], 16) == 0
    assert int(ignored.split()[1], 16) & 0x7FFFFFFF == 0  # the C library uses 32 and 33
    assert limits == plain.stdout.splitlines()


@only_process
def test_command_that_cannot_start_is_reported(container, run, place):
    (place / "data").write_text("x")
    for command, code in ((f"{place}/none", 127), (f"{place}/data", 126), ("--none", 127)):
        container.fresh()
        done = run(*container.line(command, "argument", options=ONCE))
        assert (done.returncode, f"etcompile: {command}: " in done.stderr) == (code, True)


@only_process
@pytest.mark.parametrize("options", [(), ("--unknown",), ("--port",), ("--port", "x")])
def test_a_supervisor_without_a_command_says_how_it_is_used(container, run, options):
    done = run(sys.executable, str(SUPERVISOR), *options)
    assert done.returncode == 2
    assert done.stderr.startswith("etcompile: usage: supervise.py")


@only_process
def test_port_in_use_and_unwritable_run_folder_are_reported(container, run):
    with socket.create_server(("127.0.0.1", container.port)):
        done = run(*container.line("echo", "trains"))
    assert (done.returncode, done.stdout) == (1, "")
    why = "Address already in use"
    assert done.stderr == f"etcompile: cannot listen on port {container.port}: {why}\n"
    shutil.rmtree(container.run)
    done = run(*container.line("echo", "trains"))
    assert (done.returncode, done.stdout) == (1, "")
    why = "is it mounted, and may this user write there?"
    assert done.stderr == f"etcompile: cannot write to {container.run}: {why}\n"


def test_a_done_run_does_not_start(container, run):
    container.write("done", RUN)
    done = run(*container.line("echo", "trains"))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"etcompile: run {RUN} is done, not running it again\n"


@only_process
def test_what_has_nothing_to_do_uses_next_to_no_time(container):
    container.begin("sleep", "600")
    container.until(lambda: container.get() == "HTTP/1.1 200 OK")
    used = []
    for _ in range(2):
        words = Path(f"/proc/{container.pid}/schedstat").read_text().split()
        used.append(int(words[0]) / 1e6)
        time.sleep(3)
    assert (used[1] - used[0]) / 3 <= 1.0  # milliseconds a second


# Readiness -----------------------------------------------------------------------------------


def test_it_is_ready_while_the_command_runs(container):
    container.begin(
        "[ $ETCOMPILE_EPOCH -eq 0 ] && exec sleep 600; exit 3", options=("--backoff", "600")
    )
    container.until(lambda: container.get() == "HTTP/1.1 200 OK")
    assert container.get("/other") == "HTTP/1.1 404 Not Found"
    for _ in range(3):
        for pid in sorted(set(_inside(container.place)) - {container.pid, container.process.pid}):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    container.logs("in epoch 2")
    container.until(lambda: container.get() == "HTTP/1.1 503 Service Unavailable")


@only_process
def test_malformed_messages_from_other_pods_are_ignored(container):
    container.begin(STAYS)
    container.says("up 0")
    texts = [b"", b"GET", b"\0" * 100, b"{}\n", b"[1]\n", b'{"say":"hello"}\n', b"1\n{" * 50]
    texts += [b'{"say":"stop","epoch":0}\n', b'{"say":"__init__"}\n', b"x" * (2 << 20)]
    texts += [b'{"say":"hi","at":0}\n{"say":"ended","epoch":0,"code":1,"permanent":true}\n']
    for text in texts:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", container.port), 5) as neighbour,
        ):
            neighbour.sendall(text)
            neighbour.shutdown(socket.SHUT_WR)
            neighbour.recv(100)
    assert container.get() == "HTTP/1.1 200 OK"
    assert (container.said, container.log) == (["up 0"], "")


# Signals -------------------------------------------------------------------------------------


def test_sigterm_is_passed_on_and_the_exit_code_returned(container):
    container.begin(HANDLES)
    container.says("up 0")
    container.signal(signal.SIGTERM)
    assert container.ends() == 7
    assert container.said == ["up 0", "told 0"]
    assert container.log == ""


@pytest.mark.parametrize("name", ["INT", "QUIT", "HUP", "USR1", "USR2", "ALRM", "WINCH"])
@only_init
def test_other_signals_are_passed_on_too(container, name):
    container.begin(f"trap 'echo {name} >> out; exit 9' {name}; " + STAYS, options=ONCE)
    container.says("up 0")
    container.signal(getattr(signal, f"SIG{name}"))
    assert container.ends() == 9
    assert container.said == ["up 0", name]


def test_each_of_two_signals_is_passed_on(container):
    container.begin("trap 'echo one >> out; trap \"exit 9\" TERM' TERM; " + STAYS)
    container.says("up 0")
    container.signal(signal.SIGTERM)
    container.says("up 0", "one")
    container.signal(signal.SIGTERM)
    assert container.ends() == 9


def test_an_interrupted_command_is_not_run_again(container):
    container.begin("sh", "-c", UP + "exec sleep 600")
    container.says("up 0")
    container.signal(signal.SIGINT)
    assert container.ends() == 130


def test_a_signal_while_the_command_is_being_started_is_not_lost(container):
    for _ in range(4):
        container.fresh()
        container.begin("sleep", "600")
        container.until((container.run / "state.json").exists)
        container.signal(signal.SIGTERM)
        assert container.ends() == 143


def test_terminated_command_may_run_until_the_kubelet_kills_it(container, place):
    slow = "trap 'echo told >> out; while [ ! -e enough ]; do sleep 0.1; done; exit 5' TERM; "
    container.begin(slow + STAYS, stop=0)
    container.says("up 0")
    container.signal(signal.SIGTERM)
    container.says("told")
    time.sleep(1)  # more than stop=0 would leave it
    (place / "enough").touch()
    assert container.ends() == 5
    assert container.said == ["up 0", "told"]


def test_a_program_may_outlive_the_shell_that_ran_it_until_it_has_saved(container):
    program = "trap 'sleep 1; echo saved >> out; exit' TERM; " + STAYS
    container.begin(f"sh -c {_quoted(program)}; echo never >> out", stop=0)
    container.says("up 0")
    container.signal(signal.SIGTERM)
    assert container.ends() == 143
    assert container.said == ["up 0", "saved"]


@only_init
def test_orphans_are_reaped(container):
    container.begin("for i in $(seq 150); do (sleep 0.3 &) ; done; " + STAYS)
    container.says("up 0")
    first = container.pid

    def children():
        states = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, parent = path.read_text().rsplit(") ", 1)[1].split()[:2]
                states += [state] if int(parent) == first else []
        return states

    # The command: no zombie, and nobody who sleeps any more.
    container.until(lambda: children() == ["S"])


# Epochs --------------------------------------------------------------------------------------


def test_a_command_that_fails_is_run_again_at_once_and_counted(container):
    container.begin(UP + '[ "$ETCOMPILE_EPOCH" -gt 1 ] || exit 3; exit 0')
    assert container.ends() == 0
    assert container.said == ["up 0", "up 1", "up 2"]
    assert container.log == "".join(
        f"etcompile: the command ended in epoch {epoch}: exit code 3\n"
        f"etcompile: epoch {epoch + 1} begins (restarts: {epoch + 1}, in a row: {epoch + 1}): "
        "worker-3 failed first: exit code 3\n"
        for epoch in range(2)
    )


@only_process
def test_it_waits_longer_each_time_until_it_needs_another_pod(container):
    began = time.monotonic()
    container.begin("exit 3", options=("--backoff", "0.1"))
    assert container.ends() == 3
    assert 0.7 <= time.monotonic() - began < 5
    assert container.log.endswith(
        "etcompile: epoch 5 needs new Pods (restarts: 5, in a row: 5): "
        "worker-3 failed first: exit code 3\n"
    )


@only_process
def test_failures_long_ago_are_forgotten(container):
    options = ("--forget", "0.05", "--backoff-limit", "8")
    container.begin("sleep 0.1; exit 3", options=options)
    assert container.ends() == 3
    assert "epoch 8 begins (restarts: 8, in a row: 1): " in container.log


@pytest.mark.parametrize(
    ("options", "code", "again"),
    [
        ((), 3, True),
        (("--permanent=all",), 137, False),
        (("--permanent=exit-code",), 3, False),
        (("--permanent=exit-code",), 137, True),
    ],
)
@only_process
def test_only_a_code_that_is_retried_begins_an_epoch(container, options, code, again):
    container.begin(f"[ $ETCOMPILE_EPOCH -gt 0 ] || exit {code}", options=options)
    assert container.ends() == (0 if again else code)
    assert (
        "is the last (restarts: 0, in a row: 0): its exit code is not retried: worker-3 "
        "failed first" in container.log
    ) is not again


def test_what_ignores_term_is_killed_at_the_end_of_an_epoch(container):
    stubborn = "(trap '' TERM; echo below >> out; while :; do sleep 0.1; done) & "
    ends = UP + "while [ $(wc -l < out) -lt 2 ]; do sleep 0.01; done; [ $ETCOMPILE_EPOCH -gt 0 ]"
    container.begin(stubborn + ends, stop=0.5, options=ONCE)
    assert container.ends() == 1
    assert sorted(container.said) == ["below", "up 0"]
    container.logs("what has not ended after 0.5 s is killed")


@pytest.mark.parametrize("stop", [0, 5])
def test_what_has_left_its_group_ends_with_its_epoch(container, require, until, stop):
    require("shells", which="setsid")
    far = "setsid sh -c 'echo far $$ >> out; exec sleep 600' & "
    ends = "while ! grep -q far out; do sleep 0.01; done; sleep 0.1; exit 3"
    container.begin(f"{UP} [ $ETCOMPILE_EPOCH -gt 0 ] && exec sleep 600; {far}\n{ends}", stop=stop)
    container.says("up 1")

    def sleeping() -> list[str]:
        titles = [Path(f"/proc/{pid}/cmdline").read_text() for pid in _inside(container.place)]
        return [title for title in titles if title == "sleep\x00600\x00"]

    until(sleeping)
    assert len(sleeping()) == 1


@only_init
def test_what_came_from_outside_is_no_part_of_an_epoch(container, require):
    require("root", present=ROOT, why="nsenter is for root")
    enter = require("shells", which="nsenter")
    container.begin(HANDLES)
    container.says("up 0")
    outside = subprocess.Popen(
        [enter, "-t", str(container.pid), "-p", "-m", "setsid", "sh", "-c", "sleep 600; true"]
    )
    try:
        inside = Path(f"/proc/{outside.pid}/task/{outside.pid}/children")
        container.until(lambda: inside.read_text().split())
        container.notice("n1 RESTART 0 somebody wants it")
        container.says("up 1")
        assert outside.poll() is None
        assert inside.read_text().split()
    finally:
        for pid in inside.read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        outside.wait(20)


def test_a_server_ends_with_the_run(container):
    container.begin(HANDLES, options=("--serves",))
    container.says("up 0")
    container.write("done", "another")
    container.write("done", RUN)
    assert container.ends() == 0
    assert container.said == ["up 0", "told 0"]
    assert container.log == f"etcompile: run {RUN} is done, ending\n"


@only_process
def test_what_serves_nobody_ends_by_itself(container):
    container.begin(UP + "sleep 2; exit 4", options=ONCE)
    container.says("up 0")
    container.write("done", RUN)
    assert container.ends() == 4


@only_process
def test_a_gate_is_passed_before_the_command_is_run_again(container, place):
    (place / "gate").write_text("echo gate >> out; [ ! -e shut ] || exit 9\n")
    container.begin(UP + "[ $ETCOMPILE_EPOCH -gt 1 ]", options=("--gate", f"{place}/gate"))
    assert container.ends() == 0
    assert container.said == ["up 0", "gate", "up 1", "gate", "up 2"]


# Waiting for a coordinator that is not there -------------------------------------------------

GANG = ("--gang", "worker:4", "--first", "worker-0", "--coordinator", "127.0.0.1")


def _listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@only_process
def test_gang_member_runs_no_epoch_before_it_is_released(container):
    container.begin(STAYS, options=(*GANG, "--lease", "0.5"))
    container.until(lambda: _listens(container.port))
    with socket.create_connection(("127.0.0.1", container.port), 1) as probe:
        probe.sendall(b"GET /ready HTTP/1.1\r\n\r\n")
        with pytest.raises(TimeoutError):  # so that its kubelet has nothing to warn of
            probe.recv(1)
    assert container.said == []
    container.signal(signal.SIGTERM)
    assert container.ends() == 143


@only_process
def test_who_waits_ends_when_the_run_is_done(container):
    container.begin(STAYS, options=GANG)
    container.until(lambda: _listens(container.port))
    container.write("done", RUN)
    assert container.ends() == 0


# A container that the kubelet starts again ---------------------------------------------------


@only_init
def test_a_container_that_is_started_again_begins_the_next_epoch(container):
    container.begin(HANDLES)
    container.says("up 0")
    container.kill()
    container.begin(HANDLES)
    container.says("up 0", "up 1")
    assert container.log == (
        "etcompile: epoch 1 begins (restarts: 1, in a row: 1): "
        "the container of worker-3 was killed\n"
    )


@only_init
@pytest.mark.parametrize("text", ["", "{", "[]", '{"state": 1}', "\0"])
def test_a_state_that_cannot_be_read_is_none(container, text):
    (container.run / "state.json").write_text(text)
    container.begin(HANDLES)
    container.says("up 0")


@only_process
def test_a_run_that_has_failed_says_so_again(container):
    container.begin("exit 3", options=ONCE)
    assert container.ends() == 3
    last = container.log.splitlines()[-1]
    container.begin("exit 3", options=ONCE)
    assert container.ends() == 1
    assert container.log == last + "\n"


@only_process
def test_pods_that_are_all_new_go_on_counting(container):
    container.write("epoch", "7 3")
    container.begin(UP + "[ $ETCOMPILE_EPOCH -gt 8 ]")
    assert container.ends() == 0
    assert container.said == ["up 8", "up 9"]
    assert "epoch 8 begins (restarts: 3, in a row: 0): all Pods were made anew" in container.log
    assert "epoch 9 begins (restarts: 4, in a row: 1): worker-3 failed first" in container.log


# Notices -------------------------------------------------------------------------------------


NOTICED = "trap 'echo saving >> out' USR1; " + STAYS


@only_init
def test_notice_signals_only_processes_that_handle_the_signal(container):
    # The shell around it would die of the signal, and so would the sleep beside it.
    container.begin(f"sleep 600 & sh -c {_quoted(NOTICED)}; echo never >> out")
    container.says("up 0")
    container.notice("n1 USR1 1700000000 node a is drained")
    container.says("up 0", "saving")
    container.notice("n1 USR1 1700000000 node a is drained, as was said")
    time.sleep(1.2)
    container.notice("n2 USR1 1700000000 once more")
    container.says("up 0", "saving", "saving")
    assert container.log == (
        "etcompile: node a is drained: signal USR1 is passed on\n"
        "etcompile: once more: signal USR1 is passed on\n"
    )
    # Neither another epoch is told of it, nor a container that is started again.
    container.notice("n3 RESTART 0 a rank hangs")
    container.logs("epoch 1 begins (restarts: 1, in a row: 1): a rank hangs")
    container.says("saving", "up 1")
    container.kill()
    container.begin(NOTICED)
    container.says("up 1", "up 2")
    time.sleep(1.2)
    assert container.said.count("saving") == 2
    assert "a rank hangs" not in container.log


@only_init
@pytest.mark.parametrize("first", ["signal", "notice"])
def test_a_pod_that_is_to_stop_has_one_checkpoint_first(container, first):
    writes = "trap 'echo saved >> out' USR1; trap 'echo told >> out; exit 7' TERM; "
    container.begin(writes + STAYS, options=("--checkpoint-signal", "USR1", "--warn", "1"))
    container.says("up 0")
    stop = functools.partial(container.signal, signal.SIGTERM)
    warn = functools.partial(container.notice, "n1 USR1 0 a node is drained")
    for step in (stop, warn) if first == "signal" else (warn, stop):
        step()
        container.says("up 0", "saved")
    assert container.ends() == 7
    assert container.said == ["up 0", "saved", "told"]


@only_init
def test_a_pod_that_is_to_stop_does_not_wait_for_one_that_writes_no_checkpoint(container):
    container.begin(HANDLES, options=("--checkpoint-signal", "USR1", "--warn", "600"))
    container.says("up 0")
    container.signal(signal.SIGTERM)
    assert container.ends() == 7
    assert container.said == ["up 0", "told 0"]


@pytest.mark.parametrize("text", ["n1 KILL 0 x", "n1 9 0 x", "n1", "n1 -1 0 x", "n1 TERM;ls 0 x"])
@only_process
def test_a_notice_that_names_no_such_signal_is_nothing(container, text):
    container.begin(NOTICED)
    container.says("up 0")
    container.notice(text)
    container.notice(text)
    container.until(lambda: "n1" in (container.run / "state.json").read_text())
    container.notice("n2 USR1 0 x")
    container.says("up 0", "saving")


@only_process
def test_notice_without_a_handler_is_logged(container):
    container.begin(STAYS)
    container.says("up 0")
    container.notice("n1 USR2 0")
    container.logs("etcompile: the watcher asks for a checkpoint: no process handles signal USR2\n")
    assert container.process.poll() is None


# The shim ------------------------------------------------------------------------------------


@pytest.fixture(params=["dash", "bash", "busybox"])
def shell(request, require):
    program = require("shells", which=request.param)
    return [program, "sh"] if request.param == "busybox" else [program]


@pytest.fixture
def shim(container, place, shell, run):
    """Runs the shim, with such programs as the image has."""

    def run_shim(*words, **programs):
        folder = place / "bin"
        folder.mkdir(exist_ok=True)
        for name, text in programs.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        text = Texts().render(
            "supervise.sh",
            status_done=f"{place}/etc/etcompile/status/done",
            spec_hash_file=f"{place}/etc/etcompile/scripts/spec-hash",
        )
        text = text.replace("/etc/etcompile/scripts/supervise.py", str(SUPERVISOR))
        (place / "supervise.sh").write_text(text)
        fixed = ("--root", place, "--bind", "127.0.0.1", "--port", container.port, *ONCE)
        line = [*shell, place / "supervise.sh", *fixed, "--", *words]
        return run(*map(str, line), env={"PATH": str(folder), "PYTHONPATH": "/nowhere"})

    return run_shim


UNSUPERVISED = (
    "etcompile: unsupervised: this image has no Python 3.8 or newer; "
    "the command is not run again in its container\n"
)
PYTHON = f'#!/bin/sh\nexec {sys.executable} "$@"\n'
OLD = "#!/bin/sh\nexit 1\n"


@only_process
@pytest.mark.parametrize("programs", [{"python3": PYTHON}, {"python3": OLD, "python": PYTHON}])
def test_the_shim_finds_the_python_of_the_image(shim, programs):
    done = shim("/bin/sh", "-c", "exit 3", **programs)
    assert (done.returncode, done.stdout) == (3, "")
    assert "backoffLimit 0 is reached" in done.stderr


@only_process
@pytest.mark.parametrize("programs", [{}, {"python3": OLD}])
def test_without_python_the_command_runs_unsupervised(shim, programs):
    done = shim("/bin/sh", "-c", 'echo "$@"; exit 3', "sh", "--", "a b", **programs)
    assert (done.returncode, done.stdout, done.stderr) == (3, "-- a b\n", UNSUPERVISED)


@only_process
def test_without_python_a_done_run_is_not_run_again(shim, container):
    container.write("done", RUN)
    done = shim("/bin/sh", "-c", "echo trains")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_old_python_can_read_the_supervisor_to_say_that_it_is_too_old():
    ast.parse(SUPERVISOR.read_text(), feature_version=(3, 6))
