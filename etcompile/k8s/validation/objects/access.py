"""The API server's rules for Roles and RoleBindings."""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.k8s.names import is_subdomain
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.objects.checks import (
    SEGMENT_ADVICE,
    choice,
    filled,
    is_segment,
)
from etcompile.k8s.validation.objects.kind import Kind
from etcompile.k8s.validation.rule import Broken, Rule, Subject

_GROUP = "rbac.authorization.k8s.io"


def _lacks(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    wanted = ["verbs"]
    if not value.get("nonResourceURLs"):
        wanted += ["apiGroups", "resources"]
    for name in wanted:
        if not value.get(name):
            yield Broken((), {"name": name})


def _both(value: Mapping[str, Any], _: Subject) -> bool:
    others = ("apiGroups", "resources", "resourceNames")
    return bool(value.get("nonResourceURLs")) and any(value.get(field) for field in others)


_RULES = (
    Rule(
        "rules[*]",
        _lacks,
        "needs at least one entry in '{name}'",
        breaks="{verbs: [get], apiGroups: [a]}",
        takes="{verbs: [get], apiGroups: [a], resources: [pods]}",
        advice="write apiGroups: [''] for the core group",
    ),
    Rule(
        "rules[*]",
        _both,
        "cannot be about resources and URLs at once",
        breaks="{verbs: [get], apiGroups: [''], resources: [pods], nonResourceURLs: [/a]}",
        takes="{verbs: [get], apiGroups: [''], resources: [pods]}",
        advice="make two rules of it",
    ),
)
_ONLY_ROLES = Rule(
    "rules[*].nonResourceURLs",
    lambda value, _: bool(value),
    "cannot be set in a Role",
    breaks="[/a]",
    takes="[]",
    advice="use a ClusterRole",
    on=list,
    at_key=True,
)


def _subject_group(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    kind, group = value.get("kind"), value.get("apiGroup")
    if kind == "ServiceAccount" and group:
        yield Broken(("apiGroup",), {"problem": "a ServiceAccount has no apiGroup"})
    elif kind in ("User", "Group") and group not in (None, "", _GROUP):
        yield Broken(("apiGroup",), {"problem": f"must be {_GROUP}"})


def _account_name(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    name = value.get("name")
    named = isinstance(name, str) and name
    if value.get("kind") == "ServiceAccount" and named and not is_subdomain(str(name)):
        yield Broken(("name",))


def _binding(*kinds: str) -> tuple[Rule, ...]:
    return (
        choice("roleRef.apiGroup", _GROUP, empty=True),
        choice("roleRef.kind", *kinds),
        filled("roleRef.name", "a"),
        Rule(
            "roleRef.name",
            lambda value, _: bool(value) and not is_segment(value),
            "'{value}' is not the name of a role",
            breaks="a/b",
            takes="a",
            advice=SEGMENT_ADVICE,
            on=str,
        ),
        Rule(
            "subjects[*].kind",
            lambda value, _: value not in ("ServiceAccount", "User", "Group"),
            "must be one of ServiceAccount, User, Group, not '{value}'",
            breaks="Robot",
            takes="User",
            on=str,
        ),
        filled("subjects[*].name", "a"),
        Rule(
            "subjects[*]",
            _subject_group,
            "{problem}",
            breaks="{kind: User, name: a, apiGroup: v1}",
            takes=f"{{kind: User, name: a, apiGroup: {_GROUP}}}",
        ),
        Rule(
            "subjects[*]",
            _account_name,
            "'{value}' is not the name of a ServiceAccount",
            breaks="{kind: ServiceAccount, name: A b, namespace: a}",
            takes="{kind: ServiceAccount, name: ab, namespace: a}",
            advice=forms.SUBDOMAIN_ADVICE,
        ),
    )


def _example(kind: str, rest: str) -> str:
    return f"{{apiVersion: {_GROUP}/v1, kind: {kind}, metadata: {{name: a}}, {rest}}}"


_REF = (
    "roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {}, name: a}},"
    " subjects: [{{kind: User, name: a}}]"
)

KINDS = (
    Kind(
        (f"{_GROUP}/v1/Role",),
        _example("Role", "rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]"),
        (*_RULES, _ONLY_ROLES),
        form="segment",
    ),
    Kind(
        (f"{_GROUP}/v1/RoleBinding",),
        _example("RoleBinding", _REF.format("Role")),
        _binding("Role", "ClusterRole"),
        form="segment",
    ),
)
