"""The API server's rules for claims, volumes and what provisions them.

A claim that is refused keeps every Pod of a training pending, so these come first.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.k8s.names import is_key, is_label, is_subdomain
from etcompile.k8s.validation import claims, forms
from etcompile.k8s.validation.objects import amounts
from etcompile.k8s.validation.objects.checks import (
    at_least,
    choice,
    filled,
    needs,
    node_terms,
    selector,
    subdomain,
)
from etcompile.k8s.validation.objects.kind import Kind
from etcompile.k8s.validation.rule import Broken, Check, Rule, Subject

_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_VOLUME_FIELDS = (
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc"),
    *("flexVolume", "flocker", "gcePersistentDisk", "glusterfs", "hostPath", "iscsi", "local"),
    *("nfs", "photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos"),
    "vsphereVolume",
)
_BEFORE_FLEX = frozenset(
    (
        *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs"),
        *("rbd", "quobyte", "cephfs", "iscsi", "cinder", "fc"),
    )
)
"""What the API server takes beside a flexVolume: of all sources only that one it does not count."""
_PARAMETERS_LIMIT = 256 * 1024
_MOST_PARAMETERS = 512


def _modes(path: str, example: str) -> tuple[Rule, ...]:
    return (
        Rule(
            path,
            forms.lacks("accessModes"),
            "needs at least one access mode",
            breaks=f"{{{example}}}",
            takes=f"{{accessModes: [ReadWriteOnce], {example}}}",
            advice=f"write accessModes: [{_MODES[0]}] or [{_MODES[2]}]",
        ),
        Rule(
            f"{path}.accessModes",
            forms.empty,
            "needs at least one access mode",
            breaks="[]",
            takes="[ReadWriteOnce]",
            advice=f"write one of {', '.join(_MODES)}",
            on=list,
        ),
        choice(f"{path}.accessModes[*]", *_MODES),
        Rule(
            f"{path}.accessModes",
            lambda value, _: (
                "ReadWriteOncePod" in value and any(mode != "ReadWriteOncePod" for mode in value)
            ),
            "cannot have ReadWriteOncePod together with another mode",
            breaks="[ReadWriteOncePod, ReadWriteOnce]",
            takes="[ReadWriteOncePod]",
            advice="remove one of the two",
            on=list,
        ),
        choice(f"{path}.volumeMode", "Filesystem", "Block"),
        subdomain(f"{path}.storageClassName", empty=True),
    )


def _storage_missing(value: Mapping[str, Any], _: Subject) -> bool:
    return "storage" not in forms.mapping(value, "resources", "requests")


_REQUEST = "resources: {requests: {storage: 1Gi}}"
_KNOWN = ((None, "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def _bad_reference(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    group, kind, name = value.get("apiGroup") or None, value.get("kind"), value.get("name")
    if not name:
        yield Broken((), {"problem": "needs a name"})
    if not kind:
        yield Broken((), {"problem": "needs a kind"})
    elif group is None and kind != "PersistentVolumeClaim":
        yield Broken((), {"problem": "needs an apiGroup, as it is no PersistentVolumeClaim"})
    if isinstance(group, str) and not is_subdomain(group):
        yield Broken(("apiGroup",), {"problem": f"'{group}' is not a DNS subdomain"})


def _bad_reference_here(value: Mapping[str, Any], subject: Subject) -> Iterator[Broken]:
    """The API server leaves out one with a namespace: CrossNamespaceVolumeDataSource is off."""
    if not value.get("namespace"):
        yield from _bad_reference(value, subject)


def _two_sources(spec: Mapping[str, Any], subject: Subject) -> bool:
    reference = spec.get("dataSourceRef")
    is_left_out = isinstance(reference, dict) and bool(reference.get("namespace"))
    return not is_left_out and claims.two_sources(spec, subject)


def _kept_reference(value: Mapping[str, Any], subject: Subject) -> Iterator[Broken]:
    """The API server leaves out a dataSource of a claim that is of no kind it knows."""
    if (value.get("apiGroup") or None, value.get("kind")) in _KNOWN:
        yield from _bad_reference(value, subject)


def _reference(path: str, check: Check) -> Rule:
    """A reference to what a claim is filled from."""
    return Rule(
        path,
        check,
        "{problem}",
        breaks="{kind: PersistentVolumeClaim}",
        takes="{kind: PersistentVolumeClaim, name: a}",
    )


def claim(path: str, *, in_template: bool = False) -> tuple[Rule, ...]:
    """The rules for the spec of a claim.

    Args:
        path: Its place.
        in_template: Whether claims are made of it later.
    """
    requests = f"{path}.resources.requests"
    return (
        *_modes(path, _REQUEST),
        *selector(f"{path}.selector"),
        Rule(
            path,
            _storage_missing,
            "needs resources.requests.storage",
            breaks="{accessModes: [ReadWriteOnce]}",
            takes="{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}",
            advice="write how much storage is needed, for example 10Gi",
        ),
        Rule(
            f"{requests}.storage",
            amounts.not_positive,
            "must be more than zero, not {value}",
            breaks="0",
            takes="1Gi",
            on=(str, int, float),
        ),
        subdomain(f"{path}.volumeAttributesClassName", empty=True),
        _reference(f"{path}.dataSource", _bad_reference if in_template else _kept_reference),
        _reference(f"{path}.dataSourceRef", _bad_reference if in_template else _bad_reference_here),
        Rule(
            path,
            claims.two_sources if in_template else _two_sources,
            "dataSource and dataSourceRef name two different objects",
            breaks="{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}},"
            " dataSource: {kind: PersistentVolumeClaim, name: a},"
            " dataSourceRef: {kind: PersistentVolumeClaim, name: b}}",
            takes="{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}},"
            " dataSource: {kind: PersistentVolumeClaim, name: a},"
            " dataSourceRef: {kind: PersistentVolumeClaim, name: a}}",
            advice="remove one of the two",
        ),
    )


# PersistentVolumes ----------------------------------------------------------------------------


def _sources(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    found = forms.given(value, _VOLUME_FIELDS)
    if "flexVolume" in found and len(found) == 2 and not _BEFORE_FLEX.isdisjoint(found):
        return
    if len(found) != 1:
        what = f"has {' and '.join(found)}" if found else "has none"
        yield Broken((), {"what": what})


def _only_storage(value: Mapping[str, Any], _: Subject) -> bool:
    return set(value) != {"storage"}


def _local_affinity(value: Mapping[str, Any], _: Subject) -> bool:
    return value.get("local") is not None and not isinstance(value.get("nodeAffinity"), dict)


def _absolute(path: str) -> Rule:
    return Rule(
        path,
        lambda value, _: ".." in value.split("/"),
        "must not contain '..'",
        breaks="/a/../b",
        takes="/a/b",
        on=str,
    )


def _recycled_root(value: Mapping[str, Any], _: Subject) -> bool:
    path = forms.mapping(value, "hostPath").get("path")
    root = isinstance(path, str) and path != "" and path.strip("/.") == ""
    return root and value.get("persistentVolumeReclaimPolicy") == "Recycle"


def _names_no_secret(value: Mapping[str, Any], _: Subject) -> bool:
    name, namespace = value.get("name"), value.get("namespace")
    return not (
        isinstance(name, str)
        and isinstance(namespace, str)
        and is_subdomain(name)
        and is_label(namespace)
    )


def _attributes_class(value: Mapping[str, Any], _: Subject) -> bool:
    return value.get("volumeAttributesClassName") is not None and not value.get("csi")


_PV = "{capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce]"
_VOLUME = (
    *_modes("spec", "capacity: {storage: 1Gi}, hostPath: {path: /a}"),
    choice("spec.persistentVolumeReclaimPolicy", "Retain", "Delete", "Recycle", empty=True),
    Rule(
        "spec",
        forms.lacks("capacity"),
        "needs capacity.storage",
        breaks="{accessModes: [ReadWriteOnce], hostPath: {path: /a}}",
        takes=f"{_PV}, hostPath: {{path: /a}}}}",
    ),
    Rule(
        "spec.capacity",
        _only_storage,
        "must be storage and nothing else",
        breaks="{storage: 1Gi, cpu: 1}",
        takes="{storage: 1Gi}",
    ),
    Rule(
        "spec.capacity.storage",
        amounts.not_positive,
        "must be more than zero, not {value}",
        breaks="0",
        takes="1Gi",
        on=(str, int, float),
    ),
    Rule(
        "spec",
        _sources,
        "a volume has one source; this one {what}",
        breaks=f"{_PV}, hostPath: {{path: /a}}, nfs: {{server: a, path: /a}}}}",
        takes=f"{_PV}, hostPath: {{path: /a}}}}",
        advice="make one PersistentVolume for each source",
    ),
    Rule(
        "spec",
        _local_affinity,
        "a local volume needs nodeAffinity",
        breaks=f"{_PV}, local: {{path: /a}}}}",
        takes=f"{_PV}, local: {{path: /a}}, nodeAffinity: {{required: {{nodeSelectorTerms:"
        " [{matchExpressions: [{key: a, operator: Exists}]}]}}}",
        advice="name the node in spec.nodeAffinity.required",
    ),
    Rule(
        "spec",
        _recycled_root,
        "the root of a node cannot be recycled",
        breaks=f"{_PV}, hostPath: {{path: /}}, persistentVolumeReclaimPolicy: Recycle}}",
        takes=f"{_PV}, hostPath: {{path: /}}, persistentVolumeReclaimPolicy: Retain}}",
    ),
    Rule(
        "spec.nodeAffinity",
        forms.lacks("required"),
        "needs 'required'",
        breaks="{}",
        takes="{required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}",
    ),
    *node_terms("spec.nodeAffinity.required.nodeSelectorTerms"),
    filled("spec.(hostPath|local|nfs).path", "/a"),
    _absolute("spec.(hostPath|local).path"),
    Rule(
        "spec.nfs.path",
        lambda value, _: bool(value) and not value.startswith("/"),
        "must be an absolute path, not {value}",
        breaks="a",
        takes="/a",
        on=str,
    ),
    filled("spec.nfs.server", "a"),
    filled("spec.csi.volumeHandle", "a"),
    filled("spec.csi.driver", "a"),
    Rule(
        "spec.csi.driver",
        lambda value, _: bool(value) and (len(value) > 63 or not is_subdomain(value.lower())),
        "'{value}' is not the name of a CSI driver",
        breaks="A b",
        takes="a.b",
        advice="use the driver's own name, for example nfs.csi.k8s.io",
        on=str,
    ),
    Rule(
        "spec.csi.(controllerExpandSecretRef|controllerPublishSecretRef|nodeExpandSecretRef"
        "|nodePublishSecretRef)",
        _names_no_secret,
        "needs the name and the namespace of a Secret",
        breaks="{name: a}",
        takes="{name: a, namespace: b}",
    ),
    Rule(
        "spec.volumeAttributesClassName",
        forms.unless(is_subdomain),
        "'{value}' is not a DNS subdomain",
        breaks="A b",
        takes="a.b",
        advice=forms.SUBDOMAIN_ADVICE,
        on=str,
        since=34,
    ),
    Rule(
        "spec",
        _attributes_class,
        "volumeAttributesClassName needs a volume of a CSI driver",
        breaks=f"{_PV}, hostPath: {{path: /a}}, volumeAttributesClassName: a}}",
        takes=f"{_PV}, hostPath: {{path: /a}}}}",
        since=34,
    ),
)


# Classes and drivers --------------------------------------------------------------------------


def _too_many_parameters(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    pairs = ((key, text) for key, text in value.items() if isinstance(text, str))
    size = sum(len(key.encode()) + len(text.encode("utf-8", "replace")) for key, text in pairs)
    if size > _PARAMETERS_LIMIT or len(value) > _MOST_PARAMETERS:
        yield Broken((), {"count": len(value), "size": -(-size // 1024)})


def _driver(field: str) -> tuple[Rule, ...]:
    return (
        Rule(
            field,
            lambda value, _: bool(value) and not is_key(value.lower()),
            "'{value}' is not the name of a driver",
            breaks="A b",
            takes="a.b",
            advice=forms.KEY_ADVICE,
            on=str,
        ),
        filled(field, "a.b"),
        Rule(
            "parameters",
            lambda value, _: "" in value,
            "must not have an empty key",
            breaks='{"": a}',
            takes="{b: a}",
        ),
        Rule(
            "parameters",
            _too_many_parameters,
            "has {count} entries and {size} KiB; the API server allows 512 and 256",
            breaks="{a: !repeat [x, 262144]}",
            takes="{a: !repeat [x, 262143]}",
        ),
    )


def _same_topology_key(value: list[Any], _: Subject) -> Iterator[Broken]:
    seen: set[str] = set()
    for index, item in enumerate(value):
        key = item.get("key") if isinstance(item, dict) else None
        if isinstance(key, str) and key in seen:
            yield Broken((index, "key"))
        if isinstance(key, str):
            seen.add(key)


def _same_values(value: list[Any], _: Subject) -> Iterator[Broken]:
    seen: set[str] = set()
    for index, item in enumerate(value):
        if isinstance(item, str):
            if item in seen:
                yield Broken((index,))
            seen.add(item)


def _same_terms(value: list[Any], _: Subject) -> Iterator[Broken]:
    seen = []
    for index, term in enumerate(value[:200]):
        found = {
            str(expression.get("key")): frozenset(
                text for _, text in forms.texts(expression, "values")
            )
            for _, expression in forms.mappings(term, "matchLabelExpressions")
        }
        if found in seen or not found:
            yield Broken((index,))
        seen.append(found)


_TOPOLOGY = "allowedTopologies[*].matchLabelExpressions"

KINDS = (
    Kind(
        ("v1/PersistentVolumeClaim",),
        "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {accessModes:"
        " [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}",
        (*claim("spec"), needs("spec")),
    ),
    Kind(
        ("v1/PersistentVolume",),
        "{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {capacity: {storage:"
        " 1Gi}, accessModes: [ReadWriteOnce], csi: {driver: a.b, volumeHandle: a}}}",
        (*_VOLUME, needs("spec")),
        examples={
            f"spec.{source}": "{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec:"
            f" {_PV}, {fields}}}}}"
            for source, fields in (
                ("(hostPath|local", "hostPath: {path: /a}"),
                ("nfs", "nfs: {server: a, path: /a}"),
            )
        },
    ),
    Kind(
        ("storage.k8s.io/v1/StorageClass", "storage.k8s.io/v1beta1/StorageClass"),
        "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: a}, provisioner:"
        " a.b}",
        (
            *_driver("provisioner"),
            choice("reclaimPolicy", "Delete", "Retain", empty=True),
            choice("volumeBindingMode", "Immediate", "WaitForFirstConsumer"),
            Rule(
                "allowedTopologies",
                _same_terms,
                "a term must have expressions, and others than the terms before it",
                breaks="[{matchLabelExpressions: [{key: a, values: [b]}]},"
                " {matchLabelExpressions: [{key: a, values: [b]}]}]",
                takes="[{matchLabelExpressions: [{key: a, values: [b]}]}]",
                advice="remove it",
                on=list,
            ),
            Rule(
                _TOPOLOGY,
                _same_topology_key,
                "another expression has the key '{value}'",
                breaks="[{key: a, values: [b]}, {key: a, values: [c]}]",
                takes="[{key: a, values: [b, c]}]",
                advice="put the values into one list",
                on=list,
            ),
            Rule(
                f"{_TOPOLOGY}[*].key",
                forms.unless(is_key),
                "'{value}' is not a valid key",
                breaks="A b",
                takes="Ab",
                advice=forms.KEY_ADVICE,
                on=str,
            ),
            filled(f"{_TOPOLOGY}[*].values", "[a]"),
            Rule(
                f"{_TOPOLOGY}[*].values",
                _same_values,
                "lists '{value}' twice",
                breaks="[a, a]",
                takes="[a]",
                on=list,
            ),
        ),
        examples={
            "allowedTopologies": "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata:"
            " {name: a}, provisioner: a.b, allowedTopologies: [{matchLabelExpressions: [{key: a,"
            " values: [b]}]}]}"
        },
    ),
    Kind(
        ("storage.k8s.io/v1/VolumeAttributesClass", "storage.k8s.io/v1beta1/VolumeAttributesClass"),
        "{apiVersion: storage.k8s.io/v1, kind: VolumeAttributesClass, metadata: {name: a},"
        " driverName: a.b, parameters: {a: b}}",
        (
            *_driver("driverName"),
            Rule(
                "",
                lambda value, _: not value.get("parameters"),
                "needs at least one entry in 'parameters'",
                breaks="{parameters: null}",
                takes="{parameters: {a: b}}",
            ),
        ),
    ),
    Kind(
        ("storage.k8s.io/v1/CSIDriver",),
        "{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: a}, spec: {}}",
        (
            choice("spec.fsGroupPolicy", "File", "None", "ReadWriteOnceWithFSType"),
            choice("spec.volumeLifecycleModes[*]", "Persistent", "Ephemeral"),
            at_least("spec.tokenRequests[*].expirationSeconds", 600),
        ),
    ),
)
