"""By which name a replica goes as a host, so that Horovod believes in its replacement.

Elastic Horovod never again uses a host on which a process failed; it knows hosts by name
(reference/et-operator.md 9). A replacement has the Pod name and the DNS name of what it replaces,
so it is listed under a longer form of that name, which resolves to the same Pod and is another
host: `mnist-worker-1`, then `mnist-worker-1.ml`, `mnist-worker-1.ml.svc` and so on. A new launcher
knows of no failure, and the names are the first again.
"""

from collections.abc import Sequence

from msgspec import structs

from etcompile.model import Job
from etcompile.model.commands import discovers_hosts
from etcompile.watch.rules.replica_states import Replica
from etcompile.watch.rules.run_state import RunState
from etcompile.watch.state import RunRecord


def renamed(run_state: RunState, record: RunRecord, losses: Sequence[Replica]) -> RunRecord:
    """The record, with another name for each host that was lost while the launcher ran.

    Args:
        run_state: Who is there.
        record: The run record.
        losses: The replicas that were lost just now and come back.
    """
    readers = run_state.readers
    if not losses or not readers or not _never_forgives(run_state.job):
        return record
    listed = {name for one in run_state.job.host_lists if one.live for name in one.roles}
    lost = [one.place for one in losses if one.place.role.name in listed]
    if not lost:
        return record
    names = {**record.names, **{one.key: record.names.get(one.key, 0) + 1 for one in lost}}
    return structs.replace(record, names=names, launcher=readers[0].uid)


def _never_forgives(job: Job) -> bool:
    """Whether the launcher is one that never trusts a host again."""
    return any(
        discovers_hosts(role.template.main_container) for role in job.roles if role.reads_hosts
    )
