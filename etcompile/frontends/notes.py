"""Report fields that have no effect, are replaced, or are not compiled."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, Location, Source, ValuePath, codes, diagnose
from etcompile.k8s.path import dotted, value_at
from etcompile.model import Origin


def unused(place: Location, where: str, reason: str, advice: str = "remove it") -> Diagnostic:
    return diagnose(codes.NO_EFFECT, place, where=where, reason=reason, advice=advice)


def no_effect(
    source: Source, path: ValuePath, reason: str, advice: str = "remove it", *, where: str = ""
) -> Iterator[Diagnostic]:
    if value_at(source.data, path) is not None:
        place = source.locate(path, key=True)
        yield unused(place, where or dotted(path), reason, advice)


def not_compiled(place: Location, where: str, reason: str, advice: str) -> Diagnostic:
    return diagnose(codes.NOT_COMPILED, place, where=where, reason=reason, advice=advice)


def overwritten(
    place: Location, where: str, name: object, reason: str, advice: str = "remove it"
) -> Diagnostic:
    facts = {"where": where, "name": name, "reason": reason}
    return diagnose(codes.OVERWRITTEN, place, **facts, advice=advice)


def no_such_container(
    place: Location, kind: str, container: str, containers: Iterable[Mapping[str, Any]]
) -> Diagnostic:
    names = ", ".join(other["name"] for other in containers)
    return diagnose(codes.NO_SUCH_CONTAINER, place, kind=kind, container=container, names=names)


def ttl_note(source: Source, path: ValuePath) -> Iterator[Diagnostic]:
    """Report `ttlSecondsAfterFinished`, which works only if no tool syncs Git."""
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
    written = template["spec"].get("restartPolicy", restart_policy)
    if written != restart_policy:
        place = origin.locate("spec", "restartPolicy")
        reason = f"the job's Pods have {restart_policy}"
        advice = "restartPolicy beside the template says which failures are replaced"
        notes.append(overwritten(place, "template.spec.restartPolicy", written, reason, advice))
    return notes
