"""Headless Services, so that replicas have names before they have addresses.

One per replica gives it the bare name that source systems write into host lists. One for the
whole job is cheaper in a large cluster; the bare names then resolve through a search domain
that `pods` adds.
"""

from typing import Any

from etcompile.backend.identity import job_labels, metadata, replica_labels, selector
from etcompile.model import Job, Port, Settings


def objects(job: Job, settings: Settings) -> list[dict[str, Any]]:
    """The Services of a job: one for each replica with ports, or one for all."""
    served = [role for role in job.roles if role.ports]
    if settings.services == "per-replica":
        return [
            _headless(
                metadata(job, role.pod_name(member), replica_labels(job, role, member)),
                selector(job, role, member),
                role.ports,
            )
            for role in served
            for member in role.members
        ]
    if not served:
        return []
    ports = tuple({port.name: port for role in served for port in role.ports}.values())
    shared = metadata(job, service_name(job), job_labels(job))
    return [_headless(shared, dict(job.selector), ports)]


def service_name(job: Job) -> str:
    """The name of the one Service that all of a job's Pods share."""
    return job.name


def _headless(
    meta: dict[str, Any], selected: dict[str, str], ports: tuple[Port, ...]
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta,
        "spec": {
            "clusterIP": "None",
            # A peer must be found while it starts: the launcher's gate asks whether it is
            # ready, not DNS (reference/et-operator.md 6, defect 31).
            "publishNotReadyAddresses": True,
            "selector": selected,
            "ports": [{"name": port.name, "port": port.number} for port in ports],
        },
    }
