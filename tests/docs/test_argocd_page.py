"""docs/argocd.md lists the parameters that there are."""

import re
from pathlib import Path

from etcompile.integrations.argocd_plugin import PARAMETERS

FOLDER = Path(__file__).parents[2] / "docs"
PAGE = (FOLDER / "argocd.md").read_text("utf-8")


def test_every_parameter_is_named():
    section = PAGE.partition("### Parameters")[2].partition("### ")[0]
    assert [one.name for one in PARAMETERS if f"`{one.name}`" not in section] == []
    rows = re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)
    assert set(rows) <= {one.name for one in PARAMETERS}


def test_collections_are_called_so():
    table = PAGE.partition("### Parameters")[2].partition("### ")[0]
    for one in PARAMETERS:
        cells = re.findall(rf"^\| `{one.name}` \| ([^|]*)\|", table, re.MULTILINE)
        is_collection = one.form in ("array", "map")
        assert [cell.startswith(one.form) for cell in cells] in ([is_collection], []), one.name
        assert cells or not is_collection, one.name


def test_links_of_both_pages_lead_somewhere():
    for page in ("argocd.md", "flux.md"):
        links = re.findall(r"\]\((?!https?:)([^)#]+)", (FOLDER / page).read_text("utf-8"))
        assert [link for link in links if not (FOLDER / link).exists()] == []
