"""Where a Pod may run: node selectors, affinity, spread and tolerations."""

from collections.abc import Callable, Iterator
from typing import Any

from etcompile.k8s.names import is_key, is_label, is_label_value
from etcompile.k8s.validation import forms, nodes
from etcompile.k8s.validation.pod.places import Value
from etcompile.k8s.validation.rule import Broken, Check, Rule, Subject
from etcompile.k8s.validation.selectors import (
    bad_label_keys,
    bad_label_values,
    requirement_rules,
    selector_rules,
)
from etcompile.k8s.validation.tolerations import toleration_rules

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NODES = "spec.affinity.nodeAffinity"
_PODS = "spec.affinity.(podAffinity|podAntiAffinity)"
_SPREAD = "spec.topologySpreadConstraints"

_VALUES_SINCE = 27
"""The API server looks at values in selectors of affinity since 1.27."""


# Nodes ----------------------------------------------------------------------------------------


def _in_required(text: str) -> str:
    return f"affinity: {{nodeAffinity: {{{_REQUIRED}: {{nodeSelectorTerms: [{{{text}}}]}}}}}}"


def _in_preferred(text: str) -> str:
    terms = f"[{{weight: 1, preference: {{{text}}}}}]"
    return f"affinity: {{nodeAffinity: {{{_PREFERRED}: {terms}}}}}"


def _node_rules(at: str, example: Callable[[str], str]) -> tuple[Rule, ...]:
    """The rules for a term that selects nodes."""

    def labels(text: str) -> str:
        return example(f"matchExpressions: [{text}]")

    def fields(text: str) -> str:
        return example(f"matchFields: [{text}]")

    return (
        *requirement_rules(f"{at}.matchExpressions[*]", labels),
        Rule(
            f"{at}.matchExpressions[*]",
            nodes.compares_several,
            "needs exactly one value, because its operator is Gt or Lt",
            labels("{key: a, operator: Gt, values: ['1', '2']}"),
            labels("{key: a, operator: Gt, values: ['1']}"),
        ),
        Rule(
            f"{at}.matchFields[*]",
            nodes.operator_of_labels,
            "must have the operator In or NotIn, because it is about a field",
            fields("{key: metadata.name, operator: Exists}"),
            fields("{key: metadata.name, operator: In, values: [a]}"),
        ),
        Rule(
            f"{at}.matchFields[*]",
            nodes.no_single_name,
            "needs exactly one value, because it is about a field",
            fields("{key: metadata.name, operator: In, values: [a, b]}"),
            fields("{key: metadata.name, operator: In, values: [a]}"),
        ),
        Rule(
            f"{at}.matchFields[*]",
            nodes.unknown_field,
            "must be metadata.name, not '{value}'",
            fields("{key: metadata.uid, operator: In, values: [a]}"),
            fields("{key: metadata.name, operator: In, values: [a]}"),
        ),
        Rule(
            f"{at}.matchFields[*]",
            nodes.bad_name,
            "'{value}' is not the name of a node",
            fields("{key: metadata.name, operator: In, values: [A_b]}"),
            fields("{key: metadata.name, operator: In, values: [a-b]}"),
            forms.SUBDOMAIN_ADVICE,
        ),
    )


# Pods -----------------------------------------------------------------------------------------


def _keys_of(selector: Value) -> list[str]:
    """The keys of a label selector, as often as they occur."""
    labels = [*forms.mapping(selector, "matchLabels")]
    expressions = forms.mappings(selector, "matchExpressions")
    return labels + [
        key for _, expression in expressions if isinstance(key := expression.get("key"), str)
    ]


def _no_selector(field: str) -> Check:
    def check(term: Value, _: Subject) -> Iterator[Broken]:
        if term.get(field) and not isinstance(term.get("labelSelector"), dict):
            yield Broken((field,), at_key=True)

    return check


def _selected_by_pod(term: Value, subject: Subject) -> Iterator[Broken]:
    """Keys that the API server adds to a selector where they are already.

    It adds those that the Pod has as labels, and refuses keys that occur twice then.
    """
    keys = _keys_of(forms.mapping(term, "labelSelector"))
    labels = forms.mapping(subject.value, "metadata", "labels")
    for index, key in forms.texts(term, "matchLabelKeys"):
        added = subject.pod and key in labels
        if keys.count(key) + added > 1:
            yield Broken(("matchLabelKeys", index))


def _selected(term: Value, _: Subject) -> Iterator[Broken]:
    keys = _keys_of(forms.mapping(term, "labelSelector"))
    for index, key in forms.texts(term, "matchLabelKeys"):
        if key in keys:
            yield Broken(("matchLabelKeys", index))


def _matched_and_not(term: Value, _: Subject) -> Iterator[Broken]:
    other = {key for _, key in forms.texts(term, "mismatchLabelKeys")}
    for index, key in forms.texts(term, "matchLabelKeys"):
        if key in other:
            yield Broken(("matchLabelKeys", index))


def _key_rules(at: str, field: str, example: Callable[[str], str], since: int) -> tuple[Rule, ...]:
    """The rules for keys whose values are those of the Pod."""
    return (
        Rule(
            at,
            _no_selector(field),
            "needs a labelSelector beside it",
            example(f"{field}: [a]"),
            example(f"{field}: [a], labelSelector: {{matchLabels: {{b: c}}}}"),
            since=since,
        ),
        Rule(
            f"{at}.{field}[*]",
            forms.unless(is_key),
            "'{value}' is not a valid key",
            example(f"{field}: [a b], labelSelector: {{matchLabels: {{b: c}}}}"),
            example(f"{field}: [a-b], labelSelector: {{matchLabels: {{b: c}}}}"),
            forms.KEY_ADVICE,
            on=str,
            since=since,
        ),
    )


def _term_rules(at: str, example: Callable[[str], str]) -> tuple[Rule, ...]:
    """The rules for a term that selects Pods."""

    def term(text: str) -> str:
        return example(f"topologyKey: a, {text}")

    def selector(field: str) -> Callable[[str], str]:
        return lambda text: term(f"{field}: {{{text}}}")

    return (
        *selector_rules(f"{at}.labelSelector", selector("labelSelector"), since=_VALUES_SINCE),
        *selector_rules(
            f"{at}.namespaceSelector", selector("namespaceSelector"), since=_VALUES_SINCE
        ),
        Rule(
            f"{at}.namespaces[*]",
            forms.unless(is_label),
            "'{value}' is not the name of a namespace",
            term("namespaces: [A_b]"),
            term("namespaces: [a-b]"),
            forms.LABEL_ADVICE,
            on=str,
        ),
        Rule(
            f"{at}.topologyKey",
            forms.unless(is_key),
            "'{value}' is not a valid key of a node's label",
            example('topologyKey: ""'),
            example("topologyKey: kubernetes.io/hostname"),
            "for example kubernetes.io/hostname",
            on=str,
        ),
        *_key_rules(at, "matchLabelKeys", term, 31),
        *_key_rules(at, "mismatchLabelKeys", term, 31),
        Rule(
            at,
            _matched_and_not,
            "'{value}' is among the mismatchLabelKeys too",
            term(
                "matchLabelKeys: [a], mismatchLabelKeys: [a], labelSelector: {matchLabels: {b: c}}"
            ),
            term("matchLabelKeys: [a], labelSelector: {matchLabels: {b: c}}"),
            "remove it from one of the two",
            since=31,
        ),
        Rule(
            at,
            _selected_by_pod,
            "'{value}' is in the labelSelector too",
            term(
                "matchLabelKeys: [a], labelSelector: {matchLabels: {a: b},"
                " matchExpressions: [{key: a, operator: Exists}]}"
            ),
            term("matchLabelKeys: [a], labelSelector: {matchLabels: {b: c}}"),
            "remove it from one of the two",
            since=31,
        ),
    )


def _in_pods(field: str, text: str) -> str:
    return f"affinity: {{podAffinity: {{{field}: [{text}]}}}}"


# Spread and tolerations -----------------------------------------------------------------------


def _same_constraint(constraints: list[Any], _: Subject) -> Iterator[Broken]:
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints):
        if not isinstance(constraint, dict):
            continue
        pair = (str(constraint.get("topologyKey")), str(constraint.get("whenUnsatisfiable")))
        if pair in seen:
            yield Broken((index,), {"key": pair[0], "action": pair[1]})
        seen.add(pair)


def _domains(constraint: Value, _: Subject) -> Iterator[Broken]:
    anyway = constraint.get("whenUnsatisfiable") == "ScheduleAnyway"
    if anyway and constraint.get("minDomains") is not None:
        yield Broken(("minDomains",), at_key=True)


_CONSTRAINT = "{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}"


def _spread(text: str) -> str:
    return f"topologySpreadConstraints: [{_CONSTRAINT[:-1]}, {text}}}]"


def _assigned_and_gated(spec: Value, _: Subject) -> Iterator[Broken]:
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield Broken(("nodeName",), at_key=True)


def _toleration(text: str) -> str:
    return f"tolerations: [{{{text}}}]"


_NODE_RULES = (
    Rule(
        "spec.nodeSelector",
        bad_label_keys,
        "'{value}' is not a valid key",
        "nodeSelector: {a b: c}",
        "nodeSelector: {a-b: c}",
        forms.KEY_ADVICE,
    ),
    Rule(
        "spec.nodeSelector",
        bad_label_values,
        "'{value}' is not a label value",
        "nodeSelector: {gpu: a/b}",
        "nodeSelector: {gpu: a-b}",
        forms.VALUE_ADVICE,
    ),
    Rule(
        f"{_NODES}.{_REQUIRED}.nodeSelectorTerms",
        forms.empty,
        "must not be empty",
        f"affinity: {{nodeAffinity: {{{_REQUIRED}: {{nodeSelectorTerms: []}}}}}}",
        f"affinity: {{nodeAffinity: {{{_REQUIRED}: {{nodeSelectorTerms: [{{}}]}}}}}}",
        on=list,
    ),
    *_node_rules(f"{_NODES}.{_REQUIRED}.nodeSelectorTerms[*]", _in_required),
    *_node_rules(f"{_NODES}.{_PREFERRED}[*].preference", _in_preferred),
    Rule(
        f"{_NODES}.{_REQUIRED}.nodeSelectorTerms[*].matchExpressions[*].values[*]",
        forms.unless(is_label_value),
        "'{value}' is not a label value",
        _in_required("matchExpressions: [{key: a, operator: In, values: [b c]}]"),
        _in_required("matchExpressions: [{key: a, operator: In, values: [b-c]}]"),
        forms.VALUE_ADVICE,
        on=str,
        since=33,
    ),
)

RULES = (
    *_NODE_RULES,
    *_term_rules(f"{_PODS}.{_REQUIRED}[*]", lambda text: _in_pods(_REQUIRED, f"{{{text}}}")),
    *_term_rules(
        f"{_PODS}.{_PREFERRED}[*].podAffinityTerm",
        lambda text: _in_pods(_PREFERRED, f"{{weight: 1, podAffinityTerm: {{{text}}}}}"),
    ),
    Rule(
        f"{_SPREAD}[*].topologyKey",
        forms.empty,
        "must not be empty",
        'topologySpreadConstraints: [{maxSkew: 1, topologyKey: "",'
        " whenUnsatisfiable: DoNotSchedule}]",
        "topologySpreadConstraints: [{maxSkew: 1, topologyKey: a,"
        " whenUnsatisfiable: DoNotSchedule}]",
        "for example kubernetes.io/hostname",
        on=str,
    ),
    Rule(
        _SPREAD,
        _same_constraint,
        "another constraint has the topologyKey {key} and whenUnsatisfiable {action} as well",
        f"topologySpreadConstraints: [{_CONSTRAINT}, {_CONSTRAINT}]",
        f"topologySpreadConstraints: [{_CONSTRAINT}]",
        "remove one of the two",
        on=list,
    ),
    Rule(
        f"{_SPREAD}[*]",
        _domains,
        "minDomains needs whenUnsatisfiable: DoNotSchedule",
        "topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, minDomains: 1,"
        " whenUnsatisfiable: ScheduleAnyway}]",
        _spread("minDomains: 1"),
        since=27,
    ),
    Rule(
        f"{_SPREAD}[*].(nodeAffinityPolicy|nodeTaintsPolicy)",
        forms.one_of("Honor", "Ignore"),
        "must be Honor or Ignore, not '{value}'",
        _spread("nodeTaintsPolicy: Always"),
        _spread("nodeTaintsPolicy: Honor"),
        on=str,
        since=26,
    ),
    *selector_rules(
        f"{_SPREAD}[*].labelSelector",
        lambda text: _spread(f"labelSelector: {{{text}}}"),
        since=28,
    ),
    *_key_rules(f"{_SPREAD}[*]", "matchLabelKeys", _spread, 27),
    Rule(
        f"{_SPREAD}[*]",
        _selected_by_pod,
        "'{value}' is in the labelSelector too",
        _spread(
            "matchLabelKeys: [a], labelSelector: {matchLabels: {a: b},"
            " matchExpressions: [{key: a, operator: Exists}]}"
        ),
        _spread("matchLabelKeys: [a], labelSelector: {matchLabels: {b: c}}"),
        "remove it from one of the two",
        since=34,
    ),
    Rule(
        f"{_SPREAD}[*]",
        _selected,
        "'{value}' is in the labelSelector too",
        _spread("matchLabelKeys: [a], labelSelector: {matchLabels: {a: b}}"),
        _spread("matchLabelKeys: [a], labelSelector: {matchLabels: {b: c}}"),
        "remove it from one of the two",
        since=27,
        until=33,
    ),
    *toleration_rules("spec.tolerations[*]", _toleration),
    Rule(
        "spec.schedulingGates[*].name",
        forms.unless(is_key),
        "'{value}' is not a valid name of a gate",
        "schedulingGates: [{name: a b}]",
        "schedulingGates: [{name: a-b}]",
        forms.KEY_ADVICE,
        on=str,
        since=27,
    ),
    Rule(
        "spec.schedulingGates",
        forms.twice(),
        "another gate has the name '{value}'",
        "schedulingGates: [{name: a}, {name: a}]",
        "schedulingGates: [{name: a}]",
        "remove one of the two",
        on=list,
        since=27,
    ),
    Rule(
        "spec",
        _assigned_and_gated,
        "cannot be set together with schedulingGates",
        "nodeName: a, schedulingGates: [{name: a}]",
        "nodeName: a",
        "remove one of the two",
        since=27,
        pods_only=True,
    ),
    Rule(
        "spec.readinessGates[*].conditionType",
        forms.unless(is_key),
        "'{value}' is not a valid type of a condition",
        "readinessGates: [{conditionType: a b}]",
        "readinessGates: [{conditionType: a-b}]",
        forms.KEY_ADVICE,
        on=str,
    ),
)
