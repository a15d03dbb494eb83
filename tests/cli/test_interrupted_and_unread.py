"""Ctrl-C from the first moment, and readers that go before a command has ended."""

import os
import subprocess
import sys

import pytest
import yaml

from specs import training_job

INTERRUPTED_AT = """
import sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Finder())
sys.modules.pop({module!r}, None)
sys.argv = ["etcompile", *{arguments!r}]
from etcompile.cli import {entry}
{entry}()
"""


@pytest.mark.parametrize(
    ("entry", "module", "arguments"),
    [
        ("main", "typing", ["--version"]),
        ("main", "click", ["--version"]),
        ("main", "etcompile.cli.main", ["--version"]),
        ("main", "etcompile.cli.render", ["render", "jobs"]),
        ("main", "msgspec", ["render", "jobs"]),
        ("main", "etcompile.compiler", ["render", "jobs"]),
        ("main", "etcompile.kubeapi", ["status"]),
        ("main", "urllib3", ["apply", "jobs"]),
        ("krm_function", "click", []),
        ("krm_function", "etcompile.compiler", []),
    ],
)
def test_an_interrupt_during_imports_is_no_traceback(tmp_path, entry, module, arguments):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "job.yaml").write_text(yaml.safe_dump(training_job()))
    script = INTERRUPTED_AT.format(module=module, arguments=arguments, entry=entry)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    # click ends the line with ^C first.
    assert (done.returncode, done.stdout, done.stderr.lstrip()) == (130, "", "interrupted\n")


def unread(*command, cwd):
    """The exit code and the errors of a command whose output nobody reads."""
    reading, writing = os.pipe()
    started = subprocess.Popen(
        [sys.executable, "-m", "etcompile", *command],
        cwd=cwd,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    os.close(reading)
    _, errors = started.communicate(timeout=60)
    return started.returncode, errors


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("render", "jobs"), 0),
        (("check", "jobs"), 0),
        (("render", "jobs", "--check", "-d", "out"), 1),
        (("diff", "jobs", "--against", "other"), 1),
        (("kinds",), 0),
        (("schema", "TrainingJob"), 0),
        (("explain", "--all"), 0),
        (("render", "nothing"), 2),
        (("--help",), 0),
    ],
)
def test_the_exit_code_does_not_depend_on_whether_anybody_reads(tmp_path, command, code):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "jobs" / "job.yaml").write_text(yaml.safe_dump(training_job(replicas=200)))
    actual, errors = unread(*command, cwd=tmp_path)
    assert actual == code, errors
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors
    assert "roken pipe" not in errors
