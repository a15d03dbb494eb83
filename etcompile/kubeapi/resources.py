"""Discover the path of the API for an `apiVersion` and `kind`.

Only the groups that objects name are requested, each once. A cluster with a hundred CRDs answers a
whole discovery in megabytes; a training job needs two groups.
"""

import re
import threading
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from etcompile.kubeapi.errors import ClusterError


class Resource(Struct, frozen=True):
    """A kind that the cluster serves.

    Args:
        api_version: `v1`, `batch/v1` ...
        plural: Its name in paths: `pods`.
    """

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """Return the path of the collection, of an object in it, or of an object's subresource.

        Args:
            namespace: Ignored for kinds that have none; None means all namespaces.

        Raises:
            ClusterError: a name is none that an object can have, and as a part of a path might
                lead to another one (Kubernetes' apimachinery, IsValidPathSegmentName).
        """
        place = (namespace or "") if self.namespaced else ""
        segments = {"a namespace": place, "a resource": self.plural, f"a {self.kind}": name}
        for what, text in segments.items():
            # All else is escaped when the request is sent.
            if text in (".", "..") or "/" in text or "%" in text or not text.isprintable():
                raise ClusterError("InvalidName", f"{text[:100]!r} is not a valid name of {what}")
        parts = (place and f"namespaces/{place}", self.plural, name, subresource)
        return "/".join((_root(self.api_version), *filter(None, parts)))


class Resources:
    """What a cluster serves, by group version; safe to share between threads.

    Args:
        get: The JSON value of the answer to GET of a path.
    """

    def __init__(self, get: Callable[[str], Any]) -> None:
        self._get = get
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, Resource]] = {}

    def find(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of a kind; None if the cluster does not serve it.

        A kind that is missing is requested again each time: its CRD may have come since.
        """
        with self._lock:
            resource = self._known.get(api_version, {}).get(kind)
            if resource is None:
                listed = (self._answer(api_version) or {}).get("resources") or ()
                self._known[api_version] = {
                    entry["kind"]: Resource(
                        api_version, entry["kind"], entry["name"], bool(entry.get("namespaced"))
                    )
                    for entry in listed
                    if "/" not in entry["name"]  # a subresource
                }
                resource = self._known[api_version].get(kind)
        return resource

    def resource(self, api_version: str, kind: str) -> Resource:
        """Return the resource of a kind.

        Raises:
            ClusterError: the cluster does not serve it (`NotFound`), or could not be reached.
        """
        if (resource := self.find(api_version, kind)) is not None:
            return resource
        raise ClusterError(
            "NotFound",
            f"the cluster does not serve {kind} of {api_version}",
            status=404,
            hint="install what brings this kind, or render for another profile",
        )

    def served(self, group: str, kind: str) -> Resource | None:
        versions = ["v1"]
        if group:
            answer = self._answer(f"{group}/") or {}
            preferred = (answer.get("preferredVersion") or {}).get("groupVersion")
            versions = [version["groupVersion"] for version in answer.get("versions") or ()]
            versions.sort(key=lambda version: version != preferred)
        resources = (self.find(version, kind) for version in versions)
        return next(filter(None, resources), None)

    def _answer(self, version: str) -> Any:
        if not _VERSION.fullmatch(version):
            return None  # what looks like a path must not be requested
        try:
            return self._get(_root(version).rstrip("/"))
        except ClusterError as error:
            if error.not_found:
                return None
            raise


_VERSION = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]*", re.ASCII)


def _root(api_version: str) -> str:
    return ("/api/" if "/" not in api_version else "/apis/") + api_version
