"""Exclusive topology of a TrainJob: each Job has a zone, rack or node for itself.

reference/trainer-v2.md 7.4. JobSet binds the first Pod, and lets the others follow it by a
nodeSelector; here all Pods have the affinity of the first, which comes to the same.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
"""The annotation of a JobSet, or of a Job's template: the label of nodes that says how far."""
JOB_KEY = "jobset.sigs.k8s.io/job-key"
"""The label by which Pods of a Job are told from those of all others in the cluster."""
PRIORITY = "jobset.sigs.k8s.io/priority"
"""The label with the priority of a Pod: a Job may take the place of one of lower priority."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

_SYSTEM = {"system-cluster-critical": "2000000000", "system-node-critical": "2000001000"}


def topology_of(runtime: Mapping[str, Any], replicated: Mapping[str, Any]) -> str | None:
    """The domain that a Job has for itself: a label of nodes; None if it has none."""
    for template in (replicated["template"], runtime["template"]):
        found: str | None = template.get("metadata", {}).get("annotations", {}).get(TOPOLOGY)
        if found is not None:
            return found
    return None


def job_key(namespace: str | None, job: str) -> str:
    """What JobSet calls a Job in the whole cluster."""
    text = f"{namespace or 'default'}/{job}".encode()
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()


def priority(spec: Mapping[str, Any]) -> str:
    """What the label of priority says: JobSet's number, or a class, whose number is not known."""
    named = str(spec.get("priorityClassName") or "")[:63].rstrip("-.")
    return str(spec.get("priority") or _SYSTEM.get(named, named) or 0)


def kept_apart(spec: Mapping[str, Any], topology: str, key: str) -> dict[str, Any]:
    """The spec of Pods that are together, and with no other Job's of the same priority."""
    own = {"key": JOB_KEY, "operator": "In", "values": [key]}
    same = {"key": PRIORITY, "operator": "In", "values": [priority(spec)]}
    others = [{"key": JOB_KEY, "operator": "Exists"}, {**own, "operator": "NotIn"}, same]
    affinity = dict(spec.get("affinity", {}))
    for field, expressions in (("podAffinity", [own]), ("podAntiAffinity", others)):
        term = {
            "labelSelector": {"matchExpressions": expressions},
            "topologyKey": topology,
            "namespaceSelector": {},
        }
        given = affinity.get(field, {})
        affinity[field] = {**given, _REQUIRED: [*given.get(_REQUIRED, ()), term]}
    return {**spec, "affinity": affinity}
