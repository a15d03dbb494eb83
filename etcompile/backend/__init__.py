"""A job to Kubernetes objects, a module per kind of object.

The backend knows Kubernetes and the model, and no kind of job: what et-operator calls a
volume or a label comes to it as data. Objects are plain JSON values.
"""

from etcompile.backend.identity import spec_hash
from etcompile.backend.lower import lower, namespace_reason
from etcompile.backend.texts import TemplateError, Texts

__all__ = ["TemplateError", "Texts", "lower", "namespace_reason", "spec_hash"]
