"""Every message etcompile can give, with its stable code.

The thousands of a code say which stage speaks, and have a module each. Messages and hints name
their facts in braces; `explain` prints the rest.
"""

from etcompile.diagnostics.catalogue import (
    cluster,
    lint,
    loading,
    objects,
    output,
    overlays,
    plan,
    scaling,
    specification,
)
from etcompile.diagnostics.rule import Rule

_STAGES = (loading, specification, scaling, objects, output, overlays, plan, cluster, lint)

RULES: dict[str, Rule] = {rule.code: rule for stage in _STAGES for rule in stage.RULES}
"""The catalogue, by code."""
