"""The page of annotations, or that of a kind, names every key that the code does."""

import re
from pathlib import Path

from metadata_keys import NO_KEYS, keys

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "annotations.md").read_text("utf-8")
KINDS = "".join(page.read_text("utf-8") for page in (DOCS / "kinds").glob("*.md"))


def test_every_key_is_on_the_page_or_that_of_its_kind():
    missing = {key for key in keys() - NO_KEYS.keys() if f"`{key}" not in PAGE + KINDS}
    assert not missing


def test_the_page_names_no_key_of_ours_that_there_is_not():
    named = set(re.findall(r"`(etcompile\.dev/[a-z-]+)`", PAGE))
    known = keys()
    prefixes = tuple(key for key in known if key.endswith("-"))
    assert {key for key in named if key not in known and not key.startswith(prefixes)} == set()
