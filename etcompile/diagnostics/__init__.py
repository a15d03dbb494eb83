"""What etcompile has to say: coded, located messages, from one catalogue.

Every stage reports problems as `Diagnostic` values instead of raising, so that one run can
tell everything that is wrong. The package knows nothing of YAML or Kubernetes: a stage hands
in a `Location`, and `output` turns diagnostics into what people and machines read.
"""

from etcompile.diagnostics.catalogue import RULES, Rule, Severity
from etcompile.diagnostics.diagnostic import (
    Diagnostic,
    Source,
    ValuePath,
    diagnose,
    has_errors,
)
from etcompile.diagnostics.location import Location

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
