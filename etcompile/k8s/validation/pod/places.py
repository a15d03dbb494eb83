"""Where the fields of a Pod stand, for the tables of its rules."""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.k8s.validation.forms import mapping, mappings
from etcompile.k8s.validation.rule import Path, Subject

CONTAINER = "spec.(containers|initContainers)[*]"
PROBE = f"{CONTAINER}.(livenessProbe|readinessProbe|startupProbe)"
HOOK = f"{CONTAINER}.lifecycle.(postStart|preStop)"
VOLUME = "spec.volumes[*]"

Value = Mapping[str, Any]


def containers(spec: Any) -> Iterator[tuple[Path, Value]]:
    """All containers of a Pod's spec, and where they stand in it."""
    for name in ("initContainers", "containers"):
        for index, container in mappings(spec, name):
            yield (name, index), container


def spec_of(subject: Subject) -> Value:
    """The spec of the Pod that a rule is asked about."""
    return mapping(subject.value, "spec")


def is_sidecar(container: Value) -> bool:
    """Whether an init container runs beside the others (Kubernetes 1.28)."""
    return container.get("restartPolicy") == "Always"


def on_windows(spec: Any) -> bool:
    """Whether a Pod says that it is for Windows."""
    return mapping(spec, "os").get("name") == "windows"
