"""What citations in the code name is there; what is rendered for users has none."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
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
    contents = texts(folder)
    assert contents
    assert [name for name, text in contents.items() if CITED.search(text)] == []


def sections(page: str) -> set[str]:
    """The numbers of a reference page's headings, and of what it calls `**2.1 ...**`."""
    heading = re.compile(r"^(?:#+ |\*\*)([0-9]+(?:\.[0-9]+)*)[.):\s]", re.MULTILINE)
    return set(heading.findall((REFERENCE / page).read_text("utf-8")))


def test_every_section_that_is_cited_is_there() -> None:
    cited = re.compile(r"reference/([a-z0-9-]+\.md)`?((?:,? (?:and )?[0-9]+\.[0-9.]*[0-9])+)")
    missing, count = [], 0
    for name, text in texts("etcompile", "tests", "docs").items():
        for page, numbers in cited.findall(re.sub(r"\n\s*#?\s*", " ", text)):
            known = sections(page)
            count += 1
            missing += [
                (name, page, one)
                for one in re.findall(r"[0-9]+\.[0-9.]*[0-9]", numbers)
                if one not in known
            ]
    assert missing == []
    assert count > 50


def test_every_reference_page_is_listed() -> None:
    listed = set(
        re.findall(r"\]\(([a-z0-9-]+\.md)\)", (REFERENCE / "README.md").read_text("utf-8"))
    )
    assert listed == {path.name for path in REFERENCE.glob("*.md")} - {"README.md"}


def test_no_diagnostic_cites_what_its_reader_cannot_open() -> None:
    from etcompile.diagnostics import RULES

    said = re.compile(r"reference/|reference defect|\breference [0-9]")
    words = {code: f"{r.message} {r.hint} {r.why} {r.example}" for code, r in RULES.items()}
    assert [code for code, text in words.items() if said.search(text)] == []
