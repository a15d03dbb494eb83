"""Write task groups for YuniKorn: each Pod describes all roles, and placeholders reserve nodes.

reference/gang-scheduling.md 6. The description must be the same on all Pods and must not request
less than they do, or another Pod gets the reserved capacity of a placeholder.
"""

import json
import re
from collections.abc import Iterator

from etcompile.backend.gang.group import Group, Place, pod_specs
from etcompile.backend.gang.scheduler import NO_TOPOLOGY, NOT_QUEUED, Membership, Scheduler
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.k8s.objects import annotations_of
from etcompile.k8s.quantity import number
from etcompile.k8s.requests import requested, written
from etcompile.model.schedulers import SCHEDULER_NAMES

_PREFIX = "yunikorn.apache.org"
_GROUPS = f"{_PREFIX}/task-groups"
_NAME = f"{_PREFIX}/task-group-name"
_POLICY = f"{_PREFIX}/schedulingPolicyParameters"
_QUEUE = re.compile(r"(?=.{1,63}\Z)root(\.[a-zA-Z0-9]([-_a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)+", re.ASCII)
_STYLES = {None: "Hard", "fail": "Hard", "best-effort": "Soft"}
"""Always set, because YuniKorn's default starts Pods one by one."""
_COPIED = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")
"""Fields that decide where a Pod can run, and so where its placeholder must run."""


def membership(group: Group, place: Place) -> Membership:
    timeout = group.intent.timeout
    seconds = f"placeholderTimeoutInSeconds={timeout} " if timeout else ""
    style = _STYLES[group.intent.on_timeout]
    task_groups = [
        {
            "name": share.role.name,
            "minMember": share.minimum,
            "minResource": written(share.requests),
            # With sorted keys: a Pod that is created again may have them in another order.
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


def problems(group: Group) -> Iterator[Diagnostic]:
    """Report Pods that an overlay made larger than the placeholders of their task groups."""
    place = group.job.origin.locate("metadata", "name")
    problems: dict[str, None] = {}
    # Pods of a role share one PodSpec, unless an overlay patched them.
    for pod, spec in {id(spec): (pod, spec) for pod, spec in pod_specs(group.objects)}.values():
        notes = annotations_of(pod)
        name = notes.get(_NAME)
        try:
            task_groups = json.loads(notes.get(_GROUPS, "[]"))
            declared = {group["name"]: group["minResource"] for group in task_groups}
            sizes = {
                resource: number(amount) or 0 for resource, amount in declared.get(name, {}).items()
            }
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue  # an overlay wrote other task groups
        for resource, amount in requested(spec).items() if sizes else ():
            if amount > sizes.get(resource, 0):
                problems[f"Pods of {name} ask for more {resource} than their placeholders"] = None
    for problem in problems:
        yield diagnose(codes.GANG_YUNIKORN, place, problem=problem)


SCHEDULERS = {
    "yunikorn": Scheduler(
        title="YuniKorn",
        membership=membership,
        problems=problems,
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
