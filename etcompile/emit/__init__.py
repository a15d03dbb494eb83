"""Objects to bytes: the writer, the order, the layouts and the output folder.

No other stage turns objects into text, so every command writes the same bytes for the same objects.
Everything but `write` is pure.
"""

import importlib
from typing import TYPE_CHECKING, Any

from etcompile.emit.layout import HEADER, Group, blocks, header, layout, stream
from etcompile.emit.order import (
    WAVE_CONFIG,
    WAVE_IDENTITY,
    WAVE_PODS,
    Packed,
    merged,
    ordered,
    wave,
)
from etcompile.emit.yaml import to_yaml

if TYPE_CHECKING:
    from etcompile.emit.directory import WriteResult, refusal, refusals, write
    from etcompile.emit.output_state import LOCK, Comparison, Record, compare, with_lock

__all__ = [
    "HEADER",
    "LOCK",
    "WAVE_CONFIG",
    "WAVE_IDENTITY",
    "WAVE_PODS",
    "Comparison",
    "Group",
    "Packed",
    "Record",
    "WriteResult",
    "blocks",
    "compare",
    "header",
    "layout",
    "merged",
    "ordered",
    "refusal",
    "refusals",
    "stream",
    "to_yaml",
    "wave",
    "with_lock",
    "write",
]

# What a folder needs, and a stream does not, is imported at its first use.
_OF_FOLDERS = {
    **dict.fromkeys(("WriteResult", "refusal", "refusals", "write"), "directory"),
    **dict.fromkeys(("LOCK", "Comparison", "Record", "compare", "with_lock"), "output_state"),
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> Any:
        if name not in _OF_FOLDERS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_OF_FOLDERS[name]}"), name)
