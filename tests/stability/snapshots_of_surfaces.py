"""A surface as a file that people read, and what is different between two of them.

Something that is new does nobody harm. Something that is gone, or has another meaning, breaks what
somebody has written, so it must be told.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from surfaces import Facts, Surface


class Change(NamedTuple):
    """A difference between two surfaces.

    Args:
        name: The thing, as a user says it; the value that is gone, where it is one of several.
        words: What is different.
        breaking: Whether that may break what somebody has written.
    """

    name: str
    words: str
    breaking: bool


def text(surface: Surface) -> str:
    """A surface as YAML, one line a thing, sorted."""
    lines = (f"{_flow(name)}: {_flow(dict(facts))}\n" for name, facts in sorted(surface.items()))
    return "".join(lines)


def _flow(value: Any) -> str:
    dumped = yaml.safe_dump(value, default_flow_style=True, width=2**20, sort_keys=True)
    return str(dumped).removesuffix("\n").removesuffix("\n...")


def read(file: Path) -> Surface:
    """What a file has; nothing if there is none."""
    found: Surface = yaml.safe_load(file.read_text("utf-8")) if file.exists() else {}
    return found


def changes(old: Surface, new: Surface) -> Iterator[Change]:
    """What is different, that of the old one first."""
    for name, facts in old.items():
        if name in new:
            yield from _of_facts(name, facts, new[name])
        else:
            yield Change(_last(name), f"{name} is gone", breaking=True)
    for name, facts in new.items():
        if name in old:
            continue
        above = name.rpartition(" ")[0]
        if facts.get("required") and (above in old or not above):
            yield Change(_last(name), f"{name} is new and required", breaking=True)
        else:
            yield Change(_last(name), f"{name} is new", breaking=False)


def _of_facts(name: str, old: Facts, new: Facts) -> Iterator[Change]:
    for fact in sorted({*old, *new}):
        before, after = old.get(fact), new.get(fact)
        if before == after:
            continue
        if isinstance(before, list) and isinstance(after, list):
            for value in (value for value in before if value not in after):
                yield Change(str(value), f"{name}: {fact} has no {value} any more", breaking=True)
            for value in (value for value in after if value not in before):
                yield Change(_last(name), f"{name}: {fact} has {value}, too", breaking=False)
        elif fact not in old:
            yield Change(
                _last(name), f"{name}: {fact} is {after}", breaking=isinstance(after, list)
            )
        elif fact not in new:
            yield Change(_last(name), f"{name}: {fact} is not {before} any more", breaking=True)
        else:
            milder = fact in ("required", "deprecated") and (before, after) in _MILDER
            words = f"{name}: {fact} was {before}, and is {after}"
            yield Change(_last(name), words, breaking=not milder)


_MILDER = {(True, False)}
"""What was required and is not any more breaks nothing."""


def _last(name: str) -> str:
    return name.rpartition(" ")[2].rpartition(".")[2] if " " in name else name


def told(change: Change, changelog: str, never_released: Mapping[str, str]) -> bool:
    """Whether users are told of a change that breaks something.

    Args:
        change: The change.
        changelog: The groups Changed, Deprecated and Removed of this version.
        never_released: What is gone and no release had, each with the reason.
    """
    return change.name in never_released or any(
        change.name in quoted for quoted in changelog.split("`")[1::2]
    )
