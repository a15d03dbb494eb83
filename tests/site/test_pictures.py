"""The pictures of the documentation are what the script draws, and small enough for a page."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
SCRIPT = PICTURES / "make.py"


def drawn(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.suffix in (".png", ".svg")}


def test_they_are_small() -> None:
    assert drawn(PICTURES)
    large = [name for name in drawn(PICTURES) if (PICTURES / name).stat().st_size > 150_000]
    assert large == []


def test_there_is_one_for_light_and_one_for_dark_pages() -> None:
    names = drawn(PICTURES)
    assert {name.replace("-light.", "-dark.") for name in names if "-light." in name} == {
        name for name in names if "-dark." in name
    }
    assert all("-light." in name or "-dark." in name for name in names)


@pytest.mark.programs  # npm brings Mermaid
def test_the_script_draws_them_again(tmp_path: Path, browser, require) -> None:
    require("npm", which="npm")
    command = [sys.executable, SCRIPT, "-o", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert drawn(tmp_path) == drawn(PICTURES)
    # Pictures of a browser depend on its fonts: a digest says which page they are of.
    name = "photographed.json"
    assert (tmp_path / name).read_text() == (PICTURES / name).read_text(), "draw them again"
    # What etcompile draws by itself does not.
    for name in ("overview", "status", "diff", "apply", "failed"):
        for file in (f"{name}-light.svg", f"{name}-dark.svg"):
            assert (tmp_path / file).read_text() == (PICTURES / file).read_text(), file
