"""The walks of docs/architecture.md name modules and functions that exist, each once."""

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


def test_each_hop_of_a_walk_names_a_function_of_a_module_and_no_module_comes_twice() -> None:
    assert len(walks()) == 3
    for title, hops in walks().items():
        named = [re.match(r"`(etcompile/\S+\.py)` `([\w.]+)`: ", hop) for hop in hops]
        assert all(named), title
        assert 8 <= len(hops) <= 12, title
        modules = [one[1] for one in named if one]
        assert len(set(modules)) == len(modules), title
        for module, name in (one.groups() for one in named if one):
            code = (ROOT / module).read_text("utf-8")
            for part in name.split("."):
                assert re.search(rf"^ *(def|class) {part}\b", code, re.MULTILINE), (module, name)


def test_every_module_that_is_named_exists() -> None:
    named = re.findall(r"`(etcompile/[^`]+)`", PAGE)
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_every_package_stands_on_a_floor() -> None:
    floors = "\n".join(line for line in PAGE.splitlines() if re.match(r"\| \d \|", line))
    packages = {one.parent.name for one in (ROOT / "etcompile").glob("*/__init__.py")}
    assert packages == packages & set(re.findall(r"`(\w+)`", floors))
