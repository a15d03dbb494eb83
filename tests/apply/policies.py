"""Admission policies for tests: what a cluster's administrators let happen to objects."""

import time
import urllib.error
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controlplane.server import ControlPlane

_GROUP = "admissionregistration.k8s.io"


def _rules(kinds: Sequence[str], operations: Sequence[str]) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["*"], "resources": [*kinds]}
    return {"resourceRules": [{**rule, "operations": [*operations]}]}


def mutate(
    plane: ControlPlane,
    namespace: str,
    patch: str,
    *,
    operations: Sequence[str] = ("CREATE",),
    when: Mapping[str, str] | None = None,
    kinds: Sequence[str] = ("pods",),
    flavour: str = "",
) -> None:
    """Has objects of a namespace changed when they are written, and waits until they are.

    Args:
        patch: A CEL expression: the JSON patch.
        operations: On which writes.
        when: CEL expressions by name: only for objects for which all are true.
        flavour: Where instead: in all namespaces that have it as the label `flavour`.
    """
    conditions = [{"name": name, "expression": one} for name, one in (when or {}).items()]
    spec = {
        "matchConstraints": _rules(kinds, operations),
        "matchConditions": conditions,
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
    }
    _install(plane, namespace, "Mutating", "v1beta1", spec, {}, flavour)


def deny(
    plane: ControlPlane,
    namespace: str,
    condition: str,
    message: str,
    *,
    operations: Sequence[str] = ("CREATE",),
    kinds: Sequence[str] = ("pods",),
    flavour: str = "",
) -> Callable[[], None]:
    """Has objects of a namespace refused unless a CEL expression is true of them.

    Returns:
        Takes the policy away.
    """
    spec = {
        "matchConstraints": _rules(kinds, operations),
        "failurePolicy": "Fail",
        "validations": [{"expression": condition, "message": message}],
    }
    actions = {"validationActions": ["Deny"]}
    return _install(plane, namespace, "Validating", "v1", spec, actions, flavour)


def _install(
    plane: ControlPlane,
    namespace: str,
    form: str,
    version: str,
    spec: dict[str, Any],
    more: dict[str, Any],
    flavour: str,
) -> Callable[[], None]:
    name = f"{namespace}-{form.lower()}-{time.monotonic_ns()}"
    path = f"/apis/{_GROUP}/{version}/{form.lower()}admissionpolic"
    plane.ask("POST", f"{path}ies", {"metadata": {"name": name}, "spec": spec})
    labels = {"flavour": flavour} if flavour else {"kubernetes.io/metadata.name": namespace}
    here = {"matchLabels": labels}
    binding = {"policyName": name, "matchResources": {"namespaceSelector": here}, **more}
    plane.ask("POST", f"{path}ybindings", {"metadata": {"name": name}, "spec": binding})
    _await(plane, namespace)

    def remove() -> None:
        plane.ask("DELETE", f"{path}ybindings/{name}")
        plane.ask("DELETE", f"{path}ies/{name}")

    return remove


def _await(plane: ControlPlane, namespace: str) -> None:
    """Waits until the API server heeds its policies: a last one, in the same watch, says so."""
    marker = f"marker-{time.monotonic_ns()}"
    for form, version in (("validating", "v1"), ("mutating", "v1beta1")):
        name = f"{namespace}-{marker}-{form}"
        path = f"/apis/{_GROUP}/{version}/{form}admissionpolic"
        rules = _rules(["configmaps"], ["CREATE"])
        spec: dict[str, Any] = {"matchConstraints": rules, "failurePolicy": "Fail"}
        named = f"object.metadata.name == '{name}'"
        if form == "validating":
            spec["validations"] = [{"expression": f"!({named})", "message": marker}]
            more: dict[str, Any] = {"validationActions": ["Deny"]}
        else:
            spec["matchConditions"] = [{"name": "one", "expression": named}]
            spec["reinvocationPolicy"] = "Never"
            patch = '[JSONPatch{op: "add", path: "/metadata/labels", value: {"marked": "1"}}]'
            spec["mutations"] = [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}]
            more = {}
        try:
            plane.ask("POST", f"{path}ies", {"metadata": {"name": name}, "spec": spec})
        except urllib.error.HTTPError as error:
            if error.code == 404:
                continue  # this server has no such policies
            raise
        binding = {"policyName": name, **more}
        plane.ask("POST", f"{path}ybindings", {"metadata": {"name": name}, "spec": binding})
        end = time.monotonic() + 60
        while not _heeded(plane, namespace, name):
            assert time.monotonic() < end, "the API server does not heed a policy"
            time.sleep(0.1)


def _heeded(plane: ControlPlane, namespace: str, name: str) -> bool:
    path = f"/api/v1/namespaces/{namespace}/configmaps?dryRun=All"
    try:
        created = plane.ask("POST", path, {"metadata": {"name": name}})
    except urllib.error.HTTPError:
        return True
    return bool(created["metadata"].get("labels"))
