"""What the API server fills in where a file says nothing.

Only defaults of fields that may not change later are here: a table, from the SetDefaults
functions of Kubernetes' pkg/apis (core/v1, batch/v1) and from the admission plugins
ServiceAccount and Priority, which every cluster has.
"""

import re
from collections.abc import Mapping
from typing import Any


def default(kind: str, path: tuple[str, ...], around: Mapping[str, Any]) -> Any:
    """The value of a field that is not written.

    Args:
        kind: The object's kind.
        path: Where the field stands.
        around: The mapping that lacks it.

    Returns:
        The value, None if there is none.
    """
    table, steps = _TABLES.get(kind, {}), path
    for anchor in _POD_SPECS.get(kind, ()):
        if path[: len(anchor)] == anchor and len(path) > len(anchor):
            table, steps = _POD, path[len(anchor) :]
    found = table.get(".".join("[]" if step.startswith("[") else step for step in steps))
    return found(around) if callable(found) else found


def _pull_policy(container: Mapping[str, Any]) -> str:
    image = str(container.get("image", ""))
    tag = re.fullmatch(r"(?:.*/)?[^/:@]+(?::(?P<tag>[^@]+))?(?P<digest>@.+)?", image)
    pinned = tag is None or tag["digest"] or tag["tag"] not in (None, "latest")
    return "IfNotPresent" if pinned else "Always"


def _one_of_each(job_spec: Mapping[str, Any]) -> int | None:
    return None if "parallelism" in job_spec else 1


def _each(prefixes: tuple[str, ...], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}.{field}": value for prefix in prefixes for field, value in fields.items()}


_POD_SPECS: dict[str, tuple[tuple[str, ...], ...]] = {
    "Job": (("spec", "template", "spec"),),
    "Pod": (("spec",),),
}
"""Where the kinds with rules about a PodSpec have it."""

_HTTP = {"httpGet.path": "/", "httpGet.scheme": "HTTP"}
_PROBE = {
    "failureThreshold": 3,
    "grpc.service": "",
    "initialDelaySeconds": 0,
    "periodSeconds": 10,
    "successThreshold": 1,
    "timeoutSeconds": 1,
    **_HTTP,
}
_CONTAINER = {
    "env[].value": "",
    "env[].valueFrom.fieldRef.apiVersion": "v1",
    "env[].valueFrom.resourceFieldRef.divisor": "0",
    "imagePullPolicy": _pull_policy,
    "ports[].hostPort": 0,
    "ports[].name": "",
    "ports[].protocol": "TCP",
    "resources.requests": lambda resources: resources.get("limits"),
    "stdin": False,
    "stdinOnce": False,
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "tty": False,
    "volumeMounts[].readOnly": False,
    "volumeMounts[].subPath": "",
    "workingDir": "",
    **_each(("livenessProbe", "readinessProbe", "startupProbe"), _PROBE),
    **_each(("lifecycle.postStart", "lifecycle.preStop"), _HTTP),
}
_VOLUME = {
    "configMap.defaultMode": 0o644,
    "downwardAPI.defaultMode": 0o644,
    "downwardAPI.items[].fieldRef.apiVersion": "v1",
    "ephemeral.volumeClaimTemplate.spec.volumeMode": "Filesystem",
    "hostPath.type": "",
    "persistentVolumeClaim.readOnly": False,
    "projected.defaultMode": 0o644,
    "projected.sources[].downwardAPI.items[].fieldRef.apiVersion": "v1",
    "projected.sources[].serviceAccountToken.expirationSeconds": 3600,
    "secret.defaultMode": 0o644,
}
_POD_WRITTEN = {
    "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": True,
    "hostIPC": False,
    "hostNetwork": False,
    "hostPID": False,
    "hostname": "",
    "nodeName": "",
    "preemptionPolicy": "PreemptLowerPriority",
    "priorityClassName": "",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "serviceAccountName": "default",
    "subdomain": "",
    "terminationGracePeriodSeconds": 30,
    **_each(("containers[]", "initContainers[]"), _CONTAINER),
    **_each(("volumes[]",), _VOLUME),
}

_WRITTEN: dict[str, dict[str, Any]] = {
    "Job": {
        "spec.completionMode": "NonIndexed",
        "spec.completions": _one_of_each,
        "spec.parallelism": 1,
        "spec.suspend": False,
    },
    "PersistentVolumeClaim": {"spec.volumeMode": "Filesystem"},
    "Secret": {"type": "Opaque"},
    "Service": {"spec.type": "ClusterIP"},
}


def _by_steps(table: Mapping[str, Any]) -> dict[str, Any]:
    return {pattern.replace("[]", ".[]"): value for pattern, value in table.items()}


_POD: dict[str, Any] = _by_steps(_POD_WRITTEN)
_TABLES: dict[str, dict[str, Any]] = {kind: _by_steps(fields) for kind, fields in _WRITTEN.items()}
