"""Headless Services, so that replicas have names before they have addresses.

One per replica gives it the bare name that source systems write into host lists. One for the
whole job is cheaper in a large cluster; the bare names then resolve through a search domain
that `pods` adds.
"""

from collections.abc import Iterable
from typing import Any

from etcompile.backend.identity import job_labels, metadata, place_labels, role_labels, selector
from etcompile.model import Job, Port, Role, Settings


def objects(job: Job, settings: Settings) -> list[dict[str, Any]]:
    """The Services of a job: one for each replica with ports, or one for all.

    That of a role which has one of its own is always there.
    """
    own = [_of_role(job, role) for role in job.roles if role.naming.service]
    served = [role for role in job.roles if role.ports and not role.naming.service]
    if not job.is_behind_one_service(settings.services):
        return [*own, *(service for role in served for service in _replicas(job, role))]
    if not served and not job.service:
        return own
    ports = tuple({port.name: port for role in served for port in role.ports}.values())
    shared = metadata(job, service_name(job), job_labels(job))
    return [*own, _headless(shared, dict(job.selector), _ports(ports))]


def service_name(job: Job) -> str:
    """The name of the one Service that all of a job's Pods share."""
    return job.service.name if job.service else job.name


def domain(job: Job, settings: Settings) -> str:
    """What makes a host's bare name one that resolves from any namespace: `.NS.svc`."""
    service = f".{service_name(job)}" if job.is_behind_one_service(settings.services) else ""
    return f"{service}.{job.namespace}.svc"


def _replicas(job: Job, role: Role) -> list[dict[str, Any]]:
    labels, selected, ports = role_labels(job, role), selector(job, role), _ports(role.ports)
    services = []
    make = _addressed if role.naming.stable_address else _headless
    for member in role.members:
        indexes = place_labels(role, member)
        meta = metadata(job, role.host_name(member), {**labels, **indexes})
        index = role.labels.rank or role.labels.index
        own = {index: indexes[index]} if index and index in indexes else {}
        services.append(make(meta, {**selected, **own}, ports))
    return services


def _of_role(job: Job, role: Role) -> dict[str, Any]:
    make = _addressed if role.naming.stable_address else _headless
    meta = metadata(job, role.naming.service or role.naming.stem, role_labels(job, role))
    return make(meta, selector(job, role), _ports(role.ports))


def _ports(ports: Iterable[Port]) -> list[dict[str, Any]]:
    return [port_entry(port, "port") for port in ports]


def port_entry(port: Port, number: str) -> dict[str, Any]:
    """A port as Kubernetes spells it, without the protocol that goes without saying.

    Args:
        number: The field of its number: `port` of a Service, `containerPort` of a container.
    """
    protocol = {} if port.protocol == "TCP" else {"protocol": port.protocol}
    return {"name": port.name, number: port.number, **protocol}


def _headless(
    meta: dict[str, Any], selected: dict[str, str], ports: list[dict[str, Any]]
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
            **({"ports": ports} if ports else {}),
        },
    }


def _addressed(
    meta: dict[str, Any], selected: dict[str, str], ports: list[dict[str, Any]]
) -> dict[str, Any]:
    """A Service with an address, which clients need not look up again when its Pod is another."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta,
        "spec": {"selector": selected, "ports": ports},
    }
