"""What every kind that carries Pod templates has to find out about one.

Which container trains, whether it runs as root, and which parts of a template are replaced by
the job: the answers are the same for all kinds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.frontends.notes import unused
from etcompile.model import Origin, PodTemplate

MAIN_CONTAINER = "kubectl.kubernetes.io/default-container"
"""kubectl's own annotation for the container that matters."""

MOUNTED_HOME = (
    r"(?!/(?:etc/edl|etc/mpi|etc/etcompile|opt/kube|job)(?:/|$))"
    r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+)+/?"
)
"""A path that keys can be mounted at: not ours, no dots that lead elsewhere, nothing a shell
minds."""


def main_container(
    origin: Origin, template: Mapping[str, Any]
) -> tuple[str | None, list[Diagnostic]]:
    """The container that does the work; the others are sidecars.

    It is the one that the template's annotation `kubectl.kubernetes.io/default-container`
    names, else the first. et-operator always takes the first (reference/et-operator.md 6,
    defect 42).

    Returns:
        The container's name, None if the annotation names no container, and the diagnostics.
    """
    containers: Sequence[Mapping[str, Any]] = template["spec"]["containers"]
    names = [container["name"] for container in containers]
    named = template.get("metadata", {}).get("annotations", {}).get(MAIN_CONTAINER)
    if named is not None:
        if named in names:
            return named, []
        place = origin.locate("metadata", "annotations", MAIN_CONTAINER)
        return None, [diagnose(codes.NO_MAIN_CONTAINER, place, name=named, known=", ".join(names))]
    return names[0], []


def pod_template(
    origin: Origin, template: Mapping[str, Any], main: str, **changes: Any
) -> PodTemplate:
    """A Pod template as the model has it, with what the kind changes of it."""
    metadata = template.get("metadata", {})
    fields = {
        "labels": metadata.get("labels", {}),
        "annotations": metadata.get("annotations", {}),
        "spec": template["spec"],
    }
    return PodTemplate(**{**fields, **changes}, main=main, origin=origin)


def template_notes(
    origin: Origin,
    template: Mapping[str, Any],
    *,
    restart_policy: str,
    keeps_finalizers: bool = False,
) -> list[Diagnostic]:
    """Warnings about parts of a template that the job replaces or drops."""
    dropped = ["name", "generateName", "namespace", "ownerReferences"]
    notes = [
        unused(
            origin.locate("metadata", name, key=True),
            f"template.metadata.{name}",
            "the job names and owns its Pods",
        )
        for name in (*dropped, *([] if keeps_finalizers else ["finalizers"]))
        if template.get("metadata", {}).get(name)
    ]
    given = template["spec"].get("restartPolicy", restart_policy)
    if given != restart_policy:
        notes.append(
            diagnose(
                codes.OVERWRITTEN,
                origin.locate("spec", "restartPolicy"),
                where="template.spec.restartPolicy",
                name=given,
                reason=f"the job's Pods have {restart_policy}",
                advice="restartPolicy beside the template says which failures are replaced",
            )
        )
    return notes
