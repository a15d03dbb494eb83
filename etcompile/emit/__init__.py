"""Write objects as bytes: the writer, the order, the layouts and the output folder.

No other stage turns objects into text, so every command writes the same bytes for the same objects.
Everything here is pure. Two modules are imported only for an output folder: `output_state` compares
it with its desired content, and `directory` writes it.
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
