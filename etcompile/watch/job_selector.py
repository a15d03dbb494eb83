"""Label selectors, as kubectl writes them, matched here.

Only the ConfigMap of a job carries the labels that people give the job; its Pods and what the
watcher writes carry others. So the API server cannot choose all of them by one selector.
"""

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

_SET = re.compile(r"^(?P<key>[^\s!=,()]+)\s+(?P<how>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^\s!=,()]+)\s*(?P<how>==|=|!=)\s*(?P<value>[^\s!=,()]*)$")
_THERE = re.compile(r"^(?P<absent>!?)\s*(?P<key>[^\s!=,()]+)$")
_COMMAS = re.compile(r",(?![^(]*\))")


class SelectorError(ValueError):
    """A text is no label selector."""


class Selector(Struct, frozen=True):
    """Which labels are meant: those of which all requirements hold."""

    requirements: tuple[Callable[[Mapping[str, str]], bool], ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is meant."""
        return all(holds(labels) for holds in self.requirements)


def selector(text: str) -> Selector:
    """The selector that a text is: `team=nlp,tier!=test,run in (a, b),!paused`.

    Raises:
        SelectorError: it is none.
    """
    if not text.strip():
        return Selector()
    return Selector(tuple(_requirement(part.strip()) for part in _COMMAS.split(text)))


def _requirement(text: str) -> Callable[[Mapping[str, str]], bool]:
    if match := _SET.match(text):
        key, wanted = match["key"], frozenset(v.strip() for v in match["values"].split(","))
        is_in = match["how"] == "in"
        return lambda labels: (labels.get(key) in wanted) == is_in
    if match := _EQUAL.match(text):
        key, value, equal = match["key"], match["value"], match["how"] != "!="
        return lambda labels: (labels.get(key) == value) == equal
    if match := _THERE.match(text):
        key, there = match["key"], not match["absent"]
        return lambda labels: (key in labels) == there
    raise SelectorError(f"'{text}' is not a valid label selector requirement")
