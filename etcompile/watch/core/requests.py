"""Requests of the watcher that change objects: sent by the leader only, counted, and seen at once.

Each names what it was decided on: a UID, a resource version, or that nothing is there. So it does
nothing if that is no longer so, and sending it twice does what sending it once does.
"""

import logging
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

from msgspec import Struct

from etcompile.kubeapi import Cluster, ClusterError
from etcompile.kubeapi.controller.work_queue import Key as JobKey
from etcompile.model.protocol import JOB_LABEL, WATCHER, hosts_name, is_config, status_name
from etcompile.watch.core.metrics import Metrics
from etcompile.watch.core.observe import Case, SeenJob, Store
from etcompile.watch.core.reports import say

_JUST_CREATED = 60.0
"""Seconds in which a Pod is taken back that came while its job was being deleted."""
_CONFIG_MAP = ("v1", "ConfigMap")
_NOT_REMOVED = "the rest of the job cannot be deleted"


class NotLeaderError(Exception):
    """This watcher may not act, or not any more."""


class OutdatedError(Exception):
    """What was decided on is not what is there."""


class BlockedError(Exception):
    """What keeps the watcher from doing its work for a job, with the reason of the Event."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ObjectControl(Struct, frozen=True):
    """Creates, changes and deletes objects; safe to share between threads."""

    cluster: Cluster
    store: Store
    may_act: Callable[[], bool]
    metrics: Metrics

    @property
    def pods(self) -> Any:
        """The resource of Pods."""
        return self.cluster.resource("v1", "Pod")

    @property
    def maps(self) -> Any:
        """The resource of ConfigMaps."""
        return self.cluster.resource("v1", "ConfigMap")

    def create(self, value: Mapping[str, Any], *, dry_run: bool = False) -> Any:
        """Create an object; return it as it is now."""
        # What was accepted from Git once must be accepted again, and nobody reads its warnings.
        create = partial(
            self.cluster.create,
            value,
            field_manager=WATCHER,
            field_validation="Ignore",
            dry_run=dry_run,
        )
        return self.send("create", value["kind"], create)

    def patch(
        self, resource: Any, name: str, change: Any, namespace: str, kind: str = "ConfigMap"
    ) -> Any:
        """Change an object; return it as it is now."""
        patch = partial(
            self.cluster.patch, resource, name, change, namespace, field_manager=WATCHER
        )
        return self.send("patch", kind, patch)

    def delete_pod(self, key: JobKey, name: str, uid: str, *, grace: int | None = None) -> bool:
        """Delete a Pod; return whether it was there."""
        delete = partial(self.cluster.delete, self.pods, name, key[0], uid=uid, grace=grace)
        try:
            there = self.send("delete", "Pod", delete)
        except ClusterError as error:
            if not error.conflict:
                raise
            live = self.look(key[0], name)
            if live is not None and live["metadata"]["uid"] == uid:
                raise OutdatedError(name) from error
            return False  # another Pod has the name, or none: the one that was to go is gone
        self.store.leaves(key, name, uid)
        return bool(there)

    def look(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return the Pod of a name, if there is one."""
        live = self.cluster.get(self.pods, name, namespace)
        if live is not None:
            self.store.saw_pod(live, answer=True)
        return live

    def send(self, verb: str, kind: str, request: Callable[[], Any]) -> Any:
        """Send a request and count its answer.

        Raises:
            NotLeaderError: this watcher may not act.
        """
        if not self.may_act():
            raise NotLeaderError
        counted = self.metrics.writes.labels
        try:
            answer = request()
        except ClusterError as error:
            counted(verb, kind, str(error.status or "none")).inc()
            raise
        counted(verb, kind, "ok").inc()
        return answer


def take_back(control: ObjectControl, key: JobKey, seen: SeenJob) -> None:
    """Delete the Pods that a watcher has just created of a job that is not declared any more.

    Somebody has deleted the job's Pods, and then the job: nobody wants what came in between.
    """
    since = control.cluster.now() - _JUST_CREATED
    pods = [
        pod.view
        for pod in seen.pods.values()
        if pod.view.created_here and not pod.view.deleting and pod.view.created >= since
    ]
    if not pods:
        return
    # Is there a job, as the API server knows it now?
    labels = f"{JOB_LABEL}={key[1]}"
    maps = control.cluster.list(control.maps, key[0], labels=labels, metadata_only=True).items
    if any(is_config(value["metadata"]) for value in maps):
        return
    for pod in pods:
        control.delete_pod(key, pod.name, pod.uid)
        say(logging.INFO, key, "deleted: its job was deleted meanwhile", pod=pod.name)


def remove_job(control: ObjectControl, case: Case) -> None:
    """Delete all objects of a job, its own ConfigMap last, so that it can go on after a failure.

    Raises:
        BlockedError: the API server or an annotation forbids it.
    """
    config = case.seen.config
    if config is not None and _is_protected(config.metadata):
        problem = f"{config.name} has an annotation that forbids it"
        raise BlockedError("NotRemoved", f"{_NOT_REMOVED}: {problem}")
    wanted = {**case.run.objects()}
    maps = wanted.pop(_CONFIG_MAP)
    own = {status_name(case.run.job.name), hosts_name(case.run.job.name)}
    try:
        for (version, kind), names in sorted(wanted.items()):
            _remove(control, case.key, version, kind, names)
        _remove(control, case.key, *_CONFIG_MAP, own | maps - {config.name if config else ""})
        _remove(control, case.key, *_CONFIG_MAP, maps)
    except ClusterError as error:
        if error.status == 403:
            raise BlockedError("NotRemoved", f"{_NOT_REMOVED}: {error}") from error
        raise


def _remove(
    control: ObjectControl, key: JobKey, version: str, kind: str, names: AbstractSet[str]
) -> None:
    try:
        resource = control.cluster.resource(version, kind)
    except ClusterError as error:
        if error.not_found:
            return  # the cluster has no such kind any more
        raise
    namespace, labels = key[0], f"{JOB_LABEL}={key[1]}"
    if kind == "Secret":
        # The watcher may read none.
        for name in sorted(names):
            unread = partial(control.cluster.delete_labelled, resource, name, labels, namespace)
            control.send("delete", kind, unread)
        return
    listed = control.cluster.list(resource, namespace, labels=labels, metadata_only=True)
    for metadata in (value["metadata"] for value in listed.items):
        if metadata["name"] in names and not _is_protected(metadata):
            name, uid = metadata["name"], metadata["uid"]
            delete = partial(control.cluster.delete, resource, name, namespace, uid=uid)
            control.send("delete", kind, delete)


def _is_protected(metadata: Mapping[str, Any]) -> bool:
    from etcompile.plan.owners import PREVENT_DESTROY  # noqa: PLC0415 - seldom needed

    return (metadata.get("annotations") or {}).get(PREVENT_DESTROY) == "true"
