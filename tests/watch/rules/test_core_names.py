"""The core of the watcher names no optional feature, and each feature is small."""

import re
from pathlib import Path

import pytest

import etcompile.watch.core

CORE = Path(etcompile.watch.core.__file__).parent
LISTENERS = CORE.with_name("listeners")
FEATURES = (
    "epoch",
    "silence",
    "kueue",
    "goodput",
    "timeline",
    "stuck",
    r"\bavoid",
    r"\bttl",
    "lost_node",
)


@pytest.mark.parametrize("module", sorted(path.name for path in CORE.glob("*.py")))
def test_core_module_names_no_optional_feature(module: str) -> None:
    lines = (CORE / module).read_text("utf-8").splitlines()
    names = re.compile("|".join(FEATURES), re.IGNORECASE)
    assert [line for line in lines if names.search(line)] == []


@pytest.mark.parametrize("module", sorted(path.name for path in LISTENERS.glob("*.py")))
def test_listener_has_at_most_150_lines(module: str) -> None:
    assert len((LISTENERS / module).read_text("utf-8").splitlines()) <= 150
