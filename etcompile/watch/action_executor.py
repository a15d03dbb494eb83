"""Actions of the rules to requests, in their order.

Each request names what it was decided on: a UID, a resource version, or that nothing is there. So
it does nothing if that is no longer so, and sending it twice does what sending it once does. What
it is answered with is seen at once, as if an event had shown it. Nothing is sent again here: after
a failure the next decision starts from what is there then.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any, Literal

from msgspec import Struct

from etcompile.failures import read_log
from etcompile.k8s.objects import is_going
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.model.protocol import (
    EPOCH,
    JOB_LABEL,
    NOTICE,
    SPEC_HASH,
    WATCHER,
    hosts_name,
    is_config,
    status_name,
)
from etcompile.model.run_record import RunRecord
from etcompile.watch.actions import (
    REPLACED,
    Action,
    CreatePod,
    DeletePod,
    EmitEvent,
    EndPod,
    NotifyPod,
    PodAction,
    ReadEpochs,
    ReadLog,
    ReadTail,
    ReleasePod,
    RemoveJob,
    ReplacePod,
    Requeue,
    TouchPod,
    WriteHosts,
    WriteStatus,
)
from etcompile.watch.event_recorder import EventRecorder, say
from etcompile.watch.ledger import JobMemory, Memory, Request
from etcompile.watch.log_reader import LogReader
from etcompile.watch.maps import change, is_labelled, owned, why_foreign, written
from etcompile.watch.metrics import Metrics
from etcompile.watch.node_affinity import avoiding
from etcompile.watch.pod_view import TOUCHED, PodView, how_it_ended
from etcompile.watch.store import SeenJob, Store
from etcompile.watch.stored_run import StoredRun
from etcompile.watch.workqueue import LONGEST, JobKey

Outcome = Literal["nothing", "some", "all"]
"""Of actions: none of them wrote anything, some were left for later, or all were carried out."""
Phase = Literal["record", "pods", "lists", "removal", "reports"]
"""Of actions that may be carried out together."""

_LIST_AGAIN = 1.0
"""Seconds until a host list is written again, at most: who is gone must not stay listed."""
_JUST_CREATED = 60.0
"""Seconds in which a Pod is taken back that came while its job was being deleted."""
_CONFIG_MAP = ("v1", "ConfigMap")
_EVERY = "*"
"""Stands for all roles."""
_Compiled = Mapping[tuple[str, int | None], Mapping[str, Any]]


class NotLeaderError(Exception):
    """This watcher may not act, or not any more."""


class OutdatedError(Exception):
    """What was decided on is not what is there."""


class NameTakenError(Exception):
    """What is not the job's has the name of what is to be created."""


class NotRemovedError(Exception):
    """What is left of a job may not be removed: the API server or an annotation forbids it."""


class Case(Struct, frozen=True):
    """A job, and what was known of it when its actions were decided.

    Args:
        run: What its ConfigMap says.
        record: Its run record; None if there is none that can be read.
    """

    key: JobKey
    run: StoredRun
    seen: SeenJob
    record: RunRecord | None


class ActionExecutor(Struct, frozen=True):
    """Does what was decided; safe to share between threads.

    Args:
        cluster: The cluster. Its requests should be sent once.
        store: Is told the answers.
        may_act: Whether this watcher may act, now.
        pool: Where requests about several Pods of a job run side by side.
        hurry: Whether other jobs than this one wait for a look.
        memory: What was refused, and is not sent again before its time.
    """

    cluster: Cluster
    store: Store
    may_act: Callable[[], bool]
    metrics: Metrics
    events: EventRecorder
    pool: Executor
    hurry: Callable[[JobKey], bool]
    memory: Memory

    def act(self, case: Case, actions: Sequence[Action]) -> Outcome:
        """Carries out actions, in their order; those on Pods that stand together side by side.

        While other jobs wait, the host lists of one whose Pods were made are left to a later look:
        they may be a moment late, and by then they may be one write and not two. They do not wait
        for what fails, a Pod or the record: who is gone must not stay listed. What could not be
        recorded is not done, nor reported.

        Raises:
            ClusterError: a request failed; what came after it was left.
            NotLeaderError: this watcher may not act.
            OutdatedError: somebody else has written meanwhile, and no event has shown it yet.
            NameTakenError: a Pod of somebody else is in the way.
        """
        outcome: Outcome = "nothing"
        touched_pods = late = unrecorded = False
        problem: Exception | None = None
        events = [action for action in actions if isinstance(action, EmitEvent)]
        ledger = self.memory.of(case.key).ledger
        ledger.retain({_request(case, action) for action in actions})
        for phase, group in groupby(actions, key=phase_of):
            these = [action for action in group if not ledger.holds(_request(case, action))]
            if not these:
                unrecorded = unrecorded or phase == "record"
            elif phase == "reports":
                # What was not recorded is decided again, and reported then.
                self._report(
                    case, [action for action in these if not (unrecorded and action in events)]
                )
            elif phase == "pods" and unrecorded:
                continue
            elif phase == "lists" and touched_pods and self.hurry(case.key):
                late = True
            else:
                outcome = "all"
                touched_pods = touched_pods or phase == "pods"
                try:
                    # ConfigMaps first, and then what is to be done with Pods.
                    for action in these:
                        if isinstance(action, WriteStatus | WriteHosts):
                            self._try(case, action, partial(self._write_map, case, action))
                        elif isinstance(action, RemoveJob):
                            self._remove_job(case)
                    self._on_pods(case, [own for own in these if isinstance(own, PodAction)])
                except (ClusterError, NameTakenError, OutdatedError) as error:
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
        return "some" if late else outcome

    def _try(self, case: Case, action: Action, request: Callable[[], bool]) -> None:
        """Sends a request, and holds the next one like it if it was refused or changed nothing."""
        ledger = self.memory.of(case.key).ledger
        longest = _LIST_AGAIN if isinstance(action, WriteHosts) else LONGEST
        try:
            changed = request()
        except (ClusterError, NameTakenError, OutdatedError):
            ledger.failed(_request(case, action), longest)
            raise
        if changed:
            ledger.succeeded(_request(case, action))
        else:
            ledger.failed(_request(case, action), longest)

    def _report(self, case: Case, actions: Sequence[Action]) -> None:
        config, status = case.seen.config, case.seen.status
        metadata = config.metadata if config else {}
        version = str(status.version if status else 0)
        for action in actions:
            if isinstance(action, EmitEvent) and action.reason == REPLACED:
                self.events.emit(case.key[0], action, metadata, version)  # logged once it is
            elif isinstance(action, EmitEvent):
                self.events.report(case.key, action, metadata, version)
            elif isinstance(action, ReadLog | ReadTail | ReadEpochs):
                logs = LogReader(self.cluster, self.store, self.events, self.pool)
                logs.read(case.key, action)

    def create_secrets(self, case: Case) -> None:
        """Creates the Secrets that a job's Pods wait for, if they are not there.

        Raises:
            ClusterError: a request failed.
            NotLeaderError: this watcher may not act.
        """
        from etcompile.model.keypair import with_key_pair  # noqa: PLC0415 - cryptography

        for value in case.run.secrets():
            secret = owned(value, case.seen.config)
            try:
                # A key pair costs something, and nearly always there is one already. Without any
                # key a Secret of the type kubernetes.io/ssh-auth would be refused.
                self._create({**secret, "stringData": {"ssh-privatekey": "none"}}, dry_run=True)
                self._create(with_key_pair(secret))
            except ClusterError as error:
                if not error.already_exists:
                    raise

    def learn_admitted(self, case: Case, pods: Iterable[PodView]) -> bool:
        """Asks what admission, which may rewrite images, makes of Pods like these; whether it said.

        A dry run shows it, once a role.
        """
        run, news = case.run, False
        for pod in pods:
            if not pod.ended or pod.name not in run.names or pod.role in run.admitted:
                continue
            run.admitted[pod.role] = None
            for _, value in run.pods(pod.role, [pod.index], case.seen.tracking):
                metadata = {**value["metadata"], "name": f"{pod.name}-dry-run"}
                example = {**value, "metadata": metadata}
                with suppress(ClusterError):  # else nothing is known, and the Pod stays a stranger
                    run.admits(pod.role, self._create(example, dry_run=True))
                    news = True
        return news

    # ---- deletion of a whole job ---------------------------------------------------------------

    def take_back(self, key: JobKey, seen: SeenJob) -> None:
        """Deletes the Pods that a watcher has just made of a job that is not declared any more.

        Somebody has deleted the job's Pods, and then the job: nobody wants what came in between.

        Raises:
            ClusterError: a request failed.
            NotLeaderError: this watcher may not act.
        """
        since = self.cluster.now() - _JUST_CREATED
        pods = [
            pod.view
            for pod in seen.pods.values()
            if pod.view.created_here and not pod.view.deleting and pod.view.created >= since
        ]
        if not pods:
            return
        # Is there a job, as the API server knows it now?
        labels = f"{JOB_LABEL}={key[1]}"
        maps = self.cluster.list(self._maps, key[0], labels=labels, metadata_only=True).items
        if any(is_config(value["metadata"]) for value in maps):
            return
        for pod in pods:
            self._delete(key, pod.name, pod.uid)
            say(logging.INFO, key, "deleted: just created, and the job is gone", pod=pod.name)

    def _remove_job(self, case: Case) -> None:
        """Deletes all that was made for a job, its own ConfigMap last, so that it can go on."""
        config = case.seen.config
        if config is not None and _is_protected(config.metadata):
            raise NotRemovedError(f"{config.name} has an annotation that forbids it")
        wanted = {**case.run.objects()}
        maps = wanted.pop(_CONFIG_MAP)
        own = {status_name(case.run.job.name), hosts_name(case.run.job.name)}
        try:
            for (version, kind), names in sorted(wanted.items()):
                self._remove(case.key, version, kind, names)
            self._remove(case.key, *_CONFIG_MAP, own | maps - {config.name if config else ""})
            self._remove(case.key, *_CONFIG_MAP, maps)
        except ClusterError as error:
            if error.status == 403:
                raise NotRemovedError(str(error)) from error
            raise

    def _remove(self, key: JobKey, version: str, kind: str, names: AbstractSet[str]) -> None:
        """Deletes objects of a kind that are still the job's and not protected."""
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

    # ---- ConfigMaps ----------------------------------------------------------------------------

    def _write_map(self, case: Case, action: WriteStatus | WriteHosts) -> bool:
        """Writes a ConfigMap that only watchers write, unless another one has meanwhile."""
        known = case.seen.status if isinstance(action, WriteStatus) else case.seen.hosts
        body = written(action, case.run, case.seen.config)
        name, namespace = body["metadata"]["name"], case.key[0]
        try:
            if known is None:
                live = self._create(body)
            else:
                # A merge patch costs the API server half of what a server-side apply does.
                live = self._patch(self._maps, name, change(body, known), namespace)
        except ClusterError as error:
            if not (error.conflict or error.already_exists or error.not_found):
                raise
            if known is None and error.already_exists:
                self._take_in(case, body)
            # What is there now is on its way here: the stream shows every change.
            raise OutdatedError(name) from error
        self.store.saw_map(live, answer=True)
        if isinstance(action, WriteStatus):
            self._count(case, action)
        return True

    def _count(self, case: Case, action: WriteStatus) -> None:
        """Counts what a run record and its failures have more than before."""
        record = case.record
        if action.record.epoch:
            same = record is not None and record.run == action.record.run
            begun = (record.epoch or 0) if record is not None and same else 0
            self.metrics.epochs.inc(max(0, action.record.epoch - begun))
        if action.failures is not None:
            log = read_log(case.seen.status.data) if case.seen.status is not None else None
            before = {failure.uid for failure in log.failures} if log is not None else set()
            for failure in action.failures.failures:
                if failure.uid not in before:
                    self.metrics.failures.labels(failure.cause.name).inc()

    def _take_in(self, case: Case, body: Mapping[str, Any]) -> None:
        """Labels the ConfigMap that has the name, so that it is seen: people make it without.

        Raises:
            NameTakenError: it holds what no watcher writes, or belongs to somebody else.
        """
        name, namespace = body["metadata"]["name"], case.key[0]
        # To get one would be a right more, and nothing else needs it.
        maps = self.cluster.list(self._maps, namespace, fields=f"metadata.name={name}").items
        if not maps or is_labelled(maps[0], case.run.job.name):
            return
        if reason := why_foreign(maps[0], body, case.seen.config):
            raise NameTakenError(
                f"the ConfigMap {name} is not the watcher's: {reason}; delete or rename it"
            )
        version = maps[0]["metadata"]["resourceVersion"]
        labels = {"labels": body["metadata"]["labels"], "resourceVersion": version}
        live = self._patch(self._maps, name, {"metadata": labels}, namespace)
        message = f"it had no label {JOB_LABEL}={case.run.job.name}: added, and read from now on"
        self.events.emit(namespace, EmitEvent("LabelAdded", message), live["metadata"], version)
        self.store.saw_map(live, answer=True)

    # ---- Pods ----------------------------------------------------------------------------------

    def _on_pods(self, case: Case, actions: Sequence[PodAction]) -> None:
        if not actions:
            return
        compiled = _compiled(case, actions)
        hopeless: dict[str, Exception] = {}

        def on_pod(action: PodAction) -> None:
            """Does it, unless it would be refused for the same reason as another one before."""
            role = action.role if isinstance(action, CreatePod) else ""
            if role and (_EVERY in hopeless or role in hopeless):
                return
            try:
                self._try(case, action, partial(self._on_pod, case, action, compiled))
            except ClusterError as error:
                if error.terminating:
                    hopeless[_EVERY] = error
                elif error.over_quota and role:
                    # Those of a role ask for the same; another role's may need less.
                    hopeless[role] = error
                else:
                    raise

        if len(actions) == 1:
            self._try(case, actions[0], partial(self._on_pod, case, actions[0], compiled))
            return
        running = [self.pool.submit(on_pod, action) for action in actions]
        problems = [future.exception() for future in running]
        for role in hopeless:
            self.memory.of(case.key).ledger.failed_together(
                [
                    _request(case, action)
                    for action in actions
                    if isinstance(action, CreatePod) and role in (_EVERY, action.role)
                ]
            )
        for problem in (*filter(None, problems), *hopeless.values()):
            raise problem

    def _on_pod(self, case: Case, action: PodAction, compiled: _Compiled) -> bool:
        """Does something about a Pod; whether anything is different now."""
        body: dict[str, Any]
        match action:
            case ReplacePod(name, uid):
                deleted = self._delete(case.key, name, uid)
                pod = case.seen.pods.get(name)
                # Others go when their processes have: the next decision creates them.
                if pod is None or pod.view.ended:
                    return self._create_pod(case, action, compiled)
                return deleted
            case CreatePod():
                return self._create_pod(case, action, compiled)
            case DeletePod(name, uid, _, force):
                return self._delete(case.key, name, uid, grace=0 if force else None)
            case TouchPod(_, uid, value):
                body = {"metadata": {"annotations": {TOUCHED: value}, "uid": uid}}
            case NotifyPod(_, uid, notice):
                body = {"metadata": {"annotations": {NOTICE: notice}, "uid": uid}}
            case EndPod(_, uid):
                body = {"spec": {"activeDeadlineSeconds": 1}, "metadata": {"uid": uid}}
            case ReleasePod(_, uid):
                body = {"metadata": {"finalizers": None, "uid": uid}}
        try:
            live = self._patch(self._pods, action.name, body, case.key[0], "Pod")
        except ClusterError as error:
            if error.conflict:
                raise OutdatedError(action.name) from error
            if not error.not_found:
                raise
            return False  # that Pod is gone
        self.store.saw_pod(live, answer=True)
        return True

    def _delete(self, key: JobKey, name: str, uid: str, *, grace: int | None = None) -> bool:
        delete = partial(self.cluster.delete, self._pods, name, key[0], uid=uid, grace=grace)
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

    def _create_pod(self, case: Case, action: ReplacePod | CreatePod, compiled: _Compiled) -> bool:
        value = compiled.get((action.role, action.index))
        if value is None:
            return False  # the job no longer has it
        if action.epoch:
            metadata = value["metadata"]
            annotations = {**(metadata.get("annotations") or {}), EPOCH: action.epoch}
            value = {**value, "metadata": {**metadata, "annotations": annotations}}
        if action.avoid:
            value = self._avoiding(case, value, action)
        try:
            live = self._create(value)
        except ClusterError as error:
            if not error.already_exists:
                raise
            self._check_name(case, value)
            return False
        self.store.saw_pod(live, answer=True)
        self.metrics.replacements.labels(action.reason).inc()
        before = action.lost if isinstance(action, CreatePod) and action.lost else action.name
        # The last Pod of that name, and when it was seen to fail or to go.
        view, lost = None, None
        if (pod := case.seen.pods.get(before)) is not None:
            view, lost = pod.view, pod.since
        elif (gone := case.seen.gone.get(before)) is not None:
            view, lost = gone.pod, gone.at
        took = ""
        if lost is not None:
            seconds = max(0.0, self.cluster.now() - lost)
            self.metrics.replacement_seconds.observe(seconds)
            took = f" in {seconds:.1f} s"
        what = "recreated" if before == action.name else f"{action.name} created instead"
        ended = how_it_ended(view, action.reason) if view is not None else "missing"
        say(logging.INFO, case.key, f"{ended}: {what}{took}", pod=before, reason=REPLACED)
        self._look_up_services(case, live)
        return True

    def _look_up_services(self, case: Case, pod: Mapping[str, Any]) -> None:
        """Looks up the Services by which a new Pod is found; no replacement waits for that."""
        about, spec = pod["metadata"], pod["spec"]
        names = {about["name"], spec.get("hostname"), spec.get("subdomain")}
        memory = self.memory.of(case.key)
        for service in case.run.service_names & names:
            # All Pods of a job may have the same.
            if service not in memory.run.services:
                memory.run.services.add(service)
                self.pool.submit(self._report_service, case.key, memory, service, about)

    def _report_service(
        self, key: JobKey, memory: JobMemory, name: str, pod: Mapping[str, Any]
    ) -> None:
        """Reports once that a Service is missing: only Git, or who applies the job, creates it."""
        try:
            resource = self.cluster.resource("v1", "Service")
            service = self.cluster.get(resource, name, key[0], metadata_only=True)
        except ClusterError:
            return  # nothing is known
        finally:
            memory.run.services.discard(name)
        if service is not None:
            memory.ledger.resolved(f"Service {name}")
        elif memory.ledger.is_news(f"Service {name}", ""):
            message = (
                f"other Pods cannot find it by name: the Service {name} is missing; `etcompile "
                "apply`, or the tool that syncs Git, creates it again"
            )
            event = EmitEvent("MissingService", message, pod["name"], pod["uid"], warning=True)
            self.events.report(key, event, {}, pod["uid"])

    def _avoiding(
        self, case: Case, value: Mapping[str, Any], action: ReplacePod | CreatePod
    ) -> Mapping[str, Any]:
        """A Pod that avoids nodes, or as it was, with an Event that it cannot."""
        pod = avoiding(value, action.avoid, git_managed=case.run.git_managed)
        if pod is not None:
            return pod
        message = (
            f"{action.name} is recreated and may come to a node that failed before "
            f"({', '.join(action.avoid)}): its template has node affinities of its own, and a tool "
            "that syncs Git would want these"
        )
        event = EmitEvent("NodeNotAvoided", message, warning=True)
        metadata = case.seen.config.metadata if case.seen.config else {}
        self.events.emit(case.key[0], event, metadata, action.name)
        return value

    def _check_name(self, case: Case, wanted: Mapping[str, Any]) -> None:
        """Looks at the Pod that has the name: the one that goes, or one that somebody made."""
        name = wanted["metadata"]["name"]
        live = self._look(case.key[0], name)
        if live is None:
            raise OutdatedError(name)
        if is_going(live):
            return
        ours = wanted["metadata"]["annotations"][SPEC_HASH]
        if (live["metadata"].get("annotations") or {}).get(SPEC_HASH) != ours:
            raise NameTakenError(f"a Pod of another run or owner is named {name}")
        if (live["metadata"].get("labels") or {}).get(JOB_LABEL) != case.key[1]:
            # Somebody has taken it out of the job, and no other Pod can have its name.
            label = f"{JOB_LABEL}={case.key[1]}"
            lacks = f"the Pod {name} does not have the label {label} any more"
            raise NameTakenError(f"{lacks}: put it back, or delete the Pod")

    def _look(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        live = self.cluster.get(self._pods, name, namespace)
        if live is not None:
            self.store.saw_pod(live, answer=True)
        return live

    # ---- requests ------------------------------------------------------------------------------

    @property
    def _pods(self) -> Any:
        return self.cluster.resource("v1", "Pod")

    @property
    def _maps(self) -> Any:
        return self.cluster.resource("v1", "ConfigMap")

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

    def _patch(
        self, resource: Any, name: str, change: Any, namespace: str, kind: str = "ConfigMap"
    ) -> Any:
        patch = partial(
            self.cluster.patch, resource, name, change, namespace, field_manager=WATCHER
        )
        return self._send("patch", kind, patch)

    def _send(self, verb: str, kind: str, request: Callable[[], Any]) -> Any:
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


def _request(case: Case, action: Action) -> Request:
    """What an action asks for, the same when it is decided again.

    A map that somebody has changed meanwhile is another one. Empty for what is never held.
    """
    match action:
        case WriteStatus():
            return "status", str(case.seen.status.version if case.seen.status else 0)
        case WriteHosts():
            return "hosts", str(case.seen.hosts.version if case.seen.hosts else 0)
        case CreatePod() | ReplacePod():
            return "create", action.name
        case DeletePod() | TouchPod() | NotifyPod() | EndPod() | ReleasePod():
            return type(action).__name__, action.name
    return "", ""


def _is_protected(metadata: Mapping[str, Any]) -> bool:
    """Whether somebody has said that an object must not be deleted (docs/apply.md)."""
    from etcompile.plan.owners import PREVENT_DESTROY  # noqa: PLC0415 - seldom needed

    return (metadata.get("annotations") or {}).get(PREVENT_DESTROY) == "true"


def phase_of(action: Action) -> Phase:
    """What may be carried out together."""
    match action:
        case EmitEvent() | ReadLog() | ReadTail() | ReadEpochs() | Requeue():
            return "reports"
        case WriteHosts() | TouchPod():
            return "lists"
        case WriteStatus():
            return "record"
        case RemoveJob():
            return "removal"
    return "pods"


def _compiled(case: Case, actions: Sequence[PodAction]) -> _Compiled:
    """The Pods that actions create, by role and index; a role's are compiled together."""
    wanted: dict[str, list[int | None]] = {}
    compiled: dict[tuple[str, int | None], Mapping[str, Any]] = {}
    for action in actions:
        if isinstance(action, CreatePod) and action.undeclared is not None:
            pod = case.run.undeclared_pod(action.role, action.undeclared, action.name)
            # No tool knows it: it goes when the job goes.
            compiled[action.role, action.index] = owned(pod, case.seen.config)
        elif isinstance(action, ReplacePod | CreatePod):
            wanted.setdefault(action.role, []).append(action.index)
    for role, indexes in wanted.items():
        pods = case.run.pods(role, indexes, case.seen.tracking)
        compiled.update({(role, index): pod for index, pod in pods})
    return compiled
