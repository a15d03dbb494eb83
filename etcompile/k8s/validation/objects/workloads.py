"""The API server's rules for the controllers of Pods: Deployments and their like.

What it demands of their Pod templates as such stands in `etcompile.k8s.validation.pod`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.k8s.names import is_label
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.objects import storage
from etcompile.k8s.validation.objects.checks import (
    amount,
    at_least,
    choice,
    needs,
    selector,
    selects,
    share,
    share_up_to_all,
)
from etcompile.k8s.validation.objects.kind import Kind
from etcompile.k8s.validation.rule import Broken, Rule, Subject

_POD = "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}"
_SPEC = f"selector: {{matchLabels: {{a: b}}}}, {_POD}"


def _template_labels(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return forms.mapping(spec, "template", "metadata", "labels")


def _does_not_match(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    selected = value.get("selector")
    if isinstance(selected, dict) and not selects(selected, _template_labels(value)):
        yield Broken(("template", "metadata", "labels"), at_key=True)


def _is_empty(value: Mapping[str, Any], _: Subject) -> bool:
    return not value.get("matchLabels") and not value.get("matchExpressions")


def _always(path: str) -> tuple[Rule, ...]:
    return (
        Rule(
            f"{path}.restartPolicy",
            lambda value, _: value not in ("Always", ""),
            "must be Always here, not '{value}'",
            breaks="Never",
            takes="Always",
            advice="use a Job for Pods that end",
            on=str,
        ),
        Rule(
            f"{path}.activeDeadlineSeconds",
            lambda *_: True,
            "cannot be set here",
            breaks="5",
            takes="null",
            advice="remove it, or use a Job",
            on=int,
            at_key=True,
        ),
    )


def _controller() -> tuple[Rule, ...]:
    return (
        at_least("spec.replicas", 0),
        at_least("spec.minReadySeconds", 0),
        *selector("spec.selector"),
        Rule(
            "spec.selector",
            _is_empty,
            "must not be empty",
            breaks="{}",
            takes="{matchLabels: {a: b}}",
            advice="write matchLabels with labels of the Pod template",
        ),
        Rule(
            "spec",
            _does_not_match,
            "the selector does not match the labels of the Pod template",
            breaks=f"{{selector: {{matchLabels: {{a: c}}}}, {_POD}}}",
            takes=f"{{{_SPEC}}}",
            advice="give the template the labels that spec.selector has",
        ),
        *_always("spec.template.spec"),
        needs("spec", "template", "spec"),
    )


# Deployments ----------------------------------------------------------------------------------


def _stands_still(value: Mapping[str, Any], _: Subject) -> bool:
    least = [amount(value.get(name, "25%")) for name in ("maxUnavailable", "maxSurge")]
    return all(bound == 0 for bound in least)


def _not_rolling(value: Mapping[str, Any], _: Subject) -> bool:
    return value.get("type") in ("Recreate", "OnDelete") and value.get("rollingUpdate") is not None


def _deadline(value: Mapping[str, Any], _: Subject) -> bool:
    deadline, ready = value.get("progressDeadlineSeconds", 600), value.get("minReadySeconds") or 0
    both = isinstance(deadline, int) and isinstance(ready, int)
    return both and 0 <= deadline <= ready


_HISTORY = at_least("spec.revisionHistoryLimit", 0)
_DEPLOYMENT = (
    *_controller(),
    _HISTORY,
    choice("spec.strategy.type", "RollingUpdate", "Recreate", empty=True),
    Rule(
        "spec.strategy",
        _not_rolling,
        "rollingUpdate cannot be set with this type",
        breaks="{type: Recreate, rollingUpdate: {maxSurge: 1}}",
        takes="{type: RollingUpdate, rollingUpdate: {maxSurge: 1}}",
        advice="remove it, or use type: RollingUpdate",
    ),
    share("spec.strategy.rollingUpdate.(maxSurge|maxUnavailable)"),
    share_up_to_all("spec.strategy.rollingUpdate.maxUnavailable"),
    Rule(
        "spec.strategy.rollingUpdate",
        _stands_still,
        "maxSurge and maxUnavailable cannot both be 0",
        breaks="{maxSurge: 0, maxUnavailable: 0}",
        takes="{maxSurge: 1, maxUnavailable: 0}",
    ),
    at_least("spec.progressDeadlineSeconds", 1),
    Rule(
        "spec",
        _deadline,
        "progressDeadlineSeconds must be greater than minReadySeconds",
        breaks=f"{{{_SPEC}, progressDeadlineSeconds: 5, minReadySeconds: 5}}",
        takes=f"{{{_SPEC}, progressDeadlineSeconds: 6, minReadySeconds: 5}}",
    ),
)

# StatefulSets ---------------------------------------------------------------------------------

_STATEFUL = (
    *_controller(),
    choice("spec.podManagementPolicy", "OrderedReady", "Parallel", empty=True),
    choice("spec.updateStrategy.type", "RollingUpdate", "OnDelete", empty=True),
    Rule(
        "spec.updateStrategy",
        _not_rolling,
        "rollingUpdate cannot be set with this type",
        breaks="{type: OnDelete, rollingUpdate: {partition: 1}}",
        takes="{type: RollingUpdate, rollingUpdate: {partition: 1}}",
        advice="remove it, or use type: RollingUpdate",
    ),
    at_least("spec.updateStrategy.rollingUpdate.partition", 0),
    at_least("spec.ordinals.start", 0),
    choice(
        "spec.persistentVolumeClaimRetentionPolicy.(whenDeleted|whenScaled)",
        "Retain",
        "Delete",
        empty=True,
    ),
    Rule(
        "spec.serviceName",
        forms.unless_empty_or(is_label),
        "'{value}' is not the name of a Service",
        breaks="A b",
        takes="ab",
        advice=forms.LABEL_ADVICE,
        on=str,
        since=34,
    ),
    *storage.claim("spec.volumeClaimTemplates[*].spec", in_template=True),
    Rule(
        "spec.volumeClaimTemplates[*]",
        forms.lacks("spec"),
        "needs 'spec'",
        breaks="{metadata: {name: a}}",
        takes="{metadata: {name: a}, spec: {accessModes: [ReadWriteOnce],"
        " resources: {requests: {storage: 1Gi}}}}",
    ),
)

# DaemonSets -----------------------------------------------------------------------------------


def _surge_and_unavailable(value: Mapping[str, Any], _: Subject) -> bool:
    surge, unavailable = value.get("maxSurge", 0), value.get("maxUnavailable", 1)
    return bool(amount(surge)) == bool(amount(unavailable))


_DAEMON = (
    *(rule for rule in _controller() if rule.path != "spec.replicas"),
    _HISTORY,
    choice("spec.updateStrategy.type", "RollingUpdate", "OnDelete", empty=True),
    share("spec.updateStrategy.rollingUpdate.(maxSurge|maxUnavailable)"),
    share_up_to_all("spec.updateStrategy.rollingUpdate.(maxSurge|maxUnavailable)"),
    Rule(
        "spec.updateStrategy.rollingUpdate",
        _surge_and_unavailable,
        "one of maxSurge and maxUnavailable must be 0, and the other not",
        breaks="{maxSurge: 1, maxUnavailable: 1}",
        takes="{maxSurge: 1, maxUnavailable: 0}",
    ),
)

# ReplicationControllers and PodTemplates ------------------------------------------------------


def _rc_mismatch(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    selected, found = value.get("selector"), _template_labels(value)
    if not selected:
        if not found:
            yield Broken((), {"problem": "needs a selector, or labels in its Pod template"})
    elif isinstance(selected, dict) and not selects({"matchLabels": selected}, found):
        yield Broken((), {"problem": "the selector does not match the labels of the Pod template"})


_CONTROLLER = (
    at_least("spec.replicas", 0),
    at_least("spec.minReadySeconds", 0),
    Rule(
        "spec",
        _rc_mismatch,
        "{problem}",
        breaks=f"{{selector: {{a: c}}, {_POD}}}",
        takes=f"{{selector: {{a: b}}, {_POD}}}",
        advice="give the template the labels that spec.selector has",
    ),
    *_always("spec.template.spec"),
    needs("spec", "template", "spec"),
)


def _example(api: str, kind: str, more: str = "") -> str:
    return f"{{apiVersion: {api}, kind: {kind}, metadata: {{name: a}}, spec: {{{_SPEC}{more}}}}}"


_TEMPLATES = (("spec", "template"),)
KINDS = (
    Kind(
        ("apps/v1/Deployment",),
        _example("apps/v1", "Deployment"),
        _DEPLOYMENT,
        templates=_TEMPLATES,
    ),
    Kind(
        ("apps/v1/StatefulSet",),
        _example(
            "apps/v1",
            "StatefulSet",
            ", serviceName: a, volumeClaimTemplates: [{metadata: {name: v}, spec: {accessModes:"
            " [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]",
        ),
        _STATEFUL,
        form="label",
        templates=_TEMPLATES,
    ),
    Kind(
        ("apps/v1/DaemonSet",),
        _example("apps/v1", "DaemonSet"),
        _DAEMON,
        templates=_TEMPLATES,
        examples={
            "spec.updateStrategy.rollingUpdate.": _example(
                "apps/v1", "DaemonSet", ", updateStrategy: {rollingUpdate: {maxUnavailable: 0}}"
            )
        },
    ),
    Kind(
        ("apps/v1/ReplicaSet",),
        _example("apps/v1", "ReplicaSet"),
        _controller(),
        templates=_TEMPLATES,
    ),
    Kind(
        ("v1/ReplicationController",),
        "{apiVersion: v1, kind: ReplicationController, metadata: {name: a}, spec: {selector: {a:"
        f" b}}, {_POD}}}}}",
        _CONTROLLER,
        templates=_TEMPLATES,
    ),
    Kind(
        ("v1/PodTemplate",),
        f"{{apiVersion: v1, kind: PodTemplate, metadata: {{name: a}}, {_POD}}}",
        (needs("template", "spec"),),
        templates=(("template",),),
    ),
)
