"""A cluster or a snapshot of one, and compiled jobs, to whether each fits, and what it costs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from etcompile.capacity import answers, queue_rules, snapshot
from etcompile.capacity.answers import Answer
from etcompile.capacity.snapshot import KINDS, Snapshot
from etcompile.compiler import Compilation, JobObjects
from etcompile.diagnostics import Diagnostic, Location, RefusedError, codes, diagnose
from etcompile.k8s.objects import Object, timestamp
from etcompile.k8s.path import misfit
from etcompile.k8s.requests import Amounts, requested, total
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.load import access, parse

_VERDICTS = {
    answers.FITS: ("fits now", None),
    answers.DEPENDS: ("may fit now", codes.MAY_NOT_FIT),
    answers.NOT_NOW: ("does not fit now", codes.DOES_NOT_FIT_NOW),
    answers.NEVER: ("never fits", codes.NEVER_FITS),
    queue_rules.OVER_QUOTA: ("exceeds the quota", codes.EXCEEDS_QUOTA),
    queue_rules.QUEUE_FULL: ("has to wait for quota", codes.DOES_NOT_FIT_NOW),
    queue_rules.UNKNOWN: ("cannot be told", None),
}
"""Each verdict in a few words, and the code of its diagnostic."""


class JobCapacity(NamedTuple):
    """Whether a job fits, what a run of it costs, and where it is declared."""

    title: str
    answer: Answer
    cost: str = ""
    place: Location | None = None

    @property
    def words(self) -> str:
        """The answer in a few words, without reasons."""
        return _VERDICTS[self.answer.verdict][0]


def read_cluster(cluster: Cluster, *, is_portable: bool = False) -> tuple[Snapshot, list[str]]:
    """The snapshot of a cluster, and the kinds that could not be read for it.

    Args:
        is_portable: Whether it is for a file, which names no nodes.

    Raises:
        ClusterError: it does not show its Nodes and Pods, of which nothing can be left out.
    """
    nodes, pods = (
        cluster.list(cluster.resource("v1", kind), None).items for kind in ("Node", "Pod")
    )
    others, unread = {}, []
    for kind, group in KINDS.items():
        try:
            if resource := cluster.served(group, kind):
                others[kind] = cluster.list(resource, None).items
        except ClusterError as error:
            if error.status != 403:
                raise
            unread.append(f"{kind}s")
    time = timestamp(cluster.now())
    shot = snapshot.of_objects(nodes, pods, others, time=time, is_portable=is_portable)
    return shot, unread


def read_file(file: str) -> Snapshot:
    """The snapshot that a file holds.

    Raises:
        RefusedError: it holds none.
    """
    try:
        loaded = parse(access.content(file), file=file)
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise RefusedError(
            [diagnose(codes.NO_SNAPSHOT, Location(file), problem=problem)]
        ) from error
    if loaded.diagnostics or len(loaded.documents) != 1:
        several = diagnose(codes.NO_SNAPSHOT, Location(file), problem="it is not one document")
        raise RefusedError(loaded.diagnostics or [several])
    (document,) = loaded.documents
    try:
        return snapshot.of_document(document.data)
    except msgspec.ValidationError as error:
        problem, path = misfit(error)
        wrong = diagnose(codes.NO_SNAPSHOT, document.locate(path), problem=problem)
        raise RefusedError([wrong]) from error


def job_capacities(
    compilation: Compilation, shot: Snapshot | None, prices: Mapping[str, float]
) -> list[JobCapacity]:
    """Whether each job fits, and all of them together if each does; what their runs cost.

    Args:
        shot: The cluster; None if nothing is known of it.
        prices: What a unit of a resource costs in an hour.
    """
    jobs = [group for group in compilation.groups if group.name is not None]
    result = []
    for group in jobs:
        place = group.origin.locate("metadata", "name") if group.origin else None
        answer = _answer(shot, [group]) if shot else Answer(queue_rules.UNKNOWN)
        result.append(JobCapacity(str(group.title), answer, cost(group, prices), place))
    if shot and len(jobs) > 1 and all(each.answer.verdict == answers.FITS for each in result):
        together = _answer(shot, jobs)
        if together.verdict == answers.NEVER:
            together = msgspec.structs.replace(together, verdict=answers.NOT_NOW)
        result.append(JobCapacity(f"the set of all {len(jobs)} jobs", together))
    return result


def _answer(shot: Snapshot, groups: Sequence[JobObjects]) -> Answer:
    objects = [value for group in groups for value in group.objects]
    names = [f"{group.namespace or ''}/{group.name}" for group in groups]
    elastic = groups[0].elastic if len(groups) == 1 else {}
    return answers.fit(shot, objects, jobs=names, elastic=elastic)


def waits_for(cluster: Cluster, pods: Sequence[Object]) -> str:
    """Why no node takes Pods that the scheduler cannot place, and what would change that.

    Empty if who asks may not list nodes.
    """
    try:
        shot, _ = read_cluster(cluster)
    except ClusterError:
        return ""
    return sentence(answers.fit(shot, pods, are_new=False))


def capacity_problems(capacities: Sequence[JobCapacity]) -> Iterator[Diagnostic]:
    """What is to be reported of jobs that do not fit."""
    for each in capacities:
        answer, code = each.answer, _VERDICTS[each.answer.verdict][1]
        if code == codes.NEVER_FITS and answer.fewer:
            code = codes.DOES_NOT_FIT_NOW  # an elastic job runs all the same
        if code is not None:
            reason = "; ".join(answer.reasons[:3])
            advice = _advice(answer) or "wait until more is free, or ask for less"
            yield diagnose(code, each.place, job=each.title, reason=reason, advice=advice)


def sentence(answer: Answer) -> str:
    """Why a job does not fit, and what would change that."""
    return "; ".join(filter(None, (*answer.reasons[:3], _advice(answer))))


def _advice(answer: Answer) -> str:
    """What would have to end before a job fits, and what fits already."""
    words = []
    for priority, amounts in answer.would_end.items():
        needed = ", ".join(
            f"{name}: {amount}" for name, amount in amounts.items() if name != "pods"
        )
        ends = "the scheduler ends" if answer.preempts else "it fits after the end of"
        words.append(f"{ends} Pods of priority {priority} or less with {needed}")
    words += [f"it fits now with {count} {role} Pods" for role, count in answer.fewer.items()]
    return "; ".join(words)


def cost(group: JobObjects, prices: Mapping[str, float]) -> str:
    """The GPU-hours of a run and their price, as far as deadlines and prices are known."""
    pods = [value["spec"] for value in group.objects if value["kind"] == "Pod"]
    deadlines = [spec.get("activeDeadlineSeconds") for spec in pods]
    amounts: Amounts = total((1, requested(spec)) for spec in pods)
    gpus = sum(int(amount) for name, amount in amounts.items() if name.endswith("/gpu"))
    hourly = sum(float(amounts.get(name, 0)) * price for name, price in prices.items())
    texts = [f"{gpus} GPUs"] if gpus else []
    texts += [f"{hourly:,.2f} an hour"] if hourly else []
    if pods and all(deadlines):
        hours = max(deadlines) / 3600
        texts = [f"{gpus * hours:,.1f} GPU-hours"] if gpus else []
        texts += [f"{hourly * hours:,.2f}"] if hourly else []
        return f"at most {', '.join(texts)}" if texts else ""
    return ", ".join(texts)


def capacity_markdown(capacities: Sequence[JobCapacity], shot: Snapshot | None) -> str:
    """A table of jobs for a comment on a pull request; those that do not fit come first."""
    order = sorted(capacities, key=lambda each: each.answer.verdict == answers.FITS)
    rows = ["", "| Job | Capacity | A run |", "|---|---|---|"]
    for each in order[:20]:
        fits = each.words + (f": {sentence(each.answer)}" if each.answer.reasons else "")
        rows.append(
            f"| {each.title} | {fits.replace('|', '/')[:500] if shot else ''} | {each.cost} |"
        )
    counts = Counter(each.words for each in order[20:])
    rows += [f"| {count} more | {words} | |" for words, count in counts.items()]
    rows += ["", f"Capacity: snapshot of {shot.time}."] if shot and shot.time else []
    return "\n".join([*rows, ""])
