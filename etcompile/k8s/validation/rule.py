"""A rule of the API server's validation as a row of a table, and what breaking it looks like.

Apart from the tables, which are data, and from the tree, which finds the rows that apply.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct, field

Path = tuple[str | int, ...]
"""Keys and list indexes, from the value that is checked."""

NEWEST = 999
"""The minor version of a rule that is still in force."""


class Subject(Struct, frozen=True):
    """The value that is checked, with what a rule may have to know beyond its own place.

    Args:
        value: The whole of it: a Pod, a Pod template or another object.
        minor: The minor version of Kubernetes, 34 for 1.34; None for rules that all versions have.
        known_volumes: Volumes that the Pod will have besides those in the value.
        partial: What is missing may still be filled in by somebody else.
        pod: Whether Pods are made of the value as it is; False for the template of a controller,
            where the API server looks at less.
    """

    value: Mapping[str, Any]
    minor: int | None = None
    known_volumes: Collection[str] = ()
    partial: bool = False
    pod: bool = True


class Broken(Struct, frozen=True):
    """A place where a rule is broken.

    Args:
        path: The place, from where the rule stands.
        facts: What the message and the advice name besides `{value}`.
        at_key: The key is wrong, not its value.
    """

    path: Path = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    at_key: bool = False


Check = Callable[[Any, Subject], "bool | Iterable[Broken]"]
"""Whether a value breaks a rule: True if it does as a whole, or the places inside it that do."""


class Rule(Struct, frozen=True):
    """A row of a table.

    Args:
        path: Where it applies: `spec.volumes[*].hostPath.path`. `[*]` stands for every item of a
            list, `(a|b)` for either field.
        check: What it looks for.
        message: What is wrong, after the place. `{value}` is the value as a message shows it.
        breaks: A value that breaks it, as YAML in flow style: what `example_at` says is merged
            with it.
        takes: The smallest correction of that.
        advice: What to do.
        on: The type of the values it looks at; others are the schema's business.
        since: The first minor version that has the rule with its default feature gates.
        until: The last one.
        pods_only: The API server does not look at templates of controllers for it.
        at_key: Show the key of the place, not its value.
        missing: The field without which the rule is broken; empty if it is not about one.
    """

    path: str
    check: Check
    message: str
    breaks: str
    takes: str
    advice: str = ""
    on: type | tuple[type, ...] = dict
    since: int = 0
    until: int = NEWEST
    pods_only: bool = False
    at_key: bool = False
    missing: str = ""

    def applies(self, subject: Subject) -> bool:
        """Whether the API server of that version has the rule for such a value."""
        if self.pods_only and not subject.pod:
            return False
        if subject.minor is None:
            return self.since == 0 and self.until == NEWEST
        return self.since <= subject.minor <= self.until
