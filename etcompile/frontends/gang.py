"""What a document asks of a gang scheduler: `runPolicy.schedulingPolicy`, or annotations of ours.

Apart from the kinds, because all of Kubeflow's share the one, and kinds without a field for it
the other. What a scheduler cannot do with it is said where the scheduler is known
(`etcompile.backend.gang`).
"""

import re
from collections.abc import Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, Source, ValuePath
from etcompile.frontends.annotations import annotation_value, annotations_of
from etcompile.k8s.path import mapping_at
from etcompile.k8s.quantity import number
from etcompile.model import Gang, GangOperator, Origin

_PREFIX = "etcompile.dev/gang-"
_SECONDS = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_NAME = re.compile(r"[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?", re.ASCII)
_PAIR = re.compile(r"(?P<name>[-._/a-zA-Z0-9]+)=(?P<quantity>[-+.0-9a-zA-Z]+)", re.ASCII)
_CHOICES = ("fail", "best-effort")

_FIELDS = {
    f"{_PREFIX}min-member": "minimum",
    f"{_PREFIX}queue": "queue",
    f"{_PREFIX}priority-class": "priority_class",
    f"{_PREFIX}min-resources": "min_resources",
    f"{_PREFIX}timeout": "timeout",
    f"{_PREFIX}on-timeout": "on_timeout",
    f"{_PREFIX}queue-priority": "queue_priority",
    f"{_PREFIX}extra-queue-priority": "extra_queue_priority",
}
ANNOTATIONS = tuple(_FIELDS)
"""The annotations of a kind that has no field for any of it."""
BEYOND_POLICY = tuple(
    name
    for name, field in _FIELDS.items()
    if field in ("on_timeout", "queue_priority", "extra_queue_priority")
)
"""Those of a kind with a `schedulingPolicy`: what that has no field for."""

_POLICY = {
    "minAvailable": "minimum",
    "queue": "queue",
    "minResources": "min_resources",
    "priorityClass": "priority_class",
    "scheduleTimeoutSeconds": "timeout",
}

TRAINING_OPERATOR = GangOperator(copies_annotations=True, leading_class=False)
"""A template that names another scheduler keeps it (reference/training-operator.md 2.5)."""
MPI_OPERATOR = GangOperator(replaces_scheduler=True)
"""reference/mpi-operator-v2.md 3.8."""


_COSCHEDULING_TIMEOUT = 60
_TOPOLOGY = {"mode": "hard", "highestTierAllowed": 1}
"""What Trainer's CRD fills in."""
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"
"""The annotation of a JobSet that names its queue."""


Asked = tuple[Gang, list[Diagnostic]]
"""What a document asks of a gang scheduler, and what is wrong with how it does."""


def by_policy(source: Source, operator: GangOperator = TRAINING_OPERATOR) -> Asked:
    """What the `schedulingPolicy` of a document asks, and its annotations beyond that."""
    values, origins, problems = _annotated(source, BEYOND_POLICY)
    path = ("spec", "runPolicy", "schedulingPolicy")
    policy = source.data["spec"].get("runPolicy", {}).get("schedulingPolicy") or {}
    for name, field in _POLICY.items():
        # The empty text is what the operators' own clients write for "none".
        if (value := policy.get(name)) not in (None, "", {}):
            values[field], origins[field] = value, Origin(source, (*path, name))
    return _gang(source, values, origins, operator), problems


def by_annotation(source: Source) -> Asked:
    """What the annotations of a document ask."""
    values, origins, problems = _annotated(source, ANNOTATIONS)
    return _gang(source, values, origins, GangOperator()), problems


def by_runtime(source: Source, path: ValuePath, trainer: str | None = None) -> Asked:
    """What the runtime of a TrainJob asks, and the job's annotations, which count before it.

    reference/trainer-v2.md 6. All Pods are there from the start, so that all of them make up the
    gang, and those that wait for others keep nobody from starting (defect T7).
    """
    values, origins, problems = _annotated(source, ANNOTATIONS)
    runtime = mapping_at(source.data, path)
    policy = runtime.get("podGroupPolicy") or {}
    asked: dict[str, tuple[Any, ValuePath]] = {}
    for scheduler, fields in policy.items():
        origins.setdefault("scheduler", Origin(source, (*path, "podGroupPolicy", scheduler)))
        if scheduler == "coscheduling":
            seconds = (fields or {}).get("scheduleTimeoutSeconds")
            at: ValuePath = ("podGroupPolicy", scheduler, "scheduleTimeoutSeconds")
            # What their CRD fills in is not what somebody asked for, and is no origin.
            asked["timeout"] = seconds or _COSCHEDULING_TIMEOUT, at if seconds else ()
        elif topology := (fields or {}).get("networkTopology"):
            filled = {**_TOPOLOGY, **topology}
            asked["topology"] = filled, ("podGroupPolicy", scheduler, "networkTopology")
    annotations = runtime["template"].get("metadata", {}).get("annotations", {})
    if policy and (queue := annotations.get(VOLCANO_QUEUE)):
        asked["queue"] = queue, ("template", "metadata", "annotations", VOLCANO_QUEUE)
    for field, (value, below) in asked.items():
        if field not in values:
            values[field] = value
            if below:
                origins[field] = Origin(source, (*path, *below))
    return _gang(source, values, origins, GangOperator(class_of=trainer)), problems


def _gang(
    source: Source, values: Mapping[str, Any], origins: Mapping[str, Origin], operator: GangOperator
) -> Gang:
    return Gang(
        **values,
        labels=source.data["metadata"].get("labels", {}),
        annotations=annotations_of(source),
        operator=operator,
        origins=origins,
    )


def _annotated(
    source: Source, names: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, Origin], list[Diagnostic]]:
    """The fields that annotations of ours set, where these stand, and what is wrong with them."""
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    problems: list[Diagnostic] = []
    for name in names:
        if (text := annotations_of(source).get(name)) is None:
            continue
        field = _FIELDS[name]
        value, expected = _read(field, text)
        origin = Origin(source, ("metadata", "annotations", name))
        if value is None:
            problems.append(annotation_value(source, name, expected))
        else:
            values[field], origins[field] = value, origin
    return values, origins, problems


def _read(field: str, text: str) -> tuple[Any, str]:
    """The value of a field; None, and what it should be, for a text that has none."""
    if field in ("minimum", "timeout"):
        expected = "a number of seconds" if field == "timeout" else "a number of Pods"
        return (int(text) if _SECONDS.fullmatch(text) else None), f"{expected}, at most 9 digits"
    if field == "on_timeout":
        return (text if text in _CHOICES else None), " or ".join(_CHOICES)
    if field == "min_resources":
        return _resources(text), "amounts such as cpu=4,memory=16Gi"
    return (text if _NAME.fullmatch(text) else None), "a name"


def _resources(text: str) -> dict[str, str] | None:
    found = {}
    for pair in text.split(","):
        match = _PAIR.fullmatch(pair.strip())
        if match is None or number(match["quantity"]) is None:
            return None
        found[match["name"]] = match["quantity"]
    return found
