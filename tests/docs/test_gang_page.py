"""docs/gang.md names every scheduler, and says of each what the code does."""

import re
from pathlib import Path

from etcompile.backend.gang import scheduler_of
from etcompile.frontends.gang import ANNOTATIONS
from etcompile.model import GANGS

PAGE = (Path(__file__).parents[2] / "docs" / "gang.md").read_text("utf-8")
NAMES = [name for name in GANGS if name != "none"]


def test_every_scheduler_has_a_row() -> None:
    table = PAGE.partition("\n## ")[0]
    assert re.findall(r"^\| `([a-z]+)` \|", table, re.MULTILINE) == NAMES


def test_the_page_says_which_fields_a_scheduler_cannot_use() -> None:
    rows = re.findall(r"^\| `gang-([a-z-]+)`[^|]*\|[^|]*\|([^|]*)\|$", PAGE, re.MULTILINE)
    assert {f"etcompile.dev/gang-{name}" for name, _ in rows} == set(ANNOTATIONS)
    for name, cell in rows:
        field = ANNOTATIONS[f"etcompile.dev/gang-{name}"].field
        unused = {one for one in NAMES if field in scheduler_of(one).unused}
        said = {word for word in re.findall(r"[a-z]+", cell) if word in NAMES}
        assert (set(NAMES) - said if "all but" in cell else said) == unused, name
