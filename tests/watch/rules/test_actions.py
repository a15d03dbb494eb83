"""Each action that rules know is one that the executor carries out."""

from typing import Any, get_args

import msgspec
import pytest

from etcompile.watch.core.act import phase_of
from etcompile.watch.core.actions import Action, PodAction


def blank(kind: Any) -> Any:
    """An action that says nothing."""
    fields = msgspec.structs.fields(kind)
    return kind(*(None for field in fields if field.required))


@pytest.mark.parametrize("kind", get_args(Action), ids=lambda kind: kind.__name__)
def test_what_is_no_request_about_a_pod_does_not_stand_among_those(kind: Any) -> None:
    # Whatever else stood among them would be passed over without a word.
    if phase_of(blank(kind)) == "pods":
        assert kind in get_args(PodAction)
