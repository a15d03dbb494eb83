"""The version before this one, which the tests of upgrades compare with."""

from collections.abc import Callable
from pathlib import Path

import pytest
from versions_before import NoHistoryError, previous_revision, source_tree


@pytest.fixture(scope="session")
def revision_before(require: Callable[..., str]) -> str:
    """Its commit; the test is skipped where the history does not reach back to it."""
    revision, why = "", ""
    try:
        revision = previous_revision()
    except NoHistoryError as error:
        why = str(error)
    require("history", present=bool(revision), why=why)
    return revision


@pytest.fixture(scope="session")
def tree_before(revision_before: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its source."""
    return source_tree(revision_before, tmp_path_factory.mktemp("before"))
