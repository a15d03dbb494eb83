"""The configuration file of a repository: where it is found, what it may hold, and who wins."""

import json
import shutil
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import yaml
from click.testing import CliRunner

import etcompile as package
from commandline import etcompile
from etcompile import data
from etcompile.cli import argocd, krm
from etcompile.compiler.configured import ENVIRONMENTS, ConfigurationError, SettingError
from etcompile.data import setting_schemas
from specs import overlay

EXAMPLE = Path(__file__).parents[2] / "examples/pytorchjob/torchrun/job.yaml"
VOLCANO = "scheduling.volcano.sh"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a job in `team/jobs`; the working directory is its root."""
    root = tmp_path / "repository"
    (root / ".git").mkdir(parents=True)
    (root / "team/jobs").mkdir(parents=True)
    job = yaml.safe_load(EXAMPLE.read_text())
    job["metadata"].pop("namespace", None)
    (root / "team/jobs/job.yaml").write_text(yaml.safe_dump(job, sort_keys=False))
    monkeypatch.chdir(root)
    return root


def said(root: Path, text: str, name: str = "etcompile.toml") -> Path:
    file = root / name
    file.write_text(text)
    return file


def problems(*words: object) -> list[tuple[str, str]]:
    done = etcompile("check", "team/jobs", "--output-format", "json", *words, code=2)
    diagnostics = json.loads(done.stdout)["diagnostics"]
    return [
        (one["code"], f"{one['file']}:{one['line']}:{one['column']}")
        for one in diagnostics
        if one["severity"] == "error"
    ]


def shown(*words: object) -> dict[str, Any]:
    done = etcompile("config", "-o", "json", *words, code=0)
    return json.loads(done.stdout)


def rendered(*words: object) -> str:
    done = etcompile("render", "team/jobs", *words, code=0)
    return done.stdout


# ---- finding it ----------------------------------------------------------------------------------


def test_the_nearest_file_counts(tree):
    said(tree, 'gang = "kueue"\n')
    said(tree / "team", 'gang = "volcano"\n')
    assert VOLCANO in rendered()


def test_a_table_of_pyproject_is_one_and_another_pyproject_is_none(tree):
    said(tree, '[tool.etcompile]\ngang = "volcano"\n', "pyproject.toml")
    said(tree / "team", '[project]\nname = "etcompile-jobs"\n', "pyproject.toml")
    assert VOLCANO in rendered()
    assert shown("team/jobs")["settings"]["gang"]["from"] == "pyproject.toml:2:1"


def test_pyproject_is_ignored_if_there_is_an_etcompile_toml(tree):
    said(tree, '[tool.etcompile]\ngang = "volcano"\n', "pyproject.toml")
    said(tree, "")
    assert VOLCANO not in rendered()


def test_nothing_above_the_repository_is_read(tree):
    said(tree.parent, "this is no TOML")
    assert VOLCANO not in rendered()


def test_without_a_repository_only_the_folder_of_the_input_is_looked_at(tree, monkeypatch):
    shutil.rmtree(tree / ".git")
    said(tree, 'gang = "volcano"\n')
    monkeypatch.chdir(tree / "team/jobs")
    assert etcompile("config", ".").stdout.startswith("# configuration file: none")
    monkeypatch.chdir(tree)
    assert VOLCANO in rendered()


def test_a_link_out_of_the_repository_is_refused(tree):
    said(tree.parent, 'gang = "volcano"\n', "outside.toml")
    (tree / "etcompile.toml").symlink_to(tree.parent / "outside.toml")
    assert [code for code, _ in problems()] == ["ET1050"]


def test_a_file_in_a_folder_below_is_nothing_to_a_command_without_inputs(tree):
    said(tree, 'gang = "volcano"\n')
    said(tree / "team/jobs", 'gang = "none"\n')
    items = '{"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": []}'
    done = etcompile("krm", stdin=items)
    assert (done.returncode, done.stderr) == (0, "")


def test_inputs_with_different_files_are_refused(tree):
    said(tree, "")
    said(tree / "team", "")
    shutil.copytree(tree / "team/jobs", tree / "more")
    done = etcompile("render", "team/jobs", "more", code=2)
    assert "ET1054" in done.stderr
    assert "etcompile.toml, and" in done.stderr or "and etcompile.toml" in done.stderr


@pytest.mark.parametrize("path", [".", "team", "team/*/*.yaml"])
def test_a_folder_with_another_file_below_it_is_refused(path, tree):
    """Its settings would not hold, and nobody would be told."""
    said(tree, 'gang = "volcano"\n')
    below = said(tree / "team/jobs", 'gang = "none"\n')
    shutil.copytree(tree / "team/jobs", tree / "team/more")
    (tree / "team/more/etcompile.toml").unlink()
    done = etcompile("render", path, code=2)
    assert "ET1054" in done.stderr
    assert str(below.relative_to(tree)) in done.stderr
    assert "ET1054" not in etcompile("render", path, "--config", "none").stderr
    below.rename(below.with_name("pyproject.toml"))
    assert "ET1054" not in etcompile("render", path).stderr


def test_a_hidden_folder_below_has_no_say(tree):
    said(tree, 'gang = "volcano"\n')
    (tree / "team/.venv").mkdir()
    said(tree / "team/.venv", 'gang = "none"\n')
    assert VOLCANO in rendered()
    assert "ET1054" not in etcompile("render", "team").stderr


def test_a_file_can_be_named_and_left_out(tree):
    said(tree, 'gang = "volcano"\n')
    other = said(tree, 'gang = "none"\n', "other.toml")
    assert VOLCANO not in rendered("--config", other)
    assert VOLCANO not in rendered("--config", "none")
    done = etcompile("render", "team/jobs", "--config", "missing.toml", code=2)
    assert "there is no such file" in done.stderr
    done = etcompile("render", "team/jobs", "--config", "", code=2)
    assert "ET1050" in done.stderr


# ---- who wins ------------------------------------------------------------------------------------


def test_a_file_cannot_be_named_and_left_out_at_once(tree):
    said(tree, 'gang = "volcano"\n')
    words = ("--config", "etcompile.toml", "--config", "none")
    done = etcompile("render", "team/jobs", *words, code=2)
    assert "--config names one file" in done.stderr


def test_a_list_of_the_command_line_may_be_repeated(tree):
    said(tree, 'profile = ["argocd"]\n')
    words = (("profile=flux,kapp",), ("profile=flux", "profile=kapp"))
    once, twice = (rendered(*(f"--config={word}" for word in each)) for each in words)
    assert once == twice
    assert "argocd.argoproj.io" not in once
    assert "kapp.k14s.io" in once


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "marked"])
def test_a_file_may_be_saved_as_windows_does(tree, mark, newline):
    text = f'{mark}gang = "volcano"\n[environments.dev]\ngang = "none"\n'
    (tree / "etcompile.toml").write_text(text, "utf-8", newline=newline)
    assert VOLCANO in rendered()
    assert VOLCANO not in rendered("--environment", "dev")
    (tree / "etcompile.toml").write_text(f'{mark}gnag = "volcano"\n', "utf-8", newline=newline)
    assert problems() == [("ET1051", "etcompile.toml:1:1")]


def test_a_list_of_the_command_line_replaces_that_of_the_file(tree):
    said(tree, 'ignore = ["ET2040"]\n')
    job = tree / "team/jobs/job.yaml"
    text = yaml.safe_load(job.read_text())
    for role in text["spec"]["pytorchReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["image"] = "a:latest"
    job.write_text(yaml.safe_dump(text))
    assert "ET2040" not in etcompile("check", "team/jobs").stderr
    assert "ET2040" in etcompile("check", "team/jobs", "--ignore", "ET2044").stderr


def test_the_command_line_wins_and_then_an_overlay(tree):
    said(tree, 'gang = "volcano"\nservices = "shared"\n')
    (tree / "over.yaml").write_text(yaml.safe_dump(overlay(settings={"gang": "none"})))
    assert VOLCANO not in rendered("--config", "gang=none")
    assert VOLCANO not in rendered("--overlay", "over.yaml")
    assert VOLCANO in rendered("--overlay", "over.yaml", "--config", "gang=volcano")


def test_an_environment_counts_before_the_rest(tree):
    said(tree, 'gang = "volcano"\nprofile = ["flux"]\n[environments.dev]\ngang = "none"\n')
    assert VOLCANO in rendered()
    assert VOLCANO not in rendered("--environment", "dev")
    settings = shown("--environment", "dev")["settings"]
    assert settings["gang"] == {"value": "none", "from": "etcompile.toml:4:1"}
    assert settings["profile"] == {"value": ["flux"], "from": "etcompile.toml:2:1"}
    assert settings["services"] == {"value": "per-replica", "from": "default"}


def test_an_environment_that_is_not_there_is_an_error(tree):
    done = etcompile("render", "team/jobs", "--environment", "prod", code=2)
    assert "ET1053" in done.stderr
    said(tree, "[environments.production]\n")
    done = etcompile("render", "team/jobs", "--environment", "prod")
    assert "it has production" in done.stderr


def test_paths_are_seen_from_the_file(tree, monkeypatch):
    labels = [{"pairs": {"team": "research"}}]
    (tree / "team/over.yaml").write_text(yaml.safe_dump(overlay(labels=labels)))
    said(tree / "team", 'overlay = ["over.yaml", "prod"]\n')
    first = rendered()
    assert "team: research" in first
    monkeypatch.chdir(tree / "team/jobs")
    assert etcompile("render", ".").stdout == first


@pytest.mark.parametrize("words", [("-d", "out"), ("-d", "out", "--check"), ()])
def test_a_layout_does_not_ask_for_a_folder(tree, words):
    said(tree, 'layout = "staged"\nsplit = true\n')
    assert etcompile("render", "team/jobs", *words).returncode in (0, 1)


# ---- what is wrong with it -----------------------------------------------------------------------


def test_every_configuration_fault_is_reported_with_its_location(tree):
    said(
        tree,
        "# the team's\n"
        "kubernetes-version = 1.30\n"
        'gang-schedular = "x"\n'
        "overlay = [\n"
        '  "prod",\n'
        '  "../../elsewhere.yaml",  # not ours\n'
        "]\n"
        'ignore = ["ET2040", "ET2003"]\n'
        "force = true\n"
        'profile = "flux"\n'
        "[environments.prod]\n"
        'namespace = "Bad_NS"\n'
        "strict = 1\n",
    )
    assert problems() == [
        ("ET1052", "etcompile.toml:2:1"),
        ("ET1051", "etcompile.toml:3:1"),
        ("ET1052", "etcompile.toml:6:3"),
        ("ET1052", "etcompile.toml:8:21"),
        ("ET1051", "etcompile.toml:9:1"),
        ("ET1052", "etcompile.toml:10:1"),
        ("ET1052", "etcompile.toml:12:1"),
        ("ET1052", "etcompile.toml:13:1"),
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("gang = volcano\n", "etcompile.toml:1:8"),
        ('a = 1\n[environments\ngang = "x"\n', "etcompile.toml:2:14"),
        ('gang = """never ended\n', "etcompile.toml:1:22"),
    ],
)
def test_invalid_toml_is_reported_with_its_location(tree, text, place):
    said(tree, text)
    (problem,) = problems()
    assert problem == ("ET1050", place)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 100_000, b"a = " + b"[" * 5_000])
def test_no_file_ends_in_a_traceback(tree, content):
    (tree / "etcompile.toml").write_bytes(content)
    done = etcompile("render", "team/jobs", code=2)
    assert "ET1050" in done.stderr
    assert "internal error" not in done.stderr


EACH_TIME = {
    *("output-dir", "output", "check", "against", "force", "replace"),
    *("fix", "unsafe-fixes", "diff"),
    *("environment", "config", "beside"),
}


def test_all_options_of_render_and_check_are_settings_or_named(tree):
    from etcompile.cli import check, render

    params = (*render.command.params, *check.command.params)
    names = {
        max(one.opts, key=len).removeprefix("--") for one in params if isinstance(one, click.Option)
    }
    assert names - set(setting_schemas()) == set(EACH_TIME)


# ---- other doors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["check", "graph", "scale all-reduce --to 3"])
def test_every_command_that_compiles_reads_it(tree, command):
    said(tree, 'gang = "wrong"\n')
    done = etcompile(*command.split(), "team/jobs", code=2)
    assert "etcompile.toml:1:1" in done.stderr


def test_configured_options_reads_the_configuration_file(tree):
    said(tree, 'gang = "volcano"\n[environments.dev]\ngang = "none"\n')
    assert package.configured_options("team/jobs").settings.gang == "volcano"
    options = package.configured_options("team/jobs", environment="dev", namespace="ml")
    assert (options.settings.gang, options.namespace) == ("none", "ml")
    assert options.explicit == {"namespace"}
    with pytest.raises(SettingError, match="is not one of"):
        package.configured_options("team/jobs", gang="volcanoo")
    with pytest.raises(TypeError, match="no setting 'gnag'"):
        package.configured_options("team/jobs", gnag="volcano")
    said(tree, "gang = 1\n")
    with pytest.raises(ConfigurationError, match=r"etcompile\.toml:1:1"):
        package.configured_options("team/jobs")


@pytest.fixture
def plugin(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tree as Argo CD runs the plugin in it: in the folder of the source."""
    monkeypatch.setenv("ARGOCD_APP_SOURCE_PATH", "team")
    monkeypatch.setenv("ARGOCD_APP_NAMESPACE", "ml")
    monkeypatch.setenv("KUBE_VERSION", "v1.33.1")
    shutil.rmtree(tree / ".git")  # Argo CD leaves it out
    monkeypatch.chdir(tree / "team")
    return tree


def generated() -> Any:
    return CliRunner().invoke(argocd.command, ["generate"])


def test_argo_cds_plugin_reads_it_up_to_the_root_of_the_repository(plugin, monkeypatch):
    said(plugin, 'gang = "volcano"\nkubernetes-version = "1.30"\n[environments.x]\ngang = "none"\n')
    said(plugin.parent, "this is no TOML")
    done = generated()
    assert done.exit_code == 0, done.stderr
    assert VOLCANO in done.stdout
    parameters = [{"name": "environment", "string": "x"}]
    monkeypatch.setenv("ARGOCD_APP_PARAMETERS", json.dumps(parameters))
    assert VOLCANO not in generated().stdout


@pytest.mark.parametrize("line", ['templates = "."', "allow-plain-secrets = true"])
def test_a_program_of_somebody_else_does_not_run_what_a_repository_says(plugin, line):
    said(plugin, f"{line}\n")
    done = generated()
    assert done.exit_code == 2
    assert "whoever can write to the repository" in done.stderr
    done = CliRunner().invoke(krm.command, [], input="")
    assert done.exit_code == 2


def test_the_krm_function_reads_it(tree):
    said(tree, 'gang = "volcano"\n')
    job = yaml.safe_load((tree / "team/jobs/job.yaml").read_text())
    config = {"apiVersion": "etcompile.dev/v1alpha1", "kind": "EtcompileTransformer"}
    listed = {
        "apiVersion": "config.kubernetes.io/v1",
        "kind": "ResourceList",
        "items": [job],
        "functionConfig": {**config, "metadata": {"name": "x"}},
    }
    done = CliRunner().invoke(krm.command, [], input=yaml.safe_dump(listed))
    assert done.exit_code == 0, done.stderr
    assert VOLCANO in done.stdout


# ---- the lock file and the schema ----------------------------------------------------------------


def test_the_lock_file_knows_the_settings_and_not_their_comments(tree):
    said(tree, 'gang = "volcano"\n')
    etcompile("render", "team/jobs", "-d", "out", code=0)
    lock = json.loads((tree / "out/etcompile.lock.json").read_text())
    assert lock["configuration"] == {
        "file": "etcompile.toml",
        "sha256": shown("team/jobs")["sha256"],
    }
    said(tree, '# why\ngang  =  "volcano"\n')
    etcompile("render", "team/jobs", "-d", "out", "--check", code=0)
    said(tree, 'gang = "volcano"\nstrict = false\n')
    etcompile("render", "team/jobs", "-d", "out", "--check", code=1)


def test_without_a_file_the_lock_file_does_not_speak_of_one(tree):
    etcompile("render", "team/jobs", "-d", "out", code=0)
    assert "configuration" not in json.loads((tree / "out/etcompile.lock.json").read_text())


def test_the_schema_and_the_compiler_have_the_same_defaults():
    schema = json.loads((data.folder("schemas") / "configuration.json").read_text())
    assert set(schema["properties"]) == {*setting_schemas(), ENVIRONMENTS}
    for key, field in {key: key.replace("-", "_") for key in setting_schemas()}.items():
        if field in package.Settings.__struct_fields__:
            default = getattr(package.Settings(), field)
            assert setting_schemas()[key].get("default") == (default and str(default)), key


@pytest.mark.parametrize(
    ("value", "is_right"),
    [
        ({"gang": "volcano", "environments": {"prod": {"strict": True}}}, True),
        ({"ignore": ["ET2040"]}, True),
        ({"gang": "vulcan"}, False),
        ({"environments": {"prod": {"environments": {}}}}, False),
        ({"environments": {"prod": {"gnag": "volcano"}}}, False),
        ({"force": True}, False),
    ],
)
def test_the_schema_tells_right_from_wrong(value, is_right):
    schema = json.loads((data.folder("schemas") / "configuration.json").read_text())
    assert jsonschema.Draft202012Validator(schema).is_valid(value) is is_right


# ---- the page ------------------------------------------------------------------------------------


def test_the_page_shows_what_its_example_comes_to(tree):
    page = (Path(__file__).parents[2] / "docs/configuration.md").read_text("utf-8")
    example = page.partition("```toml\n")[2].partition("```")[0]
    console = page.partition("```console\n$ ")[2].partition("```")[0]
    command, _, wanted = console.partition("\n")
    assert command == "etcompile config jobs/ --environment dev | grep toml"
    said(tree, example)
    (tree / "jobs").mkdir()
    (tree / "platform/runtimes").mkdir(parents=True)
    done = etcompile("config", "jobs/", "--environment", "dev", code=0)
    lines = [line for line in done.stdout.splitlines() if "toml" in line]
    assert lines == wanted.splitlines()
