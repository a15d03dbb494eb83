"""docs/dependencies.md names what is installed with etcompile, and nothing else."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=; ]", one)[0].lower() for one in requirements}


def test_every_library_has_a_row_with_its_reason() -> None:
    table = PAGE.partition("## At run time")[2].partition("## Of an extra")[0]
    rows = set(re.findall(r"^\| \[([\w-]+)\]", table, re.MULTILINE))
    assert {one.lower() for one in rows} == names(PROJECT["dependencies"])
    extras = PAGE.partition("## Of an extra")[2].partition("## For the documentation site")[0]
    named = {one.lower() for one in re.findall(r"^\[([\w-]+)\]", extras, re.MULTILINE)}
    optional = PROJECT["optional-dependencies"]
    assert named == {name for extra in ("lsp", "socks", "sops") for name in names(optional[extra])}


def test_the_libraries_of_the_site_are_named() -> None:
    part = PAGE.partition("## For the documentation site")[2].partition("| instead of |")[0]
    named = set(re.findall(r"\[([\w-]+)\]\(", part))
    wanted = names(PROJECT["optional-dependencies"]["docs"])
    assert {one.lower().replace("myst", "myst-parser") for one in named} == wanted


def test_the_oracles_are_installed_for_tests() -> None:
    assert {"deepdiff", "jsonschema", "ruamel.yaml", "kubernetes"} <= names(
        PROJECT["optional-dependencies"]["test"]
    )


def test_the_tests_that_the_page_names_are_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py|etcompile/[\w/.]+|benchmarks/[\w.]+)`", PAGE)
    assert named
    assert [one for one in named if not (ROOT / one).exists()] == []
