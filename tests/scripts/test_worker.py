"""worker.sh with a real sshd: what a launcher, the watcher and the kubelet meet."""

import contextlib
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.scripts.conftest import accepts

NEVER = 600
"""Seconds between two looks at the run record, for tests that must not wait for one."""


@pytest.fixture
def worker(shell, script, place, start):
    """`worker(user, ssh_home, port)`: a running worker; without ssh_home one without ssh."""

    def run(user=None, ssh_home=None, port=None, poll_seconds=0.1, temporary=None, path=None):
        (place / "spec-hash").write_text("0f3a9c")
        worker = script(
            "worker.sh",
            ssh=ssh_home is not None,
            ssh_port=port,
            ssh_home=str(ssh_home),
            status_done=str(place / "done"),
            spec_hash_file=str(place / "spec-hash"),
            poll_seconds=poll_seconds,
        )
        (place / "tmp").mkdir()
        (place / "tmp").chmod(0o777)
        environment = {**os.environ, "TMPDIR": temporary or str(place / "tmp")}
        environment |= {"PATH": path} if path else {}
        command = [*(user.become if user else ()), *shell, worker, "ignored", "--args"]
        return start(*command, env=environment)

    return run


@pytest.fixture
def serving(worker, user, ssh_home, port, listening, require):
    """`serving()`: a worker whose sshd listens, its user, and the keys."""
    require("ssh", which="sshd")

    def serve(**options):
        home = ssh_home(user)
        process = worker(user, home, port, **options)
        listening(port)
        return process, user, home

    return serve


@pytest.fixture
def ssh(run, require):
    client = require("ssh", which="ssh")

    def ssh(user, home, command):
        options = ["-F", f"{home}/config", "-i", f"{home}/id_rsa", "-o", "BatchMode=yes"]
        # Upstream's directory has no other key to offer, so nor has this.
        options += ["-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR"]
        return run(*user.become, client, *options, f"{user.name}@127.0.0.1", command)

    return ssh


def _children(pid):
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, rest = stat.read_text().rpartition(")")
            if int(rest.split()[1]) == pid:
                yield int(stat.parent.name), name.partition("(")[2]


def _log(place):
    return (place / "log").read_text()


def test_commands_run_as_the_user_of_the_container(serving, ssh, place):
    _, user, home = serving()
    done = ssh(user, home, "whoami; exit 5")
    assert (done.returncode, done.stdout, done.stderr) == (5, f"{user.name}\n", "")
    assert _log(place) == ""


def test_a_process_of_a_session_can_be_interrupted(serving, ssh):
    # A shell starts its background processes with SIGINT ignored, for all their children.
    _, user, home = serving()
    ignored = int(ssh(user, home, "grep SigIgn /proc/self/status").stdout.split()[1], 16)
    assert not ignored & 1 << signal.SIGINT - 1


def test_the_end_of_the_run_ends_the_worker_and_its_sshd(serving, place, port, until):
    process, _, _ = serving()
    (place / "done").write_text("another run")
    time.sleep(0.5)
    assert process.poll() is None
    (place / "done").write_text("0f3a9c\n")
    assert process.wait(20) == 0
    assert _log(place) == ""
    until(lambda: not accepts(port))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_worker_at_once(serving, number, place):
    process, _, _ = serving(poll_seconds=NEVER)
    process.send_signal(number)
    assert process.wait(20) == 143
    assert _log(place) == ""
    assert list((place / "tmp").iterdir()) == []


def test_a_worker_does_not_outlive_its_sshd(serving, place):
    process, _, _ = serving()
    sshd = next(pid for pid, name in _children(process.pid) if name == "sshd")
    os.kill(sshd, signal.SIGKILL)
    assert process.wait(20) == 1
    assert "etcompile: sshd ended by itself (exit code 137)\n" in _log(place)


def test_port_in_use_is_reported(worker, user, ssh_home, place, port, require):
    require("ssh", which="sshd")
    home = ssh_home(user)
    with socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True):
        process = worker(user, home, port)
        assert process.wait(20) == 1
    assert "Cannot bind any address" in _log(place)
    assert "etcompile: sshd ended by itself" in _log(place)


def test_readiness_probes_leave_no_trace_in_the_log(serving, place, port):
    serving()
    for _ in range(5):
        socket.create_connection(("127.0.0.1", port)).close()
    time.sleep(0.5)
    assert _log(place) == ""


def test_many_connections_at_once_are_served(serving, ssh, port):
    # sshd by itself drops some from 11 unauthenticated connections on, and all from 101 on.
    _, user, home = serving()
    with contextlib.ExitStack() as stack:
        for _ in range(110):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert ssh(user, home, "echo served").stdout == "served\n"


def test_a_read_only_root_file_system_is_no_obstacle(
    worker, other, ssh_home, port, listening, ssh, require
):
    require("ssh", which="sshd")
    home = ssh_home(other)
    worker(other, home, port, temporary="/nonexistent")
    listening(port)
    assert ssh(other, home, "echo served").stdout == "served\n"


def test_port_defined_by_the_image_is_read_from_its_ssh_config(
    worker, other, ssh_home, port, listening, ssh, image_port, require
):
    require("ssh", which="sshd")
    home = ssh_home(other)
    worker(other, home, path=image_port["PATH"])
    listening(port)
    assert ssh(other, home, "whoami").stdout == f"{other.name}\n"


def test_a_worker_without_ssh_only_stays_until_the_end(worker, place):
    process = worker()
    time.sleep(0.5)
    assert process.poll() is None
    assert [name for _, name in _children(process.pid) if name == "sshd"] == []
    (place / "done").write_text("0f3a9c")
    assert process.wait(20) == 0
    assert _log(place) == ""


def test_a_worker_without_ssh_stops_at_once(worker, until):
    process = worker(poll_seconds=NEVER)
    until(lambda: any(_children(process.pid)))
    process.terminate()
    assert process.wait(20) == 143
