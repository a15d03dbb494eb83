"""The core of the watcher names no optional feature."""

import re
from pathlib import Path

import pytest

import etcompile.watch.core

CORE = Path(etcompile.watch.core.__file__).parent
FEATURES = ("epoch", "silence", "kueue", "goodput", "timeline", "stuck", r"\bavoid", r"\bttl")


@pytest.mark.parametrize("module", sorted(path.name for path in CORE.glob("*.py")))
def test_core_module_names_no_optional_feature(module: str) -> None:
    lines = (CORE / module).read_text("utf-8").splitlines()
    names = re.compile("|".join(FEATURES), re.IGNORECASE)
    assert [line for line in lines if names.search(line)] == []
