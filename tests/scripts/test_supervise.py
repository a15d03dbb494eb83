"""supervise.sh, around the command of a replica that restarts in place.

As a plain process, and as process 1 of a PID namespace as it is in a container.
"""

import contextlib
import itertools
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from etcompile.failures import stacks
from tests.scripts.conftest import ROOT

OWN = "0f3a9c"
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

    def __init__(self, place, script, shell, start, until, way):
        self.place, self.shell, self.start, self.until, self.way = place, shell, start, until, way
        self.script = script
        self.run = place / "run"
        self.run.mkdir()
        self.run.chmod(0o777)
        (place / "spec-hash").write_text(OWN)

    def fresh(self):
        """Makes the Pod's own folder as a new Pod has it."""
        for path in self.run.iterdir():
            path.unlink()

    def write(self, name, text):
        """Puts a file there all at once, as the kubelet does."""
        (self.place / f"{name}.new").write_text(text)
        (self.place / f"{name}.new").rename(self.place / name)

    def watch(self):
        """Lets a watcher look after the run, which has begun epoch 0."""
        self.write("status-epoch", f"{OWN} 0\n")
        self.write("command", "0 run 0 new")

    def line(self, *command, options=(), hold=60, stop=5, run_dir=None, warns=None):
        path = self.script(
            "supervise.sh",
            run_dir=str(run_dir or self.run),
            command_file=f"{self.place}/command",
            notice_file=f"{self.place}/notice",
            status_epoch=f"{self.place}/status-epoch",
            status_done=f"{self.place}/done",
            spec_hash_file=f"{self.place}/spec-hash",
            hold_seconds=hold,
            stop_seconds=stop,
            checkpoint_signal=warns and warns[0],
            warn_seconds=warns and warns[1],
        )
        return [*self.way, *self.shell, path, *options, "--", *command]

    def begin(self, *command, become=(), **settings):
        """Starts the supervisor around a command, by default a text for sh."""
        popen = {
            name: settings.pop(name) for name in ("env", "stdin", "stdout") if name in settings
        }
        command = ("sh", "-c", *command) if len(command) == 1 else command
        self.process = self.start(
            *become, *self.line(*command, **settings), cwd=self.place, **popen
        )
        return self.process

    @property
    def pid(self):
        """The supervisor's process, as it is called outside."""
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

    @property
    def said(self):
        """The lines of the command."""
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
            shown = ("ps", "-e", "--forest", "-o", "pid,ppid,stat,pending,blocked,caught,args")
            found = subprocess.run(shown, capture_output=True, text=True, check=False).stdout
            log = (self.place / "log").read_text()
            pytest.fail(f"does not end: {self.pid}\n{self.said}\n{log}\n{found}")

    @property
    def running(self):
        """True where the readiness probe would succeed."""
        return (self.run / "running").exists()


@pytest.fixture(
    params=[
        "dash",
        # What waits for seconds is tried in all other ways beside tests that take minutes.
        pytest.param("bash", marks=pytest.mark.programs),
        pytest.param("busybox", marks=pytest.mark.programs),
    ]
)
def shell(request, require):
    """The command line of a shell; `sh` is one of them."""
    program = require("shells", which=request.param)
    return [program, "sh"] if request.param == "busybox" else [program]


@pytest.fixture(params=[pytest.param("process", marks=pytest.mark.programs), "init"])
def way(request, require):
    """In front of the supervisor: nothing, or what makes it process 1."""
    if request.param == "process":
        return ()
    namespaces = _namespaces()
    require("namespaces", present=bool(namespaces), why="unshare may not make a PID namespace")
    return namespaces


@pytest.fixture
def until():
    """Waits until a condition holds, at most 60 s."""

    def wait(condition):
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.05)

    return wait


@pytest.fixture
def container(place, script, shell, start, until, way):
    yield Container(place, script, shell, start, until, way)
    # The supervisor first, or it would begin again.
    while found := sorted(_inside(place)):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _inside(place: Path) -> Iterator[int]:
    """The processes that the test has left in its folder."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state = (folder / "stat").read_text().rsplit(") ", 1)[1][0]
            if state != "Z" and (folder / "cwd").readlink() == place:
                yield int(folder.name)


only_init = pytest.mark.parametrize("way", ["init"], indirect=True)
only_process = pytest.mark.parametrize("way", ["process"], indirect=True)


# The command as it is ------------------------------------------------------------------------


def test_arguments_input_and_exit_code_pass_unchanged(container, run):
    arguments = ("a b", "*", "", "$HOME", "--", "-x", "two\nlines", "a=b")
    text = 'printf "<%s>" "$@"; cat; echo error >&2; exit 42'
    found = run(*container.line("sh", "-c", text, "sh", *arguments), input="input")
    shown = "".join(f"<{argument}>" for argument in arguments)
    assert (found.returncode, found.stdout, found.stderr) == (42, shown + "input", "error\n")


@only_process
def test_variables_of_the_user_reach_the_command_as_they_are(container, run, place):
    names = "epoch run code left id child line pid stat told nap signal name status value own of"
    names += " permanent serves wanted pause group own_hash done_hash i limit number"
    mine = {**os.environ, **dict.fromkeys(names.split(), "mine"), "EMPTY": "", "LINES_": "a\nb"}
    found = run(*container.line("env", "-0"), env=mine)
    theirs = dict(entry.split("=", 1) for entry in found.stdout.split("\0") if entry)
    for variables in (mine, theirs):
        for name in ("_", "PWD", "OLDPWD", "SHLVL"):  # each shell's own
            variables.pop(name, None)
    assert theirs == {**mine, "ETCOMPILE_EPOCH": "0"}


@pytest.mark.parametrize(
    ("text", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 137), ("kill -SEGV $$", 139)]
)
def test_the_exit_code_is_the_commands_and_nothing_else_is_said(container, run, text, code):
    found = run(*container.line("sh", "-c", text))
    assert (found.returncode, found.stdout, found.stderr) == (code, "", "")


@pytest.fixture(params=["env", "perl", "python3", ""])
def resetting(request, place, require):
    """An environment in which only one program can give the command its signals back, or none."""
    folder = place / "bin"
    folder.mkdir()
    for name in ("sleep", "mv", "rm", "grep", "setsid", "true", "mkfifo", request.param):
        if name:
            (folder / name).symlink_to(require("shells", which=name))
    if request.param == "python3":  # not one that a shell script of a version manager stands for
        (folder / name).unlink()
        (folder / name).symlink_to(os.path.realpath("/usr/bin/python3"))
        require("shells", present=(folder / name).exists(), why="there is no /usr/bin/python3")
    return request.param, {"PATH": str(folder), "name.with.dots": "x"}


@only_process
def test_the_command_can_be_interrupted_where_something_can_give_it_that(container, run, resetting):
    program, environment = resetting
    found = run(*container.line("grep", "^SigIgn", "/proc/self/status"), env=environment)
    assert found.stderr == ""
    ignored = int(found.stdout.split()[1], 16) & 0b110
    # bash can do it by itself.
    assert ignored in ((0,) if program else (0, 0b110))


@only_process
def test_a_command_that_cannot_be_started_is_told(container, run, resetting, place):
    (place / "data").write_text("x")
    for command, code in ((f"{place}/none", 127), (f"{place}/data", 126), ("--none", 127)):
        container.fresh()
        found = run(*container.line(command, "argument"), env=resetting[1])
        assert (found.returncode, command in found.stderr) == (code, True), found.stderr


@only_process
def test_a_supervisor_without_a_command_says_how_it_is_used(container, run):
    found = run(*container.line())
    assert found.returncode == 2
    assert found.stderr.startswith("etcompile: usage: supervise.sh")


@pytest.mark.parametrize("folder", ["missing", "/proc"])
@only_process
def test_a_folder_that_cannot_be_written_to_is_told(container, run, place, folder):
    found = run(*container.line("echo", "trains", run_dir=place / folder))
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr == (
        f"etcompile: cannot write to {place / folder}: is it mounted, and may this user write"
        " there?\n"
    )


def test_a_done_run_does_not_start(container, run):
    container.write("done", OWN)
    found = run(*container.line("echo", "trains"))
    assert (found.returncode, found.stdout) == (0, "")
    assert found.stderr == f"etcompile: run {OWN} is done, not running it again\n"


@only_process
def test_every_variable_of_a_script_around_a_command_has_the_prefix(container):
    lines = Path(container.line("true")[-3]).read_text().splitlines()
    code = [line for line in lines if not line.lstrip().startswith("#")]
    assigned = re.findall(r"(?:^|[ ({;&|])([A-Za-z_]\w*)='?", "\n".join(code), re.MULTILINE)
    looped = re.findall(r"^ *for (\w+) in", "\n".join(code), re.MULTILINE)
    strangers = {name for name in assigned + looped if not name.startswith("etc_")}
    in_python_and_perl = {"name", "environment", "line", "file", "error", "my"}
    assert strangers - in_python_and_perl <= {"ETCOMPILE_EPOCH", "permanent"}


# Signals -------------------------------------------------------------------------------------


def test_term_is_passed_on_and_the_code_kept_though_a_watcher_is_there(container):
    container.watch()
    container.begin(HANDLES)
    container.says("up 0")
    container.signal(signal.SIGTERM)
    assert container.ends() == 7
    assert container.said == ["up 0", "told 0"]
    assert container.log == ""


@pytest.mark.parametrize("name", ["INT", "QUIT", "HUP", "USR1", "USR2", "ALRM", "WINCH"])
@only_init
def test_other_signals_are_passed_on_too(container, name):
    container.begin(f"trap 'echo {name} >> out; exit 9' {name}; " + STAYS)
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


def test_an_interrupted_command_is_not_held(container):
    container.watch()
    container.begin("sh", "-c", UP + "exec sleep 600")
    container.says("up 0")
    container.signal(signal.SIGINT)
    assert container.ends() == 130


def test_a_signal_while_the_command_is_being_started_is_not_lost(container):
    for _ in range(4):
        container.fresh()
        container.begin("sleep", "600")
        container.until((container.run / "epoch").exists)
        container.signal(signal.SIGTERM)
        assert container.ends() == 143


@only_init
def test_a_signal_before_the_command_keeps_it_from_starting(container, place, require):
    folder = place / "bin"
    folder.mkdir()
    # The first that the supervisor calls: it waits until it may go on.
    slow = folder / "sleep"
    slow.write_text(
        f"#!/bin/sh\n: > {place}/asked\n"
        f"while [ ! -e {place}/go ]; do {require('shells', which='sleep')} 0.1; done\n"
    )
    slow.chmod(0o755)
    path = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    container.begin(UP, env=path)
    container.until((place / "asked").exists)
    container.signal(signal.SIGTERM)
    (place / "go").touch()
    assert container.ends() == 143
    assert container.said == []


def test_the_kubelet_alone_says_how_long_a_command_that_was_told_may_take(container, place):
    container.watch()
    slow = "trap 'echo told >> out; while [ ! -e enough ]; do sleep 0.1; done; exit 5' TERM; "
    container.begin(slow + STAYS, stop=0)
    container.says("up 0")
    container.signal(signal.SIGTERM)
    container.says("told")
    container.write("command", "1 run")
    time.sleep(2.5)  # more than stop=0 would leave it
    (place / "enough").touch()
    assert container.ends() == 5
    assert container.said == ["up 0", "told"]


def test_a_program_may_outlive_the_shell_that_ran_it_until_it_has_saved(container):
    program = "trap 'sleep 2; echo saved >> out; exit' TERM; " + STAYS
    container.begin(f"sh -c {_quoted(program)}; echo never >> out", stop=0)
    container.says("up 0")
    container.signal(signal.SIGTERM)
    assert container.ends() == 143
    assert container.said == ["up 0", "saved"]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@only_init
def test_orphans_are_reaped(container, run):
    container.begin("for i in $(seq 150); do (sleep 0.3 &) ; done; " + STAYS)
    container.says("up 0")
    first = container.pid

    def children():
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, parent = path.read_text().rsplit(") ", 1)[1].split()[:2]
                found += [state] if int(parent) == first else []
        return found

    # The command, and at most the nap: no zombie, and nobody who sleeps any more.
    container.until(lambda: len(children()) <= 2 and "Z" not in children())


# Epochs --------------------------------------------------------------------------------------


def test_an_epoch_ends_the_command_and_begins_it_again(container):
    container.watch()
    container.begin(HANDLES)
    container.says("up 0")
    container.until(lambda: container.running)
    container.write("command", "1 hold 0 2024-01-01T00:00:00Z")
    container.says("up 0", "told 0")
    container.until(lambda: not container.running)
    assert container.said == ["up 0", "told 0"]
    container.write("command", "1 run 0 2024-01-01T00:00:00Z")
    container.says("up 0", "told 0", "up 1")
    container.until(lambda: container.running)
    assert container.process.poll() is None
    assert container.log == (
        "etcompile: epoch 0 ends: the watcher restarts the run\netcompile: epoch 1 begins\n"
    )


def test_what_ignores_term_is_killed_at_the_end_of_an_epoch(container):
    container.watch()
    stubborn = "trap '' TERM; (echo below >> out; while :; do sleep 0.1; done) & "
    container.begin("sh", "-c", stubborn + STAYS, stop=0)
    container.until(lambda: sorted(container.said) == ["below", "up 0"])
    container.write("command", "1 run")
    container.until(lambda: sorted(container.said) == ["below", "below", "up 0", "up 1"])
    assert "what has not ended after 0 s is killed" in container.log


@only_init
def test_what_has_left_its_group_ends_with_its_epoch(container, place, require):
    require("shells", which="setsid")
    container.watch()
    far = "setsid sh -c 'trap \"\" HUP; echo far $ETCOMPILE_EPOCH >> out; exec sleep 600' & "
    container.begin(f"{far}\n{STAYS}", stop=0)
    container.until(lambda: "far 0" in container.said and "up 0" in container.said)
    container.write("command", "1 hold")
    container.until(lambda: not container.running)
    inside = f"/proc/{container.pid}/root/proc"
    names = [path.read_text() for path in Path(inside).glob("[0-9]*/comm")] if ROOT else []
    assert len([name for name in names if name == "sleep\n"]) <= 1  # the supervisor's own


@only_init
def test_what_came_from_outside_is_no_part_of_an_epoch(container, start, require):
    # A probe that is killed makes the container not ready before the command has ended.
    require("root", present=ROOT, why="nsenter is for root")
    enter = require("shells", which="nsenter")
    container.watch()
    container.begin(HANDLES)
    container.says("up 0")
    outside = subprocess.Popen(
        [enter, "-t", str(container.pid), "-p", "-m", "setsid", "sh", "-c", "sleep 600; true"]
    )
    try:
        inside = Path(f"/proc/{outside.pid}/task/{outside.pid}/children")
        container.until(lambda: inside.read_text().split())
        container.write("command", "1 run")
        container.says("up 1")
        assert outside.poll() is None
        assert inside.read_text().split()
    finally:
        for pid in inside.read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        outside.wait(20)


def test_an_epoch_may_be_left_out_and_none_comes_back(container):
    container.watch()
    container.begin(HANDLES)
    container.says("up 0")
    container.write("command", "5 run")
    container.says("told 0", "up 5")
    for old in ("5 run", "4 run", "5 hold", "0 hold"):
        container.write("command", old)
        time.sleep(0.7)
    assert container.said == ["up 0", "told 0", "up 5"]


NO_WORDS = ("", "\n", "7", "7 walk", "run 7", "-7 run", "7x run", "07 run", "0x7 run")
NO_WORDS += (f"{'9' * 30} run", "* *", "$(touch x) run", "7\nrun", "\0\1\2 run")


@only_process
def test_what_is_no_word_of_the_watcher_changes_nothing(container):
    container.watch()
    container.begin(HANDLES)
    container.says("up 0")
    for text in NO_WORDS:
        container.write("command", text)
        time.sleep(0.6)
    assert container.said == ["up 0"]
    container.write("command", "1 run")
    container.says("up 1")


def test_quick_epochs_in_a_row_never_overlap(container):
    container.watch()
    container.begin(HANDLES)
    container.says("up 0")
    for epoch in range(1, 4):
        container.write("command", f"{epoch} run")
        container.says(f"up {epoch}")
    for epoch in range(4, 40):
        container.write("command", f"{epoch} {('run', 'hold')[epoch % 2]}")
        time.sleep(0.05)
    container.write("command", "40 run")
    container.says("up 40")
    # A command that was told before it could listen has said nothing of its end.
    epochs = [int(line.split()[1]) for line in container.said if line.startswith("up")]
    assert epochs == sorted(set(epochs))
    for line, following in itertools.pairwise(container.said):
        if following.startswith("told"):
            assert line == following.replace("told", "up")


def test_a_command_that_fails_is_held_until_the_next_epoch(container):
    container.watch()
    container.begin(UP + '[ "$ETCOMPILE_EPOCH" -gt 0 ] || exit 3; exit 0')
    container.logs("etcompile: the command ended with exit code 3; it can begin again here within")
    container.until(lambda: not container.running)
    assert container.process.poll() is None
    container.write("command", "1 run")
    assert container.ends() == 0
    assert container.said == ["up 0", "up 1"]


def test_it_is_held_no_longer_than_the_job_says(container):
    container.watch()
    container.begin("exit 3", hold=0)
    assert container.ends() == 3


@only_process
def test_it_is_held_as_long_as_the_watcher_says(container):
    container.watch()
    container.begin(UP + '[ "$ETCOMPILE_EPOCH" -gt 0 ] || exit 3', hold=1)
    container.logs("exit code 3")
    container.write("command", "1 hold")
    time.sleep(3)
    assert container.process.poll() is None
    container.write("command", "1 run")
    assert container.ends() == 0


@pytest.mark.parametrize("record", [None, "", "another 0\n"])
def test_without_a_watcher_the_end_of_the_command_is_the_containers(container, record):
    if record is not None:
        container.write("status-epoch", record)
    container.begin(UP + "exit 3")
    assert container.ends() == 3
    assert (container.said, container.log) == (["up 0"], "")


def test_a_container_that_is_held_can_be_stopped(container):
    container.watch()
    container.begin("exit 3")
    container.logs("exit code 3")
    container.signal(signal.SIGTERM)
    assert container.ends() == 3


@pytest.mark.parametrize(
    ("options", "code", "stays"),
    [
        ((), 3, False),
        (("--permanent=all",), 137, True),
        (("--permanent=exit-code",), 3, True),
        (("--permanent=exit-code",), 137, False),
    ],
)
@only_process
def test_only_a_code_that_restarts_asks_for_an_epoch(container, options, code, stays):
    container.watch()
    container.begin(f"exit {code}", options=options, hold=5)
    assert container.ends() == code
    # The readiness probe looks for it: for the watcher the command goes on where it stays.
    assert container.running is stays


@only_process
def test_a_permanent_code_gives_way_to_an_epoch_that_others_need(container):
    container.watch()
    container.begin(UP + "exit 3", options=("--permanent=all",))
    container.logs("exit code 3")
    container.write("command", "1 hold")
    container.until(lambda: not container.running)
    container.write("command", "1 run")
    container.says("up 0", "up 1")


def test_a_server_ends_with_the_run(container):
    container.watch()
    container.begin(HANDLES, options=("--serves",))
    container.says("up 0")
    container.write("done", "another")
    container.write("done", OWN)
    assert container.ends() == 0
    assert container.said == ["up 0", "told 0"]
    assert container.log == f"etcompile: run {OWN} is done, ending\n"


@only_process
def test_what_serves_nobody_ends_by_itself(container):
    container.begin(UP + "sleep 2; exit 4")
    container.says("up 0")
    container.write("done", OWN)
    assert container.ends() == 4


def test_a_pod_that_comes_in_the_middle_waits_for_its_epoch(container):
    container.watch()
    container.write("command", "3 hold 0 new")
    container.begin(HANDLES)
    container.logs("waiting for the watcher")
    time.sleep(0.5)
    assert (container.said, container.running) == ([], False)
    container.write("command", "3 run 0 new")
    container.says("up 3")


@only_process
def test_a_pod_that_waits_ends_when_its_run_is_done_or_it_is_told(container):
    container.watch()
    container.write("command", "")
    container.begin(STAYS)
    container.logs("waiting for the watcher")
    container.signal(signal.SIGTERM)
    assert container.ends() == 143
    container.begin(STAYS)
    container.logs("waiting for the watcher")
    container.write("done", OWN)
    assert container.ends() == 0
    assert container.said == []


# A container that the kubelet starts again ---------------------------------------------------


@only_init
def test_a_container_that_is_started_again_begins_no_epoch_twice(container):
    container.watch()
    container.begin(HANDLES)
    container.says("up 0")
    container.write("command", "1 run")
    container.says("up 1")
    container.until(lambda: container.running)
    container.kill()
    container.begin(HANDLES)
    container.logs("waiting for the watcher")
    time.sleep(0.7)
    assert (container.said, container.running) == (["up 0", "told 0", "up 1"], False)
    container.write("command", "2 run")
    container.says("up 1", "up 2")


@only_init
def test_a_command_that_was_meant_for_the_container_before_is_not_heeded(container):
    """The watcher may have told all others by now that this one runs nothing."""
    container.watch()
    container.begin(STAYS)
    container.says("up 0")
    container.kill()
    container.write("command", "1 run 0 2026-11-23T04:21:11Z 1795407673")
    container.begin(STAYS)
    container.logs("waiting for the watcher")
    container.write("command", "2 run 0 2026-11-23T04:21:11Z 1795407673")
    time.sleep(1)
    assert container.said == ["up 0"]
    container.write("command", "2 run 1 2026-11-23T04:21:11Z 1795407673")
    container.says("up 0", "up 2")


@only_init
def test_a_container_that_is_started_again_waits_for_a_watcher_for_a_while_only(container):
    container.begin(HANDLES)
    container.says("up 0")
    container.kill()
    container.begin(HANDLES, hold=1)
    container.logs("waiting for a watcher for 1 s at most")
    container.says("up 0", "up 0")
    container.kill()
    container.begin(HANDLES, hold=1)
    container.logs("waiting for a watcher")
    container.watch()
    time.sleep(3)
    assert container.said == ["up 0", "up 0"]
    container.write("command", "1 run")
    container.says("up 0", "up 0", "up 1")


# Notices -------------------------------------------------------------------------------------


NOTICED = "trap 'echo saving >> out' USR1; " + STAYS


@only_init
def test_a_notice_may_ask_what_each_process_does(container):
    container.watch()
    container.begin("(exec -a x sleep 100) 2> /dev/null & sleep 101 & " + STAYS)
    container.says("up 0")
    children = Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text().split()
    command = int(children[0])
    os.kill(command, signal.SIGSTOP)
    container.write("notice", "0-1700000000 REPORT 0 nobody has written anything for 60 s\n")
    container.logs("etcompile: nobody has written anything for 60 s: these processes run\n")
    container.logs(" T sh\n")
    container.logs(" S sleep\n")
    # Nothing else has come of it, and it tells it once.
    container.write("command", "0 run 0 new")
    time.sleep(1.5)
    assert container.log.count("these processes run") == 1
    assert container.running
    os.kill(command, signal.SIGCONT)


WRITES_STACK = (
    "import faulthandler, signal, time\nfaulthandler.register(signal.SIGUSR1)\n"
    "def load_batch():\n    open('out', 'a').write('up 0\\n')\n    time.sleep(100)\nload_batch()"
)


@only_init
def test_a_notice_may_ask_for_the_stacks_of_those_that_can_write_them(container):
    container.watch()
    container.begin("sleep 100 & exec python3 -S -c " + _quoted(WRITES_STACK))
    container.says("up 0")
    container.write("notice", "0-1700000000 REPORT+USR1 0 nobody has written anything\n")
    container.logs("nobody has written anything: these processes run\n")
    container.logs(" S sleep\n")
    text = (container.place / "log").read_text()
    [found] = stacks(text.splitlines())
    assert [frame.function for frame in found.frames] == ["load_batch", "<module>"]
    assert text.index("for its stack") < text.index("in load_batch") < text.index("processes run")
    # What cannot is left alone, and told of.
    container.write("notice", "0-1700000001 REPORT+USR2 0 nobody has written anything\n")
    container.logs("etcompile: no process handles signal USR2, which asks for its stack\n")
    container.until(lambda: container.log.count("these processes run") == 2)
    assert container.running


WAITS = (
    "import ctypes, os, time\nopen('out', 'a').write('up 0\\n')\n"
    "if ctypes.CDLL(None).vfork() == 0:\n    time.sleep(100)\n    os._exit(0)"
)
"""Its parent waits in the kernel for a child that does not begin a program, in state D."""


@only_init
def test_a_process_that_the_kernel_makes_wait_is_told_of(container):
    container.watch()
    container.begin(f"exec python3 -S -c {_quoted(WAITS)}")
    container.says("up 0")
    container.write("notice", "0-1700000000 REPORT 0 nobody has written anything\n")
    container.logs(" D python3\n")
    assert container.running


def test_a_notice_reaches_those_who_handle_its_signal_and_no_others(container):
    container.watch()
    # The shell around it would die of the signal, and so would the sleep beside it.
    container.begin(f"sleep 600 & sh -c {_quoted(NOTICED)}; echo never >> out")
    container.says("up 0")
    container.write("notice", "n1 USR1 1700000000 node a is drained")
    container.says("up 0", "saving")
    container.write("notice", "n1 USR1 1700000000 node a is drained, as was said")
    time.sleep(1.2)
    container.write("notice", "n2 USR1 1700000000 once more")
    container.says("up 0", "saving", "saving")
    assert container.log == (
        "etcompile: node a is drained: signal USR1 is passed on\n"
        "etcompile: once more: signal USR1 is passed on\n"
    )
    # Neither another epoch is told of it, nor a container that is started again.
    container.write("command", "1 run")
    container.says("saving", "up 1")
    container.signal(signal.SIGTERM)
    assert container.ends() == 143
    container.write("command", "2 run")
    container.begin(NOTICED)
    container.says("up 1", "up 2")
    time.sleep(1.2)
    assert container.said.count("saving") == 2


@only_init
def test_a_pod_that_is_to_stop_has_a_checkpoint_first(container):
    container.watch()
    writes = "trap 'echo saved >> out' USR1; trap 'echo told >> out; exit 7' TERM; "
    container.begin(writes + STAYS, warns=("USR1", 3))
    container.says("up 0")
    container.signal(signal.SIGTERM)
    container.says("up 0", "saved")
    container.write("notice", "n1 USR1 0 this very disruption")
    assert container.ends() == 7
    assert container.said == ["up 0", "saved", "told"]


@only_init
def test_a_pod_that_is_to_stop_does_not_wait_for_one_that_writes_no_checkpoint(container):
    container.watch()
    container.begin(HANDLES, warns=("USR1", 600))
    container.says("up 0")
    container.signal(signal.SIGTERM)
    assert container.ends() == 7
    assert container.said == ["up 0", "told 0"]


@only_init
def test_a_pod_that_was_warned_is_not_told_twice_when_it_stops(container):
    container.watch()
    writes = "trap 'echo saved >> out' USR1; trap 'echo told >> out; exit 7' TERM; "
    container.begin(writes + STAYS, warns=("USR1", 1))
    container.says("up 0")
    container.write("notice", "n1 USR1 0 a node is drained")
    container.says("up 0", "saved")
    container.signal(signal.SIGTERM)
    assert container.ends() == 7
    assert container.said == ["up 0", "saved", "told"]


@pytest.mark.parametrize("text", ["n1 KILL 0 x", "n1 9 0 x", "n1", "n1 -1 0 x", "n1 TERM;ls 0 x"])
@only_process
def test_a_notice_that_names_no_such_signal_is_nothing(container, text):
    container.begin(NOTICED)
    container.says("up 0")
    container.write("notice", text)
    container.write("notice", text)
    container.until((container.run / "notice").exists)
    container.write("notice", "n2 USR1 0 x")
    container.says("up 0", "saving")


@only_process
def test_a_notice_that_nobody_handles_is_told(container):
    container.begin(STAYS)
    container.says("up 0")
    container.write("notice", "n1 USR2 0")
    container.logs("etcompile: the watcher asks for a checkpoint: no process handles signal USR2\n")
    assert container.process.poll() is None


# What an image may lack ----------------------------------------------------------------------


@only_process
def test_a_sleep_that_takes_no_fractions_will_do(container, place, require):
    folder = place / "bin"
    folder.mkdir()
    plain = folder / "sleep"
    real = require("shells", which="sleep")
    plain.write_text(f'#!/bin/sh\ncase $1 in *.*) exit 1 ;; esac\nexec {real} "$1"\n')
    plain.chmod(0o755)
    container.watch()
    path = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    container.begin(HANDLES.replace("sleep", real), env=path)
    container.says("up 0")
    container.write("command", "1 run")
    container.says("up 0", "told 0", "up 1")
    container.signal(signal.SIGTERM)
    assert container.ends() == 7


GREEDY = """
import os, signal, sys, time
children = []
until = time.monotonic() + 3
while time.monotonic() < until:
    try:
        child = os.fork()
    except OSError:
        continue
    if not child:
        time.sleep(60)
        os._exit(0)
    children.append(child)
for child in children:
    os.kill(child, signal.SIGKILL)
sys.exit(7)
"""


@only_process
def test_a_command_that_uses_up_all_processes_does_not_end_it(container, other, require, place):
    require("root", present=ROOT, why="the limit is for a user of the test's own")
    python, prlimit = "/usr/bin/python3", require("shells", which="prlimit")
    require("shells", present=Path(python).exists(), why="there is no /usr/bin/python3")
    become = (*other.become, prlimit, "--nproc=30")
    container.begin(python, "-S", "-c", GREEDY, become=become)
    assert container.ends() == 7
