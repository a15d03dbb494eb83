"""The API server's rules for ConfigMaps, Secrets and ServiceAccounts.

Sizes are bounds on what etcd stores: 1 MiB for the values of a ConfigMap or Secret.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.k8s.validation import forms
from etcompile.k8s.validation.objects.checks import CONFIG_KEY_ADVICE, is_config_key
from etcompile.k8s.validation.objects.kind import Kind
from etcompile.k8s.validation.rule import Broken, Rule, Subject

DATA_LIMIT = 1024 * 1024
"""Bytes: the values of one ConfigMap or Secret."""

_REQUIRED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def _bad_keys(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    for key in value:
        if not is_config_key(key):
            yield Broken((key,), {"key": key}, at_key=True)


def _keys(field: str, value: str) -> Rule:
    return Rule(
        field,
        _bad_keys,
        "'{key}' is not a valid key",
        breaks=f"{{A b: {value}}}",
        takes=f"{{A_b: {value}}}",
        advice=CONFIG_KEY_ADVICE,
    )


def _in_both(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    binary = forms.mapping(value, "binaryData")
    for key in forms.mapping(value, "data"):
        if key in binary:
            yield Broken(("data", key), {"key": key}, at_key=True)


def _length(value: Any, *, encoded: bool) -> int:
    if not isinstance(value, str):
        return 0
    if not encoded:
        return len(value.encode("utf-8", "replace"))
    return max(0, (len(value) - value.count("\n")) * 3 // 4 - value[-2:].count("="))


def _too_large(*fields: tuple[str, bool]) -> Any:
    def check(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
        size = sum(
            _length(text, encoded=encoded)
            for field, encoded in fields
            for text in forms.mapping(value, field).values()
        )
        if size > DATA_LIMIT:
            yield Broken((), {"size": -(-size // 1024)})

    return check


def _secret_data(value: Mapping[str, Any]) -> dict[str, Any]:
    plain = forms.mapping(value, "stringData")
    return {**forms.mapping(value, "data"), **{key: ("plain", text) for key, text in plain.items()}}


def _missing_keys(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    kind, given = value.get("type"), _secret_data(value)
    wanted = _REQUIRED_KEYS.get(kind, ()) if isinstance(kind, str) else ()
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & given.keys():
        wanted = ("username",)
    if kind == "kubernetes.io/ssh-auth" and given.get("ssh-privatekey") in (
        None,
        "",
        ("plain", ""),
    ):
        wanted = ("ssh-privatekey",)
    for key in wanted:
        if key not in given or key == "ssh-privatekey":
            yield Broken(("type",), {"key": key, "type": kind})


def _not_json(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    for key in _REQUIRED_KEYS.get(str(value.get("type")), ()):
        found = _secret_data(value).get(key)
        if not key.startswith(".docker") or found is None:
            continue
        text = found[1] if isinstance(found, tuple) else _decoded(found)
        if isinstance(text, str) and not text.startswith("ENC[") and not _is_json_object(text):
            field = "stringData" if isinstance(found, tuple) else "data"
            yield Broken((field, key), {"key": key})


def _decoded(text: Any) -> str | None:
    if not isinstance(text, str) or text.startswith("ENC["):
        return None
    try:
        return base64.b64decode(text).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None  # the schema says so


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | type(None))
    except (ValueError, RecursionError):
        return False


def _token_account(value: Mapping[str, Any], _: Subject) -> bool:
    named = forms.mapping(value, "metadata", "annotations").get(_ACCOUNT)
    return value.get("type") == "kubernetes.io/service-account-token" and not named


_ACCOUNT = "kubernetes.io/service-account.name"

KINDS = (
    Kind(
        ("v1/ConfigMap",),
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: b}}",
        (
            _keys("data", "x"),
            _keys("binaryData", "AAEC"),
            Rule(
                "",
                _in_both,
                "the key '{key}' is in binaryData as well",
                breaks="{data: {a: b}, binaryData: {a: AAEC}}",
                takes="{data: {a: b}, binaryData: {b: AAEC}}",
                advice="remove one of the two",
            ),
            Rule(
                "",
                _too_large(("data", False), ("binaryData", True)),
                "holds {size} KiB; the API server allows 1024 KiB",
                breaks="{data: {a: !repeat [x, 1048577]}}",
                takes="{data: {a: !repeat [x, 1048576]}}",
                advice="make several ConfigMaps of it, or keep the data in a volume or an image",
            ),
        ),
    ),
    Kind(
        ("v1/Secret",),
        "{apiVersion: v1, kind: Secret, metadata: {name: a}}",
        (
            _keys("data", "AAEC"),
            _keys("stringData", "x"),
            Rule(
                "",
                _too_large(("data", True), ("stringData", False)),
                "holds {size} KiB; the API server allows 1024 KiB",
                breaks="{stringData: {a: !repeat [x, 1048577]}}",
                takes="{stringData: {a: !repeat [x, 1048576]}}",
                advice="make several Secrets of it",
            ),
            Rule(
                "",
                _missing_keys,
                "a Secret of type {type} needs the key '{key}'",
                breaks="{type: kubernetes.io/tls, stringData: {tls.crt: a}}",
                takes="{type: kubernetes.io/tls, stringData: {tls.crt: a, tls.key: b}}",
                advice="add it under stringData, or leave the type out",
            ),
            Rule(
                "",
                _not_json,
                "{key} is not a JSON object",
                breaks="{type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: a}}",
                takes="{type: kubernetes.io/dockerconfigjson,"
                " stringData: {.dockerconfigjson: '{}'}}",
                advice="make it with: kubectl create secret docker-registry",
            ),
            Rule(
                "",
                _token_account,
                f"a token needs the annotation {_ACCOUNT}",
                breaks="{type: kubernetes.io/service-account-token}",
                takes="{type: kubernetes.io/service-account-token,"
                f" metadata: {{name: a, annotations: {{{_ACCOUNT}: a}}}}}}",
                advice="name the ServiceAccount in it",
            ),
        ),
    ),
    Kind(
        ("v1/ServiceAccount",),
        "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}",
    ),
)
