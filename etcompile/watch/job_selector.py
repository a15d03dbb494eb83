"""Label selectors, as kubectl writes them, matched here.

Only the ConfigMap of a job carries the labels that people give the job; its Pods and what the
watcher writes carry others. So the API server cannot choose all of them by one selector.
"""

import re
from collections.abc import Mapping

from msgspec import Struct

_SET = re.compile(r"^(?P<key>[^\s!=,()]+)\s+(?P<how>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^\s!=,()]+)\s*(?P<how>==|=|!=)\s*(?P<value>[^\s!=,()]*)$")
_THERE = re.compile(r"^(?P<absent>!?)\s*(?P<key>[^\s!=,()]+)$")
_COMMAS = re.compile(r",(?![^(]*\))")


class SelectorError(ValueError):
    """A text is no label selector."""


class Selector(Struct, frozen=True):
    """Which labels are meant: those of which all requirements hold.

    Args:
        requirements: Of each a key, values, and whether the label is to have one of these. A label
            that is absent has the value None.
    """

    requirements: tuple[tuple[str, frozenset[str | None], bool], ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is meant."""
        return all((labels.get(key) in values) == is_in for key, values, is_in in self.requirements)


def selector(text: str) -> Selector:
    """The selector that a text is: `team=nlp,tier!=test,run in (a, b),!paused`.

    Raises:
        SelectorError: it is none.
    """
    requirements: list[tuple[str, frozenset[str | None], bool]] = []
    for part in _COMMAS.split(text) if text.strip() else ():
        if match := _SET.match(part.strip()):
            values = frozenset(value.strip() for value in match["values"].split(","))
            requirements.append((match["key"], values, match["how"] == "in"))
        elif match := _EQUAL.match(part.strip()):
            requirements.append((match["key"], frozenset({match["value"]}), match["how"] != "!="))
        elif match := _THERE.match(part.strip()):
            requirements.append((match["key"], frozenset({None}), bool(match["absent"])))
        else:
            raise SelectorError(f"'{part.strip()}' is not a valid label selector requirement")
    return Selector(tuple(requirements))
