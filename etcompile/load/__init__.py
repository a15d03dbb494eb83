"""Load files: YAML and JSON text to JSON values that know their file, line and column.

Only this package knows how input is written. Bad input never raises; one run reports all of its
problems as diagnostics.
"""

from etcompile.load.access import Boundary, Limits
from etcompile.load.loader import Document, Input, Loaded, from_values, load, parse

__all__ = [
    "Boundary",
    "Document",
    "Input",
    "Limits",
    "Loaded",
    "from_values",
    "load",
    "parse",
]
