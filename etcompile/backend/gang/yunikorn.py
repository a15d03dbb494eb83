"""YuniKorn: each Pod tells of all roles, and placeholders keep room for them.

reference/gang-scheduling.md 6. What is told must be the same on all Pods, and no less than they
ask for, or a placeholder gives its room to somebody else.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from etcompile.backend.gang.group import Group, Place, pod_specs
from etcompile.backend.gang.scheduler import NO_TOPOLOGY, NOT_QUEUED, Membership, Scheduler
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.k8s import quantity
from etcompile.k8s.objects import Object
from etcompile.k8s.requests import requested, written
from etcompile.model.schedulers import SCHEDULER_NAMES

_PREFIX = "yunikorn.apache.org"
_GROUPS = f"{_PREFIX}/task-groups"
_NAME = f"{_PREFIX}/task-group-name"
_POLICY = f"{_PREFIX}/schedulingPolicyParameters"
_QUEUE = re.compile(r"(?=.{1,63}\Z)root(\.[a-zA-Z0-9]([-_a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)+", re.ASCII)
_STYLES = {None: "Hard", "fail": "Hard", "best-effort": "Soft"}
"""Never left to YuniKorn, whose default starts Pods as they fit."""
_COPIED = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")
"""What decides where a Pod may be, and so where its placeholder must be."""


def _membership(group: Group, place: Place) -> Membership:
    timeout = group.intent.timeout
    seconds = f"placeholderTimeoutInSeconds={timeout} " if timeout else ""
    style = _STYLES[group.intent.on_timeout]
    task_groups = [
        {
            "name": share.role.name,
            "minMember": share.minimum,
            "minResource": written(share.requests),
            # With its fields in order: a Pod that is made again has them in another one.
            **{
                field: json.loads(json.dumps(share.spec[field], sort_keys=True))
                for field in _COPIED
                if share.spec.get(field)
            },
        }
        for share in group.shares
        if share.minimum
    ]
    name = {_NAME: place.share.role.name} if place.share.minimum else {}
    return Membership(
        labels={
            f"{_PREFIX}/app-id": group.name,
            f"{_PREFIX}/queue": str(group.queue),
        },
        annotations={
            **name,
            _POLICY: f"{seconds}gangSchedulingStyle={style}",
            _GROUPS: json.dumps(task_groups, separators=(", ", ": ")),
        },
    )


def _problems(group: Group, objects: Sequence[Object]) -> Iterator[Diagnostic]:
    place = group.job.origin.locate("metadata", "name")
    for problem in dict.fromkeys(_wrong(objects)):
        yield diagnose(codes.GANG_YUNIKORN, place, problem=problem)


def _wrong(objects: Sequence[Object]) -> Iterator[str]:
    pods = list(pod_specs(objects))
    texts = {_annotations(pod).get(_GROUPS, "") for pod, _ in pods}
    if len(texts) > 1:
        yield "its Pods have different task groups"
    for text in sorted(texts):
        try:
            groups = {task_group["name"]: task_group for task_group in json.loads(text)}
            minima = {
                name: {
                    resource: quantity.number(amount) or Decimal(0)
                    for resource, amount in task_group["minResource"].items()
                }
                for name, task_group in groups.items()
            }
            good = all(int(task_group["minMember"]) >= 1 for task_group in groups.values())
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            good = False
        if not good:
            yield "its task groups are not a list of names, minMember and minResource"
            continue
        for name, amounts in minima.items():
            if {"cpu", "vcore"} <= amounts.keys() or "pods" in amounts:
                yield f"minResource of {name} has pods, or both cpu and vcore"
        for pod, spec in pods:
            notes = _annotations(pod)
            if "gangSchedulingStyle=" not in notes.get(_POLICY, ""):
                yield "a Pod does not say its gangSchedulingStyle"
            own = notes.get(_NAME)
            if own is not None and own not in minima:
                yield f"there is no task group {own}"
            elif own is not None:
                for resource, amount in requested(spec).items():
                    if amount > minima[own].get(resource, Decimal(0)):
                        yield f"Pods of {own} ask for more {resource} than their placeholders"


def _annotations(pod: Object) -> Mapping[str, str]:
    annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return annotations


SCHEDULERS = {
    "yunikorn": Scheduler(
        title="YuniKorn",
        membership=_membership,
        problems=_problems,
        needs=lambda group: [f"leaf queue {group.queue}, sorted by FIFO"],
        scheduler_name=SCHEDULER_NAMES["yunikorn"],
        default_queue="root.default",
        queue_form=(
            lambda name: _QUEUE.fullmatch(name) is not None,
            "a full path such as root.research, of 63 characters at most",
        ),
        unused={
            **NOT_QUEUED,
            **NO_TOPOLOGY,
            "min_resources": "its placeholders ask for what each Pod asks for",
        },
        roles=True,
        uniform_roles=True,
        starts_early=True,
        reads_job=frozenset({f"{_PREFIX}/queue"}),
        resizes_since=None,
    )
}
