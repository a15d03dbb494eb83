"""The page about failures names every cause, and no other."""

import ast
import re
from pathlib import Path

from etcompile.failures import causes

ROOT = Path(__file__).parents[2]


def test_the_page_names_every_cause() -> None:
    tree = ast.parse(Path(causes.__file__).read_text("utf-8"))
    known = {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Cause"
        and isinstance(node.args[0], ast.Constant)
    }
    assert known == causes.NAMES
    page = (ROOT / "docs" / "failures.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == known
