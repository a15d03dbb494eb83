"""List the objects that another object names in its spec and cannot do without.

This is a table of Kubernetes' fields. Objects of unknown kinds come here unchecked, so a value in
the wrong place is simply no reference.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from etcompile.k8s.path import containers_of, mapping_at, mappings_of

RBAC = "rbac.authorization.k8s.io"
_EXTERNAL = "external-secrets.io"
_STORE_DRIVER = "secrets-store.csi.x-k8s.io"
_TEMPLATES: dict[str, tuple[str, ...]] = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    "PodTemplate": ("template", "spec"),
    **dict.fromkeys(
        ("DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"),
        ("spec", "template", "spec"),
    ),
}
"""Path of the PodSpec, by kind."""


class Reference(Struct, frozen=True):
    """An object that another one names."""

    how: str  # what the naming object does with it: `mounts`
    kind: str
    name: str
    group: str = ""
    namespace: str | None = None  # None: that of the naming object
    optional: bool = False  # the naming object also works without it
    binds: bool = True  # the naming object is not done, or not accepted, before this one exists


def references(value: Mapping[str, Any]) -> tuple[Reference, ...]:
    kind = value.get("kind")
    named: Iterator[Reference] = iter(())
    if kind in _TEMPLATES:
        named = _of_pod(mapping_at(value, _TEMPLATES[kind]))
    elif kind in ("RoleBinding", "ClusterRoleBinding"):
        named = _of_binding(value)
    elif kind == "ExternalSecret":
        named = _of_external_secret(mapping_at(value, ("spec",)))
    return tuple(dict.fromkeys(reference for reference in named if reference.name))


def claim_of(volume: Mapping[str, Any]) -> str:
    return _text(mapping_at(volume, ("persistentVolumeClaim",)), "claimName")


def controlled_secret(value: Mapping[str, Any]) -> str | None:
    name = _text(mapping_at(value, ("metadata",)), "name")
    if value.get("kind") == "ExternalSecret":
        return _text(mapping_at(value, ("spec", "target")), "name") or name
    if value.get("kind") == "SealedSecret":
        return _text(mapping_at(value, ("spec", "template", "metadata")), "name") or name
    return None


def _of_pod(spec: Mapping[str, Any]) -> Iterator[Reference]:
    account = _text(spec, "serviceAccountName") or _text(spec, "serviceAccount")
    yield Reference("runs as", "ServiceAccount", account)
    for _, volume in mappings_of(spec, "volumes"):
        yield from _of_volume(volume)
    for _, container in containers_of(spec):
        for _, env in mappings_of(container, "env"):
            if "valueFrom" in env:
                yield from _of_source(mapping_at(env, ("valueFrom",)), "reads", "Key")
        for _, source in mappings_of(container, "envFrom"):
            yield from _of_source(source, "reads", "")
    for _, secret in mappings_of(spec, "imagePullSecrets"):
        # The kubelet only warns of a missing one.
        yield Reference("pulls images with", "Secret", _text(secret, "name"), binds=False)


def _of_volume(volume: Mapping[str, Any]) -> Iterator[Reference]:
    if "persistentVolumeClaim" in volume:
        yield Reference("mounts", "PersistentVolumeClaim", claim_of(volume))
    if "csi" in volume:
        mounted = _text(mapping_at(volume, ("csi", "volumeAttributes")), "secretProviderClass")
        yield Reference("mounts", "SecretProviderClass", mounted, _STORE_DRIVER)
    sources = mappings_of(volume.get("projected"), "sources")
    for source in (volume, *(source for _, source in sources)):
        if "configMap" in source:
            config = mapping_at(source, ("configMap",))
            optional = bool(config.get("optional"))
            yield _read("mounts", "ConfigMap", _text(config, "name"), optional=optional)
        if "secret" in source:
            secret = mapping_at(source, ("secret",))
            name = _text(secret, "secretName") or _text(secret, "name")
            yield _read("mounts", "Secret", name, optional=bool(secret.get("optional")))


def _of_source(source: Mapping[str, Any], how: str, key: str) -> Iterator[Reference]:
    for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
        if f"{field}{key}Ref" in source:
            named = mapping_at(source, (f"{field}{key}Ref",))
            yield _read(how, kind, _text(named, "name"), optional=bool(named.get("optional")))


def _read(how: str, kind: str, name: str, *, optional: bool) -> Reference:
    return Reference(how, kind, name, optional=optional, binds=not optional)


def _of_binding(value: Mapping[str, Any]) -> Iterator[Reference]:
    role = mapping_at(value, ("roleRef",))
    yield Reference("grants", _text(role, "kind"), _text(role, "name"), RBAC)
    for _, subject in mappings_of(value, "subjects"):
        if subject.get("kind") == "ServiceAccount":
            # The API server accepts a subject that does not exist yet.
            name, namespace = _text(subject, "name"), _text(subject, "namespace") or None
            yield Reference("grants to", "ServiceAccount", name, "", namespace, binds=False)


def _of_external_secret(spec: Mapping[str, Any]) -> Iterator[Reference]:
    store = mapping_at(spec, ("secretStoreRef",))
    yield Reference(
        "reads from", _text(store, "kind") or "SecretStore", _text(store, "name"), _EXTERNAL
    )
    for _, source in mappings_of(spec, "dataFrom"):
        generator = mapping_at(source, ("sourceRef", "generatorRef"))
        group = _text(generator, "apiVersion").rpartition("/")[0]
        kind, name = _text(generator, "kind"), _text(generator, "name")
        yield Reference("is made by", kind, name, group)


def _text(value: Mapping[str, Any], key: str) -> str:
    text = value.get(key)
    return text if isinstance(text, str) else ""
