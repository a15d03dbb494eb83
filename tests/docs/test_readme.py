"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path

import yaml

from walking import blocks

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def fenced(start: str) -> str:
    """The fenced block of the README that begins with a text."""
    [block] = [b for b in re.findall(r"```\w*\n(.*?)```", README, re.DOTALL) if b.startswith(start)]
    return str(block)


def etcompile(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "etcompile", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def commands(heading: str) -> list[str]:
    """The commands of a section, without comments, in their order."""
    lines = "".join(block.text for block in blocks(README) if block.heading == heading).splitlines()
    return [line.split("#")[0].strip() for line in lines]


def test_it_can_be_read_in_a_sitting() -> None:
    assert len(README.splitlines()) <= 126


def test_nothing_is_run_before_it_is_installed() -> None:
    assert commands("Five minutes")[0] == "uv tool install ."


def test_its_two_commands_are_the_first_commands_on_the_page() -> None:
    clone, run, test = (line for block in blocks(README)[:1] for line in block.text.splitlines())
    assert clone.startswith("git clone ")
    assert f"{test} || exit" in (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    _, example = run.split(" .venv/bin/etcompile render ")
    assert etcompile(ROOT, "render", example).returncode == 0


def job(folder: Path, text: str) -> None:
    (folder / "hello.yaml").write_text(text)


def test_its_job_compiles_to_what_its_commands_name(tmp_path: Path) -> None:
    job(tmp_path, fenced("apiVersion"))
    [line] = [one for one in commands("Five minutes") if one.startswith("etcompile render")]
    done = etcompile(tmp_path, *line.split()[1:])
    assert (done.returncode, done.stderr) == (0, "out: 5 written, 0 unchanged\n")
    text = (tmp_path / "out" / "hello" / "91-workers.yaml").read_text("utf-8")
    pods = {one["metadata"]["name"] for one in yaml.safe_load_all(text)}
    assert pods == {"hello-worker-0", "hello-worker-1"}
    assert set(re.findall(r"delete pod (\S+)", README)) <= pods


def test_the_mistake_reads_as_shown(tmp_path: Path) -> None:
    job(tmp_path, fenced("apiVersion").replace("replicas: 2", "replicsa: 2"))
    assert etcompile(tmp_path, "check", "hello.yaml").stderr == fenced("error[")
