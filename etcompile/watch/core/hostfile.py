"""The live host lists: the hosts that are Ready, in steps that a running launcher survives.

Nobody knows when a launcher reads the lists: its kubelet brings them some time after they were
written, and Horovod compares what it reads with what it read before. If it finds none of the hosts
that it knew, it stops (reference/et-operator.md 9, Continuity). So the lists are never emptied, and
each has a host in common with every list that its reader may have read within the last two seconds.
Such a host, an anchor, stays listed for those two seconds though it is gone. The anchors are in an
annotation of `J-hosts`, for the next watcher.

Elastic Horovod never again uses a host on which a process failed, and it knows hosts by name
(reference/et-operator.md 9). So a replacement, which has the Pod name of what it replaces, is
listed under a longer form of its DNS name: `mnist-worker-1`, then `mnist-worker-1.ml` and so on. A
new launcher knows of no failure, and the names are the first again (`lifecycle`).

The gate of a Pod that waits until others have succeeded is opened here, too: it reads `J-status`,
and its kubelet fetches that at once when the Pod is changed.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from msgspec import structs

from etcompile.backend import host_line, host_names
from etcompile.launch.launchers import discovers_hosts
from etcompile.model import HostList, Job, Role
from etcompile.model.run_record import ReplicaKey, ReplicaRecord, RunRecord
from etcompile.watch.core.actions import Action, PatchPod, Requeue, WriteHosts
from etcompile.watch.core.placement import Placement
from etcompile.watch.core.replicas import RunState
from etcompile.watch.core.view import Anchor, HostsRecord, JobView

_Names = Mapping[str, tuple[str, ...]]
"""Of each live list, by its key, the names of its hosts."""


def listed(state: RunState) -> Iterator[Action]:
    """Yield what is to be done so that the launcher knows its hosts."""
    placement = state.placement
    if not any(host_list.live for host_list in state.job.host_lists):
        return
    ready, before, readers = _ready(state), state.view.hosts, placement.readers
    # Are all there that the lists from Git name?
    is_whole = all(
        len(ready[host_list.key]) == sum(len(role.members) for role in roles)
        for host_list, roles in _live(state.job)
    )
    if not readers and not is_whole:
        if before is None:
            return  # nobody asks yet, and the lists from Git say who is to come
        # Nor does anybody ask now: who comes can wait, but who is gone must not be read.
        old = {key: frozenset(_names(text)) for key, text in before.data.items()}
        ready = {
            key: tuple(name for name in names if name in old.get(key, ()))
            for key, names in ready.items()
        }
    if before is None and not all(ready.values()):
        return
    hosts, until = _next(placement, ready, state.now)
    if before is None or hosts.data != before.data:
        yield WriteHosts(hosts)
    else:
        hosts = before
    # The annotation alone decides who is touched. The lists from Git change with the job, and the
    # times of Pods and lists are of two clocks, so neither says what a Pod has read. A new reader
    # is touched once.
    value = _digest(tuple(sorted(hosts.data.items())))
    for pod in readers:
        if pod.touched != value:
            yield PatchPod("touch", pod.name, pod.uid, value)
    if until is not None:
        yield Requeue(until)


def listed_hosts(hosts: HostsRecord | None) -> frozenset[str]:
    """Return the hosts that are in the live lists, each by its bare name."""
    if hosts is None:
        return frozenset()
    return frozenset(
        name.partition(".")[0] for lines in hosts.data.values() for name in _names(lines)
    )


@lru_cache(maxsize=64)
def _digest(lists: tuple[tuple[str, str], ...]) -> str:
    """Asked for at every look, and nearly always for the same lists."""
    return hashlib.sha256(json.dumps(dict(lists)).encode()).hexdigest()[:12]


def _live(job: Job) -> list[tuple[HostList, list[Role]]]:
    return [
        (host_list, [role for name in host_list.roles if (role := job.role(name))])
        for host_list in job.host_lists
        if host_list.live
    ]


def _forms(view: JobView, host_list: HostList) -> tuple[str, ...]:
    """Return what may follow the bare names in a list."""
    job = structs.replace(view.job, namespace=view.namespace)
    return host_names(job, host_list, view.settings, "")


def _ready(state: RunState) -> _Names:
    """Return the names of the replicas that are Ready and stay."""
    by_role: dict[str, list[tuple[str, int]]] = {}
    for replica in state.those("there"):
        pod, role = replica.pod, replica.role
        if pod is not None and pod.ready and not pod.deleting and not pod.ended:
            stem = role.naming.stem
            host = stem if replica.index is None else f"{stem}-{replica.index}"
            form = state.record.replica(replica.key).host_form
            by_role.setdefault(role.name, []).append((host, form))
    for role in state.job.roles:
        if role.batch and any(
            pod.role == role.name and pod.ready and not pod.deleting
            for pod in state.placement.batch
        ):
            form = state.record.replica((role.name, 0)).host_form
            by_role[role.name] = [(role.naming.stem, form)]
    names = {}
    for host_list, roles in _live(state.job):
        forms = _forms(state.view, host_list)
        hosts = [host for role in roles for host in by_role.get(role.name, ())]
        names[host_list.key] = tuple(host + forms[form % len(forms)] for host, form in hosts)
    return names


def _next(placement: Placement, hosts: _Names, now: float) -> tuple[HostsRecord, float | None]:
    """The lists as they are to be, and until when they have hosts only for a reader's sake."""
    view = placement.view
    before, live = view.hosts, _live(view.job)
    if before is not None:
        old = {key: _names(text) for key, text in before.data.items()}
    else:
        # The names that the lists from Git have.
        old = {
            host_list.key: tuple(
                role.host_name(member) + first
                for first in _forms(view, host_list)[:1]
                for role in roles
                for member in role.members
            )
            for host_list, roles in live
        }
    # A reader may take no host at all for one without a name (reference 9, Empty output).
    ready = {key: names or old.get(key, ()) for key, names in hosts.items()}
    anchors: dict[str, Anchor] = {}
    names: _Names = ready
    if placement.readers:
        until = now + view.timeouts.overlap
        known = before.anchors if before else {}
        anchors = {name: anchor for name, anchor in known.items() if now < anchor.until <= until}
        names = _with_anchors(anchors, ready, old)
        if names != old:
            # Who has just read the old lists may read the new ones as late as that.
            for key in names:
                _add_anchor(anchors, old.get(key, ()), ready[key], until)
            names = _with_anchors(anchors, ready, old)
    there = {name for key in ready for name in ready[key]}
    gone = {name for key in names for name in names[key]} - there
    again = min((anchors[name].until for name in gone), default=None)
    if before is not None and names == old:
        return before, again
    job = structs.replace(view.job, namespace=view.namespace)
    data = {
        host_list.key: "".join(host_line(job, host_list, name) for name in names[host_list.key])
        for host_list, _ in live
    }
    marked = {name: Anchor(anchor.until, gone=name in gone) for name, anchor in anchors.items()}
    return HostsRecord(data, marked), again


def _add_anchor(
    anchors: dict[str, Anchor], old: tuple[str, ...], ready: tuple[str, ...], until: float
) -> None:
    """Add the host that a list is to have in common with the one before: a Ready one, if any."""
    there = frozenset(ready)
    anchor = next((name for name in old if name in there), None)
    if anchor is None and not any(name in anchors and anchors[name].until >= until for name in old):
        anchor = next((name for name in old if name not in anchors or not anchors[name].gone), None)
    if anchor is not None:
        anchors[anchor] = Anchor(until)


def _with_anchors(anchors: Mapping[str, Anchor], ready: _Names, old: _Names) -> _Names:
    """Return the names of the lists in natural order, with the anchors that were in them."""

    def natural(name: str) -> list[tuple[int, str]]:
        parts = re.split(r"(\d+)", name)  # so that `worker-10` comes after `worker-9`
        return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]

    merged = {}
    for key, names in ready.items():
        more = [anchor for anchor in anchors if anchor not in names and anchor in old.get(key, ())]
        merged[key] = tuple(sorted((*names, *more), key=natural)) if more else names
    return merged


@lru_cache(maxsize=16)  # four times in a look at a job, and the same in the next
def _names(lines: str) -> tuple[str, ...]:
    return tuple(
        line.replace(":", " ").split(" ", 1)[0] for line in lines.splitlines() if line.strip()
    )


def renamed(state: RunState, record: RunRecord) -> RunRecord:
    """Return the record, with another name for each host that was lost while the launcher ran."""
    losses, readers = state.new_returns(), state.placement.readers
    if not losses or not readers:
        return record
    # Is the launcher one that never trusts a host again?
    if not any(
        discovers_hosts(role.template.main_container)
        for role in state.job.roles
        if role.additions.reads_hosts
    ):
        return record
    listed = {role.name for _, roles in _live(state.job) for role in roles}
    changed: dict[ReplicaKey, ReplicaRecord] = {}
    for loss in losses:
        if loss.role.name in listed:
            written = record.replica(loss.key)
            changed[loss.key] = structs.replace(written, host_form=written.host_form + 1)
    if not changed:
        return record
    return structs.replace(record.with_replicas(changed), launcher=readers[0].uid)


def succeeded(job: Job, record: RunRecord) -> list[str] | None:
    """The roles that have succeeded, of those that others wait for; None if none is awaited."""
    awaited = {
        name for role in job.roles if (gate := role.additions.gate) for name in gate.completed
    }
    if not awaited:
        return None
    return [
        role.name
        for role in job.roles
        if role.name in awaited
        and all(record.replica((role.name, member.place or 0)).completed for member in role.members)
    ]


def gates_opened(placement: Placement, record: RunRecord) -> Iterator[Action]:
    """Touch Pods that wait for nothing any more, once the record is written that says so."""
    done = succeeded(placement.job, record)
    if not done:
        return
    value = f"{record.run} {' '.join(done)}"
    for replica in placement.replicas:
        gate, pod = replica.role.additions.gate, replica.pod
        if gate is None or not gate.completed or not {*gate.completed} <= {*done}:
            continue
        if pod is not None and pod.phase == "Pending" and not pod.deleting and pod.touched != value:
            yield PatchPod("touch", pod.name, pod.uid, value)
