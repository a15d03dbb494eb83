"""The API server's validation as tables of rules, each with an example that breaks it.

What the OpenAPI schema can say stands in `schemas/kubernetes/`; what it cannot stands here, a row
a rule. The rows hold for servers with the default feature gates of their version.
"""

from etcompile.k8s.validation.rule import NEWEST, Broken, Path, Rule, Subject
from etcompile.k8s.validation.tree import Problem, Tree, problems, tree

__all__ = ["NEWEST", "Broken", "Path", "Problem", "Rule", "Subject", "Tree", "problems", "tree"]
