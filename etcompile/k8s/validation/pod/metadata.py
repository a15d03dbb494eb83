"""Labels and annotations of a Pod (ValidateObjectMeta, ValidatePodSpecificAnnotations)."""

import json
import re
from collections.abc import Iterator
from typing import Any

from etcompile.k8s.names import is_key
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.pod.places import Value, containers, spec_of
from etcompile.k8s.validation.rule import Broken, Rule, Subject
from etcompile.k8s.validation.selectors import (
    bad_annotation_keys,
    bad_label_keys,
    bad_label_values,
)
from etcompile.k8s.validation.tolerations import toleration_rules
from etcompile.k8s.validation.tree import problems, tree

_MOST_BYTES = 256 * 1024
_SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
_CONTAINER_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_MIRROR = "kubernetes.io/config.mirror"
_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_INT32 = re.compile(r"-?(0|[1-9][0-9]{0,9})", re.ASCII)
_SECCOMP_PROFILES = ("runtime/default", "docker/default", "unconfined")


def too_many_bytes(annotations: Value, _: Subject) -> Iterator[Broken]:
    """All annotations together have a limit."""
    texts = (text for pair in annotations.items() for text in pair if isinstance(text, str))
    size = sum(len(text.encode(errors="replace")) for text in texts)
    if size > _MOST_BYTES:
        yield Broken((), {"size": size}, at_key=True)


def _deletion_cost(annotations: Value, _: Subject) -> Iterator[Broken]:
    value = annotations.get(_DELETION_COST)
    if isinstance(value, str) and not (
        _INT32.fullmatch(value) and value != "-0" and -(2**31) <= int(value) < 2**31
    ):
        yield Broken((_DELETION_COST,))


def _seccomp(annotations: Value, _: Subject) -> Iterator[Broken]:
    for key, value in annotations.items():
        if key != _SECCOMP and not key.startswith(_CONTAINER_SECCOMP):
            continue
        if not isinstance(value, str) or value in _SECCOMP_PROFILES:
            continue
        kind, _slash, path = value.partition("localhost/")
        if kind or not _slash or not forms.is_inside(path):
            yield Broken((key,))


def _apparmor_profile(annotations: Value, _: Subject) -> Iterator[Broken]:
    for key, value in annotations.items():
        if key.startswith(_APPARMOR) and isinstance(value, str):
            known = value in ("", "runtime/default", "unconfined")
            if not known and not value.startswith("localhost/"):
                yield Broken((key,))


def _apparmor_container(annotations: Value, subject: Subject) -> Iterator[Broken]:
    names = {str(container.get("name")) for _, container in containers(spec_of(subject))}
    for key in annotations:
        if key.startswith(_APPARMOR) and (name := key.removeprefix(_APPARMOR)) not in names:
            yield Broken((key,), {"value": name}, at_key=True)


def _old_tolerations(annotations: Value, _: Subject) -> Iterator[Broken]:
    text = annotations.get(_TOLERATIONS)
    if not isinstance(text, str) or not text:
        return
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        yield Broken((_TOLERATIONS,), {"problem": "is not JSON"})
        return
    listed = found is None or isinstance(found, list)
    if not listed or not all(isinstance(item, dict) for item in found or ()):
        yield Broken((_TOLERATIONS,), {"problem": "is not a list of tolerations"})
        return
    rules = tree(toleration_rules("tolerations[*]", str))
    for problem in problems(rules, Subject({"tolerations": found or []}, minor=34)):
        yield Broken((_TOLERATIONS,), {"problem": problem.message})
        return


def _mirror(annotations: Any, subject: Subject) -> Iterator[Broken]:
    if _MIRROR in annotations and not spec_of(subject).get("nodeName"):
        yield Broken((_MIRROR,), at_key=True)


def _bad_finalizer(value: str, _: Subject) -> bool:
    known = value in ("kubernetes", "orphan", "foregroundDeletion")
    return not (known or ("/" in value and is_key(value)))


RULES = (
    Rule(
        "metadata.finalizers[*]",
        _bad_finalizer,
        "'{value}' is not a finalizer",
        "finalizers: [mine]",
        "finalizers: [example.com/mine]",
        "write it with a domain: example.com/name",
        on=str,
        pods_only=True,
    ),
    Rule(
        "metadata.labels",
        bad_label_keys,
        "'{value}' is not a valid key",
        "labels: {a b: c}",
        "labels: {a-b: c}",
        forms.KEY_ADVICE,
    ),
    Rule(
        "metadata.labels",
        bad_label_values,
        "'{value}' is not a label value",
        "labels: {team: a b}",
        "labels: {team: a-b}",
        forms.VALUE_ADVICE,
    ),
    Rule(
        "metadata.annotations",
        bad_annotation_keys,
        "'{value}' is not a valid key",
        "annotations: {example.com/: a}",
        "annotations: {Example.com/A: a}",
        forms.KEY_ADVICE,
    ),
    Rule(
        "metadata.annotations",
        too_many_bytes,
        "the annotations have {size} bytes, more than the 262144 that an object may have",
        "annotations: {a: x*262144}",
        "annotations: {a: x*262143}",
        "keep long texts in a ConfigMap",
    ),
    Rule(
        "metadata.annotations",
        _deletion_cost,
        "'{value}' is not a whole number of 32 bits",
        f'annotations: {{{_DELETION_COST}: "01"}}',
        f'annotations: {{{_DELETION_COST}: "1"}}',
    ),
    Rule(
        "metadata.annotations",
        _seccomp,
        "'{value}' is not a seccomp profile",
        f"annotations: {{{_SECCOMP}: none}}",
        f"annotations: {{{_SECCOMP}: unconfined}}",
        "use securityContext.seccompProfile instead",
    ),
    Rule(
        "metadata.annotations",
        _apparmor_profile,
        "'{value}' is not an AppArmor profile",
        f"annotations: {{{_APPARMOR}main: none}}",
        f"annotations: {{{_APPARMOR}main: unconfined}}",
        "use runtime/default, unconfined or localhost/NAME",
    ),
    Rule(
        "metadata.annotations",
        _apparmor_container,
        "no container is named '{value}'",
        f"annotations: {{{_APPARMOR}other: unconfined}}",
        f"annotations: {{{_APPARMOR}main: unconfined}}",
    ),
    Rule(
        "metadata.annotations",
        _mirror,
        "the annotation needs spec.nodeName, because only the kubelet makes mirror Pods",
        "annotations: {kubernetes.io/config.mirror: a}",
        "annotations: {}",
        "remove it",
    ),
    Rule(
        "metadata.annotations",
        _old_tolerations,
        "{problem}",
        f'annotations: {{{_TOLERATIONS}: \'[{{"key": "a", "operator": "In"}}]\'}}',
        f'annotations: {{{_TOLERATIONS}: \'[{{"key": "a", "operator": "Exists"}}]\'}}',
        "remove it and set spec.tolerations",
    ),
)
