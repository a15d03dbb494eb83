"""Label selectors mean what they mean to kubectl."""

import pytest

from etcompile.watch.job_selector import SelectorError, selector

LABELS = {"team": "nlp", "tier": "prod", "paused": ""}


@pytest.mark.parametrize(
    ("text", "selects"),
    [
        ("", True),
        ("team=nlp", True),
        ("team==nlp", True),
        ("team = nlp , tier=prod", True),
        ("team=cv", False),
        ("team!=cv", True),
        ("team!=nlp", False),
        ("other!=x", True),
        ("other=x", False),
        ("team", True),
        ("!team", False),
        ("!other", True),
        ("team in (cv, nlp)", True),
        ("team in (cv),tier=prod", False),
        ("team notin (cv, tts)", True),
        ("team notin (nlp)", False),
        ("other notin (x)", True),
        ("paused=", True),
    ],
)
def test_a_selector_selects_as_kubectl_does(text, selects):
    assert selector(text).selects(LABELS) is selects


@pytest.mark.parametrize("text", ["=x", "team in nlp", "a b", "team=(x)", "a=1,,b=2"])
def test_what_is_no_selector_is_refused(text):
    with pytest.raises(SelectorError):
        selector(text)
