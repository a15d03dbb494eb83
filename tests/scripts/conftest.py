"""The scripts as a container has them: rendered, run by each shell an image may bring."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from etcompile.backend.texts import Texts

ROOT = os.geteuid() == 0


@pytest.fixture(
    params=[
        "dash",
        "busybox",
        # What waits for seconds is tried in all others beside tests that take minutes; `sh` is one
        # of them on most machines.
        pytest.param("sh", marks=pytest.mark.programs),
        pytest.param("bash", marks=pytest.mark.programs),
    ]
)
def shell(request, require) -> list[str]:
    program = require("shells", which=request.param)
    return [program, "sh"] if request.param == "busybox" else [program]


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty directory that any user may enter, unlike pytest's own.

    Its name looks like an option of nc: shells quote the script's path in their messages, and no
    script may mistake those for a program's own.
    """
    directory = Path(tempfile.mkdtemp(prefix="etcompile-z-"))
    directory.chmod(0o755)
    yield directory
    # Daemons that a test has told to end may still write here.
    for _ in range(50):
        with contextlib.suppress(OSError):
            shutil.rmtree(directory)
            return
        time.sleep(0.1)
    shutil.rmtree(directory)


@pytest.fixture
def script(place) -> Callable[..., str]:
    """`script(NAME, **variables)`: the path of the rendered script."""

    def write(name: str, **values: Any) -> str:
        path = place / name
        path.write_text(Texts().render(name, **values))
        path.chmod(0o755)
        return str(path)

    return write


@pytest.fixture
def run() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command to its end, its output captured."""

    def run(*command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        options = {"capture_output": True, "text": True, "timeout": 120, **options}
        return subprocess.run(command, check=False, **options)

    return run


@pytest.fixture
def start(place) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a command, and ends it with all that it started when the test is over.

    Its standard error goes to the file `log` in `place`.
    """
    with contextlib.ExitStack() as stack:
        # What is started in the background, or by nohup, has them ignored, and what it starts, too:
        # kubelets start nothing that way.
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            if (before := signal.getsignal(number)) == signal.SIG_IGN:
                stack.callback(signal.signal, number, before)
                signal.signal(number, signal.SIG_DFL)

        def start(*command: str, **options: Any) -> subprocess.Popen[str]:
            log = stack.enter_context((place / "log").open("w"))
            process = subprocess.Popen(
                command, text=True, stderr=log, start_new_session=True, **options
            )
            stack.callback(_end, process)
            return process

        yield start


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout:
        process.stdout.close()


@pytest.fixture
def until() -> Callable[..., None]:
    """Waits until a condition holds, at most 20 s."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.02)

    return wait


def accepts(port: int, host: str = "127.0.0.1") -> bool:
    try:
        socket.create_connection((host, port), 2).close()
    except OSError:
        return False
    return True


@pytest.fixture
def listening(until) -> Callable[[int], None]:
    """Waits until something listens on a port of 127.0.0.1."""
    return lambda port: until(lambda: accepts(port))


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@dataclass(frozen=True)
class User:
    """Whoever a container runs as."""

    name: str
    become: tuple[str, ...]
    """The command line that runs another as this user."""


@pytest.fixture(scope="session")
def _other(require) -> Iterator[User]:
    """Somebody who is not root: whoever runs the tests, or a new user."""
    if not ROOT:
        yield User(pwd.getpwuid(os.geteuid()).pw_name, ())
        return
    setpriv, useradd = require("ssh", which="setpriv"), require("ssh", which="useradd")
    name = f"etcompile{os.getpid()}"
    subprocess.run([useradd, "-M", "-d", "/", "-s", "/bin/sh", name], check=True)
    ids = pwd.getpwnam(name)
    become = (f"--reuid={ids.pw_uid}", f"--regid={ids.pw_gid}", "--clear-groups")
    yield User(name, (setpriv, *become))
    subprocess.run([require("ssh", which="userdel"), name], check=True, capture_output=True)


@pytest.fixture
def other(_other) -> User:
    return _other


@pytest.fixture(params=["root", "other"])
def user(request, require) -> User:
    if request.param == "root":
        require("root", present=ROOT, why="the tests do not run as root")
        return User("root", ())
    return request.getfixturevalue("other")


@pytest.fixture
def secret(place, require) -> Path:
    """A key pair as the kubelet mounts its Secret: links to links, readable by everybody.

    An ed25519 key under the name id_rsa: the names are upstream's, the key is not.
    """
    directory = place / "secret"
    version = directory / "..2024"
    version.mkdir(parents=True)
    keygen = require("ssh", which="ssh-keygen")
    key = version / "id_rsa"
    subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    shutil.copy(version / "id_rsa.pub", version / "authorized_keys")
    (version / "config").write_text("StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n")
    (directory / "..data").symlink_to("..2024")
    for file in version.iterdir():
        file.chmod(0o444)
        (directory / file.name).symlink_to(f"..data/{file.name}")
    return directory


@pytest.fixture
def image_port(place, port, require) -> dict[str, str]:
    """The environment of an image whose ssh is configured for the port, which a job leaves to it.

    The real ssh reads its configuration from the home of the user in passwd, so the file is
    named to it.
    """
    directory = place / "told"
    directory.mkdir()
    (directory / "config").write_text(f"Host *\n    Port {port}\n")
    client = directory / "ssh"
    client.write_text(f'#!/bin/sh\nexec {require("ssh", which="ssh")} -F {directory}/config "$@"\n')
    client.chmod(0o755)
    return {**os.environ, "PATH": f"{directory}:{os.environ.get('PATH', os.defpath)}"}


@pytest.fixture
def ssh_home(place, secret, script, port, run):
    """`ssh_home(user)`: that user's keys, copied as `ssh-keys.sh` does it."""

    def copy(user: User) -> Path:
        home = place / "ssh"
        home.mkdir()
        home.chmod(0o777)  # as an emptyDir
        places = {"secret_dir": str(secret), "ssh_home": str(home)}
        keys = script("ssh-keys.sh", **places, port=port, renamed=[], config=[])
        copied = run(*user.become, "sh", keys)
        assert (copied.returncode, copied.stderr) == (0, "")
        return home

    return copy
