"""Pods to what the ResourceQuotas of their namespace and the queues of Kueue say about them.

Kueue gives each set of equal Pods the first flavor that has quota for it, and borrows from the
cohort what others do not use (pkg/scheduler/flavorassigner and pkg/cache/scheduler in Kueue 0.17).
Cohorts within cohorts are left to Kueue.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from msgspec import structs

from etcompile.capacity.pod_needs import Needs, Role, equal
from etcompile.capacity.snapshot import Snapshot, quantities, taint_of, units_of
from etcompile.k8s.objects import Object
from etcompile.k8s.path import containers_of
from etcompile.k8s.quantity import number
from etcompile.k8s.quota_usage import shortages, total_usage
from etcompile.k8s.requests import Amounts, added, limits_of, of_container, written

OVER_QUOTA = "over-quota"
QUEUE_FULL = "queue-full"
UNKNOWN = "unknown"


class QueueAnswer(NamedTuple):
    """What Kueue does with Pods.

    Args:
        roles: The Pods, with the node labels and tolerations of their flavors if it admits them.
        verdict: Why it does not: one of the constants of this module; "" if it does.
        reason: The same as the end of a sentence.
    """

    roles: Sequence[Role]
    verdict: str = ""
    reason: str = ""


def quota_shortages(
    snapshot: Snapshot, pods: Sequence[Object], jobs: Collection[str]
) -> Iterator[tuple[str, str]]:
    """What ResourceQuotas lack for Pods: a verdict and why; what `jobs` use already is theirs."""
    for title, quota in snapshot.of_kind("ResourceQuota").items():
        namespace, spec = title.partition("/")[0], quota.get("spec") or {}
        own = [pod for pod in pods if pod["metadata"].get("namespace") == namespace]
        for container, resource in sorted(_unnamed(own, spec)):
            must = f"the container {container} must name {resource}"
            yield OVER_QUOTA, f"{must} for the ResourceQuota {title}"
        theirs: Amounts = {}
        for use, count in snapshot.uses:
            if use.job in jobs and use.job.startswith(f"{namespace}/"):
                own_use = {n: (number(a) or 0) * Decimal(count) for n, a in use.requests.items()}
                named = {f"requests.{name}": amount for name, amount in own_use.items()}
                theirs = added(theirs, own_use | named)
        is_scoped = bool(spec.keys() & {"scopes", "scopeSelector"})
        for short in shortages(quota, own, {} if is_scoped else theirs):
            if short.lasts:
                is_final, name = short.wanted > short.most, short.resource.split(".", 1)[-1]
                allowed = short.most if is_final else max(short.free + short.freed, Decimal(0))
                asks, has = (written({name: n}).get(name, "0") for n in (short.wanted, allowed))
                limit = f"allows {has}" if is_final else f"has {has} left"
                reason = f"needs {short.resource}: {asks}, and the ResourceQuota {title} {limit}"
                yield (OVER_QUOTA if is_final else QUEUE_FULL), reason


def _unnamed(pods: Sequence[Object], spec: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Containers that leave out what each container must name in a quota (core/pods.go)."""
    forms = (("", of_container), ("requests.", of_container), ("limits.", limits_of))
    hard = spec.get("hard") or {}
    named = [(p + n, n, of) for p, of in forms for n in ("cpu", "memory") if p + n in hard]
    return {
        (container["name"], resource)
        for pod in (pods if named else ())
        if not pod["spec"].get("resources") and total_usage([pod], spec)
        for _, container in containers_of(pod["spec"])
        for resource, name, of in named
        if name not in of(container)
    }


def queue_answer(
    snapshot: Snapshot, queue: str, namespace: str, roles: Sequence[Role]
) -> QueueAnswer:
    """Whether Kueue admits Pods that name a LocalQueue."""
    local = snapshot.of_kind("LocalQueue").get(f"{namespace}/{queue}", {}).get("spec")
    name = (local or {}).get("clusterQueue", "")
    spec = snapshot.of_kind("ClusterQueue").get(name, {}).get("spec")
    if local is None or spec is None:
        missing = f"LocalQueue {namespace}/{queue}" if local is None else f"ClusterQueue {name}"
        return QueueAnswer(roles, UNKNOWN, f"the snapshot has no {missing}")
    if {local.get("stopPolicy"), spec.get("stopPolicy")} - {None, "None"}:
        return QueueAnswer(roles, QUEUE_FULL, f"the queue {namespace}/{queue} is stopped")
    chosen = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    parent = snapshot.of_kind("Cohort").get(_cohort(spec), {}).get("spec") or {}
    choice = spec.get("flavorFungibility") or {}
    open_questions = {
        "has admission checks": spec.get("admissionChecks") or spec.get("admissionChecksStrategy"),
        "selects its namespaces": spec.get("namespaceSelector") not in ({}, chosen),
        "is in a cohort of a cohort": _cohort(parent),
        "prefers some flavors": any(len(g["flavors"]) > 1 for g in spec.get("resourceGroups") or ())
        and (
            choice.get("preference")
            or choice.get("whenCanBorrow") == "TryNextFlavor"
            or choice.get("whenCanPreempt") not in (None, "TryNextFlavor")
        ),
    }
    if unclear := next((words for words, is_so in open_questions.items() if is_so), ""):
        return QueueAnswer(roles, UNKNOWN, f"the ClusterQueue {name} {unclear}")
    # In which order Kueue takes the sets is not known here, so both of the extremes must do.
    forwards, backwards = (
        _assigned(_Quotas(snapshot, name), name, spec, ordered) for ordered in (roles, roles[::-1])
    )
    decided = forwards.verdict or backwards.verdict
    if not decided and [*backwards.roles][::-1] != forwards.roles:
        return QueueAnswer(roles, UNKNOWN, "which flavor its Pods get depends on their order")
    return backwards if backwards.verdict else forwards


def _assigned(
    quotas: "_Quotas", name: str, spec: Mapping[str, Any], roles: Sequence[Role]
) -> QueueAnswer:
    """Gives each role the first flavor of each group of resources that has quota for it."""
    admitted, groups, title = [], spec.get("resourceGroups") or (), f"the ClusterQueue {name}"
    covered = {resource for group in groups for resource in group["coveredResources"]}
    for needs, role, count in roles:
        requests = {n: amount * count for n, amount in needs.requests.items() if amount}
        if lacking := sorted(requests.keys() - covered - {"pods"}):
            return QueueAnswer(roles, OVER_QUOTA, f"{title} has no quota for {lacking[0]}")
        chosen = needs
        for group in groups:
            own = {n: a for n, a in requests.items() if n in group["coveredResources"]}
            flavors = {f["name"]: quotas.flavors.get(f["name"]) for f in group["flavors"]}
            keys = {key for f in flavors.values() for key in (f or {}).get("nodeLabels") or ()}
            open_to = [
                f for f, its in flavors.items() if its is not None and _goes(chosen, its, keys)
            ]
            if not own:
                continue
            if not open_to:
                reason = f"no flavor of {title} matches its selector and tolerations"
                return QueueAnswer(roles, OVER_QUOTA, reason)
            short = [quotas.shortage(flavor, own) for flavor in open_to]
            if None not in short:
                never = [quotas.shortage(flavor, own, is_idle=True) for flavor in open_to]
                if None not in never:
                    return QueueAnswer(roles, OVER_QUOTA, f"{title} never has {never[0]}")
                return QueueAnswer(roles, QUEUE_FULL, f"{title} lacks {short[0]}")
            first = open_to[short.index(None)]
            flavor = quotas.flavors[first]
            if flavor.get("topologyName"):
                reason = f"the flavor {first} has a topology of Kueue"
                return QueueAnswer(roles, UNKNOWN, reason)
            for resource, amount in own.items():
                quotas.reserved[first, resource] += amount
            labels = equal(flavor.get("nodeLabels") or {})
            chosen = structs.replace(
                chosen,
                node_terms=tuple((*term, *labels) for term in chosen.node_terms),
                tolerations=(*chosen.tolerations, *(flavor.get("tolerations") or ())),
            )
        admitted.append(Role(chosen, role, count))
    return QueueAnswer(admitted)


def _goes(needs: Needs, flavor: Mapping[str, Any], keys: Collection[str]) -> bool:
    """Whether Pods may go to nodes of a flavor, by the labels that the group's flavors have."""
    terms = tuple(tuple(e for e in term if e[0] in keys) for term in needs.node_terms)
    tolerations = (*needs.tolerations, *(flavor.get("tolerations") or ()))
    seen = structs.replace(needs, node_terms=terms, tolerations=tolerations)
    taints = map(taint_of, flavor.get("nodeTaints") or ())
    return not seen.untolerated(taints) and seen.is_affine(flavor.get("nodeLabels") or {})


class _Quota(NamedTuple):
    """What a queue or a cohort may use of a resource of a flavor, and what is reserved."""

    nominal: int
    borrowing: int | None
    lending: int | None
    used: int

    @property
    def own(self) -> int:
        """What is never lent to others."""
        return 0 if self.lending is None else max(0, self.nominal - self.lending)


class _Quotas:
    """The quotas of a ClusterQueue and of its cohort, and what these Pods take."""

    def __init__(self, snapshot: Snapshot, name: str) -> None:
        flavors, queues = snapshot.of_kind("ResourceFlavor"), snapshot.of_kind("ClusterQueue")
        self.flavors = {flavor: own.get("spec") or {} for flavor, own in flavors.items()}
        self.reserved: Counter[tuple[str, str]] = Counter()
        self._queue, cohort = queues[name], _cohort(queues[name]["spec"])
        self._members = [q for q in queues.values() if cohort and _cohort(q["spec"]) == cohort]
        if cohort in (cohorts := snapshot.of_kind("Cohort")):
            self._members.append(cohorts[cohort])

    def shortage(self, flavor: str, own: Mapping[str, int], *, is_idle: bool = False) -> str | None:
        """The first resource of a flavor that is short; `is_idle`: even if nothing ran."""
        for resource, amount in own.items():
            wanted = amount + self.reserved[flavor, resource]
            has = self._available(flavor, resource, is_idle=is_idle)
            if wanted > has:
                amounts = [quantities({resource: max(n, 0)}) for n in (wanted, has)]
                asks, left = (each.get(resource, "0") for each in amounts)
                return f"{resource}: {asks} of the flavor {flavor}, of which it has {left}"
        return None

    def _available(self, flavor: str, resource: str, *, is_idle: bool) -> int:
        """How much the queue may still take, with what it may borrow."""
        owners = (self._queue, *self._members)
        own, *members = (_quota(each, flavor, resource, is_idle=is_idle) for each in owners)
        if not members:
            return own.nominal - own.used
        above = sum(q.nominal - q.own - max(0, q.used - q.own) for q in members)
        if own.borrowing is not None:
            lent = own.nominal - own.own - max(0, own.used - own.own)
            above = min(above, lent + own.borrowing)
        return max(0, own.own - own.used) + above


def _quota(owner: Object, flavor: str, resource: str, *, is_idle: bool) -> _Quota:
    def of_flavor(rows: Iterable[Object]) -> Mapping[str, Any]:
        own = (row.get("resources") or () for row in rows if row["name"] == flavor)
        return next((r for resources in own for r in resources if r["name"] == resource), {})

    groups = (owner.get("spec") or {}).get("resourceGroups") or ()
    limits = of_flavor(row for group in groups for row in group["flavors"])
    used = of_flavor((owner.get("status") or {}).get("flavorsReservation") or ()).get("total")
    fields = [limits.get(f) for f in ("nominalQuota", "borrowingLimit", "lendingLimit")]
    nominal, borrowing, lending, reserved = (
        None if amount is None else units_of({resource: amount})[resource]
        for amount in (*fields, used)
    )
    return _Quota(nominal or 0, borrowing, lending, 0 if is_idle else reserved or 0)


def _cohort(spec: Mapping[str, Any]) -> str:
    """The cohort that a queue or cohort is in, in both versions of the API; "" for none."""
    fields = ("cohortName", "cohort", "parentName", "parent")
    return next(filter(None, map(spec.get, fields)), "")
