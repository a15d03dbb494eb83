"""`--help`, and what the command line says of a word that it does not know."""

import click
import pytest
from click.testing import CliRunner

from etcompile.cli.command_line import OTHER, SectionedCommand, section_of
from etcompile.cli.main import program


def commands(group: click.Group, *names: str) -> list[tuple[str, ...]]:
    paths = []
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        paths.append((*names, name))
        if isinstance(command, click.Group):
            paths += commands(command, *names, name)
    return paths


COMMANDS = commands(program)


def command(*names: str) -> click.Command:
    current: click.Command = program
    for name in names:
        assert isinstance(current, click.Group)
        current = current.get_command(click.Context(current), name)
    return current


def said(*words: str) -> str:
    done = CliRunner().invoke(program, words)
    assert done.exit_code == 2, done.output
    return done.stderr


@pytest.mark.parametrize("names", COMMANDS, ids="-".join)
def test_every_option_is_explained_in_a_sentence(names: tuple[str, ...]):
    for param in command(*names).params:
        if isinstance(param, click.Option):
            assert param.help, f"{names}: {param.name}"
            assert param.help[0].isupper() or param.help[0] in "-'" or "schedulerName" in param.help
            assert param.help.rstrip("]")[-1] in ".T" or "[default:" in param.help


COMPILE = {"check", "render", "diff", "apply", "krm", "lsp", "generate"}


@pytest.mark.parametrize(
    "names", [n for n in COMMANDS if n[-1] in COMPILE or n == ("scale",)], ids="-".join
)
def test_many_options_are_in_sections(names: tuple[str, ...]):
    chosen = command(*names)
    assert isinstance(chosen, SectionedCommand)
    seen = [p for p in chosen.params if not getattr(p, "hidden", False)]
    others = [p.name for p in seen if section_of(p) == OTHER]
    assert [name for name in others if name not in ("paths", "job")] == []
    shown = CliRunner().invoke(program, [*names, "--help"]).output
    assert "\nConfiguration:\n" in shown
    for param in chosen.params:
        if isinstance(param, click.Option) and not param.hidden:
            assert shown.count(f"\n  {param.get_help_record(click.Context(chosen))[0]}  ") <= 1


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["rendr", "x"], "'render'"),
        (["chek"], "'check'"),
        (["argocd", "genrate"], "'generate'"),
        (["flux", "kustomisation"], "'kustomization'"),
        (["render", "--overlai", "dev", "x"], "--overlay"),
        (["render", "--config", "secret=sealled:cert.pem", "x"], "sealed"),
        (["explain", "ET20444"], "'ET2044'"),
        (["explain", "mutable-imag"], "'mutable-image'"),
        (["schema", "trainigjob"], "'TrainingJob'"),
        (["schema", "diagnostic"], "'diagnostics'"),
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
    done = CliRunner().invoke(program, ["check", str(job)])
    rendered = CliRunner().invoke(program, ["render", str(job)]).stdout
    objects = rendered.count("\nkind: ")
    assert done.stderr == f"ok: 1 job, {objects} objects\n"
    job.write_text(job.read_text().replace("a:1", "a:latest"))
    done = CliRunner().invoke(program, ["check", str(job), "--ignore", "ET2040"])
    assert done.stderr == f"ok: 1 job, {objects} objects (1 warning ignored)\n"


FLAGS = {
    "-f": {"--follow"},
    "-o": {"--output"},
    "-d": {"--output-dir"},
    "-n": {"--namespace"},
    "-A": {"--all-namespaces"},
    "-l": {"--selector"},
    "-q": {"--quiet"},
    "-v": {"--verbose"},
    "-w": {"--watch"},
    "-y": {"--yes"},
    "-c": {"--container"},
}


@pytest.mark.parametrize("names", [(), *COMMANDS], ids="-".join)
def test_help_has_a_short_and_a_long_flag(names: tuple[str, ...]):
    short, long = (CliRunner().invoke(program, [*names, flag]) for flag in ("-h", "--help"))
    assert (short.exit_code, long.exit_code) == (0, 0)
    assert short.output == long.output
    assert "-h, --help" in short.output


@pytest.mark.parametrize("names", COMMANDS, ids="-".join)
def test_a_short_flag_means_the_same_everywhere(names: tuple[str, ...]):
    for param in command(*names).params:
        for short in [word for word in param.opts if len(word) == 2 and word[0] == "-"]:
            assert FLAGS[short] & {*param.opts}, f"{names}: {param.opts}"


def test_help_begins_with_what_is_the_product():
    shown = CliRunner().invoke(program, ["--help"]).output
    first = shown.partition("Commands:\n")[2].partition("\n\n")[0]
    product = ["check", "render", "diff", "apply", "status", "why", "scale", "watch"]
    assert [line.split()[0] for line in first.splitlines() if line[2] != " "] == product


def test_render_prints_names_and_json_as_kubectl_does(tmp_path):
    import json

    example = "examples/trainingjob/elastic-mnist/job.yaml"
    names = CliRunner().invoke(program, ["render", example, "-o", "name"]).stdout.splitlines()
    listed = json.loads(CliRunner().invoke(program, ["render", example, "-o", "json"]).stdout)
    assert listed["kind"] == "List"
    assert [item["kind"].lower() for item in listed["items"]] == [n.split("/")[0] for n in names]
    assert "pod/elastic-mnist-worker-0" in names
    words = ["render", example, "-o", "json", "-d", str(tmp_path / "out")]
    both = CliRunner().invoke(program, words)
    assert both.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_a_dry_run_takes_no_word_that_follows(tmp_path):
    example = "examples/trainingjob/elastic-mnist/job.yaml"
    words = ["apply", "--dry-run", example, "--kubeconfig", str(tmp_path / "none")]
    assert CliRunner().invoke(program, words).exit_code == 6  # it goes on to the cluster
    assert "'server'" in said("apply", "--dry-run=sever", example)


@pytest.mark.parametrize("names", COMMANDS, ids="-".join)
def test_a_command_takes_only_what_changes_from_call_to_call(names: tuple[str, ...]):
    shown = [p for p in command(*names).params if isinstance(p, click.Option) and not p.hidden]
    assert len(shown) <= 18, [param.name for param in shown]


def test_a_setting_is_changed_for_one_call():
    example = "examples/trainingjob/elastic-mnist/job.yaml"
    shown = CliRunner().invoke(program, ["graph", example, "--config", "gang=volcano"])
    assert "PodGroup elastic-mnist" in shown.stdout
    flag, config = (
        CliRunner().invoke(program, ["render", example, *words]).stdout
        for words in (["--run", "two"], ["--config", "run=two"])
    )
    assert flag == config
    assert "Did you mean 'gang'?" in said("graph", example, "--config", "gag=volcano")
    assert "'volcano'" in said("graph", example, "--config", "gang=volcno")
    assert "--gang is a setting" in said("graph", example, "--gang", "volcano")
