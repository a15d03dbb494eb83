"""From `apiVersion` and `kind` to the path of the API: what the cluster serves, asked once.

Only the groups that objects name are asked for. A cluster with a hundred CRDs answers a whole
discovery in megabytes; a training job needs two groups.
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
        kind: `Pod` ...
        plural: Its name in paths: `pods`.
        namespaced: Whether its objects live in namespaces.
        verbs: What the API server can do with it: `get`, `list`, `patch`, `watch` ...
        subresources: `status`, `scale` ...
    """

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str]
    subresources: frozenset[str] = frozenset()

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """The path of the collection, of an object in it, or of an object's subresource.

        Args:
            namespace: Ignored for kinds that have none; None means all namespaces.
            name: The object's name.
            subresource: `status` ...

        Raises:
            ClusterError: a name is none that an object can have, and as a part of a path might
                lead to another one (Kubernetes' apimachinery, IsValidPathSegmentName).
        """
        parts = [_root(self.api_version)]
        if self.namespaced and namespace:
            parts += ["namespaces", _segment("a namespace", namespace)]
        parts.append(_segment("a resource", self.plural))
        if name:
            parts.append(_segment(f"a {self.kind}", name))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


class Discovery:
    """What a cluster serves, by group version; safe to share between threads.

    Args:
        ask: The JSON value of the answer to GET of a path.
    """

    def __init__(self, ask: Callable[[str], Any]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, Resource]] = {}

    def resource(self, api_version: str, kind: str) -> Resource:
        """The resource of a kind.

        A kind that is missing is asked for anew each time: its CRD may have come since.

        Raises:
            ClusterError: the cluster does not serve it (`NotFound`), or could not be asked.
        """
        with self._lock:
            found = self._known.get(api_version, {}).get(kind)
            if found is None:
                self._known[api_version] = self._of_version(api_version)
                found = self._known[api_version].get(kind)
        if found is None:
            raise _unserved(api_version, kind)
        return found

    def served(self, group: str, kind: str) -> Resource | None:
        """The resource of a kind in the version that the API server prefers.

        Args:
            group: The API group; empty for core.
            kind: The kind, in the singular: `Pod`.

        Returns:
            The resource; None if no version of the group has the kind.

        Raises:
            ClusterError: the cluster could not be asked.
        """
        for version in self._versions(group):
            try:
                return self.resource(version, kind)
            except ClusterError as error:
                if not error.not_found:
                    raise
        return None

    def _versions(self, group: str) -> list[str]:
        """The served versions of a group, the preferred one first."""
        if not group:
            return ["v1"]
        if not _VERSION.fullmatch(f"{group}/"):
            return []
        try:
            answer = self._ask(_root(f"{group}/").rstrip("/"))
        except ClusterError as error:
            if error.not_found:
                return []
            raise
        served = [version["groupVersion"] for version in answer.get("versions") or ()]
        preferred = (answer.get("preferredVersion") or {}).get("groupVersion")
        return sorted(served, key=lambda version: version != preferred)

    def _of_version(self, api_version: str) -> dict[str, Resource]:
        """The kinds of a group version; none if it is not served."""
        if not _VERSION.fullmatch(api_version):
            return {}  # and what looks like a path is not asked for
        try:
            answer = self._ask(_root(api_version))
        except ClusterError as error:
            if error.not_found:
                return {}
            raise
        listed = answer.get("resources") or ()
        below: dict[str, set[str]] = {}
        for entry in listed:
            plural, _, subresource = entry["name"].partition("/")
            if subresource:
                below.setdefault(plural, set()).add(subresource)
        return {
            entry["kind"]: Resource(
                api_version,
                entry["kind"],
                entry["name"],
                bool(entry.get("namespaced")),
                frozenset(entry.get("verbs") or ()),
                frozenset(below.get(entry["name"], ())),
            )
            for entry in listed
            if "/" not in entry["name"]
        }


_VERSION = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]*", re.ASCII)


def _root(api_version: str) -> str:
    """The path of an API version; that of its group if it ends in a slash.

    Raises:
        ClusterError: it is none, and would lead elsewhere.
    """
    if not _VERSION.fullmatch(api_version):
        raise ClusterError("InvalidName", f"{api_version[:100]!r} is not a valid apiVersion")
    return ("/api/" if "/" not in api_version else "/apis/") + api_version


def _segment(what: str, name: str) -> str:
    """A part of a path; whatever else it may hold is escaped when the request is sent."""
    if name in (".", "..") or "/" in name or "%" in name or not name.isprintable():
        raise ClusterError("InvalidName", f"{name[:100]!r} is not a valid name of {what}")
    return name


def _unserved(api_version: str, kind: str) -> ClusterError:
    return ClusterError(
        "NotFound",
        f"the cluster does not serve {kind} of {api_version}",
        status=404,
        hint="install what brings this kind, or render for another profile",
    )
