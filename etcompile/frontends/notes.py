"""What frontends say of a field: that it changes nothing, is replaced, or is not compiled."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, Location, Source, ValuePath, codes, diagnose
from etcompile.k8s.path import dotted, value_at
from etcompile.model import Origin


def unused(place: Location, where: str, reason: str, advice: str = "remove it") -> Diagnostic:
    """A warning for something that changes nothing."""
    return diagnose(codes.NO_EFFECT, place, where=where, reason=reason, advice=advice)


def no_effect(
    source: Source, path: ValuePath, reason: str, advice: str = "remove it", *, where: str = ""
) -> Iterator[Diagnostic]:
    """A warning for a field that changes nothing, if the document has it.

    Args:
        where: What messages call it; the path if empty.
    """
    if value_at(source.data, path) is not None:
        place = source.locate(path, key=True)
        yield unused(place, where or dotted(path), reason, advice)


def not_compiled(place: Location, where: str, reason: str, advice: str) -> Diagnostic:
    """An error for something that is refused."""
    return diagnose(codes.NOT_COMPILED, place, where=where, reason=reason, advice=advice)


def overwritten(
    place: Location, where: str, name: object, reason: str, advice: str = "remove it"
) -> Diagnostic:
    """A warning for a value that the job replaces."""
    facts = {"where": where, "name": name, "reason": reason}
    return diagnose(codes.OVERWRITTEN, place, **facts, advice=advice)


def no_such_container(
    place: Location, kind: str, container: str, containers: Iterable[Mapping[str, Any]]
) -> Diagnostic:
    """An error for a container that a kind needs, and a Pod template does not have."""
    names = ", ".join(other["name"] for other in containers)
    return diagnose(codes.NO_SUCH_CONTAINER, place, kind=kind, container=container, names=names)


def ttl_note(source: Source, path: ValuePath) -> Iterator[Diagnostic]:
    """A warning for `ttlSecondsAfterFinished`, which works only where no tool syncs Git."""
    reason = "what deletes itself would be created again, and run again"
    advice = (
        "remove the job from Git when it is done; where no tool syncs Git, `etcompile watch`"
        " deletes its Pods after that time"
    )
    where = f"{dotted(path)}, where a tool syncs Git,"
    yield from no_effect(source, path, reason, advice, where=where)


def template_notes(
    origin: Origin,
    template: Mapping[str, Any],
    *,
    restart_policy: str,
    keeps_finalizers: bool = False,
) -> list[Diagnostic]:
    """Warnings about parts of a Pod template that the job replaces or drops."""
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
    own = template["spec"].get("restartPolicy", restart_policy)
    if own != restart_policy:
        place, reason = (
            origin.locate("spec", "restartPolicy"),
            f"the job's Pods have {restart_policy}",
        )
        advice = "restartPolicy beside the template says which failures are replaced"
        notes.append(overwritten(place, "template.spec.restartPolicy", own, reason, advice))
    return notes
