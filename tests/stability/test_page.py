"""docs/stability.md, the changelog and SECURITY.md name what is there, and all that is promised."""

import re
from pathlib import Path

import pytest
from surfaces import SURFACES, supported

from etcompile import __version__

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "stability.md").read_text("utf-8")


def test_each_snapshot_is_promised_on_the_page() -> None:
    named = {name for name in re.findall(r"`([\w-]+)\.yaml`", PAGE) if name in SURFACES}
    assert named == SURFACES.keys()


def test_the_versions_of_the_page_are_those_that_are_supported() -> None:
    known = supported()
    for name in ("Python", "Kubernetes"):
        versions = known[name]["versions"]
        [row] = re.findall(rf"^\| {name}[^|]*\| (\S+ to \S+) \|", PAGE, re.MULTILINE)
        assert row == f"{versions[0]} to {versions[-1]}"


def test_the_page_says_whether_anything_is_deprecated() -> None:
    snapshots = ROOT / "tests" / "stability" / "snapshots" / "commands.yaml"
    is_any = bool(re.search(r"deprecated: (?!false)", snapshots.read_text("utf-8")))
    minor = ".".join(__version__.split(".")[:2])
    assert (f"Nothing is deprecated in {minor}." in PAGE) is not is_any


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ["docs/stability.md", "CHANGELOG.md", "SECURITY.md"])
def test_every_link_leads_somewhere(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", text)
    assert links
    for link in links:
        target, _, anchor = link.partition("#")
        file = (ROOT / name).parent / target if target else ROOT / name
        assert file.exists(), link
        assert not anchor or anchor in anchors(file.read_text("utf-8")), link
