"""Objects to bytes: the writer, the order, the layouts and the output folder.

The only stage that turns objects into text, so that every command writes the same bytes for the
same objects. All of it but `write` is pure.
"""

from etcompile.emit.directory import WriteResult, write
from etcompile.emit.layout import Group, layout
from etcompile.emit.order import WAVE_CONFIG, WAVE_IDENTITY, WAVE_PODS, ordered, wave
from etcompile.emit.stream import HEADER, header, stream
from etcompile.emit.yaml import to_yaml

__all__ = [
    "HEADER",
    "WAVE_CONFIG",
    "WAVE_IDENTITY",
    "WAVE_PODS",
    "Group",
    "WriteResult",
    "header",
    "layout",
    "ordered",
    "stream",
    "to_yaml",
    "wave",
    "write",
]
