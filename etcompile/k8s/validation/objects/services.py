"""The API server's rules for Services.

Whether an address or a node port is free, only a cluster can tell; that is not looked at.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.k8s.names import (
    is_key,
    is_label,
    is_port_name,
    is_subdomain,
)
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.objects.checks import (
    address,
    choice,
    is_ip,
    labels,
    needs,
    network,
)
from etcompile.k8s.validation.objects.kind import Kind
from etcompile.k8s.validation.rule import Broken, Rule, Subject

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_EXTERNAL = ("NodePort", "LoadBalancer")


def port_number(path: str, *, zero: bool = False) -> Rule:
    """A port.

    Args:
        path: Its place.
        zero: Whether 0 stands for none.
    """
    return Rule(
        path,
        lambda value, _: not 1 <= value <= 65535 and not (zero and value == 0),
        "must be between 1 and 65535, not {value}",
        breaks="65536",
        takes="65535",
        on=int,
    )


def qualified(path: str) -> Rule:
    """A name that may have a domain before it."""
    return Rule(
        path,
        forms.unless(is_key),
        "'{value}' is not a valid name",
        breaks="A b",
        takes="example.com/ab",
        advice=forms.KEY_ADVICE,
        on=str,
    )


def _kind_of(value: Mapping[str, Any]) -> Any:
    return value.get("type") or "ClusterIP"


def _is_headless(value: Mapping[str, Any]) -> bool:
    several = value.get("clusterIPs")
    first = several[0] if isinstance(several, list) and several else None
    return "None" in (value.get("clusterIP"), first)


def _no_ports(value: Mapping[str, Any], _: Subject) -> bool:
    return not value.get("ports") and not _is_headless(value) and _kind_of(value) != "ExternalName"


def _headless_type(value: Mapping[str, Any], _: Subject) -> bool:
    return _is_headless(value) and _kind_of(value) in _EXTERNAL


def _external_name(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    if _kind_of(value) != "ExternalName":
        return
    name = value.get("externalName") or ""
    if isinstance(name, str) and not is_subdomain(name.removesuffix(".")):
        yield Broken(
            (), {"problem": f"a Service of type ExternalName needs a DNS name, not '{name}'"}
        )
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy", "clusterIP"):
        if value.get(field):
            yield Broken((field,), {"problem": "cannot be set with type ExternalName"}, at_key=True)


def _ports(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    seen: dict[tuple[str, Any], int] = {}
    found = list(forms.mappings(value, "ports"))
    for index, port in found:
        if len(found) > 1 and not port.get("name"):
            yield Broken(
                ("ports", index), {"problem": "needs a name: the Service has several ports"}
            )
        protocol = str(port.get("protocol") or "TCP")
        for key, field in (("name", ""), ("port", protocol), ("nodePort", protocol)):
            number = port.get(key)
            if not number or not isinstance(number, str | int):
                continue
            if (f"{key} {field}", number) in seen:
                problem = f"another port of this Service has the {key} {number}"
                yield Broken(("ports", index, key), {"problem": problem})
            seen[f"{key} {field}", number] = index


def _only_for(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    kind = _kind_of(value)
    if kind != "LoadBalancer":
        for field in (
            "loadBalancerSourceRanges",
            "allocateLoadBalancerNodePorts",
            "loadBalancerClass",
        ):
            if value.get(field) not in (None, []):
                yield Broken((field,), {"kinds": "LoadBalancer"}, at_key=True)
    if kind == "ClusterIP":
        for index, port in forms.mappings(value, "ports"):
            if port.get("nodePort"):
                facts = {"kinds": "NodePort or LoadBalancer"}
                yield Broken(("ports", index, "nodePort"), facts, at_key=True)
    reachable = kind in _EXTERNAL or (kind == "ClusterIP" and value.get("externalIPs"))
    if value.get("externalTrafficPolicy") and not reachable:
        facts = {"kinds": "NodePort or LoadBalancer"}
        yield Broken(("externalTrafficPolicy",), facts, at_key=True)
    checked = kind == "LoadBalancer" and value.get("externalTrafficPolicy") == "Local"
    if value.get("healthCheckNodePort") and not checked:
        needs = "LoadBalancer with externalTrafficPolicy: Local"
        yield Broken(("healthCheckNodePort",), {"kinds": needs}, at_key=True)


def _cluster_ips(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    if _kind_of(value) == "ExternalName":
        return
    first, several = value.get("clusterIP") or "", value.get("clusterIPs") or []
    if not isinstance(first, str) or not isinstance(several, list):
        return
    if first and several and several[0] != first:
        yield Broken(("clusterIPs",), {"problem": "the first one must be the same as clusterIP"})
    if len(several) > 2 or ("None" in several and len(several) > 1):
        yield Broken(
            ("clusterIPs",), {"problem": "can be an IPv4 and an IPv6 address, or None alone"}
        )
    for path, text in (
        (("clusterIP",), first),
        *((("clusterIPs", i), t) for i, t in enumerate(several)),
    ):
        if isinstance(text, str) and text not in ("", "None") and not is_ip(text):
            yield Broken(path, {"problem": f"'{text}' is not an IP address"})
    families = [ip.version for text in several if isinstance(text, str) and (ip := address(text))]
    if len(families) == 2 and len(set(families)) == 1:
        yield Broken(("clusterIPs",), {"problem": "both are of the same IP family"})


def _families(value: list[Any], _: Subject) -> bool:
    return len([family for family in value if isinstance(family, str)]) != len(set(map(str, value)))


def _outside_ip(value: str, _: Subject) -> bool:
    found = address(value)
    if found is None:
        return True
    special = found.is_unspecified or found.is_loopback or found.is_link_local
    return bool(special) or value.startswith("224.0.0.") or value.lower().startswith("ff02:")


def _endpoint_ip(path: str) -> Rule:
    return Rule(
        path,
        _outside_ip,
        "'{value}' is not an IP address that others can reach",
        breaks="127.0.0.1",
        takes="10.0.0.1",
        on=str,
    )


def _load_balancer(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    for index, text in forms.texts(value, "loadBalancerSourceRanges"):
        if network(text.strip()) is None:
            problem = f"'{text}' is not a range of addresses"
            yield Broken(("loadBalancerSourceRanges", index), {"problem": problem})
    policy, name = value.get("externalTrafficPolicy"), value.get("loadBalancerClass")
    if policy not in (None, "", "Cluster", "Local"):
        problem = f"must be one of Cluster, Local, not '{policy}'"
        yield Broken(("externalTrafficPolicy",), {"problem": problem})
    if isinstance(name, str) and not is_key(name):
        yield Broken(("loadBalancerClass",), {"problem": f"'{name}' is not a valid name"})
    port = value.get("healthCheckNodePort")
    if isinstance(port, int) and not 0 <= port <= 65535:
        yield Broken(("healthCheckNodePort",), {"problem": f"must be at most 65535, not {port}"})


_WEB = "ports: [{port: 80}]"
_SERVICE = (
    Rule(
        "spec",
        _no_ports,
        "needs at least one port",
        breaks="{selector: {a: b}}",
        takes=f"{{selector: {{a: b}}, {_WEB}}}",
        advice="add ports, or set clusterIP: None for a headless Service",
    ),
    choice("spec.type", "ClusterIP", *_EXTERNAL, "ExternalName", empty=True),
    Rule(
        "spec",
        _headless_type,
        "clusterIP: None is for Services of type ClusterIP only",
        breaks=f"{{type: NodePort, clusterIP: None, {_WEB}}}",
        takes=f"{{clusterIP: None, {_WEB}}}",
    ),
    Rule(
        "spec",
        _external_name,
        "{problem}",
        breaks="{type: ExternalName, externalName: a b}",
        takes="{type: ExternalName, externalName: a.b}",
    ),
    Rule(
        "spec",
        _ports,
        "{problem}",
        breaks="{ports: [{port: 80}, {port: 81}]}",
        takes="{ports: [{port: 80, name: a}, {port: 81, name: b}]}",
    ),
    Rule(
        "spec.ports[*].name",
        forms.unless_empty_or(is_label),
        "'{value}' is not a DNS label",
        breaks="A b",
        takes="ab",
        advice=forms.LABEL_ADVICE,
        on=str,
    ),
    port_number("spec.ports[*].port"),
    choice("spec.ports[*].protocol", *_PROTOCOLS, empty=True),
    port_number("spec.ports[*].targetPort", zero=True),
    Rule(
        "spec.ports[*].targetPort",
        forms.unless_empty_or(is_port_name),
        "'{value}' is not a port name",
        breaks="A b",
        takes="http",
        advice=forms.PORT_NAME_ADVICE,
        on=str,
    ),
    qualified("spec.ports[*].appProtocol"),
    *labels("spec.selector"),
    choice("spec.sessionAffinity", "None", "ClientIP", empty=True),
    Rule(
        "spec",
        lambda value, _: value.get("sessionAffinity") == "ClientIP" and not _is_timeout(value),
        "sessionAffinityConfig.clientIP.timeoutSeconds must be between 1 and 86400",
        breaks="{sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 0}},"
        f" {_WEB}}}",
        takes="{sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 1}},"
        f" {_WEB}}}",
    ),
    Rule(
        "spec",
        _only_for,
        "is for Services of type {kinds} only",
        breaks=f"{{allocateLoadBalancerNodePorts: true, {_WEB}}}",
        takes=f"{{{_WEB}}}",
        advice="remove it, or change the type",
    ),
    Rule(
        "spec",
        _cluster_ips,
        "{problem}",
        breaks=f"{{clusterIP: 1.2.3.4.5, {_WEB}}}",
        takes=f"{{clusterIP: None, {_WEB}}}",
    ),
    choice("spec.ipFamilies[*]", "IPv4", "IPv6"),
    Rule(
        "spec.ipFamilies",
        _families,
        "names an IP family twice",
        breaks="[IPv4, IPv4]",
        takes="[IPv4]",
        on=list,
    ),
    choice("spec.ipFamilyPolicy", "SingleStack", "PreferDualStack", "RequireDualStack"),
    choice("spec.internalTrafficPolicy", "Cluster", "Local"),
    _endpoint_ip("spec.externalIPs[*]"),
    Rule(
        "spec",
        _load_balancer,
        "{problem}",
        breaks=f"{{type: LoadBalancer, loadBalancerSourceRanges: [a], {_WEB}}}",
        takes=f"{{type: LoadBalancer, loadBalancerSourceRanges: [10.0.0.0/8], {_WEB}}}",
    ),
    Rule(
        "spec.trafficDistribution",
        lambda value, _: value not in ("PreferClose", "PreferSameZone", "PreferSameNode"),
        "must be one of PreferClose, PreferSameZone, PreferSameNode, not '{value}'",
        breaks="Near",
        takes="PreferClose",
        on=str,
        since=31,
    ),
)


def _is_timeout(value: Mapping[str, Any]) -> bool:
    seconds = forms.mapping(value, "sessionAffinityConfig", "clientIP").get("timeoutSeconds", 10800)
    return not isinstance(seconds, int) or 1 <= seconds <= 86400


KINDS = (
    Kind(
        ("v1/Service",),
        f"{{apiVersion: v1, kind: Service, metadata: {{name: a}}, spec: {{{_WEB}}}}}",
        (*_SERVICE, needs("spec")),
        form="service",
    ),
)
