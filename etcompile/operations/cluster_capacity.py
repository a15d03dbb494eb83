"""Answer whether jobs fit a cluster or a snapshot of one, and what their runs cost."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from etcompile.capacity import answers, snapshot
from etcompile.capacity.answers import Answer
from etcompile.capacity.snapshot import KINDS, Snapshot
from etcompile.compiler.build import JobObjects
from etcompile.compiler.pipeline import Compilation
from etcompile.diagnostics import Diagnostic, Location, RefusedError, codes, diagnose
from etcompile.k8s.objects import Object, timestamp
from etcompile.k8s.path import misfit
from etcompile.k8s.requests import requested, total
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.load import access, parse

_VERDICTS = {
    "fits": ("fits now", None),
    "depends": ("may fit now", codes.MAY_NOT_FIT),
    "not-now": ("does not fit now", codes.DOES_NOT_FIT_NOW),
    "never": ("never fits", codes.NEVER_FITS),
    "over-quota": ("exceeds the quota", codes.EXCEEDS_QUOTA),
    "queue-full": ("has to wait for quota", codes.DOES_NOT_FIT_NOW),
    "unknown": ("cannot be told", None),
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
        return _VERDICTS[self.answer.verdict][0]


def read_cluster(cluster: Cluster, *, is_portable: bool = False) -> tuple[Snapshot, list[str]]:
    """Return the snapshot of a cluster, and the kinds that could not be read for it.

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
    place, diagnostics = Location(file), tuple[Diagnostic, ...]()
    try:
        loaded = parse(access.content(file), file=file)
        diagnostics, problem = tuple(loaded.diagnostics), "it is not one document"
        if not diagnostics and len(loaded.documents) == 1:
            return snapshot.of_document(loaded.documents[0].data)
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
    except msgspec.ValidationError as error:
        problem, path = misfit(error)
        place = loaded.documents[0].locate(path)
    raise RefusedError(diagnostics or [diagnose(codes.NO_SNAPSHOT, place, problem=problem)])


def job_capacities(
    compilation: Compilation, shot: Snapshot | None, prices: Mapping[str, float]
) -> list[JobCapacity]:
    """Return whether each job fits, and all of them together if each does, with costs.

    Args:
        shot: The cluster; None if nothing is known of it.
        prices: What a unit of a resource costs in an hour.
    """

    def answer(shot: Snapshot, *groups: JobObjects) -> Answer:
        objects = [value for group in groups for value in group.objects]
        names = [f"{group.namespace or ''}/{group.name}" for group in groups]
        elastic = groups[0].elastic if len(groups) == 1 else {}
        return answers.fit(shot, objects, jobs=names, elastic=elastic)

    jobs = [group for group in compilation.groups if group.name is not None]
    result = []
    for group in jobs:
        place = group.origin.locate("metadata", "name") if group.origin else None
        alone = answer(shot, group) if shot else Answer("unknown")
        result.append(JobCapacity(str(group.title), alone, cost(group, prices), place))
    if shot and len(jobs) > 1 and all(each.answer.verdict == "fits" for each in result):
        together = answer(shot, *jobs)
        if together.verdict == "never":
            together = msgspec.structs.replace(together, verdict="not-now")
        result.append(JobCapacity(f"the set of all {len(jobs)} jobs", together))
    return result


def waits_for(cluster: Cluster, pods: Sequence[Object]) -> str:
    """Explain why no node takes Pods that the scheduler cannot place, and what would change that.

    The text is empty if the user may not list nodes.
    """
    try:
        shot, _ = read_cluster(cluster)
    except ClusterError:
        return ""
    return str(answers.fit(shot, pods, are_new=False))


def capacity_problems(capacities: Sequence[JobCapacity]) -> Iterator[Diagnostic]:
    for each in capacities:
        answer, code = each.answer, _VERDICTS[each.answer.verdict][1]
        if code == codes.NEVER_FITS and answer.fewer:
            code = codes.DOES_NOT_FIT_NOW  # an elastic job runs all the same
        if code is not None:
            reason = "; ".join(answer.reasons[:3])
            advice = answer.advice or "wait until more is free, or ask for less"
            yield diagnose(code, each.place, job=each.title, reason=reason, advice=advice)


def cost(group: JobObjects, prices: Mapping[str, float]) -> str:
    pods = [value["spec"] for value in group.objects if value["kind"] == "Pod"]
    deadlines = [spec.get("activeDeadlineSeconds") for spec in pods]
    amounts = total((1, requested(spec)) for spec in pods)
    gpus = sum(int(amount) for name, amount in amounts.items() if name.endswith("/gpu"))
    hourly = sum(float(amounts.get(name, 0)) * price for name, price in prices.items())
    if pods and all(deadlines):
        hours = max(deadlines) / 3600
        texts = [f"{gpus * hours:,.1f} GPU-hours"] if gpus else []
        texts += [f"{hourly * hours:,.2f}"] if hourly else []
        return f"at most {', '.join(texts)}" if texts else ""
    texts = [f"{gpus} GPUs"] if gpus else []
    return ", ".join([*texts, f"{hourly:,.2f} an hour"] if hourly else texts)


def capacity_markdown(capacities: Sequence[JobCapacity], shot: Snapshot | None) -> str:
    order = sorted(capacities, key=lambda each: each.answer.verdict == "fits")
    rows = ["", "| Job | Capacity | A run |", "|---|---|---|"]
    for each in order[:20]:
        fits = each.words + (f": {each.answer}" if each.answer.reasons else "")
        fits = fits.replace("|", "/")[:500] if shot else ""
        rows.append(f"| {each.title} | {fits} | {each.cost} |")
    counts = Counter(each.words for each in order[20:])
    rows += [f"| {count} more | {words} | |" for words, count in counts.items()]
    rows += ["", f"Capacity: snapshot of {shot.time}."] if shot and shot.time else []
    return "\n".join([*rows, ""])
