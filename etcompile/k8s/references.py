"""What an object names in its spec: the objects that it cannot do without.

Apart from the graph because it is a table of Kubernetes' fields. Objects of unknown kinds come
here unchecked: whatever is not where it should be is not a reference.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

RBAC = "rbac.authorization.k8s.io"
_EXTERNAL = "external-secrets.io"
_STORE_DRIVER = "secrets-store.csi.x-k8s.io"
_TEMPLATES: dict[str, tuple[str, ...]] = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    "PodTemplate": ("template", "spec"),
    **dict.fromkeys(
        (
            "DaemonSet",
            "Deployment",
            "Job",
            "ReplicaSet",
            "ReplicationController",
            "StatefulSet",
        ),
        ("spec", "template", "spec"),
    ),
}
"""Where the PodSpec is, by kind."""


class Reference(Struct, frozen=True):
    """An object that another one names.

    Args:
        how: What the naming object does with it: `mounts`.
        group: Its API group.
        namespace: Its namespace; None for that of the naming object.
        optional: The naming object does without it.
        binds: The naming object is not done, or not even accepted, before this one is there.
    """

    how: str
    kind: str
    name: str
    group: str = ""
    namespace: str | None = None
    optional: bool = False
    binds: bool = True


def references(value: Mapping[str, Any]) -> tuple[Reference, ...]:
    """What an object names, each once, in the order of its fields."""
    kind = value.get("kind")
    found: Iterator[Reference] = iter(())
    if kind in _TEMPLATES:
        found = _of_pod(_mapping(value, *_TEMPLATES[kind]))
    elif kind in ("RoleBinding", "ClusterRoleBinding"):
        found = _of_binding(value)
    elif kind == "ExternalSecret":
        found = _of_external_secret(_mapping(value, "spec"))
    return tuple(dict.fromkeys(reference for reference in found if reference.name))


def claim_of(volume: Mapping[str, Any]) -> str:
    """The name of the claim that a volume of a Pod is; empty if it is none."""
    return _text(_mapping(volume, "persistentVolumeClaim"), "claimName")


def secret_made_by(value: Mapping[str, Any]) -> str | None:
    """The name of the Secret that a controller makes from the object, if it is of such a kind."""
    own = _text(_mapping(value, "metadata"), "name")
    if value.get("kind") == "ExternalSecret":
        return _text(_mapping(value, "spec", "target"), "name") or own
    if value.get("kind") == "SealedSecret":
        return _text(_mapping(value, "spec", "template", "metadata"), "name") or own
    return None


def _of_pod(spec: Mapping[str, Any]) -> Iterator[Reference]:
    account = _text(spec, "serviceAccountName") or _text(spec, "serviceAccount")
    yield Reference("runs as", "ServiceAccount", account)
    for volume in _mappings(spec, "volumes"):
        yield from _of_volume(volume)
    for container in (*_mappings(spec, "initContainers"), *_mappings(spec, "containers")):
        for env in _mappings(container, "env"):
            if "valueFrom" in env:
                yield from _of_source(_mapping(env, "valueFrom"), "reads", "Key")
        for source in _mappings(container, "envFrom"):
            yield from _of_source(source, "reads", "")
    for secret in _mappings(spec, "imagePullSecrets"):
        # A missing one is only a warning of the kubelet.
        yield Reference("pulls images with", "Secret", _text(secret, "name"), binds=False)


def _of_volume(volume: Mapping[str, Any]) -> Iterator[Reference]:
    if "persistentVolumeClaim" in volume:
        yield Reference("mounts", "PersistentVolumeClaim", claim_of(volume))
    if "csi" in volume:
        mounted = _text(_mapping(volume, "csi", "volumeAttributes"), "secretProviderClass")
        yield Reference("mounts", "SecretProviderClass", mounted, _STORE_DRIVER)
    for source in (volume, *_mappings(_mapping(volume, "projected"), "sources")):
        if "configMap" in source:
            config = _mapping(source, "configMap")
            optional = bool(config.get("optional"))
            yield _read("mounts", "ConfigMap", _text(config, "name"), optional=optional)
        if "secret" in source:
            secret = _mapping(source, "secret")
            name = _text(secret, "secretName") or _text(secret, "name")
            yield _read("mounts", "Secret", name, optional=bool(secret.get("optional")))


def _of_source(source: Mapping[str, Any], how: str, key: str) -> Iterator[Reference]:
    for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
        if f"{field}{key}Ref" in source:
            named = _mapping(source, f"{field}{key}Ref")
            yield _read(how, kind, _text(named, "name"), optional=bool(named.get("optional")))


def _read(how: str, kind: str, name: str, *, optional: bool) -> Reference:
    return Reference(how, kind, name, optional=optional, binds=not optional)


def _of_binding(value: Mapping[str, Any]) -> Iterator[Reference]:
    role = _mapping(value, "roleRef")
    yield Reference("grants", _text(role, "kind"), _text(role, "name"), RBAC)
    for subject in _mappings(value, "subjects"):
        if subject.get("kind") == "ServiceAccount":
            # The API server takes a subject that does not exist yet.
            name, namespace = _text(subject, "name"), _text(subject, "namespace") or None
            yield Reference("grants to", "ServiceAccount", name, "", namespace, binds=False)


def _of_external_secret(spec: Mapping[str, Any]) -> Iterator[Reference]:
    store = _mapping(spec, "secretStoreRef")
    yield Reference(
        "reads from", _text(store, "kind") or "SecretStore", _text(store, "name"), _EXTERNAL
    )
    for source in _mappings(spec, "dataFrom"):
        made = _mapping(source, "sourceRef", "generatorRef")
        group = _text(made, "apiVersion").rpartition("/")[0]
        yield Reference("is made by", _text(made, "kind"), _text(made, "name"), group)


def _mapping(value: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for key in path:
        inner = value.get(key)
        value = inner if isinstance(inner, dict) else {}  # quicker than a Mapping
    return value


def _mappings(value: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = value.get(key)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _text(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""
