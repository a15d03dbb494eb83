"""The API server's rules for PersistentVolumeClaims."""

from collections.abc import Mapping
from typing import Any

from etcompile.k8s.validation import forms
from etcompile.k8s.validation.objects.checks import choice, needs, selector, subdomain
from etcompile.k8s.validation.objects.kind import Kind
from etcompile.k8s.validation.quantities import not_positive
from etcompile.k8s.validation.rule import Rule, Subject

_REQUEST = "resources: {requests: {storage: 1Gi}}"
_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")


def _storage_missing(value: Mapping[str, Any], _: Subject) -> bool:
    return "storage" not in forms.mapping(value, "resources", "requests")


_CLAIM = (
    Rule(
        "spec",
        forms.lacks("accessModes"),
        "needs at least one access mode",
        breaks=f"{{{_REQUEST}}}",
        takes=f"{{accessModes: [ReadWriteOnce], {_REQUEST}}}",
        advice=f"write accessModes: [{_MODES[0]}] or [{_MODES[2]}]",
    ),
    Rule(
        "spec.accessModes",
        forms.empty,
        "needs at least one access mode",
        breaks="[]",
        takes="[ReadWriteOnce]",
        advice=f"write one of {', '.join(_MODES)}",
        on=list,
    ),
    choice("spec.accessModes[*]", *_MODES),
    Rule(
        "spec.accessModes",
        lambda value, _: (
            "ReadWriteOncePod" in value and any(mode != "ReadWriteOncePod" for mode in value)
        ),
        "cannot have ReadWriteOncePod together with another mode",
        breaks="[ReadWriteOncePod, ReadWriteOnce]",
        takes="[ReadWriteOncePod]",
        advice="remove one of the two",
        on=list,
    ),
    choice("spec.volumeMode", "Filesystem", "Block"),
    subdomain("spec.storageClassName", empty=True),
    *selector("spec.selector"),
    Rule(
        "spec",
        _storage_missing,
        "needs resources.requests.storage",
        breaks="{accessModes: [ReadWriteOnce]}",
        takes=f"{{accessModes: [ReadWriteOnce], {_REQUEST}}}",
        advice="write how much storage is needed, for example 10Gi",
    ),
    Rule(
        "spec.resources.requests.storage",
        not_positive,
        "must be more than zero, not {value}",
        breaks="0",
        takes="1Gi",
        on=(str, int, float),
    ),
    subdomain("spec.volumeAttributesClassName", empty=True),
)

KINDS = (
    Kind(
        ("v1/PersistentVolumeClaim",),
        "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {accessModes:"
        " [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}",
        (*_CLAIM, needs("spec")),
    ),
)
