"""What the release workflow makes besides packages: the man page, and the plugin of krew."""

import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path

import yaml

from etcompile import __version__

ROOT = Path(__file__).parents[2]
RELEASE = ROOT / ".github" / "release"


def run(*words: object) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def manual() -> str:
    return run(RELEASE / "manual.py", "2026-11-28")


def test_man_page_has_every_command_and_option() -> None:
    page = manual()
    assert page.startswith(f'.TH ETCOMPILE 1 "2026-11-28" "etcompile {__version__}"')
    for section in ("NAME", "DESCRIPTION", "COMMANDS"):
        assert f"\n.SH {section}\n" in page
    for command in ("render", "argocd plugin", "capacity snapshot"):
        assert f"\n.SS etcompile {command}\n" in page
    assert "\\-\\-output\\-dir DIR" in page


def test_man_page_is_what_mandoc_accepts(tmp_path: Path, require) -> None:
    mandoc = require("mandoc", which="mandoc")
    (tmp_path / "etcompile.1").write_text(manual())
    words = [mandoc, "-T", "lint", "-W", "warning", tmp_path / "etcompile.1"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_plugin_of_krew_has_an_archive_for_each_platform(tmp_path: Path) -> None:
    single, out = tmp_path / "single", tmp_path / "krew"
    single.mkdir()
    for platform in ("linux-x86_64", "linux-arm64", "macos-arm64"):
        (single / f"etcompile-{platform}").write_text(f"#!/bin/sh\necho {platform}\n")
    run(RELEASE / "krew.py", "1.2.3", single, out)
    plugin = yaml.safe_load((out / "etcompile.yaml").read_text("utf-8"))
    spec = plugin["spec"]
    assert (plugin["metadata"]["name"], spec["version"]) == ("etcompile", "v1.2.3")
    assert len(spec["shortDescription"]) <= 50
    labels = [entry["selector"]["matchLabels"] for entry in spec["platforms"]]
    assert [(label["os"], label["arch"]) for label in labels] == [
        ("linux", "arm64"),
        ("linux", "amd64"),
        ("darwin", "arm64"),
    ]
    for entry in spec["platforms"]:
        address, _, name = entry["uri"].rpartition("/")
        assert address == "https://github.com/etcompile/etcompile/releases/download/v1.2.3"
        content = (out / name).read_bytes()
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
        with tarfile.open(out / name) as tar:
            assert tar.getmember(entry["bin"]).mode == 0o755
            assert {*tar.getnames()} == {file["from"] for file in entry["files"]}


def test_release_publishes_them() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    [creates] = [line for line in workflow.splitlines() if "dist/* single/*" in line]
    assert {"krew/*", "etcompile.1"} <= {*creates.split()}
    for script in RELEASE.iterdir():
        assert f".github/release/{script.name}" in workflow
