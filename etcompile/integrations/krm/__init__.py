"""A KRM function for kustomize, kpt and other pipelines: a ResourceList in, a ResourceList out.

Each job in the list is replaced by the objects that it compiles to; everything else stays as and
where it is. reference/gitops.md 6.2 has the contract between pipelines and functions.
"""

from etcompile.integrations.krm.function import SCHEMAS, Answer, answer

__all__ = ["SCHEMAS", "Answer", "answer"]
