"""Apply the ResourceQuotas of a namespace and the queues of Kueue to Pods.

Kueue gives each set of equal Pods the first flavor that has quota for it, and borrows unused quota
from the cohort (pkg/scheduler/flavorassigner and pkg/cache/scheduler in Kueue 0.17). For cohorts
within cohorts the answer is unknown.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from msgspec import structs

from etcompile.capacity.pod_needs import Role, equal
from etcompile.capacity.snapshot import Snapshot, quantities, taint_of, units_of
from etcompile.k8s.objects import Object
from etcompile.k8s.path import containers_of
from etcompile.k8s.quantity import number
from etcompile.k8s.quota_usage import shortages, total_usage
from etcompile.k8s.requests import limits_of, of_container, total, written

Verdict = Literal["fits", "depends", "not-now", "never", "over-quota", "queue-full", "unknown"]
"""`fits`: whatever nodes the scheduler chooses, all Pods are placed. `depends`: a placement exists;
whether the scheduler finds it depends on how it scores nodes."""


class QueueAnswer(NamedTuple):
    """Kueue's decision about Pods: admitted to the nodes of their flavors, or why not."""

    roles: Sequence[Role]
    verdict: Verdict | Literal[""] = ""  # "" if it admits them
    reason: str = ""


def quota_shortages(
    snapshot: Snapshot, pods: Sequence[Object], jobs: Collection[str]
) -> Iterator[tuple[Verdict, str]]:
    """Yield what ResourceQuotas lack for Pods: a verdict and why; usage of `jobs` is free."""
    for title, quota in snapshot.of_kind("ResourceQuota").items():
        namespace, spec = title.partition("/")[0], quota.get("spec") or {}
        local = [pod for pod in pods if pod["metadata"].get("namespace") == namespace]
        # Containers without a resource that each container must name (core/pods.go).
        forms = (("", of_container), ("requests.", of_container), ("limits.", limits_of))
        hard = spec.get("hard") or {}
        named = [(p + n, n, of) for p, of in forms for n in ("cpu", "memory") if p + n in hard]
        lacking = {
            (container["name"], resource)
            for pod in (local if named else ())
            if not pod["spec"].get("resources") and total_usage([pod], spec)
            for _, container in containers_of(pod["spec"])
            for resource, name, of in named
            if name not in of(container)
        }
        for container, resource in sorted(lacking):
            must = f"the container {container} must name {resource}"
            yield "over-quota", f"{must} for the ResourceQuota {title}"
        theirs = total(
            (count, {name: number(a) or Decimal(0) for name, a in use.requests.items()})
            for use, count in snapshot.uses
            if use.job in jobs and use.job.startswith(f"{namespace}/")
        )
        theirs |= {f"requests.{name}": amount for name, amount in theirs.items()}
        is_scoped = bool(spec.keys() & {"scopes", "scopeSelector"})
        for short in shortages(quota, local, {} if is_scoped else theirs):
            if short.lasts:
                is_final, name = short.needed > short.most, short.resource.split(".", 1)[-1]
                allowed = short.most if is_final else max(short.free + short.freed, Decimal(0))
                asks, has = (written({name: n}).get(name, "0") for n in (short.needed, allowed))
                limit = f"allows {has}" if is_final else f"has {has} left"
                reason = f"needs {short.resource}: {asks}, and the ResourceQuota {title} {limit}"
                yield ("over-quota" if is_final else "queue-full"), reason


def queue_answer(
    snapshot: Snapshot, queue: str, namespace: str, roles: Sequence[Role]
) -> QueueAnswer:
    local = snapshot.of_kind("LocalQueue").get(f"{namespace}/{queue}", {}).get("spec")
    name = (local or {}).get("clusterQueue", "")
    spec = snapshot.of_kind("ClusterQueue").get(name, {}).get("spec")
    if local is None or spec is None:
        missing = f"LocalQueue {namespace}/{queue}" if local is None else f"ClusterQueue {name}"
        return QueueAnswer(roles, "unknown", f"the snapshot has no {missing}")
    if {local.get("stopPolicy"), spec.get("stopPolicy")} - {None, "None"}:
        return QueueAnswer(roles, "queue-full", f"the queue {namespace}/{queue} is stopped")
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
        return QueueAnswer(roles, "unknown", f"the ClusterQueue {name} {unclear}")
    # The order in which Kueue takes the sets is unknown here, so both extremes must agree.
    forwards, backwards = (
        _assigned(_Quotas(snapshot, name), name, spec, ordered) for ordered in (roles, roles[::-1])
    )
    decided = forwards.verdict or backwards.verdict
    if not decided and [*backwards.roles][::-1] != forwards.roles:
        return QueueAnswer(roles, "unknown", "which flavor its Pods get depends on their order")
    return backwards if backwards.verdict else forwards


def _assigned(
    quotas: "_Quotas", name: str, spec: Mapping[str, Any], roles: Sequence[Role]
) -> QueueAnswer:
    """Give each role the first flavor of each group of resources that has quota for it."""
    admitted, groups, title = [], spec.get("resourceGroups") or (), f"the ClusterQueue {name}"
    covered = {resource for group in groups for resource in group["coveredResources"]}
    for needs, role, count in roles:
        requests = {n: amount * count for n, amount in needs.requests.items() if amount}
        if lacking := sorted(requests.keys() - covered - {"pods"}):
            return QueueAnswer(roles, "over-quota", f"{title} has no quota for {lacking[0]}")
        chosen = needs
        for group in groups:
            amounts = {n: a for n, a in requests.items() if n in group["coveredResources"]}
            if not amounts:
                continue
            names = [f["name"] for f in group["flavors"] if f["name"] in quotas.flavors]
            keys = {key for f in names for key in quotas.flavors[f].get("nodeLabels") or ()}
            # Only terms about labels of flavors count.
            terms = [tuple(e for e in term if e[0] in keys) for term in chosen.node_terms]
            open_to = []
            for flavor, its in ((f, quotas.flavors[f]) for f in names):
                tolerations = (*chosen.tolerations, *(its.get("tolerations") or ()))
                seen = structs.replace(chosen, node_terms=tuple(terms), tolerations=tolerations)
                taints = map(taint_of, its.get("nodeTaints") or ())
                if not seen.untolerated(taints) and seen.is_affine(its.get("nodeLabels") or {}):
                    open_to.append(flavor)
            if not open_to:
                reason = f"no flavor of {title} matches its selector and tolerations"
                return QueueAnswer(roles, "over-quota", reason)
            short = [quotas.shortage(flavor, amounts) for flavor in open_to]
            if None not in short:
                never = [quotas.shortage(flavor, amounts, is_idle=True) for flavor in open_to]
                if None not in never:
                    return QueueAnswer(roles, "over-quota", f"{title} never has {never[0]}")
                return QueueAnswer(roles, "queue-full", f"{title} lacks {short[0]}")
            first = open_to[short.index(None)]
            its = quotas.flavors[first]
            if its.get("topologyName"):
                reason = f"the flavor {first} has a topology of Kueue"
                return QueueAnswer(roles, "unknown", reason)
            quotas.reserved.update({(first, name): amount for name, amount in amounts.items()})
            labels = equal(its.get("nodeLabels") or {})
            chosen = structs.replace(
                chosen,
                node_terms=tuple((*term, *labels) for term in chosen.node_terms),
                tolerations=(*chosen.tolerations, *(its.get("tolerations") or ())),
            )
        admitted.append(Role(chosen, role, count))
    return QueueAnswer(admitted)


class _Quotas:
    """The quotas of a ClusterQueue and of its cohort, and what these Pods reserve."""

    def __init__(self, snapshot: Snapshot, name: str) -> None:
        flavors, queues = snapshot.of_kind("ResourceFlavor"), snapshot.of_kind("ClusterQueue")
        self.flavors = {name: flavor.get("spec") or {} for name, flavor in flavors.items()}
        self.reserved: Counter[tuple[str, str]] = Counter()
        cohort, cohorts = _cohort(queues[name]["spec"]), snapshot.of_kind("Cohort")
        members = [q for q in queues.values() if cohort and _cohort(q["spec"]) == cohort]
        members += [cohorts[cohort]] if cohort in cohorts else []
        self._owners = [queues[name], *members]

    def shortage(
        self, flavor: str, amounts: Mapping[str, int], *, is_idle: bool = False
    ) -> str | None:
        """Return the first resource of a flavor that is short; `is_idle`: even if nothing ran."""
        for resource, amount in amounts.items():
            queue, *members = (_quota(o, flavor, resource, is_idle=is_idle) for o in self._owners)
            above = sum(quota.lent for quota in members)
            if members and queue.borrowing is not None:
                above = min(above, queue.lent + queue.borrowing)
            has = queue.nominal - queue.used
            if members:
                has = max(0, queue.unlent - queue.used) + above
            if (needed := amount + self.reserved[flavor, resource]) > has:
                texts = [quantities({resource: max(n, 0)}) for n in (needed, has)]
                asks, left = (text.get(resource, "0") for text in texts)
                return f"{resource}: {asks} of the flavor {flavor}, of which it has {left}"
        return None


class _Quota(NamedTuple):
    """What a queue or a cohort may use of a resource of a flavor, and what is used."""

    nominal: int
    borrowing: int | None
    unlent: int  # never lent to others
    used: int

    @property
    def lent(self) -> int:
        return self.nominal - self.unlent - max(0, self.used - self.unlent)


def _quota(owner: Object, flavor: str, resource: str, *, is_idle: bool) -> _Quota:
    groups = (owner.get("spec") or {}).get("resourceGroups") or ()
    reserved = () if is_idle else (owner.get("status") or {}).get("flavorsReservation") or ()
    quota: dict[str, int] = {}
    for row in (*(row for group in groups for row in group["flavors"]), *reserved):
        for each in row.get("resources") or ():
            if (row["name"], each["name"]) == (flavor, resource):
                amounts = {field: each[field] for field in each if field != "name"}
                quota |= {f: units_of({resource: a})[resource] for f, a in amounts.items()}
    nominal, lending = quota.get("nominalQuota", 0), quota.get("lendingLimit")
    unlent = 0 if lending is None else max(0, nominal - lending)
    return _Quota(nominal, quota.get("borrowingLimit"), unlent, quota.get("total", 0))


def _cohort(spec: Mapping[str, Any]) -> str:
    fields = ("cohortName", "cohort", "parentName", "parent")
    return next(filter(None, map(spec.get, fields)), "")
