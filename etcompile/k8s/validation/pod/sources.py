"""What volumes are made of (validateVolumeSource and its kind); the schema has the plain bounds.

Of the volumes that only old clusters have (iscsi, fc, flocker, quobyte …) the API server says more.
"""

from collections.abc import Callable, Iterator
from typing import Any

from etcompile.k8s.names import is_subdomain
from etcompile.k8s.validation import claims, forms
from etcompile.k8s.validation.pod.env import VOLUME_FIELDS, bad_amount, bad_divisor, bad_field
from etcompile.k8s.validation.pod.places import VOLUME, Value
from etcompile.k8s.validation.quantities import number
from etcompile.k8s.validation.rule import Broken, Path, Rule, Subject
from etcompile.k8s.validation.selectors import (
    selector_rules,
)

_SOURCES = f"{VOLUME}.projected.sources[*]"
_CLAIM = f"{VOLUME}.ephemeral.volumeClaimTemplate"
_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_PROJECTIONS = (*("secret", "configMap", "downwardAPI", "serviceAccountToken"),)
"""The API server leaves out sources whose feature gate is off: the others of a new kind."""


def is_file(text: str) -> bool:
    """Whether a text is the path of a file inside a volume that Kubernetes writes."""
    return forms.is_inside(text) and not text.startswith("..")


def _of(field: str, text: str) -> str:
    return f"{field}: {{{text}}}"


def _needs(source: str, field: str, sound: str, rest: str = "", *, since: int = 0) -> Rule:
    """The rule that a source has a field that the schema does not require."""
    return Rule(
        f"{VOLUME}.{source}",
        forms.lacks(field),
        f"needs '{field}'",
        _of(source, rest),
        _of(source, f"{field}: {sound}" + (f", {rest}" if rest else "")),
        since=since,
    )


# Files that Kubernetes writes -------------------------------------------------------------------


def _file_rules(at: str, example: Callable[[str], str]) -> tuple[Rule, ...]:
    """The rules for keys of a ConfigMap or Secret that become files."""
    return (
        Rule(
            f"{at}.items[*].path",
            forms.unless_empty_or(is_file),
            "'{value}' is not a path inside the volume",
            example("items: [{key: a, path: /a}]"),
            example("items: [{key: a, path: a}]"),
            forms.INSIDE_ADVICE,
            on=str,
        ),
    )


def _one_reference(item: Value, _: Subject) -> bool:
    return len(forms.given(item, ("fieldRef", "resourceFieldRef"))) != 1


def _downward_rules(at: str, example: Callable[[str], str]) -> tuple[Rule, ...]:
    """The rules for fields of the Pod that become files."""

    def item(text: str) -> str:
        return example(f"items: [{{path: a, {text}}}]")

    return (
        *_file_rules_of_downward(at, example),
        Rule(
            f"{at}.items[*]",
            _one_reference,
            "needs either fieldRef or resourceFieldRef",
            example("items: [{path: a}]"),
            item("fieldRef: {fieldPath: metadata.name}"),
        ),
        Rule(
            f"{at}.items[*].fieldRef.fieldPath",
            bad_field(VOLUME_FIELDS),
            "'{value}' is not a field that a volume can hold",
            item("fieldRef: {fieldPath: spec.nodeName}"),
            item("fieldRef: {fieldPath: metadata.labels}"),
            f"use {', '.join(VOLUME_FIELDS)}, metadata.labels['KEY'] or"
            " metadata.annotations['KEY']",
            on=str,
        ),
        Rule(
            f"{at}.items[*].fieldRef.apiVersion",
            forms.one_of("v1", ""),
            "must be v1, not '{value}'",
            item("fieldRef: {apiVersion: v2, fieldPath: metadata.labels}"),
            item("fieldRef: {apiVersion: v1, fieldPath: metadata.labels}"),
            on=str,
        ),
        Rule(
            f"{at}.items[*].resourceFieldRef",
            forms.lacks("containerName"),
            "needs 'containerName'",
            item("resourceFieldRef: {resource: limits.cpu}"),
            item("resourceFieldRef: {resource: limits.cpu, containerName: main}"),
        ),
        Rule(
            f"{at}.items[*].resourceFieldRef.resource",
            bad_amount,
            "'{value}' is not an amount that a volume can hold",
            item("resourceFieldRef: {resource: limits.gpu, containerName: main}"),
            item("resourceFieldRef: {resource: limits.cpu, containerName: main}"),
            on=str,
        ),
        Rule(
            f"{at}.items[*].resourceFieldRef",
            bad_divisor,
            "must be {units}, not {value}",
            item("resourceFieldRef: {resource: limits.cpu, containerName: main, divisor: 2}"),
            item("resourceFieldRef: {resource: limits.cpu, containerName: main, divisor: 1}"),
        ),
    )


def _file_rules_of_downward(at: str, example: Callable[[str], str]) -> tuple[Rule, ...]:
    field = "fieldRef: {fieldPath: metadata.name}"
    return (
        Rule(
            f"{at}.items[*].path",
            forms.unless_empty_or(is_file),
            "'{value}' is not a path inside the volume",
            example(f"items: [{{path: ../a, {field}}}]"),
            example(f"items: [{{path: a, {field}}}]"),
            forms.INSIDE_ADVICE,
            on=str,
        ),
    )


def _paths(volume: Value) -> Iterator[tuple[Path, str]]:
    """The files that the sources of a projected volume write, and where each is named."""
    for index, source in forms.mappings(volume, "sources"):
        for kind in ("secret", "configMap", "downwardAPI"):
            for number_, item in forms.mappings(source.get(kind), "items"):
                if isinstance(path := item.get("path"), str) and path:
                    yield ("sources", index, kind, "items", number_, "path"), path


def _same_path(volume: Value, _: Subject) -> Iterator[Broken]:
    seen: set[str] = set()
    for at, path in _paths(volume):
        if path in seen:
            yield Broken(at)
        seen.add(path)


def _projection(text: str) -> str:
    return f"projected: {{sources: [{{{text}}}]}}"


_TOKEN = "serviceAccountToken: {path: a}"  # noqa: S105 - an example

_PROJECTED_RULES = (
    Rule(
        _SOURCES,
        forms.several(*_PROJECTIONS),
        "takes one source, not {found}",
        _projection("secret: {name: a}, configMap: {name: a}"),
        _projection("secret: {name: a}}, {configMap: {name: a}"),
        "make two entries of it",
    ),
    *(
        rule
        for kind in ("secret", "configMap")
        for rule in (
            Rule(
                f"{_SOURCES}.{kind}",
                forms.lacks("name"),
                "needs 'name'",
                _projection(f"{kind}: {{}}"),
                _projection(f"{kind}: {{name: a}}"),
            ),
            *_file_rules(
                f"{_SOURCES}.{kind}",
                lambda text, kind=kind: _projection(f"{kind}: {{name: a, {text}}}"),  # type: ignore[misc]
            ),
        )
    ),
    *_downward_rules(
        f"{_SOURCES}.downwardAPI", lambda text: _projection(f"downwardAPI: {{{text}}}")
    ),
    Rule(
        f"{VOLUME}.projected",
        _same_path,
        "another source of this volume writes '{value}' as well",
        "projected: {sources: [{secret: {name: a, items: [{key: a, path: a}]}},"
        " {configMap: {name: a, items: [{key: a, path: a}]}}]}",
        "projected: {sources: [{secret: {name: a, items: [{key: a, path: a}]}},"
        " {configMap: {name: a, items: [{key: a, path: b}]}}]}",
        "use another path",
    ),
    Rule(
        f"{_SOURCES}.serviceAccountToken.expirationSeconds",
        forms.outside(600, 2**32),
        "must be between 600 and 4294967296, not {value}",
        _projection("serviceAccountToken: {path: a, expirationSeconds: 599}"),
        _projection("serviceAccountToken: {path: a, expirationSeconds: 600}"),
        on=int,
    ),
    Rule(
        f"{_SOURCES}.serviceAccountToken.path",
        forms.unless_empty_or(is_file),
        "'{value}' is not a path inside the volume",
        _projection("serviceAccountToken: {path: /a}"),
        _projection(_TOKEN),
        forms.INSIDE_ADVICE,
        on=str,
        since=29,
    ),
)


# Claims -----------------------------------------------------------------------------------------


def _storage(spec: Value, _: Subject) -> bool:
    return forms.mapping(spec, "resources", "requests").get("storage") is None


def _positive_storage(spec: Value, _: Subject) -> Iterator[Broken]:
    found = number(forms.mapping(spec, "resources", "requests").get("storage"))
    if found is not None and found <= 0:
        yield Broken(("resources", "requests", "storage"))


def _one_pod(modes: list[Any], _: Subject) -> bool:
    return "ReadWriteOncePod" in modes and len(set(map(str, modes))) > 1


def _foreign_source(source: Value, _: Subject) -> bool:
    return not source.get("apiGroup") and source.get("kind") not in (None, "PersistentVolumeClaim")


def claim_rules(at: str, example: Callable[[str], str]) -> tuple[Rule, ...]:
    """The rules for the spec of a PersistentVolumeClaim.

    Args:
        at: Where it stands.
        example: Puts the fields of a spec there, alone.
    """
    modes = "accessModes: [ReadWriteOnce]"
    storage = "resources: {requests: {storage: 1Gi}}"

    def sound(text: str) -> str:
        return example(f"{modes}, {storage}, {text}")

    return (
        Rule(
            at,
            lambda spec, _: not spec.get("accessModes"),
            "needs 'accessModes'",
            example(storage),
            example(f"{modes}, {storage}"),
            "write accessModes: [ReadWriteOnce]",
        ),
        Rule(
            f"{at}.accessModes[*]",
            forms.one_of(*_MODES),
            f"must be one of {', '.join(_MODES)}, not '{{value}}'",
            example(f"accessModes: [RWO], {storage}"),
            example(f"{modes}, {storage}"),
            on=str,
        ),
        Rule(
            f"{at}.accessModes",
            _one_pod,
            "ReadWriteOncePod cannot be combined with other access modes",
            example(f"accessModes: [ReadWriteOncePod, ReadWriteOnce], {storage}"),
            example(f"accessModes: [ReadWriteOncePod], {storage}"),
            on=list,
        ),
        Rule(
            at,
            _storage,
            "needs resources.requests.storage",
            example(modes),
            example(f"{modes}, {storage}"),
            "for example 100Gi",
        ),
        Rule(
            at,
            _positive_storage,
            "must be above 0, not {value}",
            example(f"{modes}, resources: {{requests: {{storage: 0}}}}"),
            example(f"{modes}, {storage}"),
        ),
        Rule(
            f"{at}.storageClassName",
            forms.unless_empty_or(is_subdomain),
            "'{value}' is not the name of a StorageClass",
            sound("storageClassName: A_b"),
            sound("storageClassName: a-b"),
            forms.SUBDOMAIN_ADVICE,
            on=str,
        ),
        Rule(
            f"{at}.volumeMode",
            forms.one_of("Filesystem", "Block"),
            "must be Filesystem or Block, not '{value}'",
            sound("volumeMode: File"),
            sound("volumeMode: Filesystem"),
            on=str,
        ),
        Rule(
            f"{at}.(dataSource|dataSourceRef)",
            _foreign_source,
            "needs 'apiGroup', because its kind is not PersistentVolumeClaim",
            sound("dataSource: {kind: VolumeSnapshot, name: a}"),
            sound("dataSource: {kind: VolumeSnapshot, name: a, apiGroup: snapshot.storage.k8s.io}"),
            "for a VolumeSnapshot: snapshot.storage.k8s.io",
        ),
        Rule(
            f"{at}.(dataSource|dataSourceRef).(kind|name)",
            forms.empty,
            "must not be empty",
            sound("dataSource: {kind: PersistentVolumeClaim, name: ''}"),
            sound("dataSource: {kind: PersistentVolumeClaim, name: a}"),
            on=str,
        ),
        Rule(
            f"{at}.(dataSource|dataSourceRef).apiGroup",
            forms.unless_empty_or(is_subdomain),
            "'{value}' is not an API group",
            sound("dataSource: {kind: A, name: a, apiGroup: A_b}"),
            sound("dataSource: {kind: A, name: a, apiGroup: a-b}"),
            on=str,
        ),
        Rule(
            f"{at}.volumeAttributesClassName",
            forms.unless_empty_or(is_subdomain),
            "'{value}' is not the name of a VolumeAttributesClass",
            sound("volumeAttributesClassName: A_b"),
            sound("volumeAttributesClassName: a-b"),
            forms.SUBDOMAIN_ADVICE,
            on=str,
            since=34,
        ),
        Rule(
            at,
            claims.two_sources,
            "dataSource and dataSourceRef name two different objects",
            sound(
                "dataSource: {kind: PersistentVolumeClaim, name: a},"
                " dataSourceRef: {kind: PersistentVolumeClaim, name: b}"
            ),
            sound(
                "dataSource: {kind: PersistentVolumeClaim, name: a},"
                " dataSourceRef: {kind: PersistentVolumeClaim, name: a}"
            ),
            "remove one of the two",
        ),
        *selector_rules(f"{at}.selector", lambda text: sound(f"selector: {{{text}}}"), since=27),
    )


def _metadata(text: str) -> str:
    known = "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}"
    return f"ephemeral: {{volumeClaimTemplate: {{metadata: {{{text}}}, spec: {{{known}}}}}}}"


_CLAIM_RULES = (
    Rule(
        f"{VOLUME}.ephemeral",
        forms.lacks("volumeClaimTemplate"),
        "needs 'volumeClaimTemplate'",
        "ephemeral: {}",
        _metadata(""),
    ),
    *claim_rules(
        f"{_CLAIM}.spec",
        lambda text: f"ephemeral: {{volumeClaimTemplate: {{spec: {{{text}}}}}}}",
    ),
    *claims.metadata_rules(f"{_CLAIM}.metadata", _metadata),
)


# Other sources ----------------------------------------------------------------------------------


def _driver(name: str) -> bool:
    return len(name) <= 63 and is_subdomain(name.lower())


def _claimed_twice(spec: Value, subject: Subject) -> Iterator[Broken]:
    """A claim that Kubernetes itself makes, for an ephemeral volume of this Pod."""
    name = forms.mapping(subject.value, "metadata").get("name")
    if not name or subject.value.get("kind") != "Pod":
        return
    made = {
        f"{name}-{volume.get('name')}"
        for _, volume in forms.mappings(spec, "volumes")
        if volume.get("ephemeral") is not None
    }
    for index, volume in forms.mappings(spec, "volumes"):
        if forms.mapping(volume, "persistentVolumeClaim").get("claimName") in made:
            yield Broken(("volumes", index, "persistentVolumeClaim", "claimName"))


RULES = (
    _needs("secret", "secretName", "a"),
    _needs("configMap", "name", "a"),
    _needs("image", "reference", "a:1", since=35),
    *_file_rules(f"{VOLUME}.secret", lambda text: _of("secret", f"secretName: a, {text}")),
    *_file_rules(f"{VOLUME}.configMap", lambda text: _of("configMap", f"name: a, {text}")),
    *_downward_rules(f"{VOLUME}.downwardAPI", lambda text: _of("downwardAPI", text)),
    *_PROJECTED_RULES,
    *_CLAIM_RULES,
    Rule(
        "spec",
        _claimed_twice,
        "claim '{value}' is made for an ephemeral volume of this Pod",
        "volumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {accessModes:"
        " [ReadWriteOnce], resources: {requests: {storage: 1}}}}}},"
        " {name: b, persistentVolumeClaim: {claimName: pod-a}}]",
        "volumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {accessModes:"
        " [ReadWriteOnce], resources: {requests: {storage: 1}}}}}},"
        " {name: b, persistentVolumeClaim: {claimName: pod-b}}]",
        "mount the ephemeral volume itself",
    ),
    Rule(
        f"{VOLUME}.hostPath.path",
        lambda path, _: ".." in path.split("/"),
        "'{value}' contains '..'",
        "hostPath: {path: /a/../b}",
        "hostPath: {path: /b}",
        on=str,
    ),
    Rule(
        f"{VOLUME}.nfs.path",
        lambda path, _: path != "" and not path.startswith("/"),
        "'{value}' does not begin with '/'",
        "nfs: {server: a, path: b}",
        "nfs: {server: a, path: /b}",
        on=str,
    ),
    Rule(
        f"{VOLUME}.csi.driver",
        forms.unless_empty_or(_driver),
        "'{value}' is not the name of a CSI driver",
        "csi: {driver: a_b}",
        "csi: {driver: a.example.com}",
        forms.SUBDOMAIN_ADVICE,
        on=str,
    ),
    Rule(
        f"{VOLUME}.csi.nodePublishSecretRef",
        forms.lacks("name"),
        "needs 'name'",
        "csi: {driver: a, nodePublishSecretRef: {}}",
        "csi: {driver: a, nodePublishSecretRef: {name: b}}",
    ),
    Rule(
        f"{VOLUME}.csi.nodePublishSecretRef.name",
        forms.unless_empty_or(is_subdomain),
        "'{value}' is not the name of a Secret",
        "csi: {driver: a, nodePublishSecretRef: {name: A_b}}",
        "csi: {driver: a, nodePublishSecretRef: {name: a-b}}",
        forms.SUBDOMAIN_ADVICE,
        on=str,
    ),
    Rule(
        f"{VOLUME}.image.pullPolicy",
        forms.one_of("Always", "IfNotPresent", "Never", ""),
        "must be Always, IfNotPresent or Never, not '{value}'",
        "image: {reference: a:1, pullPolicy: Often}",
        "image: {reference: a:1, pullPolicy: Always}",
        on=str,
        since=35,
    ),
)
