"""How much input a run accepts.

The limits stand apart from the readers because every one of them honours the same set, and
because an embedding program may want its own.
"""

from msgspec import Struct

from etcompile.load.access import Boundary


class Limits(Struct, frozen=True):
    """Bounds that keep a wrong or hostile file from occupying a machine.

    Args:
        file_bytes: Largest file, in bytes.
        depth: Deepest nesting of lists and mappings, aliases expanded, in levels.
        alias_values: How many values the aliases of one file may expand to in all.
        alias_bytes: How many bytes of text the aliases of one file may expand to in all.
        documents: How many documents one file may hold.
        boundary: Where everything must lie that is read; None if any place will do.
    """

    file_bytes: int = 16 * 1024 * 1024
    depth: int = 64
    alias_values: int = 100_000
    alias_bytes: int = 4 * 1024 * 1024
    documents: int = 10_000
    boundary: Boundary | None = None
