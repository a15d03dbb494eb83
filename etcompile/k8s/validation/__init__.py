"""Validate objects as the API server does: rules of `schemas/kubernetes/rules.yaml`, one engine.

`schemas/kubernetes/` holds what an OpenAPI schema can express. Each row of `rules.yaml` is a rule
that it cannot express, with an example that breaks it. The rows hold for servers with the default
feature gates of their version.
"""

from etcompile.k8s.validation.checks import Subject
from etcompile.k8s.validation.engine import Problem, object_problems, pod_problems, templates_of

__all__ = ["Problem", "Subject", "object_problems", "pod_problems", "templates_of"]
