"""wait-for-workers.sh against a real sshd, with what different images bring to look with."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

NOWHERE = "x" * 64
"""A name that no resolver looks up: a label has at most 63 letters."""


@pytest.fixture
def image(place, require):
    """`image(*TOOLS)`: the PATH of an image that has these, besides the least of all."""

    def build(*tools):
        directory = place / "bin"
        directory.mkdir()
        for tool in ("sh", "sleep", *tools):
            path = directory / tool
            if tool == "python3":
                path.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
                path.chmod(0o755)
            else:
                path.symlink_to(require("shells" if tool == "bash" else tool, which=tool))
        return {"PATH": str(directory)}

    return build


@pytest.fixture
def gate(shell, script, place, port):
    """`gate(HOST...)`: the command line of the gate for these hosts."""

    def write(*hosts, ssh=True, known=True, **more):
        values = {"timeout_seconds": 60, "poll_seconds": 0.1, "kubexec": None, "enough": None}
        values |= {"completed": "", "itself": False, "before_command": False, **more}
        (place / "hostfile").write_text("".join(f"{host}:1\n" for host in hosts))
        path = script(
            "wait-for-workers.sh",
            ssh=ssh,
            port=port if ssh and known else None,
            hostfile=str(place / "hostfile") if hosts else "",
            live=str(place / "live"),
            status_done=str(place / "done"),
            spec_hash_file=str(place / "spec-hash"),
            status_completed=str(place / "completed"),
            **values,
        )
        return [*shell, path]

    return write


@pytest.fixture
def sshd(place, port, start, require, listening):
    """`sshd()`: a real sshd on 127.0.0.1, and on no other address."""
    program = require("ssh", which="sshd")

    def serve():
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        key = place / "host-key"
        keygen = require("ssh", which="ssh-keygen")
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        options = (f"ListenAddress=127.0.0.1:{port}", f"HostKey={key}", "PidFile=none")
        start(program, "-D", "-f", "/dev/null", *(f"-o{option}" for option in options))
        listening(port)

    return serve


def _nc_probes(require):
    nc = require("nc", which="nc")
    usage = subprocess.run([nc, "-h"], capture_output=True, text=True, check=False)
    require("nc", present="-z" in usage.stdout + usage.stderr, why="this nc has no -z")


@pytest.mark.parametrize("tool", ["nc", "bash", "python3", "perl"])
def test_it_tells_who_is_there_with_whatever_the_image_has(gate, image, sshd, run, tool, require):
    if tool == "nc":
        _nc_probes(require)
    path = image("timeout", "getent", tool)
    sshd()
    done = run(*gate("127.0.0.1", "127.0.0.1"), env=path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = run(*gate("127.0.0.1", "127.0.0.2", NOWHERE, timeout_seconds=1), env=path)
    assert (done.returncode, done.stdout) == (1, "")
    final = done.stderr.partition("2 hosts still missing")[2].splitlines()[1:]
    assert sorted(final) == [
        f"etcompile:   127.0.0.2: port {_port_of(final)} does not accept",
        f"etcompile:   {NOWHERE}: does not resolve",
    ]


def test_port_defined_by_the_image_is_read_from_its_ssh_config(gate, sshd, run, port, image_port):
    sshd()
    assert run(*gate("127.0.0.1", known=False), env=image_port).returncode == 0
    done = run(*gate("127.0.0.2", known=False, timeout_seconds=1), env=image_port)
    assert done.returncode == 1
    assert f"127.0.0.2: port {port} does not accept" in done.stderr


def test_without_an_ssh_to_ask_the_port_is_22(gate, image, run):
    path = image("python3", "timeout", "getent")
    done = run(*gate("127.0.0.2", known=False, timeout_seconds=1), env=path)
    assert "port 22 does not accept" in done.stderr


def _port_of(lines):
    return next(line.split()[3] for line in lines if "port" in line)


@pytest.mark.parametrize("tool", ["python3", "perl"])
def test_timeout_and_getent_may_be_missing(gate, image, sshd, run, tool):
    path = image(tool)
    sshd()
    assert run(*gate("127.0.0.1"), env=path).returncode == 0
    done = run(*gate("127.0.0.2", timeout_seconds=1), env=path)
    assert done.returncode == 1
    assert "127.0.0.2: does not resolve, or port" in done.stderr


def test_it_waits_for_a_worker_that_comes_later(gate, sshd, start, until, place):
    process = start(*gate("127.0.0.1"))
    until(lambda: "waiting for 1 hosts; 127.0.0.1: port" in (place / "log").read_text())
    (place / "log").rename(place / "gate-log")
    sshd()
    assert process.wait(20) == 0
    said = (place / "gate-log").read_text().splitlines()
    assert len(said) == 2
    assert said[1] == "etcompile: all hosts are there"


def test_hosts_that_do_not_answer_delay_the_others_by_seconds(gate, sshd, run, port):
    sshd()
    with socket.socket() as hole:
        hole.bind(("127.0.0.3", port))
        hole.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for attempt in waiting:  # the queue is full, the kernel answers nobody
            attempt.setblocking(False)
            attempt.connect_ex(("127.0.0.3", port))
        begin = time.monotonic()
        hosts = [*["127.0.0.3"] * 40, *["127.0.0.1"] * 10]  # one by one: 80 s
        done = run(*gate(*hosts, timeout_seconds=1))
        assert time.monotonic() - begin < 30
        for attempt in waiting:
            attempt.close()
    assert done.returncode == 1
    final = done.stderr.partition("still missing")[2].splitlines()[1:]
    assert final == [f"etcompile:   127.0.0.3: port {port} does not accept"] * 40


@pytest.mark.programs  # goes by the clock
def test_reachable_host_is_probed_once(gate, run, port, shell):
    # A fork a host takes its time. The loop is the same text in every shell: one of them runs it as
    # often as in the largest job.
    hosts = 1000 if Path(shell[0]).name == "sh" else 200
    requests = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        listener.listen(128)

        def accept():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                requests.append(1)
                connection.close()

        thread = threading.Thread(target=accept)
        thread.start()
        done = run(*gate(*["127.0.0.1"] * hosts, "127.0.0.2", timeout_seconds=1))
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert done.returncode == 1
    assert len(requests) == hosts


def test_an_image_without_any_tool_waits_for_names(gate, image, run):
    path = image("getent")
    done = run(*gate("localhost"), env=path)
    assert done.returncode == 0
    assert "waiting only until names resolve" in done.stderr
    done = run(*gate("localhost", NOWHERE, timeout_seconds=0), env=path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"etcompile:   {NOWHERE}: does not resolve"


def test_an_image_that_cannot_even_resolve_does_not_wait(gate, image, run):
    done = run(*gate("localhost"), env=image())
    assert done.returncode == 0
    assert done.stderr.startswith("etcompile: nothing here to look for the workers with")


def test_a_job_without_workers_has_nothing_to_wait_for(gate, run):
    done = run(*gate())
    assert (done.returncode, done.stderr) == (0, "")


def test_a_done_run_does_not_wait_for_workers_that_have_left(gate, run, place):
    (place / "spec-hash").write_text("0f3a9c")
    (place / "done").write_text("0f3a9c\n")
    done = run(*gate(NOWHERE))
    assert done.returncode == 0
    assert done.stderr == "etcompile: run 0f3a9c is done, not waiting for its workers\n"


def test_a_run_that_ends_meanwhile_ends_the_wait(gate, start, until, place):
    (place / "spec-hash").write_text("0f3a9c")
    process = start(*gate(NOWHERE))
    until(lambda: "waiting" in (place / "log").read_text())
    (place / "done").write_text("0f3a9c")
    assert process.wait(20) == 0


def test_a_missing_host_list_fails(gate, run, place):
    command = gate("localhost")
    (place / "hostfile").unlink()
    done = run(*command)
    assert done.returncode == 1
    assert done.stderr == f"etcompile: cannot read {place}/hostfile\n"


def test_a_gate_stops_at_once(gate, start, until, place):
    process = start(*gate(NOWHERE))
    until(lambda: "waiting" in (place / "log").read_text())
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 143


# By exec --------------------------------------------------------------------------------------

KUBECTL = """#!/bin/sh
case $2 in
    there) shift 5; exec "$@" ;;
    up) echo 'the connection is not yet up' >&2 ;;
    *) echo warning >&2; echo "Error from server (NotFound): pods \\"$2\\" not found" >&2 ;;
esac
exit 1
"""


@pytest.fixture
def kubexec(script, place):
    """The real kubexec.sh, with a kubectl that knows one Pod."""
    kubectl = place / "kubectl"
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    return script("kubexec.sh", container="worker", kubectl=str(kubectl), pods=[])


def test_by_exec_it_waits_until_a_command_runs_in_each_worker(gate, run, kubexec):
    done = run(*gate("there", "there", ssh=False, kubexec=kubexec))
    assert (done.returncode, done.stderr) == (0, "")


def test_by_exec_it_tells_what_kubectl_said(gate, run, kubexec):
    command = gate("there", "lost", "up", timeout_seconds=0, ssh=False, kubexec=kubexec)
    done = run(*command)
    assert done.returncode == 1
    assert sorted(done.stderr.splitlines()[1:]) == [
        'etcompile:   lost: exec fails: Error from server (NotFound): pods "lost" not found',
        "etcompile:   up: exec fails: the connection is not yet up",
    ]


def test_with_neither_ssh_nor_exec_it_waits_for_names(gate, run):
    assert run(*gate("localhost", ssh=False)).returncode == 0
    done = run(*gate("localhost", NOWHERE, ssh=False, timeout_seconds=0))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"etcompile:   {NOWHERE}: does not resolve"


def test_a_gang_begins_with_fewer_hosts_once_the_live_list_has_enough_of_them(
    gate, start, until, place
):
    command = gate(NOWHERE, NOWHERE + "1", NOWHERE + "2", enough=2)
    process = start(*command)
    until(lambda: "waiting for 3 hosts" in (place / "log").read_text())
    (place / "live").write_text("worker-0:1\n")
    assert process.poll() is None
    (place / "next").write_text("worker-0:1\nworker-1:1\n")
    (place / "next").rename(place / "live")
    assert process.wait(20) == 0
    said = (place / "log").read_text().splitlines()[-1]
    assert said == "etcompile: 2 hosts are there, enough to begin; 3 are missing"


def test_it_waits_until_the_watcher_says_that_others_have_succeeded(gate, start, until, place):
    (place / "spec-hash").write_text("0123456789ab")
    (place / "completed").write_text("aaaaaaaaaaaa\ndata\nmodel\n")  # of another run
    process = start(*gate(completed="data model"))
    until(lambda: "waiting until data has succeeded" in (place / "log").read_text())
    for lines in ("data\n", "database\nmodels\n", "data\nmodel\n"):
        assert process.poll() is None
        (place / "next").write_text(f"0123456789ab\n{lines}")
        (place / "next").rename(place / "completed")
    assert process.wait(20) == 0


def test_then_it_waits_for_hosts(gate, sshd, run, place):
    (place / "spec-hash").write_text("0123456789ab")
    (place / "completed").write_text("0123456789ab\ndata\n")
    sshd()
    assert run(*gate("127.0.0.1", completed="data")).returncode == 0
    done = run(*gate("127.0.0.2", completed="data", timeout_seconds=0))
    assert (done.returncode, "1 hosts still missing" in done.stderr) == (1, True)


def test_a_run_that_is_done_waits_for_nobody_to_succeed(gate, run, place):
    (place / "spec-hash").write_text("0123456789ab")
    (place / "done").write_text("0123456789ab")
    done = run(*gate(completed="data"))
    assert done.returncode == 0
    assert "run 0123456789ab is done, not waiting for data" in done.stderr


def test_host_name_of_the_pod_itself_only_has_to_resolve(gate, run):
    itself = Path("/etc/hostname").read_text().strip()
    assert run(*gate(itself, itself=True, timeout_seconds=0)).returncode == 0
    assert run(*gate(itself, timeout_seconds=0)).returncode == 1


# Before a command -----------------------------------------------------------------------------


def test_before_a_command_it_becomes_the_command(gate, run):
    mine = {"port": "mine", "hosts": "mine", "quick": "mine", "why": "mine"}
    text = 'tr "\\0" " " < /proc/$$/cmdline; echo "$port $hosts $quick $why"; exit 42'
    command = gate("localhost", ssh=False, before_command=True)
    result = run(*command, "sh", "-c", text, env={**os.environ, **mine})
    assert result.returncode == 42
    assert result.stdout.startswith("sh -c tr")
    assert result.stdout.endswith("mine mine mine mine\n")


def test_before_a_command_the_end_of_its_time_may_be_retried(gate, run):
    command = gate(NOWHERE, ssh=False, before_command=True, timeout_seconds=0)
    result = run(*command, "echo", "trains")
    assert (result.returncode, result.stdout) == (128, "")
    assert f"{NOWHERE}: does not resolve" in result.stderr


def test_before_a_command_it_stops_at_once(gate, start, until, place):
    process = start(*gate(NOWHERE, ssh=False, before_command=True), "touch", str(place / "trained"))
    until(lambda: "waiting" in (place / "log").read_text())
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=5) == 143
    assert not (place / "trained").exists()
