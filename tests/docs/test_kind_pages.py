"""docs/kinds has a page for every kind, and its table of fields is what the schema says.

`pytest tests/docs --update-goldens` writes the tables anew.
"""

from pathlib import Path

import pytest

from etcompile import frontends
from etcompile.check.schema_table import table

PAGES = Path(__file__).parents[2] / "docs" / "kinds"
HEADING = "## Fields\n\n"


def page(kind: frontends.Kind) -> Path:
    """The page of a kind; a later API version's has that in its name."""
    version = kind.api_version.rpartition("/")[2]
    suffix = "" if kind.schema.endswith(f"{kind.name}.json") else f"-{version}"
    return PAGES / f"{kind.name.lower()}{suffix}.md"


def pages() -> dict[Path, list[frontends.Kind]]:
    found: dict[Path, list[frontends.Kind]] = {}
    for kind in frontends.kinds():
        found.setdefault(page(kind), []).append(kind)
    return found


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.stem)
def test_the_fields_of_a_page_are_those_of_the_schema(
    path: Path, request: pytest.FixtureRequest
) -> None:
    kind = pages()[path][-1]
    text = path.read_text("utf-8")
    head, _, found = text.partition(HEADING)
    if request.config.getoption("--update-goldens"):
        path.write_text(f"{head}{HEADING}{table(kind.schema)}", "utf-8")
        return
    assert found == table(kind.schema)
    assert text.startswith(f"# {kind.name}")
    assert kind.api_version in head


def test_there_is_no_page_of_a_kind_that_is_gone() -> None:
    assert set(PAGES.glob("*.md")) - {PAGES / "README.md"} == set(pages())


def test_the_list_of_kinds_links_every_page() -> None:
    text = (PAGES / "README.md").read_text("utf-8")
    assert [path.name for path in pages() if f"({path.name})" not in text] == []
