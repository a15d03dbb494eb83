"""Read the catalogue of diagnostics, `catalogue.yaml`, as rules by code.

An entry is parsed when it is first used: a run reports few of more than two hundred codes, and
parsing all of them takes longer than compiling a small job.
"""

import enum
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec


class Severity(enum.Enum):
    """The weight of a diagnostic."""

    ERROR = "error"
    """The input is refused; nothing is written."""
    WARNING = "warning"
    """The input compiles; the user should know this. Under `--strict` it is refused as well."""


class Rule(msgspec.Struct, frozen=True):
    """An entry of the catalogue; the head of `catalogue.yaml` describes its fields."""

    code: str
    name: str
    severity: Severity
    message: str
    hint: str
    why: str
    example: str
    source: str = ""
    sample: Mapping[str, str | int] = {}


@functools.cache
def _entries() -> Mapping[str, str]:
    text = Path(__file__).with_name("catalogue.yaml").read_text("utf-8")
    _, *entries = text.split("\n- code: ")
    return {entry.partition("\n")[0]: f"- code: {entry}" for entry in entries}


@functools.cache
def codes_by_name() -> Mapping[str, str]:
    second_lines = {code: entry.split("\n", 2)[1] for code, entry in _entries().items()}
    return {line.removeprefix("  name: "): code for code, line in second_lines.items()}


@functools.cache
def _rule(code: str) -> Rule:
    [entry] = msgspec.yaml.decode(_entries()[code])
    return Rule(**{**entry, "severity": Severity(entry["severity"])})


class _Catalogue(Mapping[str, Rule]):
    def __getitem__(self, code: str) -> Rule:
        return _rule(code)

    def __iter__(self) -> Iterator[str]:
        return iter(_entries())

    def __len__(self) -> int:
        return len(_entries())


RULES: Mapping[str, Rule] = _Catalogue()
