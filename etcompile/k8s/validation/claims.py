"""Rules for the claim that Kubernetes makes of the template of an ephemeral volume."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from etcompile.k8s.validation import forms
from etcompile.k8s.validation.rule import Broken, Rule, Subject
from etcompile.k8s.validation.selectors import (
    bad_annotation_keys,
    bad_label_keys,
    bad_label_values,
)

_OF_THE_CLAIM = (
    *("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation"),
    *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    *("ownerReferences", "finalizers"),
)
_ZERO = ("", 0)


def _labels_of(check: Callable[..., Iterator[Broken]], field: str) -> Callable[..., Any]:
    def checked(metadata: Mapping[str, Any], subject: Subject) -> Iterator[Broken]:
        for broken in check(forms.mapping(metadata, field), subject):
            yield Broken((field, *broken.path), broken.facts, at_key=broken.at_key)

    return checked


def _not_of_templates(metadata: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    for name in forms.given(metadata, _OF_THE_CLAIM):
        if metadata[name] not in _ZERO or name == "deletionGracePeriodSeconds":
            yield Broken((name,), at_key=True)


def metadata_rules(at: str, example: Callable[[str], str]) -> tuple[Rule, ...]:
    """The rules for the metadata of a template of claims (ValidateTemplateObjectMeta).

    Args:
        at: Where the metadata stands.
        example: Puts its fields there.
    """
    return (
        Rule(
            at,
            _labels_of(bad_label_keys, "labels"),
            "'{value}' is not a valid key",
            example("labels: {a b: c}"),
            example("labels: {a-b: c}"),
            forms.KEY_ADVICE,
        ),
        Rule(
            at,
            _labels_of(bad_label_values, "labels"),
            "'{value}' is not a label value",
            example("labels: {a: b c}"),
            example("labels: {a: b-c}"),
            forms.VALUE_ADVICE,
        ),
        Rule(
            at,
            _labels_of(bad_annotation_keys, "annotations"),
            "'{value}' is not a valid key",
            example("annotations: {a b: c}"),
            example("annotations: {a-b: c}"),
            forms.KEY_ADVICE,
        ),
        Rule(
            at,
            _not_of_templates,
            "the template of a claim cannot set it",
            example("name: a"),
            example("labels: {a: b}"),
            "remove it: only labels and annotations are given to the claim",
        ),
    )


def two_sources(spec: Mapping[str, Any], _: Subject) -> bool:
    """Whether the two ways to say what a claim is filled from contradict each other."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if not isinstance(source, dict) or not isinstance(reference, dict):
        return False
    keys = ("apiGroup", "kind", "name")
    same = all((source.get(key) or None) == (reference.get(key) or None) for key in keys)
    return bool(reference.get("namespace")) or not same
