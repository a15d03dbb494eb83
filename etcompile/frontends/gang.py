"""Read what a document asks of a gang scheduler, from `schedulingPolicy` or annotations.

The schedulers' modules (`etcompile.backend.gang`) report what they cannot do.
"""

import re
from collections.abc import Mapping
from typing import Any

from etcompile.diagnostics import Source, ValuePath
from etcompile.frontends.annotations import (
    Annotation,
    Annotations,
    annotations_of,
    fields_of,
    matching,
    one_of,
    whole,
)
from etcompile.k8s.names import is_key
from etcompile.k8s.path import mapping_at
from etcompile.k8s.quantity import number
from etcompile.model import Gang, GangOperator, Origin

_PREFIX = "etcompile.dev/gang-"
_NAME = r"[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?"
_PAIR = re.compile(r"(?P<name>[-._/a-zA-Z0-9]+)=(?P<quantity>[-+.0-9a-zA-Z]+)", re.ASCII)


def _resources(text: str) -> dict[str, str] | None:
    pairs = [_PAIR.fullmatch(pair.strip()) for pair in text.split(",")]
    amounts = {pair["name"]: pair["quantity"] for pair in pairs if pair}
    is_valid = all(pair and number(pair["quantity"]) is not None for pair in pairs)
    return amounts if is_valid else None


BEYOND_POLICY: Annotations = {
    f"{_PREFIX}on-timeout": one_of("fail", "best-effort", field="on_timeout"),
    f"{_PREFIX}queue-priority": matching(_NAME, "a name", "queue_priority"),
    f"{_PREFIX}extra-queue-priority": matching(_NAME, "a name", "extra_queue_priority"),
    f"{_PREFIX}topology": Annotation(
        lambda text: text if is_key(text) else None,
        "the key of a label of nodes, such as topology.kubernetes.io/zone",
        "topology_label",
    ),
}
"""Annotations of kinds with a `schedulingPolicy`, for what it has no field for."""
ANNOTATIONS: Annotations = {
    f"{_PREFIX}min-member": whole(1, 10**9, "a number of Pods, at most 9 digits", "minimum"),
    f"{_PREFIX}queue": matching(_NAME, "a name", "queue"),
    f"{_PREFIX}priority-class": matching(_NAME, "a name", "priority_class"),
    f"{_PREFIX}min-resources": Annotation(
        _resources, "amounts such as cpu=4,memory=16Gi", "min_resources"
    ),
    f"{_PREFIX}timeout": whole(1, 10**9, "a number of seconds, at most 9 digits", "timeout"),
    **BEYOND_POLICY,
}

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
_TOPOLOGY = {"mode": "hard", "highestTierAllowed": 1}  # defaults of Trainer's CRD
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"
"""Annotation of a JobSet with its queue."""


def by_policy(source: Source, operator: GangOperator = TRAINING_OPERATOR) -> Gang:
    """Read the `schedulingPolicy` of a document, and annotations for what it has no field for."""
    policy = source.data["spec"].get("runPolicy", {}).get("schedulingPolicy") or {}
    path = ("spec", "runPolicy", "schedulingPolicy")
    # The operators' clients write an empty text for "none".
    stated = {name: policy[name] for name in _POLICY if policy.get(name) not in (None, "", {})}
    values = {_POLICY[name]: value for name, value in stated.items()}
    origins = {_POLICY[name]: Origin(source, (*path, name)) for name in stated}
    return _gang(source, BEYOND_POLICY, values, origins, operator)


def by_annotation(source: Source) -> Gang:
    return _gang(source, ANNOTATIONS, {}, {}, GangOperator())


def by_runtime(source: Source, path: ValuePath, trainer: str | None = None) -> Gang:
    """Read the runtime of a TrainJob, and the job's annotations, which take precedence.

    See reference/trainer-v2.md 6. All Pods exist from the start, so all belong to the gang, and
    those that wait for others do not block it (defect T7).
    """
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    runtime = mapping_at(source.data, path)
    policy = runtime.get("podGroupPolicy") or {}
    for scheduler, fields in policy.items():
        origin = Origin(source, (*path, "podGroupPolicy", scheduler))
        origins.setdefault("scheduler", origin)
        if scheduler == "coscheduling":
            # A default of their CRD has no origin.
            values["timeout"] = _COSCHEDULING_TIMEOUT
            if seconds := (fields or {}).get("scheduleTimeoutSeconds"):
                values["timeout"] = seconds
                origins["timeout"] = origin.at("scheduleTimeoutSeconds")
        elif topology := (fields or {}).get("networkTopology"):
            values["topology"] = {**_TOPOLOGY, **topology}
            origins["topology"] = origin.at("networkTopology")
    annotations = runtime["template"].get("metadata", {}).get("annotations", {})
    if policy and (queue := annotations.get(VOLCANO_QUEUE)):
        at = (*path, "template", "metadata", "annotations", VOLCANO_QUEUE)
        values["queue"], origins["queue"] = queue, Origin(source, at)
    return _gang(source, ANNOTATIONS, values, origins, GangOperator(class_of=trainer))


def _gang(
    source: Source,
    known: Annotations,
    values: Mapping[str, Any],
    origins: Mapping[str, Origin],
    operator: GangOperator,
) -> Gang:
    annotated = fields_of(source, known)
    places = {
        row.field: Origin(source, ("metadata", "annotations", name))
        for name, row in known.items()
        if row.field in annotated
    }
    return Gang(
        **{**values, **annotated},
        labels=source.data["metadata"].get("labels", {}),
        annotations=annotations_of(source),
        operator=operator,
        origins={**origins, **places},
    )
