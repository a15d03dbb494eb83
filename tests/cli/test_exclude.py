"""`exclude` of the configuration file: what is not read of folders, as in .gitignore."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

import etcompile as package
from commandline import etcompile, git
from etcompile.load.access import Exclude
from specs import training_job

DS_CONFIG = json.dumps({"train_batch_size": 8})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a DeepSpeed configuration beside a job, and scripts with data."""
    for file, text in {
        "jobs/bert.yaml": yaml.safe_dump(training_job("bert")),
        "jobs/ds_config.json": DS_CONFIG,
        "jobs/deep/ds_config.json": DS_CONFIG,
        "scripts/data/hosts.yaml": "- a\n- b\n",
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    git(tmp_path, "init", "-q")
    return tmp_path


def exclude(folder: Path, *patterns: str) -> None:
    (folder / "etcompile.toml").write_text(f"exclude = {json.dumps(patterns)}\n")


def test_json_file_among_jobs_is_one_diagnostic_whose_hint_works(repository: Path) -> None:
    for _ in range(2):
        done = etcompile("check", ".", cwd=repository, code=2)
        files = re.findall(r"--> (\S+?):\d", done.stderr)
        assert len(files) == len(set(files))
        lines = re.findall(r"write (exclude = .*) into etcompile.toml", done.stderr)
        patterns = sorted({json.loads(line.partition(" = ")[2])[0] for line in lines})
        exclude(repository, *patterns)
        if etcompile("check", ".", cwd=repository).returncode == 0:
            break
    assert patterns == ["ds_config.json", "hosts.yaml"]


@pytest.mark.parametrize(
    "words",
    [
        ("check", "."),
        ("check", "**/*"),
        ("check", "--fix", "jobs"),
        ("check", "--beside", "jobs/bert.yaml", "jobs/ds_config.json"),
        ("render", ".", "-o", "name"),
        ("render", "jobs", "-d", "out"),
        ("graph", "."),
        ("diff", ".", "--against", "HEAD"),
        ("scale", "bert", "jobs", "--to", "3", "--dry-run"),
        ("check", "jobs", "--config", "runtimes=."),
    ],
    ids=" ".join,
)
def test_every_command_passes_over_excluded_files(repository: Path, words: tuple[str]) -> None:
    exclude(repository, "ds_config.json", "scripts/**", "matches-nothing")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "x")
    etcompile(*words, cwd=repository, code=0)


def test_patterns_are_seen_from_the_folder_of_the_file(repository: Path) -> None:
    exclude(repository, "/jobs/ds_config.json", "jobs/deep/", "scripts")
    etcompile("check", ".", cwd=repository / "jobs", code=0)
    (repository / "jobs" / "deep" / "etcompile.toml").write_text('exclude = ["/ds_config.json"]\n')
    etcompile(
        "check", ".", "--config", "allow-empty=true", cwd=repository / "jobs" / "deep", code=0
    )


def test_a_file_that_is_named_is_read_though_it_is_excluded(repository: Path) -> None:
    exclude(repository, "*.json", "*.yaml")
    assert "ok: 1 job" in etcompile("check", "jobs/bert.yaml", cwd=repository).stderr
    assert "ET1014" in etcompile("check", "jobs/ds_config.json", cwd=repository).stderr


def test_one_call_may_exclude_more(repository: Path) -> None:
    words = ("check", "--config", "exclude=ds_config.json,scripts/", ".")
    etcompile(*words, cwd=repository, code=0)


def test_a_wrong_pattern_is_refused_at_its_line(repository: Path) -> None:
    exclude(repository, "ds_config.json", "!")
    done = etcompile("check", ".", cwd=repository, code=2)
    assert "--> etcompile.toml:1:" in done.stderr
    assert "ET1052" in done.stderr


def test_a_python_program_has_the_patterns_of_the_file(repository: Path) -> None:
    exclude(repository, "ds_config.json", "scripts/**")
    assert package.compile([repository], package.configured_options(repository)).ok


def test_patterns_mean_what_they_mean_to_git(tmp_path: Path) -> None:
    names = ["a.json", "b/a.json", "b/c/a.json", "b/c.yaml", "d/b/x.yaml", "!x.yaml", "#y.yaml"]
    for patterns in [
        ["a.json"], ["/a.json"], ["b/*.json"], ["b/"], ["**/c/"], ["*.json", "!b/a.json"],
        ["\\!x.yaml", "\\#y.yaml", "# a comment", ""], ["b/**", "!b/c.yaml"],
    ]:  # fmt: skip
        subprocess.run(["git", "init", "-q", tmp_path], check=True)
        (tmp_path / ".gitignore").write_text("\n".join(patterns))
        command = ["git", "-C", tmp_path, "check-ignore", "--no-index", *names]
        listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        matching = Exclude(tuple(patterns), str(tmp_path)).matches
        ours = [name for name in names if matching(str(tmp_path / name))]
        assert ours == [line.strip('"') for line in listed.splitlines()]
