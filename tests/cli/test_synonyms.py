"""Words and flags that users of kubectl, Helm and Terraform try first."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from cli.test_help import COMMANDS, command
from etcompile import __version__
from etcompile.cli.command_line import Paths
from etcompile.cli.main import _SYNONYMS, program

JOB = """\
apiVersion: kai.alibabacloud.com/v1alpha1
kind: TrainingJob
metadata: {name: bert}
spec:
  etReplicaSpecs:
    launcher:
      template:
        spec: {containers: [{name: main, image: "bert:1", command: [horovodrun, -np, "2", train]}]}
    worker:
      replicas: 2
      maxReplicas: 8
      template: {spec: {containers: [{name: main, image: "bert:1"}]}}
"""


def run(*words: object) -> Result:
    return CliRunner().invoke(program, [*map(str, words)])


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "bert.yaml"
    file.write_text(JOB)
    return file


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("compile template build", "render"),
        ("plan", "diff"),
        ("lint validate", "check"),
        ("describe get ls list", "status"),
        ("destroy rm uninstall", "delete"),
        ("create install deploy", "apply"),
        ("version", "--version"),
    ],
)
def test_word_of_another_program_names_the_command(words: str, meant: str) -> None:
    for word in words.split():
        done = run(word, "jobs/")
        assert done.exit_code == 2
        assert f"No such command '{word}'. Did you mean '{meant}'?" in done.stderr


def test_synonyms_are_no_commands_and_name_one() -> None:
    commands = program.list_commands(click.Context(program))
    words = [word for several in _SYNONYMS.values() for word in several.split()]
    assert len(words) == len({*words})
    assert not {*words} & {*commands}
    assert {*_SYNONYMS} <= {*commands, "--version"}


@pytest.mark.parametrize("names", [(), ("render",), ("argocd", "generate")], ids="-".join)
def test_help_command_prints_what_the_option_does(names: tuple[str, ...]) -> None:
    assert run("help", *names).output == run(*names, "--help").output
    assert run("help", *names).exit_code == 0


def test_help_of_an_unknown_command_is_refused() -> None:
    assert "Did you mean 'render'?" in run("help", "rendr").stderr


def test_capital_v_prints_the_version() -> None:
    assert run("-V").output == run("--version").output
    assert __version__ in run("-V").output


PATHS = [
    names
    for names in COMMANDS
    if any(param.metavar in ("PATH...", "[PATH...]") for param in command(*names).params)
]


@pytest.mark.parametrize("names", PATHS, ids="-".join)
def test_filename_option_names_a_path(names: tuple[str, ...], job: Path) -> None:
    chosen = command(*names)
    one_job = ["bert"] if any(param.name == "job" for param in chosen.params) else []

    def paths(*words: str) -> tuple[str, ...]:
        with chosen.make_context(names[-1], [*one_job, *words]) as ctx:
            return ctx.params["paths"]

    assert any(isinstance(param, Paths) for param in chosen.params)
    for words in (
        ("bert.yaml", "."),
        ("-f", "bert.yaml", "-f", "."),
        ("-fbert.yaml", "."),
        ("--filename=bert.yaml", "--filename", "."),
    ):
        assert paths(*words) == ("bert.yaml", ".")


def test_check_of_dash_reads_standard_input() -> None:
    done = CliRunner().invoke(program, ["check", "-f", "-"], input=JOB)
    assert done.exit_code == 0, done.output
    assert "ok: 1 job" in done.stderr


def test_file_as_format_of_render_says_how_to_write_it(job: Path) -> None:
    done = run("render", job, "-o", "out.yaml")
    assert done.exit_code == 2
    assert "use > out.yaml, or -d DIR" in done.stderr
    assert "one of 'yaml', 'json', 'name'" in run("render", job, "-o", "xml").stderr


@pytest.mark.parametrize("word", ["bert", "trainingjob/bert", "pods/bert-worker-0", "TFJob/bert"])
def test_delete_of_a_name_says_how_to_name_a_job(word: str, job: Path) -> None:
    done = run("delete", word)
    assert done.exit_code == 2
    assert f"to delete the job, use --job {word}" in done.stderr


@pytest.mark.parametrize("word", ["jobs/bert", "bert.yml", "*.yaml", "bert/", "-f"])
def test_delete_of_a_path_does_not_speak_of_names(word: str, job: Path) -> None:
    assert "--job" not in run("delete", word, "nothing.yaml").stderr


def test_scale_takes_the_option_of_kubectl(job: Path) -> None:
    written = [run("scale", "bert", flag, 3, "--dry-run").stdout for flag in ("--to", "--replicas")]
    assert "count: 1" in written[0]
    assert written[0] == written[1]
