"""Steps to the same steps with what each waits for.

Waves are not here (`etcompile.plan.schedule`): these are the reasons that an object has for itself.
It names another one in its spec, or training wants it so (reference/gitops.md 4.3): a worker is
ready before the host list names it, and has drained after the list has dropped it before it goes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from etcompile.k8s.objects import Object
from etcompile.model.protocol import ROLE_LABEL
from etcompile.plan.graph import Group, graph
from etcompile.plan.step import REMOVES, Action, ObjectKey, ObjectRef, Reason, Step

DRAIN = 90
"""Seconds: a changed ConfigMap reaches a running Pod after at most 82 (measured on a real node),
and an elastic launcher looks at its host list every second."""
READY = 600
"""Seconds until a new worker should be Ready."""

_MAKING: frozenset[Action] = frozenset({"create", "adopt", "replace"})


class Draft(Struct, frozen=True):
    """A step and what is known of its object while the plan is made.

    Args:
        value: The object that it is about, desired or else live.
    """

    step: Step
    value: Object


_After = dict[str, list[str]]
"""What each step must wait for, by ids."""


def ordered(
    drafts: Iterable[Draft],
    waits: Mapping[str | None, Mapping[str, tuple[str, ...]]],
    wave: Callable[[Object], int],
    unready: Iterable[Draft] = (),
) -> list[Step]:
    """The steps with their order, and the steps that only wait.

    Args:
        drafts: Steps with something to do.
        waits: By job, the names of Pods that wait, each with those of the Pods it waits for.
        wave: The wave of an object (`etcompile.emit.wave`).
        unready: Pods with nothing to do that are not Ready: an earlier rollout may have ended
            between a worker and the host list.
    """
    drafts = list(drafts)
    late: dict[str | None, list[Draft]] = defaultdict(list)
    for draft in unready:
        late[draft.step.job].append(draft)
    after: _After = defaultdict(list)
    waiting: dict[str, Step] = {}
    by_job: dict[str | None, list[Draft]] = defaultdict(list)
    for draft in drafts:
        by_job[draft.step.job].append(draft)
    raised: dict[str, int] = {}
    for job, inside in by_job.items():
        training = _Training(inside, waits.get(job, {}), late.get(job, ()))
        for step in training.waiting(after):
            waiting.setdefault(step.id, step)
        raised |= training.raised(wave)
    lists = raised.keys()
    for waiter, other in _named(drafts, wave):
        if other not in lists:
            after[waiter].append(other)
    for waiter, other in _housed(drafts):
        after[waiter].append(other)
    for waiter, other in _released(drafts, wave):
        after[waiter].append(other)
    made: list[Step] = []
    for draft in drafts:
        step = draft.step
        number = raised.get(step.id, wave(draft.value))
        names = tuple(
            name for name in dict.fromkeys((*step.after, *after[step.id])) if name != step.id
        )
        made += [
            structs.replace(waiting.pop(name), wave=number) for name in names if name in waiting
        ]
        made.append(structs.replace(step, wave=number, after=names))
    return made


def drains(seconds: float) -> str:
    """Why a Pod that is to be deleted is waited for, and for how long."""
    return f"it was removed from the host list, and drains for at most {seconds:g} s"


class _Training:
    """The order that the steps of one job have because they train together."""

    def __init__(
        self,
        drafts: list[Draft],
        waits: Mapping[str, tuple[str, ...]],
        unready: Sequence[Draft],
    ) -> None:
        self.waits = waits
        self.unready = unready
        pods = [
            draft for draft in drafts if draft.step.ref.kind == "Pod" and not draft.step.ref.group
        ]
        jobs = [draft for draft in drafts if draft.step.ref.kind == "Job"]
        services = [
            draft.step
            for draft in drafts
            if draft.step.ref.kind == "Service" and not draft.step.ref.group
        ]
        self.made = [pod for pod in pods if pod.step.action in _MAKING | {"update"}]
        # A launcher may be a Job, which makes its Pods.
        self.runs = [*self.made, *(job for job in jobs if job.step.action in _MAKING)]
        self.gone = [pod for pod in pods if pod.step.action == "delete"]
        self.services = {step.ref.name: step for step in services}
        hosts = {name for draft in (*pods, *unready) for name in _hosts(draft)}
        self.lists: dict[str, tuple[Draft, set[str], set[str]]] = {}
        for draft in drafts:
            if draft.step.ref.kind == "ConfigMap" and draft.step.action in ("update", "adopt"):
                added, removed = _relisted(draft.step, hosts)
                if added or removed:
                    self.lists[draft.step.id] = (draft, added, removed)

    def waiting(self, after: _After) -> Iterator[Step]:
        """Notes what waits for what.

        Yields:
            The steps that only wait, which it takes for that.
        """
        for pod in self.made:
            for host in _hosts(pod):
                service = self.services.get(host)
                if service and service.action in _MAKING and pod.step.action in _MAKING:
                    after[pod.step.id].append(service.id)
        yield from self._scale_out(after)
        yield from self._scale_in(after)
        yield from self._launchers(after)

    def raised(self, wave: Callable[[Object], int]) -> dict[str, int]:
        """The waves of host lists, which come as late as the Pods that they wait for."""
        pods = [wave(pod.value) for pod in self.made]
        return {name: max([wave(draft.value), *pods]) for name, (draft, _, _) in self.lists.items()}

    def _scale_out(self, after: _After) -> Iterator[Step]:
        """Service, Pod, Ready, then the host list."""
        for name, (_, added, _) in self.lists.items():
            for pod in self.made:
                if pod.step.action in _MAKING and not added.isdisjoint(_hosts(pod)):
                    ready = _ready(pod.step)
                    after[name].append(ready.id)
                    yield ready
            for pod in self.unready:
                if not added.isdisjoint(_hosts(pod)):
                    ready = structs.replace(_ready(pod.step), after=())
                    after[name].append(ready.id)
                    yield ready

    def _scale_in(self, after: _After) -> Iterator[Step]:
        """The host list, a while to drain, the Pod, then the Service."""
        launchers = [
            draft.step.id
            for draft in self.gone
            if (draft.value["metadata"].get("labels") or {}).get(ROLE_LABEL) == "launcher"
        ]
        for pod in self.gone:
            drained = Step(
                "wait",
                pod.step.ref,
                (Reason(drains(DRAIN)),),
                after=tuple(
                    name
                    for name, (_, _, removed) in self.lists.items()
                    if not removed.isdisjoint(_hosts(pod))
                ),
                job=pod.step.job,
                until="drained",
                limit=DRAIN,
                uid=pod.step.uid,
            )
            if drained.after:
                after[pod.step.id].append(drained.id)
                yield drained
            if pod.step.id not in launchers:
                after[pod.step.id] += launchers
            for host in _hosts(pod):
                service = self.services.get(host)
                if service and service.action == "delete":
                    after[service.id].append(pod.step.id)

    def _launchers(self, after: _After) -> Iterator[Step]:
        """A launcher comes after its workers; one that is replaced only once they are Ready.

        A new one need not wait for that: its own gate does.
        """
        made = {run.step.ref.name: run.step for run in self.runs}
        for name, workers in self.waits.items():
            if (launcher := made.get(name)) is None:
                continue
            for worker in workers:
                if (step := made.get(worker)) is None:
                    continue
                if launcher.action == "replace" and step.action in _MAKING:
                    ready = _ready(step)
                    after[launcher.id].append(ready.id)
                    yield ready
                else:
                    after[launcher.id].append(step.id)
            if launcher.action == "replace":
                after[launcher.id] += self.lists


def _ready(pod: Step) -> Step:
    return Step(
        "wait",
        pod.ref,
        (Reason("it must be Ready before the host list names it"),),
        after=(pod.id,),
        job=pod.job,
        until="ready",
        limit=READY,
    )


def _hosts(pod: Draft) -> tuple[str, ...]:
    """The names by which others may know a Pod."""
    own = pod.step.ref.name
    host = (pod.value.get("spec") or {}).get("hostname")
    return (own, host) if isinstance(host, str) and host != own else (own,)


def _relisted(step: Step, hosts: set[str]) -> tuple[set[str], set[str]]:
    """The hosts that a change of a ConfigMap adds to its host lists, and those that it drops."""
    added: set[str] = set()
    removed: set[str] = set()
    for change in step.changes:
        if change.steps[:1] == ("data",) and len(change.steps) > 1:
            before, after = _listed(change.before) & hosts, _listed(change.after) & hosts
            added |= after - before
            removed |= before - after
    return added - removed, removed - added


def _listed(text: object) -> set[str]:
    """The first word of each line, which in a host list is a host, without port and domain."""
    lines = text.splitlines() if isinstance(text, str) else ()
    words = (line.split(maxsplit=1)[0] for line in lines if line.strip())
    return {word.partition(":")[0].partition(".")[0] for word in words}


def _named(drafts: list[Draft], wave: Callable[[Object], int]) -> Iterator[tuple[str, str]]:
    """Pairs of ids: an object that is made, and one that its spec names and that is made too."""
    made = [applied for applied in drafts if applied.step.action in _MAKING | {"update"}]
    if not made:
        return
    found = graph([Group(None, [applied.value for applied in made])], wave)
    by_ref: dict[ObjectKey, Draft] = {applied.step.ref.key: applied for applied in made}
    for edge in found.edges:
        if edge.binds and edge.source < len(made) and edge.target < len(made):
            source, target = made[edge.source].step, made[edge.target].step
            if source.action in _MAKING:
                yield source.id, target.id
    for draft in made:
        for owner in draft.value["metadata"].get("ownerReferences") or ():
            version, kind, name = (owner.get(key, "") for key in ("apiVersion", "kind", "name"))
            ref = ObjectRef(version, kind, draft.step.ref.namespace, name)
            if draft.step.action in _MAKING and (needed := by_ref.get(ref.key)):
                yield draft.step.id, needed.step.id


def _housed(drafts: list[Draft]) -> Iterator[tuple[str, str]]:
    """Pairs of ids: an object that is made, and its namespace or its kind that is made too."""
    namespaces: dict[str, str] = {}
    kinds: dict[tuple[str, str], str] = {}
    for draft in drafts:
        if draft.step.action not in _MAKING:
            continue
        if draft.step.ref.kind == "Namespace":
            namespaces[draft.step.ref.name] = draft.step.id
        elif draft.step.ref.kind == "CustomResourceDefinition":
            spec = draft.value.get("spec") or {}
            kind = (spec.get("names") or {}).get("kind")
            kinds[str(spec.get("group")), str(kind)] = draft.step.id
    if not namespaces and not kinds:
        return
    for draft in drafts:
        ref = draft.step.ref
        if draft.step.action in _MAKING:
            homes = (namespaces.get(ref.namespace), kinds.get((ref.group, ref.kind)))
            yield from ((draft.step.id, home) for home in homes if home)


def _released(drafts: list[Draft], wave: Callable[[Object], int]) -> Iterator[tuple[str, str]]:
    """Pairs of ids: an object that goes, and one that names it and goes before."""
    gone = [draft for draft in drafts if draft.step.action in REMOVES]
    if not gone:
        return
    for edge in graph([Group(None, [draft.value for draft in gone])], wave).edges:
        if edge.binds and edge.target < len(gone):
            yield gone[edge.target].step.id, gone[edge.source].step.id
