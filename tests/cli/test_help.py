"""`--help`, and what the command line says of a word that it does not know."""

import click
import pytest
from click.testing import CliRunner

from etcompile.cli.main import _etcompile
from etcompile.cli.sections import OTHER, SectionedCommand, section_of

ROOT = _etcompile


def commands(group: click.Group, *names: str) -> list[tuple[str, ...]]:
    """The words that name each command, of groups inside the group too."""
    found = []
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        found.append((*names, name))
        if isinstance(command, click.Group):
            found += commands(command, *names, name)
    return found


COMMANDS = commands(ROOT)


def command(*names: str) -> click.Command:
    found: click.Command = ROOT
    for name in names:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), name)
    return found


def said(*words: str) -> str:
    done = CliRunner().invoke(ROOT, words)
    assert done.exit_code == 2, done.output
    return done.stderr


@pytest.mark.parametrize("names", COMMANDS, ids="-".join)
def test_every_option_is_explained_in_a_sentence(names: tuple[str, ...]):
    for param in command(*names).params:
        if isinstance(param, click.Option):
            assert param.help, f"{names}: {param.name}"
            assert param.help[0].isupper() or param.help[0] in "-'" or "schedulerName" in param.help
            assert param.help.rstrip("]")[-1] in ".T" or "[default:" in param.help


@pytest.mark.parametrize(
    "names", [n for n in COMMANDS if len(command(*n).params) > 20], ids="-".join
)
def test_many_options_are_in_sections(names: tuple[str, ...]):
    found = command(*names)
    assert isinstance(found, SectionedCommand)
    others = [p.name for p in found.params if section_of(p) == OTHER]
    assert [name for name in others if name not in ("paths", "job")] == []
    shown = CliRunner().invoke(ROOT, [*names, "--help"]).output
    assert "\nKubernetes:\n" in shown
    for param in found.params:
        if isinstance(param, click.Option):
            assert shown.count(f"\n  {param.get_help_record(click.Context(found))[0]}  ") <= 1


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["rendr", "x"], "'render'"),
        (["chek"], "'check'"),
        (["argocd", "genrate"], "'generate'"),
        (["flux", "kustomisation"], "'kustomization'"),
        (["render", "--gag", "volcano", "x"], "'--gang'"),
        (["render", "--gang", "volcno", "x"], "'volcano'"),
        (["render", "--profile", "argcd", "x"], "'argocd'"),
        (["render", "--secret", "sealled:cert.pem", "x"], "sealed"),
        (["render", "--services", "share", "x"], "'shared'"),
        (["check", "--output-format", "sariff", "x"], "'sarif'"),
        (["apply", "--wait", "redy", "x"], "'ready'"),
        (["explain", "ET20444"], "'ET2044'"),
        (["explain", "mutable-imag"], "'mutable-image'"),
        (["schema", "trainigjob"], "'TrainingJob'"),
        (["schema", "diagnostic"], "'diagnostics'"),
        (["completion", "bsh"], "'bash'"),
        (["render", "--overlay", "prd", "x"], "prod?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_nearest_word_is_named(words: list[str], meant: str):
    text = said(*words)
    assert "did you mean" in text.lower()
    assert meant in text


def test_no_word_is_named_where_none_is_near():
    text = said("frobnicate")
    assert "No such command 'frobnicate'." in text
    assert "Did you mean" not in text


def test_a_clean_check_counts_what_it_checked(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a, namespace: ml}\nspec:\n"
        "  pytorchReplicaSpecs:\n    Worker:\n      template:\n        spec:\n"
        "          containers: [{name: pytorch, image: 'a:1', command: [train]}]\n"
    )
    done = CliRunner().invoke(ROOT, ["check", str(job)])
    rendered = CliRunner().invoke(ROOT, ["render", str(job)]).stdout
    objects = rendered.count("\nkind: ")
    assert done.stderr == f"ok: 1 job, {objects} objects\n"
    job.write_text(job.read_text().replace("a:1", "a:latest"))
    done = CliRunner().invoke(ROOT, ["check", str(job), "--ignore", "ET2040"])
    assert done.stderr == f"ok: 1 job, {objects} objects (1 warning ignored)\n"
