"""Exit codes: each has one name in one place, which costs nothing to import, and is documented."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from etcompile import exitcodes

ROOT = Path(__file__).parents[2]
CODES = {name: code for name, code in vars(exitcodes).items() if name.isupper()}
ROLLOUT = {
    "REFUSED",
    "NOT_READY",
    "CONFLICT",
    "REPLACEMENT",
    "CLUSTER",
    "INPUT",
    "INTERNAL",
    "INTERRUPTED",
}
STATUS = {"FAILED", "REFUSED", "CLUSTER", "INTERRUPTED"}
ENDS = frozenset({"exit", "_exit", "leave", "conclude", "Result"})
"""What is called with an exit code first."""


def test_an_exit_code_stands_nowhere_else() -> None:
    places = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in (ROOT / "etcompile").rglob("*.py")
        if path.name != "exitcodes.py"
        for line in numbers(path.read_text())
    ]
    assert places == []


@pytest.mark.parametrize(
    ("code", "is_number"),
    [
        ("REFUSED = 7", True),
        ("INTERRUPTED: int = 130", True),
        ("sys.exit(2)", True),
        ("os._exit(130)", True),
        ("session.leave(7, ())", True),
        ("return Result(4, found)", True),
        ("Result(0)", False),
        ("ctx.exit(REFUSED)", False),
        ('CLUSTER = "cluster"', False),
    ],
)
def test_literal_exit_codes_are_recognized(code: str, is_number: bool) -> None:
    assert bool([*numbers(code)]) is is_number


def numbers(code: str) -> Iterator[int]:
    """The lines in which an exit code is a number, or the name of one gets another."""
    if not any(re.search(rf"\b{name}\b", code) for name in (*ENDS, *CODES)):
        return
    for node in ast.walk(ast.parse(code)):
        value, names = None, set()
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            value = node.value if names & CODES.keys() else None
        elif isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            value = node.args[0] if called in ENDS else None
        if isinstance(value, ast.Constant) and isinstance(value.value, int) and value.value:
            yield value.lineno


@pytest.mark.parametrize(
    ("page", "heading", "names"),
    [("apply.md", "| code | |", ROLLOUT), ("failures.md", "| exit code | |", STATUS)],
)
def test_the_pages_list_them(page: str, heading: str, names: set[str]) -> None:
    _, _, table = (ROOT / "docs" / page).read_text().partition(f"{heading}\n|---|---|\n")
    rows = re.findall(r"^\| (\d+) \|", table.partition("\n\n")[0], flags=re.MULTILINE)
    assert {*map(int, rows)} == {0, *(CODES[name] for name in names)}


def test_help_imports_no_client_of_a_cluster() -> None:
    code = (
        "import sys; from etcompile.cli import main; sys.argv[1:] = ['--help']\n"
        "try: main()\n"
        "except SystemExit: print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "etcompile.exitcodes" in loaded
    heavy = ("etcompile.kubeapi", "etcompile.rollout", "etcompile.operations", "urllib3")
    assert [name for name in loaded if name.startswith(heavy)] == []
