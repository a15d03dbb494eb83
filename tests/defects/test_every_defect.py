"""Each numbered defect is held by a test, or a page says what becomes of it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "differences.md").read_text("utf-8")


def numbers_in_names(system: str) -> set[str]:
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    names = re.findall(rf"def test_{system}_(?=(?:d?\d+|[a-f])_)(\w+)", tests)
    parts = [re.match(r"(?:(?:d?\d+|[a-f])_)+", name) for name in names]
    return {number.lstrip("d0") or number for part in parts for number in part[0].split("_")[:-1]}


@pytest.mark.parametrize(
    ("system", "heading", "numbers"),
    [
        ("training_operator", "Training Operator", [*range(1, 39), *range(44, 51)]),
        ("training_operator", "MPIJob of the Training Operator", range(39, 44)),
        ("mpi_operator", "MPI Operator", range(1, 16)),
        ("dlrover", "DLRover", [*"abcdef", *range(1, 25)]),
    ],
)
def test_each_defect_is_tested_or_accounted_for(system, heading, numbers) -> None:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    # The tests of tests/oracle fail if a difference that a row lists does not occur.
    rows = re.findall(r"(?m)^\| `.*\(defects? ([^)]*)\)", section)
    recorded = {number for row in rows for number in re.findall(r"\b(?:[a-f]|\d+)\b", row)}
    left = {*re.findall(r"(?m)^(?:\| |- \*\*D?)([a-f]|\d+)(?: \||\*\*)", section)}
    tested = numbers_in_names(system)
    assert not tested & left
    assert {*map(str, numbers)} <= tested | recorded | left
