"""Lower a job to Kubernetes objects, with a module per kind of object.

The backend knows Kubernetes and the model, and no kind of job: what et-operator calls a volume or a
label arrives here as data. Objects are plain JSON values.
"""

from etcompile.backend import gang
from etcompile.backend.gitops import Situation, annotated
from etcompile.backend.identity import identified, protected_labels, run_id, spec_hash
from etcompile.backend.job_config import ends_with_run, host_line, host_names
from etcompile.backend.job_objects import deciding, lower, lower_pods, namespace_reason, waits
from etcompile.backend.pod_fields import with_preflight
from etcompile.backend.secrets import generated
from etcompile.backend.services import names as service_names
from etcompile.backend.texts import TemplateError, Texts

__all__ = [
    "Situation",
    "TemplateError",
    "Texts",
    "annotated",
    "deciding",
    "ends_with_run",
    "gang",
    "generated",
    "host_line",
    "host_names",
    "identified",
    "lower",
    "lower_pods",
    "namespace_reason",
    "protected_labels",
    "run_id",
    "service_names",
    "spec_hash",
    "waits",
    "with_preflight",
]
