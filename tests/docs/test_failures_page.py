"""The page about failures names every cause, and no other."""

import re
from pathlib import Path

from etcompile.causes.causes import names

ROOT = Path(__file__).parents[2]


def test_the_page_names_every_cause() -> None:
    page = (ROOT / "docs" / "failures.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == names()
