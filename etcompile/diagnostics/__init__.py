"""What etcompile has to say: coded, located messages, from one catalogue.

Every stage reports problems as `Diagnostic` values instead of raising, so that one run can
tell everything that is wrong. The package knows nothing of YAML or Kubernetes: a stage hands
in a `Location`, and `output` turns diagnostics into what people and machines read.
"""

from typing import Any

from etcompile.diagnostics.diagnostic import (
    Diagnostic,
    Source,
    ValuePath,
    diagnose,
    has_errors,
)
from etcompile.diagnostics.location import Location
from etcompile.diagnostics.rule import Rule, Severity

__all__ = [
    "RULES",
    "Diagnostic",
    "Location",
    "Rule",
    "Severity",
    "Source",
    "ValuePath",
    "diagnose",
    "has_errors",
]


def __getattr__(name: str) -> Any:
    """The catalogue, which is read only when somebody asks for it."""
    if name == "RULES":
        from etcompile.diagnostics.catalogue import RULES  # noqa: PLC0415

        return RULES
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
