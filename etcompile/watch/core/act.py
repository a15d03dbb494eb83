"""Carry out the actions of the rules, in their order.

Only the leader sends requests. Each names what it was decided on: a UID, a resource version, or
that nothing is there. So it does nothing if that has changed, and sending it twice is harmless.
Nothing is sent again here: after a failure, the next decision starts from what is there then. The
answer goes into the store at once.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from etcompile.backend.identity import job_labels
from etcompile.compiler.stored_run import StoredRun, away_from, digest, outside_of_gang
from etcompile.k8s.objects import Object, is_going, seconds
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
    ReadLog,
    RemoveJob,
    WriteHosts,
    WriteStatus,
)
from etcompile.watch.core.hostfile import succeeded
from etcompile.watch.core.ledger import JobMemory, Request
from etcompile.watch.core.observe import SeenJob, SeenMap, Store
from etcompile.watch.core.reports import Metrics, report, say
from etcompile.watch.core.view import ANCHOR, LogRead

_CONFIG_MAP = ("v1", "ConfigMap")
_LIST_AGAIN = 1.0  # seconds until a host list is written again: who is gone must not stay listed
_JUST_CREATED = 60.0  # seconds in which a Pod is deleted that came while its job was being deleted
_MOST_LINES = 16  # of a log that is followed
_NOT_REMOVED = "the rest of the job cannot be deleted"
_QUIET: Mapping[str, str] = {"argocd.argoproj.io/ignore-resource-updates": "true"}
"""Argo CD shows these objects as children of the job and need not react to each change."""
_Compiled = Mapping[tuple[str, int | None], Mapping[str, Any]]


class NotLeaderError(Exception):
    """This watcher may not act, or not any more."""


class OutdatedError(Exception):
    """What was decided on is not what is there."""


class BlockedError(Exception):
    """The watcher cannot work on a job; with the reason of the Event."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Case(Struct, frozen=True):
    """A job, and what was known of it when its actions were decided."""

    key: JobKey
    run: StoredRun
    seen: SeenJob
    record: RunRecord | None
    memory: JobMemory


class ActionExecutor(Struct, frozen=True):
    """Carries out actions; safe to share between threads."""

    cluster: Cluster
    store: Store
    may_act: Callable[[], bool]
    metrics: Metrics
    events: EventRecorder
    pool: Executor
    _unreadable: set[str] = field(default_factory=set)  # namespaces whose logs it may not read

    def act(self, case: Case, actions: Sequence[Action]) -> bool:
        """Carry out actions: the record, reports, Pods side by side, host lists, a removal.

        What could not be recorded is neither done nor reported. Host lists wait for nothing that
        fails: a host that is gone must not stay listed.

        Returns:
            Whether anything was carried out.

        Raises:
            ClusterError, OutdatedError, BlockedError: a request failed; the rest was left.
            NotLeaderError: this watcher may not act.
        """
        memory, problems = case.memory, list[Exception]()
        memory.retain({request for action in actions for request in _requests(case, action)})
        due = [action for action in actions if not any(map(memory.holds, _requests(case, action)))]
        records = [action for action in due if isinstance(action, WriteStatus)]
        is_recorded = bool(records) or not any(
            isinstance(action, WriteStatus) for action in actions
        )

        def attempt(method: Callable[..., None], *args: Any) -> None:
            try:
                method(case, *args)
            except (ClusterError, BlockedError, OutdatedError) as error:
                problems.append(error)

        for record in records:
            attempt(self._write_map, record)
        for problem in problems:
            if isinstance(problem, OutdatedError):
                raise problem
            is_recorded = False
            if isinstance(problem, ClusterError) and (problem.status or 500) >= 500:
                # It may have been written, though the API server did not say so.
                self._report(case, [action for action in due if isinstance(action, EmitEvent)])
        if is_recorded:
            self._report(case, due)
        leaders, pods, touches = list[PodAction](), list[PodAction](), list[PodAction]()
        for action in due:
            if isinstance(action, PatchPod) and action.what == "touch":
                touches.append(action)
            elif isinstance(action, PodAction) and is_recorded:
                # Kubernetes starts the minimum of a gang in the order in which its Pods were
                # created (reference/gang-scheduling.md 5), and only workers can be missing.
                leads = isinstance(action, CreatePod) and action.role != "worker"
                (leaders if leads else pods).append(action)
        attempt(self._on_pods, leaders)
        attempt(self._on_pods, pods)
        hosts = [action for action in due if isinstance(action, WriteHosts)]
        for host_lists in hosts:
            attempt(self._write_map, host_lists)
        attempt(self._on_pods, touches)
        removals = [action for action in due if isinstance(action, RemoveJob)]
        if removals and not problems:
            attempt(self._remove_job)
        if problems:
            raise problems[0]
        return bool(records or leaders or pods or hosts or touches or removals)

    def _report(self, case: Case, actions: Sequence[Action]) -> None:
        config, version = case.seen.config_metadata, str(_version(case.seen.status))
        for action in actions:
            match action:
                case EmitEvent(reason, message, pod, uid, once=once):
                    if not once or case.memory.is_new(f"{reason} {uid or pod}", message):
                        line = None if reason == REPLACED else ""  # logged once it is
                        report(self.events, case.key, action, config, version, line)
                case Count(name, by, labels):
                    counter = self.metrics.counters[name]
                    (counter.labels(*labels) if labels else counter).inc(by)
                case ReadLog(name, uid, _, purpose, of):
                    known = self.store.log(case.key, name, uid, purpose)
                    lines = known.lines if action.begin else None
                    read = LogRead(of, self.cluster.now(), lines, known.until)
                    self.store.observe_log(case.key, name, uid, purpose, read, changed=False)
                    self.pool.submit(self._read_log, case.key, action, read)

    def _read_log(self, key: JobKey, action: ReadLog, read: LogRead) -> None:
        known, until = read.lines, action.since
        lines = [*(known or ())]
        try:
            for line in self.cluster.log(
                action.name,
                action.container,
                key[0],
                tail=action.tail,
                since=action.since,
                limit=action.limit,
            ):
                until, _, text = line.partition(" ")
                if not action.begin or text.startswith(action.begin):
                    lines.append(line)
        except ClusterError as error:
            is_forbidden = error.status == 403
            if not (is_forbidden and key[0] in self._unreadable):
                say(logging.WARNING, key, f"its log cannot be read: {error}", pod=action.name)
            if is_forbidden:
                self._unreadable.add(key[0])
            read = structs.replace(read, failed=True)
        else:
            until = until if seconds(until) is not None else action.since
            # Lines of the second from which on it is read may come twice.
            new = tuple(dict.fromkeys(lines))[-_MOST_LINES:] if action.begin else tuple(lines)
            read = structs.replace(read, lines=new, until=until)
        changed = not (read.failed or (action.begin and read.lines == known))
        self.store.observe_log(key, action.name, action.uid, action.purpose, read, changed=changed)

    def _send(self, verb: str, kind: str, request: Callable[[], Any]) -> Any:
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

    def _create(self, value: Mapping[str, Any], *, dry_run: bool = False) -> Any:
        # What was accepted from Git once must be accepted again, and nobody reads its warnings.
        how: Any = {"field_manager": WATCHER, "field_validation": "Ignore", "dry_run": dry_run}
        return self._send("create", value["kind"], partial(self.cluster.create, value, **how))

    def _patch(self, kind: str, name: str, change: Any, namespace: str) -> Any:
        what = self.cluster.resource("v1", kind), name, change, namespace
        patch = partial(self.cluster.patch, *what, field_manager=WATCHER)
        return self._send("patch", kind, patch)

    def _delete(self, kind: str, delete: Callable[..., Any], *args: Any, **more: Any) -> Any:
        return self._send("delete", kind, partial(delete, *args, **more))

    def _attempt(self, case: Case, action: Action, request: Callable[[], bool]) -> None:
        held, changed = _requests(case, action)[0], False
        try:
            changed = request()
        finally:
            if changed:
                case.memory.succeeded(held)
            else:
                longest = _LIST_AGAIN if isinstance(action, WriteHosts) else LONGEST
                case.memory.failed(held, longest)

    # ---- ConfigMaps and Secrets ----------------------------------------------------------------

    def create_secrets(self, case: Case) -> None:
        """Create the job's key pair, once; if a Pod has started there is one."""
        memory, job = case.memory, case.run.job
        pair = case.run.uid, job.credentials.secret if job.credentials else ""
        if job.credentials is None or job.run.suspended or memory.secrets == pair:
            return
        pending = all(pod.view.phase == "Pending" for pod in case.seen.pods.values())
        for value in case.run.secrets() if pending else ():
            from etcompile.model.keypair import with_key_pair  # noqa: PLC0415 - cryptography

            secret = owned(value, case.seen.config)
            try:
                # A key pair is slow to generate, and nearly always there is one already. Without
                # any key a Secret of the type kubernetes.io/ssh-auth would be refused.
                example = {**secret, "stringData": {"ssh-privatekey": "none"}}
                self._create(example, dry_run=True)
                self._create(with_key_pair(secret))
            except ClusterError as error:
                if not error.already_exists:
                    raise
        memory.secrets = pair

    def _write_map(self, case: Case, action: WriteStatus | WriteHosts) -> None:
        self._attempt(case, action, partial(self._written, case, action))

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
                # The watcher may list ConfigMaps, but not get one.
                maps, field = self.cluster.resource(*_CONFIG_MAP), f"metadata.name={name}"
                for value in self.cluster.list(maps, namespace, fields=field).items:
                    if (value["metadata"].get("labels") or {}).get(JOB_LABEL) != job:
                        message = f"the ConfigMap {name} does not have the label {JOB_LABEL}={job}"
                        hint = "add it, or delete the ConfigMap"
                        raise BlockedError("NameTaken", f"{message}: {hint}") from error
            # What is there now is on its way here: the stream shows every change.
            raise OutdatedError(name) from error
        self.store.observe_map(live, answer=True)
        return True

    # ---- Pods ----------------------------------------------------------------------------------

    def _on_pods(self, case: Case, actions: Sequence[PodAction]) -> None:
        if not actions:
            return
        compiled = _compiled(case, actions)

        def on_pod(action: PodAction) -> None:
            """Carry out an action, unless another Pod of the role has just been refused."""
            of_role = _requests(case, action)[1:]
            if any(map(case.memory.holds, of_role)):
                return
            try:
                self._attempt(case, action, partial(self._on_pod, case, action, compiled))
            except ClusterError as error:
                for request in of_role if error.over_quota or error.terminating else ():
                    # Pods of a role request the same; another role's may need less.
                    case.memory.failed(request)
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
        match action:
            case CreatePod(name, uid=uid):
                deleted = bool(uid) and self._delete_pod(case.key, name, uid)
                pod = case.seen.pods.get(name) if uid else None
                if pod is not None and not pod.view.ended:
                    return deleted  # it goes when its processes have: the next decision creates it
                return self._create_pod(case, action, compiled)
            case DeletePod(name, uid, _, force):
                return self._delete_pod(case.key, name, uid, grace=0 if force else None)
            case PatchPod(what, name, uid, value):
                bodies: dict[str, dict[str, Any]] = {
                    "touch": {"metadata": {"annotations": {TOUCHED: value}}},
                    "notify": {"metadata": {"annotations": {NOTICE: value}}},
                    "end": {"spec": {"activeDeadlineSeconds": 1}},
                    "release": {"metadata": {"finalizers": None}},
                }
                body = bodies[what]
                body["metadata"] = {**body.get("metadata", {}), "uid": uid}
        try:
            live = self._patch("Pod", name, body, case.key[0])
        except ClusterError as error:
            if error.conflict:
                raise OutdatedError(name) from error
            if not error.not_found:
                raise
            return False  # that Pod is gone
        self.store.observe_pod(live, answer=True)
        return True

    def _delete_pod(self, key: JobKey, name: str, uid: str, *, grace: int | None = None) -> bool:
        pods = self.cluster.resource("v1", "Pod")
        try:
            there = self._delete(
                "Pod", self.cluster.delete, pods, name, key[0], uid=uid, grace=grace
            )
        except ClusterError as error:
            if not error.conflict:
                raise
            live = self._live_pod(key[0], name)
            if live is not None and live["metadata"]["uid"] == uid:
                raise OutdatedError(name) from error
            return False  # another Pod has the name, or none: the one that was to go is gone
        self.store.leaves(key, name, uid)
        return bool(there)

    def _live_pod(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        live = self.cluster.get(self.cluster.resource("v1", "Pod"), name, namespace)
        if live is not None:
            self.store.observe_pod(live, answer=True)
        return live

    def _create_pod(self, case: Case, action: CreatePod, compiled: _Compiled) -> bool:
        value = compiled.get((action.role, action.index))
        if value is None:
            return False  # the job no longer has it
        value = self._completed(case, action, value)
        try:
            live = self._create(value)
        except ClusterError as error:
            if not error.already_exists:
                raise
            self._check_name(case, value)
            return False
        self.store.observe_pod(live, answer=True)
        self.metrics.replacements.labels(action.reason).inc()
        before = action.lost or action.name
        # The last Pod of that name, and when it was seen to fail or to go.
        last, ended, took = None, "missing", ""
        if (pod := case.seen.pods.get(before)) is not None:
            last, lost = pod.view, pod.since
        elif (gone := case.seen.gone.get(before)) is not None:
            last, lost = gone.pod, gone.at
        if last is not None:
            duration = max(0.0, self.cluster.now() - lost)
            self.metrics.replacement_seconds.observe(duration)
            ended, took = how_it_ended(last, action.reason), f" in {duration:.1f} s"
        what = "recreated" if before == action.name else f"{action.name} created instead"
        say(logging.INFO, case.key, f"{ended}: {what}{took}", pod=before, reason=REPLACED)
        return True

    def _completed(
        self, case: Case, action: CreatePod, value: Mapping[str, Any]
    ) -> Mapping[str, Any]:
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

    def _check_name(self, case: Case, value: Mapping[str, Any]) -> None:
        """Check the Pod that has the name: one that is going, or one that somebody created."""
        name = value["metadata"]["name"]
        live = self._live_pod(case.key[0], name)
        if live is None:
            raise OutdatedError(name)
        spec_hash, label = value["metadata"]["annotations"][SPEC_HASH], f"{JOB_LABEL}={case.key[1]}"
        if is_going(live):
            return
        if (live["metadata"].get("annotations") or {}).get(SPEC_HASH) != spec_hash:
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
        """Delete all objects of a job, its ConfigMap last, so that a failure can be resumed."""
        config, job = case.seen.config, case.run.job.name
        if config is not None and _is_protected(config.metadata):
            problem = f"{config.name} has an annotation that forbids it"
            raise BlockedError("NotRemoved", f"{_NOT_REMOVED}: {problem}")
        others = {**case.run.objects()}
        maps = others.pop(_CONFIG_MAP)
        last = {config.name} if config else set()
        first = (maps | {status_name(job), hosts_name(job)}) - last
        try:
            for kind, names in [*sorted(others.items()), (_CONFIG_MAP, first), (_CONFIG_MAP, maps)]:
                self._remove(case.key, *kind, names)
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
            # The watcher may not read Secrets.
            for name in sorted(names):
                self._delete(kind, self.cluster.delete_labelled, resource, name, labels, namespace)
            return
        listed = self.cluster.list(resource, namespace, labels=labels, metadata_only=True)
        for metadata in (value["metadata"] for value in listed.items):
            if metadata["name"] in names and not _is_protected(metadata):
                where = resource, metadata["name"], namespace
                self._delete(kind, self.cluster.delete, *where, uid=metadata["uid"])


def _is_protected(metadata: Mapping[str, Any]) -> bool:
    from etcompile.plan.owners import PREVENT_DESTROY  # noqa: PLC0415 - seldom needed

    return (metadata.get("annotations") or {}).get(PREVENT_DESTROY) == "true"


def _requests(case: Case, action: Action) -> tuple[Request, ...]:
    match action:
        case WriteStatus():
            return (("status", str(_version(case.seen.status))),)
        case WriteHosts():
            return (("hosts", str(_version(case.seen.hosts))),)
        case CreatePod(name, role, uid=uid):
            of_role = () if uid else (("create", f"Pods of {role}"),)
            return (("create", name), *of_role)
        case DeletePod(name):
            return (("delete", name),)
        case PatchPod(what, name):
            return ((what, name),)
    return ()


def _version(config_map: SeenMap | None) -> int:
    return config_map.version if config_map is not None else 0


def _compiled(case: Case, actions: Sequence[PodAction]) -> _Compiled:
    declared: dict[str, list[int | None]] = {}
    compiled: dict[tuple[str, int | None], Mapping[str, Any]] = {}
    for action in actions:
        if isinstance(action, CreatePod) and action.undeclared is not None:
            pod = case.run.undeclared_pod(action.role, action.undeclared, action.name)
            # No tool knows it: it goes when the job goes.
            compiled[action.role, action.index] = owned(pod, case.seen.config)
        elif isinstance(action, CreatePod):
            declared.setdefault(action.role, []).append(action.index)
    for role, indexes in declared.items():
        pods = case.run.pods(role, indexes, case.seen.tracking)
        compiled.update({(role, index): pod for index, pod in pods})
    return compiled


# The watcher's own ConfigMaps ------------------------------------------------------------------
#
# `J-hosts` goes with the job's ConfigMap; `J-status` outlives it, or a job that is synced again
# would train again (reference/gitops.md 9).


def written(action: WriteStatus | WriteHosts, run: StoredRun, config: SeenMap | None) -> Object:
    job, notes = run.job, _QUIET
    if isinstance(action, WriteStatus):
        name, data = status_name(job.name), record_data(action.record)
        if (done := succeeded(job, action.record)) is not None:
            # Gates that wait for roles to succeed read the run and each of these roles.
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
    """Return the merge patch of a ConfigMap to a body, valid while it has the known version."""
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
    """Return an object that is deleted with the job's ConfigMap."""
    if config is None:
        return dict(value)
    uid = config.metadata["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": config.name, "uid": uid}
    return {**value, "metadata": {**value["metadata"], "ownerReferences": [reference]}}
