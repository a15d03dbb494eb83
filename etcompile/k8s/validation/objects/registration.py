"""The API server's rules for what extends it: webhooks, admission policies, API services.

CEL expressions are not compiled here: whether one is sound, only the API server can tell.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.k8s.names import is_subdomain
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.objects.checks import choice, filled, moved, needs, selector
from etcompile.k8s.validation.objects.kind import Kind
from etcompile.k8s.validation.rule import Broken, Check, Rule, Subject

_LONGEST_WAIT = 30
_MOST_OF_A_GROUP, _MOST_OF_A_VERSION = 20000, 1000
_OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT", "*"})


def _one_client(value: Mapping[str, Any], _: Subject) -> bool:
    return len(forms.given(value, ("url", "service"))) != 1


def _unsafe_url(value: str, _: Subject) -> Iterator[Broken]:
    scheme, found, rest = value.partition("://")
    if scheme != "https" or not found or not rest.partition("/")[0]:
        yield Broken((), {"problem": f"must be https://HOST/PATH, not '{value}'"})
    elif "@" in rest.partition("/")[0] or "?" in rest or "#" in rest:
        yield Broken((), {"problem": "must have no user, no query and no fragment"})


def _no_domain(value: str, _: Subject) -> bool:
    return not is_subdomain(value) or value.count(".") < 2


def _bad_wait(value: int, _: Subject) -> bool:
    return not 1 <= value <= _LONGEST_WAIT


def _operations(value: list[Any], _: Subject) -> Iterator[Broken]:
    for index, operation in enumerate(value):
        if isinstance(operation, str) and operation not in _OPERATIONS:
            yield Broken((index,), {"problem": f"must be one of {', '.join(sorted(_OPERATIONS))}"})
    if len(value) > 1 and "*" in value:
        yield Broken((), {"problem": "'*' stands for all operations, and must stand alone"})


def _empty(name: str) -> Check:
    return lambda value, _: not value.get(name)


_MATCH = "apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]"
_MATCHES = (
    *(
        Rule(
            "",
            _empty(name),
            f"needs at least one entry in '{name}'",
            breaks=f"{{{_MATCH}}}".replace(f"{name}: {example}", f"{name}: []"),
            takes=f"{{{_MATCH}}}",
        )
        for name, example in (
            ("apiGroups", "['']"),
            ("apiVersions", "[v1]"),
            ("operations", "[CREATE]"),
            ("resources", "[pods]"),
        )
    ),
    Rule("operations", _operations, "{problem}", breaks="[READ]", takes="[CREATE]", on=list),
    choice("scope", "Namespaced", "Cluster", "*"),
)
_CLIENT = "clientConfig: {url: 'https://a.b/c'}"
_HOOK = f"name: a.b.c, {_CLIENT}, sideEffects: None, admissionReviewVersions: [v1]"
_HOOKS = (
    Rule(
        "webhooks[*].name",
        _no_domain,
        "'{value}' is not a domain with at least two dots",
        breaks="a.b",
        takes="a.b.c",
        advice=forms.SUBDOMAIN_ADVICE,
        on=str,
    ),
    Rule(
        "webhooks[*].clientConfig",
        _one_client,
        "needs one of url and service",
        breaks="{}",
        takes="{url: 'https://a.b'}",
    ),
    Rule(
        "webhooks[*].clientConfig.url",
        _unsafe_url,
        "{problem}",
        breaks="http://a.b",
        takes="https://a.b",
        on=str,
    ),
    choice("webhooks[*].sideEffects", "None", "NoneOnDryRun"),
    choice("webhooks[*].failurePolicy", "Fail", "Ignore"),
    choice("webhooks[*].matchPolicy", "Equivalent", "Exact"),
    Rule(
        "webhooks[*].timeoutSeconds",
        _bad_wait,
        f"must be between 1 and {_LONGEST_WAIT}, not {{value}}",
        breaks=str(_LONGEST_WAIT + 1),
        takes=str(_LONGEST_WAIT),
        on=int,
    ),
    Rule(
        "webhooks",
        forms.twice(),
        "another webhook has the name '{value}'",
        breaks=f"[{{{_HOOK}}}, {{{_HOOK}}}]",
        takes=f"[{{{_HOOK}}}]",
        on=list,
    ),
    filled("webhooks[*].admissionReviewVersions", "[v1]"),
    Rule(
        "webhooks[*].admissionReviewVersions",
        lambda value, _: bool(value) and not {"v1", "v1beta1"} & {*map(str, value)},
        "needs v1: the API server sends no other version",
        breaks="[v2]",
        takes="[v2, v1]",
        on=list,
    ),
    *selector("webhooks[*].namespaceSelector"),
    *selector("webhooks[*].objectSelector"),
    *moved(_MATCHES, "webhooks[*].rules[*]"),
)


def _both_answers(value: list[Any], _: Subject) -> bool:
    return {"Deny", "Warn"} <= {*map(str, value)}


def _twice(value: list[Any], _: Subject) -> Iterator[Broken]:
    for index, item in enumerate(value):
        if item in value[:index]:
            yield Broken((index,))


_CONSTRAINTS = (
    "matchConstraints: {namespaceSelector: {}, objectSelector: {},"
    f" resourceRules: [{{{_MATCH}}}]}}"
)
_POLICY = (
    needs("spec", "matchConstraints"),
    Rule(
        "spec",
        lambda value, _: not value.get("validations") and not value.get("auditAnnotations"),
        "needs validations or auditAnnotations",
        breaks=f"{{{_CONSTRAINTS}}}",
        takes=f"{{{_CONSTRAINTS}, validations: [{{expression: 'true'}}]}}",
    ),
    choice("spec.failurePolicy", "Fail", "Ignore"),
    filled("spec.matchConstraints.resourceRules", f"[{{{_MATCH}}}]"),
    *moved(_MATCHES, "spec.matchConstraints.resourceRules[*]"),
    *selector("spec.matchConstraints.namespaceSelector"),
    *selector("spec.matchConstraints.objectSelector"),
)
_BINDING = (
    Rule(
        "spec",
        lambda value, _: not value.get("policyName"),
        "needs 'policyName'",
        breaks="{validationActions: [Deny]}",
        takes="{policyName: a, validationActions: [Deny]}",
    ),
    Rule(
        "spec",
        lambda value, _: not value.get("validationActions"),
        "needs at least one entry in 'validationActions'",
        breaks="{policyName: a}",
        takes="{policyName: a, validationActions: [Deny]}",
    ),
    choice("spec.validationActions[*]", "Deny", "Warn", "Audit"),
    Rule(
        "spec.validationActions",
        _both_answers,
        "cannot have both Deny and Warn",
        breaks="[Deny, Warn]",
        takes="[Deny, Audit]",
        advice="Deny says the same as Warn, and refuses",
        on=list,
    ),
    Rule(
        "spec.validationActions",
        _twice,
        "'{value}' is there twice",
        breaks="[Deny, Deny]",
        takes="[Deny]",
        on=list,
    ),
)


def _other_name(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    spec = forms.mapping(value, "spec")
    wanted = f"{spec.get('version')}.{spec.get('group') or ''}"
    name = forms.mapping(value, "metadata").get("name")
    if isinstance(name, str) and name != wanted:
        yield Broken(("metadata", "name"), {"wanted": wanted})


def _between(path: str, most: int) -> Rule:
    return Rule(
        path,
        forms.outside(1, most),
        f"must be between 1 and {most}, not {{value}}",
        breaks=str(most + 1),
        takes=str(most),
        on=int,
    )


_SERVICE = (
    Rule(
        "",
        _other_name,
        "must be {wanted}, the version and the group of its spec, not '{value}'",
        breaks="{metadata: {name: a.b}}",
        takes="{metadata: {name: v1.a.b}}",
    ),
    _between("spec.groupPriorityMinimum", _MOST_OF_A_GROUP),
    _between("spec.versionPriority", _MOST_OF_A_VERSION),
    Rule(
        "spec",
        lambda value, _: bool(
            forms.mapping(value, "service")
            and value.get("caBundle")
            and value.get("insecureSkipTLSVerify")
        ),
        "insecureSkipTLSVerify needs caBundle to be left out",
        breaks="{group: a.b, version: v1, groupPriorityMinimum: 1, versionPriority: 1, service:"
        " {name: a, namespace: b}, caBundle: YQ==, insecureSkipTLSVerify: true}",
        takes="{group: a.b, version: v1, groupPriorityMinimum: 1, versionPriority: 1, service:"
        " {name: a, namespace: b}, insecureSkipTLSVerify: true}",
    ),
)


def _example(kind: str, rest: str, name: str = "a") -> str:
    return (
        f"{{apiVersion: admissionregistration.k8s.io/v1, kind: {kind},"
        f" metadata: {{name: {name}}}, {rest}}}"
    )


_WITH_RULES = f"webhooks: [{{{_HOOK}, namespaceSelector: {{}}, objectSelector: {{}}, rules: [{{"
KINDS = (
    *(
        Kind(
            (f"admissionregistration.k8s.io/v1/{kind}",),
            _example(kind, f"{_WITH_RULES}{_MATCH}}}]}}]"),
            (
                *_HOOKS,
                *(
                    [choice("webhooks[*].reinvocationPolicy", "Never", "IfNeeded")]
                    if kind.startswith("Mutating")
                    else []
                ),
            ),
        )
        for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
    ),
    Kind(
        ("admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy",),
        _example(
            "ValidatingAdmissionPolicy",
            f"spec: {{{_CONSTRAINTS}, validations: [{{expression: 'true'}}]}}",
        ),
        _POLICY,
    ),
    Kind(
        ("admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding",),
        _example(
            "ValidatingAdmissionPolicyBinding", "spec: {policyName: a, validationActions: [Deny]}"
        ),
        _BINDING,
    ),
    Kind(
        ("apiregistration.k8s.io/v1/APIService",),
        "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.a.b}, spec:"
        " {group: a.b, version: v1, groupPriorityMinimum: 1, versionPriority: 1}}",
        _SERVICE,
    ),
)
