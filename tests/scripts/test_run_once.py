"""run-once.sh, in front of the launcher's command."""

import os

import pytest


@pytest.fixture
def guarded(shell, script, run, place):
    """`guarded(done=TEXT, spec_hash=TEXT, *COMMAND)`: a run behind the guard; None: no file."""

    def guarded(*command, done=None, spec_hash="0f3a9c", **options):
        for name, text in (("done", done), ("spec-hash", spec_hash)):
            if text is not None:
                (place / name).write_text(text)
        marker = {"status_done": f"{place}/done", "spec_hash_file": f"{place}/spec-hash"}
        return run(*shell, script("run-once.sh", **marker), *command, **options)

    return guarded


@pytest.mark.parametrize("done", [None, "", "\n", "another", "0f3a9c1", "0f3a"])
def test_a_run_that_is_not_done_runs(guarded, done):
    result = guarded("echo", "trains", done=done)
    assert (result.returncode, result.stdout, result.stderr) == (0, "trains\n", "")


@pytest.mark.parametrize("done", ["0f3a9c", "0f3a9c\n"])
def test_a_done_run_does_not_run_again_and_says_so(guarded, done):
    result = guarded("echo", "trains", done=done)
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr == "etcompile: run 0f3a9c is done, not running it again\n"


@pytest.mark.parametrize("spec_hash", [None, "", "\n"])
def test_a_pod_without_a_hash_is_never_done(guarded, spec_hash):
    assert guarded("echo", "trains", done="\n", spec_hash=spec_hash).stdout == "trains\n"


def test_arguments_and_exit_code_pass_unchanged(guarded):
    result = guarded("sh", "-c", 'printf "<%s>" "$@"; exit 42', "sh", "a b", "*", "", "$HOME")
    assert (result.returncode, result.stdout) == (42, "<a b><*><><$HOME>")


def test_variables_of_the_user_reach_the_command_as_they_are(guarded):
    mine = dict.fromkeys(("own_hash", "done_hash", "child", "nap", "told", "code"), "mine")
    result = guarded("env", "-0", done="another", env={**os.environ, **mine})
    theirs = dict(entry.split("=", 1) for entry in result.stdout.split("\0") if entry)
    assert {name: theirs[name] for name in mine} == mine


def test_the_command_takes_the_place_of_the_guard(guarded):
    # So that signals reach it.
    result = guarded("sh", "-c", "tr '\\0' ' ' < /proc/$$/cmdline")
    assert result.stdout.startswith("sh -c tr")
