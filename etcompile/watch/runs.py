"""The run that is looked after: the one a job's ConfigMap describes, or the one of its Pods.

An apply that changes the ConfigMap and is then refused the Pods, which cannot be changed in place,
leaves the Pods of the run before; so does whoever writes what cannot be read. They go on being
looked after, from a copy of the job that is beside the run record: the ConfigMap has another one
now, and whoever watches next knows no more than what is in the cluster. A copy counts only if it
has the hash that the Pods carry.
"""

import threading
from contextlib import AbstractContextManager
from typing import Any

from msgspec import Struct, field

from etcompile.compiler.stored import StoredJobError
from etcompile.kubeapi import Cluster
from etcompile.model.protocol import SPEC_HASH, STORED_JOB
from etcompile.model.run_record import ANOTHER_RUN, RUN, UNREADABLE, RunRecord
from etcompile.watch.actions import EmitEvent
from etcompile.watch.job_selector import Selector
from etcompile.watch.job_view import LARGEST_COPY
from etcompile.watch.ledger import Memory, ReadRun
from etcompile.watch.memory_limits import REPLICA_BYTES
from etcompile.watch.notices import Notices
from etcompile.watch.pod_view import PodView
from etcompile.watch.store import SeenJob, Store
from etcompile.watch.stored_run import StoredRun
from etcompile.watch.workqueue import JobKey


class Runs(Struct, frozen=True):
    """The runs of jobs; safe to share between threads that look at different jobs."""

    cluster: Cluster
    store: Store
    selector: Selector
    notices: Notices
    memory: Memory
    # Reading a large job takes many times its size for a moment.
    one_at_a_time: AbstractContextManager[object] = field(default_factory=threading.Lock)

    def declared(self, key: JobKey, seen: SeenJob) -> ReadRun:
        """The job as its ConfigMap says, if that is ours and can be read."""
        config, memory = seen.config, self.memory.of(key)
        if config is None:
            memory.declared = None
            return ReadRun("", None)
        known, retries = memory.declared, self.store.retries
        version = f"{config.version} {config.problem}"
        # What was refused is looked at again when memory was freed.
        is_known = known is not None and known.version == version
        if known is not None and is_known and (not known.problem or known.retries == retries):
            return known
        run, problem = None, ""
        if self.selector.selects(config.metadata.get("labels") or {}):
            try:
                if config.problem:
                    raise StoredJobError(config.problem)
                with self.one_at_a_time:
                    run = StoredRun(config.value, self.store.most_replicas(key[0]))
                    self._reserve(key, run)
            except StoredJobError as error:
                run, problem = None, str(error)
                event = EmitEvent(UNREADABLE, f"cannot be read: {error}", warning=True)
                self.notices.of_job(key, event, f"not supervised: {error}")
        memory.declared = read = ReadRun(version, run, problem, retries)
        return read

    def previous(
        self, key: JobKey, seen: SeenJob, declared: ReadRun, record: RunRecord | None
    ) -> ReadRun | None:
        """The run whose Pods are there, if the job describes another one; None if it does not.

        It is reported if nobody knows any more what that run was. A job that cannot be read
        describes another one; one that is too large, or not this watcher's, is left alone.
        """
        memory, run = self.memory.of(key), declared.run
        known, memory.previous = memory.previous, None
        if seen.config is None or seen.config.problem or not (run or declared.problem):
            return None
        wanted = _previous_run(seen, run, record)
        if not wanted or seen.status is None:
            return None
        version = f"{seen.config.version} {seen.status.data.get(RUN, '')}"
        if known is None or known.version != version:
            try:
                copy = self._copy(seen, wanted, self.store.most_replicas(key[0]))
                self._reserve(key, copy, run)
                known = ReadRun(version, copy)
            except StoredJobError as error:
                known = ReadRun(version, None)
                describes = f"describes run {run.spec_hash}" if run else "cannot be read"
                message = (
                    f"the ConfigMap {describes}, but the Pods are of run {wanted}, which the "
                    f"watcher can no longer manage: {error}"
                )
                reason = ANOTHER_RUN if run else UNREADABLE
                self.notices.of_job(key, EmitEvent(reason, message, warning=True), "", version)
        memory.previous = known
        return known

    def _reserve(self, key: JobKey, *runs: StoredRun | None) -> None:
        """Reserves memory for the replicas of runs; StoredJobError if there is not as much."""
        replicas = sum(len(role.members) for run in runs if run for role in run.job.roles)
        if not self.store.reserve(key, replicas * REPLICA_BYTES):
            raise StoredJobError(f"the watcher has no memory for its {replicas} replicas")

    def _copy(self, seen: SeenJob, spec_hash: str, most: int) -> StoredRun:
        """The run of the copy beside the run record; StoredJobError if that is of no such run."""
        if seen.status is None or seen.config is None or RUN not in seen.status.data:
            raise StoredJobError("there is no copy of it")
        name, namespace = seen.status.name, seen.status.metadata["namespace"]
        maps = self.cluster.resource("v1", "ConfigMap")
        copies = self.cluster.list(maps, namespace, fields=f"metadata.name={name}").items
        text: Any = next(((copy.get("data") or {}).get(RUN) for copy in copies), None)
        if not isinstance(text, str) or len(text) > LARGEST_COPY:
            raise StoredJobError("there is no copy of it")
        run = StoredRun({**seen.config.value, "data": {STORED_JOB: text}}, most)
        if run.spec_hash != spec_hash:
            raise StoredJobError(f"the copy of it is of run {run.spec_hash}")
        return run


def _previous_run(seen: SeenJob, run: StoredRun | None, record: RunRecord | None) -> str:
    """The spec hash of the run that is to be looked after instead; empty for that of the job.

    It is until a Pod of the new run has the place of one of the old run, or none of those stays.
    """
    if record is None or (run is not None and record.run == run.spec_hash):
        return ""
    pods = [pod.view for pod in seen.pods.values()]
    older = reannotated(seen, run)

    def has_its_place(pod: PodView) -> bool:
        if not any(replica.seen for replica in record.replicas.get(pod.role, {}).values()):
            return True
        return record.replica((pod.role, pod.number)).seen

    if run is not None and any(
        pod.spec_hash == run.spec_hash and pod.uid not in older and has_its_place(pod)
        for pod in pods
    ):
        return ""
    own = [pod for pod in pods if pod.spec_hash == record.run]
    stays = any(not pod.deleting for pod in own) or (own and record.phase == "Restarting")
    return record.run if stays else ""


def reannotated(seen: SeenJob, run: StoredRun | None) -> frozenset[str]:
    """The UIDs of Pods that say they are of the declared run, and are older than its declaration.

    An apply may change annotations of a Pod, and is then refused another template.
    """
    if run is None or seen.config is None:
        return frozenset()
    views = [*(pod.view for pod in seen.pods.values()), *(gone.pod for gone in seen.gone.values())]
    declared = seen.config.written or 0.0
    return frozenset(
        pod.uid for pod in views if pod.spec_hash == run.spec_hash and pod.created < declared
    )


# Pods that are not of the run ----------------------------------------------------------------
#
# Labels and annotations are anybody's who may create a Pod. A Pod that somebody else made must not
# end a run, be followed, or keep a replica from coming back (docs/security.md says what is left).


def strangers(run: StoredRun, seen: SeenJob) -> dict[str, tuple[PodView, str]]:
    """By UID, the Pods that carry the marks of the run and are not of it, each with the reason."""
    config = seen.config_metadata.get("uid", "")
    jobs = frozenset(batch_job.view.uid for batch_job in seen.batch.values())
    foreign = {}
    pods = [pod.view for pod in seen.pods.values()]
    for pod in (*pods, *(gone.pod for gone in seen.gone.values())):
        if not pod.spec_hash and pod.name in run.names:
            foreign[pod.uid] = pod, f"it has lost the annotation {SPEC_HASH}"
        if pod.spec_hash != run.spec_hash:
            continue
        why = _by_owner(pod, run, config, jobs)
        if not why and pod.ended and pod.name in run.names:
            why = run.difference(pod)
        if why:
            foreign[pod.uid] = pod, why
    return foreign


def _by_owner(pod: PodView, run: StoredRun, config: str, jobs: frozenset[str]) -> str:
    """Why a Pod with the labels of a run is not one of it; empty if it is, as far as that shows."""
    role = run.job.role(pod.role)
    if role is None:
        return ""  # no rule asks for it
    if role.batch is not None:
        if pod.controller and pod.controller in jobs:
            return ""
        return f"the Job that creates the Pods of {role.name} did not create it"
    if pod.controller:
        return "another controller created it"
    if pod.name in run.names:
        is_own = run.names[pod.name].name == pod.role
        return "" if is_own else "its name is that of another role"
    if role.recovery.relaunch is not None and pod.owner != config:
        places = {place for member in role.members for place in (member.place, member.index)}
        if ({pod.index, pod.rank} - {None}) & places:
            return "the watcher did not create it, and the job does not declare it"
    return ""
