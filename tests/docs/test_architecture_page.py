"""The walks of docs/architecture.md lead through modules that there are, in few hops."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text("utf-8")


def walks() -> dict[str, list[str]]:
    """The hops of each walk, by its heading."""
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)[1:]
    return {
        title: re.findall(r"^\d+\. (.+(?:\n   .+)*)", text, flags=re.MULTILINE)
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    }


def test_each_walk_has_at_most_eight_hops_and_each_hop_a_module() -> None:
    assert len(walks()) == 3
    for title, hops in walks().items():
        assert 1 < len(hops) <= 8, title
        assert all(re.match(r"`etcompile/\S+\.py`", hop) for hop in hops), title


def test_every_module_that_is_named_exists() -> None:
    named = re.findall(r"`(etcompile/[^`]+)`", PAGE)
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_every_package_stands_on_a_floor() -> None:
    floors = "\n".join(line for line in PAGE.splitlines() if re.match(r"\| \d \|", line))
    packages = {one.parent.name for one in (ROOT / "etcompile").glob("*/__init__.py")}
    assert packages == packages & set(re.findall(r"`(\w+)`", floors))
