"""A snapshot and the objects of a job to whether the job fits, and why not."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from etcompile.capacity import admission
from etcompile.capacity.packing import POLICIES, Node, Packing
from etcompile.capacity.pod_needs import DURING_SCHEDULING, Role, Term, matches, needs_of, roles_of
from etcompile.capacity.queue_rules import OVER_QUOTA, UNKNOWN, queue_answer, quota_shortages
from etcompile.capacity.snapshot import Snapshot, Use, job_of, quantities, units_of
from etcompile.k8s.objects import Object
from etcompile.model.protocol import ROLE_LABEL
from etcompile.model.schedulers import KUEUE_QUEUE

FITS = "fits"
"""Whatever nodes the scheduler chooses, all Pods are placed."""
DEPENDS = "depends"
"""A placement exists; whether the scheduler finds it depends on how it scores nodes."""
NOT_NOW = "not-now"
NEVER = "never"

_ROUNDED = "the snapshot rounds up what nodes use, so --capacity cluster may find more room"
_NOWHERE = "no placement was found on the empty cluster either, which does not prove that none is"


class Answer(Struct, frozen=True):
    """Whether a job fits.

    Args:
        verdict: One of the constants of this module and of `queue_rules`.
        reasons: Why, as sentences without a full stop; the most important first.
        likely: Whether the scheduler places all Pods if it scores nodes as it does by default.
        would_end: By priority, what would have to end at least before the job fits.
        preempts: Whether the scheduler ends that by itself.
        fewer: Of elastic roles, how many Pods fit now, if not all do.
    """

    verdict: str
    reasons: tuple[str, ...] = ()
    likely: bool = False
    would_end: Mapping[int, Mapping[str, str]] = {}
    preempts: bool = False
    fewer: Mapping[str, int] = {}


def fit(
    snapshot: Snapshot,
    objects: Sequence[Object],
    *,
    jobs: Collection[str] = (),
    elastic: Mapping[str, int] | None = None,
    are_new: bool = True,
) -> Answer:
    """Whether Pods fit a cluster.

    Args:
        objects: The objects of one job, or of several, in the order of their creation.
        jobs: These jobs, `namespace/name`: what they use already is theirs.
        elastic: The fewest Pods of each elastic role, by its name.
        are_new: They are to be created. If not they exist, have no node, and count in quotas.
    """
    unknown: dict[str, None] = {}  # reasons, each of them once
    pods = [admission.admitted(snapshot, pod, unknown) for pod in _pods(objects)]
    pods.sort(key=lambda pod: -pod["spec"]["priority"])
    jobs = {*jobs, *map(job_of, pods)} - {""} if are_new else ()
    unknown |= dict.fromkeys(reason for pod in pods for reason in _undecidable(snapshot, pod))
    labels = [pod["metadata"].get("labels") or {} for pod in pods]
    names = [pod["metadata"]["name"] for pod in pods]
    titles = {name: own.get(ROLE_LABEL) or name for name, own in zip(names, labels, strict=True)}
    roles = [_known(snapshot, role, jobs, unknown) for role in roles_of(pods)]
    lowest = pods[-1]["spec"]["priority"] if pods else 0

    def stays(use: Use) -> bool:
        return use.stays and use.priority >= lowest

    def is_other(use: Use) -> bool:
        return use.job not in jobs

    empty = Packing(snapshot.packing_nodes(stays, healthy=True), roles)
    nodes = snapshot.packing_nodes(is_other)
    if not empty.is_possible:
        reasons = _why_never(empty, titles)
        return Answer(NEVER, reasons, fewer=_fewer(nodes, roles, titles, elastic or {}))
    refused = dict.fromkeys(why for pod in pods for why in admission.refusals(snapshot, pod))
    if are_new and refused:
        return Answer(OVER_QUOTA, tuple(refused))
    shortages = sorted(quota_shortages(snapshot, pods, jobs))  # over-quota comes first
    if are_new and shortages:
        return Answer(shortages[0][0], tuple(reason for _, reason in shortages))
    namespaces = (pod["metadata"].get("namespace") or "" for pod in pods)
    queues = {*zip(namespaces, (own.get(KUEUE_QUEUE, "") for own in labels), strict=True)}
    of_jobs = (units_of(use.requests)["pods"] * n for use, n in snapshot.uses if use.job in jobs)
    if len(queues) > 1 and any(queue for _, queue in queues):
        unknown["its Pods wait in several queues"] = None
    elif are_new and any(queue for _, queue in queues) and sum(of_jobs) < len(pods):
        ((namespace, queue),) = queues
        admitted, verdict, reason = queue_answer(snapshot, queue, namespace, roles)
        roles = [*admitted]
        if verdict not in ("", UNKNOWN):
            return Answer(verdict, (reason,))
        unknown |= {reason: None} if reason else {}
    now = Packing(nodes, roles)
    if now.is_certain:
        return Answer(UNKNOWN if unknown else FITS, tuple(unknown), likely=True)
    placed = _placements(now)
    if placed[-1] == now.counts:
        why = "whether the scheduler finds a node for each Pod depends on how it scores nodes"
        verdict = UNKNOWN if unknown else DEPENDS
        return Answer(verdict, (*unknown, why), likely=placed[0] == now.counts)
    best = max(placed, key=sum)
    reasons = (*_why_not_now(now, best, titles), *([_ROUNDED] if snapshot.rounded else []))
    answer = Answer(NOT_NOW, reasons, fewer=_fewer(nodes, roles, titles, elastic or {}))
    for above in sorted({use.priority for use, _ in snapshot.uses if is_other(use)}):

        def lasts(use: Use, above: int = above) -> bool:
            return stays(use) or (is_other(use) and use.priority > above)

        later = Packing(snapshot.packing_nodes(lasts), roles)
        if _placements(later)[-1] == later.counts:
            missing = Counter[str]()
            for (needs, all_pods), count in zip(roles, best, strict=True):
                lacking = len(all_pods) - count
                missing.update({n: amount * lacking for n, amount in needs.requests.items()})
            ends = {above: quantities(missing)}
            return structs.replace(answer, would_end=ends, preempts=above < lowest)
    known = _placements(empty)[-1] == empty.counts
    return structs.replace(answer, reasons=(*answer.reasons, *([] if known else [_NOWHERE])))


def _placements(packing: Packing) -> list[list[int]]:
    """How many Pods of each role some policies place, up to the first that places all."""
    result = [packing.simulate(POLICIES[0])]
    for policy in POLICIES[1:] if packing.is_possible else ():
        if result[-1] == packing.counts:
            break
        result.append(packing.simulate(policy))
    return result


def _fewer(
    nodes: Sequence[Node],
    roles: Sequence[Role],
    titles: Mapping[str, str],
    elastic: Mapping[str, int],
) -> dict[str, int]:
    """How many Pods of an elastic role fit now, if these are enough."""
    fewer = {}
    for index, (needs, pods) in enumerate(roles):
        least, most = elastic.get(titles[pods[0]], len(pods)), len(pods) - 1
        while least <= most:
            middle = (least + most + 1) // 2
            some = Role(needs, pods[:middle])
            if Packing(nodes, [*roles[:index], some, *roles[index + 1 :]]).is_certain:
                fewer[titles[pods[0]]], least = middle, middle + 1
            else:
                most = middle - 1
    return fewer


# Why not -----------------------------------------------------------------------------------------


def _why_never(empty: Packing, titles: Mapping[str, str]) -> tuple[str, ...]:
    """What proves that no placement exists, in numbers."""
    largest, reasons = empty.largest(), []
    for index, (needs, pods) in enumerate(empty.roles):
        room, title = empty.bound(index, rivals=False), titles[pods[0]]
        short = [name for name, n in needs.requests.items() if largest.get(name, n) < n]
        if 0 < room < len(pods):
            reasons.append(f"{title} needs {len(pods)} places, and the empty cluster has {room}")
        elif not room and not short:
            reasons.append(f"no node takes {title}: {_refusals(empty, index)}")
        for name in short:
            asks, has = _texts(name, needs.requests[name], largest[name])
            reasons.append(f"{title} asks {name}: {asks} on one node; the largest node has {has}")
    whole = ((name, *_texts(name, *amounts)) for name, *amounts in empty.shortages())
    words = "its Pods ask {}: {} in all; the nodes that they may go on have {}"
    return tuple(reasons) or tuple(words.format(*texts) for texts in whole)


def _why_not_now(now: Packing, placed: Sequence[int], titles: Mapping[str, str]) -> Iterator[str]:
    for index, ((_, pods), count) in enumerate(zip(now.roles, placed, strict=True)):
        if count < len(pods):
            some = f"{count} of {len(pods)} {titles[pods[0]]} Pods"
            yield f"{some} find a node: {_refusals(now, index)}"


def _refusals(packing: Packing, role: int) -> str:
    """How many nodes refuse a role for which reason."""
    reasons = Counter[str]()
    for cell, count in packing.cells.items():
        reasons[packing.refusal(role, cell) or "with room"] += count
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:4]
    texts = [f"{count} {reason}" for reason, count in ordered]
    return f"of {reasons.total()} nodes {', '.join(texts)}" if texts else "there is no node"


def _texts(name: str, *amounts: int) -> list[str]:
    return [quantities({name: amount}).get(name, "0") for amount in amounts]


# What is known of Pods ---------------------------------------------------------------------------


def _pods(objects: Sequence[Object]) -> Iterator[Object]:
    """The Pods among objects, and those that the Job controller makes later."""
    yield from (value for value in objects if value["kind"] == "Pod")
    for job in (value for value in objects if value["kind"] == "Job"):
        template, metadata = job["spec"]["template"], job["metadata"]
        for index in range(job["spec"].get("parallelism", 1)):
            own = {"name": f"{metadata['name']}-{index}", "namespace": metadata.get("namespace")}
            labelled = {**(template.get("metadata") or {}), **own}
            yield {"apiVersion": "v1", "kind": "Pod", **template, "metadata": labelled}


def _undecidable(snapshot: Snapshot, pod: Object) -> Iterator[str]:
    """What decides about a Pod that no snapshot holds."""
    spec = pod["spec"]
    if (scheduler := spec.get("schedulerName") or "default-scheduler") != "default-scheduler":
        yield f"{scheduler} schedules it, by rules of its own"
    for volume in spec.get("volumes") or ():
        if "ephemeral" in volume or "persistentVolumeClaim" in volume:
            yield f"on which nodes the volume {volume['name']} can be is not known"
    if spec.get("resourceClaims"):
        yield "which nodes have devices for its resource claims is not known"
    if not pod["metadata"].get("namespace") and (snapshot.resource_quotas or snapshot.limit_ranges):
        yield "the job names no namespace, so its quotas are not known"
    if spec.get("nodeName"):
        yield "it names its node, so the scheduler does not place it"


def _known(snapshot: Snapshot, role: Role, jobs: Collection[str], unknown: dict[str, None]) -> Role:
    """Pods without the rules that need more than a snapshot holds; why goes to `unknown`."""
    needs = role.needs
    names = {job.partition("/")[2] for job in jobs}
    keys = {*snapshot.pod_labels.get(needs.namespace, ())}

    def is_own(term: Term) -> bool:
        """Whether a term can match only Pods of the job itself."""
        return term.selector is None or any(
            operator in ("In", "Exists") and (key not in keys or (values and names >= {*values}))
            for key, operator, values in term.selector
        )

    if foreign := {term for term in needs.terms if not is_own(term)}:
        unknown["its rules may be about Pods of others, whose labels are not known"] = None
    for own in snapshot.anti_affinity:
        affinity = {"podAntiAffinity": {DURING_SCHEDULING: [own["term"]]}}
        meta = {"namespace": needs.namespace if own["term"].get("namespaces") else own["namespace"]}
        (term,) = needs_of(
            {"spec": {"containers": (), "affinity": affinity}, "metadata": meta}
        ).anti_affinity
        if (
            own["job"] not in jobs
            and meta["namespace"] == needs.namespace
            and matches(term.selector, needs.labels)
        ):
            unknown["the anti-affinity of Pods that run keeps it away from them"] = None
    expressions = [*needs.selector, *(e for term in needs.node_terms or () for e in term)]
    hidden = {e for e in expressions if e[0] in snapshot.unique_labels and e[1] in ("In", "NotIn")}
    unknown |= {
        f"the snapshot leaves out {e[0]}, which its node selector names": None for e in hidden
    }
    terms = [tuple(e for e in term if e not in hidden) for term in needs.node_terms or ()]
    return Role(
        structs.replace(
            needs,
            selector=tuple(e for e in needs.selector if e not in hidden),
            node_terms=None if needs.node_terms is None else tuple(terms),
            spreads=tuple(spread for spread in needs.spreads if spread.term not in foreign),
            affinity=() if foreign & {*needs.affinity} else needs.affinity,
            anti_affinity=tuple(term for term in needs.anti_affinity if term not in foreign),
        ),
        role.pods,
    )
