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
_SOURCES: dict[str, tuple[tuple[tuple[str, ...], tuple[str, ...], str, str], ...]] = {
    "mounts": (
        (("persistentVolumeClaim",), ("claimName",), "PersistentVolumeClaim", ""),
        (
            ("csi", "volumeAttributes"),
            ("secretProviderClass",),
            "SecretProviderClass",
            "secrets-store.csi.x-k8s.io",
        ),
        (("configMap",), ("name",), "ConfigMap", ""),
        (("secret",), ("secretName", "name"), "Secret", ""),
    ),
    "reads": (
        (("configMapKeyRef",), ("name",), "ConfigMap", ""),
        (("secretKeyRef",), ("name",), "Secret", ""),
        (("configMapRef",), ("name",), "ConfigMap", ""),
        (("secretRef",), ("name",), "Secret", ""),
    ),
}
"""What a volume mounts, and what a variable or a source of variables reads: the path of the name's
holder, the keys that the name may have, and the kind and API group of the object."""


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
    named: list[Reference] = []
    if kind in _TEMPLATES:
        named += _pod_references(mapping_at(value, _TEMPLATES[kind]))
    elif kind in ("RoleBinding", "ClusterRoleBinding"):
        role = mapping_at(value, ("roleRef",))
        named.append(Reference("grants", _text(role, "kind"), _text(role, "name"), RBAC))
        for _, subject in mappings_of(value, "subjects"):
            if subject.get("kind") == "ServiceAccount":
                # The API server accepts a subject that does not exist yet.
                name, where = _text(subject, "name"), _text(subject, "namespace") or None
                named.append(Reference("grants to", "ServiceAccount", name, "", where, binds=False))
    elif kind == "ExternalSecret":
        spec = mapping_at(value, ("spec",))
        store = mapping_at(spec, ("secretStoreRef",))
        stores = _text(store, "kind") or "SecretStore"
        named.append(Reference("reads from", stores, _text(store, "name"), _EXTERNAL))
        for _, source in mappings_of(spec, "dataFrom"):
            generator = mapping_at(source, ("sourceRef", "generatorRef"))
            group = _text(generator, "apiVersion").rpartition("/")[0]
            kind, name = _text(generator, "kind"), _text(generator, "name")
            named.append(Reference("is made by", kind, name, group))
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


def _pod_references(spec: Mapping[str, Any]) -> Iterator[Reference]:
    account = _text(spec, "serviceAccountName") or _text(spec, "serviceAccount")
    yield Reference("runs as", "ServiceAccount", account)
    sources: list[tuple[str, Mapping[str, Any]]] = []
    for _, volume in mappings_of(spec, "volumes"):
        projected = mappings_of(volume.get("projected"), "sources")
        sources += (("mounts", source) for source in (volume, *(each for _, each in projected)))
    for _, container in containers_of(spec):
        for _, env in mappings_of(container, "env"):
            if "valueFrom" in env:
                sources.append(("reads", mapping_at(env, ("valueFrom",))))
        sources += (("reads", source) for _, source in mappings_of(container, "envFrom"))
    for how, source in sources:
        for path, keys, kind, group in _SOURCES[how]:
            if path[0] in source:
                named = mapping_at(source, path)
                name = next(filter(None, (_text(named, key) for key in keys)), "")
                optional = bool(named.get("optional"))
                yield Reference(how, kind, name, group, optional=optional, binds=not optional)
    for _, secret in mappings_of(spec, "imagePullSecrets"):
        # The kubelet only warns of a missing one.
        yield Reference("pulls images with", "Secret", _text(secret, "name"), binds=False)


def _text(value: Mapping[str, Any], key: str) -> str:
    text = value.get(key)
    return text if isinstance(text, str) else ""
