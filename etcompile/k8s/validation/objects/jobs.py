"""The API server's rules for Jobs."""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.k8s.names import is_key, is_label, is_subdomain
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.objects.checks import (
    at_least,
    choice,
    filled,
    moved,
    needs,
    selects,
)
from etcompile.k8s.validation.objects.kind import Kind
from etcompile.k8s.validation.rule import Broken, Rule, Subject

_MOST_PARALLEL = 100_000
_POD = "template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}"
_INDEXED = f"completionMode: Indexed, completions: 2, {_POD}"
_POLICY = (
    "podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: A, status: 'True'}]}]}"
)


def _number(value: Mapping[str, Any], name: str) -> int | None:
    found = value.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _is_indexed(value: Mapping[str, Any]) -> bool:
    return value.get("completionMode") == "Indexed"


def _restarts(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    spec = forms.mapping(value, "template", "spec")
    policy = spec.get("restartPolicy")
    if policy not in ("OnFailure", "Never"):
        place = ("template", "spec")
        shown = f"'{policy}'" if policy else "left out (Always)"
        path = (*place, "restartPolicy") if "restartPolicy" in spec else place
        yield Broken(path, {"policy": shown}, at_key="restartPolicy" not in spec)


def _fails_but_restarts(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    policy = forms.mapping(value, "template", "spec").get("restartPolicy")
    if value.get("podFailurePolicy") is not None and policy == "OnFailure":
        yield Broken(("template", "spec", "restartPolicy"))


def _without_completions(value: Mapping[str, Any], _: Subject) -> bool:
    return _is_indexed(value) and value.get("completions") is None and not _both_unset(value)


def _both_unset(value: Mapping[str, Any]) -> bool:
    """The API server fills in 1 for both when neither is there."""
    return value.get("completions") is None and value.get("parallelism") is None


def _needs_index(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    if not _is_indexed(value):
        for name in forms.given(
            value, ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
        ):
            yield Broken((name,), at_key=True)


def _needs_limit(value: Mapping[str, Any], _: Subject) -> bool:
    return value.get("maxFailedIndexes") is not None and value.get("backoffLimitPerIndex") is None


def _too_many(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    if not _is_indexed(value):
        return
    completions = _number(value, "completions")
    if completions is None:
        completions = 1 if _both_unset(value) else None
    failed = _number(value, "maxFailedIndexes")
    if (_number(value, "parallelism") or 0) > _MOST_PARALLEL:
        yield Broken(("parallelism",), {"most": _MOST_PARALLEL})
    if failed is not None and failed > min(_MOST_PARALLEL, completions or _MOST_PARALLEL):
        yield Broken(("maxFailedIndexes",), {"most": min(_MOST_PARALLEL, completions or 0)})
    if (completions or 0) <= _MOST_PARALLEL or value.get("backoffLimitPerIndex") is None:
        return
    if failed is None:
        yield Broken(("completions",), {"most": f"{_MOST_PARALLEL} without maxFailedIndexes"})
    for name in ("parallelism", "maxFailedIndexes"):
        if (_number(value, name) or 0) > 10_000:
            yield Broken((name,), {"most": 10_000})


# The rules of podFailurePolicy ----------------------------------------------------------------


def _one_condition(value: Mapping[str, Any], _: Subject) -> bool:
    return (value.get("onExitCodes") is None) == (not value.get("onPodConditions"))


def _unknown_container(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    spec = forms.mapping(value, "template", "spec")
    known = {
        str(container.get("name"))
        for field in ("containers", "initContainers")
        for _, container in forms.mappings(spec, field)
    }
    for index, rule in forms.mappings(value.get("podFailurePolicy"), "rules"):
        name = forms.mapping(rule, "onExitCodes").get("containerName")
        if isinstance(name, str) and name not in known:
            path = ("podFailurePolicy", "rules", index, "onExitCodes", "containerName")
            yield Broken(path, {"name": name})


def _index_without_limit(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    for index, rule in forms.mappings(value.get("podFailurePolicy"), "rules"):
        if rule.get("action") == "FailIndex" and value.get("backoffLimitPerIndex") is None:
            yield Broken(("podFailurePolicy", "rules", index, "action"))


def _unordered(value: Mapping[str, Any], _: Subject) -> bool:
    codes = value.get("values")
    if not isinstance(codes, list) or not all(isinstance(code, int) for code in codes):
        return False
    return codes != sorted(set(codes)) or (0 in codes and value.get("operator") == "In")


def _replacement(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    policy = value.get("podReplacementPolicy")
    if value.get("podFailurePolicy") is not None and policy == "TerminatingOrFailed":
        yield Broken(("podReplacementPolicy",))


# successPolicy --------------------------------------------------------------------------------


def _indexes(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    completions = _number(value, "completions")
    if completions is None or not _is_indexed(value):
        return
    for index, rule in forms.mappings(value.get("successPolicy"), "rules"):
        text, count = rule.get("succeededIndexes"), _number(rule, "succeededCount")
        total = _total(text, completions) if isinstance(text, str) else completions
        path = ("successPolicy", "rules", index)
        if total is None:
            yield Broken((*path, "succeededIndexes"), {"most": completions - 1})
        elif count is not None and count > min(total, completions):
            yield Broken((*path, "succeededCount"), {"most": min(total, completions)})


def _total(text: str, completions: int) -> int | None:
    """How many indexes a text such as `0,3-5` names; None if it is none."""
    total, last = 0, -1
    for part in text.split(",") if text else ():
        ends = part.split("-")
        if len(ends) > 2 or not all(end.isascii() and end.isdigit() for end in ends):
            return None
        low, high = int(ends[0][:12]), int(ends[-1][:12])
        if low <= last or high >= completions or (len(ends) == 2 and low >= high):
            return None
        total, last = total + high - low + 1, high
    return total


def _says_nothing(value: Mapping[str, Any], _: Subject) -> bool:
    return value.get("succeededIndexes") is None and value.get("succeededCount") is None


def _no_rules(value: Mapping[str, Any], _: Subject) -> bool:
    return not value.get("rules")


def _managed_by(value: str, _: Subject) -> bool:
    domain, slash, path = value.partition("/")
    if len(value) > 63 or not slash or not path or not is_subdomain(domain):
        return True
    return not all(
        character.isascii() and (character.isalnum() or character in "-._~!$&'()*+,;=:@%/")
        for character in path
    )


_EXIT = "podFailurePolicy.rules[*].onExitCodes"
_CONDITION = "podFailurePolicy.rules[*].onPodConditions[*]"
_JOB = (
    *(
        at_least(name, 0)
        for name in (
            *("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit"),
            "ttlSecondsAfterFinished",
        )
    ),
    choice("completionMode", "NonIndexed", "Indexed"),
    choice("podReplacementPolicy", "Failed", "TerminatingOrFailed"),
    Rule(
        "",
        lambda value, _: any(
            (_number(value, name) or 0) < 0 for name in ("backoffLimitPerIndex", "maxFailedIndexes")
        ),
        "backoffLimitPerIndex and maxFailedIndexes must be at least 0",
        breaks=f"{{{_INDEXED}, backoffLimitPerIndex: -1}}",
        takes=f"{{{_INDEXED}, backoffLimitPerIndex: 0}}",
    ),
    Rule(
        "",
        _restarts,
        "restartPolicy must be OnFailure or Never, not {policy}",
        breaks="{template: {spec: {containers: [{name: a, image: a}]}}}",
        takes=f"{{{_POD}}}",
        advice="write restartPolicy: Never or OnFailure",
    ),
    Rule(
        "",
        _fails_but_restarts,
        "must be Never where podFailurePolicy is set",
        breaks=f"{{{_POLICY}, template: {{spec: {{restartPolicy: OnFailure,"
        " containers: [{name: a, image: a}]}}}",
        takes=f"{{{_POLICY}, {_POD}}}",
    ),
    Rule(
        "",
        _without_completions,
        "a Job with completionMode: Indexed needs 'completions'",
        breaks=f"{{completionMode: Indexed, parallelism: 2, {_POD}}}",
        takes=f"{{completionMode: Indexed, parallelism: 2, completions: 2, {_POD}}}",
    ),
    Rule(
        "",
        _needs_index,
        "needs completionMode: Indexed",
        breaks=f"{{backoffLimitPerIndex: 1, {_POD}}}",
        takes=f"{{backoffLimitPerIndex: 1, {_INDEXED}}}",
    ),
    Rule(
        "",
        _needs_limit,
        "maxFailedIndexes needs backoffLimitPerIndex",
        breaks=f"{{maxFailedIndexes: 1, {_INDEXED}}}",
        takes=f"{{maxFailedIndexes: 1, backoffLimitPerIndex: 1, {_INDEXED}}}",
    ),
    Rule(
        "",
        _too_many,
        "must be at most {most}, not {value}",
        breaks=f"{{maxFailedIndexes: 3, backoffLimitPerIndex: 1, {_INDEXED}}}",
        takes=f"{{maxFailedIndexes: 2, backoffLimitPerIndex: 1, {_INDEXED}}}",
    ),
    Rule(
        "managedBy",
        _managed_by,
        "'{value}' is not the name of a controller",
        breaks="kueue",
        takes="kueue.x-k8s.io/multikueue",
        advice="write it as DOMAIN/NAME, at most 63 characters",
        on=str,
        since=32,
    ),
    choice("podFailurePolicy.rules[*].action", "Count", "Ignore", "FailJob", "FailIndex"),
    Rule(
        "podFailurePolicy.rules[*]",
        _one_condition,
        "needs one of onExitCodes and onPodConditions",
        breaks="{action: Ignore}",
        takes="{action: Ignore, onExitCodes: {operator: In, values: [1]}}",
    ),
    Rule(
        "",
        _unknown_container,
        "the Pod template has no container '{name}'",
        breaks="{podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In,"
        f" values: [1], containerName: b}}}}]}}, {_POD}}}",
        takes="{podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In,"
        f" values: [1], containerName: a}}}}]}}, {_POD}}}",
    ),
    Rule(
        "",
        _index_without_limit,
        "FailIndex needs backoffLimitPerIndex",
        breaks="{podFailurePolicy: {rules: [{action: FailIndex, onExitCodes: {operator: In,"
        f" values: [1]}}}}]}}, {_INDEXED}}}",
        takes="{backoffLimitPerIndex: 1, podFailurePolicy: {rules: [{action: FailIndex,"
        f" onExitCodes: {{operator: In, values: [1]}}}}]}}, {_INDEXED}}}",
    ),
    choice(f"{_EXIT}.operator", "In", "NotIn"),
    filled(f"{_EXIT}.values", "[1]"),
    Rule(
        _EXIT,
        _unordered,
        "the values must be in order, each once, and not 0 with the operator In",
        breaks="{operator: In, values: [2, 1]}",
        takes="{operator: In, values: [1, 2]}",
    ),
    Rule(
        f"{_CONDITION}.status",
        lambda value, _: value not in ("True", "False", "Unknown", ""),
        "must be one of True, False, Unknown, not '{value}'",
        breaks="maybe",
        takes='"True"',
        advice='put it in quotes: "True"',
        on=str,
    ),
    Rule(
        f"{_CONDITION}.type",
        forms.unless(is_key),
        "'{value}' is not a condition",
        breaks="A b",
        takes="DisruptionTarget",
        advice=forms.KEY_ADVICE,
        on=str,
    ),
    Rule(
        "",
        _replacement,
        "must be Failed where podFailurePolicy is set",
        breaks=f"{{{_POLICY}, podReplacementPolicy: TerminatingOrFailed, {_POD}}}",
        takes=f"{{{_POLICY}, podReplacementPolicy: Failed, {_POD}}}",
    ),
    Rule(
        "successPolicy",
        _no_rules,
        "needs at least one rule",
        breaks="{rules: []}",
        takes="{rules: [{succeededCount: 1}]}",
        since=31,
    ),
    Rule(
        "successPolicy.rules[*]",
        _says_nothing,
        "needs succeededCount or succeededIndexes",
        breaks="{}",
        takes="{succeededCount: 1}",
        since=31,
    ),
    at_least("successPolicy.rules[*].succeededCount", 0),
    Rule(
        "",
        _indexes,
        "'{value}' is not within the Job's indexes: at most {most}, in ascending order",
        breaks=f"{{{_INDEXED}, successPolicy: {{rules: [{{succeededIndexes: 0-5}}]}}}}",
        takes=f"{{{_INDEXED}, successPolicy: {{rules: [{{succeededIndexes: 0-1}}]}}}}",
        since=31,
    ),
)

# The Job as a whole -----------------------------------------------------------------------------


def _own_selector(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    selected, manual = value.get("selector"), value.get("manualSelector") is True
    labels = forms.mapping(value, "template", "metadata", "labels")
    if manual and not isinstance(selected, dict):
        yield Broken((), {"problem": "manualSelector needs a selector"})
    elif manual and isinstance(selected, dict) and not selects(selected, labels):
        problem = "the selector does not match the labels of the Pod template"
        yield Broken(("selector",), {"problem": problem})
    elif not manual and any(forms.mapping(value, "selector").values()):
        problem = "the API server makes the selector itself"
        yield Broken(("selector",), {"problem": problem}, at_key=True)


def _long_name(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    name = forms.mapping(value, "metadata").get("name")
    spec = forms.mapping(value, "spec")
    completions = _number(spec, "completions") or (1 if _both_unset(spec) else 0)
    if not isinstance(name, str) or not _is_indexed(spec) or completions <= 0:
        return
    if is_subdomain(name) and not is_label(f"{name}-{completions - 1}"):
        yield Broken(("metadata", "name"), {"last": completions - 1})


def _name_above_label(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    name = forms.mapping(value, "metadata").get("name")
    manual = forms.mapping(value, "spec").get("manualSelector") is True
    if isinstance(name, str) and len(name) > 63 and not manual:
        yield Broken(("metadata", "name"))


_ONLY_JOBS = (
    Rule(
        "",
        _name_above_label,
        "is longer than 63 characters, which its Pods have as a label",
        breaks=f"{{metadata: {{name: {'a' * 64}}}, spec: {{{_POD}}}}}",
        takes=f"{{metadata: {{name: {'a' * 63}}}, spec: {{{_POD}}}}}",
        advice="shorten it",
    ),
    Rule(
        "spec",
        _own_selector,
        "{problem}",
        breaks=f"{{selector: {{matchLabels: {{a: b}}}}, {_POD}}}",
        takes=f"{{{_POD}}}",
        advice="remove spec.selector",
    ),
    Rule(
        "",
        _long_name,
        "'{value}-{last}', the name of its last Pod, is not a DNS label",
        breaks=f"{{metadata: {{name: {'a' * 62}}}, spec: {{{_INDEXED}}}}}",
        takes=f"{{metadata: {{name: {'a' * 61}}}, spec: {{{_INDEXED}}}}}",
        advice="shorten the name, and use no '.' in it",
    ),
)


_RULE = "podFailurePolicy: {{rules: [{{action: Ignore, {}}}]}}, ".format
_SPECS = {
    "podFailurePolicy": _RULE("onExitCodes: {operator: In, values: [1]}") + _POD,
    "podFailurePolicy.rules[*].onPodConditions": _RULE(
        "onPodConditions: [{type: A, status: 'True'}]"
    )
    + _POD,
    "successPolicy": f"{_INDEXED}, successPolicy: {{rules: [{{succeededCount: 1}}]}}",
}


def _job(spec: str) -> str:
    return f"{{apiVersion: batch/v1, kind: Job, metadata: {{name: a}}, spec: {{{spec}}}}}"


KINDS = (
    Kind(
        ("batch/v1/Job",),
        _job(_POD),
        (*moved(_JOB, "spec"), *_ONLY_JOBS, needs("spec", "template", "spec")),
        templates=(("spec", "template"),),
        examples={f"spec.{path}": _job(spec) for path, spec in _SPECS.items()},
    ),
)
