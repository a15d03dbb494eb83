"""A snapshot and the objects of a job to whether the job fits, and why not."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from etcompile.capacity.packing import POLICIES, Node, Packing
from etcompile.capacity.pod_needs import Expression, Role, Term, matches, roles_of, terms_of
from etcompile.capacity.queue_rules import QUEUE_LABEL, queue_answer, quota_shortages
from etcompile.capacity.snapshot import Snapshot, Use, job_of, quantities
from etcompile.k8s.objects import Object
from etcompile.model.protocol import ROLE_LABEL

FITS = "fits"
"""Whatever nodes the scheduler chooses, all Pods are placed."""
DEPENDS = "depends"
"""A placement exists; whether the scheduler finds it depends on how it scores nodes."""
NOT_NOW = "not-now"
NEVER = "never"
OVER_QUOTA = "over-quota"
QUEUE_FULL = "queue-full"
UNKNOWN = "unknown"


class Answer(Struct, frozen=True):
    """Whether a job fits.

    Args:
        verdict: One of the constants of this module.
        reasons: Why, as ends of sentences; the most important first.
        likely: Whether the scheduler places all Pods if it scores nodes as it does by default.
        would_end: By priority, what would have to end at least before the job fits.
        preempts: Whether the scheduler, or Kueue, may end that by itself.
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
) -> Answer:
    """Whether Pods fit a cluster.

    Args:
        objects: The objects of one job, or of several, in the order of their creation.
        jobs: These jobs, `namespace/name`: what they use already is theirs.
        elastic: The fewest Pods of each elastic role, by its name.
    """
    unknown: list[str] = []
    pods = [_admitted(snapshot, pod, unknown) for pod in _pods(objects)]
    if not pods:
        return Answer(FITS)
    pods.sort(key=lambda pod: -pod["spec"]["priority"])
    jobs = {*jobs, *(job_of(pod) for pod in pods)} - {""}
    unknown += dict.fromkeys(reason for pod in pods for reason in _undecidable(pod))
    titles = {pod["metadata"]["name"]: _role_name(pod) for pod in pods}
    roles = [_known(snapshot, role, jobs, unknown) for role in roles_of(pods)]
    lowest = pods[-1]["spec"]["priority"]

    def stays(use: Use) -> bool:
        return use.stays and use.priority >= lowest

    def is_other(use: Use) -> bool:
        return use.job not in jobs

    empty = Packing(snapshot.nodes(stays), roles)
    if not empty.is_possible:
        never = Answer(NEVER, tuple(_why_never(empty, titles)))
        return _fewer(snapshot.nodes(is_other), roles, titles, elastic, never)
    if shortages := tuple(quota_shortages(snapshot, pods, jobs)):
        return Answer(OVER_QUOTA, shortages)
    queues = {
        (pod["metadata"].get("namespace") or "", pod["metadata"]["labels"].get(QUEUE_LABEL))
        for pod in pods
    }
    if len(queues) > 1 and any(queue for _, queue in queues):
        unknown.append("the Pods wait in several queues")
    elif (queue := next(iter(queues)))[1] and not _runs(snapshot, roles, jobs):
        queued = queue_answer(snapshot, queue[1], queue[0], roles)
        if queued.verdict not in ("", UNKNOWN):
            return Answer(queued.verdict, (queued.reason,), preempts=queued.preempts)
        unknown += [queued.reason] if queued.verdict else []
        roles = [*queued.roles]
    nodes = snapshot.nodes(is_other)
    now = Packing(nodes, roles)
    if now.is_certain:
        return Answer(UNKNOWN, tuple(unknown)) if unknown else Answer(FITS, likely=True)
    placed = _placements(now)
    if now.counts in placed:
        why = "whether the scheduler finds a node for all Pods depends on how it scores nodes"
        reasons = (*unknown, why)
        return Answer(UNKNOWN if unknown else DEPENDS, reasons, likely=placed[0] == now.counts)
    best = max(placed, key=sum)
    answer = Answer(NOT_NOW, tuple(_why_not_now(now, best, titles)))
    ends = sorted({u.priority for g in snapshot.groups for s in g.states for u in s if is_other(u)})
    for priority in ends:

        def lasts(use: Use, above: int = priority) -> bool:
            return stays(use) or (is_other(use) and use.priority > above)

        later = Packing(snapshot.nodes(lasts), roles)
        if later.counts in _placements(later):
            missing = Counter[str]()
            for role, count in zip(roles, best, strict=True):
                lacking = len(role.pods) - count
                missing.update({n: a * lacking for n, a in role.needs.requests.items()})
            needed = {priority: quantities(missing)}
            answer = structs.replace(answer, would_end=needed, preempts=priority < lowest)
            break
    else:
        answer = structs.replace(answer, reasons=(*answer.reasons, _NOWHERE))
    return _fewer(nodes, roles, titles, elastic, answer)


def _placements(packing: Packing) -> list[list[int]]:
    """How many Pods of each role some policies place, up to the first that places all."""
    result = [packing.simulate(POLICIES[0])]
    for policy in POLICIES[1:] if packing.is_possible else ():
        if result[-1] == packing.counts:
            break
        result.append(packing.simulate(policy))
    return result


_NOWHERE = (
    "no placement was found on the empty cluster either, which is no proof that there is none"
)


def _fewer(
    nodes: Sequence[Node],
    roles: Sequence[Role],
    titles: Mapping[str, str],
    elastic: Mapping[str, int] | None,
    answer: Answer,
) -> Answer:
    """The answer with how many Pods of an elastic role fit now, if these are enough."""
    fewer = {}
    for index, role in enumerate(roles):
        title = titles[role.pods[0]]
        least, most = (elastic or {}).get(title, len(role.pods)), len(role.pods) - 1
        best = 0
        while least <= most:
            middle = (least + most + 1) // 2
            some = structs.replace(role, pods=role.pods[:middle])
            if Packing(nodes, [*roles[:index], some, *roles[index + 1 :]]).is_certain:
                best, least = middle, middle + 1
            else:
                most = middle - 1
        if best:
            fewer[title] = best
    return structs.replace(answer, fewer=fewer)


# Why not -----------------------------------------------------------------------------------------


def _why_never(empty: Packing, titles: Mapping[str, str]) -> Iterator[str]:
    """What proves that no placement exists, in numbers."""
    for index, role in enumerate(empty.roles):
        room, title = empty.bound(index, rivals=False), titles[role.pods[0]]
        if room >= len(role.pods):
            continue
        if room:
            yield f"{title} needs {len(role.pods)} places, and the empty cluster has {room}"
            continue
        largest = empty.largest(index)
        short = [(n, a) for n, a in role.needs.requests.items() if largest.get(n, a) < a]
        if not short:
            yield f"no node takes {title}: {_refusals(empty, index)}"
        for name, amount in short:
            texts = [quantities({name: v}).get(name, "0") for v in (amount, largest[name])]
            yield f"{title} asks {name}: {texts[0]} on one node; the largest node has {texts[1]}"
    for name, needed, has in empty.lacking():
        texts = [quantities({name: value}).get(name, "0") for value in (needed, has)]
        yield f"the Pods ask {name}: {texts[0]} in all; the nodes they may go on have {texts[1]}"


def _why_not_now(now: Packing, placed: Sequence[int], titles: Mapping[str, str]) -> Iterator[str]:
    for index, (role, count) in enumerate(zip(now.roles, placed, strict=True)):
        if count < len(role.pods):
            title = titles[role.pods[0]]
            yield f"{count} of {len(role.pods)} {title} fit now: {_refusals(now, index)}"


def _refusals(packing: Packing, role: int) -> str:
    """How many nodes refuse a role for which reason."""
    reasons = Counter[str]()
    for cell, count in packing.cells.items():
        reasons[packing.refusal(role, cell) or "take some"] += count
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    texts = [f"{count} {reason}" for reason, count in ordered[:4]]
    return f"of {reasons.total()} nodes " + ", ".join(texts) if texts else "there is no node"


# What is known of Pods ---------------------------------------------------------------------------


def _pods(objects: Sequence[Object]) -> Iterator[Object]:
    """The Pods among objects, and those that Jobs make."""
    for value in objects:
        if value["kind"] == "Pod":
            yield value
        elif value["kind"] == "Job":
            spec, metadata = value["spec"], value["metadata"]
            template = spec["template"]
            for index in range(spec.get("parallelism", 1)):
                own = {**(template.get("metadata") or {}), "name": f"{metadata['name']}-{index}"}
                own["namespace"] = metadata.get("namespace")
                yield {"apiVersion": "v1", "kind": "Pod", **template, "metadata": own}


def _admitted(snapshot: Snapshot, pod: Object, unknown: list[str]) -> Object:
    """A Pod with what the API server adds: its priority, requests and overhead."""
    spec, metadata = dict(pod["spec"]), dict(pod["metadata"])
    metadata["labels"] = metadata.get("labels") or {}
    classes = {v["metadata"]["name"]: v for v in snapshot.extras.get("priorityClasses", ())}
    default = next((c["value"] for c in classes.values() if c.get("globalDefault")), 0)
    name = spec.get("priorityClassName")
    spec["priority"] = classes[name]["value"] if name in classes else spec.get("priority", default)
    if name and name not in classes and not name.startswith("system-"):
        unknown.append(f"the snapshot has no PriorityClass {name}")
    if runtime := spec.get("runtimeClassName"):
        runtimes = {v["metadata"]["name"]: v for v in snapshot.extras.get("runtimeClasses", ())}
        fixed = (runtimes.get(runtime, {}).get("overhead") or {}).get("podFixed")
        spec.setdefault("overhead", fixed or {})
        if runtime not in runtimes or runtimes[runtime].get("scheduling"):
            unknown.append(f"which nodes the RuntimeClass {runtime} needs is not known")
    defaults: dict[str, Any] = {}
    for limits in snapshot.extras.get("limitRanges", ()):
        if limits["metadata"]["namespace"] == metadata.get("namespace"):
            for item in limits["spec"].get("limits") or ():
                if item.get("type") == "Container":
                    defaults |= {
                        "requests": item.get("defaultRequest"),
                        "limits": item.get("default"),
                    }
    if any(defaults.values()):
        for kind in ("initContainers", "containers"):
            spec[kind] = [_with_defaults(container, defaults) for container in spec.get(kind) or ()]
    return {**pod, "spec": spec, "metadata": metadata}


def _with_defaults(container: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A container with the requests and limits that a LimitRange gives it."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    requests = {**(defaults.get("requests") or {}), **limits, **requests}
    limits = {**(defaults.get("limits") or {}), **limits}
    return {**container, "resources": {**resources, "requests": requests, "limits": limits}}


def _undecidable(pod: Object) -> Iterator[str]:
    """What decides about a Pod that no snapshot holds."""
    spec = pod["spec"]
    if (scheduler := spec.get("schedulerName") or "default-scheduler") != "default-scheduler":
        yield f"{scheduler} schedules it, by rules of its own"
    for volume in spec.get("volumes") or ():
        claim = volume.get("persistentVolumeClaim")
        if claim or "ephemeral" in volume:
            name = claim["claimName"] if claim else volume["name"]
            yield f"on which nodes the volume {name} can be is not known"
    if spec.get("resourceClaims"):
        yield "which nodes have devices for its resource claims is not known"
    if spec.get("nodeName"):
        yield "it names its node, which the scheduler is not asked about"


def _known(snapshot: Snapshot, role: Role, jobs: Collection[str], unknown: list[str]) -> Role:
    """Pods without the rules that need more than a snapshot holds; why goes to `unknown`."""
    needs = role.needs
    names = {job.partition("/")[2] for job in jobs}
    keys = set(snapshot.pod_labels.get(needs.namespace, ()))

    def is_own(term: Term) -> bool:
        """Whether a term can match only Pods of the job itself."""
        return term.selector is None or any(
            key not in keys or names.issuperset(values)
            for key, operator, values in term.selector
            if operator == "In" or (operator == "Exists" and key not in keys)
        )

    def decidable(expressions: Sequence[Expression]) -> tuple[Expression, ...]:
        for key, operator, _ in expressions:
            if key in snapshot.unique and operator not in ("Exists", "DoesNotExist"):
                unknown.append(f"the snapshot leaves out {key}, which its node selector names")
        return tuple(e for e in expressions if e[0] not in snapshot.unique)

    if foreign := [term for term in needs.terms if not is_own(term)]:
        unknown.append("it has rules about Pods of others, whose labels the snapshot leaves out")
    for own in snapshot.anti_affinity:
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [own["term"]]}
        terms = terms_of(affinity, {}, own["namespace"])
        reaches = own["namespace"] == needs.namespace or own["term"].get("namespaces")
        if (
            own["job"] not in jobs
            and reaches
            and any(matches(t.selector, needs.labels) for t in terms)
        ):
            unknown.append("Pods that run keep it away from them by their anti-affinity")
    needs = structs.replace(
        needs,
        selector=decidable(needs.selector),
        node_terms=needs.node_terms and tuple(map(decidable, needs.node_terms)),
        spreads=tuple(spread for spread in needs.spreads if spread.term not in foreign),
        affinity=() if set(foreign) & {*needs.affinity} else needs.affinity,
        anti_affinity=tuple(term for term in needs.anti_affinity if term not in foreign),
    )
    return structs.replace(role, needs=needs)


def _runs(snapshot: Snapshot, roles: Sequence[Role], jobs: Collection[str]) -> bool:
    """Whether jobs run already, so that a queue has admitted as much."""
    used, wanted = Counter[str](), Counter[str]()
    for group in snapshot.groups:
        for state, count in group.states.items():
            for use in state:
                if use.job in jobs:
                    used.update({name: amount * count for name, amount in use.amounts})
    for role in roles:
        wanted.update({n: a * len(role.pods) for n, a in role.needs.requests.items()})
    return wanted <= used


def _role_name(pod: Object) -> str:
    labels = pod["metadata"]["labels"]
    return str(labels.get(ROLE_LABEL) or pod["metadata"]["name"])
