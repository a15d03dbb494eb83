"""Containers: names, images, ports and when they are started again (validateContainers)."""

from collections.abc import Iterator
from typing import Any

from etcompile.k8s.names import is_label, is_port_name
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.pod.places import (
    CONTAINER,
    Value,
    containers,
    is_sidecar,
)
from etcompile.k8s.validation.rule import Broken, Path, Rule, Subject

_PORT = f"{CONTAINER}.ports[*]"
_ONLY_SIDECARS = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle")


def _same_name(spec: Value, _: Subject) -> Iterator[Broken]:
    seen: set[str] = set()
    for at, container in containers(spec):
        name = container.get("name")
        if isinstance(name, str):
            if name in seen:
                yield Broken((*at, "name"))
            seen.add(name)


def _no_image(container: Value, subject: Subject) -> bool:
    return container.get("image") is None and not subject.partial


def _padded(image: str, _: Subject) -> bool:
    return image != image.strip()


def _host_port(port: int, _: Subject) -> bool:
    return port != 0 and not 1 <= port <= 65535


def _host_ports(spec: Value, _: Subject) -> Iterator[Broken]:
    """Ports of the node that two containers want; init containers run one after another."""
    seen: set[tuple[Any, ...]] = set()
    for at, container in containers(spec):
        own = seen if at[0] == "containers" else set()
        for index, port in forms.mappings(container, "ports"):
            number = port.get("hostPort")
            if number and isinstance(number, int):
                place = (str(port.get("protocol") or "TCP"), str(port.get("hostIP") or ""), number)
                if place in own:
                    yield Broken((*at, "ports", index, "hostPort"))
                own.add(place)


def _host_network(spec: Value, _: Subject) -> Iterator[Broken]:
    if spec.get("hostNetwork") is not True:
        return
    for index, container in forms.mappings(spec, "containers"):
        for number, port in forms.mappings(container, "ports"):
            host = port.get("hostPort")
            if host and host != port.get("containerPort"):
                path: Path = ("containers", index, "ports", number, "hostPort")
                yield Broken(path, {"port": port.get("containerPort")})


def _not_for_init_containers(container: Value, _: Subject) -> Iterator[Broken]:
    if not is_sidecar(container):
        for name in forms.given(container, _ONLY_SIDECARS):
            yield Broken((name,), at_key=True)


def _rules_of_sidecar(container: Value, _: Subject) -> bool:
    return is_sidecar(container) and bool(container.get("restartPolicyRules"))


def _rules_without_policy(container: Value, _: Subject) -> bool:
    return bool(container.get("restartPolicyRules")) and not container.get("restartPolicy")


def _same_port_name(ports: list[Any], subject: Subject) -> Iterator[Broken]:
    for broken in forms.twice()(ports, subject):  # type: ignore[union-attr]
        name = ports[broken.path[0]]["name"]  # type: ignore[index]
        if is_port_name(name):
            yield broken


def _not_of_containers(spec: Value, _: Subject) -> Iterator[Broken]:
    for index, container in forms.mappings(spec, "containers"):
        if container.get("restartPolicy") is not None:
            yield Broken(("containers", index, "restartPolicy"), at_key=True)


RULES = (
    Rule(
        "spec.containers",
        forms.empty,
        "must not be empty",
        "containers: []",
        "containers: [{name: main, image: a:1}]",
        on=list,
    ),
    Rule(
        "spec.ephemeralContainers",
        lambda value, _: bool(value),
        "cannot be set when a Pod is created",
        "ephemeralContainers: [{name: e, image: a:1}]",
        "ephemeralContainers: []",
        "remove it",
        on=list,
        at_key=True,
    ),
    Rule(
        f"{CONTAINER}.name",
        forms.unless(is_label),
        "'{value}' is not a DNS label",
        "name: my_main",
        "name: my-main",
        forms.LABEL_ADVICE,
        on=str,
    ),
    Rule(
        "spec",
        _same_name,
        "another container has the name '{value}'",
        "initContainers: [{name: main, image: a:1}]",
        "initContainers: [{name: init, image: a:1}]",
        "rename one of the two",
    ),
    Rule(CONTAINER, _no_image, "needs 'image'", "image: null", "image: a:1", missing="image"),
    Rule(
        f"{CONTAINER}.image",
        forms.empty,
        "must not be empty",
        'image: ""',
        "image: a:1",
        on=str,
    ),
    Rule(
        f"{CONTAINER}.image",
        _padded,
        "'{value}' begins or ends with a blank",
        'image: "a:1 "',
        'image: "a:1"',
        "remove it",
        on=str,
        pods_only=True,
    ),
    Rule(
        f"{_PORT}.containerPort",
        forms.outside(1, 65535),
        "must be between 1 and 65535, not {value}",
        "ports: [{containerPort: 70000}]",
        "ports: [{containerPort: 7000}]",
        on=int,
    ),
    Rule(
        f"{_PORT}.hostPort",
        _host_port,
        "must be between 1 and 65535, not {value}",
        "ports: [{containerPort: 1, hostPort: 70000}]",
        "ports: [{containerPort: 1, hostPort: 7000}]",
        on=int,
    ),
    Rule(
        f"{_PORT}.name",
        forms.unless_empty_or(is_port_name),
        "'{value}' is not a port name",
        "ports: [{containerPort: 1, name: Ssh}]",
        "ports: [{containerPort: 1, name: ssh}]",
        forms.PORT_NAME_ADVICE,
        on=str,
    ),
    Rule(
        f"{CONTAINER}.ports",
        _same_port_name,
        "another port of this container has the name '{value}'",
        "ports: [{containerPort: 1, name: a}, {containerPort: 2, name: a}]",
        "ports: [{containerPort: 1, name: a}, {containerPort: 2, name: b}]",
        "rename one of the two",
        on=list,
    ),
    Rule(
        "spec",
        _host_ports,
        "host port {value} is taken by another port of this Pod",
        "containers: [{name: a, image: a:1, ports: [{containerPort: 1, hostPort: 9},"
        " {containerPort: 2, hostPort: 9}]}]",
        "containers: [{name: a, image: a:1, ports: [{containerPort: 1, hostPort: 9},"
        " {containerPort: 2, hostPort: 9, protocol: UDP}]}]",
        "use another port of the node",
    ),
    Rule(
        "spec",
        _host_network,
        "must be the containerPort {port} with hostNetwork, not {value}",
        "{hostNetwork: true, containers: [{name: a, image: a:1, ports: [{containerPort: 1,"
        " hostPort: 9}]}]}",
        "{hostNetwork: true, containers: [{name: a, image: a:1, ports: [{containerPort: 9,"
        " hostPort: 9}]}]}",
        "remove hostPort: with hostNetwork it is the containerPort",
    ),
    Rule(
        "spec.initContainers[*]",
        _not_for_init_containers,
        "an init container that is not a sidecar cannot have it",
        "readinessProbe: {exec: {command: [a]}}",
        "{readinessProbe: {exec: {command: [a]}}, restartPolicy: Always}",
        "remove it, or set restartPolicy: Always (a sidecar, Kubernetes 1.28)",
    ),
    Rule(
        "spec.initContainers[*].restartPolicy",
        forms.one_of("Always"),
        "must be Always, not '{value}'",
        "restartPolicy: Never",
        "restartPolicy: Always",
        "remove it, or set restartPolicy: Always (a sidecar)",
        on=str,
        since=28,
        until=33,
    ),
    Rule(
        "spec",
        _not_of_containers,
        "only init containers may have a restartPolicy of their own",
        "containers: [{name: a, image: a:1, restartPolicy: Always}]",
        "containers: [{name: a, image: a:1}]",
        "set the restartPolicy of the Pod",
        since=28,
        until=33,
    ),
    Rule(
        f"{CONTAINER}.restartPolicy",
        forms.one_of("Always", "Never", "OnFailure"),
        "must be Always, OnFailure or Never, not '{value}'",
        "restartPolicy: Sometimes",
        "restartPolicy: Always",
        on=str,
        since=35,
    ),
    Rule(
        "spec.initContainers[*]",
        _rules_of_sidecar,
        "a sidecar cannot have restartPolicyRules",
        "{restartPolicy: Always, restartPolicyRules: [{action: Restart, exitCodes:"
        " {operator: In, values: [1]}}]}",
        "restartPolicy: Always",
        since=35,
    ),
    Rule(
        "spec.containers[*]",
        _rules_without_policy,
        "restartPolicyRules need a restartPolicy of the container",
        "restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]",
        "{restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes:"
        " {operator: In, values: [1]}}]}",
        since=35,
    ),
    Rule(
        f"{CONTAINER}.restartPolicyRules[*].exitCodes.operator",
        forms.one_of("In", "NotIn"),
        "must be In or NotIn, not '{value}'",
        "{restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes:"
        " {operator: Equal, values: [1]}}]}",
        "{restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes:"
        " {operator: In, values: [1]}}]}",
        on=str,
        since=35,
    ),
)
