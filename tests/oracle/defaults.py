"""What the API server fills in, so that a rendered object can be held against a recorded one.

The recordings carry these defaults; a rendered object does not and must not. Only defaults of
fields that a Pod template or a compiled object can have are here.
"""

import copy
from decimal import Decimal
from typing import Any

_SUFFIX = {
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
    "m": Decimal("0.001"), "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15,
}  # fmt: skip


def defaulted(value: dict[str, Any]) -> dict[str, Any]:
    """A copy of the object as the API server would store it, status aside."""
    value = copy.deepcopy(value)
    if value["kind"] == "Pod":
        _pod_spec(value["spec"])
    if value["kind"] == "Service":
        _service_spec(value["spec"])
    if value["kind"] == "PersistentVolumeClaim":
        value["spec"].setdefault("volumeMode", "Filesystem")
    if value["kind"] == "Job":
        _job_spec(value["spec"])
    return value


def _job_spec(spec: dict[str, Any]) -> None:
    spec.setdefault("parallelism", 1)
    spec.setdefault("completions", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("manualSelector", False)
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
    _pod_spec(spec["template"]["spec"], template=True)


def _service_spec(spec: dict[str, Any]) -> None:
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port["port"])


def _pod_spec(spec: dict[str, Any], *, template: bool = False) -> None:
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if not template:  # a Pod's own defaults, which a template leaves to its Pods
        spec.setdefault("enableServiceLinks", True)
    if account := spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", account)
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        _container(container, host_network=spec.get("hostNetwork", False), requests=not template)
    if "overhead" in spec:
        spec["overhead"] = _quantities(spec["overhead"])
    for volume in spec.get("volumes", ()):
        _volume(volume)


def _container(container: dict[str, Any], *, host_network: bool, requests: bool) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    image = container["image"]
    tag = image.rpartition("/")[2].partition(":")[2]
    latest = "@" not in image and tag in ("", "latest")
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    resources = container.setdefault("resources", {})
    for kind in ("limits", "requests"):
        if kind in resources:
            resources[kind] = _quantities(resources[kind])
    if requests and (limits := resources.get("limits")):
        resources["requests"] = {**limits, **resources.get("requests", {})}
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if host_network:
            port.setdefault("hostPort", port["containerPort"])
    for env in container.get("env", ()):
        if field := env.get("valueFrom", {}).get("fieldRef"):
            field.setdefault("apiVersion", "v1")
        if resource := env.get("valueFrom", {}).get("resourceFieldRef"):
            resource.setdefault("divisor", "0")
        if "valueFrom" not in env and not env.get("value"):
            env.pop("value", None)
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            _probe(container[probe])
    for hook in container.get("lifecycle", {}).values():
        _http(hook)


def _probe(probe: dict[str, Any]) -> None:
    defaults = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1}
    for field, default in {**defaults, "failureThreshold": 3}.items():
        probe.setdefault(field, default)
    _http(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _http(action: dict[str, Any]) -> None:
    if "httpGet" in action:
        action["httpGet"].setdefault("path", "/")
        action["httpGet"].setdefault("scheme", "HTTP")


def _volume(volume: dict[str, Any]) -> None:
    for kind in ("configMap", "secret", "projected", "downwardAPI"):
        if kind in volume:
            volume[kind].setdefault("defaultMode", 420)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}
    if limit := volume.get("emptyDir", {}).get("sizeLimit"):
        volume["emptyDir"]["sizeLimit"] = canonical(limit)
    for source in volume.get("projected", {}).get("sources", ()):
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        _downward(source.get("downwardAPI", {}))
    _downward(volume.get("downwardAPI", {}))
    if claim := volume.get("ephemeral", {}).get("volumeClaimTemplate"):
        claim["spec"].setdefault("volumeMode", "Filesystem")


def _downward(source: dict[str, Any]) -> None:
    for item in source.get("items", ()):
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")


def _quantities(quantities: dict[str, Any]) -> dict[str, str]:
    return {name: canonical(quantity) for name, quantity in quantities.items()}


def canonical(quantity: object) -> str:
    """A quantity as Kubernetes writes it: 3072Mi is 3Gi, 0.5 is 500m, 8 is '8'."""
    text = str(quantity)
    suffix = next((s for s in sorted(_SUFFIX, key=len, reverse=True) if text.endswith(s)), "")
    number = Decimal(text.removesuffix(suffix)) * _SUFFIX.get(suffix, 1)
    if suffix.endswith("i"):
        steps = ["Ei", "Pi", "Ti", "Gi", "Mi", "Ki"]
    else:
        steps = ["P", "T", "G", "M", "k"]
    for step in steps:
        if number and number % _SUFFIX[step] == 0:
            return f"{int(number // _SUFFIX[step])}{step}"
    return str(int(number)) if number == int(number) else f"{int(number * 1000)}m"
