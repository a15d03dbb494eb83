"""Real shells complete etcompile, after the script that `etcompile completion` prints."""

import contextlib
import os
import pty
import re
import select
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

BIN = os.path.dirname(sys.executable)  # noqa: PTH120
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r|\x07")

STARTS = {
    "bash": ("bash --norc --noprofile -i", 'eval "$(etcompile completion bash)"'),
    "zsh": (
        "zsh -f -i",
        'autoload -U compinit && compinit -u -D && eval "$(etcompile completion zsh)"',
    ),
}


@pytest.fixture
def environment(tmp_path, require):
    """That of a user whose PATH has etcompile, in a folder of theirs."""
    require("the etcompile command", present=os.path.exists(f"{BIN}/etcompile"))  # noqa: PTH110
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "bert.yaml").write_text("")
    # Tests that activate an environment of their own may have put it there, too.
    others = [
        folder
        for folder in os.environ["PATH"].split(":")
        if not (Path(folder) / "kubectl-etcompile").exists()
    ]
    return {
        "PATH": ":".join([BIN, *others]),
        "HOME": str(tmp_path),
        "TERM": "dumb",
        "PS1": "> ",
        "LANG": "C.UTF-8",
    }


class Terminal:
    """A shell in a terminal, and somebody who types."""

    def __init__(self, shell, environment):
        command, setup = STARTS[shell]
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.chdir(environment["HOME"])
            words = shlex.split(command)
            os.execvpe(words[0], words, environment)
        self.pid = pid
        self.type(f"{setup}; echo rea''dy\n")
        self.until("ready\n")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def until(self, wanted, seconds=60):
        shown, end = "", time.monotonic() + seconds
        while wanted not in shown:
            if not select.select([self.terminal], [], [], max(0, end - time.monotonic()))[0]:
                break
            with contextlib.suppress(OSError):
                shown += _ESCAPES.sub("", os.read(self.terminal, 65536).decode(errors="replace"))
        assert wanted in shown, shown
        return shown

    def close(self):
        os.close(self.terminal)
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


@pytest.fixture(params=["bash", "zsh"])
def terminal(request, environment, require):
    require(request.param, which=request.param)
    started = Terminal(request.param, environment)
    yield started
    started.close()


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("etcompile expl\t", "etcompile explain "),
        ("etcompile explain ET2003\t", "etcompile explain ET2003 "),
        ("etcompile schema PyTor\t", "etcompile schema PyTorchJob "),
        ("etcompile render --overlay pr\t", "--overlay prod "),
        ("etcompile render --color al\t", "--color always "),
        ("etcompile render --config dlr\t", "--config dlrover-version="),
        ("etcompile check jobs/be\t", "jobs/bert.yaml "),
        ("etcompile check --uns\t", "--unsafe-fixes "),
    ],
)
def test_a_tab_completes(typed, completed, terminal):
    terminal.type(typed)
    terminal.until(completed)


def test_fish_completes(environment, require, tmp_path):
    fish = require("fish", which="fish")
    script = subprocess.run(
        [f"{BIN}/etcompile", "completion", "fish"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    def completed(line):
        command = f"source {tmp_path}/etcompile.fish; complete -C {shlex.quote(line)}"
        done = subprocess.run(
            [fish, "--no-config", "-c", command],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return [line.partition("\t")[0] for line in done.stdout.splitlines()]

    (tmp_path / "etcompile.fish").write_text(script)
    assert completed("etcompile expl") == ["explain"]
    assert completed("etcompile render --config profile=ka") == ["profile=kapp"]
    assert completed("etcompile schema PyTor") == ["PyTorchJob"]
    assert "jobs/" in completed("etcompile check jo")


def test_completion_script_is_printed_without_its_shell_installed(environment):
    """The script may be made where its shell is not installed, as in an image."""
    done = subprocess.run(
        [sys.executable, "-m", "etcompile", "completion", "bash"],
        env={**environment, "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "complete -o nosort -F _etcompile_completion etcompile" in done.stdout


# kubectl -----------------------------------------------------------------------------------------


@pytest.fixture
def kubectl(environment, kubectl_program):
    """`kubectl(WORD...)`: its exit code, standard output and standard error."""

    def run(*words):
        done = subprocess.run(
            [kubectl_program, *words],
            env=environment,
            cwd=environment["HOME"],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    return run


def test_kubectl_runs_the_plugin_as_a_subcommand(kubectl):
    code, shown, _ = kubectl("etcompile", "diff", "--help")
    assert code == 0
    assert shown.startswith("Usage: kubectl etcompile diff [OPTIONS] PATH...")
    for option in ("--context", "--kubeconfig", "--namespace"):
        assert option in shown


def test_kubectl_lists_it_without_a_warning(kubectl):
    _, shown, warnings = kubectl("plugin", "list")
    assert f"{BIN}/kubectl-etcompile" in shown
    assert "kubectl-etcompile is " not in warnings  # overshadowed, or no program


def test_kubectl_hands_the_exit_code_on(kubectl):
    assert kubectl("etcompile", "render", "jobs/bert.yaml")[0] == 2


@pytest.mark.parametrize(
    ("words", "values", "directive"),
    [
        (["expl"], ["explain"], ":4"),
        (["render", "--config", "profile=ka"], ["profile=kapp"], ":0"),
        (["explain", "ET2003"], ["ET2003"], ":4"),
        (["render", "--overlay", "pr"], ["prod"], ":0"),
        (["render", "jo"], [], ":0"),
    ],
)
def test_kubectl_asks_it_what_completes(words, values, directive, kubectl):
    code, shown, _ = kubectl("__complete", "etcompile", *words)
    *lines, last = shown.splitlines()
    assert code == 0
    assert [line.partition("\t")[0] for line in lines] == values
    assert last == directive
