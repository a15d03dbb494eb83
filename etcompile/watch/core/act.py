"""Actions of the rules to requests, in their order.

Only the leader sends them. Each names what it was decided on: a UID, a resource version, or that
nothing is there. So it does nothing if that is no longer so, and sending it twice does what sending
it once does. Nothing is sent again here: after a failure the next decision starts from what is
there then. The answer goes into the store at once.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from etcompile.backend.identity import job_labels
from etcompile.compiler.stored_run import StoredRun, away_from, digest, outside_of_gang
from etcompile.k8s.objects import Object, is_going
from etcompile.k8s.pod_state import TOUCHED, how_it_ended
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.kubeapi.controller.backoff import LONGEST
from etcompile.kubeapi.controller.events import EventRecorder
from etcompile.kubeapi.controller.work_queue import Key as JobKey
from etcompile.model.protocol import (
    COMPLETED,
    JOB_LABEL,
    NOTICE,
    SPEC_HASH,
    WATCHER,
    hosts_name,
    is_config,
    status_name,
)
from etcompile.model.run_record import RUN, RunRecord, record_data
from etcompile.watch.core.actions import (
    REPLACED,
    Action,
    Count,
    CreatePod,
    DeletePod,
    EmitEvent,
    PatchPod,
    PodAction,
    ReadLines,
    ReadLog,
    ReadTail,
    RemoveJob,
    WriteHosts,
    WriteStatus,
)
from etcompile.watch.core.hostfile import succeeded
from etcompile.watch.core.ledger import Memory, Request
from etcompile.watch.core.logs import LogReader
from etcompile.watch.core.observe import SeenJob, SeenMap, Store
from etcompile.watch.core.reports import Metrics, report, say
from etcompile.watch.core.view import ANCHOR

_CONFIG_MAP = ("v1", "ConfigMap")
_LIST_AGAIN = 1.0  # seconds until a host list is written again: who is gone must not stay listed
_JUST_CREATED = 60.0  # seconds in which a Pod is deleted that came while its job was being deleted
_NOT_REMOVED = "the rest of the job cannot be deleted"
_QUIET: Mapping[str, str] = {"argocd.argoproj.io/ignore-resource-updates": "true"}
"""Argo CD shows them as children of the job, and need not look at each change."""
_Compiled = Mapping[tuple[str, int | None], Mapping[str, Any]]


class NotLeaderError(Exception):
    """This watcher may not act, or not any more."""


class OutdatedError(Exception):
    """What was decided on is not what is there."""


class BlockedError(Exception):
    """What keeps the watcher from doing its work for a job, with the reason of the Event."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Case(Struct, frozen=True):
    """A job, and what was known of it when its actions were decided."""

    key: JobKey
    run: StoredRun
    seen: SeenJob
    record: RunRecord | None


class ActionExecutor(Struct, frozen=True):
    """Does what was decided; safe to share between threads."""

    cluster: Cluster
    store: Store
    may_act: Callable[[], bool]
    metrics: Metrics
    events: EventRecorder
    logs: LogReader
    pool: Executor
    memory: Memory

    def act(self, case: Case, actions: Sequence[Action]) -> bool:
        """Carry out actions: the record, then reports, Pods side by side, host lists, a removal.

        Host lists do not wait for what fails, a Pod or the record: a host that is gone must not
        stay listed. What could not be recorded is not done, nor reported.

        Returns:
            Whether anything was carried out.

        Raises:
            ClusterError, OutdatedError, BlockedError: a request failed; the rest was left.
            NotLeaderError: this watcher may not act.
        """
        memory = self.memory.of(case.key)
        memory.retain({_request(case, own) for own in actions} | {_of_role(own) for own in actions})
        due = [
            own
            for own in actions
            if not (memory.holds(_request(case, own)) or memory.holds(_of_role(own)))
        ]
        problems: list[Exception] = []

        def attempt(request: Callable[[], Any]) -> bool:
            try:
                request()
            except (ClusterError, BlockedError, OutdatedError) as error:
                problems.append(error)
                return False
            return True

        records = [own for own in due if isinstance(own, WriteStatus)]
        recorded = all(attempt(partial(self._write_map, case, own)) for own in records)
        if problems and isinstance(problems[0], OutdatedError):
            raise problems[0]
        if recorded and not records and any(isinstance(own, WriteStatus) for own in actions):
            recorded = False  # it was refused, and is not sent before its time
        status = getattr(problems[0], "status", 400) if problems else 400
        if recorded:
            self._report(case, due, recorded=bool(records))
        elif (status or 500) >= 500:
            # It may have been carried out, though nobody said so.
            self._report(case, [own for own in due if isinstance(own, EmitEvent)])
        pods: list[PodAction] = []
        lists: list[PodAction] = []
        for own in due:
            if isinstance(own, PodAction):
                touches = isinstance(own, PatchPod) and own.what == "touch"
                (lists if touches else pods).append(own)
        if recorded:
            attempt(partial(self._on_pods, case, pods))
        hosts = [own for own in due if isinstance(own, WriteHosts)]
        for own in hosts:
            attempt(partial(self._write_map, case, own))
        attempt(partial(self._on_pods, case, lists))
        removals = [own for own in due if isinstance(own, RemoveJob)]
        if removals and not problems:
            attempt(partial(self._remove_job, case))
        if problems:
            raise problems[0]
        return bool(records or (pods and recorded) or hosts or lists or removals)

    def _try(self, case: Case, action: Action, request: Callable[[], bool]) -> None:
        """Send a request, and hold the next one like it if it was refused or changed nothing."""
        memory, changed = self.memory.of(case.key), False
        try:
            changed = request()
        finally:
            if changed:
                memory.succeeded(_request(case, action))
            else:
                longest = _LIST_AGAIN if isinstance(action, WriteHosts) else LONGEST
                memory.failed(_request(case, action), longest)

    def _send(self, verb: str, kind: str, request: Callable[[], Any]) -> Any:
        """Send a request and count its answer."""
        if not self.may_act():
            raise NotLeaderError
        status = "none"
        try:
            answer = request()
            status = "ok"
        except ClusterError as error:
            status = str(error.status or "none")
            raise
        finally:
            self.metrics.writes.labels(verb, kind, status).inc()
        return answer

    def _report(self, case: Case, actions: Sequence[Action], *, recorded: bool = False) -> None:
        config, version = case.seen.config_metadata, str(_version(case.seen.status))
        for action in actions:
            if isinstance(action, EmitEvent):
                line = None if action.reason == REPLACED else ""  # logged once it is
                report(self.events, case.key, action, config, version, line)
            elif isinstance(action, Count) and recorded:
                counter = self.metrics.counters[action.name]
                (counter.labels(*action.labels) if action.labels else counter).inc(action.by)
            elif isinstance(action, ReadLog | ReadTail | ReadLines):
                self.logs.read(case.key, action)

    def create_secrets(self, case: Case) -> None:
        """Create the job's key pair, once; where a Pod has started there is one."""
        memory, job = self.memory.of(case.key), case.run.job
        pair = case.run.uid, job.credentials.secret if job.credentials else ""
        if job.credentials is None or job.run.suspended or memory.secrets == pair:
            return
        pending = all(pod.view.phase == "Pending" for pod in case.seen.pods.values())
        for value in case.run.secrets() if pending else ():
            from etcompile.model.keypair import with_key_pair  # noqa: PLC0415 - cryptography

            secret = owned(value, case.seen.config)
            try:
                # A key pair costs something, and nearly always there is one already. Without any
                # key a Secret of the type kubernetes.io/ssh-auth would be refused.
                example = {**secret, "stringData": {"ssh-privatekey": "none"}}
                self._create(example, dry_run=True)
                self._create(with_key_pair(secret))
            except ClusterError as error:
                if not error.already_exists:
                    raise
        memory.secrets = pair

    def _create(self, value: Mapping[str, Any], *, dry_run: bool = False) -> Any:
        # What was accepted from Git once must be accepted again, and nobody reads its warnings.
        create = partial(
            self.cluster.create,
            value,
            field_manager=WATCHER,
            field_validation="Ignore",
            dry_run=dry_run,
        )
        return self._send("create", value["kind"], create)

    def _patch(self, kind: str, name: str, change: Any, namespace: str) -> Any:
        resource = self.cluster.resource("v1", kind)
        patch = partial(
            self.cluster.patch, resource, name, change, namespace, field_manager=WATCHER
        )
        return self._send("patch", kind, patch)

    # ---- ConfigMaps ----------------------------------------------------------------------------

    def _write_map(self, case: Case, action: WriteStatus | WriteHosts) -> None:
        self._try(case, action, partial(self._written, case, action))

    def _written(self, case: Case, action: WriteStatus | WriteHosts) -> bool:
        """Write a ConfigMap that only watchers write, unless another one has meanwhile."""
        known = case.seen.status if isinstance(action, WriteStatus) else case.seen.hosts
        body = written(action, case.run, case.seen.config)
        name, (namespace, job) = body["metadata"]["name"], case.key
        try:
            if known is None:
                live = self._create(body)
            else:
                # A merge patch costs the API server half of what a server-side apply does.
                live = self._patch("ConfigMap", name, change(body, known), namespace)
        except ClusterError as error:
            if not (error.conflict or error.already_exists or error.not_found):
                raise
            if known is None and error.already_exists:
                # To get one would be a right more, and nothing else needs it.
                maps, own = self.cluster.resource(*_CONFIG_MAP), f"metadata.name={name}"
                for value in self.cluster.list(maps, namespace, fields=own).items:
                    if (value["metadata"].get("labels") or {}).get(JOB_LABEL) != job:
                        message = f"the ConfigMap {name} does not have the label {JOB_LABEL}={job}"
                        hint = "add it, or delete the ConfigMap"
                        raise BlockedError("NameTaken", f"{message}: {hint}") from error
            # What is there now is on its way here: the stream shows every change.
            raise OutdatedError(name) from error
        self.store.saw_map(live, answer=True)
        return True

    # ---- Pods ----------------------------------------------------------------------------------

    def _on_pods(self, case: Case, actions: Sequence[PodAction]) -> None:
        """Carry out actions on Pods, side by side."""
        if not actions:
            return
        compiled, memory = _compiled(case, actions), self.memory.of(case.key)

        def on_pod(action: PodAction) -> None:
            """Do it, unless another Pod of the role has just been refused."""
            of_role = _of_role(action)
            if memory.holds(of_role):
                return
            try:
                self._try(case, action, partial(self._on_pod, case, action, compiled))
            except ClusterError as error:
                if of_role[0] and (error.over_quota or error.terminating):
                    # Those of a role ask for the same; another role's may need less.
                    memory.failed(of_role)
                raise

        running = [self.pool.submit(on_pod, action) for action in actions[1:]]
        problems: list[BaseException | None] = []
        try:
            on_pod(actions[0])
        except Exception as error:
            problems.append(error)
        problems += [future.exception() for future in running]
        for problem in filter(None, problems):
            raise problem

    def _on_pod(self, case: Case, action: PodAction, compiled: _Compiled) -> bool:
        body: dict[str, Any]
        match action:
            case CreatePod(name, uid=uid):
                deleted = bool(uid) and self._delete_pod(case.key, name, uid)
                pod = case.seen.pods.get(name) if uid else None
                if pod is not None and not pod.view.ended:
                    return deleted  # it goes when its processes have: the next decision creates it
                return self._create_pod(case, action, compiled)
            case DeletePod(name, uid, _, force):
                return self._delete_pod(case.key, name, uid, grace=0 if force else None)
            case PatchPod(what, _, uid, value):
                changes: dict[str, dict[str, Any]] = {
                    "touch": {"metadata": {"annotations": {TOUCHED: value}}},
                    "notify": {"metadata": {"annotations": {NOTICE: value}}},
                    "end": {"spec": {"activeDeadlineSeconds": 1}},
                    "release": {"metadata": {"finalizers": None}},
                }
                body = changes[what]
                body["metadata"] = {**body.get("metadata", {}), "uid": uid}
        try:
            live = self._patch("Pod", action.name, body, case.key[0])
        except ClusterError as error:
            if error.conflict:
                raise OutdatedError(action.name) from error
            if not error.not_found:
                raise
            return False  # that Pod is gone
        self.store.saw_pod(live, answer=True)
        return True

    def _delete_pod(self, key: JobKey, name: str, uid: str, *, grace: int | None = None) -> bool:
        """Delete a Pod; return whether it was there."""
        pods = self.cluster.resource("v1", "Pod")
        delete = partial(self.cluster.delete, pods, name, key[0], uid=uid, grace=grace)
        try:
            there = self._send("delete", "Pod", delete)
        except ClusterError as error:
            if not error.conflict:
                raise
            live = self._look(key[0], name)
            if live is not None and live["metadata"]["uid"] == uid:
                raise OutdatedError(name) from error
            return False  # another Pod has the name, or none: the one that was to go is gone
        self.store.leaves(key, name, uid)
        return bool(there)

    def _look(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        live = self.cluster.get(self.cluster.resource("v1", "Pod"), name, namespace)
        if live is not None:
            self.store.saw_pod(live, answer=True)
        return live

    def _create_pod(self, case: Case, action: CreatePod, compiled: _Compiled) -> bool:
        value = compiled.get((action.role, action.index))
        if value is None:
            return False  # the job no longer has it
        value = self._as_wanted(case, action, value)
        try:
            live = self._create(value)
        except ClusterError as error:
            if not error.already_exists:
                raise
            self._check_name(case, value)
            return False
        self.store.saw_pod(live, answer=True)
        self.metrics.replacements.labels(action.reason).inc()
        before = action.lost or action.name
        # The last Pod of that name, and when it was seen to fail or to go.
        view, lost, took = None, None, ""
        if (pod := case.seen.pods.get(before)) is not None:
            view, lost = pod.view, pod.since
        elif (gone := case.seen.gone.get(before)) is not None:
            view, lost = gone.pod, gone.at
        if lost is not None:
            seconds = max(0.0, self.cluster.now() - lost)
            self.metrics.replacement_seconds.observe(seconds)
            took = f" in {seconds:.1f} s"
        what = "recreated" if before == action.name else f"{action.name} created instead"
        ended = how_it_ended(view, action.reason) if view is not None else "missing"
        say(logging.INFO, case.key, f"{ended}: {what}{took}", pod=before, reason=REPLACED)
        return True

    def _as_wanted(
        self, case: Case, action: CreatePod, value: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return a compiled Pod with its annotations, its nodes and its gang."""
        if action.annotations:
            metadata = value["metadata"]
            annotations = {**(metadata.get("annotations") or {}), **action.annotations}
            value = {**value, "metadata": {**metadata, "annotations": annotations}}
        if action.away_from:
            elsewhere = away_from(value, action.away_from, git_managed=case.run.git_managed)
            if elsewhere is None:
                message = (
                    f"{action.name} may be scheduled to a node that failed before "
                    f"({', '.join(action.away_from)}): its template sets a node affinity, and a "
                    "tool that syncs Git would revert a change of it"
                )
                event, config = EmitEvent("NodeNotAvoided", message, warning=True), case.seen
                report(self.events, case.key, event, config.config_metadata, action.name)
            value = elsewhere or value
        views = [seen.view for seen in case.seen.pods.values()]
        if any(v.phase == "Succeeded" and v.spec_hash == case.run.spec_hash for v in views):
            return outside_of_gang(value)
        return value

    def _check_name(self, case: Case, wanted: Mapping[str, Any]) -> None:
        """Look at the Pod that has the name: the one that goes, or one that somebody made."""
        name = wanted["metadata"]["name"]
        live = self._look(case.key[0], name)
        if live is None:
            raise OutdatedError(name)
        own, label = wanted["metadata"]["annotations"][SPEC_HASH], f"{JOB_LABEL}={case.key[1]}"
        if is_going(live):
            return
        if (live["metadata"].get("annotations") or {}).get(SPEC_HASH) != own:
            raise BlockedError("NameTaken", f"a Pod of another run or owner is named {name}")
        if (live["metadata"].get("labels") or {}).get(JOB_LABEL) != case.key[1]:
            message = f"the Pod {name} no longer has the label {label}: add it again"
            raise BlockedError("NameTaken", f"{message}, or delete the Pod")

    def take_back(self, key: JobKey, seen: SeenJob) -> None:
        """Delete the Pods that were just created for a job that somebody was deleting."""
        since = self.cluster.now() - _JUST_CREATED
        pods = [
            pod.view
            for pod in seen.pods.values()
            if pod.view.created_here and not pod.view.deleting and pod.view.created >= since
        ]
        maps, labels = self.cluster.resource(*_CONFIG_MAP), f"{JOB_LABEL}={key[1]}"
        # Is there a job, as the API server knows it now?
        live = self.cluster.list(maps, key[0], labels=labels, metadata_only=True) if pods else None
        if live is not None and not any(is_config(value["metadata"]) for value in live.items):
            for pod in pods:
                self._delete_pod(key, pod.name, pod.uid)
                say(logging.INFO, key, "deleted: its job was deleted meanwhile", pod=pod.name)

    # ---- the whole job -------------------------------------------------------------------------

    def _remove_job(self, case: Case) -> None:
        """Delete all objects of a job, its own ConfigMap last, so that a failure can be resumed."""
        config = case.seen.config
        if config is not None and _is_protected(config.metadata):
            problem = f"{config.name} has an annotation that forbids it"
            raise BlockedError("NotRemoved", f"{_NOT_REMOVED}: {problem}")
        wanted = {**case.run.objects()}
        maps = wanted.pop(_CONFIG_MAP)
        own = {status_name(case.run.job.name), hosts_name(case.run.job.name)}
        last = {config.name} if config else set()
        steps = [*sorted(wanted.items()), (_CONFIG_MAP, (own | maps) - last), (_CONFIG_MAP, maps)]
        try:
            for (version, kind), names in steps:
                self._remove(case.key, version, kind, names)
        except ClusterError as error:
            if error.status == 403:
                raise BlockedError("NotRemoved", f"{_NOT_REMOVED}: {error}") from error
            raise

    def _remove(self, key: JobKey, version: str, kind: str, names: AbstractSet[str]) -> None:
        try:
            resource = self.cluster.resource(version, kind)
        except ClusterError as error:
            if error.not_found:
                return  # the cluster has no such kind any more
            raise
        namespace, labels = key[0], f"{JOB_LABEL}={key[1]}"
        if kind == "Secret":
            # The watcher may read none.
            for name in sorted(names):
                unread = partial(self.cluster.delete_labelled, resource, name, labels, namespace)
                self._send("delete", kind, unread)
            return
        listed = self.cluster.list(resource, namespace, labels=labels, metadata_only=True)
        for metadata in (value["metadata"] for value in listed.items):
            if metadata["name"] in names and not _is_protected(metadata):
                name, uid = metadata["name"], metadata["uid"]
                delete = partial(self.cluster.delete, resource, name, namespace, uid=uid)
                self._send("delete", kind, delete)


def _is_protected(metadata: Mapping[str, Any]) -> bool:
    from etcompile.plan.owners import PREVENT_DESTROY  # noqa: PLC0415 - seldom needed

    return (metadata.get("annotations") or {}).get(PREVENT_DESTROY) == "true"


def _request(case: Case, action: Action) -> Request:
    """What an action asks for, the same when it is decided again; empty for what is never held."""
    match action:
        case WriteStatus():
            return "status", str(_version(case.seen.status))
        case WriteHosts():
            return "hosts", str(_version(case.seen.hosts))
        case CreatePod():
            return "create", action.name
        case DeletePod():
            return "delete", action.name
        case PatchPod():
            return action.what, action.name
    return "", ""


def _of_role(action: Action) -> Request:
    """Return what the creation of any Pod of a role asks for; empty for other actions."""
    if isinstance(action, CreatePod) and not action.uid:
        return "create", f"Pods of {action.role}"
    return "", ""


def _version(config_map: SeenMap | None) -> int:
    return config_map.version if config_map is not None else 0


def _compiled(case: Case, actions: Sequence[PodAction]) -> _Compiled:
    wanted: dict[str, list[int | None]] = {}
    compiled: dict[tuple[str, int | None], Mapping[str, Any]] = {}
    for action in actions:
        if isinstance(action, CreatePod) and action.undeclared is not None:
            pod = case.run.undeclared_pod(action.role, action.undeclared, action.name)
            # No tool knows it: it goes when the job goes.
            compiled[action.role, action.index] = owned(pod, case.seen.config)
        elif isinstance(action, CreatePod):
            wanted.setdefault(action.role, []).append(action.index)
    for role, indexes in wanted.items():
        pods = case.run.pods(role, indexes, case.seen.tracking)
        compiled.update({(role, index): pod for index, pod in pods})
    return compiled


# The watcher's own ConfigMaps ------------------------------------------------------------------
#
# `J-hosts` goes with the job's ConfigMap; `J-status` outlives it, or a job that is synced again
# would train again (reference/gitops.md 9).


def written(action: WriteStatus | WriteHosts, run: StoredRun, config: SeenMap | None) -> Object:
    """Return the ConfigMap that an action wants."""
    job, notes = run.job, _QUIET
    if isinstance(action, WriteStatus):
        name, data = status_name(job.name), record_data(action.record)
        if (done := succeeded(job, action.record)) is not None:
            # What gates read that wait for roles to succeed: the run, and each of these roles.
            data[COMPLETED] = "".join(f"{line}\n" for line in (action.record.run, *done))
        data |= action.notes
        if run.copy_digest is not None:
            data[RUN] = run.text
    else:
        name, data = hosts_name(job.name), {**action.hosts.data}
        notes = {**_QUIET, ANCHOR: msgspec.json.encode(action.hosts.anchors).decode()}
    metadata = {"name": name, "namespace": run.namespace, "labels": job_labels(job)}
    value = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, "annotations": notes},
        "data": data,
    }
    return owned(value, config) if isinstance(action, WriteHosts) else value


def change(body: Object, known: SeenMap) -> dict[str, Any]:
    """Return the merge patch of a known ConfigMap to a body, if it has the known version still."""
    metadata = body["metadata"]
    data = {
        key: value
        for key, value in body["data"].items()
        if known.data.get(key) != (digest(value) if key == RUN else value)
    }
    marks = {key: metadata[key] for key in ("labels", "ownerReferences") if key in metadata}
    if known.metadata.get("ownerReferences"):
        marks.setdefault("ownerReferences", None)
    marks["resourceVersion"] = known.metadata["resourceVersion"]
    return {
        "metadata": {**marks, "annotations": metadata["annotations"]},
        "data": {**data, **dict.fromkeys(known.data.keys() - body["data"].keys())},
    }


def owned(value: Object, config: SeenMap | None) -> dict[str, Any]:
    """Return an object that goes when the job's ConfigMap goes."""
    if config is None:
        return dict(value)
    uid = config.metadata["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": config.name, "uid": uid}
    return {**value, "metadata": {**value["metadata"], "ownerReferences": [reference]}}
