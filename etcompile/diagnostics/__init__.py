"""Define diagnostics: errors and warnings with a code, a message and a place in the input.

Every stage returns problems as `Diagnostic` values instead of raising, so that one run reports
everything that is wrong. Their texts are in `catalogue.yaml`; `output` writes them for people and
for machines. The package knows nothing of YAML or Kubernetes: a stage passes a `Location`.
"""

from etcompile.diagnostics.catalogue import RULES, Rule, Severity
from etcompile.diagnostics.diagnostic import (
    Diagnostic,
    Location,
    RefusedError,
    Source,
    ValuePath,
    diagnose,
    has_errors,
)

__all__ = [
    "RULES",
    "Diagnostic",
    "Location",
    "RefusedError",
    "Rule",
    "Severity",
    "Source",
    "ValuePath",
    "diagnose",
    "has_errors",
]
