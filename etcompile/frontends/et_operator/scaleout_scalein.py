"""Turn ScaleOut and ScaleIn, of et-operator or of etcompile, into scale intents.

Their specs are equal except for the selector, which in etcompile's names a kind. The fold decides
which workers they mean, by et-operator's rules for indexes (reference/et-operator.md 5).
"""

from collections.abc import Mapping
from typing import Any

from etcompile.diagnostics import Source, codes, diagnose
from etcompile.frontends.document_parts import OF_INTENTS, heading
from etcompile.frontends.kind import Kind, Lowered
from etcompile.frontends.notes import no_effect
from etcompile.model import Origin, ScaleIn, ScaleOut

_ET_OPERATOR = "kai.alibabacloud.com/v1alpha1"
_ETCOMPILE = "etcompile.dev/v1alpha1"
_LABELS = {_ET_OPERATOR: "scaleout-name", _ETCOMPILE: "etcompile.dev/scale-out"}
"""The label of workers with the name of their ScaleOut."""


_UNREAD = {
    "backoffLimit": "no operator has ever read it",
    "timeout": "nothing waits at compile time; a worker joins the host list when it is ready",
    "env": "it is the environment of a script, and scripts are not run",
}


def lower(source: Source) -> Lowered:
    """Return the intent of a valid document.

    Names of workers take precedence over a count; an empty list of names counts as none
    (reference/et-operator.md 1.3).
    """
    data, spec = source.data, source.data["spec"]
    fields, notes = heading(source)
    if data.get("status", {}).get("phase") == "ScaleFailed":
        place = source.locate(("status", "phase"))
        intent = f"{data['kind']} {fields['name']}"
        return None, [diagnose(codes.INTENT_HAD_FAILED, place, intent=intent)]
    for field, reason in _UNREAD.items():
        notes += no_effect(source, ("spec", field), reason)
    if spec.get("script"):
        place = source.locate(("spec", "script"))
        notes.append(diagnose(codes.SCRIPT_NOT_RUN, place, where="spec.script"))
    selector = spec["selector"]
    fields["of"] = (_ET_OPERATOR, "TrainingJob")
    if "kind" in selector:
        fields["of"] = (selector.get("apiVersion"), selector["kind"])
    fields["job"] = selector["name"]
    if data["kind"] == "ScaleOut":
        count, label = spec["toAdd"]["count"], _LABELS[data["apiVersion"]]
        return ScaleOut(**fields, count=count, label=label), notes
    removed, origin = spec["toDelete"], Origin(source, ("spec", "toDelete"))
    pods = tuple(removed.get("podNames") or ())
    origins = {pod: origin.at("podNames", place) for place, pod in enumerate(pods)}
    if pods and "count" in removed:
        notes.append(diagnose(codes.COUNT_IGNORED, origin.locate("count", key=True)))
    count = None if pods else removed["count"]
    return ScaleIn(**fields, count=count, pods=pods, pod_origins=origins), notes


def intent_document(
    api_version: str, kind: str, name: str, metadata: Mapping[str, Any], spec: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the scale intent for a job: of et-operator for its TrainingJob, else of etcompile.

    Args:
        api_version, kind, name: Those of the job.
        spec: That of the intent without its selector, with `toAdd` or `toDelete`.
    """
    selector = {"name": name}
    if (api_version, kind) != (_ET_OPERATOR, "TrainingJob"):
        api_version, selector = _ETCOMPILE, {"kind": kind, "name": name}
    return {
        "apiVersion": api_version,
        "kind": "ScaleOut" if "toAdd" in spec else "ScaleIn",
        "metadata": metadata,
        "spec": {"selector": selector, **spec},
    }


KINDS = tuple(
    Kind(
        *(api_version, name, f"{folder}{name}.json", lower, f"{who}: {what} {job}"),
        pod_counts=(("spec", field, "count"),),
        annotations=OF_INTENTS,
        refers_by=(("spec", "selector", "name"),),
    )
    for api_version, folder, who, job in (
        (_ET_OPERATOR, "", "et-operator", "a TrainingJob"),
        (_ETCOMPILE, "etcompile/", "etcompile", "an elastic job"),
    )
    for name, what, field in (
        ("ScaleIn", "removes workers of", "toDelete"),
        ("ScaleOut", "adds workers to", "toAdd"),
    )
)
