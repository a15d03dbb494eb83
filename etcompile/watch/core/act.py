"""Actions of the rules to requests, in their order.

Each request names what it was decided on (`object_control`). Nothing is sent again here: after a
failure the next decision starts from what is there then.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import groupby
from typing import Any, Literal

from msgspec import Struct

from etcompile.compiler.stored_run import away_from, outside_of_gang
from etcompile.k8s.objects import is_going
from etcompile.k8s.pod_state import TOUCHED, how_it_ended
from etcompile.kubeapi import ClusterError
from etcompile.kubeapi.controller.backoff import LONGEST
from etcompile.kubeapi.controller.events import EventRecorder
from etcompile.model.protocol import JOB_LABEL, NOTICE, SPEC_HASH
from etcompile.watch.core import reports
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
    Requeue,
    WriteHosts,
    WriteStatus,
)
from etcompile.watch.core.config_maps import SeenMap, change, owned, written
from etcompile.watch.core.ledger import Memory, Request
from etcompile.watch.core.logs import LogReader
from etcompile.watch.core.observe import Case
from etcompile.watch.core.reports import say
from etcompile.watch.core.requests import BlockedError, ObjectControl, OutdatedError, remove_job

Phase = Literal["record", "pods", "lists", "removal", "reports"]
"""Of actions that may be carried out together."""

_LIST_AGAIN = 1.0  # seconds until a host list is written again: who is gone must not stay listed
_Compiled = Mapping[tuple[str, int | None], Mapping[str, Any]]


class ActionExecutor(Struct, frozen=True):
    """Does what was decided; safe to share between threads."""

    control: ObjectControl
    events: EventRecorder
    logs: LogReader
    pool: Executor
    memory: Memory

    def act(self, case: Case, actions: Sequence[Action]) -> bool:
        """Carry out actions, in their order; those on Pods that stand together side by side.

        Host lists do not wait for what fails, a Pod or the record: a host that is gone must not
        stay listed. What could not be recorded is not done, nor reported.

        Returns:
            Whether anything was carried out.

        Raises:
            ClusterError, OutdatedError, BlockedError: a request failed; the rest was left.
            NotLeaderError: this watcher may not act.
        """
        acted = unrecorded = False
        records = any(isinstance(action, WriteStatus) for action in actions)
        problem: Exception | None = None
        events = [action for action in actions if isinstance(action, EmitEvent)]
        ledger = self.memory.of(case.key).ledger
        requests = {_request(case, action) for action in actions}
        ledger.retain(requests | {_of_role(action) for action in actions})
        for phase, group in groupby(actions, key=phase_of):
            these = [
                action
                for action in group
                if not (ledger.holds(_request(case, action)) or ledger.holds(_of_role(action)))
            ]
            if not these:
                unrecorded = unrecorded or phase == "record"
            elif phase == "reports":
                # What was not recorded is decided again, and reported then.
                own = [own for own in these if not (unrecorded and own in events)]
                self._report(case, own, recorded=records and not unrecorded)
            elif phase == "pods" and unrecorded:
                continue
            else:
                acted = True
                try:
                    # ConfigMaps first, and then what is to be done with Pods.
                    for action in these:
                        if isinstance(action, WriteStatus | WriteHosts):
                            self._try(case, action, partial(self._write_map, case, action))
                        elif isinstance(action, RemoveJob):
                            remove_job(self.control, case)
                    self._on_pods(case, [own for own in these if isinstance(own, PodAction)])
                except (ClusterError, BlockedError, OutdatedError) as error:
                    if phase == "record" and isinstance(error, OutdatedError):
                        raise
                    status = error.status if isinstance(error, ClusterError) else 400
                    if phase == "record" and (status or 500) >= 500:
                        # It may have been carried out, though nobody said so.
                        self._report(case, events)
                    unrecorded = unrecorded or phase == "record"
                    problem = problem or error
        if problem is not None:
            raise problem
        return acted

    def _try(self, case: Case, action: Action, request: Callable[[], bool]) -> None:
        """Send a request, and hold the next one like it if it was refused or changed nothing."""
        ledger, changed = self.memory.of(case.key).ledger, False
        try:
            changed = request()
        finally:
            if changed:
                ledger.succeeded(_request(case, action))
            else:
                longest = _LIST_AGAIN if isinstance(action, WriteHosts) else LONGEST
                ledger.failed(_request(case, action), longest)

    def _report(self, case: Case, actions: Sequence[Action], *, recorded: bool = False) -> None:
        config, version = case.seen.config_metadata, str(_version(case.seen.status))
        for action in actions:
            if isinstance(action, EmitEvent) and action.reason == REPLACED:
                reports.emit(self.events, case.key[0], action, config, version)  # logged once it is
            elif isinstance(action, EmitEvent):
                reports.report(self.events, case.key, action, config, version)
            elif isinstance(action, Count) and recorded:
                counter = self.control.metrics.counters[action.name]
                (counter.labels(*action.labels) if action.labels else counter).inc(action.by)
            elif isinstance(action, ReadLog | ReadTail | ReadLines):
                self.logs.read(case.key, action)

    def create_secrets(self, case: Case) -> None:
        """Create the job's key pair, once; where a Pod has started there is one."""
        memory, job = self.memory.of(case.key).run, case.run.job
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
                self.control.create(example, dry_run=True)
                self.control.create(with_key_pair(secret))
            except ClusterError as error:
                if not error.already_exists:
                    raise
        memory.secrets = pair

    def _write_map(self, case: Case, action: WriteStatus | WriteHosts) -> bool:
        """Write a ConfigMap that only watchers write, unless another one has meanwhile."""
        known = case.seen.status if isinstance(action, WriteStatus) else case.seen.hosts
        body = written(action, case.run, case.seen.config)
        name, (namespace, job) = body["metadata"]["name"], case.key
        try:
            if known is None:
                live = self.control.create(body)
            else:
                # A merge patch costs the API server half of what a server-side apply does.
                live = self.control.patch(self.control.maps, name, change(body, known), namespace)
        except ClusterError as error:
            if not (error.conflict or error.already_exists or error.not_found):
                raise
            if known is None and error.already_exists:
                # To get one would be a right more, and nothing else needs it.
                maps = self.control.cluster.list(
                    self.control.maps, namespace, fields=f"metadata.name={name}"
                ).items
                if maps and (maps[0]["metadata"].get("labels") or {}).get(JOB_LABEL) != job:
                    message = f"the ConfigMap {name} does not have the label {JOB_LABEL}={job}"
                    raise BlockedError(
                        "NameTaken", f"{message}: add it, or delete the ConfigMap"
                    ) from error
            # What is there now is on its way here: the stream shows every change.
            raise OutdatedError(name) from error
        self.control.store.saw_map(live, answer=True)
        return True

    def _on_pods(self, case: Case, actions: Sequence[PodAction]) -> None:
        if not actions:
            return
        compiled, ledger = _compiled(case, actions), self.memory.of(case.key).ledger

        def on_pod(action: PodAction) -> None:
            """Do it, unless another Pod of the role has just been refused."""
            of_role = _of_role(action)
            if ledger.holds(of_role):
                return
            try:
                self._try(case, action, partial(self._on_pod, case, action, compiled))
            except ClusterError as error:
                if of_role[0] and (error.over_quota or error.terminating):
                    # Those of a role ask for the same; another role's may need less.
                    ledger.failed(of_role)
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
                deleted = bool(uid) and self.control.delete_pod(case.key, name, uid)
                pod = case.seen.pods.get(name) if uid else None
                if pod is not None and not pod.view.ended:
                    return deleted  # it goes when its processes have: the next decision creates it
                return self._create_pod(case, action, compiled)
            case DeletePod(name, uid, _, force):
                return self.control.delete_pod(case.key, name, uid, grace=0 if force else None)
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
            live = self.control.patch(self.control.pods, action.name, body, case.key[0], "Pod")
        except ClusterError as error:
            if error.conflict:
                raise OutdatedError(action.name) from error
            if not error.not_found:
                raise
            return False  # that Pod is gone
        self.control.store.saw_pod(live, answer=True)
        return True

    def _create_pod(self, case: Case, action: CreatePod, compiled: _Compiled) -> bool:
        value = compiled.get((action.role, action.index))
        if value is None:
            return False  # the job no longer has it
        value = self._as_wanted(case, action, value)
        try:
            live = self.control.create(value)
        except ClusterError as error:
            if not error.already_exists:
                raise
            self._check_name(case, value)
            return False
        self.control.store.saw_pod(live, answer=True)
        self.control.metrics.replacements.labels(action.reason).inc()
        before = action.lost or action.name
        # The last Pod of that name, and when it was seen to fail or to go.
        view, lost, took = None, None, ""
        if (pod := case.seen.pods.get(before)) is not None:
            view, lost = pod.view, pod.since
        elif (gone := case.seen.gone.get(before)) is not None:
            view, lost = gone.pod, gone.at
        if lost is not None:
            seconds = max(0.0, self.control.cluster.now() - lost)
            self.control.metrics.replacement_seconds.observe(seconds)
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
                nodes = ", ".join(action.away_from)
                message = (
                    f"{action.name} may be scheduled to a node that failed before "
                    f"({nodes}): its template sets a node affinity, and a tool "
                    "that syncs Git would revert a change of it"
                )
                event = EmitEvent("NodeNotAvoided", message, warning=True)
                reports.emit(
                    self.events, case.key[0], event, case.seen.config_metadata, action.name
                )
            value = elsewhere or value
        views = [seen.view for seen in case.seen.pods.values()]
        if any(v.phase == "Succeeded" and v.spec_hash == case.run.spec_hash for v in views):
            return outside_of_gang(value)
        return value

    def _check_name(self, case: Case, wanted: Mapping[str, Any]) -> None:
        """Look at the Pod that has the name: the one that goes, or one that somebody made."""
        name = wanted["metadata"]["name"]
        live = self.control.look(case.key[0], name)
        if live is None:
            raise OutdatedError(name)
        metadata, own = live["metadata"], wanted["metadata"]["annotations"][SPEC_HASH]
        if is_going(live):
            return
        if (metadata.get("annotations") or {}).get(SPEC_HASH) != own:
            raise BlockedError("NameTaken", f"a Pod of another run or owner is named {name}")
        if (metadata.get("labels") or {}).get(JOB_LABEL) != case.key[1]:
            # Somebody has taken it out of the job, and no other Pod can have its name.
            lacks = f"the Pod {name} no longer has the label {JOB_LABEL}={case.key[1]}"
            raise BlockedError("NameTaken", f"{lacks}: add it again, or delete the Pod")


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


_PHASES: Mapping[type[Action], Phase] = {
    **dict.fromkeys((Count, EmitEvent, ReadLog, ReadTail, ReadLines, Requeue), "reports"),
    WriteHosts: "lists",
    WriteStatus: "record",
    RemoveJob: "removal",
}


def phase_of(action: Action) -> Phase:
    """Return what may be carried out together."""
    if isinstance(action, PatchPod) and action.what == "touch":
        return "lists"
    return _PHASES.get(type(action), "pods")


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
