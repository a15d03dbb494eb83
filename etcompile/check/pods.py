"""What the API server refuses in a Pod although its schema allows it.

Names that occur twice, mounts of volumes that are not there, quantities that are none: found
here with their line, instead of at `kubectl apply`. Every rule is one of the API server's own,
the same in all Kubernetes versions that etcompile knows; where it is more lenient, so is this.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct

from etcompile.check.explain import closest, dotted, value_at
from etcompile.diagnostics import Diagnostic, Source, ValuePath, diagnose
from etcompile.model import quantity

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PORT_NAME = re.compile(r"(?=[^a-z]*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")
_ENV_NAME = re.compile(r"[ -<>-~]+")
"""Printable ASCII without '=': the rule since 1.30; older versions allow less."""
_LABEL_KEY = re.compile(
    r"((?=[^/]{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")

_LABEL_ADVICE = "use lower-case letters, digits and '-', at most 63"
_NO_IMAGE = "needs 'image'"
_PORTS = range(1, 65536)
_STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_VOLUME_SOURCES = (
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "configMap", "csi"),
    *("downwardAPI", "emptyDir", "ephemeral", "fc", "flexVolume", "flocker", "gitRepo"),
    *("gcePersistentDisk", "glusterfs", "hostPath", "image", "iscsi", "nfs"),
    *("persistentVolumeClaim", "photonPersistentDisk", "portworxVolume", "projected", "quobyte"),
    *("rbd", "scaleIO", "secret", "storageos", "vsphereVolume"),
)

_Value = Mapping[str, Any]


class _Finding(Struct, frozen=True):
    path: ValuePath
    problem: str
    advice: str = ""
    at_key: bool = False


def check_pod_template(
    source: Source,
    path: ValuePath,
    *,
    known_volumes: Collection[str] = (),
    partial: bool = False,
) -> list[Diagnostic]:
    """What the API server would refuse for certain in a Pod of this template.

    It may be called whether or not the template passed its schema: what has the wrong type is
    left to `kubernetes.check_pod_template`.

    Args:
        source: The document that holds the template.
        path: Where.
        known_volumes: Volumes that the Pod will have besides the template's own.
        partial: The job fills in what is missing.

    Returns:
        An error for each fault, at its place.
    """
    template = value_at(source.data, path)
    if not isinstance(template, dict):
        return []
    problems = [
        diagnose(
            "ET4002",
            source.locate(found.path, key=found.at_key),
            where=dotted(found.path),
            problem=found.problem,
            advice=found.advice,
        )
        for found in _template(template, path, known_volumes)
        if not (partial and found.problem == _NO_IMAGE)
    ]
    for at, container in _containers(_mapping(template, "spec"), path):
        problems += _same_env_twice(source, at, container)
    return problems


def check_images(source: Source, path: ValuePath) -> list[Diagnostic]:
    """A warning for each image of a Pod template that may be another one tomorrow.

    Args:
        source: The document that holds the template.
        path: Where.
    """
    template = value_at(source.data, path)
    if not isinstance(template, dict):
        return []
    return [
        diagnose("ET2040", source.locate((*at, "image")), image=image)
        for at, container in _containers(_mapping(template, "spec"), path)
        if isinstance(image := container.get("image"), str) and image and _is_mutable(image)
    ]


def _is_mutable(image: str) -> bool:
    if "@" in image:
        return False
    tag = image.rpartition("/")[2].partition(":")[2]
    return tag in ("", "latest", "master", "test")


# Reading what may have any shape --------------------------------------------------------------


def _mapping(value: _Value, field: str) -> _Value:
    found = value.get(field)
    return found if isinstance(found, dict) else {}


def _mappings(value: _Value, field: str, at: ValuePath) -> Iterator[tuple[ValuePath, _Value]]:
    found = value.get(field)
    for index, one in enumerate(found if isinstance(found, list) else ()):
        if isinstance(one, dict):
            yield (*at, field, index), one


def _containers(spec: _Value, template: ValuePath) -> Iterator[tuple[ValuePath, _Value]]:
    for field in ("initContainers", "containers"):
        yield from _mappings(spec, field, (*template, "spec"))


def _given(value: _Value, fields: Iterable[str]) -> list[str]:
    return [field for field in fields if value.get(field) is not None]


# The template ---------------------------------------------------------------------------------


def _template(
    template: _Value, at: ValuePath, known_volumes: Collection[str]
) -> Iterator[_Finding]:
    metadata, spec = _mapping(template, "metadata"), _mapping(template, "spec")
    yield from _labels(_mapping(metadata, "labels"), (*at, "metadata", "labels"))
    yield from _keys(_mapping(metadata, "annotations"), (*at, "metadata", "annotations"))
    yield from _labels(_mapping(spec, "nodeSelector"), (*at, "spec", "nodeSelector"))
    if spec.get("ephemeralContainers"):
        problem = "cannot be set when a Pod is created"
        yield _Finding((*at, "spec", "ephemeralContainers"), problem, "remove it", at_key=True)
    if spec.get("containers") == []:
        yield _Finding((*at, "spec", "containers"), "must not be empty")
    yield from _names("container", _containers(spec, at))
    yield from _volumes(spec, at)
    own = (volume.get("name") for _, volume in _mappings(spec, "volumes", at))
    volumes = [*dict.fromkeys(name for name in (*own, *known_volumes) if isinstance(name, str))]
    for place, container in _containers(spec, at):
        yield from _container(container, place, volumes)


def _labels(labels: _Value, at: ValuePath) -> Iterator[_Finding]:
    yield from _keys(labels, at, fold=False)
    for key, value in labels.items():
        if isinstance(value, str) and not _LABEL_VALUE.fullmatch(value):
            advice = "at most 63 letters, digits, '-', '_' and '.', no sign at either end"
            yield _Finding((*at, key), f"'{value}' is not a label value", advice)


def _keys(values: _Value, at: ValuePath, *, fold: bool = True) -> Iterator[_Finding]:
    """Keys of labels; those of annotations are the same when written in lower case."""
    for key in values:
        if not _LABEL_KEY.fullmatch(key.lower() if fold else key):
            advice = "letters, digits, '-', '_' and '.', at most 63, after an optional 'domain/'"
            yield _Finding((*at, key), f"'{key}' is not a valid key", advice, at_key=True)


def _names(what: str, values: Iterable[tuple[ValuePath, _Value]]) -> Iterator[_Finding]:
    """Names that are no DNS label, or occur twice."""
    seen: set[str] = set()
    for at, value in values:
        name = value.get("name")
        if not isinstance(name, str):
            continue
        place = (*at, "name")
        if not _DNS_LABEL.fullmatch(name):
            yield _Finding(place, f"'{name}' is not a DNS label", _LABEL_ADVICE)
        elif name in seen:
            yield _Finding(place, f"another {what} has the name '{name}'", "rename one of the two")
        seen.add(name)


def _volumes(spec: _Value, template: ValuePath) -> Iterator[_Finding]:
    at = (*template, "spec")
    yield from _names("volume", _mappings(spec, "volumes", at))
    for place, volume in _mappings(spec, "volumes", at):
        if len(sources := _given(volume, _VOLUME_SOURCES)) > 1:
            problem = f"a volume has one source, this one has {' and '.join(sources)}"
            yield _Finding(place, problem, "make two volumes of it")
        limit = _mapping(volume, "emptyDir").get("sizeLimit")
        yield from _quantity(limit, (*place, "emptyDir", "sizeLimit"))


# A container ----------------------------------------------------------------------------------


def _container(value: _Value, at: ValuePath, volumes: Collection[str]) -> Iterator[_Finding]:
    yield from _image(value, at)
    yield from _ports(value, at)
    yield from _env(value, at)
    yield from _mounts(value, at, volumes)
    yield from _resources(_mapping(value, "resources"), (*at, "resources"))
    yield from _handlers(value, at)
    if at[-2] == "initContainers" and value.get("restartPolicy") != "Always":
        for field in _given(value, (*_PROBES, "lifecycle")):
            problem = "an init container that is not a sidecar cannot have it"
            advice = "remove it, or set restartPolicy: Always (a sidecar, Kubernetes 1.28)"
            yield _Finding((*at, field), problem, advice, at_key=True)


def _image(container: _Value, at: ValuePath) -> Iterator[_Finding]:
    image = container.get("image")
    if image is None:
        if not closest("image", container):  # a misspelt one is told as an unknown field
            yield _Finding(at, _NO_IMAGE)
    elif image == "":
        yield _Finding((*at, "image"), "must not be empty")
    elif isinstance(image, str) and image != image.strip():
        yield _Finding((*at, "image"), f"'{image}' begins or ends with a blank", "remove it")


def _ports(container: _Value, at: ValuePath) -> Iterator[_Finding]:
    seen: set[str] = set()
    for place, port in _mappings(container, "ports", at):
        for field in ("containerPort", "hostPort"):
            value = port.get(field)
            absent = value == 0 and field == "hostPort"
            if isinstance(value, int) and value not in _PORTS and not absent:
                yield _Finding((*place, field), f"must be between 1 and 65535, not {value}")
        name = port.get("name")
        if not isinstance(name, str) or not name:
            continue
        if not _PORT_NAME.fullmatch(name):
            advice = "at most 15 lower-case letters, digits and '-', with a letter, without '--'"
            yield _Finding((*place, "name"), f"'{name}' is not a port name", advice)
        elif name in seen:
            problem = f"another port of this container has the name '{name}'"
            yield _Finding((*place, "name"), problem, "rename one of the two")
        seen.add(name)


def _env(container: _Value, at: ValuePath) -> Iterator[_Finding]:
    for place, env in _mappings(container, "env", at):
        name = env.get("name")
        if isinstance(name, str) and not _ENV_NAME.fullmatch(name):
            problem = f"'{name}' is not a name for an environment variable"
            yield _Finding((*place, "name"), problem, "use printable ASCII characters without '='")
        if not isinstance(env.get("valueFrom"), dict):
            continue
        if env.get("value"):
            problem = "has both value and valueFrom"
            yield _Finding(place, problem, "remove one of the two")
        sources = _given(env["valueFrom"], _ENV_SOURCES)
        if len(sources) > 1:
            problem = f"takes one source, not {' and '.join(sources)}"
            yield _Finding((*place, "valueFrom"), problem, at_key=True)
        elif not any(one is not None for one in env["valueFrom"].values()):
            problem = f"needs one of {', '.join(_ENV_SOURCES[:4])}"
            yield _Finding((*place, "valueFrom"), problem, at_key=True)


def _same_env_twice(source: Source, at: ValuePath, container: _Value) -> Iterator[Diagnostic]:
    seen: set[str] = set()
    for place, env in _mappings(container, "env", at):
        if isinstance(name := env.get("name"), str):
            if name in seen:
                where = source.locate((*place, "name"))
                yield diagnose("ET4004", where, where=dotted(at), name=name)
            seen.add(name)


def _mounts(container: _Value, at: ValuePath, volumes: Collection[str]) -> Iterator[_Finding]:
    seen: set[str] = set()
    for place, mount in _mappings(container, "volumeMounts", at):
        name, path = mount.get("name"), mount.get("mountPath")
        if isinstance(name, str) and name not in volumes:
            yield _Finding((*place, "name"), f"no volume is named '{name}'", _near(name, volumes))
        if path == "":
            yield _Finding((*place, "mountPath"), "must not be empty")
        elif isinstance(path, str) and path in seen:
            problem = f"another mount of this container is at '{path}'"
            yield _Finding((*place, "mountPath"), problem, "mount one of the two elsewhere")
        if isinstance(path, str):
            seen.add(path)
        yield from _sub_path(mount, place)


def _sub_path(mount: _Value, at: ValuePath) -> Iterator[_Finding]:
    given = [field for field in ("subPath", "subPathExpr") if mount.get(field)]
    if len(given) > 1:
        yield _Finding(at, "has both subPath and subPathExpr", "remove one of the two")
    for field in given:
        path = mount[field]
        if isinstance(path, str) and (path.startswith("/") or ".." in path.split("/")):
            problem = f"'{path}' is not a path inside the volume"
            yield _Finding((*at, field), problem, "write it without a leading '/' and without '..'")


def _near(name: str, volumes: Collection[str]) -> str:
    if meant := closest(name, volumes):
        return f"did you mean '{meant}'?"
    return f"its volumes are: {', '.join(volumes)}" if volumes else "the Pod has no volumes"


def _handlers(container: _Value, at: ValuePath) -> Iterator[_Finding]:
    """Probes and hooks say in exactly one way what to do."""
    hooks = _mapping(container, "lifecycle")
    actions = [
        *((container, (*at, field), field, _PROBE_HANDLERS) for field in _PROBES),
        *((hooks, (*at, "lifecycle", f), f, _HOOK_HANDLERS) for f in ("postStart", "preStop")),
    ]
    for owner, place, field, handlers in actions:
        action = owner.get(field)
        if not isinstance(action, dict):
            continue
        given = _given(action, handlers)
        if len(given) > 1:
            yield _Finding(place, f"takes one action, not {' and '.join(given)}", at_key=True)
        elif not given:
            yield _Finding(place, f"needs one of {', '.join(handlers)}", at_key=True)


# Resources ------------------------------------------------------------------------------------


def _resources(resources: _Value, at: ValuePath) -> Iterator[_Finding]:
    limits, requests = _mapping(resources, "limits"), _mapping(resources, "requests")
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            yield from _resource(name, amount, (*at, field, name))
    for name, amount in requests.items():
        yield from _request(name, amount, limits.get(name), (*at, "requests", name))


def _resource(name: str, amount: Any, at: ValuePath) -> Iterator[_Finding]:
    if "/" not in name and not _is_native(name):
        known = ", ".join(_STANDARD_RESOURCES)
        advice = f"Kubernetes' own are {known} and hugepages-*; others have a domain: example.com/x"
        yield _Finding(at, f"'{name}' is not a resource of containers", advice, at_key=True)
    yield from _quantity(amount, at)
    number = _number(amount)
    if number is not None and _is_extended(name) and number != number.to_integral_value():
        yield _Finding(at, f"must be a whole number, not {amount}")


def _quantity(amount: Any, at: ValuePath) -> Iterator[_Finding]:
    if not _is_amount(amount):
        return
    number = quantity.number(amount)
    if number is None:
        meant = quantity.probably(str(amount))
        advice = f"did you mean '{meant}'?" if meant else "for example 500m, 2, 4Gi"
        yield _Finding(at, f"'{amount}' is not a quantity", advice)
    elif number < 0:
        yield _Finding(at, f"must not be negative: {amount}")


def _request(name: str, amount: Any, limit: Any, at: ValuePath) -> Iterator[_Finding]:
    """A request against its limit; devices and huge pages cannot be over-committed."""
    wanted, most = _number(amount), _number(limit)
    shared = _is_native(name) and not name.startswith("hugepages-")
    if wanted is None or (limit is not None and (most is None or most < 0)):
        return  # said already, of the amount itself
    if most is None:
        if not shared:
            advice = f"set resources.limits to {name}: {amount} too"
            yield _Finding(at, f"{name} needs a limit as well as a request", advice)
    elif not shared and wanted != most:
        yield _Finding(at, f"must be equal to the limit {limit}, not {amount}")
    elif wanted > most:
        yield _Finding(at, f"{amount} is above the limit {limit}")


def _is_native(name: str) -> bool:
    """Whether Kubernetes itself accounts for a resource; a device plugin does for others."""
    if "/" in name:
        return "kubernetes.io/" in name
    return name in _STANDARD_RESOURCES or name.startswith("hugepages-")


def _is_extended(name: str) -> bool:
    return "/" in name and not _is_native(name)


def _is_amount(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _number(value: Any) -> Decimal | None:
    return quantity.number(value) if _is_amount(value) else None
