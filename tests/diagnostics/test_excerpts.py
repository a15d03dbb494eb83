"""Two values that differ are never shown alike, however long they are."""

from hypothesis import given
from hypothesis import strategies as st

from etcompile.diagnostics.message_text import excerpt, excerpts
from etcompile.emit import to_yaml
from etcompile.operations.execution import both_values
from etcompile.plan.presentation import text
from etcompile.plan.step import FieldChange, ObjectRef, Plan, Step

SAME = "import torch, time; print(1); " * 40
OLD, NEW = f"{SAME}a{SAME}", f"{SAME}b{SAME}"


@given(st.text(), st.text(), st.text(), st.integers(20, 100))
def test_what_differs_is_shown_to_differ(same: str, old: str, new: str, longest: int) -> None:
    first, second = same * 20 + old, same * 20 + new
    before, after = excerpts(first, second, longest)
    assert (before == after) == (first == second)
    assert max(len(before), len(after)) <= longest + 2


def test_short_texts_are_shown_whole() -> None:
    assert excerpts("abc", "abd", 20) == ("abc", "abd")
    assert excerpt("abc", 3) == "abc"
    assert excerpt("abcd", 3) == "abc…"


def change(old: object, new: object) -> FieldChange:
    path = "spec.containers[main].args[0]"
    return FieldChange(path=path, how="changed", steps=("spec",), before=old, after=new)


def test_a_refused_change_shows_the_difference_of_long_values() -> None:
    words = both_values(change(OLD, NEW))
    assert "print(1); a" in words
    assert "print(1); b" in words


def test_a_plan_shows_the_difference_of_long_lines() -> None:
    for old, new in ((OLD, NEW), (f"x\n{OLD}\ny\n", f"x\n{NEW}\ny\n")):
        step = Step("update", ObjectRef("v1", "ConfigMap", "a", "b"), changes=(change(old, new),))
        shown = "\n".join(text(Plan((step,), "cluster"), to_yaml, color=False))
        assert "print(1); a" in shown
        assert "print(1); b" in shown
