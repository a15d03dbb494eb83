"""The API server's rules for Services, endpoints, NetworkPolicies and Ingresses.

Whether an address or a node port is free, only a cluster can tell; that is not looked at.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.k8s.names import (
    is_key,
    is_label,
    is_label_value,
    is_port_name,
    is_service_name,
    is_subdomain,
)
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.objects.checks import (
    SEGMENT_ADVICE,
    address,
    choice,
    is_ip,
    is_segment,
    labels,
    needs,
    network,
    selector,
    subdomain,
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


def port_name(path: str) -> Rule:
    """A port's name, in place of its number."""
    return Rule(
        path,
        forms.unless(is_port_name),
        "'{value}' is not a port name",
        breaks="A b",
        takes="http",
        advice=forms.PORT_NAME_ADVICE,
        on=str,
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


# Services -------------------------------------------------------------------------------------


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


def _ranges(path: str) -> Rule:
    return Rule(
        path,
        lambda value, _: network(value.strip()) is None,
        "'{value}' is not a range of addresses",
        breaks="1.2.3.4",
        takes="1.2.3.0/24",
        advice="write it as 10.0.0.0/8",
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


# Endpoints ------------------------------------------------------------------------------------


def _no_addresses(value: Mapping[str, Any], _: Subject) -> bool:
    return not value.get("addresses") and not value.get("notReadyAddresses")


def _nameless_ports(value: list[Any], _: Subject) -> Iterator[Broken]:
    for index, port in enumerate(value):
        if len(value) > 1 and isinstance(port, dict) and not port.get("name"):
            yield Broken((index,))


_ENDPOINTS = (
    Rule(
        "subsets[*]",
        _no_addresses,
        "needs addresses or notReadyAddresses",
        breaks="{ports: [{port: 80}]}",
        takes="{ports: [{port: 80}], addresses: [{ip: 10.0.0.1}]}",
    ),
    _endpoint_ip("subsets[*].(addresses|notReadyAddresses)[*].ip"),
    Rule(
        "subsets[*].(addresses|notReadyAddresses)[*].hostname",
        forms.unless_empty_or(is_label),
        "'{value}' is not a DNS label",
        breaks="A b",
        takes="ab",
        advice=forms.LABEL_ADVICE,
        on=str,
    ),
    subdomain("subsets[*].(addresses|notReadyAddresses)[*].nodeName"),
    port_number("subsets[*].ports[*].port"),
    choice("subsets[*].ports[*].protocol", *_PROTOCOLS, empty=True),
    qualified("subsets[*].ports[*].appProtocol"),
    Rule(
        "subsets[*].ports[*].name",
        forms.unless_empty_or(is_label),
        "'{value}' is not a DNS label",
        breaks="A b",
        takes="ab",
        advice=forms.LABEL_ADVICE,
        on=str,
    ),
    Rule(
        "subsets[*].ports",
        _nameless_ports,
        "needs a name: there are several ports",
        breaks="[{port: 80}, {port: 81}]",
        takes="[{port: 80, name: a}, {port: 81, name: b}]",
        on=list,
    ),
)

# EndpointSlices -------------------------------------------------------------------------------

_FAMILIES = {"IPv4": 4, "IPv6": 6}


def _slice_addresses(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    kind = str(value.get("addressType"))
    for index, endpoint in forms.mappings(value, "endpoints"):
        if not endpoint.get("addresses"):
            yield Broken(("endpoints", index), {"problem": "needs at least one address"})
        for number, text in forms.texts(endpoint, "addresses"):
            found, where = address(text), ("endpoints", index, "addresses", number)
            if kind == "FQDN" and not is_subdomain(text.removesuffix(".")):
                yield Broken(where, {"problem": f"'{text}' is not a DNS name"})
            elif kind in _FAMILIES and (found is None or found.version != _FAMILIES[kind]):
                yield Broken(where, {"problem": f"'{text}' is not an {kind} address"})
            elif kind in _FAMILIES and found is not None and _outside_ip(text, Subject({})):
                yield Broken(where, {"problem": f"'{text}' is not an address others can reach"})


def _slice_names(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    hostname, node = value.get("hostname"), value.get("nodeName")
    if isinstance(hostname, str) and not is_label(hostname):
        yield Broken(("hostname",), {"what": "a DNS label"})
    if isinstance(node, str) and not is_subdomain(node):
        yield Broken(("nodeName",), {"what": "the name of a node"})


def _slice_hints(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    hints = value.get("hints")
    for field, is_name in (("forZones", is_label_value), ("forNodes", is_subdomain)):
        for index, hint in forms.mappings(hints, field):
            name = hint.get("name")
            if isinstance(name, str) and not (name and is_name(name)):
                yield Broken(("hints", field, index, "name"))


def _slice_ports(value: list[Any], _: Subject) -> Iterator[Broken]:
    seen: set[str] = set()
    for index, port in enumerate(value):
        name = (port.get("name") or "") if isinstance(port, dict) else None
        if isinstance(name, str):
            if name in seen:
                yield Broken((index,))
            seen.add(name)


_SLICE = (
    choice("addressType", "IPv4", "IPv6", "FQDN"),
    Rule(
        "",
        _slice_addresses,
        "{problem}",
        breaks="{addressType: IPv4, endpoints: [{addresses: [a]}]}",
        takes="{addressType: IPv4, endpoints: [{addresses: [10.0.0.1]}]}",
    ),
    Rule(
        "ports",
        _slice_ports,
        "another port has the same name",
        breaks="[{name: a, port: 1}, {name: a, port: 2}]",
        takes="[{name: a, port: 1}, {name: b, port: 2}]",
        on=list,
    ),
    Rule(
        "ports[*].name",
        forms.unless_empty_or(is_label),
        "'{value}' is not a DNS label",
        breaks="A b",
        takes="ab",
        advice=forms.LABEL_ADVICE,
        on=str,
    ),
    choice("ports[*].protocol", *_PROTOCOLS),
    qualified("ports[*].appProtocol"),
    Rule(
        "endpoints[*]",
        _slice_names,
        "'{value}' is not {what}",
        breaks="{addresses: [10.0.0.1], hostname: A b}",
        takes="{addresses: [10.0.0.1], hostname: a-b}",
    ),
    Rule(
        "endpoints[*]",
        _slice_hints,
        "'{value}' is not a name",
        breaks="{addresses: [10.0.0.1], hints: {forZones: [{name: a b}]}}",
        takes="{addresses: [10.0.0.1], hints: {forZones: [{name: a-b}]}}",
    ),
)

# NetworkPolicies ------------------------------------------------------------------------------


def _peers(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    found = forms.given(value, ("podSelector", "namespaceSelector", "ipBlock"))
    if not found:
        yield Broken((), {"problem": "needs podSelector, namespaceSelector or ipBlock"})
    elif "ipBlock" in found and len(found) > 1:
        yield Broken((), {"problem": "has ipBlock and a selector: write two entries"})


def _end_port(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    first, last = value.get("port"), value.get("endPort")
    if last is None or not isinstance(last, int):
        return
    if not isinstance(first, int):
        yield Broken(("endPort",), {"problem": "needs 'port' as a number"})
    elif last < first:
        yield Broken(("endPort",), {"problem": f"must be at least the port {first}, not {last}"})


def _exceptions(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    cidr = value.get("cidr")
    whole = network(cidr) if isinstance(cidr, str) else None
    for index, text in forms.texts(value, "except"):
        part = network(text)
        if whole is None or part is None:
            if whole is not None:
                yield Broken(("except", index), {"cidr": cidr})
            continue
        same = part.version == whole.version
        inside = same and part.network_address in whole and part.prefixlen > whole.prefixlen
        if not inside:
            yield Broken(("except", index), {"cidr": cidr})


def _policy(direction: str, peers: str) -> tuple[Rule, ...]:
    peer, port = f"spec.{direction}[*].{peers}[*]", f"spec.{direction}[*].ports[*]"
    return (
        *selector(f"{peer}.podSelector"),
        *selector(f"{peer}.namespaceSelector"),
        Rule(
            peer,
            _peers,
            "{problem}",
            breaks="{}",
            takes="{podSelector: {}}",
        ),
        _ranges(f"{peer}.ipBlock.cidr"),
        Rule(
            f"{peer}.ipBlock",
            _exceptions,
            "'{value}' is not a part of {cidr}",
            breaks="{cidr: 10.0.0.0/8, except: [11.0.0.0/16]}",
            takes="{cidr: 10.0.0.0/8, except: [10.1.0.0/16]}",
        ),
        choice(f"{port}.protocol", *_PROTOCOLS),
        port_number(f"{port}.port"),
        port_name(f"{port}.port"),
        Rule(
            port,
            _end_port,
            "{problem}",
            breaks="{port: 80, endPort: 79}",
            takes="{port: 80, endPort: 81}",
        ),
        Rule(
            port,
            lambda value, _: isinstance(value.get("endPort"), int) and value["endPort"] > 65535,
            "endPort must be at most 65535",
            breaks="{port: 80, endPort: 65536}",
            takes="{port: 80, endPort: 65535}",
        ),
    )


# Ingresses ------------------------------------------------------------------------------------


_CLASS = "kubernetes.io/ingress.class"


def _is_host(text: str) -> bool:
    if "*" in text:
        return text.startswith("*.") and len(text) <= 253 and is_subdomain(text[2:])
    return is_subdomain(text)


def _other_class(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    noted = forms.mapping(value, "metadata", "annotations").get(_CLASS)
    named = forms.mapping(value, "spec").get("ingressClassName")
    if isinstance(noted, str) and isinstance(named, str) and noted != named:
        yield Broken(("metadata", "annotations", _CLASS), {"named": named})


def _path(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    kind, path = value.get("pathType"), value.get("path") or ""
    if not isinstance(path, str):
        return
    strict = kind in ("Exact", "Prefix")
    bad = any(part in path for part in ("//", "/./", "/../", "%2f", "%2F"))
    if (strict or path) and not path.startswith("/"):
        yield Broken(("path",) if "path" in value else (), {"problem": "must begin with '/'"})
    elif strict and (bad or path.endswith(("/..", "/."))):
        yield Broken(("path",), {"problem": "must not contain '//', '.', '..' or %2f"})


def _backend(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    found = forms.given(value, ("service", "resource"))
    if len(found) != 1:
        yield Broken((), {"problem": "needs a service or a resource, and not both"})
    elif found == ["service"]:
        port = forms.mapping(value, "service", "port")
        if bool(port.get("name")) == bool(port.get("number")):
            yield Broken(
                (), {"problem": "needs service.port.name or service.port.number, not both"}
            )


def _backend_rules(path: str) -> tuple[Rule, ...]:
    return (
        Rule(
            path,
            _backend,
            "{problem}",
            breaks="{service: {name: a}}",
            takes="{service: {name: a, port: {number: 80}}}",
        ),
        Rule(
            f"{path}.service.name",
            forms.unless(is_service_name),
            "'{value}' is not the name of a Service",
            breaks="A b",
            takes="ab",
            advice=forms.LABEL_ADVICE,
            on=str,
            until=34,
        ),
        Rule(
            f"{path}.service.port",
            lambda value, _: (
                isinstance(value.get("name"), str)
                and value["name"] != ""
                and not is_port_name(value["name"])
            ),
            "the name is not a port name",
            breaks="{name: A b}",
            takes="{name: ab}",
            advice=forms.PORT_NAME_ADVICE,
        ),
        port_number(f"{path}.service.port.number", zero=True),
        subdomain(f"{path}.resource.apiGroup"),
        *(
            Rule(
                f"{path}.resource",
                forms.lacks(field),
                f"needs '{field}'",
                breaks=f"{{{other}: a}}",
                takes="{kind: a, name: a}",
            )
            for field, other in (("kind", "name"), ("name", "kind"))
        ),
        *_segments(f"{path}.resource"),
    )


def _segments(path: str) -> tuple[Rule, ...]:
    return tuple(
        Rule(
            f"{path}.{field}",
            forms.unless(is_segment),
            "'{value}' is not a valid name",
            breaks="a/b",
            takes="a",
            advice=SEGMENT_ADVICE,
            on=str,
        )
        for field in ("kind", "name")
    )


def _numeric_host(value: str, _: Subject) -> bool:
    return value != "" and (not _is_host(value) or is_ip(value))


_INGRESS = (
    Rule(
        "spec",
        lambda value, _: not value.get("rules") and value.get("defaultBackend") is None,
        "needs rules or a defaultBackend",
        breaks="{rules: []}",
        takes="{defaultBackend: {service: {name: a, port: {number: 80}}}}",
    ),
    subdomain("spec.ingressClassName"),
    *_backend_rules("spec.defaultBackend"),
    *_backend_rules("spec.rules[*].http.paths[*].backend"),
    Rule(
        "spec.rules[*].host",
        _numeric_host,
        "'{value}' is not a host name",
        breaks="1.2.3.4",
        takes="a.b",
        advice="use a DNS name, or one that begins with '*.'",
        on=str,
    ),
    Rule(
        "spec.rules[*].http.paths",
        forms.empty,
        "must not be empty",
        breaks="[]",
        takes="[{path: /, pathType: Prefix, backend: {service: {name: a, port: {number: 80}}}}]",
        on=list,
    ),
    choice("spec.rules[*].http.paths[*].pathType", "Prefix", "Exact", "ImplementationSpecific"),
    Rule(
        "spec.rules[*].http.paths[*]",
        _path,
        "the path {problem}",
        breaks="{path: a, pathType: Prefix, backend: {service: {name: a, port: {number: 80}}}}",
        takes="{path: /a, pathType: Prefix, backend: {service: {name: a, port: {number: 80}}}}",
    ),
    Rule(
        "spec.tls[*].hosts[*]",
        forms.unless(_is_host),
        "'{value}' is not a host name",
        breaks="A b",
        takes="a.b",
        advice="use a DNS name, or one that begins with '*.'",
        on=str,
    ),
    subdomain("spec.tls[*].secretName", empty=True),
)


def _class_scope(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    scope, space = value.get("scope", "Cluster"), value.get("namespace")
    if scope == "Namespace" and not space:
        yield Broken((), {"problem": "needs a namespace with scope: Namespace"})
    elif scope == "Cluster" and space is not None:
        yield Broken(("namespace",), {"problem": "cannot be set with scope: Cluster"}, at_key=True)


def _controller(value: str, _: Subject) -> bool:
    domain, slash, path = value.partition("/")
    allowed = "-._~!$&'()*+,;=:@%/"
    good = path and all(
        character.isascii() and (character.isalnum() or character in allowed) for character in path
    )
    return len(value) > 250 or not slash or not is_subdomain(domain) or not good


_ALL = "path: /, pathType: Prefix"
_TO_SERVICE = "{service: {name: a, port: {number: 80}}}"
_TO_RESOURCE = "{resource: {kind: a, name: a}}"
_SIMPLE = (
    "spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: a,"
    " port: {number: 80}}}}]}}]}"
)

KINDS = (
    Kind(
        ("v1/Service",),
        f"{{apiVersion: v1, kind: Service, metadata: {{name: a}}, spec: {{{_WEB}}}}}",
        (*_SERVICE, needs("spec")),
        form="service",
    ),
    Kind(
        ("v1/Endpoints",),
        "{apiVersion: v1, kind: Endpoints, metadata: {name: a}, subsets: [{addresses: [{ip:"
        " 10.0.0.1}], ports: [{port: 80}]}]}",
        _ENDPOINTS,
    ),
    Kind(
        ("discovery.k8s.io/v1/EndpointSlice",),
        "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a}, addressType:"
        " IPv4, endpoints: [{addresses: [10.0.0.1]}], ports: [{name: a, port: 80}]}",
        _SLICE,
    ),
    Kind(
        ("networking.k8s.io/v1/NetworkPolicy",),
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a}, spec:"
        " {podSelector: {}, ingress: [{from: [{podSelector: {}}], ports: [{port: 80}]}], egress:"
        " [{to: [{podSelector: {}}], ports: [{port: 80}]}]}}",
        (
            *selector("spec.podSelector"),
            choice("spec.policyTypes[*]", "Ingress", "Egress"),
            Rule(
                "spec.policyTypes",
                lambda value, _: len(value) > 2,
                "must be at most Ingress and Egress",
                breaks="[Ingress, Egress, Ingress]",
                takes="[Ingress, Egress]",
                on=list,
            ),
            *_policy("ingress", "from"),
            *_policy("egress", "to"),
        ),
        examples={
            place: "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a},"
            f" spec: {{podSelector: {{}}, {spec}: [{{ipBlock: {{cidr: 10.0.0.0/8}}}}]}}]}}}}"
            for place, spec in (
                ("spec.ingress[*].from[*].ipBlock", "ingress: [{from"),
                ("spec.egress[*].to[*].ipBlock", "egress: [{to"),
            )
        },
    ),
    Kind(
        ("networking.k8s.io/v1/Ingress",),
        f"{{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {{name: a}}, {_SIMPLE}}}",
        (
            *_INGRESS,
            needs("spec"),
            Rule(
                "",
                _other_class,
                "'{value}' contradicts spec.ingressClassName '{named}'",
                breaks=f"{{metadata: {{name: a, annotations: {{{_CLASS}: a}}}}, spec: {{"
                f"ingressClassName: b, defaultBackend: {_TO_SERVICE}}}}}",
                takes=f"{{metadata: {{name: a, annotations: {{{_CLASS}: a}}}}, spec: {{"
                f"ingressClassName: a, defaultBackend: {_TO_SERVICE}}}}}",
                advice="remove the annotation: spec.ingressClassName is what counts",
            ),
        ),
        examples={
            place: "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a}, spec:"
            f" {{{spec}}}}}"
            for place, spec in (
                ("spec.defaultBackend.service", f"defaultBackend: {_TO_SERVICE}"),
                ("spec.defaultBackend.resource", f"defaultBackend: {_TO_RESOURCE}"),
                (
                    "spec.rules[*].http.paths[*].backend.resource",
                    f"rules: [{{http: {{paths: [{{{_ALL}, backend: {_TO_RESOURCE}}}]}}}}]",
                ),
            )
        },
    ),
    Kind(
        ("networking.k8s.io/v1/IngressClass",),
        "{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: a}, spec:"
        " {controller: a.b/c, parameters: {kind: a, name: a}}}",
        (
            Rule(
                "spec.controller",
                _controller,
                "'{value}' is not the name of a controller",
                breaks="nginx",
                takes="k8s.io/ingress-nginx",
                advice="write it as DOMAIN/NAME",
                on=str,
            ),
            needs("spec", "controller"),
            subdomain("spec.parameters.apiGroup"),
            *_segments("spec.parameters"),
            choice("spec.parameters.scope", "Cluster", "Namespace"),
            Rule(
                "spec.parameters",
                _class_scope,
                "{problem}",
                breaks="{kind: a, name: a, namespace: b}",
                takes="{kind: a, name: a, namespace: b, scope: Namespace}",
            ),
        ),
    ),
)
