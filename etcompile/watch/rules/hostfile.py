"""The live host lists: the hosts that are Ready, in steps that a running launcher survives.

Why this is hard: nobody knows when a launcher reads the lists. Its kubelet brings them some time
after they were written, Horovod reads them every second, and what it reads it compares with what it
read before. So the lists are whole lines in natural order, written only when they change, and never
emptied. If a launcher finds none of the hosts that it knew, Horovod stops
(reference/et-operator.md 9, Continuity): each list has a host in common with every list that its
reader may have read within the last two seconds. Such a host, an anchor, stays listed for those two
seconds though it is gone, and then goes like any other, whatever becomes of the other hosts
meanwhile. The anchors are in an annotation of `J-hosts`, for the next watcher.

Elastic Horovod never again uses a host on which a process failed, and it knows hosts by name
(reference/et-operator.md 9). A replacement has the Pod name and the DNS name of what it replaces,
so it is listed under a longer form of that name, which resolves to the same Pod and is another
host: `mnist-worker-1`, then `mnist-worker-1.ml`, `mnist-worker-1.ml.svc` and so on. A new launcher
knows of no failure, and the names are the first again (`lifecycle`).
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from msgspec import Struct, structs

from etcompile.backend import host_line, host_names
from etcompile.launch.commands import discovers_hosts
from etcompile.model import HostList, Job, Role, Settings
from etcompile.model.run_record import ReplicaKey, RunRecord
from etcompile.watch.actions import Action, Requeue, TouchPod, WriteHosts
from etcompile.watch.rules.placement import Placement
from etcompile.watch.rules.replica_state import ReplicaStates
from etcompile.watch.state import Anchor, HostsRecord

_Names = Mapping[str, tuple[str, ...]]
"""Of each live list, by its key, the names of its hosts."""


class _Lists(Struct, frozen=True):
    """The live host lists of a job.

    Args:
        job: The job, with its namespace.
        lists: Its live lists.
        ready: The names of the hosts that are Ready.
        settings: How the job is compiled.
    """

    job: Job
    lists: tuple[HostList, ...]
    ready: _Names
    settings: Settings

    def seeds(self) -> _Names:
        """The names that the lists from Git have."""
        return {
            host_list.key: tuple(
                role.host_name(member) + first
                for first in self.forms(host_list)[:1]
                for role in self.roles(host_list)
                for member in role.members
            )
            for host_list in self.lists
        }

    def forms(self, host_list: HostList) -> tuple[str, ...]:
        """What may follow the bare names in a list."""
        return host_names(self.job, host_list, self.settings, "")

    def roles(self, host_list: HostList) -> list[Role]:
        """The roles of a list."""
        return [role for name in host_list.roles if (role := self.job.role(name))]


def listed(states: ReplicaStates, record: RunRecord, now: float) -> Iterator[Action]:
    """What is to be done so that the launcher knows its hosts."""
    placement = states.placement
    if not any(host_list.live for host_list in placement.job.host_lists):
        return
    lists = _lists(states, record)
    before = placement.view.hosts
    if not placement.readers and not _is_whole(lists):
        if before is None:
            return  # nobody asks yet, and the lists from Git say who is to come
        # Nor does anybody ask now: who comes can wait, but who is gone must not be read.
        lists = _only(lists, before)
    if before is None and not all(lists.ready.values()):
        return
    hosts, until = _next(placement, lists, now)
    if before is None or hosts.data != before.data:
        yield WriteHosts(hosts)
    else:
        hosts = before
    yield from _touched(placement, hosts)
    if until is not None:
        yield Requeue(until)


def listed_hosts(hosts: HostsRecord | None) -> frozenset[str]:
    """The hosts that are in the live lists, each by its bare name."""
    if hosts is None:
        return frozenset()
    return frozenset(
        name.partition(".")[0] for lines in hosts.data.values() for name in _names(lines)
    )


def touch_value(data: Mapping[str, str]) -> str:
    """What a Pod is annotated with that is to fetch these lists."""
    return _digest(tuple(sorted(data.items())))


@lru_cache(maxsize=64)
def _digest(lists: tuple[tuple[str, str], ...]) -> str:
    """Asked for at every look, and nearly always for the same lists."""
    return hashlib.sha256(json.dumps(dict(lists)).encode()).hexdigest()[:12]


# Who is listed ---------------------------------------------------------------------------------


def _lists(states: ReplicaStates, record: RunRecord) -> _Lists:
    view = states.placement.view
    job = structs.replace(view.job, namespace=view.namespace)
    live = tuple(host_list for host_list in job.host_lists if host_list.live)
    lists = _Lists(job, live, {}, view.settings)
    ready = _ready(states)
    names: dict[str, tuple[str, ...]] = {}
    for host_list in live:
        forms = lists.forms(host_list)
        hosts = [found for role in lists.roles(host_list) for found in ready.get(role.name, ())]
        names[host_list.key] = tuple(
            host + forms[record.replica(key).host_form % len(forms)] for host, key in hosts
        )
    return structs.replace(lists, ready=names)


def _ready(states: ReplicaStates) -> dict[str, list[tuple[str, ReplicaKey]]]:
    """Of each role, the bare names and keys of the replicas that are Ready and stay."""
    found: dict[str, list[tuple[str, ReplicaKey]]] = {}
    for replica in states.those("there"):
        pod, place = replica.place.pod, replica.place
        if pod is not None and pod.ready and not pod.deleting and not pod.ended:
            stem = place.role.naming.stem
            host = stem if place.index is None else f"{stem}-{place.index}"
            found.setdefault(place.role.name, []).append((host, place.key))
    for role in states.placement.job.roles:
        if role.batch and any(
            pod.role == role.name and pod.ready and not pod.deleting
            for pod in states.placement.batch
        ):
            found[role.name] = [(role.naming.stem, (role.name, 0))]
    return found


def _is_whole(lists: _Lists) -> bool:
    """Whether all are there that the lists from Git name."""
    return all(
        len(lists.ready[host_list.key]) == sum(len(role.members) for role in lists.roles(host_list))
        for host_list in lists.lists
    )


def _only(lists: _Lists, before: HostsRecord) -> _Lists:
    """The lists without the hosts that they do not have yet."""
    old = {key: frozenset(_names(text)) for key, text in before.data.items()}
    ready = {
        key: tuple(name for name in names if name in old.get(key, ()))
        for key, names in lists.ready.items()
    }
    return structs.replace(lists, ready=ready)


# How it is written -----------------------------------------------------------------------------


def _next(placement: Placement, lists: _Lists, now: float) -> tuple[HostsRecord, float | None]:
    """The lists as they are to be, and until when they have hosts only for a reader's sake."""
    view = placement.view
    before = view.hosts
    old = lists.seeds() if before is None else {k: _names(v) for k, v in before.data.items()}
    # A reader may take no host at all for one without a name (reference 9, Empty output).
    ready = {key: names or old.get(key, ()) for key, names in lists.ready.items()}
    anchors: dict[str, Anchor] = {}
    names: _Names = ready
    if placement.readers:
        until = now + view.timeouts.overlap
        known = before.anchors if before else {}
        anchors = {name: anchor for name, anchor in known.items() if now < anchor.until <= until}
        names = _with(anchors, ready, old)
        if names != old:
            # Who has just read the old lists may read the new ones as late as that.
            for key in names:
                _anchor(anchors, old.get(key, ()), ready[key], until)
            names = _with(anchors, ready, old)
    there = {name for key in ready for name in ready[key]}
    kept = {name for key in names for name in names[key]} - there
    again = min((anchors[name].until for name in kept), default=None)
    if before is not None and names == old:
        return before, again
    data = {
        host_list.key: "".join(
            host_line(lists.job, host_list, name) for name in names[host_list.key]
        )
        for host_list in lists.lists
    }
    held = {name: Anchor(anchor.until, gone=name in kept) for name, anchor in anchors.items()}
    return HostsRecord(data, now, held), again


def _anchor(
    anchors: dict[str, Anchor], old: tuple[str, ...], ready: tuple[str, ...], until: float
) -> None:
    """Chooses the host that a list is to have in common with the one before, if that had any.

    One that is Ready if there is one; else one that has just gone, and none that stays already.
    """
    there = frozenset(ready)
    found = next((name for name in old if name in there), None)
    if found is None and not any(name in anchors and anchors[name].until >= until for name in old):
        found = next((name for name in old if name not in anchors or not anchors[name].gone), None)
    if found is not None:
        anchors[found] = Anchor(until)


def _with(anchors: Mapping[str, Anchor], ready: _Names, old: _Names) -> _Names:
    """The names of the lists, with the anchors that were in them."""
    found = {}
    for key, names in ready.items():
        more = [anchor for anchor in anchors if anchor not in names and anchor in old.get(key, ())]
        found[key] = tuple(sorted((*names, *more), key=_natural)) if more else names
    return found


def _natural(name: str) -> list[tuple[int, str]]:
    """The order in which `worker-10` comes after `worker-9`."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]


@lru_cache(maxsize=16)  # four times in a look at a job, and the same in the next
def _names(lines: str) -> tuple[str, ...]:
    """The hosts of a list: each of its lines begins with one."""
    return tuple(
        line.replace(":", " ").split(" ", 1)[0] for line in lines.splitlines() if line.strip()
    )


# How it arrives --------------------------------------------------------------------------------


def _touched(placement: Placement, hosts: HostsRecord) -> Iterator[Action]:
    """Touches each reader whose annotation is not the digest of these lists.

    The annotation alone decides. The lists from Git change with the job, and the times of Pods and
    lists are of two clocks, so neither says what a Pod has read. A new reader is touched once.
    """
    value = touch_value(hosts.data)
    for pod in placement.readers:
        if pod.touched != value:
            yield TouchPod(pod.name, pod.uid, value)


# By which name -----------------------------------------------------------------------------


def renamed(states: ReplicaStates, record: RunRecord, now: float) -> RunRecord:
    """The record, with another name for each host that was lost while the launcher ran."""
    placement = states.placement
    losses = states.new_returns(now)
    readers = placement.readers
    if not losses or not readers or not _never_forgives(placement.job):
        return record
    listed = {
        name for host_list in placement.job.host_lists if host_list.live for name in host_list.roles
    }
    lost = [loss.place for loss in losses if loss.place.role.name in listed]
    if not lost:
        return record
    written = {place.key: record.replica(place.key) for place in lost}
    renamed = {
        key: structs.replace(replica, host_form=replica.host_form + 1)
        for key, replica in written.items()
    }
    return structs.replace(record.with_replicas(renamed), launcher=readers[0].uid)


def _never_forgives(job: Job) -> bool:
    """Whether the launcher is one that never trusts a host again."""
    return any(
        discovers_hosts(role.template.main_container)
        for role in job.roles
        if role.additions.reads_hosts
    )
