"""until-done.sh, around a server that the job's author wrote a command for."""

import os
import signal
import time
from pathlib import Path

import pytest

NEVER = 600
"""Seconds between two looks at the run record, for tests that must not wait for one."""
SERVER = "trap 'echo told; exit 7' TERM; echo up; while :; do sleep 0.1; done"


@pytest.fixture
def around(shell, script, place):
    """`around(*COMMAND)`: the command line of a command that ends when its run is done."""
    (place / "spec-hash").write_text("0f3a9c")

    def write(*command, poll_seconds=0.1):
        path = script(
            "until-done.sh",
            status_done=str(place / "done"),
            spec_hash_file=str(place / "spec-hash"),
            poll_seconds=poll_seconds,
        )
        return [*shell, path, *command]

    return write


@pytest.fixture
def serving(around, start, place, until):
    """`serving()`: a server that is up, which ends with 7 when it is told to."""

    def serve(**options):
        with (place / "out").open("w") as out:
            process = start(*around("sh", "-c", SERVER, **options), stdout=out)
        until(lambda: (place / "out").read_text() == "up\n")
        return process

    return serve


def test_arguments_and_exit_code_pass_unchanged(around, run):
    command = ("sh", "-c", 'printf "<%s>" "$@"; exit 42', "sh", "a b", "*", "", "$HOME")
    done = run(*around(*command))
    assert (done.returncode, done.stdout, done.stderr) == (42, "<a b><*><><$HOME>", "")


def test_variables_of_the_user_reach_the_command_as_they_are(around, run):
    mine = dict.fromkeys(("own_hash", "done_hash", "child", "nap", "told", "code"), "mine")
    done = run(*around("env", "-0"), env={**os.environ, **mine})
    theirs = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)
    assert {name: theirs[name] for name in mine} == mine


@pytest.mark.parametrize("seconds", ["0", "0.3"])
def test_a_command_that_ends_by_itself_ends_it_with_its_code(around, run, seconds):
    assert run(*around("sh", "-c", f"sleep {seconds}; exit 3")).returncode == 3


def test_a_command_that_a_signal_ends_counts_as_such(around, run):
    assert run(*around("sh", "-c", "kill -KILL $$")).returncode == 137


def test_missing_command_is_reported(around, run):
    done = run(*around("/nonexistent/sshd"))
    assert done.returncode == 127
    assert "/nonexistent/sshd" in done.stderr


def test_a_done_run_does_not_start(around, run, place):
    (place / "done").write_text("0f3a9c")
    done = run(*around("echo", "served"))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "etcompile: run 0f3a9c is done, not running it again\n"


def test_the_end_of_the_run_ends_the_server_and_is_a_success(serving, place):
    process = serving()
    (place / "done").write_text("another run")
    time.sleep(0.4)
    assert process.poll() is None
    (place / "done").write_text("0f3a9c\n")
    assert process.wait(20) == 0
    assert (place / "out").read_text() == "up\ntold\n"
    assert (place / "log").read_text() == "etcompile: run 0f3a9c is done, ending\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_the_server_at_once_and_returns_its_exit_code(serving, place, number):
    process = serving(poll_seconds=NEVER)
    process.send_signal(number)
    assert process.wait(20) == 7
    assert (place / "out").read_text() == "up\ntold\n"
    # busybox may report the end of the sleep that the script waited in.
    assert (place / "log").read_text() in ("", "Terminated\n")


def test_a_second_signal_is_passed_on_too(around, start, place, until):
    twice = "trap 'echo one; trap \"exit 9\" TERM' TERM; echo up; while :; do sleep 0.1; done"
    with (place / "out").open("w") as out:
        process = start(*around("sh", "-c", twice, poll_seconds=NEVER), stdout=out)
    until(lambda: (place / "out").read_text() == "up\n")
    process.terminate()
    until(lambda: (place / "out").read_text() == "up\none\n")
    process.terminate()
    assert process.wait(20) == 9


def test_a_command_without_a_handler_ends_as_with_a_signal(around, start, until):
    process = start(*around("sleep", "600", poll_seconds=NEVER))
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")

    def names():
        return [Path(f"/proc/{pid}/comm").read_text() for pid in children.read_text().split()]

    # Not before both are what they were forked for: a signal in between is the shell's, and lost.
    until(lambda: names() == ["sleep\n", "sleep\n"])
    process.terminate()
    assert process.wait(20) == 143


def test_a_real_sshd_serves_behind_it_until_the_run_is_done(
    around, start, place, port, listening, require, run
):
    sshd, keygen = require("ssh", which="sshd"), require("ssh", which="ssh-keygen")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    run(keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(place / "key"))
    options = (f"ListenAddress=127.0.0.1:{port}", f"HostKey={place}/key", "PidFile=none")
    command = [sshd, "-De", "-f", "/dev/null", *(f"-o{option}" for option in options)]
    process = start(*around(*command))
    listening(port)
    (place / "done").write_text("0f3a9c")
    assert process.wait(20) == 0
