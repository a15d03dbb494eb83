"""The rules of a Pod and of the template of one, all in one table (ValidatePodTemplateSpec).

The table is in parts, a module an area, and a part is read only when a template has one of its
fields: most templates have few of them, and a run must not pay for the rest.
"""

import functools
from collections.abc import Iterator
from importlib import import_module

from etcompile.k8s.validation.forms import mapping
from etcompile.k8s.validation.pod.places import containers as containers_of
from etcompile.k8s.validation.rule import Rule, Subject
from etcompile.k8s.validation.tree import Problem, Tree, problems, tree

__all__ = ["pod_problems", "rules"]

_ANY = frozenset({"containers"})
_AREAS = {
    "metadata": frozenset({"labels", "annotations", "finalizers"}),
    "containers": _ANY | {"initContainers", "ephemeralContainers"},
    "env": frozenset({"env", "envFrom"}),
    "mounts": frozenset({"volumeMounts", "volumeDevices"}),
    "handlers": frozenset({"livenessProbe", "readinessProbe", "startupProbe", "lifecycle"}),
    "resources": frozenset({"resources", "resourceClaims", "resizePolicy", "overhead"}),
    "network": frozenset(
        {
            *("hostname", "subdomain", "nodeName", "serviceAccountName", "serviceAccount"),
            *("priority", "preemptionPolicy", "runtimeClassName", "hostnameOverride"),
            "priorityClassName",
            *("hostAliases", "dnsConfig", "dnsPolicy"),
        }
    ),
    "security": frozenset({"securityContext", "os", "hostUsers", "shareProcessNamespace"}),
    "scheduling": frozenset(
        {
            *("affinity", "topologySpreadConstraints", "tolerations", "nodeSelector"),
            *("schedulingGates", "readinessGates"),
        }
    ),
    "volumes": frozenset({"volumes"}),
    "sources": frozenset({"volumes"}),
}
"""The parts of the table, each with the fields of metadata, spec or a container that need it."""


def rules() -> tuple[Rule, ...]:
    """All rows of the table."""
    return tuple(rule for area in _AREAS for rule in _rules(area))


def pod_problems(subject: Subject) -> Iterator[Problem]:
    """What the API server would refuse in a Pod, or in the template of one.

    Args:
        subject: The Pod or template: a mapping with metadata and spec.
    """
    spec = mapping(subject.value, "spec")
    given = {*mapping(subject.value, "metadata"), *spec}
    for _, container in containers_of(spec):
        given.update(container)
    for area, fields in _AREAS.items():
        if not fields.isdisjoint(given):
            yield from problems(_tree(area), subject)


def _rules(area: str) -> tuple[Rule, ...]:
    found: tuple[Rule, ...] = import_module(f"{__name__}.{area}").RULES
    return found


@functools.cache
def _tree(area: str) -> Tree:
    return tree(_rules(area))
