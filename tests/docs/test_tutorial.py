"""The tutorial's commands, as far as they need no cluster; `tests/gitops` walks all of it."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from walking import Block, Shell, blocks

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text("utf-8")
BLOCKS = blocks(PAGE)
_OF_A_CLUSTER = re.compile(r"kubectl |etcompile (status|watch) |kill ")


@pytest.fixture
def shell(tmp_path) -> Iterator[Shell]:
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", tmp_path / "remote"], check=True)
    shell = Shell(tmp_path, {})
    yield shell
    shell.close()


def here(block: Block, remote: Path) -> Block:
    """The block with the remote of the test, and without what needs a cluster."""
    text = re.sub(r"(?<=REPOSITORY=).*", str(remote), block.text)
    # A command ends with its line, unless that ends in a backslash or within quotes.
    commands = re.findall(r"(?:\\\n|'[^']*'|[^'\n])+\n", text)
    remaining = [command for command in commands if not _OF_A_CLUSTER.match(command)]
    return structs.replace(block, text="".join(remaining))


def test_the_page_is_a_walk():
    headings = list(dict.fromkeys(block.heading for block in BLOCKS))
    assert headings[0] == "An empty repository"
    assert headings[-1] == "The end"
    assert "Sync it" in headings
    assert sum(block.fails for block in BLOCKS) == 2


def test_all_that_needs_no_cluster_goes_as_the_page_says(shell, tmp_path):
    outputs = {}
    for block in BLOCKS:
        done = shell.run(here(block, tmp_path / "remote"))
        outputs.setdefault((block.heading, block.fails), []).append(done.check())
    [wrote] = re.findall(r"^```\n(wrote .*?)```$", PAGE, re.MULTILINE | re.DOTALL)
    assert outputs["An empty repository", False][1] == wrote
    [mistake] = re.findall(r"^```\n(error.*?)```$", PAGE, re.MULTILINE | re.DOTALL)
    assert outputs["A mistake", True][0].startswith(mistake)
    assert "error[ET5008]" in outputs["Another run", True][0]
    assert "hello: 2 -> 3 workers" in outputs["One worker more", False][0]
    assert "hello: 3 -> 2 workers" in outputs["One worker fewer", False][0]
    log = subprocess.run(
        ["git", "-C", tmp_path / "remote", "log", "--format=%s"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert log.stdout.splitlines() == [
        "Train again, with more memory",
        "One worker fewer",
        "One worker more",
        "A first training",
    ]


def test_no_line_of_a_command_is_too_long_for_a_page():
    lines = [line for block in BLOCKS for line in block.text.splitlines()]
    assert [line for line in lines if len(line) > 100] == []
