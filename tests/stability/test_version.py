"""Every file that names the version of etcompile names one that its reader can have.

`docs/contributing/releasing.md` has the steps: the tree has the version of `etcompile/_version.py`,
which may be none that is published; pages name the newest that is, or the first that will be.
`pytest tests/stability --update-version` writes both wherever they stand.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from etcompile._version import IS_RELEASE, __version__

ROOT = Path(__file__).parents[2]
_NUMBER = r"\d+\.\d+\.\d+(?:-dev|(?:a|b|rc)\d+)?"
_NAMED = re.compile(
    rf"""(?x)
    (?: (?<![\w./-]) (?:[\w.-]+/)* etcompile(?:-argocd|-krm|-watch)? (?: :v? | @v | -v | == | -)
      | ^\s* rev: \s* v
      | ^\s* version: \s* v
      | etcompile-watch \s+ --version \s+ | etcompile/etcompile//\S+\?ref=v | `\?ref=v
      | ^\s* targetRevision: \s* | etcompile \s+ newTag: \s* | ref: \s* \{{ \s* tag: \s*
    ) ({_NUMBER}) (?![\w.]*\d)
    """,
    re.MULTILINE,
)
"""An image, a package or a revision of etcompile with its version."""
_FOLDERS = ("docs", "templates", ".github", "overlays", "examples")
_ROOT_FILES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "action.yml")
_OF_ANOTHER_TIME = re.compile(r"docs/(benchmarks|reference/)")
"""What says which version was measured, and pages about other programs."""
_EXTENSION = ("docs/editors/vscode/package.json", "docs/editors/vscode/package-lock.json")
_CHART = "templates/watcher/helm/etcompile-watch/Chart.yaml"
_KUSTOMIZATION = "templates/watcher/kustomize/base/kustomization.yaml"
NO_IMAGE = "{build-an-image-and-name-it-in-images}"
"""A tag that no image can have: braces are no part of one."""
_HEADING = re.compile(
    rf"^## ({_NUMBER}) \((unreleased|not published|\d{{4}}-\d\d-\d\d)\)$", re.MULTILINE
)


def headings() -> list[tuple[str, str]]:
    return _HEADING.findall((ROOT / "CHANGELOG.md").read_text("utf-8"))


def published() -> str:
    """The version that pages name: the newest that is published, or the first that will be."""
    dated = [version for version, date in headings() if date[0].isdigit()]
    return dated[0] if dated else __version__.removesuffix("-dev")


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
    """A page that names the version, with the one that is published."""
    return _NAMED.sub(lambda match: match[0].replace(match[1], published()), text)


def extension(text: str) -> str:
    """A `package.json` or `package-lock.json` of the extension, with the version of pages."""
    value = json.loads(text)
    old = json.dumps(value["version"])
    # Only the lines of the package itself, which come before those of what it needs.
    lines = text.splitlines(keepends=True)
    head = len(lines) if "lockfileVersion" not in value else 12
    changed = (line.replace(f'"version": {old}', f'"version": "{published()}"') for line in lines)
    return "".join(new if at < head else lines[at] for at, new in enumerate(changed))


def chart(text: str) -> str:
    return re.sub(rf'(?m)^((?:app)?[vV]ersion: "?){_NUMBER}', rf"\g<1>{__version__}", text)


def kustomization(text: str) -> str:
    """The kustomization, with the image of the tree's version or a tag that asks for one."""
    tag = __version__ if IS_RELEASE else f'"{NO_IMAGE}"'
    return re.sub(r"(?m)^(    newTag: ).*$", rf"\g<1>{tag}", text)


def test_every_file_names_its_version(request: pytest.FixtureRequest) -> None:
    named, stale = 0, []
    writers = {**dict.fromkeys(_EXTENSION, extension), _CHART: chart, _KUSTOMIZATION: kustomization}
    for file in pages():
        name = file.relative_to(ROOT).as_posix()
        try:
            text = file.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        wanted = writers.get(name, with_version)(text)
        named += len(_NAMED.findall(text)) + (name in writers)
        if wanted == text:
            continue
        if request.config.getoption("--update-version"):
            file.write_text(wanted, "utf-8")
        else:
            stale.append(name)
    assert named > 20
    assert not stale, (
        f"these do not name version {__version__}, or on pages {published()}:"
        " run `pytest tests/stability --update-version`"
    )


def test_the_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert headings(), "no heading such as `## 0.2.0 (unreleased)` or `## 0.2.0 (2026-12-01)`"
    assert headings()[0][0] == __version__.removesuffix("-dev")
    assert len(re.findall(r"^## \d", text, re.MULTILINE)) == len(headings())
    assert all(date != "unreleased" for _, date in headings()[1:])


def test_a_release_has_a_date_in_the_changelog_and_no_other_version_has() -> None:
    assert (headings()[0][1] != "unreleased") is IS_RELEASE
    git = ["git", "tag", "--points-at", "HEAD"]
    tags = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    assert IS_RELEASE or not any(tag.startswith("v") for tag in tags)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("    rev: v0.0.9", True),
        ("uses: etcompile/etcompile@v0.0.9", True),
        ("docker build -t registry.example.com/etcompile-argocd:0.0.9 .", True),
        ("pip install etcompile==0.0.9", True),
        ("  - name: ghcr.io/etcompile/etcompile\n    newTag: 0.0.9", True),
        ("ref: { tag: 0.0.9 }", True),
        ("code --install-extension etcompile-0.0.9.vsix", True),
        ("  - name: horovod/horovod\n    newTag: 0.0.9-cu118", False),
        ("image: pytorch/pytorch:0.0.9", False),
        ("apiVersion: etcompile.dev/v1", False),
        ("horovod:0.28.1", False),
    ],
)
def test_what_counts_as_naming_the_version(text: str, changed: bool) -> None:
    assert (with_version(text) != text) is changed
    assert (published() in with_version(text)) is changed
