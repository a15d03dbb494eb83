"""An option that is to go still works, and says so: an option of no release, added for the test."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from etcompile import __version__
from etcompile.cli.check import command as check
from etcompile.cli.deprecated import DeprecatedOption, note
from etcompile.cli.main import _etcompile
from etcompile.cli.options import TalkOptions, talk_options

EXAMPLE = Path(__file__).parents[2] / "examples/pytorchjob/torchrun/job.yaml"
TOLD = "warning[ET5030]: --old-name is deprecated since etcompile 0.2.0 and goes with 0.4.0"


def old_name() -> click.Option:
    # `check` has no field for it: it is given to nobody.
    return DeprecatedOption(
        ["--old-name"],
        since="0.2.0",
        gone="0.4.0",
        instead="use --new-name",
        help="Do it.",
        expose_value=False,
    )


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A job in a repository, and `check` with an option that is to go."""
    monkeypatch.setattr(check, "params", [*check.params, old_name()])
    (tmp_path / ".git").mkdir()
    (tmp_path / "job.yaml").write_text(EXAMPLE.read_text("utf-8"), "utf-8")
    monkeypatch.chdir(tmp_path)
    return "job.yaml"


def run(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(_etcompile, ["check", *words])
    return done.exit_code, done.stdout, done.stderr


def test_who_does_not_use_it_hears_nothing(job: str) -> None:
    code, _, said = run(job)
    assert code == 0
    assert "ET5030" not in said


def test_who_uses_it_is_told_once_what_to_use_instead(job: str) -> None:
    code, _, said = run(job, "--old-name", "x")
    assert code == 0
    assert said.count(TOLD) == 1
    assert "use --new-name" in said


def test_help_says_that_it_is_deprecated(job: str) -> None:
    _, shown, _ = run("--help")
    assert "Deprecated since 0.2.0: use --new-name." in " ".join(shown.split())


def test_scripts_get_it_in_their_one_document(job: str) -> None:
    _, shown, said = run(job, "--old-name", "x", "--output-format", "json")
    [finding] = json.loads(shown)["diagnostics"]
    assert (finding["code"], finding["severity"]) == ("ET5030", "warning")
    assert said == ""


def test_it_can_be_ignored_and_counts_under_strict(job: str) -> None:
    code, _, said = run(job, "--old-name", "x", "--ignore", "ET5030", "--strict")
    assert (code, "ET5030" in said) == (0, False)
    assert run(job, "--old-name", "x", "--strict")[0] == 2


def test_a_configuration_file_that_uses_it_is_named(job: str) -> None:
    Path("etcompile.toml").write_text('quiet = false\nold-name = "x"\n')
    code, shown, _ = run(job, "--output-format", "json")
    [finding] = json.loads(shown)["diagnostics"]
    assert code == 0
    assert (finding["code"], finding["file"], finding["line"]) == ("ET5030", "etcompile.toml", 2)


def test_a_command_that_has_nothing_to_say_tells_it_at_its_end() -> None:
    @click.command
    @talk_options
    @click.pass_context
    def quiet(ctx: click.Context, **params: object) -> None:
        assert set(params) == {*TalkOptions.__struct_fields__} - {"strict"}

    @click.command
    @click.pass_context
    def without_options(ctx: click.Context) -> None:
        note(ctx, "etcompile without-options", "0.2.0", "0.4.0", "use etcompile kinds")
        click.echo("done")

    quiet.params.append(old_name())
    assert TOLD in CliRunner().invoke(quiet, ["--old-name", "x"]).stderr
    assert CliRunner().invoke(quiet, []).stderr == ""
    done = CliRunner().invoke(without_options, [])
    assert done.stdout == "done\n"
    assert "etcompile without-options is deprecated" in done.stderr


def minor(version: str) -> tuple[int, int]:
    first, second = version.split(".")[:2]
    return int(first), int(second)


def deprecated_options(command: click.Command, name: str) -> list[tuple[str, DeprecatedOption]]:
    found = [(name, one) for one in command.params if isinstance(one, DeprecatedOption)]
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for inner in command.list_commands(ctx):
            below = command.get_command(ctx, inner)
            assert below is not None
            found += deprecated_options(below, f"{name} {inner}")
    return found


def test_what_is_deprecated_stays_as_long_as_is_promised() -> None:
    """docs/stability.md: the rest of the version that deprecates it, and the whole of the next."""
    for name, option in deprecated_options(_etcompile, "etcompile"):
        since, gone = minor(option.since), minor(option.gone)
        assert gone[0] > since[0] or gone[1] >= since[1] + 2, f"{name} {option.opts}"
        assert minor(__version__) < gone, f"{name} {option.opts} was to be gone by now"
