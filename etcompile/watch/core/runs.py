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
from etcompile.compiler.stored_run import LARGEST_COPY, StoredRun
from etcompile.k8s.pod_state import PodState
from etcompile.kubeapi import Cluster
from etcompile.kubeapi.controller.work_queue import Key as JobKey
from etcompile.model.protocol import SPEC_HASH, STORED_JOB
from etcompile.model.run_record import ANOTHER_RUN, RUN, UNREADABLE, RunRecord
from etcompile.watch.core.actions import EmitEvent
from etcompile.watch.core.ledger import Memory, ReadRun
from etcompile.watch.core.notices import Notices
from etcompile.watch.core.observe import SeenJob, Store


class Runs(Struct, frozen=True):
    """The runs of jobs; safe to share between threads that look at different jobs."""

    cluster: Cluster
    store: Store
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
        known, version = memory.declared, f"{config.version} {config.problem}"
        if known is not None and known.version == version:
            return known
        run, problem = None, ""
        try:
            if config.problem:
                raise StoredJobError(config.problem)
            with self.one_at_a_time:
                run = StoredRun(config.value)
            replicas = sum(len(role.members) for role in run.job.roles)
            if not self.store.counts_replicas(key, replicas):
                raise StoredJobError("the jobs of its namespace have more than 20,000 replicas")
        except StoredJobError as error:
            run, problem = None, str(error)
            event = EmitEvent(UNREADABLE, f"cannot be read: {error}", warning=True)
            self.notices.of_job(key, event, f"not supervised: {error}")
        memory.declared = read = ReadRun(version, run, problem)
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
                copy = self._copy(seen, wanted)
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

    def _copy(self, seen: SeenJob, spec_hash: str) -> StoredRun:
        """The run of the copy beside the run record; StoredJobError if that is of no such run."""
        if seen.status is None or seen.config is None or RUN not in seen.status.data:
            raise StoredJobError("there is no copy of it")
        name, namespace = seen.status.name, seen.status.metadata["namespace"]
        maps = self.cluster.resource("v1", "ConfigMap")
        copies = self.cluster.list(maps, namespace, fields=f"metadata.name={name}").items
        text: Any = next(((copy.get("data") or {}).get(RUN) for copy in copies), None)
        if not isinstance(text, str) or len(text) > LARGEST_COPY:
            raise StoredJobError("there is no copy of it")
        run = StoredRun({**seen.config.value, "data": {STORED_JOB: text}})
        if run.spec_hash != spec_hash:
            raise StoredJobError(f"the copy of it is of run {run.spec_hash}")
        return run


def _previous_run(seen: SeenJob, run: StoredRun | None, record: RunRecord | None) -> str:
    """The spec hash of the run that is supervised instead of the declared one; empty for that.

    It is until a Pod of the declared run is there, or none of the old run is left.
    """
    if record is None or (run is not None and record.run == run.spec_hash):
        return ""
    pods = [pod.view for pod in seen.pods.values()]
    if run is not None and any(pod.spec_hash == run.spec_hash for pod in pods):
        return ""
    own = [pod for pod in pods if pod.spec_hash == record.run]
    stays = any(not pod.deleting for pod in own) or (own and record.phase == "Restarting")
    return record.run if stays else ""


# Pods that are not of the run ----------------------------------------------------------------
#
# Labels and annotations are anybody's who may create a Pod (docs/security.md).


def strangers(run: StoredRun, seen: SeenJob) -> dict[str, tuple[PodState, str]]:
    """By UID, the Pods that carry the marks of the run and are not of it, each with the reason."""
    jobs = frozenset(batch_job.view.uid for batch_job in seen.batch.values())
    foreign = {}
    pods = [pod.view for pod in seen.pods.values()]
    for pod in (*pods, *(gone.pod for gone in seen.gone.values())):
        why = ""
        role = run.job.role(pod.role)
        if not pod.spec_hash and pod.name in run.names:
            why = f"it has lost the annotation {SPEC_HASH}"
        elif pod.spec_hash != run.spec_hash or role is None:
            continue
        elif role.batch is not None:
            if not (pod.controller and pod.controller in jobs):
                why = f"the Job that creates the Pods of {role.name} did not create it"
        elif pod.controller:
            why = "another controller created it"
        elif pod.name in run.names and run.names[pod.name].name != pod.role:
            why = "its name is that of another role"
        if why:
            foreign[pod.uid] = pod, why
    return foreign
