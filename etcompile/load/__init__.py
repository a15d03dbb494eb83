"""Files to documents: YAML and JSON text to JSON values that know their file, line and column.

The only package that knows how input is written. Bad input never raises: everything that is
wrong with it is a diagnostic, and one run tells all of it.
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
