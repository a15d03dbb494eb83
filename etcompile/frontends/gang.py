"""What a document asks of a gang scheduler: `runPolicy.schedulingPolicy`, or annotations of ours.

Apart from the kinds, because all of Kubeflow's share the one, and kinds without a field for it
the other. What a scheduler cannot do with it is said where the scheduler is known
(`etcompile.backend.gang`).
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from etcompile.diagnostics import Diagnostic, Source, ValuePath
from etcompile.frontends.annotations import Annotation, annotations_of, read_annotations, whole
from etcompile.k8s.path import mapping_at
from etcompile.k8s.quantity import number
from etcompile.model import Gang, GangOperator, Origin

_PREFIX = "etcompile.dev/gang-"
_NAME = re.compile(r"[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?", re.ASCII)
_PAIR = re.compile(r"(?P<name>[-._/a-zA-Z0-9]+)=(?P<quantity>[-+.0-9a-zA-Z]+)", re.ASCII)
_CHOICES = ("fail", "best-effort")


def _resources(text: str) -> dict[str, str] | None:
    amounts = {}
    for pair in text.split(","):
        match = _PAIR.fullmatch(pair.strip())
        if match is None or number(match["quantity"]) is None:
            return None
        amounts[match["name"]] = match["quantity"]
    return amounts


def _name(field: str) -> Annotation:
    return Annotation(field, lambda text: text if _NAME.fullmatch(text) else None, "a name")


def _count(field: str, unit: str) -> Annotation:
    read = partial(whole, 1, 10**9)
    return Annotation(field, read, f"a number of {unit}, at most 9 digits")


_READ = {
    f"{_PREFIX}min-member": _count("minimum", "Pods"),
    f"{_PREFIX}queue": _name("queue"),
    f"{_PREFIX}priority-class": _name("priority_class"),
    f"{_PREFIX}min-resources": Annotation(
        "min_resources", _resources, "amounts such as cpu=4,memory=16Gi"
    ),
    f"{_PREFIX}timeout": _count("timeout", "seconds"),
    f"{_PREFIX}on-timeout": Annotation(
        "on_timeout", lambda text: text if text in _CHOICES else None, " or ".join(_CHOICES)
    ),
    f"{_PREFIX}queue-priority": _name("queue_priority"),
    f"{_PREFIX}extra-queue-priority": _name("extra_queue_priority"),
}
ANNOTATIONS = tuple(_READ)
"""The annotations of a kind that has no field for any of it."""
BEYOND_POLICY = (
    f"{_PREFIX}on-timeout",
    f"{_PREFIX}queue-priority",
    f"{_PREFIX}extra-queue-priority",
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


def by_policy(
    source: Source, operator: GangOperator = TRAINING_OPERATOR
) -> tuple[Gang, list[Diagnostic]]:
    """What the `schedulingPolicy` of a document asks, and its annotations beyond that."""
    values, origins, problems = _annotated(source, BEYOND_POLICY)
    path = ("spec", "runPolicy", "schedulingPolicy")
    policy = source.data["spec"].get("runPolicy", {}).get("schedulingPolicy") or {}
    for name, field in _POLICY.items():
        # The empty text is what the operators' own clients write for "none".
        if (value := policy.get(name)) not in (None, "", {}):
            values[field], origins[field] = value, Origin(source, (*path, name))
    return _gang(source, values, origins, operator), problems


def by_annotation(source: Source) -> tuple[Gang, list[Diagnostic]]:
    """What the annotations of a document ask."""
    values, origins, problems = _annotated(source, ANNOTATIONS)
    return _gang(source, values, origins, GangOperator()), problems


def by_runtime(
    source: Source, path: ValuePath, trainer: str | None = None
) -> tuple[Gang, list[Diagnostic]]:
    """What the runtime of a TrainJob asks, and the job's annotations, which count before it.

    reference/trainer-v2.md 6. All Pods are there from the start, so that all of them make up the
    gang, and those that wait for others keep nobody from starting (defect T7).
    """
    values, origins, problems = _annotated(source, ANNOTATIONS)
    runtime = mapping_at(source.data, path)
    policy = runtime.get("podGroupPolicy") or {}
    wanted: dict[str, tuple[Any, ValuePath]] = {}
    for scheduler, fields in policy.items():
        origins.setdefault("scheduler", Origin(source, (*path, "podGroupPolicy", scheduler)))
        if scheduler == "coscheduling":
            seconds = (fields or {}).get("scheduleTimeoutSeconds")
            at: ValuePath = ("podGroupPolicy", scheduler, "scheduleTimeoutSeconds")
            # What their CRD fills in is not what somebody asked for, and is no origin.
            wanted["timeout"] = seconds or _COSCHEDULING_TIMEOUT, at if seconds else ()
        elif topology := (fields or {}).get("networkTopology"):
            filled = {**_TOPOLOGY, **topology}
            wanted["topology"] = filled, ("podGroupPolicy", scheduler, "networkTopology")
    annotations = runtime["template"].get("metadata", {}).get("annotations", {})
    if policy and (queue := annotations.get(VOLCANO_QUEUE)):
        wanted["queue"] = queue, ("template", "metadata", "annotations", VOLCANO_QUEUE)
    for field, (value, below) in wanted.items():
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
    rows = {name: _READ[name] for name in names}
    values, problems = read_annotations(source, rows)
    origins = {
        row.field: Origin(source, ("metadata", "annotations", name))
        for name, row in rows.items()
        if row.field in values
    }
    return values, origins, problems
