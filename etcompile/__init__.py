"""Compile training-job specifications to plain Kubernetes manifests.

    import etcompile

    compilation = etcompile.compile(["jobs/"], etcompile.Options(namespace="ml"))
    for diagnostic in compilation.diagnostics:
        print(diagnostic.location, diagnostic.code, diagnostic.message)
    for manifest in compilation.objects:
        print(manifest["kind"], manifest["metadata"]["name"])

Nothing here talks to a cluster.
"""

from etcompile._version import __version__
from etcompile.compiler import Compilation, JobObjects, Options, compile  # noqa: A004
from etcompile.diagnostics import Diagnostic, Location, Severity
from etcompile.model import SecretMode, Settings

__all__ = [
    "Compilation",
    "Diagnostic",
    "JobObjects",
    "Location",
    "Options",
    "SecretMode",
    "Settings",
    "Severity",
    "__version__",
    "compile",
]
