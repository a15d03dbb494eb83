"""A KRM function: a ResourceList in, one out, for kustomize, kpt and whatever else pipes objects.

The compiler knows files, this knows lists of objects that a pipeline passes along: what of them is
a job is replaced by what it compiles to, everything else stays as it is and where it is. Apart from
the command line, because the contract with the pipeline (reference/gitops.md 6.2) is not ours.
"""

from etcompile.integrations.krm.config import CONFIG_KINDS
from etcompile.integrations.krm.function import Answer, answer

__all__ = ["CONFIG_KINDS", "Answer", "answer"]
