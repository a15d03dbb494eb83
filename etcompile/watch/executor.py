"""Actions of the rules to requests, in their order.

Each request names what it was decided on: a UID, a resource version, or that nothing is there. So
it does nothing if that is no longer so, and sending it twice does what sending it once does. What
it is answered with is seen at once, as if an event had told it. Nothing is sent again here: after
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

from msgspec import Struct, structs

from etcompile.failures import read_log
from etcompile.k8s.objects import is_going, seconds
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.model.protocol import (
    EPOCH,
    JOB_LABEL,
    NOTICE,
    SPEC_HASH,
    hosts_name,
    is_config,
    status_name,
)
from etcompile.model.run_record import RunRecord
from etcompile.model.supervision import UNSUPERVISED, UNSUPERVISED_EVENT, epoch_line
from etcompile.watch.actions import (
    REPLACED,
    Action,
    CreatePod,
    DeletePod,
    EmitEvent,
    EndPod,
    NotifyPod,
    ReadEpochs,
    ReadLog,
    ReadTail,
    RemoveJob,
    ReplacePod,
    Requeue,
    TouchPod,
    WriteHosts,
    WriteStatus,
)
from etcompile.watch.events import Events
from etcompile.watch.leader_election import MANAGER
from etcompile.watch.logs import say
from etcompile.watch.maps import change, is_labelled, owned, why_foreign, written
from etcompile.watch.memory import JobMemory, Memory
from etcompile.watch.metrics import Metrics
from etcompile.watch.node_affinity import avoiding
from etcompile.watch.run_pods import StoredRun
from etcompile.watch.state import TOUCHED, LogActivity, PodView, Tail, how_it_ended
from etcompile.watch.store import SeenJob, SeenMap, Store
from etcompile.watch.workqueue import LONGEST, JobKey

Outcome = Literal["nothing", "some", "all"]
"""Of actions: none of them wrote anything, some were left for later, or all were carried out."""

PodAction = ReplacePod | CreatePod | DeletePod | TouchPod | NotifyPod | EndPod
_LIST_AGAIN = 1.0
"""Seconds until a host list is written again, at most: who is gone must not stay listed."""
_JUST_MADE = 60.0
"""Seconds in which a Pod is taken back that came while its job was being deleted."""
_EPOCHS_AFTER_FAILURE = 300.0
"""Seconds until a log is read again for epochs that could not be read."""
_EPOCHS_AT_ONCE = 16 * 2**20
"""Bytes of a log that are read at once; the rest is read at the next look."""
_MOST_EPOCHS = 16
"""Lines about epochs that are kept of a log."""
_CONFIG_MAP = ("v1", "ConfigMap")
_EVERY = "*"
"""Stands for all roles."""
_Made = Mapping[tuple[str, int | None], Mapping[str, Any]]


class NotLeaderError(Exception):
    """This watcher may not act, or not any more."""


class OutdatedError(Exception):
    """What was decided on is not what is there."""


class NameTakenError(Exception):
    """What is not the job's has the name of what is to be created.

    Attributes:
        told: What has the name, in a sentence.
    """

    def __init__(self, name: str, told: str = "") -> None:
        super().__init__(name)
        self.told = told or f"a Pod of another run or owner is named {name}"


class NotRemovedError(Exception):
    """What is left of a job may not be removed: the API server or an annotation forbids it."""


class Case(Struct, frozen=True):
    """A job, and what was known of it when its actions were decided.

    Args:
        key: The job.
        run: What its ConfigMap says.
        seen: What was known.
        record: Its run record; None if there is none that can be read.
    """

    key: JobKey
    run: StoredRun
    seen: SeenJob
    record: RunRecord | None


class ActionExecutor:
    """Does what was decided; safe to share between threads.

    Args:
        cluster: The cluster. Its requests should be sent once.
        observations: Who is told of the answers.
        may: Whether this watcher may act, now.
        metrics: What counts.
        events: Who tells people.
        beside: Where requests about several Pods of a job run side by side.
        hurry: Whether other jobs than this one wait for a look.
        memory: What was refused, and is not sent again before its time.
    """

    def __init__(
        self,
        cluster: Cluster,
        observations: Store,
        may: Callable[[], bool],
        metrics: Metrics,
        events: Events,
        beside: Executor,
        hurry: Callable[[JobKey], bool],
        memory: Memory,
    ) -> None:
        self._cluster = cluster
        self._observations = observations
        self._may = may
        self._metrics = metrics
        self._events = events
        self._beside = beside
        self._hurry = hurry
        self._memory = memory

    def act(self, case: Case, actions: Sequence[Action]) -> Outcome:
        """Carries out actions, in their order; those on Pods that stand together side by side.

        While other jobs wait, the host lists of one whose Pods were made are left to a later look:
        they may be a moment late, and by then they may be one write and not two. They do not wait
        for what fails, a Pod or the record: who is gone must not stay listed. What could not be
        recorded is not done, nor told of.

        Args:
            case: What they were decided on.
            actions: What is to be done, in this order.

        Raises:
            ClusterError: a request failed; what came after it was left.
            NotLeaderError: this watcher may not act.
            OutdatedError: somebody else has written meanwhile, and no event has told of it yet.
            NameTakenError: a Pod of somebody else is in the way.
        """
        outcome: Outcome = "nothing"
        made = late = unrecorded = False
        problem: Exception | None = None
        told = [action for action in actions if isinstance(action, EmitEvent)]
        ledger = self._memory.of(case.key).ledger
        ledger.keep({_what(case, action) for action in actions})
        for part, group in groupby(actions, key=_part):
            these = [action for action in group if not ledger.holds(_what(case, action))]
            if not these:
                unrecorded = unrecorded or part == "record"
            elif part == "telling":
                # What was not recorded is decided anew, and told of then.
                self._tell(
                    case, [action for action in these if not (unrecorded and action in told)]
                )
            elif part == "pods" and unrecorded:
                continue
            elif part == "lists" and made and self._hurry(case.key):
                late = True
            else:
                outcome = "all"
                made = made or part == "pods"
                try:
                    self._carry_out(case, these)
                except (ClusterError, NameTakenError, OutdatedError) as error:
                    if part == "record" and isinstance(error, OutdatedError):
                        raise
                    if part == "record" and _may_be_done(error):
                        self._tell(case, told)
                    unrecorded = unrecorded or part == "record"
                    problem = problem or error
        if problem is not None:
            raise problem
        return "some" if late else outcome

    def _carry_out(self, case: Case, actions: Sequence[Action]) -> None:
        """Writes ConfigMaps, and then does what is to be done with Pods."""
        for action in actions:
            if isinstance(action, WriteStatus | WriteHosts):
                self._tried(case, action, partial(self._write_map, case, action))
            elif isinstance(action, RemoveJob):
                self._remove_job(case)
        about_pods = [about_pod for about_pod in actions if isinstance(about_pod, PodAction)]
        if about_pods:
            self._on_pods(case, about_pods)

    def _tell(self, case: Case, actions: Sequence[Action]) -> None:
        config, status = case.seen.config, case.seen.status
        metadata = config.value["metadata"] if config else {}
        version = str(status.version if status else 0)
        for action in actions:
            if isinstance(action, EmitEvent) and action.reason == REPLACED:
                self._events.tell(case.key[0], action, metadata, version)  # logged once it is
            elif isinstance(action, EmitEvent):
                self._events.report(case.key, action, metadata, version)
            elif isinstance(action, ReadLog):
                self._ask(case.key, action)
            elif isinstance(action, ReadTail):
                self._ask_for_tail(case.key, action)
            elif isinstance(action, ReadEpochs):
                self._read_epochs(case.key, action)

    def make_secrets(self, case: Case) -> None:
        """Creates the Secrets that a job's Pods wait for, if they are not there.

        Raises:
            ClusterError: a request failed.
            NotLeaderError: this watcher may not act.
        """
        for value in case.run.secrets():
            secret = owned(value, case.seen.config)
            try:
                # A key pair costs something, and nearly always there is one already. Without any
                # key a Secret of the type kubernetes.io/ssh-auth would be refused.
                blank = {**secret, "stringData": {"ssh-privatekey": "none"}}
                self._write("create", value, partial(self._create, blank, dry=True))
                self._write("create", value, partial(self._create, _keyed(secret)))
            except ClusterError as error:
                if not error.already_exists:
                    raise

    def learn(self, case: Case, pods: Iterable[PodView]) -> bool:
        """Asks what admission, which may rewrite images, makes of Pods like these; whether it said.

        A dry run shows it, once a role.
        """
        run, news = case.run, False
        for pod in pods:
            if not pod.ended or pod.name not in run.names or pod.role in run.admitted:
                continue
            run.admitted[pod.role] = None
            for _, value in run.pods(pod.role, [pod.index], case.seen.tracking):
                tried = {**value, "metadata": {**value["metadata"], "name": f"{pod.name}-dry-run"}}
                with suppress(ClusterError):  # else nothing is known, and the Pod stays a stranger
                    live = self._write("create", tried, partial(self._create, tried, dry=True))
                    run.admits(pod.role, live)
                    news = True
        return news

    def take_back(self, key: JobKey, seen: SeenJob) -> None:
        """Deletes the Pods that a watcher has just made of a job that is not declared any more.

        Somebody has deleted the job's Pods, and then the job: nobody wants what came in between.

        Args:
            key: The job.
            seen: What is known of it; there is no ConfigMap that declares it.

        Raises:
            ClusterError: a request failed.
            NotLeaderError: this watcher may not act.
        """
        since = self._cluster.now() - _JUST_MADE
        views = (pod.view for pod in seen.pods.values())
        made = {
            view.name: view.uid
            for view in views
            if view.made_here and not view.deleting and view.created >= since
        }
        if made and not self._is_declared(key):
            for name, uid in made.items():
                self._delete(key, name, uid)
                say(logging.INFO, key, "deleted: just created, and the job is gone", pod=name)

    def _is_declared(self, key: JobKey) -> bool:
        """Whether there is a job, as the API server knows it now."""
        found = self._cluster.list(
            self._maps, key[0], labels=f"{JOB_LABEL}={key[1]}", metadata_only=True
        )
        return any(is_config(item["metadata"]) for item in found.items)

    def _remove_job(self, case: Case) -> None:
        """Deletes all that was made for a job, its own ConfigMap last, so that it can go on."""
        config = case.seen.config
        if config is not None and _is_kept(config.value["metadata"]):
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
        """Deletes objects of a kind that are still the job's and not kept."""
        try:
            resource = self._cluster.resource(version, kind)
        except ClusterError as error:
            if error.not_found:
                return  # the cluster has no such kind any more
            raise
        namespace, labels = key[0], f"{JOB_LABEL}={key[1]}"
        if kind == "Secret":
            # The watcher may read none.
            for name in sorted(names):
                unread = partial(self._cluster.delete_labelled, resource, name, labels, namespace)
                self._write("delete", {"kind": kind}, unread)
            return
        found = self._cluster.list(resource, namespace, labels=labels, metadata_only=True)
        for metadata in (item["metadata"] for item in found.items):
            if metadata["name"] in names and not _is_kept(metadata):
                name, uid = metadata["name"], metadata["uid"]
                delete = partial(self._cluster.delete, resource, name, namespace, uid=uid)
                self._write("delete", {"kind": kind}, delete)

    # ---- ConfigMaps ----------------------------------------------------------------------------

    def _write_map(self, case: Case, action: WriteStatus | WriteHosts) -> bool:
        known = case.seen.status if isinstance(action, WriteStatus) else case.seen.hosts
        self._replace(case, written(action, case.run, case.seen.config), known)
        if isinstance(action, WriteStatus):
            self._count(case, action)
        return True

    def _count(self, case: Case, action: WriteStatus) -> None:
        """Counts what a run record and its failures have more than before."""
        data = case.seen.status.data if case.seen.status is not None else {}
        if action.record.epoch:
            record = case.record
            same = record is not None and record.run == action.record.run
            begun = (record.epoch or 0) if record is not None and same else 0
            self._metrics.epochs.inc(max(0, action.record.epoch - begun))
        if action.failures is not None:
            log = read_log(data)
            before = {failure.uid for failure in log.failures} if log is not None else set()
            for failure in action.failures.failures:
                if failure.uid not in before:
                    self._metrics.failures.labels(failure.cause.name).inc()

    def _replace(self, case: Case, body: Mapping[str, Any], known: SeenMap | None) -> None:
        """Writes a ConfigMap that only watchers write, unless another one has meanwhile."""
        name, namespace = body["metadata"]["name"], case.key[0]
        # A merge patch costs the API server half of what a server-side apply does.
        try:
            if known is None:
                request = partial(self._create, body)
            else:
                request = partial(
                    self._cluster.patch,
                    self._maps,
                    name,
                    change(body, known),
                    namespace,
                    field_manager=MANAGER,
                )
            live = self._write("create" if known is None else "patch", body, request)
        except ClusterError as error:
            if not (error.conflict or error.already_exists or error.not_found):
                raise
            if known is None and error.already_exists:
                self._take_in(case, body)
            # What is there now is on its way here: the stream tells of every change.
            raise OutdatedError(name) from error
        self._observations.saw_map(live, answer=True)

    def _take_in(self, case: Case, body: Mapping[str, Any]) -> None:
        """Labels the ConfigMap that has the name, so that it is seen: people make it without.

        Raises:
            NameTakenError: it holds what no watcher writes, or belongs to somebody else.
        """
        name, namespace = body["metadata"]["name"], case.key[0]
        # To get one would be a right more, and nothing else needs it.
        found = self._cluster.list(self._maps, namespace, fields=f"metadata.name={name}").items
        if not found or is_labelled(found[0], case.run.job.name):
            return
        if reason := why_foreign(found[0], body, case.seen.config):
            raise NameTakenError(
                name, f"the ConfigMap {name} is not the watcher's: {reason}; delete or rename it"
            )
        version = found[0]["metadata"]["resourceVersion"]
        labels = {"labels": body["metadata"]["labels"], "resourceVersion": version}
        live = self._write(
            "patch",
            body,
            lambda: self._cluster.patch(
                self._maps, name, {"metadata": labels}, namespace, field_manager=MANAGER
            ),
        )
        told = f"it had no label {JOB_LABEL}={case.run.job.name}: added, and read from now on"
        self._events.tell(namespace, EmitEvent("LabelAdded", told), live["metadata"], version)
        self._observations.saw_map(live, answer=True)

    # ---- Pods ----------------------------------------------------------------------------------

    def _on_pods(self, case: Case, actions: Sequence[PodAction]) -> None:
        made = _made(case, actions)
        if len(actions) == 1:
            self._on_pod(case, actions[0], made)
            return
        hopeless: dict[str, Exception] = {}
        todo = partial(self._unless_hopeless, case, made, hopeless)
        running = [self._beside.submit(todo, action) for action in actions]
        problems = [future.exception() for future in running]
        for role in hopeless:
            alike = [creation for creation in actions if isinstance(creation, CreatePod)]
            names = [_what(case, creation) for creation in alike if role in (_EVERY, creation.role)]
            self._memory.of(case.key).ledger.failed_alike(names)
        for problem in (*filter(None, problems), *hopeless.values()):
            raise problem

    def _unless_hopeless(
        self, case: Case, made: _Made, hopeless: dict[str, Exception], action: PodAction
    ) -> None:
        """Does it, unless it would be refused for the same reason as another one before."""
        role = action.role if isinstance(action, CreatePod) else ""
        if role and (_EVERY in hopeless or role in hopeless):
            return
        try:
            self._on_pod(case, action, made)
        except ClusterError as error:
            if error.terminating:
                hopeless[_EVERY] = error
            elif error.over_quota and role:
                # Those of a role ask for the same; another role's may need less.
                hopeless[role] = error
            else:
                raise

    def _on_pod(self, case: Case, action: PodAction, made: _Made) -> None:
        self._tried(case, action, partial(self._did, case, action, made))

    def _tried(self, case: Case, action: Action, request: Callable[[], bool]) -> None:
        """Sends a request, and holds the next one like it if it was refused or changed nothing."""
        what, ledger = _what(case, action), self._memory.of(case.key).ledger
        longest = _LIST_AGAIN if isinstance(action, WriteHosts) else LONGEST
        try:
            done = request()
        except (ClusterError, NameTakenError, OutdatedError):
            ledger.failed(what, longest)
            raise
        if done:
            ledger.succeeded(what)
        else:
            ledger.failed(what, longest)

    def _did(self, case: Case, action: PodAction, made: _Made) -> bool:
        """Does something about a Pod; whether anything is different now."""
        match action:
            case ReplacePod(name, uid):
                done = self._delete(case.key, name, uid)
                pod = case.seen.pods.get(name)
                # Others go when their processes have: the next decision creates them.
                if pod is None or pod.view.ended:
                    return self._create_pod(case, action, made)
                return done
            case CreatePod():
                return self._create_pod(case, action, made)
            case DeletePod(name, uid, _, force):
                return self._delete(case.key, name, uid, grace=0 if force else None)
            case TouchPod(name, uid, value):
                return self._patch(case, name, uid, {}, {"annotations": {TOUCHED: value}})
            case NotifyPod(name, uid, notice):
                return self._patch(case, name, uid, {}, {"annotations": {NOTICE: notice}})
            case EndPod(name, uid):
                return self._patch(case, name, uid, {"spec": {"activeDeadlineSeconds": 1}}, {})

    def _delete(self, key: JobKey, name: str, uid: str, *, grace: int | None = None) -> bool:
        namespace = key[0]
        value = _pod_named(namespace, name)
        try:
            there = self._write(
                "delete",
                value,
                lambda: self._cluster.delete(self._pods, name, namespace, uid=uid, grace=grace),
            )
        except ClusterError as error:
            if not error.conflict:
                raise
            found = self._look(namespace, name)
            if found is not None and found["metadata"]["uid"] == uid:
                raise OutdatedError(name) from error
            return False  # another Pod has the name, or none: the one that was to go is gone
        self._observations.leaves(key, name, uid)
        return bool(there)

    def _create_pod(self, case: Case, action: ReplacePod | CreatePod, made: _Made) -> bool:
        value = made.get((action.role, action.index))
        if value is None:
            return False  # the job no longer has it
        if action.epoch:
            metadata = value["metadata"]
            annotations = {**(metadata.get("annotations") or {}), EPOCH: action.epoch}
            value = {**value, "metadata": {**metadata, "annotations": annotations}}
        if action.avoid:
            value = self._avoiding(case, value, action)
        try:
            live = self._write("create", value, lambda: self._create(value))
        except ClusterError as error:
            if not error.already_exists:
                raise
            self._judge(case, value)
            return False
        self._observations.saw_pod(live, answer=True)
        self._metrics.replacements.labels(action.reason).inc()
        before = action.lost if isinstance(action, CreatePod) and action.lost else action.name
        view, lost = _last_of(case.seen, before)
        took = ""
        if lost is not None:
            seconds = max(0.0, self._cluster.now() - lost)
            self._metrics.replacement_seconds.observe(seconds)
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
        memory = self._memory.of(case.key)
        for service in case.run.service_names & names:
            # All Pods of a job may have the same.
            if service not in memory.run.services:
                memory.run.services.add(service)
                self._beside.submit(self._report_service, case.key, memory, service, about)

    def _report_service(
        self, key: JobKey, memory: JobMemory, name: str, pod: Mapping[str, Any]
    ) -> None:
        """Reports once that a Service is missing: only Git, or who applies the job, creates it."""
        try:
            resource = self._cluster.resource("v1", "Service")
            found = self._cluster.get(resource, name, key[0], metadata_only=True)
        except ClusterError:
            return  # nothing is known
        finally:
            memory.run.services.discard(name)
        if found is not None:
            memory.ledger.resolved(f"Service {name}")
        elif memory.ledger.is_news(f"Service {name}", ""):
            message = (
                f"other Pods cannot find it by name: the Service {name} is missing; `etcompile "
                "apply`, or the tool that syncs Git, creates it again"
            )
            event = EmitEvent("MissingService", message, pod["name"], pod["uid"], warning=True)
            self._events.report(key, event, {}, pod["uid"])

    def _avoiding(
        self, case: Case, value: Mapping[str, Any], action: ReplacePod | CreatePod
    ) -> Mapping[str, Any]:
        """A Pod that avoids nodes, or as it was with word that it cannot."""
        found = avoiding(value, action.avoid, git_managed=case.run.git_managed)
        if found is not None:
            return found
        config = case.seen.config
        told = (
            f"{action.name} is recreated and may come to a node that failed before "
            f"({', '.join(action.avoid)}): its template has node affinities of its own, and a tool "
            "that syncs Git would want these"
        )
        metadata = config.value["metadata"] if config else {}
        self._events.tell(
            case.key[0], EmitEvent("NodeNotAvoided", told, warning=True), metadata, action.name
        )
        return value

    def _judge(self, case: Case, wanted: Mapping[str, Any]) -> None:
        """Looks at the Pod that has the name: the one that goes, or one that somebody made."""
        name = wanted["metadata"]["name"]
        found = self._look(case.key[0], name)
        if found is None:
            raise OutdatedError(name)
        ours = wanted["metadata"]["annotations"][SPEC_HASH]
        theirs = (found["metadata"].get("annotations") or {}).get(SPEC_HASH)
        if is_going(found):
            return
        if theirs != ours:
            raise NameTakenError(name)
        if (found["metadata"].get("labels") or {}).get(JOB_LABEL) != case.key[1]:
            # Somebody has taken it out of the job, and no other Pod can have its name.
            label = f"{JOB_LABEL}={case.key[1]}"
            lacks = f"the Pod {name} does not have the label {label} any more"
            words = f"{lacks}: put it back, or delete the Pod"
            raise NameTakenError(name, words)

    def _look(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        found = self._cluster.get(self._pods, name, namespace)
        if found is not None:
            self._observations.saw_pod(found, answer=True)
        return found

    def _patch(
        self,
        case: Case,
        name: str,
        uid: str,
        change: Mapping[str, Any],
        metadata: Mapping[str, Any],
    ) -> bool:
        namespace = case.key[0]
        body = {**change, "metadata": {**metadata, "uid": uid}}
        try:
            live = self._write(
                "patch",
                _pod_named(namespace, name),
                lambda: self._cluster.patch(
                    self._pods, name, body, namespace, field_manager=MANAGER
                ),
            )
        except ClusterError as error:
            if error.conflict:
                raise OutdatedError(name) from error
            if not error.not_found:
                raise
            return False  # that Pod is gone
        self._observations.saw_pod(live, answer=True)
        return True

    # ---- logs ----------------------------------------------------------------------------------

    def _ask(self, key: JobKey, action: ReadLog) -> None:
        """Asks for the end of a log, and does not wait: its node may not answer."""
        asked = self._cluster.now()
        saw = partial(self._observations.saw_log, key, action.name, action.uid)
        saw(LogActivity(asked), news=False)

        def listen() -> None:
            try:
                line = self._cluster.last_line(action.name, action.container, key[0])
                time, _, text = line.partition(" ")
                at = seconds(time) if line else 0.0
            except (ClusterError, ValueError) as error:
                say(logging.WARNING, key, f"its log cannot be read: {error}", pod=action.name)
                return
            saw(LogActivity(asked, at, text), news=at is not None)

        self._beside.submit(listen)

    def _ask_for_tail(self, key: JobKey, action: ReadTail) -> None:
        """Asks for the last lines of a log, and does not wait either."""
        saw = partial(self._observations.saw_log, key, action.name, action.uid)
        saw(Tail(action.of), news=False)

        def listen() -> None:
            lines: tuple[str, ...] = ()
            try:
                lines = tuple(
                    self._cluster.last_lines(action.name, action.container, action.most, key[0])
                )
            except ClusterError as error:
                if error.status == 403:
                    say(logging.INFO, key, "the watcher may not read its log", pod=action.name)
                else:
                    say(logging.WARNING, key, f"its log cannot be read: {error}", pod=action.name)
            saw(Tail(action.of, lines), news=True)

        self._beside.submit(listen)

    def _read_epochs(self, key: JobKey, action: ReadEpochs) -> None:
        """Reads what a log has about epochs since the last time, and does not wait."""
        known = action.known
        saw = partial(self._observations.saw_log, key, action.name, action.uid)
        saw(known, news=False)

        def listen() -> None:
            time, lines = action.since, [*known.lines]
            try:
                for line in self._cluster.log(
                    action.name, action.container, key[0], since=time, limit=_EPOCHS_AT_ONCE
                ):
                    time, _, text = line.partition(" ")
                    if text.startswith(UNSUPERVISED) and not known.until:
                        why = text.removeprefix(UNSUPERVISED)
                        event = EmitEvent(
                            UNSUPERVISED_EVENT, why, action.name, action.uid, warning=True
                        )
                        self._events.report(key, event, {}, UNSUPERVISED, f"unsupervised: {why}")
                    if (told := epoch_line(text, seconds(time) or 0.0)) is not None:
                        lines.append(told)
            except ClusterError as error:
                reason = "the watcher may not read its log" if error.status == 403 else str(error)
                say(logging.INFO, key, f"epochs cannot be read: {reason}", pod=action.name)
                due = self._cluster.now() + _EPOCHS_AFTER_FAILURE
                saw(structs.replace(known, due=due), news=False)
                return
            new = tuple(dict.fromkeys(lines))[-_MOST_EPOCHS:]
            until = time if seconds(time) is not None else action.since
            saw(structs.replace(known, until=until, lines=new), news=new != known.lines)

        self._beside.submit(listen)

    # ---- requests ------------------------------------------------------------------------------

    @property
    def _pods(self) -> Any:
        return self._cluster.resource("v1", "Pod")

    @property
    def _maps(self) -> Any:
        return self._cluster.resource("v1", "ConfigMap")

    def _create(self, value: Mapping[str, Any], *, dry: bool = False) -> Any:
        # What was accepted from Git once must be accepted again, and nobody reads its warnings.
        return self._cluster.create(
            value, field_manager=MANAGER, field_validation="Ignore", dry_run=dry
        )

    def _write(self, verb: str, value: Mapping[str, Any], request: Callable[[], Any]) -> Any:
        if not self._may():
            raise NotLeaderError
        counted = self._metrics.writes.labels
        try:
            answer = request()
        except ClusterError as error:
            counted(verb, value["kind"], str(error.status or "none")).inc()
            raise
        counted(verb, value["kind"], "ok").inc()
        return answer


def _what(case: Case, action: Action) -> str:
    """What an action asks for, in words that are the same when it is decided again.

    A map that somebody has changed meanwhile is another one. Empty for what is never held.
    """
    match action:
        case WriteStatus():
            return f"status {case.seen.status.version if case.seen.status else 0}"
        case WriteHosts():
            return f"hosts {case.seen.hosts.version if case.seen.hosts else 0}"
        case CreatePod() | ReplacePod():
            return f"create {action.name}"
        case DeletePod() | TouchPod() | NotifyPod() | EndPod():
            return f"{type(action).__name__} {action.name}"
    return ""


def _may_be_done(problem: Exception) -> bool:
    """Whether a write may have been carried out, though nobody said so."""
    return isinstance(problem, ClusterError) and (problem.status or 500) >= 500


def _is_kept(metadata: Mapping[str, Any]) -> bool:
    """Whether somebody has said that an object must not be deleted (docs/apply.md)."""
    from etcompile.plan.owners import PREVENT_DESTROY  # noqa: PLC0415 - seldom needed

    return (metadata.get("annotations") or {}).get(PREVENT_DESTROY) == "true"


def _part(action: Action) -> str:
    """What may be carried out together."""
    match action:
        case EmitEvent() | ReadLog() | ReadTail() | ReadEpochs() | Requeue():
            return "telling"
        case WriteHosts() | TouchPod():
            return "lists"
        case WriteStatus():
            return "record"
        case RemoveJob():
            return "removal"
    return "pods"


def _made(case: Case, actions: Sequence[PodAction]) -> _Made:
    """The Pods that actions create, by role and index; a role's are made together."""
    wanted: dict[str, list[int | None]] = {}
    made: dict[tuple[str, int | None], Mapping[str, Any]] = {}
    for action in actions:
        if isinstance(action, CreatePod) and action.undeclared is not None:
            pod = case.run.undeclared_pod(action.role, action.undeclared, action.name)
            # No tool knows it: it goes when the job goes.
            made[action.role, action.index] = owned(pod, case.seen.config)
        elif isinstance(action, ReplacePod | CreatePod):
            wanted.setdefault(action.role, []).append(action.index)
    for role, indexes in wanted.items():
        remade = case.run.pods(role, indexes, case.seen.tracking)
        made.update({(role, index): pod for index, pod in remade})
    return made


def _pod_named(namespace: str, name: str) -> Mapping[str, Any]:
    return {"kind": "Pod", "metadata": {"namespace": namespace, "name": name}}


def _keyed(value: Mapping[str, Any]) -> dict[str, Any]:
    from etcompile.model.keypair import with_key_pair  # noqa: PLC0415 - cryptography

    return with_key_pair(value)


def _last_of(seen: SeenJob, name: str) -> tuple[PodView | None, float | None]:
    """The last Pod of that name, and when it was seen to fail or to go, in seconds since 1970."""
    if (pod := seen.pods.get(name)) is not None:
        return pod.view, pod.since
    gone = seen.gone.get(name)
    return (gone.pod, gone.at) if gone else (None, None)
