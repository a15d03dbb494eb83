"""Run as a KRM function for kustomize, kpt and other pipelines.

Each job in the ResourceList is replaced by the objects that it compiles to; everything else stays
as and where it is. reference/gitops.md 6.2 has the contract between pipelines and functions.
"""

from etcompile.integrations.krm.function import SCHEMAS, Answer, answer

__all__ = ["SCHEMAS", "Answer", "answer"]
