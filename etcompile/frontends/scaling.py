"""ScaleOut and ScaleIn of et-operator (`kai.alibabacloud.com/v1alpha1`) to scale intents.

Only what the two files say; which workers they mean is decided when intents are folded over
their job, where et-operator's index rules live (reference/et-operator.md 5).
"""

import re
from collections.abc import Iterator
from typing import Any, TypedDict

from etcompile.diagnostics import Diagnostic, Source, diagnose
from etcompile.frontends.annotations import unknown_annotations
from etcompile.frontends.kind import Kind, Lowered
from etcompile.model import Origin, ScaleIn, ScaleOut

API_VERSION = "kai.alibabacloud.com/v1alpha1"
_LABEL = "scaleout-name"
_SEQUENCE = "etcompile.dev/sequence"
_NUMBER = re.compile(r"[0-9]{1,9}")


class _Common(TypedDict):
    kind: str
    name: str
    generated: bool
    namespace: str | None
    job: str
    origin: Origin
    created: str | None
    sequence: int | None


def lower_scale_out(source: Source) -> Lowered:
    """The intent of a ScaleOut that `schemas/ScaleOut.json` accepts."""
    if failed := _had_failed(source):
        return Lowered(None, (failed,))
    intent = ScaleOut(**_common(source), count=source.data["spec"]["toAdd"]["count"], label=_LABEL)
    return Lowered(intent, tuple(_notes(source)))


def lower_scale_in(source: Source) -> Lowered:
    """The intent of a ScaleIn that `schemas/ScaleIn.json` accepts.

    Names win over a count; an empty list of names counts as none (reference/et-operator.md
    1.3).
    """
    if failed := _had_failed(source):
        return Lowered(None, (failed,))
    wanted = source.data["spec"]["toDelete"]
    origin = Origin(source)
    pods = tuple(wanted.get("podNames") or ())
    intent = ScaleIn(
        **_common(source),
        count=None if pods else wanted["count"],
        pods=pods,
        pod_origins={
            pod: origin.at("spec", "toDelete", "podNames", place) for place, pod in enumerate(pods)
        },
    )
    notes = list(_notes(source))
    if pods and "count" in wanted:
        notes.append(diagnose("ET3007", origin.locate("spec", "toDelete", "count", key=True)))
    return Lowered(intent, tuple(notes))


def _common(source: Source) -> _Common:
    metadata = source.data["metadata"]
    sequence = metadata.get("annotations", {}).get(_SEQUENCE, "")
    return {
        "kind": source.data["kind"],
        "name": metadata.get("name") or metadata["generateName"],
        "generated": not metadata.get("name"),
        "namespace": metadata.get("namespace"),
        "job": source.data["spec"]["selector"]["name"],
        "origin": Origin(source),
        "created": metadata.get("creationTimestamp"),
        "sequence": int(sequence) if _NUMBER.fullmatch(sequence) else None,
    }


def _had_failed(source: Source) -> Diagnostic | None:
    if source.data.get("status", {}).get("phase") != "ScaleFailed":
        return None
    metadata = source.data["metadata"]
    name = metadata.get("name") or metadata.get("generateName")
    place = source.locate(("status", "phase"))
    return diagnose("ET3008", place, intent=f"{source.data['kind']} {name}")


_DEAD = {
    "backoffLimit": "no operator has ever read it",
    "timeout": "nothing waits at compile time; a worker joins the host list when it is ready",
    "env": "it is the environment of a script, and scripts are not run",
}


def _notes(source: Source) -> Iterator[Diagnostic]:
    yield from unknown_annotations(source, (_SEQUENCE,))
    spec: dict[str, Any] = source.data["spec"]
    for field, reason in _DEAD.items():
        if field in spec:
            place = source.locate(("spec", field), key=True)
            yield diagnose(
                "ET2041", place, where=f"spec.{field}", reason=reason, advice="remove it"
            )
    if spec.get("script"):
        yield diagnose("ET3009", source.locate(("spec", "script")), where="spec.script")
    sequence = source.data["metadata"].get("annotations", {}).get(_SEQUENCE)
    if sequence is not None and not _NUMBER.fullmatch(sequence):
        yield diagnose(
            "ET3010",
            source.locate(("metadata", "annotations", _SEQUENCE)),
            name=_SEQUENCE,
            expected="a whole number, quoted",
            found=sequence,
            advice="",
        )


KINDS = (
    Kind(
        api_version=API_VERSION,
        name="ScaleOut",
        schema="ScaleOut.json",
        lower=lower_scale_out,
        summary="et-operator: adds workers to a TrainingJob",
    ),
    Kind(
        api_version=API_VERSION,
        name="ScaleIn",
        schema="ScaleIn.json",
        lower=lower_scale_in,
        summary="et-operator: removes workers of a TrainingJob",
    ),
)
