"""docs/sources.md explains what citations in the code name; what users read has none."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sources.md").read_text("utf-8")
CITED = re.compile(r"reference/([a-z0-9-]+)\.md")


def texts(*folders: str) -> dict[str, str]:
    files = (path for folder in folders for path in sorted((ROOT / folder).rglob("*")))
    suffixes = (".py", ".j2", ".sh", ".md", ".json", ".yaml", ".toml")
    return {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for path in files
        if path.is_file() and path.suffix in suffixes
    }


def test_every_citation_in_the_code_is_explained() -> None:
    cited = {name for text in texts("etcompile", "tests").values() for name in CITED.findall(text)}
    assert cited
    kinds = {name for name in cited if name.startswith("training-operator-")}
    assert cited - kinds == set(CITED.findall(PAGE))
    assert "`training-operator-KIND.md`" in PAGE


@pytest.mark.parametrize("folder", ["golden", "templates", "schemas", "overlays", "examples"])
def test_what_is_rendered_cites_nothing_that_its_reader_cannot_open(folder: str) -> None:
    found = texts(folder)
    assert found
    assert [name for name, text in found.items() if CITED.search(text)] == []


def test_the_pages_cite_nothing_that_their_reader_cannot_open() -> None:
    pages = {name: text for name, text in texts("docs").items() if name != "docs/sources.md"}
    said = re.compile(r"reference/|reference defect|(in|of) the reference\b")
    assert [name for name, text in pages.items() if said.search(text)] == []


def test_no_diagnostic_cites_what_its_reader_cannot_open() -> None:
    from etcompile.diagnostics import RULES

    said = re.compile(r"reference/|reference defect|\breference [0-9]")
    words = {code: f"{r.message} {r.hint} {r.why} {r.example}" for code, r in RULES.items()}
    assert [code for code, text in words.items() if said.search(text)] == []
