"""Order steps: what each waits for, and whose turn it is.

`ordered` writes down the reasons that an object has for itself: it names another one in its spec,
or training needs it so (reference/gitops.md 4.3). `Schedule` adds the waves and hands out the steps
that can begin. Each wave is a single point that all of its steps lead to: a thousand Pods that wait
for a thousand Services would be a million pairs.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from msgspec import Struct, structs

from etcompile.k8s.objects import FOREMOST_KINDS, Object, labels_of, timestamp, wave
from etcompile.model.protocol import ROLE_LABEL
from etcompile.model.schedulers import NATIVE_GROUPS
from etcompile.plan.needs import graph
from etcompile.plan.step import IDLE, MAKES, REMOVES, Action, Declared, Reason, Step

DRAIN = 90
"""Seconds: a changed ConfigMap reaches a running Pod after at most 82 (measured on a real node),
and an elastic launcher looks at its host list every second."""
READY = 600
"""Seconds until a new worker should be Ready."""

_CREATING: frozenset[Action] = frozenset({"create", "adopt", "replace"})
_AFTER_IDENTITY = 0
"""The first wave after that of accounts and keys, which no run has to itself."""
_POINT = "\0"
"""The first character of the name of a point, and of no step's id."""

_After = dict[str, list[str]]
"""What each step must wait for, by ids."""


class Draft(Struct, frozen=True):
    """A step, and the object that it is about: as it is desired, or else as it is.

    Args:
        unlisted: For a Pod that still drains: since when no host list names it.
    """

    step: Step
    value: Object
    unlisted: float | None = None


def ordered(
    drafts: Sequence[Draft],
    waits: Mapping[str | None, Mapping[str, tuple[str, ...]]],
    unready: Iterable[Draft] = (),
    drain: int = DRAIN,
) -> list[Step]:
    """Return the steps with their order, and the steps that only wait.

    Args:
        waits: By job, the names of Pods that wait, each with those of the Pods it waits for.
        unready: Pods with nothing to do that are not Ready: an earlier rollout may have ended
            between a worker and the host list.
        drain: Seconds between the host list and the deletion of a Pod.
    """
    late: dict[str | None, list[Draft]] = defaultdict(list)
    for draft in unready:
        late[draft.step.job].append(draft)
    by_job: dict[str | None, list[Draft]] = defaultdict(list)
    for draft in drafts:
        by_job[draft.step.job].append(draft)
    after: _After = defaultdict(list)
    waiting: dict[str, Step] = {}
    raised: dict[str, int] = {}
    for job, inside in by_job.items():
        training = _Training(inside, waits.get(job, {}), late.get(job, ()), drain)
        for step in training.waiting(after):
            waiting.setdefault(step.id, step)
        # Host lists come as late as the Pods that they wait for.
        pods = [wave(pod.value) for pod in training.applied]
        for name, (draft, _, _) in training.lists.items():
            raised[name] = max([wave(draft.value), *pods])
    # What a new object needs is created before it, and what an old one needs is deleted after it.
    for actions in (MAKES, REMOVES):
        some = [draft for draft in drafts if draft.step.action in actions]
        for edge in graph([Declared(None, [draft.value for draft in some])]).edges:
            if edge.binds and edge.target < len(some):
                source, target = some[edge.source].step, some[edge.target].step
                if source.action in REMOVES:
                    source, target = target, source
                elif source.action not in _CREATING:
                    continue
                if target.id not in raised:
                    after[source.id].append(target.id)
    steps: list[Step] = []
    for draft in drafts:
        step = draft.step
        # Whatever is in a new namespace, or of a new kind, may be of the same wave.
        number = raised.get(step.id, wave(draft.value) - (step.ref.kind in FOREMOST_KINDS))
        names = tuple(
            name for name in dict.fromkeys((*step.after, *after[step.id])) if name != step.id
        )
        steps += [
            structs.replace(waiting.pop(name), wave=number) for name in names if name in waiting
        ]
        steps.append(structs.replace(step, wave=number, after=names))
    return steps


def drains(seconds: float, since: float | None = None) -> str:
    at = f" at {timestamp(since)}" if since is not None else ""
    return (
        f"it was removed from the host list{at}, and drains for at most {seconds:g} s (the setting"
        " drain); then it is deleted here, if the watcher has not done so"
    )


class _Training:
    """The order that the steps of one job have because they train together."""

    def __init__(
        self,
        drafts: Sequence[Draft],
        waits: Mapping[str, tuple[str, ...]],
        unready: Sequence[Draft],
        drain: int,
    ) -> None:
        self.waits = waits
        self.drain = drain
        self.unready = unready
        core = [draft for draft in drafts if not draft.step.ref.group]
        pods = [draft for draft in core if draft.step.ref.kind == "Pod"]
        jobs = [draft for draft in drafts if draft.step.ref.kind == "Job"]
        self.applied = [pod for pod in pods if pod.step.action in MAKES]
        # A launcher may be a Job, which creates its Pods.
        self.runs = [*self.applied, *(job for job in jobs if job.step.action in _CREATING)]
        # Kubernetes starts the minimum of a gang in the order in which its Pods were created
        # (reference/gang-scheduling.md 5): those that a run cannot begin without come first.
        self.leaders: list[str] = []
        self.followers: list[str] = []
        for run in self.runs:
            labels = labels_of(run.value)
            if run.step.action == "create" and not NATIVE_GROUPS.isdisjoint(run.value["spec"]):
                is_worker = labels.get(ROLE_LABEL) == "worker"
                (self.followers if is_worker else self.leaders).append(run.step.id)
        self.gone = [
            run for run in (*pods, *jobs) if run.step.action == "delete" or run.step.until == "gone"
        ]
        self.services = {
            draft.step.ref.name: draft.step for draft in core if draft.step.ref.kind == "Service"
        }
        hosts = {name for draft in (*pods, *unready) for name in host_names(draft.value)}
        self.lists: dict[str, tuple[Draft, set[str], set[str]]] = {}
        for draft in drafts:
            if draft.step.ref.kind == "ConfigMap" and draft.step.action in ("update", "adopt"):
                added, removed = set[str](), set[str]()
                for change in draft.step.changes:
                    if change.steps[:1] == ("data",) and len(change.steps) > 1:
                        before, after = (
                            hosts_in(text) & hosts for text in (change.before, change.after)
                        )
                        added |= after - before
                        removed |= before - after
                if added != removed:
                    self.lists[draft.step.id] = (draft, added - removed, removed - added)

    def waiting(self, after: _After) -> Iterator[Step]:
        """Write what waits for what into `after`, and yield the steps that only wait."""

        def ready(pod: Step, waiter: str) -> Step:
            why = (Reason("it must be Ready before the host list names it"),)
            first = () if pod.action in IDLE else (pod.id,)
            step = Step("wait", pod.ref, why, after=first, job=pod.job, until="ready", limit=READY)
            after[waiter].append(step.id)
            return step

        for pod in self.applied:
            for host in host_names(pod.value):
                service = self.services.get(host)
                if service and service.action in _CREATING and pod.step.action in _CREATING:
                    after[pod.step.id].append(service.id)
        # Service, Pod, Ready, then the host list.
        for name, (_, added, _) in self.lists.items():
            for pod in (*self.applied, *self.unready):
                starts = pod.step.action in _CREATING | IDLE
                if starts and not added.isdisjoint(host_names(pod.value)):
                    yield ready(pod.step, name)
        yield from self._scale_in(after)
        # A launcher comes after its workers, and one that is replaced after they are Ready. A new
        # one need not wait for that: its own gate does.
        runs = {run.step.ref.name: run.step for run in self.runs}
        idle = {draft.step.ref.name: draft.step for draft in self.unready}
        for name, workers in self.waits.items():
            if (launcher := runs.get(name)) is None or launcher.id in self.leaders:
                continue
            for worker in workers:
                step = runs.get(worker) or idle.get(worker)
                if launcher.action == "replace" and step and step.action in _CREATING | IDLE:
                    yield ready(step, launcher.id)
                elif step and worker in runs:
                    after[launcher.id].append(step.id)
            if launcher.action == "replace":
                after[launcher.id] += self.lists
        for follower in self.followers:
            after[follower] += self.leaders

    def _scale_in(self, after: _After) -> Iterator[Step]:
        """Order a scale-in: the host list, a while to drain, the Pod, then the Service."""
        launchers = [
            draft.step.id
            for draft in self.gone
            if draft.step.ref.kind == "Job" or labels_of(draft.value).get(ROLE_LABEL) == "launcher"
        ]
        for pod in self.gone:
            lists = tuple(
                name
                for name, (_, _, removed) in self.lists.items()
                if not removed.isdisjoint(host_names(pod.value))
            )
            if pod.step.action == "delete" and (lists or pod.unlisted is not None):
                since = None if lists else pod.unlisted
                drained = Step(
                    "wait",
                    pod.step.ref,
                    (Reason(drains(self.drain, since)),),
                    after=lists,
                    job=pod.step.job,
                    until="drained",
                    limit=self.drain,
                    since=since,
                    uid=pod.step.uid,
                )
                after[pod.step.id].append(drained.id)
                yield drained
            if pod.step.id not in launchers:
                after[pod.step.id] += launchers
            for host in host_names(pod.value):
                service = self.services.get(host)
                if service and service.action == "delete":
                    after[service.id].append(pod.step.id)


def host_names(pod: Object) -> tuple[str, ...]:
    name, host = pod["metadata"]["name"], (pod.get("spec") or {}).get("hostname")
    return (name, host) if isinstance(host, str) and host != name else (name,)


def hosts_in(text: object) -> set[str]:
    """Return the first word of each line, which is a host, without port and domain."""
    lines = text.splitlines() if isinstance(text, str) else ()
    words = (line.split(maxsplit=1)[0] for line in lines if line.strip())
    return {word.partition(":")[0].partition(".")[0] for word in words}


# Whose turn it is ---------------------------------------------------------------------------------


class Schedule:
    """The steps of a plan that can begin, each once what it waits for is done.

    It is not safe to share between threads.

    Args:
        steps: The steps of a plan, without a ring. Those with nothing to do are never handed out.
    """

    def __init__(self, steps: Iterable[Step]) -> None:
        self._steps = {step.id: step for step in steps if step.action not in IDLE}
        self._sorter = _sorter(self._steps)
        self._sorter.prepare()

    def ready(self) -> Iterator[Step]:
        while names := self._sorter.get_ready():
            points = [name for name in names if name.startswith(_POINT)]
            for name in names:
                if not name.startswith(_POINT):
                    yield self._steps[name]
            # A point is done when it is reached, and then more may be ready.
            self._sorter.done(*points)

    def done(self, step: Step) -> None:
        """Report that a step is done, so that others can begin. Never report a failed one."""
        self._sorter.done(step.id)


def ring(steps: Iterable[Step]) -> str | None:
    try:
        _sorter({step.id: step for step in steps if step.action not in IDLE}).prepare()
    except CycleError as error:
        # graphlib names them from what is waited for to who waits.
        first, *others = [name.removeprefix(_POINT) for name in reversed(error.args[1])]
        return f"{first} waits for {', which waits for '.join(others)}"
    return None


def turns(steps: Iterable[Step]) -> dict[str, int]:
    """Return the turn of each step with something to do, by its id, from 0.

    The steps are without a ring.
    """
    schedule = Schedule(steps)
    numbers: dict[str, int] = {}
    number = 0
    while ready := list(schedule.ready()):
        numbers |= dict.fromkeys((step.id for step in ready), number)
        for step in ready:
            schedule.done(step)
        number += 1
    return numbers


def in_turn(steps: Iterable[Step]) -> list[Step]:
    """Sort steps so that they can be done one by one.

    Those with nothing to do come last. If there is a ring, all stay as they come.
    """
    steps = list(steps)
    try:
        order = turns(steps)
    except CycleError:
        return steps
    return sorted(steps, key=lambda step: order.get(step.id, len(order)))


def _sorter(steps: Mapping[str, Step]) -> TopologicalSorter[str]:
    sorter: TopologicalSorter[str] = TopologicalSorter()
    making: dict[str | None, dict[int, list[Step]]] = defaultdict(lambda: defaultdict(list))
    leaving: dict[str | None, dict[int, list[Step]]] = defaultdict(lambda: defaultdict(list))
    quota_point = f"{_POINT}room in the namespace "
    freed: set[str] = set()
    filled: dict[str, set[str | None]] = {}
    for step in steps.values():
        sorter.add(step.id, *(name for name in step.after if name in steps))
        if step.frees_quota:
            freed.add(step.ref.namespace)
            sorter.add(quota_point + step.ref.namespace, step.id)
        elif step.action != "wait":
            side = leaving if step.action in REMOVES else making
            side[step.job][step.wave].append(step)
            if step.action == "create" and step.ref.kind in ("Job", "Pod"):
                filled.setdefault(step.ref.namespace, set()).add(step.job)
    # A run that is deleted to free a quota is gone before any Service or host list is the next's.
    for step in steps.values() if freed else ():
        where = step.ref.namespace
        is_late = step.action in MAKES and step.wave >= _AFTER_IDENTITY
        if is_late and step.job in filled.get(where, ()):
            # An object that names no namespace is in the plan's own, which may be any of them.
            sorter.add(step.id, *(quota_point + name for name in freed if where in ("", name)))
    everything = f"{_POINT}all that is made"
    shared = sorted(making.get(None, ()))
    for job, waves in making.items():
        before: list[str] = []
        for number, inside in sorted(waves.items()):
            # Objects of no job, such as a Namespace, are there for all jobs.
            earlier = [
                _wave_point(None, other) for other in shared if job is not None and other < number
            ][-1:]
            for step in inside:
                sorter.add(step.id, *before, *earlier)
            point = _wave_point(job, number)
            sorter.add(point, *before, *(step.id for step in inside))
            before = [point]
        sorter.add(everything, *before)
    for job, waves in leaving.items():
        created = making.get(job) if job is not None else None
        before = [_wave_point(job, max(created))] if created else [everything]
        for number, inside in sorted(waves.items(), reverse=True):
            for step in inside:
                sorter.add(step.id, *before)
            point = f"{_POINT}the deletion of {_wave_point(job, number).removeprefix(_POINT)}"
            sorter.add(point, *before, *(step.id for step in inside))
            before = [point]
    return sorter


def _wave_point(job: str | None, wave: int) -> str:
    return f"{_POINT}wave {wave}{f' of job {job}' if job else ''}"
