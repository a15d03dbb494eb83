"""What a rule is asked about, and what its answer is."""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct, field

Path = tuple[str | int, ...]
"""Keys and list indexes, from the value that is checked."""


class Subject(Struct, frozen=True):
    """The value that is checked, with what a rule may have to know beyond its own place.

    Args:
        value: The whole of it: a Pod, a Pod template or another object.
        minor: The minor version of Kubernetes, 34 for 1.34; None for rules that all versions have.
        known_volumes: Volumes that the Pod will have besides those in the value.
        pod: Whether Pods are made of the value as it is; False for the template of a controller,
            where the API server looks at less.
    """

    value: Mapping[str, Any]
    minor: int | None = None
    known_volumes: Collection[str] = ()
    pod: bool = True


class Broken(Struct, frozen=True):
    """A place where a rule is broken.

    Args:
        path: The place, from the value that the rule looked at.
        facts: What the message and the hint name besides `{value}`.
        at_key: The key is wrong, not its value.
    """

    path: Path = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    at_key: bool = False
