"""Write the ApplySets of a rollout: what their parents say before, while and after it.

A parent names the kinds of the members before the first of them is created and until the last of
them is gone, so that a rollout that is killed loses sight of nothing (reference/gitops.md 3).

An annotation of the parent is the lease of the process that changes the job, so that no two
rollouts interleave. The holder renews it while it may still write. A killed command leaves a lease
that runs out, or that the next command on the same machine takes over as soon as the process is
gone. Times are the API server's, since the clocks of two machines never agree. Each write names the
version of the parent that it was decided on, so that only one of two rollouts gets the lease.
"""

import contextlib
import getpass
import os
import socket
import threading
import uuid
from collections import Counter
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from etcompile._version import __version__
from etcompile.k8s.objects import Object, annotations_of
from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError
from etcompile.kubeapi.session import steady
from etcompile.plan import owners
from etcompile.plan.applysets import (
    DEFAULT_NAMESPACE,
    INVENTORY_ID,
    KINDS,
    NAMESPACES,
    ORIGIN,
    ORPHANED,
    SET,
    SOURCE,
    applyset_id,
    belonging,
    is_parent,
    listed,
    other_set,
    parent,
)
from etcompile.plan.step import MAKES, WRITES, ObjectRef
from etcompile.rollout.live import NOTHING_YET, live_object
from etcompile.rollout.machine.messages import Proposal
from etcompile.rollout.refusals import Refusal, RefusedError, is_fatal, may_pass, refusal

MANAGER = "etcompile-applyset"
TOOLING = "applyset.kubernetes.io/tooling"
_TOOL = "etcompile"
_MARKS = ("labels", "annotations")
_AGAIN = "run the command again"
SECONDS = 45.0
"""After which others may change the jobs of a process that was killed."""
LEASE = "etcompile.dev/lease"
"""The annotation of a parent that is the lease on its job."""
_MOST = 300.0
"""Seconds that a lease is believed to last at most; a later end is a mistake."""


class JobLease(Struct, frozen=True):
    """A lease as it is written down.

    Args:
        holder: The user and the host: `user@host`.
        since: When it began, in seconds since 1970.
        machine: The machine, boot and process namespace; empty if unknown.
        process: The process id there.
    """

    id: str
    holder: str
    since: float
    until: float
    machine: str = ""
    process: int = 0

    def is_held(self, now: float) -> bool:
        if not 0 <= self.since <= self.until <= now + _MOST or now >= self.until:
            return False
        if self.machine and self.machine == _machine():
            try:
                os.kill(self.process, 0)
            except ProcessLookupError:
                return False
            except OSError:
                return True  # another user's
        return True

    @property
    def words(self) -> str:
        since = datetime.fromtimestamp(self.since, UTC)
        return f"{self.holder[:100]} has been changing the job since {since:%Y-%m-%d %H:%M:%S} UTC"


_DECODER = msgspec.json.Decoder(JobLease)


def new_lease(now: float, seconds: float) -> JobLease:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user that has no name
        user = str(os.getuid())
    holder = f"{user}@{socket.gethostname()}"
    return JobLease(uuid.uuid4().hex, holder, now, now + seconds, _machine(), os.getpid())


def lease_of(parent: Object | None) -> JobLease | None:
    text = ((parent or {"metadata": {}})["metadata"].get("annotations") or {}).get(LEASE)
    try:
        return _DECODER.decode(text) if text else None
    except msgspec.DecodeError:
        return None


def seen_version(parent: Object | None, now: float) -> str:
    lease = lease_of(parent)
    if lease is not None and lease.is_held(now):
        return lease.id
    return parent["metadata"]["resourceVersion"] if parent else ""


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


class Inventories:
    """The ApplySets of a proposal's jobs; safe to share between threads."""

    def __init__(self, cluster: Cluster, proposal: Proposal) -> None:
        plan = proposal.full_plan
        self._cluster = cluster
        self._adopt = proposal.rights.adopt
        self._job_set = plan.job_set
        """The set of jobs that is applied; None for single files, whose jobs stay in theirs."""
        self._jobs = proposal.jobs
        self._lock = threading.Lock()
        self._lease = new_lease(cluster.now(), SECONDS)
        self._held: dict[str, float] = {}
        """By job, until when its lease surely is ours, by the clock that nobody sets."""
        self._prior: dict[str, Object | None] = {}
        """The parents as they were before their leases were taken, by job."""
        self._writes: Counter[str] = Counter()
        """By job, the writes that were not refused for sure."""
        self._released = threading.Event()
        self._writing = {step.job for step in plan.steps if step.action in WRITES and step.job}
        self._coming = {
            step.ref.name
            for step in plan.steps
            if step.ref.kind == "Namespace" and step.action == "create"
        }
        self._parents: dict[str, Object | None] = {}
        """The parents as they were read or written last, by job."""
        self._before: dict[str, set[ObjectRef]] = {}
        self._after: dict[str, set[ObjectRef]] = {}
        self._left: dict[str, set[ObjectRef]] = {}
        """By job, members that are not declared, and still there."""
        for step in plan.steps:
            if step.job is not None and step.action == "unmanaged":
                self._left.setdefault(step.job, set()).add(step.ref)
            # A job's Secret is its key pair, which no set may prune while the job is there.
            if step.job is None or step.ref.kind == "Secret":
                continue
            before = self._before.setdefault(step.job, set())
            after = self._after.setdefault(step.job, set())
            if step.action in WRITES:
                before.add(step.ref)
            if step.action in MAKES or step.action == "unchanged":
                after.add(step.ref)
        for job, each in self._jobs.items():
            if each.remaining is not None:
                self._left[job] = {*each.remaining}

    def id(self, job: str | None) -> str | None:
        return applyset_id(self.parent(job)) if job else None

    def parent(self, job: str) -> ObjectRef:
        namespace, _, name = job.rpartition("/")
        return parent(name, namespace or self._cluster.namespace)

    def refusals(self) -> list[Refusal]:
        return [refused for job in self._before if (refused := self._foreign(job))]

    def take(self, concurrency: int) -> list[Refusal]:
        def take_lease(job: str) -> Refusal | None:
            try:
                self._take(job)
            except RefusedError as error:
                return error.refusal
            except ClusterError as error:
                return None if may_pass(error) else refusal(self.parent(job), error)
            return None

        jobs = [job for job in self._writing if self.parent(job).namespace not in self._coming]
        with ThreadPoolExecutor(concurrency) as pool:
            refused = [*filter(None, pool.map(take_lease, jobs))]
        if refused:
            if left := self.release():  # so something was changed
                refused = [structs.replace(each, cause="cluster") for each in refused] + left
        else:
            threading.Thread(target=self._renew, name="etcompile-lease", daemon=True).start()
        return refused

    def widen(self, job: str | None) -> None:
        """Add all that the rollout makes or removes to the parent of a job's set."""
        if job is None:
            return
        if job not in self._held:
            with self._lock:
                if job not in self._held:
                    self._take(job)
        if steady() >= self._held.get(job, float("inf")):
            raise self._conflict(job, "the lease of the job could not be renewed", _AGAIN)
        with self._lock:
            self._writes[job] += 1

    def refused(self, job: str | None) -> None:
        if job is not None:
            with self._lock:
                self._writes[job] -= 1

    def narrow(self, job: str) -> None:
        """Reduce the parent to what is there, and release the lease of the job."""
        with self._lock:
            members = self._after.get(job, set()) | self._left.get(job, set())
            live = self._live(job)
            try:
                if job not in self._held:
                    self._check(job, live)
                if members:
                    self._write(job, members)
                else:
                    self._remove(job, live)
            except RefusedError:
                if job in self._held:
                    raise
                # Nothing was to be done to this job, and another command changes it.
            self._held.pop(job, None)

    def release(self, *, reachable: bool = True) -> list[Refusal]:
        """Release all leases; a parent that nothing followed becomes what it was.

        Args:
            reachable: Whether the API server answers; else the leases run out.

        Returns:
            A refusal for each parent that should have become what it was, and did not.
        """
        self._released.set()
        left: list[Refusal] = []
        with self._lock:
            for job in [*self._held] if reachable else ():
                untouched = job in self._prior and not self._writes[job]
                prior = self._prior[job] if untouched else None
                try:
                    if untouched and prior is None:
                        self._remove(job, self._live(job))
                    else:
                        self._write(job, (), prior or self._live(job), prior=prior)
                except RefusedError:
                    pass
                except ClusterError as error:
                    if untouched:
                        words = f"it was written, and could not be restored: {error.message}"
                        left.append(Refusal(self.parent(job), "cluster", (words,), _AGAIN))
                    if is_fatal(error):
                        break
                del self._held[job]
        return left

    def _take(self, job: str) -> None:
        live = self._live(job)
        if live is None and not self._after.get(job):
            return  # deleting makes no inventory
        self._check(job, live)
        self._hold(job, self._before.get(job, ()), live)
        self._prior[job] = live

    def _hold(self, job: str, members: Collection[ObjectRef], also: Object | None) -> None:
        begun = steady()
        until = self._cluster.now() + SECONDS
        self._write(job, members, also, structs.replace(self._lease, until=until))
        self._held[job] = begun + SECONDS * 0.8

    def _renew(self) -> None:
        while not self._released.wait(SECONDS / 3):
            for job in [*self._held]:
                # One that was given away, or lost for good, is not taken again. What fails is tried
                # again, or runs out.
                with self._lock, contextlib.suppress(ClusterError, RefusedError):
                    if steady() < self._held.get(job, 0.0):
                        self._hold(job, (), self._live(job))

    def _check(self, job: str, live: Object | None) -> None:
        if refused := self._foreign(job):
            raise RefusedError(refused)
        lease, now = lease_of(live), self._cluster.now()
        is_ours = lease is not None and lease.id == self._lease.id
        if lease is not None and not is_ours and lease.is_held(now):
            raise self._conflict(job, lease.words, f"wait until it ends, then {_AGAIN}")
        if job in self._held:
            is_stale = live is not None and not is_ours
        else:
            version = seen_version(live, now)
            planned = self._jobs[job].version if job in self._jobs else None
            is_stale = not is_ours and planned not in (None, version)
        if is_stale:
            raise self._conflict(job, "another command has changed the job meanwhile", _AGAIN)

    def _conflict(self, job: str, words: str, hint: str) -> RefusedError:
        return RefusedError(Refusal(self.parent(job), "conflict", (words,), hint=hint))

    def _remove(self, job: str, live: Object | None) -> None:
        ref = self.parent(job)
        if live is not None and is_parent(live, ref):
            resource = self._cluster.resource(ref.api_version, ref.kind)
            uid = live["metadata"]["uid"]
            version = "" if job in self._held else live["metadata"]["resourceVersion"]
            try:
                self._cluster.delete(
                    resource, ref.name, ref.namespace, uid=uid, resource_version=version
                )
            except ClusterError as error:
                if not error.conflict:
                    raise

    def _write(
        self,
        job: str,
        members: Collection[ObjectRef],
        also: Object | None = None,
        lease: JobLease | None = None,
        prior: Object | None = None,
    ) -> None:
        """Write the parent of a job: these members, and those of a parent as it was (`also`)."""
        ref = self.parent(job)
        home = ref.namespace or self._cluster.namespace
        named = annotations_of(also) if also else {}
        kinds = {
            f"{member.kind}.{member.group}" if member.group else member.kind for member in members
        }
        kinds.update(listed(named.get(KINDS)))
        namespaces = {member.namespace for member in members}.union(listed(named.get(NAMESPACES)))
        annotations = {
            TOOLING: f"{_TOOL}/v{__version__}",
            KINDS: ",".join(sorted(kinds)),
            NAMESPACES: ",".join(sorted(namespaces - {home, ""})),
        }
        labels = {
            INVENTORY_ID: applyset_id(ref),
            "app.kubernetes.io/managed-by": "etcompile",
        }
        live, ours = self._parents.get(job), self._job_set
        set_labels, set_annotations = belonging(prior or live)
        if prior:
            pass  # the set that it was in
        elif ours and job in ours.orphans:
            set_annotations[ORPHANED] = "true"
        elif ours and (ours.complete or not set_labels or other_set(live, ours)):
            set_labels = {SET: ours.id}
            set_annotations = {SOURCE: ours.source, DEFAULT_NAMESPACE: self._cluster.namespace}
            if ours.origin:
                set_annotations[ORIGIN] = ours.origin
        labels |= set_labels
        annotations |= set_annotations
        if lease is not None:
            annotations[LEASE] = msgspec.json.encode(lease).decode()

        def is_written(there: Object | None) -> bool:
            metadata = there["metadata"] if there else {}
            return (
                labels.items() <= (metadata.get("labels") or {}).items()
                and annotations.items() <= (metadata.get("annotations") or {}).items()
                and belonging(there) == (set_labels, set_annotations)
                and lease_of(there) == lease
            )

        if is_written(live):
            return
        value: dict[str, Any] = {
            "apiVersion": ref.api_version,
            "kind": ref.kind,
            "metadata": {
                "name": ref.name,
                "namespace": home,
                "labels": labels,
                "annotations": annotations,
                "resourceVersion": live["metadata"]["resourceVersion"] if live else NOTHING_YET,
            },
        }
        # Only its own annotations, and only of a set that is ours or given to us.
        try:
            if live and lease is None and job not in self._held:
                # Nothing else is written, so a webhook may have made it what it is.
                result = self._cluster.server_side_apply(
                    value, field_manager=MANAGER, force=True, dry_run=True
                )
                if all(result["metadata"].get(key) == live["metadata"].get(key) for key in _MARKS):
                    return
            self._parents[job] = self._cluster.server_side_apply(
                value, field_manager=MANAGER, force=True
            )
        except ClusterError as error:
            if not error.conflict and not error.not_found:
                raise
            del self._parents[job]
            there = self._live(job)
            if there == live:
                raise
            if is_written(there):
                return  # the answer to an earlier attempt was lost
            self._check(job, there)
            self._write(job, members, also, lease, prior)

    def _live(self, job: str) -> Object | None:
        if job not in self._parents:
            parent = live_object(self._cluster, self.parent(job), metadata_only=True)
            self._parents[job] = parent
        return self._parents[job]

    def _foreign(self, job: str) -> Refusal | None:
        ref, live = self.parent(job), self._live(job)
        if live is None:
            return None
        if not is_parent(live, ref):
            words = f"it has the name of the ApplySet parent, but not the label {INVENTORY_ID}"
            return Refusal(ref, "conflict", (words,), hint="rename it, or the job")
        tooling = annotations_of(live).get(TOOLING, "")
        tool = str(tooling).rpartition("/")[0] or str(tooling)
        if tool not in ("", _TOOL) and not self._adopt:
            words = f"the ApplySet belongs to {tooling}"
            return Refusal(ref, "conflict", (words,), hint="--adopt takes it over")
        if owner := owners.tracker(live):
            return Refusal(ref, "conflict", (f"{owner} manages it",))
        return None
