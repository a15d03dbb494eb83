"""What puts a fault of a document right, where its author can have meant one thing only.

Safe is what keeps the author's own words and only spells or types them as the schema does. What
resembles a known word is likely meant, and somebody should look at it.
"""

import re
from typing import Any

from msgspec import structs

from etcompile.check.explain import Fault, closest, shown
from etcompile.diagnostics import Diagnostic, Location, Source
from etcompile.diagnostics.fix import Change, Fix, Quote, Rename, Replace
from etcompile.diagnostics.spelling import bare
from etcompile.k8s.path import value_at
from etcompile.model import quantity

_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})")


def with_fix(diagnostic: Diagnostic, fault: Fault, source: Source | None) -> Diagnostic:
    """A diagnostic with the fix of the fault that it tells of, if there is one.

    Args:
        diagnostic: What is told.
        fault: What the schema says.
        source: The document.
    """
    fix = None if source is None else _fix(fault, source)
    return diagnostic if fix is None else structs.replace(diagnostic, fix=fix)


def _fix(fault: Fault, source: Source) -> Fix | None:
    if fault.problem == "unknown":
        return _renamed(fault, source)
    if fault.at_key or not fault.path:
        return None
    value = value_at(source.data, fault.path)
    place = source.locate(fault.path)
    if fault.problem == "choice" and isinstance(value, str):
        return _chosen(value, fault.options, place)
    if fault.problem == "type":
        return _retyped(value, fault.facts.get("advice", ""), place)
    if fault.problem == "form" and fault.definition == "api.resource.Quantity":
        meant = quantity.probably(value) if isinstance(value, str) else None
        return _fixed(Replace(place, meant), f"write {meant}", safe=False) if meant else None
    return None


def _fixed(change: Change, title: str, *, safe: bool) -> Fix:
    return Fix(title, (change,), safe)


def _renamed(fault: Fault, source: Source) -> Fix | None:
    """Another name for a field of a mapping that has none of that name."""
    beside = value_at(source.data, fault.path[:-1])
    name = fault.path[-1]
    if not (fault.fields and isinstance(name, str) and isinstance(beside, dict)):
        return None
    meant = fault.fields[0]
    # Of two fields that resemble the same, nobody knows which is meant.
    alike = [key for key in beside if key != name and bare(key) == bare(meant)]
    if meant in beside or alike:
        return None
    change = Rename(source.locate(fault.path, key=True), meant)
    return _fixed(change, f"rename '{name}' to '{meant}'", safe=bare(name) == bare(meant))


def _chosen(value: str, options: tuple[Any, ...], place: Location) -> Fix | None:
    """Another spelling of one of the values that are allowed."""
    words = [option for option in options if isinstance(option, str) and option]
    same = [word for word in words if bare(word) == bare(value)]
    meant = same[0] if len(same) == 1 else closest(value, words)
    if meant is None:
        return None
    return _fixed(Replace(place, meant), f"write {meant}", safe=len(same) == 1)


def _retyped(value: Any, advice: str, place: Location) -> Fix | None:
    """The same as text, or as the number or boolean that the text spells."""
    if advice == "put it in quotes":
        return _fixed(Quote(place), "put it in quotes", safe=True)
    if not (isinstance(value, str) and advice.startswith("remove the quotes")):
        return None
    meant: bool | int
    if _NUMBER.fullmatch(value):
        meant = int(value)
    elif value.lower() in _TRUE | _FALSE:
        meant = value.lower() in _TRUE
    else:
        return None
    return _fixed(Replace(place, meant), f"write {shown(meant)}", safe=True)
