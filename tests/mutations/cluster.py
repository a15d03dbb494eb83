"""What a real API server says of objects, asked with a dry run and strict field validation.

What an object needs of its surroundings (its namespace, a ServiceAccount, a PriorityClass, a
RuntimeClass) is made when it is missed: that it is missing is no fault of the object.
"""

import http.client
import json
import re
import ssl
import urllib.parse
from collections.abc import Mapping
from typing import Any

from controlplane.server import ADMIN_TOKEN, ControlPlane

_ADMINS = {"labels": {"resource.kubernetes.io/admin-access": "true"}}
"""What a namespace allows is no fault of an object either."""
_MISSED = (
    (r'namespaces "(?P<name>[^"]*)" not found', "/api/v1/namespaces", _ADMINS),
    (
        r'error looking up service account (?P<space>[^/]*)/(?P<name>[^:]*): serviceaccount "',
        "/api/v1/namespaces/{space}/serviceaccounts",
        {},
    ),
    (
        r"no PriorityClass with name (?P<name>.*) was found",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"value": 1000},
    ),
    (
        r'pod rejected: RuntimeClass "(?P<name>[^"]*)" not found',
        "/apis/node.k8s.io/v1/runtimeclasses",
        {"handler": "runsc"},
    ),
)


_OF_A_PRIORITY_CLASS = "must not be provided in pod spec; priority admission controller computed"
"""Whether a PriorityClass has the priority that a Pod names is a matter of that object."""


class Cluster:
    """Asks an API server about objects."""

    def __init__(self, plane: ControlPlane) -> None:
        self._address = urllib.parse.urlsplit(plane.server)
        self._trusted = ssl.create_default_context(cafile=str(plane.authority.file))
        self._connection: http.client.HTTPSConnection | None = None
        self._resources: dict[str, tuple[str, bool] | None] = {}
        self._answers: dict[tuple[str, bool], str] = {}
        self._discover()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def serves(self, value: Mapping[str, Any]) -> bool:
        """Whether the API server has a kind at all."""
        return f"{value.get('apiVersion')}/{value.get('kind')}" in self._resources

    def refusal(self, value: Mapping[str, Any], *, lenient: bool = True) -> str:
        """Why an object is refused; nothing if it is taken.

        Args:
            value: An object, of a kind that is served.
            lenient: Whether a Pod may name a priority that its PriorityClass does not have.
        """
        reported = json.dumps(value), lenient
        if reported not in self._answers:
            self._answers[reported] = self._refusal(value, *reported)
        return self._answers[reported]

    def apply_refusal(self, value: Mapping[str, Any]) -> str:
        """Why an object that may be created may not be applied; nothing if it may.

        A server-side apply reads strictly what a create reads leniently: a list for bytes.
        """
        name = value["metadata"].get("name")
        request = self._resources[f"{value['apiVersion']}/{value['kind']}"]
        if request is None or not isinstance(name, str):
            return ""
        path = request[0].format(
            urllib.parse.quote(value["metadata"].get("namespace") or "default")
        )
        path += f"/{urllib.parse.quote(name, safe='')}?dryRun=All&force=true&fieldManager=mutations"
        code, message = self._post(path, json.dumps(value), "PATCH", "application/apply-patch+yaml")
        return "" if code < 300 else message or f"code {code}"

    def _refusal(self, value: Mapping[str, Any], sent: str, lenient: bool) -> str:
        resource = self._resources[f"{value['apiVersion']}/{value['kind']}"]
        assert resource
        path, namespaced = resource
        metadata = value.get("metadata")
        space = (metadata.get("namespace") if isinstance(metadata, dict) else None) or "default"
        if namespaced:
            if not isinstance(space, str):
                return "the namespace is no text"
            path = path.format(urllib.parse.quote(space, safe=""))
        path += "?dryRun=All&fieldValidation=Strict&fieldManager=mutations"
        message = ""
        for _ in range(5):  # as many things as an object may miss
            code, message = self._post(path, sent)
            if code < 300 or code == 409:  # a conflict is with what is there already
                return ""
            if not self._supplied(message):
                break
        spec = value.get("spec")
        if lenient and _OF_A_PRIORITY_CLASS in message and isinstance(spec, dict):
            # Admission comes before validation: what else is wrong shows without these fields.
            of_class = ("priority", "preemptionPolicy")
            rest = {key: inner for key, inner in spec.items() if key not in of_class}
            return self.refusal({**value, "spec": rest}) if rest.keys() < spec.keys() else ""
        return message or f"code {code}"

    def _supplied(self, message: str) -> bool:
        """Whether what was missed could be made."""
        for pattern, path, fields in _MISSED:
            if match := re.search(pattern, message):
                named = match.groupdict()
                labels = {"labels": fields["labels"]} if "labels" in fields else {}
                others = {key: value for key, value in fields.items() if key != "labels"}
                body = {"metadata": {"name": named["name"], **labels}, **others}
                code, _ = self._post(path.format(**named), json.dumps(body))
                return code < 300
        return False

    def _post(
        self, path: str, body: str, method: str = "POST", content: str = "application/json"
    ) -> tuple[int, str]:
        headers = {
            "Authorization": f"Bearer {ADMIN_TOKEN}",
            "Content-Type": content,
            "Connection": "keep-alive",
        }
        for attempt in range(2):
            if self._connection is None:
                self._connection = http.client.HTTPSConnection(
                    self._address.hostname or "", self._address.port, context=self._trusted
                )
            try:
                self._connection.request(method, path, body.encode("utf-8", "replace"), headers)
                answer = self._connection.getresponse()
                text = answer.read().decode()
            except (http.client.HTTPException, OSError):
                self.close()
                self._connection = None
                if attempt:
                    raise
                continue
            try:
                said = json.loads(text)
            except ValueError:
                return answer.status, text
            return answer.status, str(said.get("message", ""))
        raise AssertionError("unreachable")

    def _get(self, path: str) -> Any:
        connection = http.client.HTTPSConnection(
            self._address.hostname or "", self._address.port, context=self._trusted
        )
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def _discover(self) -> None:
        versions = [("v1", "/api/v1")]
        for group in self._get("/apis")["groups"]:
            for version in group["versions"]:
                name = version["groupVersion"]
                versions.append((name, f"/apis/{name}"))
        for name, path in versions:
            for resource in self._get(path)["resources"]:
                if "/" in resource["name"] or "create" not in resource["verbs"]:
                    continue
                space = "/namespaces/{}" if resource["namespaced"] else ""
                place = f"{path}{space}/{resource['name']}", resource["namespaced"]
                self._resources[f"{name}/{resource['kind']}"] = place
