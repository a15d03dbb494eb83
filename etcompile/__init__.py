"""Compile training-job specifications to plain Kubernetes manifests.

    import etcompile

    compilation = etcompile.compile(["jobs/"], etcompile.Options(namespace="ml"))
    for diagnostic in compilation.diagnostics:
        print(diagnostic.location, diagnostic.code, diagnostic.message)
    for manifest in compilation.objects:
        print(manifest["kind"], manifest["metadata"]["name"])

Nothing here talks to a cluster; `etcompile.operations` does.
"""

import importlib

from etcompile._version import __version__

# Not from `typing`: a Ctrl-C during an import at this place would end in a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from etcompile.compiler.build import JobObjects
    from etcompile.compiler.choices import Options
    from etcompile.compiler.configured import configured_options
    from etcompile.compiler.pipeline import Compilation, compile  # noqa: A004
    from etcompile.diagnostics import Diagnostic, Location, Severity
    from etcompile.model import SecretMode, Settings
    from etcompile.model.settings import secret_mode

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
    "configured_options",
    "secret_mode",
]

# Imported on first use: a command must not wait for what it does not need.
_HOMES = {
    **dict.fromkeys(("Compilation", "compile"), "compiler.pipeline"),
    "JobObjects": "compiler.build",
    "Options": "compiler.choices",
    "configured_options": "compiler.configured",
    **dict.fromkeys(("Diagnostic", "Location", "Severity"), "diagnostics"),
    **dict.fromkeys(("SecretMode", "Settings"), "model"),
    "secret_mode": "model.settings",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> "Any":
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
