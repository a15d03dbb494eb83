"""The extension for VS Code builds from its lock file; what the page says starts the server."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "docs" / "editors" / "vscode"


@pytest.fixture
def built(tmp_path, require):
    npm = require("npm", which="npm")
    folder = tmp_path / "vscode"
    shutil.copytree(EXTENSION, folder, ignore=shutil.ignore_patterns("node_modules", "dist"))
    for command in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
        done = subprocess.run([npm, *command], cwd=folder, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
    return folder


@pytest.mark.programs
def test_the_extension_builds_and_has_what_its_manifest_promises(built):
    manifest = json.loads((built / "package.json").read_text("utf-8"))
    program = built / manifest["main"]
    assert program.is_file()
    text = (built / "extension.js").read_text("utf-8")
    for command in manifest["contributes"]["commands"]:
        assert f'registerCommand("{command["command"]}"' in text
    check = ["node", "--check", program]
    subprocess.run(check, check=True)


def test_what_packs_the_extension_knows_where_the_links_of_its_page_lead():
    manifest = json.loads((EXTENSION / "package.json").read_text("utf-8"))
    place = manifest["repository"]["directory"]
    assert (ROOT / place).samefile(EXTENSION)
    left_out = (EXTENSION / ".vscodeignore").read_text("utf-8").splitlines()
    assert "node_modules/**" in left_out
    assert not {"dist/**", "package.json", "README.md"} & {*left_out}


def test_the_lock_file_names_no_address():
    """Whoever builds it takes packages from where their own npm does."""
    lock = (EXTENSION / "package-lock.json").read_text("utf-8")
    assert "resolved" not in lock
    assert "http" not in json.dumps([*json.loads(lock)["packages"]])


def test_the_settings_of_the_pages_start_the_server():
    page = (ROOT / "docs" / "editors.md").read_text("utf-8")
    assert 'cmd = { "etcompile", "lsp" }' in page
    assert 'args = ["lsp"]' in page
    done = subprocess.run(
        [sys.executable, "-m", "etcompile", "lsp", "--help"], capture_output=True, check=False
    )
    assert done.returncode == 0
