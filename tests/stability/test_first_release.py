"""Pages send nobody to what is not published: until a release exists, they say so beside it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from etcompile._version import IS_RELEASE
from etcompile.cli import command_line
from etcompile.cli.main import program
from etcompile.integrations import scaffold
from stability.test_version import ROOT, headings

LIST = ROOT / "docs" / "contributing" / "releasing.md"
PAGES = sorted(
    page
    for folder in ("docs", "templates", "overlays", "examples")
    for page in (ROOT / folder).rglob("*.md")
    if not {"reference", "node_modules"} & {*page.parts} and page != LIST
)
PAGES += [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
RELEASED = any(date[0].isdigit() for _, date in headings())
MARK = re.compile(r"first\s+release|no\s+release\s+yet", re.IGNORECASE)
PUBLISHED = re.compile(
    r"""(?x)
    (?: \binstall | \bupgrade | \b-U ) [ ]+ '?etcompile (?! -) \b
    | \buvx \s etcompile
    | ghcr\.io/etcompile/ [\w/-]+ : v?\d
    | oci://ghcr\.io/etcompile | repoURL: \s ghcr\.io/etcompile
    | etcompile/etcompile@v\d | \brev: \s v\d | \?ref=v\d
    | \bgh \s (?: release | attestation )
    """
)
"""What exists from the first release on: packages, images, the chart, tags."""


def sections(text: str) -> Iterator[str]:
    fenced = False
    part: list[str] = []
    for line in text.splitlines():
        fenced ^= line.lstrip().startswith("```")
        if line.startswith("#") and not fenced:
            yield "\n".join(part)
            part = []
        part.append(line)
    yield "\n".join(part)


@pytest.mark.skipif(RELEASED, reason="there is a release")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_section_that_names_something_unpublished_says_so(page: Path) -> None:
    unmarked = [
        match[0]
        for part in sections(page.read_text("utf-8"))
        if not MARK.search(part)
        for match in PUBLISHED.finditer(part)
    ]
    assert unmarked == []


def test_the_list_for_the_first_release_has_every_page_that_waits_for_it() -> None:
    waiting = {
        page.relative_to(ROOT).as_posix() for page in PAGES if MARK.search(page.read_text("utf-8"))
    }
    [table] = re.findall(r"\n\| file \|.*?\n\n", LIST.read_text("utf-8"), re.DOTALL)
    listed = {
        name
        for row in table.split("\n| ")[2:]
        for name in re.findall(r"`([^`]+)`", row[: row.index("|")])
    }
    assert waiting == (set() if RELEASED else listed)


@pytest.mark.skipif(RELEASED, reason="there is a release")
def test_no_message_or_help_installs_what_is_not_published() -> None:
    files = (*(ROOT / "etcompile").rglob("*.py"), *(ROOT / "etcompile").rglob("*.yaml"))
    installs = re.compile(r"(?:pip|pipx|uv tool) install '?etcompile(?! @)")
    installs_by_file = {
        path.relative_to(ROOT): installs.findall(path.read_text("utf-8")) for path in files
    }
    assert {path: words for path, words in installs_by_file.items() if words} == {}


@pytest.mark.parametrize(
    "words",
    [["watch", "--manifests", "-n", "nlp"], ["argocd", "sidecar"]],
    ids=lambda words: words[0],
)
def test_only_a_release_names_an_image_by_itself(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_line, "IS_RELEASE", False)
    refused = CliRunner().invoke(program, words)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "is not a release" in refused.stderr
    [advised] = re.findall(r"--image (\S+)", refused.stderr)
    assert f"image: {advised}\n" in CliRunner().invoke(program, [*words, "--image", advised]).stdout
    monkeypatch.setattr(command_line, "IS_RELEASE", True)
    monkeypatch.setattr(command_line, "__version__", "7.0.0")
    name = advised.removesuffix(":dev")
    assert f"image: {name}:7.0.0\n" in CliRunner().invoke(program, words).stdout


def test_a_new_repository_installs_what_can_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    files = (".github/workflows/etcompile.yaml", ".pre-commit-config.yaml")
    for released, package in (
        (True, "etcompile==7.0.0"),
        (False, "etcompile @ git+https://github.com/etcompile/etcompile@main"),
    ):
        monkeypatch.setattr(scaffold, "IS_RELEASE", released)
        monkeypatch.setattr(scaffold, "__version__", "7.0.0")
        written = scaffold.repository_files(
            "none",
            "t",
            namespace="t",
            repository="",
            known_as="",
            owner="@t",
            kubernetes_version="1.34",
        )
        for file in files:
            assert package in written[file]


def test_the_sign_of_a_release_is_read_in_one_place() -> None:
    reading = {
        path.relative_to(ROOT / "etcompile").as_posix()
        for path in (ROOT / "etcompile").rglob("*.py")
        if "IS_RELEASE" in path.read_text("utf-8")
    }
    assert reading == {"_version.py", "cli/command_line.py", "integrations/scaffold.py"}
    assert isinstance(IS_RELEASE, bool)
