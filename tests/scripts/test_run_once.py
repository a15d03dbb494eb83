"""run-once.sh, in front of the launcher's command."""

import os

import pytest


@pytest.fixture
def guarded(shell, script, run, place):
    """`guarded(done=TEXT, own=TEXT, *COMMAND)`: a run behind the guard; None: no file."""

    def guarded(*command, done=None, own="0f3a9c", **options):
        for name, text in (("done", done), ("spec-hash", own)):
            if text is not None:
                (place / name).write_text(text)
        marker = {"status_done": f"{place}/done", "spec_hash_file": f"{place}/spec-hash"}
        return run(*shell, script("run-once.sh", **marker), *command, **options)

    return guarded


@pytest.mark.parametrize("done", [None, "", "\n", "another", "0f3a9c1", "0f3a"])
def test_a_run_that_is_not_done_runs(guarded, done):
    found = guarded("echo", "trains", done=done)
    assert (found.returncode, found.stdout, found.stderr) == (0, "trains\n", "")


@pytest.mark.parametrize("done", ["0f3a9c", "0f3a9c\n"])
def test_a_done_run_does_not_run_again_and_says_so(guarded, done):
    found = guarded("echo", "trains", done=done)
    assert (found.returncode, found.stdout) == (0, "")
    assert found.stderr == "etcompile: run 0f3a9c is done, not running it again\n"


@pytest.mark.parametrize("own", [None, "", "\n"])
def test_a_pod_without_a_hash_is_never_done(guarded, own):
    assert guarded("echo", "trains", done="\n", own=own).stdout == "trains\n"


def test_arguments_and_exit_code_pass_unchanged(guarded):
    found = guarded("sh", "-c", 'printf "<%s>" "$@"; exit 42', "sh", "a b", "*", "", "$HOME")
    assert (found.returncode, found.stdout) == (42, "<a b><*><><$HOME>")


def test_variables_of_the_user_reach_the_command_as_they_are(guarded):
    mine = dict.fromkeys(("own_hash", "done_hash", "child", "nap", "told", "code"), "mine")
    found = guarded("env", "-0", done="another", env={**os.environ, **mine})
    theirs = dict(entry.split("=", 1) for entry in found.stdout.split("\0") if entry)
    assert {name: theirs[name] for name in mine} == mine


def test_the_command_takes_the_place_of_the_guard(guarded):
    # So that signals reach it.
    found = guarded("sh", "-c", "tr '\\0' ' ' < /proc/$$/cmdline")
    assert found.stdout.startswith("sh -c tr")
