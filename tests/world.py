"""A cluster as far as the rules know one: Pods, two ConfigMaps, a clock, and no I/O.

Actions are carried out as the API server and a kubelet would: a Pod is deleted only by its UID, a
finished one is gone at once, a running one when its processes are; a name is used once at a time.
What must not happen raises.
"""

import itertools
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import yaml
from msgspec import structs

from etcompile import backend
from etcompile.causes.goodput import Span, Timeline, read_timeline
from etcompile.causes.log import Failure, read_log
from etcompile.compiler.stored import read_stored
from etcompile.k8s.pod_state import BatchView, PodState
from etcompile.model import Job, Member, Settings
from etcompile.model.protocol import EPOCH, STORED_JOB
from etcompile.model.run_record import RunRecord, ranges, read_record, record_data
from etcompile.model.supervision import epoch_line, read_notice
from etcompile.watch.core.run import (
    Action,
    CreatePod,
    DeletePod,
    EmitEvent,
    Gone,
    HostsRecord,
    JobView,
    LogRead,
    PatchPod,
    ReadLog,
    RemoveJob,
    Requeue,
    Timeouts,
    WriteHosts,
    WriteStatus,
)
from specs import compiled, container
from watcher_rules import decide

START = 1_000_000.0
_MANY = 50
"""Decisions in a row that must be enough."""


def stored_job(*documents: dict[str, Any], **options: Any) -> tuple[Job, Settings]:
    """The job of some documents, as the watcher reads it; the same ones are compiled once."""
    key = repr((documents, options))
    if key not in _STORED:
        objects = compiled(*documents, **{"namespace": "ml", **options}).objects
        texts = [one["data"][STORED_JOB] for one in objects if one["kind"] == "ConfigMap"]
        _STORED[key] = read_stored(yaml.safe_load(texts[0]))
    return _STORED[key]


_STORED: dict[str, tuple[Job, Settings]] = {}


def mpi_job(*, elastic: bool = False, version: str = "v1", **spec: Any) -> dict[str, Any]:
    """An MPIJob of the Training Operator or, as `v2beta1`, of the MPI Operator."""
    elastically = ["--host-discovery-script", "/etc/mpi/discover_hosts.sh"] if elastic else []
    command = ["horovodrun", "-np", "2", *elastically, "python", "train.py"]
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "MPIJob",
        "metadata": {"name": "mnist"},
        "spec": {
            "mpiReplicaSpecs": {
                "Launcher": {"template": {"spec": {"containers": [container(command=command)]}}},
                "Worker": {"replicas": 2, "template": {"spec": {"containers": [container()]}}},
            },
            **spec,
        },
    }


def of_replicas(record: RunRecord | None, what: str) -> dict[str, str]:
    """Of each role the replicas of which something is written down, `seen` say, as `0-3,7`."""
    members_by_role: dict[str, list[int]] = {}
    for (role, number), one in record.every_replica() if record is not None else ():
        if getattr(one, what):
            members_by_role.setdefault(role, []).append(number)
    return {role: ranges(members) for role, members in members_by_role.items()}


def stamped(at: float, text: str) -> str:
    return f"{datetime.fromtimestamp(at, UTC).isoformat()} {text}"


class World:
    """A cluster with one job.

    Args:
        git: A tool syncs Git: it creates what is declared and missing, when `sync` is called.
        start: Create the job's Pods and let them get Ready.
    """

    def __init__(
        self,
        *documents: dict[str, Any],
        git: bool = False,
        timeouts: Timeouts | None = None,
        start: bool = True,
        **options: Any,
    ) -> None:
        self.documents, self.options = documents, options
        self.job, self.settings = stored_job(*documents, **options)
        self.git = git
        self.timeouts = timeouts or Timeouts()
        self.now = START
        self.pods: dict[str, PodState] = {}
        self.gone: dict[str, Gone] = {}
        self.status: dict[str, str] | None = None
        self.hosts: HostsRecord | None = None
        self.batch: BatchView | None = None
        self.watched_since = START
        self.declared_at: float | None = None
        self.events: list[EmitEvent] = []
        self.done: list[Action] = []
        self.ends_with_0: set[str] = set()
        self.deleted: list[str] = []
        self.hosts_written: list[tuple[float, HostsRecord, str | None]] = []
        self.removed = False
        self.failed: dict[str, set[str]] = {}
        self.followers: set[str] = set()
        self.words: dict[str, float | None] = {}
        self.config_uid = "config-1"
        self.config_created = START
        self._facts: tuple[Job, str, dict[str, tuple[str, Member]]] | None = None
        self.known_logs: dict[str, dict[str, LogRead]] = {}
        self.logs: dict[str, list[tuple[float, str]]] = {}
        self.annotated: dict[str, str] = {}
        self._uids = itertools.count(1)
        if start:
            self.sync()
            self.get_ready()
            self.settle()
            self.done.clear()

    # ---- what is there -------------------------------------------------------------------------

    @property
    def spec_hash(self) -> str:
        return self._of_job()[0]

    @property
    def record(self) -> RunRecord:
        record = read_record(self.status or {})
        assert record is not None, "nothing is written down yet"
        return record

    @property
    def failures(self) -> tuple[Failure, ...]:
        log = read_log(self.status or {})
        return log.failures if log is not None else ()

    @property
    def timeline(self) -> Timeline:
        """When the run was in training, as far as it is written down."""
        timeline = read_timeline(self.status or {})
        assert timeline is not None, "nothing is written down of it"
        return timeline

    @property
    def declared(self) -> list[str]:
        return [
            role.pod_name(member)
            for role in self.job.roles
            if not role.batch
            for member in role.members
        ]

    @property
    def listed(self) -> list[str]:
        """The first names of the hosts in the first live list."""
        lines = next(iter(self.hosts.data.values())) if self.hosts else ""
        return [line.split(":")[0].split(" ")[0].partition(".")[0] for line in lines.splitlines()]

    def view(self) -> JobView:
        return JobView(
            job=self.job,
            settings=self.settings,
            namespace="ml",
            spec_hash=self.spec_hash,
            pods=dict(self.pods),
            gone=dict(self.gone),
            record=read_record(self.status) if self.status is not None else None,
            notes=self.status or {},
            logs=dict(self.known_logs),
            hosts=self.hosts,
            batch=self.batch,
            git_managed=self.git,
            watched_since=self.watched_since,
            declared_at=self.declared_at,
            timeouts=self.timeouts,
            config_uid=self.config_uid,
            config_created=self.config_created,
        )

    def of(self, kind: type[Any]) -> list[Any]:
        return [one for one in self.done if isinstance(one, kind)]

    def reads(self, purpose: str) -> list[ReadLog]:
        return [one for one in self.of(ReadLog) if one.purpose == purpose]

    def patched(self, what: str) -> list[Any]:
        return [one for one in self.of(PatchPod) if one.what == what]

    def emitted(self, reason: str) -> list[EmitEvent]:
        return [one for one in self.events if one.reason == reason]

    # ---- what people, kubelets and tools do ----------------------------------------------------

    def create(
        self, name: str, role: str = "", follower: Member | None = None, *, here: bool = False
    ) -> None:
        """A Pod of that name: a declared one, or one that follows it; made by the watcher?"""
        if follower is None:
            role, member = self._replica(name)
        else:
            member = follower
            self.followers.add(name)
        role_spec = self.job.role(role)
        rank = member.place if role_spec is not None and role_spec.labels.rank else None
        uid = f"uid-{next(self._uids)}"
        run = self.spec_hash
        pod = PodState(name, uid, role, member.index, run, created=self.now, rank=rank)
        queued = self.settings.gang == "kueue"
        self.pods[name] = structs.replace(pod, created_here=here, held_by_queue=queued)
        self.gone.pop(name, None)

    def sync(self) -> None:
        """Whoever applies the job creates what is missing; a tool for Git also prunes."""
        for name in () if self.job.run.suspended else self.declared:
            if name not in self.pods:
                self.create(name)
        if self.git:
            declared = () if self.job.run.suspended else self.declared
            known = {*self.pods} - self.followers
            for name in sorted(known - {*declared}):
                self.vanish(name)

    def get_ready(self, *names: str) -> None:
        for name in names or [*self.pods]:
            pod = self.pods[name]
            if pod.phase in ("Pending", "Running") and not pod.deleting:
                facts: dict[str, Any] = {"phase": "Running", "ready": True}
                if not pod.spans:
                    facts["spans"] = (Span(self._main(pod), self.now),)
                self.change(name, ready_since=self.now, **facts)

    def change(self, name: str, **fields: Any) -> None:
        self.pods[name] = structs.replace(self.pods[name], **fields)

    def fail(self, name: str, code: int | None = 1, **fields: Any) -> None:
        role = self.job.role(self.pods[name].role)
        assert role is not None
        exits = () if code is None else ((role.template.main, code),)
        self.failed.setdefault(role.name, set()).add(self.pods[name].uid)
        self._stop(name)
        self.change(name, **{"phase": "Failed", "ready": False, "exits": exits, **fields})

    def evict(self, name: str, code: int | None = None) -> None:
        self.fail(name, code, reason="Evicted", disrupted=True)

    def says(self, name: str, text: str, *, ended: bool = False) -> None:
        """The supervisor of a Pod writes a line; is it the end of the container, too?"""
        self.logs.setdefault(self.pods[name].uid, []).append((self.now, f"etcompile: {text}"))
        line = epoch_line(f"etcompile: {text}", self.now)
        if ended and line is not None:
            self.change(name, epochs=(*self.pods[name].epochs, line))

    def succeed(self, name: str) -> None:
        self._stop(name)
        self.change(name, phase="Succeeded", ready=False)

    def _main(self, pod: PodState) -> str:
        role = self.job.role(pod.role)
        return role.template.main if role is not None else ""

    def _stop(self, name: str) -> None:
        """The containers of a Pod have ended."""
        spans = self.pods[name].spans
        self.change(name, spans=tuple(structs.replace(s, end=s.end or self.now) for s in spans))

    def delete(self, name: str, code: int = 137) -> None:
        """Somebody deletes a Pod: it is told to stop, fails (or not), and goes."""
        self.change(name, deleting=True)
        self.settle()
        self.change(name, phase="Failed" if code else "Succeeded", ready=False)
        self.settle()
        self.vanish(name)

    def vanish(self, name: str) -> None:
        """The object is gone: with force, or because all is over."""
        self.gone[name] = Gone(self.pods.pop(name), self.now)

    def apply_again(self) -> None:
        """Somebody deletes the job, all of it that a file declares, and applies it again."""
        self.pods.clear()
        self.gone.clear()
        self.hosts = None  # it goes with the ConfigMap
        self.config_uid = f"config-{next(self._uids)}"
        self.config_created = self.now
        self.sync()

    def restart_watcher(self) -> None:
        """The watcher dies, and another one begins: it knows what is written and no more."""
        self.gone.clear()
        self.known_logs.clear()
        self.watched_since = self.now

    # ---- what the watcher does -----------------------------------------------------------------

    def decide(self) -> tuple[Action, ...]:
        if self.removed:
            return ()  # nothing declares it any more
        return decide(self.view(), self.now)

    def settle(self, until: Callable[[Action], bool] | None = None) -> float | None:
        """Decides and acts until nothing is left to do now; when there will be again.

        Args:
            until: Die before this action.
        """
        for _ in range(_MANY):
            actions = self.decide()
            for action in actions:
                if until is not None and until(action):
                    return None
                self.act(action)
            times = [one.at for one in actions if isinstance(one, Requeue)]
            if len(times) == len(actions):
                return times[0] if times else None
        raise AssertionError(f"does not come to rest: {actions}")

    def wait(self, seconds: float, *, ready: bool = True) -> None:
        """Time passes; new Pods start, and the watcher is asked whenever it wants to be."""
        end = self.now + seconds
        while True:
            again = self.settle()
            if ready:
                self.run_kubelets()
                again = self.settle()
            if again is None or again > end:
                break
            assert again > self.now, "wants to be asked in the past"
            self.now = again
        self.now = end
        self.settle()
        if ready:
            self.run_kubelets()
            self.settle()

    def run_kubelets(self) -> None:
        for name, pod in [*self.pods.items()]:
            if pod.deleting:
                if not pod.ended:
                    phase = "Succeeded" if name in self.ends_with_0 else "Failed"
                    self.change(name, phase=phase, ready=False, exits=())
                if not pod.held_by_queue:
                    self.vanish(name)
            elif pod.ending and not pod.ended:
                self.fail(name, None, reason="DeadlineExceeded")
            elif pod.phase == "Pending":
                self.get_ready(name)
        if self.pods and all(pod.held_by_queue and pod.ended for pod in self.pods.values()):
            # Kueue finishes the group.
            for name, pod in [*self.pods.items()]:
                self.change(name, held_by_queue=False)
                if pod.deleting:
                    self.vanish(name)

    def read(self, action: ReadLog, lines: Iterable[str] | None) -> None:
        """The lines of a log were read, each after its time; None if nobody has answered yet."""
        texts = None if lines is None else tuple(lines)
        reads = self.known_logs.setdefault(action.uid, {})
        reads[action.purpose] = LogRead(action.of, self.now, texts)

    def dies_before(self, count: int) -> None:
        """The watcher is killed after so many actions, and another one starts."""
        left = count

        def dies(_action: Action) -> bool:
            nonlocal left
            left -= 1
            return left < 0

        self.settle(until=dies)
        self.restart_watcher()

    def acts_late(self, *kinds: type[Any]) -> None:
        """Actions of these kinds are carried out once more, which were decided on an old view."""
        old = self.decide()
        self.settle()
        for action in old:
            if isinstance(action, kinds):
                self.act(action)

    def act(self, action: Action) -> None:
        self.done.append(action)
        match action:
            case WriteStatus(record, notes):
                self.status = {**record_data(record), **notes}
                assert self.record == record, "what is written down reads back as it was"
            case WriteHosts(hosts):
                self.hosts = hosts
                self.hosts_written.append((self.now, hosts, self._reader()))
            case EmitEvent():
                self.events.append(action)
            case PatchPod("touch", name, uid, value):
                if self._is(name, uid):
                    self.change(name, touched=value)
            case PatchPod("end", name, uid):
                if self._is(name, uid):
                    self.change(name, ending=True)
            case PatchPod("release", name, uid):
                if self._is(name, uid):
                    self.vanish(name)
            case ReadLog(name, purpose="activity"):
                at = self.words.get(name, 0.0)
                self.read(action, None if at is None else [stamped(at, "step")] if at else [])
            case ReadLog(uid=uid, begin=begin):
                quoted = (said for said in self.logs.get(uid, ()) if said[1].startswith(begin))
                self.read(action, itertools.starmap(stamped, quoted) if begin else None)
            case DeletePod(name, uid, _, force):
                self._remove(name, uid)
                if force and self._is(name, uid):
                    self.vanish(name)
            case PatchPod("notify", name, uid, notice):
                if self._is(name, uid):
                    self.change(name, notice=read_notice(notice))
            case CreatePod(name, role, _, _, follower, uid=uid, annotations=annotations):
                if uid:
                    self._remove(name, uid)
                if name not in self.pods:
                    self.create(name, role, follower, here=True)
                    self.annotated[name] = annotations.get(EPOCH, "")
            case RemoveJob():
                assert not self.pods, "its Pods go first"
                self.removed = True
            case Requeue():
                pass

    def _reader(self) -> str | None:
        """The UID of the launcher that reads the lists now: one that is told to stop may stop."""
        pods = self.pods.values()
        running = [pod.uid for pod in pods if pod.phase == "Running" and not pod.deleting]
        roles = {role.name for role in self.job.roles if role.additions.reads_hosts}
        return next(
            (p.uid for p in self.pods.values() if p.role in roles and p.uid in running), None
        )

    def _is(self, name: str, uid: str) -> bool:
        return name in self.pods and self.pods[name].uid == uid

    def _remove(self, name: str, uid: str) -> None:
        if not self._is(name, uid):
            return
        self.deleted.append(uid)
        if self.pods[name].held_by_queue and self.pods[name].ended:
            self.change(name, deleting=True, deletion_requested=self.now, due=self.now)
        elif self.pods[name].ended:
            self.vanish(name)
        elif not self.pods[name].deleting:
            self.change(name, deleting=True, deletion_requested=self.now, due=self.now + 30)

    def _replica(self, name: str) -> tuple[str, Member]:
        _, replicas = self._of_job()
        assert name in replicas, f"{name} is not of this job"
        return replicas[name]

    def _of_job(self) -> tuple[str, dict[str, tuple[str, Member]]]:
        """The spec hash of the job that there is now, and its replicas by their first names."""
        if self._facts is None or self._facts[0] is not self.job:
            replicas = {
                role.pod_name(member): (role.name, member)
                for role in self.job.roles
                for member in role.members
            }
            self._facts = self.job, backend.spec_hash(self.job), replicas
        return self._facts[1:]
