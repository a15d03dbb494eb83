"""Objects to bytes: the writer, the order, the layouts and the output folder.

No other stage turns objects into text, so every command writes the same bytes for the same objects.
Everything here is pure. What a folder needs, and a stream does not, is imported from its module:
`output_state` compares one with what it should hold, and `directory` writes it.
"""

from etcompile.emit.layout import HEADER, Group, blocks, header, layout, stream
from etcompile.emit.order import Packed, merged, ordered
from etcompile.emit.yaml import to_yaml

__all__ = [
    "HEADER",
    "Group",
    "Packed",
    "blocks",
    "header",
    "layout",
    "merged",
    "ordered",
    "stream",
    "to_yaml",
]
