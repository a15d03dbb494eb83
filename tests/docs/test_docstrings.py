"""An entry of a docstring says something that its name does not: a unit, a shape, a source.

`namespace: The job's namespace.` does; `namespace: Its namespace.` is left out, or says more.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "etcompile"
SAYS_NOTHING = frozenset({"a", "an", "is", "it", "its", "of", "that", "the", "this", "to", "which"})
SECTION = re.compile(r"^(?:Args|Attributes):\n((?:    .*\n?)+)", re.MULTILINE)
ENTRY = re.compile(r"^    (\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)
SAME = {"now": {"time"}}
"""Names that say the same as other words."""


def test_each_entry_says_more_than_its_name() -> None:
    repeats = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}: {text}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, name, text in entries(path.read_text("utf-8"))
        if is_empty(name, text)
    ]
    assert repeats == []


@pytest.mark.parametrize(
    ("name", "text", "empty"),
    [
        ("namespace", "Its namespace.", True),
        ("api_version", "The API version.", True),
        ("now", "The time.", True),
        ("labels", "Its label.", True),
        ("namespace", "The job's namespace.", False),
        ("now", "The time in seconds since 1970.", False),
        ("key", "In PEM.", False),
    ],
)
def test_what_says_nothing(name: str, text: str, empty: bool) -> None:
    assert is_empty(name, text) is empty


def entries(code: str) -> Iterator[tuple[int, str, str]]:
    """What a module's docstrings say of arguments and attributes: line, name and text."""
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        docstring = inspect.cleandoc(ast.get_docstring(node) or "")
        for section in SECTION.findall(docstring):
            for name, text in ENTRY.findall(section):
                yield node.lineno, name, " ".join(text.split())


def is_empty(name: str, text: str) -> bool:
    """Whether a text has no word that its name does not have."""
    known = {word.rstrip("s") for word in name.lower().split("_")} | SAME.get(name, set())
    words = re.findall(r"[a-z]+", text.lower())
    return all(word in SAYS_NOTHING or word.rstrip("s") in known for word in words)
