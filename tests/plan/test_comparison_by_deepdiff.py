"""The comparison of two objects, held against deepdiff where both mean the same.

That is where no default, owner or list key counts: any fields of a custom resource. deepdiff names
the item of a list that differs, etcompile the list: both are cut there.
"""

from typing import Any

from deepdiff import DeepDiff
from hypothesis import given
from hypothesis import strategies as st

from etcompile.k8s.listkeys import ABSENT
from etcompile.plan.comparison import compared
from specs import manifest

NAMES = st.sampled_from(["alpha", "beta", "gamma", "delta", "a.b/c", "e'f", "[0]", "0"])
SCALARS = st.booleans() | st.integers(min_value=2) | st.text(min_size=1)
"""Null and an empty text or list are left out: the API server does not keep them. 0 and 1 are left
out: they equal False and True in Python, and no field of a typed schema takes both."""
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, min_size=1, max_size=4) | st.dictionaries(NAMES, inner),
    max_leaves=12,
)
SPECS = st.dictionaries(NAMES, VALUES, min_size=1)

Place = tuple[str, ...]


@st.composite
def related_specs(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two specs that share most of their fields, as an object and its next revision do."""
    before, other = draw(SPECS), draw(SPECS)
    return before, draw(st.sampled_from([other, {**before, **other}, changed(draw, before)]))


def changed(draw: st.DrawFn, value: Any) -> Any:
    """A copy with another value somewhere."""
    if isinstance(value, dict) and value:
        name = draw(st.sampled_from(sorted(value)))
        return {**value, name: changed(draw, value[name])}
    if isinstance(value, list):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], changed(draw, value[at]), *value[at + 1 :]]
    return draw(VALUES)


def widget(spec: dict[str, Any]) -> dict[str, Any]:
    return manifest("Widget", "one", api_version="example.com/v1", spec=spec)


def cut(steps: list[Any], value: Any) -> Place:
    place: list[str] = []
    for step in steps:
        if isinstance(value, list):
            break
        place.append(step)
        value = value.get(step)
    return tuple(place)


def value_at(value: Any, place: Place) -> Any:
    for step in place:
        value = value.get(step, ABSENT) if isinstance(value, dict) else ABSENT
    return value


def by_deepdiff(before: Any, after: Any) -> set[Place]:
    # By default it names a mapping as a whole of which hardly a key is in both.
    tree = DeepDiff(before, after, view="tree", threshold_to_diff_deeper=0)
    paths = (level.path(output_format="list") for kind in tree.values() for level in kind)
    return {min(cut(steps, before), cut(steps, after), key=len) for steps in paths}


@given(related_specs())
def test_two_objects_differ_in_the_fields_that_deepdiff_names(specs):
    before, after = (widget(spec) for spec in specs)
    ours = compared(after, before, None)
    places = {min(cut(raw.path, before), cut(raw.path, after), key=len) for raw in ours}
    assert places == by_deepdiff(before, after)
    for raw in ours:
        if cut(raw.path, before) == raw.path == cut(raw.path, after):
            assert raw.before == value_at(before, raw.path)
            assert raw.after == value_at(after, raw.path)
