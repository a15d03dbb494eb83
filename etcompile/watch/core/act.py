"""Carry out the actions of the rules, in their order.

Only the leader sends requests. Each names what it was decided on: a UID, a resource version, or
that nothing is there. So it does nothing if that has changed, and sending it twice is harmless.
Nothing is sent again here: after a failure, the next decision starts from what is there then. The
answer goes into the store at once.
"""

import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from etcompile.backend.identity import job_labels
from etcompile.compiler.stored import StoredJobError
from etcompile.compiler.stored_run import StoredRun, away_from, outside_of_gang
from etcompile.k8s.objects import Object, is_going, labels_of, seconds
from etcompile.k8s.pod_state import TOUCHED, how_it_ended
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.kubeapi.controller.events import EventRecorder
from etcompile.kubeapi.controller.work_queue import LONGEST, backoff
from etcompile.kubeapi.controller.work_queue import Key as JobKey
from etcompile.model.protocol import (
    JOB_LABEL,
    NOTICE,
    SPEC_HASH,
    WATCHER,
    hosts_name,
    is_config,
    status_name,
)
from etcompile.model.run_record import RUN, record_data
from etcompile.watch.core.observe import SeenJob, SeenMap, Store
from etcompile.watch.core.reports import report, say
from etcompile.watch.core.run import (
    ANCHOR,
    REPLACED,
    UNREAD,
    Action,
    Count,
    CreatePod,
    DeletePod,
    EmitEvent,
    LogRead,
    PatchPod,
    ReadLog,
    RemoveJob,
    WriteHosts,
    WriteStatus,
)
from etcompile.watch.metrics import Metrics

_CONFIG_MAP = ("v1", "ConfigMap")
_LIST_AGAIN = 1.0  # seconds until a host list is written again: who is gone must not stay listed
_UNTIL_REMOVAL_IS_ALLOWED = 3600.0
_JUST_CREATED = 60.0  # seconds in which a Pod is deleted that came while its job was being deleted
_MOST_LINES = 16  # of a log that is followed
_LONGEST_REPORT = 300  # characters of a problem that are compared with those of others
_MOST_REPORTS = 200  # problems of a job that are remembered as reported
_QUIET: Mapping[str, str] = {"argocd.argoproj.io/ignore-resource-updates": "true"}
"""Argo CD shows these objects as children of the job and need not react to each change."""

Request = tuple[str, str]
"""A verb and an object."""
RECONCILE: Request = ("reconcile", "")
"""Whatever else may fail about a job."""


class NotLeaderError(Exception):
    """This watcher may not act, or not any more."""


class OutdatedError(Exception):
    """What was decided on is not what is there."""


class BlockedError(Exception):
    """The watcher cannot work on a job; with the reason of the Event."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Ledger(Struct):
    """The requests of a job that were refused or changed nothing, and what was reported of it.

    Each is held back for a time, however often the job is reconciled; other work on the job goes
    on. All of it may be forgotten at any time: that costs a request or a line of the log. Threads
    that send requests call `failed`, `succeeded` and `holds`, each for another request.
    """

    clock: Callable[[], float] = time.monotonic
    # How often a request has failed in a row, and until when it is held.
    _held: dict[Request, tuple[int, float]] = field(default_factory=dict)
    _reported: deque[str] = field(default_factory=lambda: deque(maxlen=_MOST_REPORTS))

    def failed(self, request: Request, *, least: float = 0.0, longest: float = LONGEST) -> None:
        """Hold a request that was refused or changed nothing, twice as long as before."""
        count, until = self._held.get(request, (0, 0.0))
        if self.clock() >= until:  # else another request like it has failed at the same time
            wait = max(least, min(backoff(count + 1), longest))
            self._held[request] = count + 1, self.clock() + wait

    def succeeded(self, request: Request) -> None:
        self._held.pop(request, None)

    def holds(self, requests: Iterable[Request]) -> bool:
        now = self.clock()
        return any(now < self._held.get(request, (0, 0.0))[1] for request in requests)

    def retain(self, wanted: AbstractSet[Request] = frozenset()) -> None:
        """Forget all requests that are held but these: the others are not wanted any more."""
        for request in self._held.keys() - wanted:
            del self._held[request]

    @property
    def wait(self) -> float | None:
        """Return the seconds until a request may be sent again; None if none has failed."""
        if not self._held:
            return None
        now = self.clock()
        # What is refused stays a failure until it was accepted, however soon it is sent again.
        return min((until - now for _, until in self._held.values() if until > now), default=0.1)

    def is_new(self, problem: str) -> bool:
        """Return whether a problem was not reported yet; from now on it is."""
        is_new = problem[:_LONGEST_REPORT] not in self._reported
        if is_new:
            self._reported.append(problem[:_LONGEST_REPORT])
        return is_new

    def resolved(self) -> None:
        self._reported.clear()


class Case(Struct, frozen=True):
    """A job, and what was known of it when its actions were decided."""

    key: JobKey
    run: StoredRun
    seen: SeenJob
    ledger: Ledger


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
        ledger, problems = case.ledger, list[Exception]()
        requests = [_requests(case, action) for action in actions]
        ledger.retain({RECONCILE, *itertools.chain(*requests)})
        pairs = zip(actions, requests, strict=True)
        due = [action for action, of_action in pairs if not ledger.holds(of_action)]
        steps: list[list[Action]] = [[] for _ in range(6)]
        for action in due:
            if (step := _step(action)) is not None:
                steps[step].append(action)
        is_recorded = bool(steps[0]) or not any(isinstance(a, WriteStatus) for a in actions)
        for problem in self._send_all(case, steps[0]):
            if isinstance(problem, OutdatedError):
                raise problem
            problems, is_recorded = [problem], False
            if isinstance(problem, ClusterError) and (problem.status or 500) >= 500:
                # It may have been written, though the API server did not say so.
                self._report(case, [action for action in due if isinstance(action, EmitEvent)])
        if is_recorded:
            self._report(case, due)
        else:
            steps[1:3] = [], []
        for step_actions in steps[1:5]:
            problems += self._send_all(case, step_actions)
        if problems:
            raise problems[0]
        problems = self._send_all(case, steps[5])
        if problems:
            raise problems[0]
        return any(steps)

    def _report(self, case: Case, actions: Sequence[Action]) -> None:
        config, status = case.seen.config_metadata, case.seen.status
        for action in actions:
            match action:
                case EmitEvent(reason, message, pod, uid, once=once):
                    if not once or case.ledger.is_new(f"{reason} {uid or pod} {message}"):
                        line = None if reason == REPLACED else ""  # logged once it is
                        report(self.events, case.key, action, config, version_of(status), line)
                case Count(name, by, labels):
                    self.metrics.increment(name, *labels, by=by)
                case ReadLog(name, uid):
                    seen = case.seen.pods.get(name)
                    logs = seen.logs if seen is not None and seen.view.uid == uid else {}
                    known = logs.get(action.purpose, UNREAD)
                    lines = known.lines if action.begin else None
                    read = LogRead(action.of, self.cluster.now(), lines, known.until)
                    self.store.observe_log(case.key, action, read, changed=False)
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
        self.store.observe_log(key, action, read, changed=changed)

    # ---- requests ------------------------------------------------------------------------------

    def _send_all(self, case: Case, actions: Sequence[Action]) -> list[Exception]:
        """Send the requests of actions side by side; return what went wrong."""
        ledger, problems = case.ledger, list[Exception]()
        if not actions:
            return problems
        try:
            compiled = self._compiled(case, actions)
        except StoredJobError as error:
            return [error]

        def send(action: Action) -> None:
            requests, changed, least = _requests(case, action), False, 0.0
            if ledger.holds(requests):
                return  # another Pod of the role has just been refused
            try:
                changed = self._do(case, action, compiled)
            except Exception as error:
                problems.append(error)
                if isinstance(error, ClusterError) and (error.over_quota or error.terminating):
                    # Pods of a role request the same; another role's may need less.
                    for of_role in requests[1:]:
                        ledger.failed(of_role)
                if isinstance(action, RemoveJob) and isinstance(error, BlockedError):
                    least = _UNTIL_REMOVAL_IS_ALLOWED
            if changed:
                ledger.succeeded(requests[0])
            else:
                longest = _LIST_AGAIN if isinstance(action, WriteHosts) else LONGEST
                ledger.failed(requests[0], least=least, longest=longest)

        others = self.pool.map(send, actions[1:])
        for action in actions[:1]:
            send(action)
        for _ in others:
            pass  # only wait for it
        return problems

    def _do(self, case: Case, action: Action, compiled: Mapping[str, Object]) -> bool:
        """Send the requests of an action; return whether they have changed anything."""
        key = case.key
        match action:
            case WriteStatus() | WriteHosts():
                self._write(case, action)
            case RemoveJob():
                self._remove_job(case)
            case CreatePod(name, uid=uid):
                deleted = bool(uid) and self._delete_pod(key, name, uid)
                pod = case.seen.pods.get(name) if uid else None
                if pod is not None and not pod.view.ended:
                    return deleted  # it goes when its processes have: the next decision creates it
                # A job that was changed meanwhile may no longer have it.
                return name in compiled and self._create_pod(case, action, compiled[name])
            case DeletePod(name, uid, _, force):
                return self._delete_pod(key, name, uid, grace=0 if force else None)
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
                    live = self._patch("Pod", name, body, key[0])
                except ClusterError as error:
                    if error.conflict or error.not_found:
                        return False  # that Pod is gone
                    raise
                self.store.observe("Pod", live, answer=True)
        return True

    def _send(
        self, verb: str, kind: str, request: Callable[..., Any], *args: Any, **more: Any
    ) -> Any:
        if not self.may_act():
            raise NotLeaderError
        try:
            answer = request(*args, **more)
        except ClusterError as error:
            self.metrics.increment("api_writes", verb, kind, str(error.status or "none"))
            raise
        self.metrics.increment("api_writes", verb, kind, "ok")
        return answer

    def _create(self, value: Object) -> Any:
        # What was accepted from Git once must be accepted again, and nobody reads its warnings.
        how: Any = {"field_manager": WATCHER, "field_validation": "Ignore"}
        return self._send("create", value["kind"], self.cluster.create, value, **how)

    def _patch(self, kind: str, name: str, change: Any, namespace: str) -> Any:
        what = self.cluster.resource("v1", kind), name, change, namespace
        return self._send("patch", kind, self.cluster.patch, *what, field_manager=WATCHER)

    # ---- ConfigMaps and Secrets ----------------------------------------------------------------

    def create_secrets(self, case: Case) -> None:
        """Create the job's key pair, unless there is one already, or a Pod has started with it."""
        if any(pod.view.phase != "Pending" for pod in case.seen.pods.values()):
            return
        for value in case.run.secrets():
            from etcompile.model.keypair import with_key_pair  # noqa: PLC0415 - cryptography

            try:
                self._create(with_key_pair(owned(value, case.seen.config)))
            except ClusterError as error:
                if not error.already_exists:
                    raise

    def _write(self, case: Case, action: WriteStatus | WriteHosts) -> None:
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
                maps, fields = self.cluster.resource(*_CONFIG_MAP), f"metadata.name={name}"
                for value in self.cluster.list(maps, namespace, fields=fields).items:
                    if labels_of(value).get(JOB_LABEL) != job:
                        message = f"the ConfigMap {name} does not have the label {JOB_LABEL}={job}"
                        hint = "add it, or delete the ConfigMap"
                        raise BlockedError("NameTaken", f"{message}: {hint}") from error
            # What is there now is on its way here: the stream shows every change.
            raise OutdatedError(name) from error
        self.store.observe("ConfigMap", live, answer=True)

    # ---- Pods ----------------------------------------------------------------------------------

    def _compiled(self, case: Case, actions: Sequence[Action]) -> Mapping[str, Object]:
        """Return the Pods to create, by name."""
        creations = {action.name: action for action in actions if isinstance(action, CreatePod)}
        declared: dict[str, list[int | None]] = {}
        pods: list[Object] = []
        for action in creations.values():
            if action.undeclared is None:
                declared.setdefault(action.role, []).append(action.index)
            else:
                name, member = action.name, action.undeclared
                # No tool knows it: it goes when the job goes.
                undeclared = case.run.undeclared_pod(action.role, member, name)
                pods.append(owned(undeclared, case.seen.config))
        for role, indexes in declared.items():
            pods += (pod for _, pod in case.run.pods(role, indexes, case.seen.tracking))
        views = [seen.view for seen in case.seen.pods.values()] if pods else []
        in_gang = not any(
            v.phase == "Succeeded" and v.spec_hash == case.run.spec_hash for v in views
        )
        compiled = {}
        for pod in pods:
            metadata = pod["metadata"]
            action = creations[metadata["name"]]
            annotations = {**(metadata.get("annotations") or {}), **action.annotations}
            value: Object = {**pod, "metadata": {**metadata, "annotations": annotations}}
            if nodes := action.away_from:
                value = away_from(value, nodes, git_managed=case.run.git_managed) or value
            compiled[action.name] = value if in_gang else outside_of_gang(value)
        return compiled

    def _create_pod(self, case: Case, action: CreatePod, value: Object) -> bool:
        try:
            live = self._create(value)
        except ClusterError as error:
            if not error.already_exists:
                raise
            self._check_name(case, value)
            return False
        self.store.observe("Pod", live, answer=True)
        self.metrics.increment("replacements", action.reason)
        before = action.lost or action.name
        # The last Pod of that name, and when it was seen to fail or to go.
        last, ended, took = None, "missing", ""
        if (pod := case.seen.pods.get(before)) is not None:
            last, lost = pod.view, pod.since
        elif (gone := case.seen.gone.get(before)) is not None:
            last, lost = gone.pod, gone.at
        if last is not None:
            duration = max(0.0, self.cluster.now() - lost)
            self.metrics.seconds["replacement_seconds"].observe(duration)
            ended, took = how_it_ended(last, action.reason), f" in {duration:.1f} s"
        what = "recreated" if before == action.name else f"{action.name} created instead"
        say(logging.INFO, case.key, f"{ended}: {what}{took}", pod=before, reason=REPLACED)
        return True

    def _check_name(self, case: Case, value: Object) -> None:
        """Check the Pod that has the name: one that is going, or one that somebody created."""
        metadata = value["metadata"]
        pods, name = self.cluster.resource("v1", "Pod"), metadata["name"]
        if (live := self.cluster.get(pods, name, case.key[0])) is None:
            return  # it has just gone
        self.store.observe("Pod", live, answer=True)
        if is_going(live):
            return
        annotations, labels = (live["metadata"].get(m) or {} for m in ("annotations", "labels"))
        if annotations.get(SPEC_HASH) != metadata["annotations"][SPEC_HASH]:
            raise BlockedError("NameTaken", f"a Pod of another run or owner is named {name}")
        if labels.get(JOB_LABEL) != metadata["labels"][JOB_LABEL]:
            label = f"the label {JOB_LABEL}={case.key[1]}"
            message = f"the Pod {name} no longer has {label}: add it again, or delete it"
            raise BlockedError("NameTaken", message)

    def _delete_pod(self, key: JobKey, name: str, uid: str, *, grace: int | None = None) -> bool:
        pod = self.cluster.resource("v1", "Pod"), name, key[0]
        try:
            there = self._send("delete", "Pod", self.cluster.delete, *pod, uid=uid, grace=grace)
        except ClusterError as error:
            if not error.conflict:
                raise
            return False  # another Pod has the name: the one that was to go is gone
        self.store.leaves(key, name, uid)
        return bool(there)

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
        from etcompile.plan.owners import PREVENT_DESTROY  # noqa: PLC0415 - seldom needed

        def is_protected(metadata: Mapping[str, Any]) -> bool:
            return (metadata.get("annotations") or {}).get(PREVENT_DESTROY) == "true"

        config, job, (namespace, _) = case.seen.config, case.run.job.name, case.key
        kinds, labels, problem = case.run.objects(), f"{JOB_LABEL}={job}", ""
        if config is not None and is_protected(config.metadata):
            problem = f"{config.name} has an annotation that forbids it"
        maps = kinds.pop(_CONFIG_MAP, frozenset())
        last = frozenset({config.name} if config else ())
        first = (maps | {status_name(job), hosts_name(job)}) - last
        steps = [*sorted(kinds.items()), (_CONFIG_MAP, first), (_CONFIG_MAP, last)]
        for (version, kind), names in steps if not problem else ():
            try:
                resource = self.cluster.resource(version, kind)
                if kind == "Secret":  # which the watcher may not read
                    of_kind = self.cluster.delete_labelled
                    for name in sorted(names):
                        self._send("delete", kind, of_kind, resource, name, labels, namespace)
                    continue
                live = self.cluster.list(resource, namespace, labels=labels, metadata_only=True)
                for metadata in [value["metadata"] for value in live.items]:
                    if metadata["name"] in names and not is_protected(metadata):
                        target = resource, metadata["name"], namespace
                        delete = self.cluster.delete
                        self._send("delete", kind, delete, *target, uid=metadata["uid"])
            except ClusterError as error:
                if error.status == 403:
                    problem = str(error)
                    break
                if not error.not_found:  # the cluster has no such kind any more
                    raise
        if problem:
            message = f"the rest of the job cannot be deleted: {problem}"
            raise BlockedError("NotRemoved", message)
        self.store.removed(case.key)


def _step(action: Action) -> int | None:
    """Return in which step an action is carried out; None for one that requests nothing."""
    match action:
        case WriteStatus():
            return 0
        case CreatePod(role=role) if role != "worker":
            # Kubernetes starts the minimum of a gang in the order in which its Pods were created
            # (reference/gang-scheduling.md 5), and only workers can be missing.
            return 1
        case PatchPod("touch"):
            return 4
        case CreatePod() | DeletePod() | PatchPod():
            return 2
        case WriteHosts():
            return 3
        case RemoveJob():
            return 5
    return None


def _requests(case: Case, action: Action) -> tuple[Request, ...]:
    match action:
        case WriteStatus():
            return (("status", version_of(case.seen.status)),)
        case WriteHosts():
            return (("hosts", version_of(case.seen.hosts)),)
        case CreatePod(name, role, uid=uid):
            of_role = () if uid else (("create", f"Pods of {role}"),)
            return (("create", name), *of_role)
        case DeletePod(name):
            return (("delete", name),)
        case PatchPod(what, name):
            return ((what, name),)
        case RemoveJob():
            return (("remove", ""),)
    return ()


def version_of(config_map: SeenMap | None) -> str:
    return str(config_map.version) if config_map is not None else "0"


# The watcher's own ConfigMaps ------------------------------------------------------------------
#
# `J-hosts` goes with the job's ConfigMap; `J-status` outlives it, or a job that is synced again
# would train again (reference/gitops.md 9).


def written(action: WriteStatus | WriteHosts, run: StoredRun, config: SeenMap | None) -> Object:
    job, notes = run.job, _QUIET
    if isinstance(action, WriteStatus):
        name, data = status_name(job.name), record_data(action.record)
        data |= {**action.notes, RUN: run.text}
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
    metadata, data = body["metadata"], dict(body["data"])
    changed = {key: text for key, text in data.items() if known.data.get(key) != text}
    marks = {key: metadata[key] for key in ("labels", "ownerReferences") if key in metadata}
    if known.metadata.get("ownerReferences"):
        marks.setdefault("ownerReferences", None)
    marks["resourceVersion"] = known.metadata["resourceVersion"]
    return {
        "metadata": {**marks, "annotations": metadata["annotations"]},
        "data": {**changed, **dict.fromkeys(known.data.keys() - data.keys())},
    }


def owned(value: Object, config: SeenMap | None) -> dict[str, Any]:
    """Return an object that is deleted with the job's ConfigMap."""
    if config is None:
        return dict(value)
    uid = config.metadata["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": config.name, "uid": uid}
    return {**value, "metadata": {**value["metadata"], "ownerReferences": [reference]}}
