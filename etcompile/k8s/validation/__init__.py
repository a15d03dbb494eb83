"""The API server's validation: rules as rows of `schemas/kubernetes/rules.yaml`, and one engine.

What the OpenAPI schema can say stands in `schemas/kubernetes/`; what it cannot stands in that
file, a row a rule, each with an example that breaks it. The rows hold for servers with the default
feature gates of their version.
"""

from etcompile.k8s.validation.checks import Subject
from etcompile.k8s.validation.engine import Problem, object_problems, pod_problems, templates_of

__all__ = ["Problem", "Subject", "object_problems", "pod_problems", "templates_of"]
