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
from etcompile.model.run_record import NOTHING, ReplicaKey, ReplicaRecord
from etcompile.watch.core.run import Action, Anchor, HostsRecord, PatchPod, Requeue, Run, WriteHosts

_HOST = re.compile(r"^[^ :\n]+", re.MULTILINE)
_Names = Mapping[str, tuple[str, ...]]
"""The names of the hosts of each live list, by its key."""


def listed(run: Run) -> Iterator[Action]:
    view, before, readers = run.view, run.view.hosts, run.readers
    lists = [
        (host_list, [role for name in host_list.roles if (role := run.job.role(name))])
        for host_list in run.job.host_lists
        if host_list.live
    ]
    if not lists:
        return
    job = structs.replace(view.job, namespace=view.namespace)
    forms = {host_list.key: host_names(job, host_list, view.settings, "") for host_list, _ in lists}
    hosts = _ready_hosts(run)
    ready = dict[str, tuple[str, ...]]()
    for host_list, roles in lists:
        of_list = [host for role in roles for host in hosts.get(role.name, ())]
        ends = forms[host_list.key]
        ready[host_list.key] = tuple([host + ends[form % len(ends)] for host, form in of_list])
    # Are all there that the lists from Git name?
    is_whole = all(
        len(ready[host_list.key]) == sum(len(role.members) for role in roles)
        for host_list, roles in lists
    )
    if before is None:
        if not all(ready.values()) or not (readers or is_whole):
            return  # no reader yet, and the lists from Git say which hosts are to come
        old: _Names = {
            host_list.key: tuple(
                role.host_name(member) + forms[host_list.key][0]
                for role in roles
                for member in role.members
            )
            for host_list, roles in lists
        }
    else:
        old = {key: _names(text) for key, text in before.data.items()}
    if not readers and not is_whole:
        # Without a reader, new hosts can wait, but hosts that are gone must not be read later.
        known = {key: frozenset(names) for key, names in old.items()}
        ready = {
            key: tuple(name for name in names if name in known.get(key, ()))
            for key, names in ready.items()
        }
    # An empty list may read as one host without a name (reference 9, Empty output).
    ready = {key: names or old.get(key, ()) for key, names in ready.items()}
    names, anchors = _anchored(run, ready, old)
    gone = set[str]()
    if names != ready:
        there = {name for hosts in ready.values() for name in hosts}
        gone = {name for hosts in names.values() for name in hosts} - there
    data = before.data if before is not None else {}
    if before is None or names != old:
        data = {}
        for host_list, _ in lists:
            line = host_line(job, host_list, "\0")
            data[host_list.key] = "".join([line.replace("\0", n) for n in names[host_list.key]])
    if before is None or data != before.data:
        again = _written(run) + run.timeouts.lists
        if before is not None and run.now < again:
            data = before.data
            yield Requeue(again)
        else:
            marked = {name: Anchor(a.until, gone=name in gone) for name, a in anchors.items()}
            yield WriteHosts(HostsRecord(data, marked))
    # The annotation alone decides which Pods are touched. The lists from Git change with the job,
    # and the times of Pods and lists are of two clocks, so neither says what a Pod has read. A new
    # reader is touched once.
    value = _digest(tuple(sorted(data.items())))
    for pod in readers:
        if pod.touched != value:
            yield PatchPod("touch", pod.name, pod.uid, value)
    if gone:
        yield Requeue(min(anchors[name].until for name in gone))


def listed_hosts(hosts: HostsRecord | None) -> frozenset[str]:
    """Return the hosts that are in the live lists, each by its bare name."""
    lists = hosts.data.values() if hosts is not None else ()
    return frozenset(name.partition(".")[0] for lines in lists for name in _names(lines))


@lru_cache(maxsize=64)  # nearly always the same lists
def _digest(lists: tuple[tuple[str, str], ...]) -> str:
    return hashlib.sha256(json.dumps(dict(lists)).encode()).hexdigest()[:12]


def _names(lines: str) -> tuple[str, ...]:
    return tuple(_HOST.findall(lines))


def _ready_hosts(run: Run) -> Mapping[str, Sequence[tuple[str, int]]]:
    """Return the hosts that are Ready, by role: the name of each, and which form of it counts."""
    hosts: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    stems = {role.name: role.naming.stem for role in run.job.roles}
    records = run.record.replicas
    for replica in run.replicas:
        pod, (name, number), index = replica.pod, replica.key, replica.member.index
        if pod is None or not pod.ready or replica.state != "there" or pod.deleting or pod.ended:
            continue
        host = stems[name] if index is None else f"{stems[name]}-{index}"
        hosts[name].append((host, records.get(name, {}).get(number, NOTHING).host_form))
    for pod in run.batch:
        if pod.ready and not pod.deleting:
            form = run.record.replica((pod.role, 0)).host_form
            hosts[pod.role] = [(stems[pod.role], form)]
    return hosts


def _written(run: Run) -> float:
    """Return when the lists were last written, as far as their anchors tell; 0 if they do not."""
    known = run.view.hosts.anchors.values() if run.view.hosts is not None else ()
    latest = run.now + run.timeouts.overlap
    last = max((anchor.until for anchor in known if anchor.until <= latest), default=0.0)
    return last - run.timeouts.overlap


def _anchored(run: Run, ready: _Names, old: _Names) -> tuple[_Names, dict[str, Anchor]]:
    """Return the next lists, and the hosts that they have in common with what a reader may know."""
    if not run.readers:
        return ready, {}

    def natural(name: str) -> list[tuple[int, str]]:
        parts = re.split(r"(\d+)", name)  # so that `worker-10` comes after `worker-9`
        return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]

    def merged() -> _Names:
        names = {}
        for key, hosts in ready.items():
            more = [name for name in anchors if name not in hosts and name in old.get(key, ())]
            names[key] = tuple(sorted((*hosts, *more), key=natural)) if more else hosts
        return names

    until = run.now + run.timeouts.overlap
    known = run.view.hosts.anchors if run.view.hosts is not None else {}
    anchors = {name: anchor for name, anchor in known.items() if run.now < anchor.until <= until}
    if merged() == old:
        return old, anchors
    # A launcher that just read the old list may not see the new one until then. So both have a host
    # in common: a Ready one, if any.
    for key, hosts in ready.items():
        there, listed = frozenset(hosts), old.get(key, ())
        anchor = next((name for name in listed if name in there), None)
        if anchor is None and all(n not in anchors or anchors[n].until < until for n in listed):
            fresh = (name for name in listed if name not in anchors or not anchors[name].gone)
            anchor = next(fresh, None)
        if anchor is not None:
            anchors[anchor] = Anchor(until)
    return merged(), anchors


def renamed(run: Run) -> Run:
    """Return a run with another name for each host that was lost while the launcher ran."""
    # Is the launcher one that never trusts a host again?
    discovers = any(
        discovers_hosts(role.template.main_container)
        for role in run.job.roles
        if role.additions.reads_hosts
    )
    if not (run.returning and run.readers and discovers):
        return run
    roles = {name for host_list in run.job.host_lists if host_list.live for name in host_list.roles}
    changed: dict[ReplicaKey, ReplicaRecord] = {}
    for loss in run.returning:
        if loss.role.name in roles:
            written = run.record.replica(loss.key)
            changed[loss.key] = structs.replace(written, host_form=written.host_form + 1)
    if not changed:
        return run
    record = structs.replace(run.record.with_replicas(changed), launcher=run.readers[0].uid)
    return structs.replace(run, record=record)
