"""What the pages on kustomize, CI and editors show is what happens."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from published_schemas import ALL, BASE, CATALOG, published

from specs import scale_out, training_job

ROOT = Path(__file__).parents[2]
PAGES = ("ci.md", "editors.md", "install.md", "kustomize.md")


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def blocks(name: str, language: str = "yaml") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page(name), re.DOTALL)


def named(name: str) -> list[tuple[str, str]]:
    """The blocks that begin with the name of a file, in order, each with that name."""
    matches = (re.match(r"# (\S+\.yaml)\n", text) for text in blocks(name))
    return [(one[1], one.string) for one in matches if one]


@pytest.mark.parametrize("which", ["generator", "transformer"])
def test_the_kustomizations_build(which: str, consumer, tmp_path: Path, require) -> None:
    bin_folder = Path(sys.executable).parent
    require("etcompile-krm", present=(bin_folder / "etcompile-krm").exists(), why="not installed")
    shown = named("kustomize.md")
    first, second = shown[:2], shown[2:]
    for name, text in first if which == "generator" else second:
        (tmp_path / name).write_text(text)
    jobs = tmp_path / "jobs" if which == "generator" else tmp_path
    jobs.mkdir(exist_ok=True)
    (jobs / "bert.yaml").write_text(yaml.safe_dump(training_job("bert")))
    prefix = "" if which == "generator" else "dev-"
    intent = scale_out("more", 1, job=f"{prefix}bert")
    (jobs / "bert-more.yaml").write_text(yaml.safe_dump(intent))
    done = subprocess.run(
        [consumer("kustomize"), "build", "--enable-alpha-plugins", "--enable-exec", tmp_path],
        env={**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    objects = list(yaml.safe_load_all(done.stdout))
    assert {one["metadata"]["name"] for one in objects if one["kind"] == "Pod"} == {
        *(f"{prefix}bert-worker-{index}" for index in range(3)),
        f"{prefix}bert-launcher",
    }


def test_the_hooks_of_the_page_are_ours() -> None:
    [(_, text)] = [one for one in named("ci.md") if one[0] == ".pre-commit-config.yaml"]
    [repository] = yaml.safe_load(text)["repos"]
    manifest = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert [one["id"] for one in repository["hooks"]] == [one["id"] for one in manifest]


def test_the_workflow_uses_the_action_as_it_is() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    [(_, text)] = [one for one in named("ci.md") if one[0].startswith(".github/")]
    steps = yaml.safe_load(text)["jobs"]["etcompile"]["steps"]
    ours = [one for one in steps if str(one.get("uses")).startswith("etcompile/")]
    assert len(ours) == 2
    for step in ours:
        assert step["with"].keys() <= action["inputs"].keys()
    used = set(re.findall(r"steps\.diff\.outputs\.([\w-]+)", text))
    assert used <= action["outputs"].keys()
    rows = set(re.findall(r"^\| `([\w-]+)` \|", page("ci.md"), re.MULTILINE))
    assert rows >= action["inputs"].keys() | action["outputs"].keys()


def test_documented_schema_addresses_are_published() -> None:
    addresses = re.findall(rf"{re.escape(BASE)}([\w./-]+\.json)", "".join(map(page, PAGES)))
    assert {ALL, CATALOG} <= set(addresses)
    assert set(addresses) - {"GROUP/VERSION/KIND.json"} <= published().keys()
