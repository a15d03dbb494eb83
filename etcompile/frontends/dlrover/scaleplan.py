"""Turn a ScalePlan of DLRover (`elastic.iml.github.io/v1alpha1`) into a scale intent.

See reference/dlrover.md 1.2 and 5. This module reads the file and reports what no reader uses. The
fold decides which Pods it means, and whether it is for a master that reads plans itself.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, Location, Source, ValuePath, codes, diagnose
from etcompile.frontends.dlrover import elastic_spec
from etcompile.frontends.document_parts import OF_INTENTS, heading
from etcompile.frontends.kind import Kind, Lowered
from etcompile.frontends.notes import unused
from etcompile.k8s.path import value_at
from etcompile.k8s.quantity import number
from etcompile.model import CustomResource, Labels, Origin, Planned, ScalePlan

_JOB: tuple[ValuePath, ...] = (
    ("metadata", "labels", elastic_spec.JOB_LABEL),
    ("spec", "ownerJob"),
    ("metadata", "labels", "elasticjob-name"),
)
_SCALE_TYPE = "scale-type"
_POD = re.compile(r".+-(?P<type>[a-z]+)-(?P<id>[0-9]{1,9})", re.ASCII)
_SIZES = ("cpu", "memory")


def lower(source: Source) -> Lowered:
    fields, problems = heading(source)
    problems += _notes(source)
    spec = source.data["spec"]
    job = next(filter(None, (value_at(source.data, path) for path in _JOB)), "")
    if not job:
        place = source.locate(("metadata",), key=True)
        problems.append(diagnose(codes.PLAN_WITHOUT_JOB, place, label=elastic_spec.JOB_LABEL))
        return None, problems
    groups: Mapping[str, Any] = spec.get("replicaResourceSpecs", {})
    plan = ScalePlan(
        **fields,
        job=job,
        of=(elastic_spec.API_VERSION, "ElasticJob"),
        replicas={group: spec["replicas"] for group, spec in groups.items() if spec["replicas"]},
        resources={group: _sizes(spec.get("resource", {})) for group, spec in groups.items()},
        create=_planned(source, "createPods"),
        remove=_planned(source, "removePods"),
        move=_planned(source, "migratePods"),
        custom=CustomResource(
            elastic_spec.API_VERSION,
            "ScalePlan",
            fields["name"],
            {**{k: v for k, v in spec.items() if k not in _UNREAD}, "ownerJob": job},
            # Upstream's documents use a label that no master reads (defect 17).
            {elastic_spec.JOB_LABEL: job, _SCALE_TYPE: "manual"},
        ),
    )
    return plan, problems


_UNREAD = ("createPods", "removePods", "psHosts")


def _planned(source: Source, field: str) -> tuple[Planned, ...]:
    """Return the Pods in a field of a plan; as upstream, read type and number from their names."""
    pods = []
    for place, entry in enumerate(source.data["spec"].get(field, ())):
        name = entry.get("name")
        match = _POD.fullmatch(name) if name else None
        planned = Planned(
            name=name,
            role=entry.get("type") or (match["type"] if match else None),
            index=entry.get("id", int(match["id"]) if match else None),
            rank=entry.get("rankIndex"),
            resources=_sizes(entry.get("resource", {})),
            origin=Origin(source, ("spec", field, place)),
        )
        pods.append(planned)
    return tuple(pods)


def _sizes(amounts: Mapping[str, Any]) -> Labels:
    """Return cpu and memory; 0 preserves the previous amount (reference 1.2)."""
    return {n: str(amounts[n]) for n in _SIZES if n in amounts and number(amounts[n])}


def _notes(source: Source) -> Iterator[Diagnostic]:
    metadata, spec = source.data["metadata"], source.data["spec"]
    labels = metadata.get("labels", {})
    written = labels.get(_SCALE_TYPE, "manual")
    refused: list[tuple[Location, str, str]] = []
    if written != "manual":
        place = source.locate(("metadata", "labels", _SCALE_TYPE))
        reason = f"its {_SCALE_TYPE} is '{written}': a master wrote it, for an operator"
        refused.append((place, reason, "remove it"))
    if elastic_spec.JOB_LABEL not in labels:
        path: ValuePath = ("metadata", "labels") if labels else ("metadata",)
        place = source.locate(path, key=True)
        yield diagnose(codes.PLAN_WITHOUT_LABEL, place, label=elastic_spec.JOB_LABEL)
    elif spec.get("ownerJob", labels[elastic_spec.JOB_LABEL]) != labels[elastic_spec.JOB_LABEL]:
        place = source.locate(("spec", "ownerJob"))
        reason = f"its label names job '{labels[elastic_spec.JOB_LABEL]}', ownerJob another"
        refused.append((place, reason, "correct one of the two"))
    if spec.get("psHosts"):
        place = source.locate(("spec", "psHosts"), key=True)
        refused.append((place, "DLRover reads psHosts only in plans of its own", "remove it"))
    title = f"ScalePlan {metadata.get('name') or metadata['generateName']}"
    for place, reason, advice in refused:
        facts = {"intent": title, "reason": reason, "advice": advice}
        yield diagnose(codes.PLAN_NOT_POSSIBLE, place, **facts)
    for name, group in spec.get("replicaResourceSpecs", {}).items():
        at: ValuePath = ("spec", "replicaResourceSpecs", name)
        if not group["replicas"]:
            place = source.locate((*at, "replicas"))
            reason = "DLRover takes 0 for no change"
            yield unused(place, f"{name}.replicas", reason, "remove the type")
        for resource in group.get("resource", {}):
            if resource not in _SIZES:
                place = source.locate((*at, "resource", resource), key=True)
                reason = "a plan changes cpu and memory only"
                yield unused(place, f"{name}.resource.{resource}", reason)


KINDS = (
    Kind(
        elastic_spec.API_VERSION,
        "ScalePlan",
        "ScalePlan.json",
        lower,
        "DLRover: changes the replicas of an ElasticJob",
        pod_counts=(("spec", "replicaResourceSpecs", "*", "replicas"),),
        annotations=OF_INTENTS,
        refers_by=_JOB,
        refers_to=("ElasticJob",),
    ),
)
