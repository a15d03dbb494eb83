"""Every kind etcompile reads, a module each.

A module of this package that defines `KINDS` adds those kinds; there is no list to edit. A
frontend knows its own kind and the model, nothing else.
"""

import functools
import importlib
import pkgutil
from collections.abc import Iterator

from etcompile.frontends.kind import Kind, Lowered

__all__ = ["Kind", "Lowered", "find", "kinds", "kinds_of", "served_versions"]


@functools.cache
def kinds() -> tuple[Kind, ...]:
    """All kinds, in the order of their API version and name."""
    return tuple(sorted(_discover(), key=lambda kind: (kind.api_version, kind.name)))


def find(api_version: str | None, name: str | None) -> Kind | None:
    """The kind of a document with this apiVersion and kind, or None if it is not ours."""
    return next((k for k in kinds() if (k.api_version, k.name) == (api_version, name)), None)


def served_versions(api_version: str, name: str) -> tuple[str, ...]:
    """The API versions in which a kind of this group is known, for a message about another."""
    group = api_version.partition("/")[0]
    return tuple(
        kind.api_version
        for kind in kinds()
        if kind.name == name and kind.api_version.partition("/")[0] == group
    )


def kinds_of(group: str) -> tuple[str, ...]:
    """The kinds of an API group, for a message about one that it does not have."""
    return tuple(sorted({k.name for k in kinds() if k.api_version.partition("/")[0] == group}))


def _discover() -> Iterator[Kind]:
    for module in pkgutil.iter_modules(__path__):
        yield from getattr(importlib.import_module(f"{__name__}.{module.name}"), "KINDS", ())
