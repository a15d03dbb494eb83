"""Names of a Pod, its DNS and what it refers to by name (validatePodDNSConfig and others)."""

import re
from collections.abc import Iterator

from etcompile.k8s.names import is_label, is_subdomain
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.pod.places import Value
from etcompile.k8s.validation.rule import Broken, Rule, Subject

_DNS = "spec.dnsConfig"
_MOST_SERVERS = 3
_MOST_SEARCHES = 32
_MOST_CHARACTERS = 2048
_LOOSE = r"[a-z0-9_]([-_a-z0-9]*[a-z0-9_])?(\.[a-z0-9_]([-_a-z0-9]*[a-z0-9_])?)*"
_DECIMAL = r"(?a)[0-9]+"


def is_address(text: str) -> bool:
    """Whether a text is an IP address as the API server reads those: zeros may lead."""
    parts = text.split(".")
    if len(parts) == 4 and all(re.fullmatch(_DECIMAL, part) for part in parts):
        return all(len(part) <= 16 and int(part) <= 255 for part in parts)
    if ":" not in text or "%" in text:
        return False
    import ipaddress  # noqa: PLC0415 - few Pods name addresses

    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _is_search(text: str) -> bool:
    short = text.removesuffix(".")
    return text == "." or (len(short) <= 253 and re.fullmatch(_LOOSE, short) is not None)


def _is_strict_search(text: str) -> bool:
    return is_subdomain(text.removesuffix("."))


def _loose_only(text: str, _: Subject) -> bool:
    return _is_search(text) and not _is_strict_search(text)


def _no_servers(spec: Value, _: Subject) -> Iterator[Broken]:
    servers = forms.mapping(spec, "dnsConfig").get("nameservers")
    if spec.get("dnsPolicy") == "None" and not servers:
        yield Broken(("dnsPolicy",))


def _search_list(searches: list[str], _: Subject) -> bool:
    return len(" ".join(map(str, searches))) > _MOST_CHARACTERS


def _two_hostnames(spec: Value, _: Subject) -> Iterator[Broken]:
    if spec.get("hostnameOverride") is not None:
        for field in ("setHostnameAsFQDN", "hostNetwork"):
            if spec.get(field) is True:
                yield Broken(("hostnameOverride",), {"field": field}, at_key=True)


def _priority_without_class(spec: Value, _: Subject) -> Iterator[Broken]:
    """A number that admission computes from the class: 0 where there is none."""
    if not spec.get("priorityClassName") and spec.get("priority") not in (None, 0):
        yield Broken(("priority",))


def _preemption_without_class(spec: Value, _: Subject) -> Iterator[Broken]:
    if not spec.get("priorityClassName") and spec.get("preemptionPolicy") == "Never":
        yield Broken(("preemptionPolicy",))


def _old_account(spec: Value, _: Subject) -> Iterator[Broken]:
    """The deprecated field, which counts where the other one is not there."""
    name = spec.get("serviceAccount")
    if spec.get("serviceAccountName") or not isinstance(name, str) or not name:
        return
    if not is_subdomain(name):
        yield Broken(("serviceAccount",))


def _name(field: str, what: str, *, label: bool = False, since: int = 0) -> Rule:
    return Rule(
        f"spec.{field}",
        forms.unless_empty_or(is_label if label else is_subdomain),
        f"'{{value}}' is not {what}",
        f"{field}: A_b",
        f"{field}: a-b",
        forms.LABEL_ADVICE if label else forms.SUBDOMAIN_ADVICE,
        on=str,
        since=since,
    )


_CLASS_ADVICE = "set priorityClassName to a PriorityClass that has it, and remove this"

RULES = (
    _name("hostname", "a DNS label", label=True),
    _name("subdomain", "a DNS label", label=True),
    _name("nodeName", "the name of a node"),
    Rule(
        "spec.serviceAccountName",
        forms.unless_empty_or(is_subdomain),
        "'{value}' is not the name of a ServiceAccount",
        "serviceAccountName: A_b",
        "serviceAccountName: default",
        forms.SUBDOMAIN_ADVICE,
        on=str,
    ),
    Rule(
        "spec",
        _old_account,
        "'{value}' is not the name of a ServiceAccount",
        "serviceAccount: A_b",
        "serviceAccount: default",
        forms.SUBDOMAIN_ADVICE,
    ),
    Rule(
        "spec.priorityClassName",
        forms.unless_empty_or(is_subdomain),
        "'{value}' is not the name of a PriorityClass",
        "priorityClassName: A_b",
        "priorityClassName: system-node-critical",
        forms.SUBDOMAIN_ADVICE,
        on=str,
    ),
    Rule(
        "spec",
        _priority_without_class,
        "the API server refuses a priority other than that of the Pod's PriorityClass",
        "priority: 100",
        "priority: 0",
        _CLASS_ADVICE,
        pods_only=True,
    ),
    Rule(
        "spec",
        _preemption_without_class,
        "the API server refuses a preemptionPolicy other than that of the Pod's PriorityClass",
        "preemptionPolicy: Never",
        "preemptionPolicy: PreemptLowerPriority",
        _CLASS_ADVICE,
        pods_only=True,
    ),
    Rule(
        "spec.runtimeClassName",
        forms.unless(is_subdomain),
        "'{value}' is not the name of a RuntimeClass",
        "runtimeClassName: A_b",
        "{}",
        forms.SUBDOMAIN_ADVICE,
        on=str,
    ),
    Rule(
        "spec.hostnameOverride",
        lambda value, _: len(value) > 64 or not is_subdomain(value),
        "'{value}' is not a host name of at most 64 characters",
        "hostnameOverride: A_b",
        "hostnameOverride: a-b",
        on=str,
        since=35,
    ),
    Rule(
        "spec",
        _two_hostnames,
        "cannot be set with {field}: true",
        "hostnameOverride: a, setHostnameAsFQDN: true",
        "setHostnameAsFQDN: true",
        "remove one of the two",
        since=35,
    ),
    Rule(
        "spec.hostAliases[*].ip",
        forms.unless(is_address),
        "'{value}' is not an IP address",
        "hostAliases: [{ip: 10.0.0.256, hostnames: [a]}]",
        "hostAliases: [{ip: 10.0.0.255, hostnames: [a]}]",
        on=str,
    ),
    Rule(
        "spec.hostAliases[*].hostnames[*]",
        forms.unless(is_subdomain),
        "'{value}' is not a host name",
        "hostAliases: [{ip: 10.0.0.1, hostnames: [A_b]}]",
        "hostAliases: [{ip: 10.0.0.1, hostnames: [a-b]}]",
        forms.SUBDOMAIN_ADVICE,
        on=str,
    ),
    Rule(
        "spec",
        _no_servers,
        "None needs at least one of spec.dnsConfig.nameservers",
        "dnsPolicy: None",
        "dnsPolicy: None, dnsConfig: {nameservers: [10.0.0.1]}",
    ),
    Rule(
        f"{_DNS}.nameservers",
        lambda value, _: len(value) > _MOST_SERVERS,
        "at most 3 name servers are allowed",
        "dnsConfig: {nameservers: [10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4]}",
        "dnsConfig: {nameservers: [10.0.0.1, 10.0.0.2, 10.0.0.3]}",
        on=list,
    ),
    Rule(
        f"{_DNS}.nameservers[*]",
        forms.unless(is_address),
        "'{value}' is not an IP address",
        "dnsConfig: {nameservers: [dns.example.com]}",
        "dnsConfig: {nameservers: ['fd00::1']}",
        on=str,
    ),
    Rule(
        f"{_DNS}.searches",
        lambda value, _: len(value) > _MOST_SEARCHES,
        "at most 32 search domains are allowed",
        f"dnsConfig: {{searches: [{', '.join('a' * 33)}]}}",
        f"dnsConfig: {{searches: [{', '.join('a' * 32)}]}}",
        on=list,
    ),
    Rule(
        f"{_DNS}.searches",
        _search_list,
        "all search domains together may have 2048 characters at most",
        f"dnsConfig: {{searches: [{', '.join(['x*250'] * 9)}]}}",
        f"dnsConfig: {{searches: [{', '.join(['x*250'] * 8)}]}}",
        on=list,
    ),
    Rule(
        f"{_DNS}.searches[*]",
        forms.unless(_is_search),
        "'{value}' is not a search domain",
        "dnsConfig: {searches: [A.b]}",
        "dnsConfig: {searches: [a.b]}",
        on=str,
    ),
    Rule(
        f"{_DNS}.searches[*]",
        _loose_only,
        "'{value}' is not a search domain",
        "dnsConfig: {searches: [_a.b]}",
        "dnsConfig: {searches: [a.b]}",
        "use no '_' (allowed since Kubernetes 1.33)",
        on=str,
        until=32,
    ),
    Rule(
        f"{_DNS}.options[*]",
        forms.lacks("name"),
        "needs 'name'",
        "dnsConfig: {options: [{value: '1'}]}",
        "dnsConfig: {options: [{name: ndots, value: '1'}]}",
    ),
)
