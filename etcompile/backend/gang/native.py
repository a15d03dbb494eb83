"""Write the gangs of Kubernetes itself, which depend on its version.

reference/gang-scheduling.md 5. An API server that does not know the Pod's field drops it without a
warning, and the Pods start one by one. Therefore a version must be configured.
"""

from collections.abc import Iterator
from typing import Any

from etcompile.backend.gang.group import Group, Place, pod_specs
from etcompile.backend.gang.scheduler import (
    NO_TIERS,
    NOT_QUEUED,
    Membership,
    Scheduler,
    group_metadata,
)
from etcompile.diagnostics import Diagnostic, codes, diagnose

_WORKLOADS, _GROUPS, _BETA = 35, 36, 37
"""The minor versions that introduced Workloads, PodGroups, and PodGroups whose minimum may
change."""
_APIS = {35: "v1alpha1", 36: "v1alpha2", 37: "v1beta1"}
_ONLY = "all"
"""Name of the only group in a Workload."""


def membership(group: Group, _place: Place) -> Membership:
    if group.minor >= _GROUPS:
        return Membership(spec={"schedulingGroup": {"podGroupName": group.name}})
    if group.minor == _WORKLOADS:
        return Membership(spec={"workloadRef": {"name": group.name, "podGroup": _ONLY}})
    return Membership()


def objects(group: Group) -> list[dict[str, Any]]:
    if group.minor < _WORKLOADS:
        return []
    api = _APIS.get(group.minor, _APIS[max(_APIS)])
    gang = {"gang": {"minCount": group.minimum}}
    spec: dict[str, Any] = {"schedulingPolicy": gang}
    if label := group.intent.topology_label:
        spec["schedulingConstraints"] = {"topology": [{"key": label}]}
    # Earlier versions refuse both unless another feature gate is on.
    if group.minor >= _BETA and group.priority_class:
        spec["priorityClassName"] = group.priority_class
    if group.minor >= _BETA and group.intent.rigid:
        # By default the scheduler may preempt a single Pod, which stops all others.
        spec["disruptionMode"] = {"all": {}}
    if group.minor == _WORKLOADS:
        spec = {"podGroups": [{"name": _ONLY, "policy": gang}]}
    return [
        {
            "apiVersion": f"scheduling.k8s.io/{api}",
            "kind": "Workload" if group.minor == _WORKLOADS else "PodGroup",
            "metadata": group_metadata(group, "native"),
            "spec": spec,
        }
    ]


def problems(group: Group) -> Iterator[Diagnostic]:
    place = group.job.origin.locate("metadata", "name")
    if group.minor < _WORKLOADS:
        version = group.settings.kubernetes_version
        problem = f"Kubernetes {version} has no gangs of its own, 1.{_WORKLOADS} is the first"
        advice = "choose another gang scheduler, or set a later kubernetes-version"
        yield diagnose(codes.GANG_NATIVE, place, problem=problem, advice=advice)
    if group.minor == _WORKLOADS and group.intent.topology_label:
        problem = f"Kubernetes 1.{_WORKLOADS} places no gang by a label of its nodes"
        advice = f"set kubernetes-version to 1.{_GROUPS} or later, or remove the annotation"
        at = group.intent.origins["topology_label"].locate()
        yield diagnose(codes.GANG_NATIVE, at, problem=problem, advice=advice)
    classes = {spec.get("priorityClassName") for _, spec in pod_specs(group.objects)}
    if group.minor >= _BETA and classes and classes != {group.priority_class}:
        names = " and ".join(sorted(str(name or "none") for name in classes))
        of_group = group.priority_class or "none"
        problem = (
            f"the PodGroup has PriorityClass {of_group}, its Pods {names}: the group is rejected"
        )
        advice = "give the gang and all Pod templates the same PriorityClass"
        yield diagnose(codes.GANG_NATIVE, place, problem=problem, advice=advice)


def needs(group: Group) -> Iterator[str]:
    if group.minor >= _BETA:
        yield "feature gate GenericWorkload"
    else:
        yield "feature gates GenericWorkload and GangScheduling"
    if group.intent.topology_label:
        yield "feature gate TopologyAwareWorkloadScheduling"
    api = _APIS.get(group.minor, _APIS[max(_APIS)])
    yield f"API scheduling.k8s.io/{api} switched on (--runtime-config)"


SCHEDULERS = {
    "native": Scheduler(
        title="Kubernetes itself",
        membership=membership,
        objects=objects,
        problems=problems,
        needs=needs,
        usual_name="default-scheduler",
        unused={
            **NOT_QUEUED,
            **NO_TIERS,
            "queue": "it has no queues",
            "min_resources": "it adds up what the Pods ask for",
            "timeout": "its waiting time is fixed",
            "on_timeout": "it goes on trying",
        },
        declares_version=True,
        one_priority=True,
        resizes_since=_BETA,
    )
}
