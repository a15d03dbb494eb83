"""How often advice is given: no rule speaks up in many real files."""

import collections
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import etcompile
from etcompile import Options
from etcompile.diagnostics import RULES
from operator_recordings import recordings

ROOT = Path(__file__).parents[2]
INPUTS = Path(os.environ.get("ETCOMPILE_INPUTS", ROOT.parent / "shared" / "inputs"))
OPERATORS = ("dlrover", "et-operator", "mpi-operator", "trainer-v2", "training-operator")
ADVICE = [rule for rule in RULES.values() if rule.code.startswith("ET9")]


def jobs(inputs: Iterable[Any]) -> Iterator[frozenset[str]]:
    """The advice about each input that holds a job which is accepted."""
    for one in inputs:
        compilation = etcompile.compile(one, Options(lint=True))
        if compilation.ok and any(group.name for group in compilation.groups):
            yield frozenset(
                one.code for one in compilation.diagnostics if one.code.startswith("ET9")
            )


def shares(inputs: Iterable[Any]) -> tuple[int, dict[str, float]]:
    """How many inputs have a job, and in which share of them each rule speaks up."""
    advised = list(jobs(inputs))
    counts = collections.Counter(code for codes in advised for code in codes)
    return len(advised), {rule.code: counts[rule.code] / len(advised) for rule in ADVICE}


def test_no_rule_speaks_up_in_more_than_a_third_of_recorded_inputs() -> None:
    count, by_rule = shares(one.input() for name in OPERATORS for one in recordings(name))
    assert count > 150
    assert [code for code, share in by_rule.items() if share > 1 / 3] == []


def test_no_rule_speaks_up_in_more_than_a_third_of_upstreams_files() -> None:
    if not INPUTS.is_dir():
        pytest.skip("needs upstream's example files: a folder shared beside the checkout")
    count, by_rule = shares(sorted(INPUTS.rglob("*.y*ml")))
    assert count > 60
    assert [code for code, share in by_rule.items() if share > 1 / 3] == []


def test_our_examples_do_as_they_are_advised() -> None:
    by_example = {}
    for folder in sorted(ROOT.glob("examples/*/*")):
        compilation = etcompile.compile(folder, Options(lint=True))
        if advice := {one.code for one in compilation.diagnostics if one.code.startswith("ET9")}:
            by_example[str(folder.relative_to(ROOT))] = advice
    # The runtime is Trainer's own, as it ships it.
    shipped = ("examples/trainjob/elastic", "examples/trainjob/torch")
    assert by_example == {example: {"ET9001"} for example in shipped}
