"""Deletes what was made for a job that is over, or that nobody declares any more."""

import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

from etcompile.kubeapi import ClusterError
from etcompile.model.protocol import JOB_LABEL, hosts_name, is_config, status_name
from etcompile.watch.event_recorder import say
from etcompile.watch.object_control import ObjectControl
from etcompile.watch.seen import Case, SeenJob
from etcompile.watch.workqueue import JobKey

_JUST_CREATED = 60.0
"""Seconds in which a Pod is taken back that came while its job was being deleted."""
_CONFIG_MAP = ("v1", "ConfigMap")


class NotRemovedError(Exception):
    """What is left of a job may not be removed: the API server or an annotation forbids it."""


def take_back(control: ObjectControl, key: JobKey, seen: SeenJob) -> None:
    """Deletes the Pods that a watcher has just created of a job that is not declared any more.

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
    """Deletes all objects of a job, its own ConfigMap last, so that it can go on after a failure.

    Raises:
        NotRemovedError: it may not be removed.
    """
    config = case.seen.config
    if config is not None and _is_protected(config.metadata):
        raise NotRemovedError(f"{config.name} has an annotation that forbids it")
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
            raise NotRemovedError(str(error)) from error
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
    """Whether somebody has said that an object must not be deleted (docs/apply.md)."""
    from etcompile.plan.owners import PREVENT_DESTROY  # noqa: PLC0415 - seldom needed

    return (metadata.get("annotations") or {}).get(PREVENT_DESTROY) == "true"
