"""Actions of the rules to requests, in their order.

Each request names what it was decided on: a UID, a resource version, or that nothing is there. So
it does nothing if that is no longer so, and sending it twice does what sending it once does. What
it is answered with is seen at once, as if an event had told it. Nothing is sent again here: after
a failure the next decision starts from what is there then.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import groupby
from typing import Any, Literal

from msgspec import Struct

from etcompile.cluster import Cluster, ClusterError
from etcompile.model.protocol import SPEC_HASH
from etcompile.watch.actions import (
    Action,
    CreatePod,
    DeletePod,
    EmitEvent,
    EndPod,
    ReadLog,
    ReplacePod,
    Requeue,
    TouchPod,
    WriteHosts,
    WriteStatus,
)
from etcompile.watch.leading import MANAGER
from etcompile.watch.maps import change, owned, written
from etcompile.watch.metrics import Metrics
from etcompile.watch.observing import Observations, SeenJob, SeenMap
from etcompile.watch.queueing import JobKey
from etcompile.watch.remaking import StoredRun
from etcompile.watch.state import TOUCHED, Heard, seconds
from etcompile.watch.telling import Events

Outcome = Literal["nothing", "some", "all"]
"""Of actions: none of them wrote anything, some were left for later, or all were carried out."""

PodAction = ReplacePod | CreatePod | DeletePod | TouchPod | EndPod
_log = logging.getLogger("etcompile.watch")
_Made = Mapping[tuple[str, int | None], Mapping[str, Any]]


class NotLeadingError(Exception):
    """This watcher may not act, or not any more."""


class OutdatedError(Exception):
    """What was decided on is not what is there."""


class NameTakenError(Exception):
    """A Pod that is not the job's has the name of one that is to be created."""


class Case(Struct, frozen=True):
    """A job, and what was known of it when its actions were decided.

    Args:
        key: The job.
        run: What its ConfigMap says.
        seen: What was known.
    """

    key: JobKey
    run: StoredRun
    seen: SeenJob


class Acting:
    """Does what was decided; safe to share between threads.

    Args:
        cluster: The cluster. Its requests should be sent once.
        observations: Who is told of the answers.
        may: Whether this watcher may act, now.
        metrics: What counts.
        events: Who tells people.
        beside: Where requests about several Pods of a job run side by side.
        hurry: Whether other jobs than this one wait for a look.
    """

    def __init__(
        self,
        cluster: Cluster,
        observations: Observations,
        may: Callable[[], bool],
        metrics: Metrics,
        events: Events,
        beside: Executor,
        hurry: Callable[[JobKey], bool],
    ) -> None:
        self._cluster = cluster
        self._observations = observations
        self._may = may
        self._metrics = metrics
        self._events = events
        self._beside = beside
        self._hurry = hurry

    def act(self, case: Case, actions: Sequence[Action]) -> Outcome:
        """Carries out actions, in their order; those on Pods that stand together side by side.

        While other jobs wait, the host lists of one whose Pods were made are left to a later look:
        they may be a moment late, and by then they may be one write and not two. They do not wait
        for a Pod that the API server refuses, which may be for hours.

        Args:
            case: What they were decided on.
            actions: The actions.

        Returns:
            How far that went.

        Raises:
            ClusterError: a request failed; what came after it was left.
            NotLeadingError: this watcher may not act.
            OutdatedError: somebody else has written meanwhile, and no event has told of it yet.
            NameTakenError: a Pod of somebody else is in the way.
        """
        outcome: Outcome = "nothing"
        made = late = False
        refused: Exception | None = None
        told = [one for one in actions if isinstance(one, EmitEvent)]
        for part, group in groupby(actions, key=_part):
            these = [*group]
            if part == "telling":
                self._tell(case, these)
            elif part == "lists" and made and self._hurry(case.key):
                late = True
            else:
                outcome = "all"
                made = made or part == "pods"
                try:
                    self._carry_out(case, these)
                except (ClusterError, NameTakenError) as error:
                    if part == "record" and _may_be_done(error):
                        self._tell(case, told)
                    if part != "pods" or not _is_final(error):
                        raise
                    refused = error
        if refused is not None:
            raise refused
        return "some" if late else outcome

    def _carry_out(self, case: Case, actions: Sequence[Action]) -> None:
        """Writes ConfigMaps, and then does what is to be done with Pods."""
        for action in actions:
            if isinstance(action, WriteStatus | WriteHosts):
                self._write_map(case, action)
        about_pods = [one for one in actions if isinstance(one, PodAction)]
        if about_pods:
            self._on_pods(case, about_pods)

    def _tell(self, case: Case, actions: Sequence[Action]) -> None:
        config, status = case.seen.config, case.seen.status
        metadata = config.value["metadata"] if config else {}
        version = str(status.version if status else 0)
        for action in actions:
            if isinstance(action, EmitEvent):
                self._events.tell(case.key[0], action, metadata, version)
            elif isinstance(action, ReadLog):
                self._ask(case.key, action)

    def make_secrets(self, case: Case) -> None:
        """Creates the Secrets that a job's Pods wait for, if they are not there.

        Raises:
            ClusterError: a request failed.
            NotLeadingError: this watcher may not act.
        """
        for value in case.run.secrets():
            secret = owned(value, case.seen.config)
            try:
                # A key pair costs something, and nearly always there is one already.
                self._write("create", value, partial(self._create, secret, dry=True))
                self._write("create", value, partial(self._create, _keyed(secret)))
            except ClusterError as error:
                if not error.already_exists:
                    raise

    # ---- ConfigMaps ----------------------------------------------------------------------------

    def _write_map(self, case: Case, action: WriteStatus | WriteHosts) -> None:
        known = case.seen.status if isinstance(action, WriteStatus) else case.seen.hosts
        self._replace(case, written(action, case.run, case.seen.config), known)

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
            # What is there now is on its way here: the stream tells of every change.
            raise OutdatedError(name) from error
        self._observations.saw_map(live, answer=True)

    # ---- Pods ----------------------------------------------------------------------------------

    def _on_pods(self, case: Case, actions: Sequence[PodAction]) -> None:
        made = _made(case, actions)
        if len(actions) == 1:
            self._on_pod(case, actions[0], made)
            return
        running = [self._beside.submit(self._on_pod, case, action, made) for action in actions]
        problems = [one.exception() for one in running]
        for problem in filter(None, problems):
            raise problem

    def _on_pod(self, case: Case, action: PodAction, made: _Made) -> None:
        match action:
            case ReplacePod(name, uid):
                self._delete(case, name, uid)
                pod = case.seen.pods.get(name)
                # Others go when their processes have: the next decision creates them.
                if pod is None or pod.view.ended:
                    self._create_pod(case, action, made)
            case CreatePod():
                self._create_pod(case, action, made)
            case DeletePod(name, uid):
                self._delete(case, name, uid)
            case TouchPod(name, uid, value):
                self._patch(case, name, uid, {}, {"annotations": {TOUCHED: value}})
            case EndPod(name, uid):
                self._patch(case, name, uid, {"spec": {"activeDeadlineSeconds": 1}}, {})

    def _delete(self, case: Case, name: str, uid: str) -> None:
        namespace = case.key[0]
        value = _pod_named(namespace, name)
        try:
            self._write(
                "delete",
                value,
                lambda: self._cluster.delete(self._pods, name, namespace, uid=uid),
            )
        except ClusterError as error:
            if not error.conflict:
                raise
            found = self._look(namespace, name)
            if found is not None and found["metadata"]["uid"] == uid:
                raise OutdatedError(name) from error
            return  # another Pod has the name, or none: the one that was to go is gone
        self._observations.leaves(case.key, name, uid)

    def _create_pod(self, case: Case, action: ReplacePod | CreatePod, made: _Made) -> None:
        value = made.get((action.role, action.index))
        if value is None:
            return  # the job no longer has it
        try:
            live = self._write("create", value, lambda: self._create(value))
        except ClusterError as error:
            if not error.already_exists:
                raise
            self._judge(case, value)
            return
        self._observations.saw_pod(live, answer=True)
        self._metrics.replacements.labels(action.reason).inc()
        before = action.lost if isinstance(action, CreatePod) and action.lost else action.name
        if (lost := _lost_at(case.seen, before)) is not None:
            self._metrics.replacement_seconds.observe(max(0.0, time.time() - lost))

    def _judge(self, case: Case, wanted: Mapping[str, Any]) -> None:
        """Looks at the Pod that has the name: the one that goes, or one that somebody made."""
        name = wanted["metadata"]["name"]
        found = self._look(case.key[0], name)
        if found is None:
            raise OutdatedError(name)
        ours = wanted["metadata"]["annotations"][SPEC_HASH]
        theirs = (found["metadata"].get("annotations") or {}).get(SPEC_HASH)
        if theirs != ours and "deletionTimestamp" not in found["metadata"]:
            raise NameTakenError(name)

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
    ) -> None:
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
            return  # that Pod is gone
        self._observations.saw_pod(live, answer=True)

    # ---- logs ----------------------------------------------------------------------------------

    def _ask(self, key: JobKey, action: ReadLog) -> None:
        """Asks for the end of a log, and does not wait: its node may not answer."""
        asked = time.time()
        self._observations.heard(key, action.name, action.uid, Heard(asked))

        def listen() -> None:
            try:
                line = self._cluster.last_line(action.name, action.container, key[0])
                at = seconds(line.partition(" ")[0]) if line else 0.0
            except (ClusterError, ValueError) as error:
                _log.warning("%s/%s: cannot read the log of %s: %s", *key, action.name, error)
                return
            self._observations.heard(key, action.name, action.uid, Heard(asked, at))

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
            raise NotLeadingError
        counted = self._metrics.writes.labels
        try:
            answer = request()
        except ClusterError as error:
            counted(verb, value["kind"], str(error.status or "none")).inc()
            raise
        counted(verb, value["kind"], "ok").inc()
        return answer


def _is_final(problem: ClusterError | NameTakenError) -> bool:
    """Whether a write was answered, and trying again at once is no use: a quota, a name."""
    return isinstance(problem, NameTakenError) or problem.status == 403 or problem.invalid


def _may_be_done(problem: ClusterError | NameTakenError) -> bool:
    """Whether a write may have been carried out, though nobody said so."""
    return isinstance(problem, ClusterError) and (problem.status or 500) >= 500


def _part(action: Action) -> str:
    """What may be carried out together."""
    match action:
        case EmitEvent() | ReadLog() | Requeue():
            return "telling"
        case WriteHosts() | TouchPod():
            return "lists"
        case WriteStatus():
            return "record"
    return "pods"


def _made(case: Case, actions: Sequence[PodAction]) -> _Made:
    """The Pods that actions create, by role and index; a role's are made together."""
    wanted: dict[str, list[int | None]] = {}
    made: dict[tuple[str, int | None], Mapping[str, Any]] = {}
    for action in actions:
        if isinstance(action, CreatePod) and action.follower is not None:
            pod = case.run.follower(action.role, action.follower)
            if pod is not None:
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
    from etcompile.cluster.rollout.keys import with_key_pair  # noqa: PLC0415 - cryptography

    return with_key_pair(value)


def _lost_at(seen: SeenJob, name: str) -> float | None:
    """When the Pod of that name was seen to fail or to go, in seconds since 1970."""
    if (pod := seen.pods.get(name)) is not None:
        return pod.since
    gone = seen.gone.get(name)
    return gone.at if gone else None
