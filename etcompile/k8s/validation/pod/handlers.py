"""Probes and lifecycle hooks (validateProbe, validateHandler, validateLifecycle)."""

import re
from collections.abc import Callable, Iterator

from etcompile.k8s.names import is_port_name
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.pod.places import CONTAINER, HOOK, PROBE, Value, containers
from etcompile.k8s.validation.rule import Broken, Check, Rule, Subject

_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
_HEADER = r"(?a)[-A-Za-z0-9]+"
_GRACE = 30
"""What the API server takes for a terminationGracePeriodSeconds that is not given."""


def _none_of(names: tuple[str, ...]) -> Check:
    return lambda value, _: not forms.given(value, names)


def _port(port: str | int, _: Subject) -> bool:
    if isinstance(port, int):
        return not 1 <= port <= 65535
    return not is_port_name(port)


def _sleeps(spec: Value, least: int, *, pod: bool) -> Iterator[Broken]:
    grace = spec.get("terminationGracePeriodSeconds")
    grace = _GRACE if grace is None else grace
    if not isinstance(grace, int):
        return
    most = 1 if pod and grace < 0 else grace  # the API server corrects that of a Pod
    for at, container in containers(spec):
        for hook in ("postStart", "preStop"):
            action = forms.mapping(container, "lifecycle", hook).get("sleep")
            seconds = action.get("seconds", 0) if isinstance(action, dict) else None
            if isinstance(seconds, int) and not least <= seconds <= most:
                place = (*at, "lifecycle", hook, "sleep", "seconds")
                yield Broken(place, {"least": least, "grace": grace, "seconds": seconds})


def _sleep(spec: Value, subject: Subject) -> Iterator[Broken]:
    yield from _sleeps(spec, 0, pod=subject.pod)


def _sleep_nothing(spec: Value, subject: Subject) -> Iterator[Broken]:
    found = _sleeps(spec, 1, pod=subject.pod)
    yield from (broken for broken in found if broken.facts["seconds"] == 0)


def _of_probe(text: str) -> str:
    return f"livenessProbe: {{{text}}}"


def _of_hook(text: str) -> str:
    return f"lifecycle: {{preStop: {{{text}}}}}"


def _actions(at: str, example: Callable[[str], str]) -> tuple[Rule, ...]:
    """The rules for what a probe or a hook does."""
    return (
        Rule(
            f"{at}.exec",
            lambda value, _: not value.get("command"),
            "needs 'command'",
            example("exec: {command: []}"),
            example("exec: {command: [a]}"),
        ),
        Rule(
            f"{at}.(httpGet|tcpSocket).port",
            _port,
            "'{value}' is neither a port number nor the name of a port",
            example('httpGet: {port: "8080"}'),
            example("httpGet: {port: 8080}"),
            "write a number from 1 to 65535 without quotes, or the name of a port",
            on=(str, int),
        ),
        Rule(
            f"{at}.httpGet.httpHeaders[*].name",
            lambda value, _: not re.fullmatch(_HEADER, value),
            "'{value}' is not the name of an HTTP header",
            example("httpGet: {port: 1, httpHeaders: [{name: X_A, value: a}]}"),
            example("httpGet: {port: 1, httpHeaders: [{name: X-A, value: a}]}"),
            "use letters, digits and '-'",
            on=str,
        ),
    )


RULES = (
    Rule(
        PROBE,
        forms.several(*_PROBE_HANDLERS),
        "takes one action, not {found}",
        _of_probe("exec: {command: [a]}, tcpSocket: {port: 1}"),
        _of_probe("exec: {command: [a]}"),
        at_key=True,
    ),
    Rule(
        PROBE,
        _none_of(_PROBE_HANDLERS),
        f"needs one of {', '.join(_PROBE_HANDLERS)}",
        _of_probe("periodSeconds: 1"),
        _of_probe("periodSeconds: 1, exec: {command: [a]}"),
        at_key=True,
    ),
    Rule(
        HOOK,
        forms.several(*_HOOK_HANDLERS),
        "takes one action, not {found}",
        _of_hook("exec: {command: [a]}, httpGet: {port: 1}"),
        _of_hook("exec: {command: [a]}"),
        at_key=True,
    ),
    Rule(
        HOOK,
        _none_of(_HOOK_HANDLERS),
        f"needs one of {', '.join(_HOOK_HANDLERS)}",
        _of_hook(""),
        _of_hook("exec: {command: [a]}"),
        at_key=True,
    ),
    *_actions(PROBE, _of_probe),
    *_actions(HOOK, _of_hook),
    Rule(
        f"{PROBE}.grpc.port",
        forms.outside(1, 65535),
        "must be between 1 and 65535, not {value}",
        _of_probe("grpc: {port: 0}"),
        _of_probe("grpc: {port: 1}"),
        on=int,
    ),
    Rule(
        f"{CONTAINER}.(livenessProbe|startupProbe).successThreshold",
        lambda value, _: value > 1,
        "must be 1, not {value}",
        _of_probe("exec: {command: [a]}, successThreshold: 2"),
        _of_probe("exec: {command: [a]}, successThreshold: 1"),
        "only a readinessProbe may ask for more",
        on=int,
    ),
    Rule(
        f"{CONTAINER}.readinessProbe.terminationGracePeriodSeconds",
        lambda _value, _: True,
        "a readinessProbe cannot have it, because it ends no container",
        "readinessProbe: {exec: {command: [a]}, terminationGracePeriodSeconds: 1}",
        "readinessProbe: {exec: {command: [a]}}",
        "remove it",
        on=int,
        at_key=True,
    ),
    Rule(
        "spec",
        _sleep,
        "must be between {least} and the terminationGracePeriodSeconds {grace}, not {value}",
        "containers: [{name: a, image: a:1, lifecycle: {preStop: {sleep: {seconds: 31}}}}]",
        "containers: [{name: a, image: a:1, lifecycle: {preStop: {sleep: {seconds: 30}}}}]",
        "raise spec.terminationGracePeriodSeconds",
        since=30,
    ),
    Rule(
        "spec",
        _sleep_nothing,
        "must be between {least} and the terminationGracePeriodSeconds {grace}, not {value}",
        "containers: [{name: a, image: a:1, lifecycle: {preStop: {sleep: {seconds: 0}}}}]",
        "containers: [{name: a, image: a:1, lifecycle: {preStop: {sleep: {seconds: 1}}}}]",
        since=30,
        until=32,
    ),
)
