"""What the default layer promises: a busy machine changes no result (docs/contributing/testing)."""

from types import FunctionType

import pytest

LAYERS = ("cluster", "programs", "node", "gitops")


def test_no_test_of_the_default_layer_sleeps(request: pytest.FixtureRequest) -> None:
    sleeping = {
        item.nodeid.partition("[")[0]
        for item in request.session.items
        if isinstance(function := getattr(item, "function", None), FunctionType)
        and not any(item.get_closest_marker(layer) for layer in LAYERS)
        and "sleep" in function.__code__.co_names
    }
    assert sleeping == set(), "mark it with pytest.mark.programs, or wait for what it observes"
