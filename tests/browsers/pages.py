"""What holds for each page that etcompile writes."""

from html.parser import HTMLParser
from typing import Any


class _Outside(HTMLParser):
    """Addresses that a page would load, headings, and tags that are not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.open: list[str] = []
        self.headings: list[int] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.addresses += [
            value
            for name, value in attrs
            if name in ("src", "href", "data", "action", "poster") and not value.startswith("#")
        ]
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdecimal():
            self.headings.append(int(tag[1]))
        if tag not in ("meta", "input", "br", "link", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.handle_starttag(tag, attrs)
        self.open.remove(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_page(text: str) -> None:
    """Fails if a page names an address, is not well formed, or has headings out of order."""
    parser = _Outside()
    parser.feed(text)
    assert parser.addresses == []
    assert parser.open == []
    assert parser.headings[0] == 1
    assert parser.headings.count(1) == 1
    steps = zip(parser.headings, parser.headings[1:], strict=False)
    assert all(after <= before + 1 for before, after in steps)
    assert "url(" not in text.replace("url(#", "")
    assert "@import" not in text
    assert '<html lang="en">' in text
    assert "<title>" in text
