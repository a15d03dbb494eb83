"""Every file that names the version of etcompile names the one in `etcompile/_version.py`.

A release raises that file and then runs `pytest tests/stability --update-version`, which writes
the version wherever else it stands: pages that show how etcompile is installed, the extension for
VS Code, the heads of the Dockerfiles.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from etcompile import __version__

ROOT = Path(__file__).parents[2]
_NUMBER = r"\d+\.\d+\.\d+(?:\.?(?:a|b|rc|dev)\d+)?"
_NAMED = re.compile(
    rf"""(?x)
    (?: (?<![\w./-]) (?:[\w.-]+/)* etcompile(?:-argocd|-watch)? (?: :v? | @v | -v | == )
      | ^\s* rev: \s* v
      | ^\s* version: \s* v
      | etcompile-watch \s+ --version \s+ | etcompile/etcompile//\S+\?ref=v
      | ^\s* targetRevision: \s* | etcompile \s+ newTag: \s* | ref: \s* \{{ \s* tag: \s*
      | ^(?: version | appVersion ): \s* "?
    ) ({_NUMBER}) (?![\w.]*\d)
    """,
    re.MULTILINE,
)
"""An image, a package or a revision of etcompile with its version."""
_FOLDERS = ("docs", "templates", ".github", "overlays", "examples")
_ROOT_FILES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "action.yml", "mkdocs.yml")
_OF_ANOTHER_TIME = re.compile(r"docs/(benchmarks|reference/)")
"""What tells which version was measured, and pages about other programs."""
_EXTENSION = ("docs/editors/vscode/package.json", "docs/editors/vscode/package-lock.json")


def pages() -> Iterator[Path]:
    """The text files that may name the version for whoever installs etcompile."""
    files = [ROOT / name for name in _ROOT_FILES]
    for folder in _FOLDERS:
        files += sorted((ROOT / folder).rglob("*"))
    for file in files:
        name = file.relative_to(ROOT).as_posix()
        parts = ("node_modules", "out")
        if file.is_file() and not _OF_ANOTHER_TIME.match(name) and not {*parts} & {*file.parts}:
            yield file


def with_version(text: str) -> str:
    """A text that names the version, with the one that there is."""
    return _NAMED.sub(lambda found: found[0].replace(found[1], __version__), text)


def extension(text: str) -> str:
    """A `package.json` or `package-lock.json` of the extension, with the version that there is."""
    value = json.loads(text)
    old = json.dumps(value["version"])
    # Only the lines of the package itself, which come before those of what it needs.
    lines = text.splitlines(keepends=True)
    head = len(lines) if "lockfileVersion" not in value else 12
    changed = (line.replace(f'"version": {old}', f'"version": "{__version__}"') for line in lines)
    return "".join(new if at < head else lines[at] for at, new in enumerate(changed))


def test_every_file_names_this_version(request: pytest.FixtureRequest) -> None:
    named, stale = 0, []
    for file in pages():
        name = file.relative_to(ROOT).as_posix()
        try:
            text = file.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        wanted = extension(text) if name in _EXTENSION else with_version(text)
        named += len(_NAMED.findall(text)) + (name in _EXTENSION)
        if wanted == text:
            continue
        if request.config.getoption("--update-version"):
            file.write_text(wanted, "utf-8")
        else:
            stale.append(name)
    assert named > 10
    assert not stale, (
        f"these do not name version {__version__}: run `pytest tests/stability --update-version`"
    )


def test_the_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    headings = re.findall(
        rf"^## ({_NUMBER}) \((unreleased|\d{{4}}-\d\d-\d\d)\)$", text, re.MULTILINE
    )
    assert headings, "no heading such as `## 0.2.0 (unreleased)` or `## 0.2.0 (2026-12-01)`"
    assert headings[0][0] == __version__
    assert len(re.findall(r"^## \d", text, re.MULTILINE)) == len(headings)
    assert all(date != "unreleased" for _, date in headings[2:]), "only the newest are unreleased"


def test_a_release_has_its_date_in_the_changelog() -> None:
    git = ["git", "tag", "--points-at", "HEAD"]
    tags = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if f"v{__version__}" in tags:
        assert f"## {__version__} (unreleased)" not in (ROOT / "CHANGELOG.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("    rev: v0.0.9", True),
        ("uses: etcompile/etcompile@v0.0.9", True),
        ("docker build -t registry.example.com/etcompile-argocd:0.0.9 .", True),
        ("pip install etcompile==0.0.9", True),
        ("  - name: ghcr.io/etcompile/etcompile\n    newTag: 0.0.9", True),
        ("ref: { tag: 0.0.9 }", True),
        ("  - name: horovod/horovod\n    newTag: 0.0.9-cu118", False),
        ("image: pytorch/pytorch:0.0.9", False),
        ("apiVersion: etcompile.dev/v1", False),
        ("horovod:0.28.1", False),
    ],
)
def test_what_counts_as_naming_the_version(text: str, changed: bool) -> None:
    assert (with_version(text) != text) is changed
    assert (f"{__version__}" in with_version(text)) is changed
