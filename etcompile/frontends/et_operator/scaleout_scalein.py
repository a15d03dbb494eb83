"""ScaleOut and ScaleIn to scale intents: those of et-operator, and etcompile's own for any kind.

Both have the same spec but for the selector, which in etcompile's names the kind. Only what the
files say; which workers they mean is decided when intents are folded over their job, where
et-operator's index rules live (reference/et-operator.md 5).
"""

from collections.abc import Iterator
from typing import Any

from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.frontends.document_parts import OF_INTENTS, heading
from etcompile.frontends.kind import Kind, Lowered
from etcompile.frontends.notes import no_effect
from etcompile.model import Origin, ScaleIn, ScaleOut

_ET_OPERATOR = "kai.alibabacloud.com/v1alpha1"
_ETCOMPILE = "etcompile.dev/v1alpha1"
_LABELS = {_ET_OPERATOR: "scaleout-name", _ETCOMPILE: "etcompile.dev/scale-out"}
"""The label that the workers of a ScaleOut carry its name under."""


def lower_scale_out(source: Source) -> Lowered:
    """The intent of a ScaleOut that `schemas/ScaleOut.json` accepts."""
    if failed := _had_failed(source):
        return None, (failed,)
    count, label = source.data["spec"]["toAdd"]["count"], _LABELS[source.data["apiVersion"]]
    fields, problems = heading(source)
    intent = ScaleOut(**fields, **_target(source), count=count, label=label)
    return intent, (*problems, *_notes(source))


def lower_scale_in(source: Source) -> Lowered:
    """The intent of a ScaleIn that `schemas/ScaleIn.json` accepts.

    Names win over a count; an empty list of names counts as none (reference/et-operator.md
    1.3).
    """
    if failed := _had_failed(source):
        return None, (failed,)
    wanted = source.data["spec"]["toDelete"]
    origin = Origin(source)
    pods = tuple(wanted.get("podNames") or ())
    fields, notes = heading(source)
    intent = ScaleIn(
        **fields,
        **_target(source),
        count=None if pods else wanted["count"],
        pods=pods,
        pod_origins={
            pod: origin.at("spec", "toDelete", "podNames", place) for place, pod in enumerate(pods)
        },
    )
    notes += _notes(source)
    if pods and "count" in wanted:
        notes.append(
            diagnose(codes.COUNT_IGNORED, origin.locate("spec", "toDelete", "count", key=True))
        )
    return intent, notes


def _target(source: Source) -> dict[str, Any]:
    selector = source.data["spec"]["selector"]
    own = (_ET_OPERATOR, "TrainingJob")
    kind = (selector.get("apiVersion"), selector["kind"]) if "kind" in selector else own
    return {"job": selector["name"], "of": kind}


def _had_failed(source: Source) -> Diagnostic | None:
    if source.data.get("status", {}).get("phase") != "ScaleFailed":
        return None
    metadata = source.data["metadata"]
    name = metadata.get("name") or metadata.get("generateName")
    place = source.locate(("status", "phase"))
    return diagnose(codes.INTENT_HAD_FAILED, place, intent=f"{source.data['kind']} {name}")


_DEAD = {
    "backoffLimit": "no operator has ever read it",
    "timeout": "nothing waits at compile time; a worker joins the host list when it is ready",
    "env": "it is the environment of a script, and scripts are not run",
}


def _notes(source: Source) -> Iterator[Diagnostic]:
    spec: dict[str, Any] = source.data["spec"]
    for field, reason in _DEAD.items():
        yield from no_effect(source, ("spec", field), reason)
    if spec.get("script"):
        yield diagnose(codes.SCRIPT_NOT_RUN, source.locate(("spec", "script")), where="spec.script")


_COUNT_IN: tuple[ValuePath, ...] = (("spec", "toDelete", "count"),)
_COUNT_OUT: tuple[ValuePath, ...] = (("spec", "toAdd", "count"),)
KINDS = tuple(
    Kind(
        *(api_version, name, f"{folder}{name}.json", lower, f"{who}: {what} {job}", counts),
        OF_INTENTS,
    )
    for api_version, folder, who, job in (
        (_ET_OPERATOR, "", "et-operator", "a TrainingJob"),
        (_ETCOMPILE, "etcompile/", "etcompile", "an elastic job"),
    )
    for name, lower, what, counts in (
        ("ScaleIn", lower_scale_in, "removes workers of", _COUNT_IN),
        ("ScaleOut", lower_scale_out, "adds workers to", _COUNT_OUT),
    )
)
