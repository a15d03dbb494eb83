"""Write the live host lists: the hosts that are Ready, in steps that a running launcher survives.

Nobody knows when a launcher reads the lists: its kubelet brings them some time after they were
written, and Horovod compares what it reads with what it read before. If it finds none of the hosts
that it knew, it stops (reference/et-operator.md 9, Continuity). So the lists are never emptied, and
each has a host in common with every list that its reader may have read within the last two seconds.
Such a host, an anchor, stays listed for those two seconds though it is gone. The anchors are in an
annotation of `J-hosts`, for the next watcher.

Elastic Horovod never again uses a host on which a process failed, and it knows hosts by name
(reference/et-operator.md 9). So a replacement, which has the Pod name of what it replaces, is
listed under a longer form of its DNS name: `mnist-worker-1`, then `mnist-worker-1.ml` and so on. A
new launcher knows of no failure, and the names are the first again.

The gate of a Pod that waits until others have succeeded is opened here, too: it reads `J-status`,
and its kubelet fetches that at once when the Pod is changed.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import structs

from etcompile.backend import host_line, host_names
from etcompile.launch.launchers import discovers_hosts
from etcompile.model import HostList, Job, Role
from etcompile.model.run_record import NOTHING, ReplicaKey, ReplicaRecord, RunRecord
from etcompile.watch.core.actions import Action, PatchPod, Requeue, WriteHosts
from etcompile.watch.core.run import Run
from etcompile.watch.core.view import Anchor, HostsRecord, JobView

_Names = Mapping[str, tuple[str, ...]]
"""The names of the hosts of each live list, by its key."""


def listed(run: Run) -> Iterator[Action]:
    lists = _live(run.job)
    if not lists:
        return
    ready, before, readers = _ready(run, lists), run.view.hosts, run.readers
    # Are all there that the lists from Git name?
    is_whole = all(
        len(ready[host_list.key]) == sum(len(role.members) for role in roles)
        for host_list, roles in lists
    )
    if not readers and not is_whole:
        if before is None:
            return  # no reader yet, and the lists from Git say which hosts are to come
        # Without a reader, new hosts can wait, but hosts that are gone must not be read later.
        old = {key: frozenset(_names(text)) for key, text in before.data.items()}
        ready = {
            key: tuple(name for name in names if name in old.get(key, ()))
            for key, names in ready.items()
        }
    if before is None and not all(ready.values()):
        return
    hosts, until = _next(run, lists, ready, has_reader=bool(readers))
    if before is None or hosts.data != before.data:
        yield WriteHosts(hosts)
    else:
        hosts = before
    # The annotation alone decides which Pods are touched. The lists from Git change with the job,
    # and the times of Pods and lists are of two clocks, so neither says what a Pod has read. A new
    # reader is touched once.
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


@lru_cache(maxsize=64)  # nearly always the same lists
def _digest(lists: tuple[tuple[str, str], ...]) -> str:
    return hashlib.sha256(json.dumps(dict(lists)).encode()).hexdigest()[:12]


@lru_cache(maxsize=16)  # the same lists, several times in each decision
def _names(lines: str) -> tuple[str, ...]:
    return tuple(
        line.replace(":", " ").split(" ", 1)[0] for line in lines.splitlines() if line.strip()
    )


_Lists = Sequence[tuple[HostList, Sequence[Role]]]
"""The live lists, each with the roles of its hosts."""


def _live(job: Job) -> _Lists:
    return [
        (host_list, [role for name in host_list.roles if (role := job.role(name))])
        for host_list in job.host_lists
        if host_list.live
    ]


def _forms(view: JobView, host_list: HostList) -> tuple[str, ...]:
    job = structs.replace(view.job, namespace=view.namespace)
    return host_names(job, host_list, view.settings, "")


def _ready(run: Run, lists: _Lists) -> _Names:
    by_role: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    stems = {role.name: role.naming.stem for role in run.job.roles}
    records = run.record.replicas
    for replica in run.replicas:
        pod = replica.pod
        if pod is None or replica.state != "there":
            continue
        if pod.ready and not (pod.deleting or pod.ended):
            name, number = replica.key
            host = stems[name] if replica.index is None else f"{stems[name]}-{replica.index}"
            by_role[name].append((host, records.get(name, {}).get(number, NOTHING).host_form))
    for role in run.job.roles:
        if role.batch and any(
            pod.role == role.name and pod.ready and not pod.deleting for pod in run.batch
        ):
            form = run.record.replica((role.name, 0)).host_form
            by_role[role.name] = [(role.naming.stem, form)]
    names = {}
    for host_list, roles in lists:
        forms = _forms(run.view, host_list)
        hosts = [host for role in roles for host in by_role.get(role.name, ())]
        names[host_list.key] = tuple([host + forms[form % len(forms)] for host, form in hosts])
    return names


def _next(
    run: Run, live: _Lists, hosts: _Names, *, has_reader: bool
) -> tuple[HostsRecord, float | None]:
    """Return the next lists, and until when they have hosts only for a reader's sake."""
    view, now = run.view, run.now
    before = view.hosts
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
    # An empty list may read as one host without a name (reference 9, Empty output).
    ready = {key: names or old.get(key, ()) for key, names in hosts.items()}
    anchors: dict[str, Anchor] = {}
    names: _Names = ready
    if has_reader:
        until = now + run.timeouts.overlap
        known = before.anchors if before else {}
        anchors = {name: anchor for name, anchor in known.items() if now < anchor.until <= until}
        names = _with_anchors(anchors, ready, old)
        if names != old:
            # A launcher that just read the old list may not see the new one until then.
            for key in names:
                _add_anchor(anchors, old.get(key, ()), ready[key], until)
            names = _with_anchors(anchors, ready, old)
    gone: set[str] = set()
    if anchors:
        there = {name for key in ready for name in ready[key]}
        gone = {name for key in names for name in names[key]} - there
    again = min((anchors[name].until for name in gone), default=None)
    if before is not None and names == old:
        return before, again
    job, data = structs.replace(view.job, namespace=view.namespace), {}
    for host_list, _ in live:
        line = host_line(job, host_list, "\0")
        data[host_list.key] = "".join([line.replace("\0", name) for name in names[host_list.key]])
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
    def natural(name: str) -> list[tuple[int, str]]:
        parts = re.split(r"(\d+)", name)  # so that `worker-10` comes after `worker-9`
        return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]

    merged = {}
    for key, names in ready.items():
        more = [anchor for anchor in anchors if anchor not in names and anchor in old.get(key, ())]
        merged[key] = tuple(sorted((*names, *more), key=natural)) if more else names
    return merged


def renamed(run: Run) -> Run:
    """Return a run with another name for each host that was lost while the launcher ran."""
    losses, readers = run.returning, run.readers
    # Is the launcher one that never trusts a host again?
    discovers = any(
        discovers_hosts(role.template.main_container)
        for role in run.job.roles
        if role.additions.reads_hosts
    )
    if not (losses and readers and discovers):
        return run
    roles = {role.name for _, members in _live(run.job) for role in members}
    changed: dict[ReplicaKey, ReplicaRecord] = {}
    for loss in losses:
        if loss.role.name in roles:
            written = run.record.replica(loss.key)
            changed[loss.key] = structs.replace(written, host_form=written.host_form + 1)
    if not changed:
        return run
    record = structs.replace(run.record.with_replicas(changed), launcher=readers[0].uid)
    return structs.replace(run, record=record)


def succeeded(job: Job, record: RunRecord) -> list[str] | None:
    """Return the succeeded roles, of those that others wait for; None if none is awaited."""
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


def gates_opened(run: Run) -> Iterator[Action]:
    """Touch Pods that wait for nothing any more, once the record is written that says so."""
    done = succeeded(run.job, run.record)
    if not done:
        return
    value = f"{run.record.run} {' '.join(done)}"
    for replica in run.replicas:
        gate, pod = replica.role.additions.gate, replica.pod
        if gate is None or not gate.completed or not {*gate.completed} <= {*done}:
            continue
        if pod is not None and pod.phase == "Pending" and not pod.deleting and pod.touched != value:
            yield PatchPod("touch", pod.name, pod.uid, value)
