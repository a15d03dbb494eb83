"""What users hold on to is what `snapshots/` says: nothing goes without being told.

`pytest tests/stability --update-snapshots` writes what is new. It does not write what is gone or
changed before CHANGELOG.md tells of it, in the section of this version under Changed, Deprecated or
Removed, with its name in backticks; what no release has had is named in `never_released.yaml`.
"""

import re
from pathlib import Path

import pytest
import yaml
from snapshots_of_surfaces import Change, changes, read, text, told
from surfaces import SURFACES

from etcompile import __version__

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SNAPSHOTS = HERE / "snapshots"
_GROUPS = ("Changed", "Deprecated", "Removed")


def told_changes(version: str = __version__) -> str:
    """The groups of the changelog that tell what somebody must change for a version."""
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    section = changelog.partition(f"\n## {version} ")[2].partition("\n## ")[0]
    parts = re.split(r"^### (.*)$", section, flags=re.MULTILINE)
    return "\n".join(
        body for title, body in zip(parts[1::2], parts[2::2], strict=True) if title in _GROUPS
    )


@pytest.mark.parametrize("name", SURFACES)
def test_nothing_that_users_hold_on_to_goes_untold(
    name: str, request: pytest.FixtureRequest
) -> None:
    file = SNAPSHOTS / f"{name}.yaml"
    surface = SURFACES[name]()
    found = [*changes(read(file), surface)]
    breaking = [change for change in found if change.breaking]
    never_released = yaml.safe_load((HERE / "never_released.yaml").read_text("utf-8"))
    untold = [one for one in breaking if not told(one, told_changes(), never_released)]
    assert not untold, (
        f"this breaks what somebody has written (docs/stability.md): {_listed(untold)}. Keep it, "
        f"with a warning that it is deprecated; or tell of it in CHANGELOG.md, {__version__}, "
        f"under one of {', '.join(_GROUPS)}, and name it in backticks"
    )
    if request.config.getoption("--update-snapshots"):
        file.write_text(text(surface), "utf-8")
    elif found:
        pytest.fail(
            f"this is new, or told in the changelog: {_listed(found)}. Write it down with "
            "`pytest tests/stability --update-snapshots`, and read the diff"
        )
    assert file.read_text("utf-8") == text(surface)


def _listed(found: list[Change]) -> str:
    return "; ".join(change.words for change in found)


def test_what_no_release_had_is_really_gone() -> None:
    listed = yaml.safe_load((HERE / "never_released.yaml").read_text("utf-8"))
    snapshots = "".join(file.read_text("utf-8") for file in SNAPSHOTS.glob("*.yaml"))
    assert [name for name in listed if re.search(rf"\b{re.escape(name)}: ", snapshots)] == []
    assert all(reason for reason in listed.values())


def test_each_snapshot_is_of_a_surface() -> None:
    assert {file.stem for file in SNAPSHOTS.iterdir()} == SURFACES.keys()


RENDER, GANG, ACTION = "etcompile render", "etcompile render --gang", "plan steps[].action"
OLD = {
    RENDER: {"hidden": False},
    GANG: {"choices": ["none", "volcano"], "required": False, "default": "a"},
    ACTION: {"type": "string"},
}


@pytest.mark.parametrize(
    ("name", "facts", "words", "breaking"),
    [
        (f"{RENDER} --x", {"required": False}, "--x is new", False),
        (f"{RENDER} --x", {"required": True}, "--x is new and required", True),
        ("etcompile new ARGUMENT", {"required": True}, "ARGUMENT is new", False),
        (GANG, {**OLD[GANG], "default": "b"}, "default was a, and is b", True),
        (GANG, {**OLD[GANG], "required": True}, "required was False, and is True", True),
        (GANG, {**OLD[GANG], "choices": ["none"]}, "choices has no volcano any more", True),
        (GANG, {**OLD[GANG], "choices": ["kai", "none", "volcano"]}, "has kai, too", False),
        (ACTION, None, "plan steps[].action is gone", True),
    ],
)
def test_what_breaks_something_and_what_does_not(
    name: str, facts: dict[str, object] | None, words: str, breaking: bool
) -> None:
    new = {key: value for key, value in {**OLD, name: facts}.items() if value is not None}
    [change] = changes(OLD, new)
    assert words in change.words
    assert change.breaking is breaking
    assert not told(change, "nothing of it, not even --gang, volcano or action", {})
    assert told(change, f"what `{change.name}` does has changed", {})
    assert told(change, "", {change.name: "no release had it"})


def test_a_snapshot_reads_back_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(text(OLD))
    assert read(tmp_path / "one.yaml") == OLD
    assert [*changes(read(tmp_path / "one.yaml"), OLD)] == []
