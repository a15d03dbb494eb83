"""Decide from a snapshot and the objects of a job whether the job fits, and why not."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct, structs

from etcompile.capacity.packing import Packing
from etcompile.capacity.pod_needs import Role, Unknown, admitted, roles_of
from etcompile.capacity.queue_rules import Verdict, queue_answer, quota_shortages
from etcompile.capacity.snapshot import STAYS, Snapshot, job_of, quantities, units_of
from etcompile.k8s.objects import Object
from etcompile.model.schedulers import KUEUE_QUEUE

_LOWEST = -STAYS - 2
_DEPENDS = "whether the scheduler finds a node for each Pod depends on how it scores nodes"
_ROUNDED = "the snapshot rounds up what nodes use, so --capacity cluster may find more room"
_NOWHERE = "no placement was found on the empty cluster either, which does not prove that none is"


class Answer(Struct, frozen=True):
    """Whether a job fits."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()  # sentences without a full stop, the most important first
    # The scheduler places all Pods if it scores nodes as it does by default: whoever compares this
    # with a real scheduler needs to know.
    likely: bool = False
    would_end: Mapping[int, Mapping[str, str]] = {}  # by priority, what must end for the job to fit
    preempts: bool = False  # the scheduler ends that by itself
    fewer: Mapping[str, int] = {}  # Pods of elastic roles that fit now, if not all do

    @property
    def advice(self) -> str:
        """Return what would let the job fit; empty if that is not known."""
        words = []
        for priority, amounts in self.would_end.items():
            needed = ", ".join(f"{name}: {n}" for name, n in amounts.items() if name != "pods")
            ends = "the scheduler ends" if self.preempts else "it fits after the end of"
            words.append(f"{ends} Pods of priority {priority} or less with {needed}")
        words += [f"it fits now with {count} {role} Pods" for role, count in self.fewer.items()]
        return "; ".join(words)

    def __str__(self) -> str:
        return "; ".join(filter(None, (*self.reasons[:3], self.advice)))


def fit(
    snapshot: Snapshot,
    objects: Sequence[Object],
    *,
    jobs: Collection[str] = (),
    elastic: Mapping[str, int] | None = None,
    are_new: bool = True,
) -> Answer:
    """Return whether Pods fit a cluster.

    Args:
        objects: The objects of one job, or of several, in the order of their creation.
        jobs: Jobs, `namespace/name`, whose Pods in the cluster do not count as used.
        elastic: The fewest Pods of each elastic role, by its name.
        are_new: The Pods are to be created; else they exist, have no node, and count in quotas.
    """
    unknown: Unknown = {}
    pods = [admitted(snapshot, pod, unknown) for pod in _pods(objects)]
    pods.sort(key=lambda pod: -pod["spec"]["priority"])
    jobs = {*jobs, *map(job_of, pods)} - {""} if are_new else ()
    roles: Sequence[Role] = roles_of(snapshot, pods, jobs, unknown)

    def with_others(above: int) -> Packing:
        return Packing(snapshot, roles, lambda use: use.job not in jobs and use.priority > above)

    def fewer(placed: Sequence[int]) -> dict[str, int]:
        least = {role.title: role.number for role in roles} | {**(elastic or {})}
        pairs = zip(roles, placed, strict=True)
        return {r.title: n for r, n in pairs if least[r.title] <= n < r.number}

    empty = Packing(snapshot, roles, lambda use: use.priority == STAYS, healthy=True)
    if reasons := tuple(_reasons_for_never(empty)):
        return Answer("never", reasons, fewer=fewer(with_others(_LOWEST).simulate()))
    if are_new:
        roles, verdict, reasons = _quota_verdict(snapshot, pods, roles, jobs)
        if verdict and verdict != "unknown":
            return Answer(verdict, reasons)
        unknown |= dict.fromkeys(reasons)
    now = with_others(_LOWEST)
    if now.is_certain:
        return Answer("unknown" if unknown else "fits", tuple(unknown))
    placed = now.simulate()
    if now.counts in (placed, now.simulate(packed=True)):
        verdict = "unknown" if unknown else "depends"
        return Answer(verdict, (*unknown, _DEPENDS), likely=placed == now.counts)
    reasons = tuple(
        f"{n} of {role.number} {role.title} Pods find a node: {now.refusals(at)}"
        for at, (role, n) in enumerate(zip(roles, placed, strict=True))
        if n < role.number
    )
    reasons += (_ROUNDED,) if snapshot.rounded else ()
    answer = Answer("not-now", reasons, fewer=fewer(placed))
    others = {use.priority for use, _ in snapshot.uses if use.job not in jobs}
    for above in sorted(others - {STAYS}):
        if with_others(above).simulate() == now.counts:
            missing = Counter[str]()
            for role, count in zip(roles, placed, strict=True):
                lacking = role.number - count
                missing.update({n: a * lacking for n, a in role.needs.requests.items()})
            preempts = above < min(pod["spec"]["priority"] for pod in pods)
            ends = {above: quantities(missing)}
            return structs.replace(answer, would_end=ends, preempts=preempts)
    known = () if empty.simulate() == empty.counts else (_NOWHERE,)
    return structs.replace(answer, reasons=(*reasons, *known))


def _quota_verdict(
    snapshot: Snapshot, pods: Sequence[Object], roles: Sequence[Role], jobs: Collection[str]
) -> tuple[Sequence[Role], Verdict | Literal[""], tuple[str, ...]]:
    if shortages := sorted(quota_shortages(snapshot, pods, jobs)):  # over-quota comes first
        return roles, shortages[0][0], tuple(reason for _, reason in shortages)
    queues = {
        (metadata.get("namespace") or "", (metadata.get("labels") or {}).get(KUEUE_QUEUE) or "")
        for metadata in (pod["metadata"] for pod in pods)
    }
    running = (units_of(use.requests)["pods"] * n for use, n in snapshot.uses if use.job in jobs)
    if not any(queue for _, queue in queues) or sum(running) >= len(pods):
        return roles, "", ()
    if len(queues) > 1:
        return roles, "unknown", ("its Pods wait in several queues",)
    ((namespace, queue),) = queues
    roles, verdict, reason = queue_answer(snapshot, queue, namespace, roles)
    return roles, verdict, (reason,) if reason else ()


def _reasons_for_never(empty: Packing) -> Iterator[str]:
    frees = [cell.free for cell in empty.cells]
    largest = dict(zip(empty.resources, map(max, zip(*frees, strict=True)), strict=False))
    for index, (needs, title, count) in enumerate(empty.roles):
        places = empty.most(index)
        short = [name for name, n in needs.requests.items() if largest.get(name, n) < n]
        if 0 < places < count:
            yield f"{title} needs {count} places, and the empty cluster has {places}"
        elif not places and not short:
            yield f"no node takes {title}: {empty.refusals(index)}"
        for name in short:
            amounts = (quantities({name: n}) for n in (needs.requests[name], largest[name]))
            asks, has = (each.get(name, "0") for each in amounts)
            yield f"{title} asks {name}: {asks} on one node; the largest node has {has}"


def _pods(objects: Sequence[Object]) -> Iterator[Object]:
    yield from (value for value in objects if value["kind"] == "Pod")
    for job in (value for value in objects if value["kind"] == "Job"):
        template, metadata = job["spec"]["template"], job["metadata"]
        for index in range(job["spec"].get("parallelism", 1)):
            names = {"name": f"{metadata['name']}-{index}", "namespace": metadata.get("namespace")}
            labelled = {**(template.get("metadata") or {}), **names}
            yield {"apiVersion": "v1", "kind": "Pod", **template, "metadata": labelled}
