"""Build headless Services, which give replicas names before they have addresses.

One per replica gives it the bare name that source systems write into host lists. One for the whole
job is cheaper in a large cluster; bare names then resolve through a search domain in the Pods.
"""

from collections.abc import Iterable
from typing import Any

from etcompile.backend.identity import job_labels, metadata, place_labels, role_labels, selector
from etcompile.model import Job, Port, Role, Settings


def objects(job: Job, settings: Settings) -> list[dict[str, Any]]:
    """Return the Services of a job: one for each replica with ports, or one for all.

    A role that names a Service always has that one.
    """
    services = []
    for role in job.roles:
        if role.naming.service:
            meta = metadata(job, role.naming.service, role_labels(job, role))
            services.append(_service(role, meta, selector(job, role), _entries(role.ports)))
    served = [role for role in job.roles if role.ports and not role.naming.service]
    if job.is_behind_one_service(settings.services):
        if served or job.service:
            ports = {port.name: port for role in served for port in role.ports}
            shared = metadata(job, service_name(job), job_labels(job))
            entries = _entries(ports.values())
            services.append(_service(None, shared, dict(job.selector), entries))
        return services
    for role in served:
        labels, selected = role_labels(job, role), selector(job, role)
        entries = _entries(role.ports)
        index = role.labels.rank or role.labels.index
        for member in role.members:
            indexes = place_labels(role, member)
            meta = metadata(job, role.host_name(member), {**labels, **indexes})
            place = {index: indexes[index]} if index and index in indexes else {}
            services.append(_service(role, meta, {**selected, **place}, entries))
    return services


def names(job: Job, settings: Settings) -> frozenset[str]:
    if job.run.suspended and not job.service:
        return frozenset()
    return frozenset(value["metadata"]["name"] for value in objects(job, settings))


def service_name(job: Job) -> str:
    return job.service.name if job.service else job.name


def domain(job: Job, settings: Settings) -> str:
    """Return the suffix with which a host's bare name resolves from any namespace: `.NS.svc`."""
    service = f".{service_name(job)}" if job.is_behind_one_service(settings.services) else ""
    return f"{service}.{job.namespace}.svc"


def port_entry(port: Port, number: str) -> dict[str, Any]:
    """Return a port as Kubernetes writes it, without the protocol if it is TCP.

    Args:
        number: The field for its number: `port` of a Service, `containerPort` of a container.
    """
    protocol = {} if port.protocol == "TCP" else {"protocol": port.protocol}
    return {"name": port.name, number: port.number, **protocol}


def _entries(ports: Iterable[Port]) -> list[dict[str, Any]]:
    return [port_entry(port, "port") for port in ports]


def _service(
    role: Role | None, meta: dict[str, Any], selected: dict[str, str], entries: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return a headless Service, or one with an address for a role with a stable address.

    Clients of a stable address need not look it up again when the Pod is replaced.
    """
    spec: dict[str, Any] = {"selector": selected, "ports": entries}
    if role is None or not role.naming.stable_address:
        # A peer must be resolved before it is ready: the launcher's gate checks readiness itself,
        # not through DNS (reference/et-operator.md 6, defect 31).
        headless = {"clusterIP": "None", "publishNotReadyAddresses": True}
        spec = {**headless, "selector": selected, **({"ports": entries} if entries else {})}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
