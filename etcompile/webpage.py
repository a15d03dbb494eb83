"""What all pages that etcompile writes have in common: one file each, which loads nothing.

A page is sent to somebody and opened years later, so it names no address. What is shown in it was
written by others (names, messages, last lines of logs), so all of it goes through `escaped`. The
colours follow the reader's light or dark setting.
"""

from collections.abc import Iterable, Iterator
from html import escape

from etcompile.diagnostics.output.characters import printable

STYLE = """\
:root {
  color-scheme: light dark;
  --ground: #ffffff; --panel: #f6f8fa; --line: #d1d9e0; --ink: #1f2328; --soft: #59636e;
  --new: #1a7f37; --new-ground: #dafbe1; --gone: #cf222e; --gone-ground: #ffebe9;
  --change: #9a6700; --change-ground: #fff8c5; --remake: #8250df; --remake-ground: #fbefff;
  --focus: #0969da;
  --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0d1117; --panel: #151b23; --line: #3d444d; --ink: #f0f6fc; --soft: #9198a1;
    --new: #3fb950; --new-ground: #12261e; --gone: #f85149; --gone-ground: #25171c;
    --change: #d29922; --change-ground: #272115; --remake: #ab7df8; --remake-ground: #211b34;
    --focus: #4493f8;
  }
}
* { box-sizing: border-box }
body {
  margin: 0 auto; max-width: 1200px; padding: 24px; background: var(--ground); color: var(--ink);
  font: 14px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
h1 { font-size: 22px; margin: 0; overflow-wrap: anywhere }
h2 { font-size: 16px; margin: 0; display: inline }
section { margin-top: 24px }
.summary { font-size: 16px; font-weight: 600; margin: 4px 0 0; overflow-wrap: anywhere }
footer { color: var(--soft); margin-top: 32px }
summary { cursor: pointer }
:focus-visible { outline: 2px solid var(--focus); outline-offset: 1px }
[hidden] { display: none !important }
@media (max-width: 700px) { body { padding: 12px } }
"""
"""The colours, the type and the space around them."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def escaped(words: str) -> str:
    """Anybody's words as text of a page: no markup, and nothing that hides or turns around others.

    Args:
        words: What is to be read; it may stand in the value of an attribute, too.
    """
    return escape(printable(words, keep="\n\t"))


def document(
    title: str, body: Iterable[str], *, style: str, version: str, script: str = ""
) -> Iterator[str]:
    """The lines of a page.

    Args:
        title: What a browser calls it.
        body: The lines of its body, as HTML.
        style: The style that it has beside `STYLE`.
        version: The version of etcompile, for the foot of the page.
        script: What it does by itself; without it, everything can be read.
    """
    yield "<!DOCTYPE html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<title>{escaped(title)}</title>"
    yield f"<style>\n{STYLE}{style}</style></head><body>"
    yield from body
    yield f"<footer>etcompile {escaped(version)}</footer>"
    if script:
        yield f"<script>\n{script}</script>"
    yield "</body></html>"
