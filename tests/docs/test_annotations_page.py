"""The page of annotations names every one that the code does."""

import re
from pathlib import Path

from metadata_keys import NO_KEYS, keys

PAGE = (Path(__file__).parents[2] / "docs" / "annotations.md").read_text("utf-8")


def test_every_key_is_on_the_page():
    missing = {key for key in keys() - NO_KEYS.keys() if f"`{key}" not in PAGE}
    assert not missing


def test_the_page_names_no_key_of_ours_that_there_is_not():
    named = set(re.findall(r"`(etcompile\.dev/[a-z-]+)`", PAGE))
    known = keys()
    prefixes = tuple(key for key in known if key.endswith("-"))
    assert {key for key in named if key not in known and not key.startswith(prefixes)} == set()
