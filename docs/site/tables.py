"""Tables that can be read on a telephone.

A wide table becomes a list there: a row is an item, and each value carries the heading of its
column. Long names in code may break after a dot, a slash or a hyphen.
"""

import html
import re

from docutils import nodes
from sphinx.writers.html5 import HTML5Translator

_TELEPHONE = 35
"""Characters side by side in a table on a telephone."""
_COMFORTABLE = 12
"""Characters that a column of text should have."""
_BREAKABLE = re.compile(r"(?<=[\w\])}*])([./=:_-]+)(?=[\w\[({<*])|(?<=[a-z])(?=[A-Z][a-z])")
_SHORT = 20
"""Names in code of this length do not break."""


class Translator(HTML5Translator):
    """Writes the heading of a column beside each value, and where a name in code may break."""

    def visit_entry(self, node: nodes.Element) -> None:
        """Begins a cell."""
        super().visit_entry(node)
        if label := node.get("label"):
            mark = f'<td data-label="{html.escape(label)}"'
            self.body[-1] = self.body[-1].replace("<td", mark, 1)

    def visit_Text(self, node: nodes.Text) -> None:  # noqa: N802
        """Write a text."""
        begin = len(self.body)
        super().visit_Text(node)
        if isinstance(node.parent, nodes.literal) and len(node) > _SHORT:
            self.body[begin:] = [_BREAKABLE.sub(r"\g<0><wbr>", text) for text in self.body[begin:]]


def label_cells(table: nodes.table) -> None:
    """Mark a table that is too wide for a phone, and write the heading into each cell."""
    heads, *rows = [list(row.findall(nodes.entry)) for row in table.findall(nodes.row)]
    columns = zip(heads, *rows, strict=False)
    width = sum(max(map(_width, column)) for column in columns)
    if width <= _TELEPHONE:
        return
    table["classes"].append("stacks")
    for row in rows:
        for head, entry in zip(heads[1:], row[1:], strict=False):
            if entry.astext().strip():
                entry["label"] = head.astext()


def _width(entry: nodes.Element) -> int:
    """Return the minimal width of a cell: its longest word, and more for a text."""
    words = [""]
    for text in entry.findall(nodes.Text):
        long_name = isinstance(text.parent, nodes.literal) and len(text) > _SHORT
        words += (_BREAKABLE.sub(r"\g<0> ", text) if long_name else text).split()
    return max(*map(len, words), min(len(entry.astext()), _COMFORTABLE))
