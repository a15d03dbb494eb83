"""Send the verbs of the Kubernetes API on JSON values: each one request, or the pages of a list."""

import functools
import hashlib
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import urllib3
from msgspec import Struct

from etcompile.k8s.objects import LiveObject
from etcompile.kubeapi.errors import ClusterError
from etcompile.kubeapi.kubeconfig import ApiClient, access, pem
from etcompile.kubeapi.resources import Resource, Resources
from etcompile.kubeapi.session import JSON, TEXT, Repeatable, Retries, Session
from etcompile.kubeapi.transport import LargeAnswerError
from etcompile.kubeapi.watch_stream import Watch
from etcompile.model.protocol import MANAGER

_LOG_CHUNK = 256 * 1024
_REVIEWS = ("/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/")
"""What is created there is a question that the API server answers and does not store."""

_METADATA = "application/json;as={};g=meta.k8s.io;v=v1"
_APPLY = "application/apply-patch+yaml"  # JSON is YAML
_MERGE = "application/merge-patch+json"


class Page(Struct, frozen=True):
    """A list, or a part of one; the version is that of the list as a whole."""

    items: list[LiveObject]
    resource_version: str


def connect(
    context: str | ApiClient | None = None,
    namespace: str | None = None,
    kubeconfig: str | Path | None = None,
    *,
    connections: int = 32,
    timeout: float = 60.0,
    retries: Retries | None = None,
    notice: Callable[[str], None] | None = None,
) -> "Cluster":
    """Return a cluster, found as kubectl finds it, without a request yet.

    Args:
        context: The name of a context, or a `kubernetes.client.ApiClient`, whose connections,
            headers and tokens are used and which stays open.
        namespace: That of objects and requests which name none, if not the context's.
        connections: How many requests may be under way without opening connections anew.
        timeout: Seconds to wait for an answer.
        notice: Is called with each request that is sent again, and why; from any thread.

    Raises:
        ClusterError: with reason `Kubeconfig` or `Credentials`.
    """
    session = Session(
        access(context, namespace, kubeconfig),
        connections=connections,
        timeout=timeout,
        retries=retries or Retries(),
        notice=notice,
    )
    return Cluster(session)


class Cluster:
    """A Kubernetes API server, and the rights of one user; safe to share between threads.

    Every method raises ClusterError; requests that may be repeated were repeated before that.

    Attributes:
        server: The API server's URL.
        context: The kubeconfig's context; empty inside a Pod, and with a client.
        namespace: That of objects and requests which name none.
        resource: What the cluster calls a kind: `Resources.resource`.
        find: The same, or None if the cluster does not serve the kind: `Resources.find`.
        served: The same in the version that it prefers: `Resources.served`.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.server = session.access.cluster.server
        self.context = session.access.context
        self.namespace = session.access.namespace
        resources = Resources(lambda path: session.value("GET", path))
        self.resource, self.find = resources.resource, resources.find
        self.served = resources.served
        self._watches: weakref.WeakSet[Watch] = weakref.WeakSet()
        self._dropped: dict[tuple[str, str], None] = {}

    @property
    def address(self) -> str:
        """The API server's URL, and a digest of the CA of its certificate if that is known."""
        of = self._session.access.cluster
        authority = pem(of.certificate_authority, of.certificate_authority_data).encode()
        return f"{of.server} {hashlib.sha256(authority).hexdigest()[:16]}"

    def now(self) -> float:
        return self._session.clock.now()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._session.close()
        for watch in [*self._watches]:
            watch.close()

    def version(self) -> str:
        return str(self._session.value("GET", "/version")["gitVersion"])

    def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        metadata_only: bool = False,
    ) -> LiveObject | None:
        path = resource.path(namespace or self.namespace, name)
        accept = _METADATA.format("PartialObjectMetadata") if metadata_only else JSON
        try:
            live: LiveObject = self._session.value("GET", path, accept=accept)
        except ClusterError as error:
            if error.not_found:
                return None
            raise
        return {**live, "apiVersion": resource.api_version, "kind": resource.kind}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the API server has warned of so far (`Warning` headers), each text once."""
        return tuple(self._session.warnings)

    @property
    def dropped(self) -> tuple[tuple[str, str], ...]:
        """Kinds and fields that the API server has dropped of what was written or tried."""
        return tuple(self._dropped)

    def pages(
        self,
        resource: Resource,
        namespace: str | None = "",
        *,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        limit: int = 500,
        one_moment: bool = True,
        largest: int | None = None,
    ) -> Iterator[Page]:
        """Yield the objects of a kind, page by page, so that a caller may need little memory.

        Args:
            namespace: The cluster's own if empty, all of them if None.
            one_moment: Whether all pages must be of the same moment. If not, a list that etcd
                forgot between two pages (after five minutes) is read again, and what was on an
                earlier page is left out.
            largest: Bytes that a page has at most, unless it is a single object: larger ones are
                requested again in smaller parts.
        """
        query = {"limit": str(limit)}
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        path = resource.path(self.namespace if namespace == "" else namespace)
        accept = _METADATA.format("PartialObjectMetadataList") if metadata_only else JSON
        of_kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        seen: set[str] = set()
        while True:
            size = int(query["limit"])
            try:
                most = largest if size > 1 else None
                answer = self._session.value("GET", path, query, accept=accept, largest=most)
            except LargeAnswerError:
                query["limit"] = str(size // 4 or 1)
                continue
            except ClusterError as error:
                if one_moment or not error.expired or "continue" not in query:
                    raise
                del query["continue"]
                query["limit"] = "0"
                continue
            query["limit"] = str(min(limit, 2 * size))
            items: list[LiveObject] = answer.get("items") or []
            if not one_moment:
                items = [item for item in items if item["metadata"]["uid"] not in seen]
                seen.update(item["metadata"]["uid"] for item in items)
            # An item of a list does not say what it is, and metadata only says that it is metadata.
            items = [{**of_kind, **item, **of_kind} for item in items]
            metadata = answer.get("metadata") or {}
            yield Page(items, metadata.get("resourceVersion") or "")
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    def list(
        self,
        resource: Resource,
        namespace: str | None = "",
        *,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        limit: int = 500,
    ) -> Page:
        """Return all objects of a kind, of one moment; the arguments are those of `pages`."""
        read = functools.partial(
            self.pages,
            resource,
            namespace,
            labels=labels,
            fields=fields,
            metadata_only=metadata_only,
        )
        try:
            pages = [*read(limit=limit)]
        except ClusterError as error:
            if not error.expired:
                raise
            pages = [*read(limit=0)]  # forgotten on the way: now in one piece
        items = [item for page in pages for item in page.items]
        return Page(items, pages[-1].resource_version)

    def server_side_apply(
        self,
        object: Mapping[str, Any],  # noqa: A002
        *,
        field_manager: str = MANAGER,
        force: bool = False,
        dry_run: bool = False,
        metadata_only: bool = False,
    ) -> LiveObject:
        """Apply a manifest: set the fields that it names.

        Args:
            object: The whole of what this manager wants; what it applied before and leaves out
                now is removed.
            force: Whether to take fields from other managers.
            metadata_only: Return what was sent, with the metadata of what is stored: the answer is
                smaller, and fields that the API server dropped are not noticed.
        """
        query = {
            "fieldManager": field_manager,
            # "Strict" makes the API server parse an apply twice, to find keys that occur twice
            # (patch.go). It refuses fields that the schema does not know in any case.
            "fieldValidation": "Ignore",
            "force": "true" if force else "false",
        }
        path = self._path(object, object["metadata"]["name"])
        accept = _METADATA.format("PartialObjectMetadata") if metadata_only else JSON
        written = self._write(
            "PATCH", path, object, query, dry_run=dry_run, content=_APPLY, accept=accept
        )
        return {**object, "metadata": written["metadata"]} if metadata_only else written

    def create(
        self,
        object: Mapping[str, Any],  # noqa: A002
        *,
        field_manager: str = MANAGER,
        dry_run: bool = False,
        field_validation: Literal["Strict", "Warn", "Ignore"] = "Strict",
    ) -> LiveObject:
        """Create an object.

        Raises:
            ClusterError: among them `already_exists`; with `uncertain` that object may be the
                one an earlier attempt of this very call created.
        """
        query = {"fieldManager": field_manager, "fieldValidation": field_validation}
        path = self._path(object, "")
        # The name of an object is taken by a first attempt that was carried out.
        once = dry_run or object["metadata"].get("name") or path.startswith(_REVIEWS)
        repeats: Repeatable = "always" if once else "unreached"
        return self._write("POST", path, object, query, dry_run=dry_run, repeats=repeats)

    def patch(
        self,
        resource: Resource,
        name: str,
        change: Mapping[str, Any],
        namespace: str | None = None,
        *,
        subresource: str = "",
        field_manager: str = MANAGER,
    ) -> LiveObject:
        """Merge a change into an object (RFC 7396): null removes a field.

        Args:
            change: With `metadata.resourceVersion` or `metadata.uid` it is a precondition too.
        """
        query = {"fieldManager": field_manager, "fieldValidation": "Strict"}
        path = resource.path(namespace or self.namespace, name, subresource)
        return self._write("PATCH", path, change, query, content=_MERGE)

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        resource_version: str = "",
        grace: int | None = None,
        foreground: bool = False,
        dry_run: bool = False,
    ) -> bool:
        """Request the deletion of an object; it may stay until its grace and finalizers end.

        Without a UID the request is not repeated once it may have been carried out: it could hit
        a successor of the same name.

        Args:
            resource_version: Delete it only if nobody has changed it since.
            grace: Seconds; the object's own if None.
            foreground: It stays until its dependents, such as the Pods of a Job, are gone.

        Returns:
            False if there was no such object.

        Raises:
            ClusterError: among them `conflict`: the preconditions are not met.
        """
        options: dict[str, Any] = {
            "propagationPolicy": "Foreground" if foreground else "Background"
        }
        conditions = {"uid": uid, "resourceVersion": resource_version}
        if preconditions := {key: value for key, value in conditions.items() if value}:
            options["preconditions"] = preconditions
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if dry_run:
            options["dryRun"] = ["All"]  # where there is a body, the query is for the audit log
        try:
            self._session.value(
                "DELETE",
                resource.path(namespace or self.namespace, name),
                {"dryRun": "All"} if dry_run else None,
                {"apiVersion": "v1", "kind": "DeleteOptions", **options},
                repeats="always" if uid or dry_run else "unreached",
            )
        except ClusterError as error:
            if error.not_found:
                return error.uncertain
            raise
        return True

    def delete_labelled(
        self, resource: Resource, name: str, labels: str, namespace: str | None = None
    ) -> None:
        self._session.value(
            "DELETE",
            resource.path(namespace or self.namespace),
            {"labelSelector": labels, "fieldSelector": f"metadata.name={name}"},
            repeats="unreached",
        )

    def watch(
        self,
        resource: Resource,
        resource_version: str,
        namespace: str | None = "",
        *,
        labels: str = "",
        metadata_only: bool = False,
        renewal: float = 300.0,
    ) -> Watch:
        """Watch the objects of a kind from a version on, until `close`.

        Args:
            namespace: The cluster's own if empty, all of them if None.
            renewal: Seconds after which a new request is made; not a limit of the watch.

        Returns:
            An iterator of events. It goes on across connections, and raises a ClusterError that is
            `expired` when the caller must list again.
        """
        watch = Watch(
            self._session,
            resource.path(self.namespace if namespace == "" else namespace),
            {"labelSelector": labels} if labels else {},
            resource_version,
            _METADATA.format("PartialObjectMetadata") if metadata_only else JSON,
            renewal,
        )
        self._watches.add(watch)
        return watch

    def log(
        self,
        name: str,
        container: str,
        namespace: str | None = None,
        *,
        tail: int | None = None,
        follow: bool = False,
        since: str | None = None,
        limit: int | None = None,
    ) -> Iterator[str]:
        """Yield the lines that a container has written, as they come.

        Args:
            tail: Only so many last lines of what is there.
            since: Only lines from this time on (RFC 3339, empty for all), each after its time.
            limit: Only so many bytes.
        """
        path = self.resource("v1", "Pod").path(namespace or self.namespace, name, "log")
        query = {"container": container, "follow": str(follow).lower()}
        if tail is not None:
            query["tailLines"] = str(tail)
        if since is not None:
            query |= {"timestamps": "true", **({"sinceTime": since} if since else {})}
        if limit is not None:
            query["limitBytes"] = str(limit)
        quiet = 24 * 3600.0 if follow else 60.0
        response = self._session.stream(path, query, quiet, TEXT)
        rest = b""
        try:
            for chunk in response.stream(_LOG_CHUNK, decode_content=True):
                *complete, rest = (rest + chunk).split(b"\n")
                yield from (line.decode(errors="replace") for line in complete)
                if len(rest) > _LOG_CHUNK:  # a program that never ends a line
                    yield rest.decode(errors="replace")
                    rest = b""
        except urllib3.exceptions.HTTPError as error:
            problem = f"the log of {name} broke off: {error}"
            raise ClusterError("Unreachable", problem, request=path) from error
        finally:
            response.close()
        if rest:
            yield rest.decode(errors="replace")

    def _path(self, object: Mapping[str, Any], name: str) -> str:  # noqa: A002
        resource = self.resource(object["apiVersion"], object["kind"])
        return resource.path(object["metadata"].get("namespace") or self.namespace, name)

    def _write(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        query: dict[str, str],
        *,
        dry_run: bool = False,
        content: str = JSON,
        accept: str = JSON,
        repeats: Repeatable = "always",
    ) -> LiveObject:
        if dry_run:
            query["dryRun"] = "All"
        written: LiveObject = self._session.value(
            method, path, query, body, content=content, accept=accept, repeats=repeats
        )
        if content != _MERGE and accept == JSON:
            for field in dropped_fields(body.get("spec"), written.get("spec")):
                self._dropped[body["kind"], f"spec{field}"] = None
        return written


def dropped_fields(sent: Any, stored: Any, field: str = "") -> Iterator[str]:
    """Yield the fields of an object that its API server dropped without a word.

    It does so where a feature gate is off, or where its version is older than the field. Entries of
    lists are compared by name, because admission may add others; empty values are no loss.

    Yields:
        Places such as `.containers[main].resizePolicy`.
    """
    if sent == stored:
        return
    if isinstance(sent, dict) and isinstance(stored, dict):
        for key, value in sent.items():
            if key not in stored:
                if value:
                    yield f"{field}.{key}"
            elif isinstance(value, dict | list | tuple):
                yield from dropped_fields(value, stored[key], f"{field}.{key}")
    elif isinstance(sent, list | tuple) and isinstance(stored, list):
        named = {item["name"]: item for item in stored if isinstance(item, dict) and "name" in item}
        for item in sent:
            if isinstance(item, dict) and item.get("name") in named:
                yield from dropped_fields(item, named[item["name"]], f"{field}[{item['name']}]")


def event_time(event: LiveObject) -> str:
    """Return when an Event was last reported, as RFC 3339; old reporters write it elsewhere."""
    return str(
        event.get("lastTimestamp")
        or (event.get("series") or {}).get("lastObservedTime")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )
