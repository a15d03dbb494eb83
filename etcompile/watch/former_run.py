"""The run whose Pods are there, where the job's ConfigMap describes another one by now, or none.

An apply that changes the ConfigMap and is then refused the Pods, which cannot be changed in place,
leaves the Pods of the run before; so does whoever writes what cannot be read. They go on being
looked after, from a copy of the job that is beside the run record: the ConfigMap has another one
now, and whoever watches next knows no more than what is in the cluster. A copy counts only if it
has the hash that the Pods carry.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from etcompile.kubeapi import Cluster
from etcompile.model.protocol import STORED_JOB
from etcompile.model.run_record import RUN, RunRecord, read_record
from etcompile.stages.stored import StoredJobError
from etcompile.watch.run_pods import StoredRun
from etcompile.watch.state import LARGEST_COPY, PodView, digest
from etcompile.watch.store import SeenJob, SeenMap


def wants_copy(run: StoredRun, status: SeenMap | None) -> bool:
    """Whether the copy beside the run record is not of the job as it is now.

    Args:
        run: The job.
        status: The ConfigMap with the run record, if there is one.
    """
    if len(run.text.encode()) > LARGEST_COPY:
        return False
    return status is not None and status.data.get(RUN) != digest(run.text)


def former_run(seen: SeenJob, run: StoredRun | None) -> str:
    """The spec hash of the run that is to be looked after instead; empty for that of the job.

    It is until a Pod of the new run has the place of one of the old run, or none of those stays.
    One beside them is no reason to leave them alone: a larger run that was refused has such Pods.

    Args:
        seen: What is known of the job.
        run: The job as its ConfigMap has it; None if that cannot be read.
    """
    if seen.status is None:
        return ""
    record = read_record(seen.status.data)
    if record is None or (run is not None and record.run == run.spec_hash):
        return ""
    pods = [pod.view for pod in seen.pods.values()]
    if run is not None and any(
        pod.spec_hash == run.spec_hash and _is_in_its_place(record, pod) for pod in pods
    ):
        return ""
    return record.run if _stays(record, pods) else ""


def _is_in_its_place(record: RunRecord, pod: PodView) -> bool:
    """Whether a Pod of another run has the place of one that the recorded run has had."""
    if not any(replica.seen for replica in record.replicas.get(pod.role, {}).values()):
        return True
    number = pod.index if pod.rank is None else pod.rank
    return record.replica((pod.role, number or 0)).seen


def _stays(record: RunRecord, pods: Iterable[PodView]) -> bool:
    own = [pod for pod in pods if pod.spec_hash == record.run]
    return any(not pod.deleting for pod in own) or (bool(own) and record.phase == "Restarting")


def copied(cluster: Cluster, seen: SeenJob, spec_hash: str) -> StoredRun:
    """The run of a copy.

    Args:
        cluster: Where the copy is.
        seen: What is known of the job.
        spec_hash: The run's.

    Raises:
        StoredJobError: there is no copy, or none of that run.
        ClusterError: the cluster cannot be read.
    """
    if seen.status is None or seen.config is None or RUN not in seen.status.data:
        raise StoredJobError("no copy of it was kept")
    namespace = seen.status.value["metadata"]["namespace"]
    maps = cluster.resource("v1", "ConfigMap")
    found = cluster.list(maps, namespace, fields=f"metadata.name={seen.status.name}").items
    texts: list[Any] = [(copy.get("data") or {}).get(RUN) for copy in found]
    if not texts or not isinstance(texts[0], str) or len(texts[0]) > LARGEST_COPY:
        raise StoredJobError("no copy of it was kept")
    value: Mapping[str, Any] = {**seen.config.value, "data": {STORED_JOB: texts[0]}}
    run = StoredRun(value)
    if run.spec_hash != spec_hash:
        raise StoredJobError(f"the copy of it is of run {run.spec_hash}")
    return run
