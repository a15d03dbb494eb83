"""What the README shows is what happens."""

import re
from pathlib import Path

from commandline import etcompile
from walking import blocks

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def fenced(start: str) -> str:
    [block] = [b for b in re.findall(r"```\w*\n(.*?)```", README, re.DOTALL) if b.startswith(start)]
    return str(block)


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
    assert etcompile("render", example, cwd=ROOT).returncode == 0


def test_the_mistake_reads_as_shown(tmp_path: Path) -> None:
    mistaken = fenced("apiVersion").replace("replicas: 2", "replicsa: 2")
    (tmp_path / "hello.yaml").write_text(mistaken)
    assert etcompile("check", "hello.yaml", cwd=tmp_path).stderr == fenced("error[")
