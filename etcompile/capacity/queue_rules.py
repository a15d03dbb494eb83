"""Pods to what the ResourceQuotas of their namespace and the queues of Kueue say about them.

Kueue gives each set of equal Pods the first flavor that has quota for it, and borrows from the
cohort what others do not use (pkg/scheduler/flavorassigner and pkg/cache/scheduler in Kueue 0.17).
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from msgspec import structs

from etcompile.capacity.pod_needs import Needs, Role, equal, taint_of
from etcompile.capacity.snapshot import Snapshot, quantities, units_of
from etcompile.k8s.objects import Object
from etcompile.k8s.quantity import number
from etcompile.k8s.quota_usage import total_usage
from etcompile.k8s.requests import limits_of, of_container, written

OVER_QUOTA = "over-quota"
QUEUE_FULL = "queue-full"
UNKNOWN = "unknown"

_NAMED = {*("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")}


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
    for quota in snapshot.resource_quotas:
        namespace, name = quota["metadata"]["namespace"], quota["metadata"]["name"]
        own = [pod for pod in pods if pod["metadata"].get("namespace") == namespace]
        status, theirs = quota.get("status") or {}, quota.get("status", {}).get("jobs") or {}
        needs = total_usage(own, quota["spec"])
        hard = status.get("hard") or quota["spec"].get("hard") or {}
        for container, resource in sorted(_unnamed(own, quota["spec"], hard)):
            must = f"the container {container} must name {resource}"
            yield OVER_QUOTA, f"{must} for the ResourceQuota {namespace}/{name}"
        for resource, most in hard.items():
            of_jobs = (_amount(theirs[job].get(resource)) for job in jobs if job in theirs)
            used = _amount((status.get("used") or {}).get(resource)) - sum(of_jobs)
            asks, left = needs.get(resource, Decimal(0)), max(_amount(most) - used, Decimal(0))
            if asks > left:
                is_final, plain = asks > _amount(most), resource.split(".", 1)[-1]
                allowed = _amount(most) if is_final else left
                texts = [written({plain: amount}).get(plain, "0") for amount in (asks, allowed)]
                has = f"allows {texts[1]}" if is_final else f"has {texts[1]} left"
                reason = (
                    f"needs {resource}: {texts[0]}, and the ResourceQuota {namespace}/{name} {has}"
                )
                yield (OVER_QUOTA if is_final else QUEUE_FULL), reason


def _unnamed(
    pods: Sequence[Object], spec: Mapping[str, Any], hard: Mapping[str, Any]
) -> set[tuple[str, str]]:
    """Containers that leave out what each container must name in a quota (core/pods.go)."""
    lacking = set()
    for resource in hard.keys() & _NAMED:
        kind, _, name = resource.rpartition(".")
        of = limits_of if kind == "limits" else of_container
        for pod in pods:
            containers = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
            without = [c["name"] for c in containers if name not in of(c)]
            if without and not pod["spec"].get("resources") and total_usage([pod], spec):
                lacking.add((without[0], resource))
    return lacking


def queue_answer(
    snapshot: Snapshot, queue: str, namespace: str, roles: Sequence[Role]
) -> QueueAnswer:
    """Whether Kueue admits Pods that name a LocalQueue."""
    by_name = {
        (q["metadata"].get("namespace"), q["metadata"]["name"]): q["spec"]
        for q in _queues(snapshot)
    }
    local = by_name.get((namespace, queue))
    name = (local or {}).get("clusterQueue", "")
    spec = by_name.get((None, name))
    if local is None or spec is None:
        missing = f"LocalQueue {namespace}/{queue}" if local is None else f"ClusterQueue {name}"
        return QueueAnswer(roles, UNKNOWN, f"the snapshot has no {missing}")
    if {local.get("stopPolicy"), spec.get("stopPolicy")} - {None, "None"}:
        return QueueAnswer(roles, QUEUE_FULL, f"the queue {namespace}/{queue} is stopped")
    if spec.get("admissionChecks") or spec.get("admissionChecksStrategy"):
        return QueueAnswer(roles, UNKNOWN, f"the ClusterQueue {name} has admission checks")
    chosen = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    if spec.get("namespaceSelector") not in ({}, chosen):
        return QueueAnswer(roles, UNKNOWN, f"the ClusterQueue {name} selects its namespaces")
    flavors = {flavor["metadata"]["name"]: flavor["spec"] for flavor in snapshot.resource_flavors}
    # In which order Kueue takes the sets is not known here, so both of the extremes must do.
    backwards = _assigned(_Tree(snapshot), name, spec, flavors, roles[::-1])
    forwards = _assigned(_Tree(snapshot), name, spec, flavors, roles)
    decided = forwards.verdict or backwards.verdict
    if not decided and [*backwards.roles][::-1] != forwards.roles:
        return QueueAnswer(roles, UNKNOWN, "which flavor its Pods get depends on their order")
    return backwards if backwards.verdict else forwards


def _queues(snapshot: Snapshot) -> tuple[dict[str, Any], ...]:
    return (*snapshot.local_queues, *snapshot.cluster_queues)


def _assigned(
    tree: "_Tree",
    name: str,
    spec: Mapping[str, Any],
    flavors: Mapping[str, Mapping[str, Any]],
    roles: Sequence[Role],
) -> QueueAnswer:
    """Gives each role the first flavor of each group of resources that has quota for it."""
    admitted, groups = [], spec.get("resourceGroups") or ()
    covered = {resource for group in groups for resource in group["coveredResources"]}
    for role in roles:
        needs, pods = role
        requests = {n: amount * len(pods) for n, amount in needs.requests.items() if amount}
        if lacking := sorted(requests.keys() - covered - {"pods"}):
            reason = f"the ClusterQueue {name} has no quota for {lacking[0]}"
            return QueueAnswer(roles, OVER_QUOTA, reason)
        for group in groups:
            own = {n: a for n, a in requests.items() if n in group["coveredResources"]}
            tried = [f["name"] for f in group["flavors"] if f["name"] in flavors]
            keys = {key for f in tried for key in flavors[f].get("nodeLabels") or ()}
            open_to = [f for f in tried if _goes(needs, flavors[f], keys)]
            if not own:
                continue
            if not open_to:
                reason = (
                    f"no flavor of the ClusterQueue {name} matches its selector and tolerations"
                )
                return QueueAnswer(roles, OVER_QUOTA, reason)
            short = [tree.shortage(name, flavor, own) for flavor in open_to]
            if None not in short:
                never = [tree.shortage(name, flavor, own, idle=True) for flavor in open_to]
                if None not in never:
                    return QueueAnswer(
                        roles, OVER_QUOTA, f"the ClusterQueue {name} never has {never[0]}"
                    )
                return QueueAnswer(roles, QUEUE_FULL, f"the ClusterQueue {name} lacks {short[0]}")
            fitting = [f for f, lacks in zip(open_to, short, strict=True) if lacks is None]
            choice = spec.get("flavorFungibility") or {}
            if choice.get("whenCanBorrow") == "TryNextFlavor":
                fitting.sort(key=lambda f: tree.borrowing(name, f, own))
            if choice.get("preference") or (
                choice.get("whenCanPreempt") not in (None, "TryNextFlavor") and short[0]
            ):
                return QueueAnswer(roles, UNKNOWN, f"the ClusterQueue {name} may preempt first")
            flavor = fitting[0]
            if flavors[flavor].get("topologyName"):
                return QueueAnswer(roles, UNKNOWN, f"the flavor {flavor} has a topology of Kueue")
            for resource, amount in own.items():
                tree.taken[flavor, resource] += amount
            labels, tolerations = (
                flavors[flavor].get(f) or () for f in ("nodeLabels", "tolerations")
            )
            needs = structs.replace(
                needs,
                selector=(*needs.selector, *equal(dict(labels))),
                tolerations=(*needs.tolerations, *tolerations),
            )
        admitted.append(Role(needs, pods))
    return QueueAnswer(admitted)


def _goes(needs: Needs, flavor: Mapping[str, Any], keys: Collection[str]) -> bool:
    """Whether Pods may go to nodes of a flavor, by the labels that the group's flavors have."""
    taints = map(taint_of, flavor.get("nodeTaints") or ())
    tolerations = (*needs.tolerations, *(flavor.get("tolerations") or ()))
    terms = [tuple(e for e in term if e[0] in keys) for term in needs.node_terms or ((),)]
    seen = structs.replace(
        needs,
        selector=tuple(e for e in needs.selector if e[0] in keys),
        node_terms=tuple(terms) if all(terms) else None,
        tolerations=tolerations,
    )
    return not seen.untolerated(taints) and seen.is_affine(flavor.get("nodeLabels") or {})


class _Tree:
    """The quotas of ClusterQueues and cohorts, what is reserved, and what these Pods take."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.taken: dict[tuple[str, str], int] = defaultdict(int)
        self._limits: dict[tuple[str, str, str], list[int | None]] = {}
        self._used: dict[tuple[str, str, str], int] = defaultdict(int)
        self._parents: dict[str, str] = {}
        queues = [("", queue) for queue in snapshot.cluster_queues]
        for prefix, value in (*queues, *(("cohort ", cohort) for cohort in snapshot.cohorts)):
            name, spec = prefix + value["metadata"]["name"], value.get("spec") or {}
            parents = [spec.get(f) for f in ("cohortName", "cohort", "parentName", "parent")]
            if any(parents):
                self._parents[name] = f"cohort {next(filter(None, parents))}"
            for group in spec.get("resourceGroups") or ():
                for flavor in group["flavors"]:
                    for resource in flavor["resources"]:
                        limits = (
                            resource.get(f)
                            for f in ("nominalQuota", "borrowingLimit", "lendingLimit")
                        )
                        at = resource["name"]
                        self._limits[name, flavor["name"], at] = [
                            None if limit is None else units_of({at: limit})[at] for limit in limits
                        ]
            for flavor in (value.get("status") or {}).get("flavorsReservation") or ():
                for resource in flavor.get("resources") or ():
                    at = resource["name"]
                    total = units_of({at: resource.get("total") or 0})[at]
                    self._used[name, flavor["name"], at] = total

    def shortage(
        self, name: str, flavor: str, own: Mapping[str, int], *, idle: bool = False
    ) -> str | None:
        """The first resource of a flavor that a queue lacks; `idle`: if nothing ran."""
        for resource, amount in own.items():
            wanted = amount + self.taken[flavor, resource]
            has = self._available(name, (flavor, resource), idle=idle)
            if wanted > has:
                asks, left = (
                    quantities({resource: max(n, 0)}).get(resource, "0") for n in (wanted, has)
                )
                return f"{resource}: {asks} of the flavor {flavor}, of which it has {left}"
        return None

    def borrowing(self, name: str, flavor: str, own: Mapping[str, int]) -> int:
        """How many cohorts up a queue borrows of a flavor; 0 if it keeps to its own quota."""
        most = 0
        for resource, amount in own.items():
            key, node, height = (flavor, resource), name, 0
            wanted = amount + self.taken[key]
            while node in self._parents and self._usage(node, key) + wanted > self._subtree(
                node, key
            ):
                wanted -= max(0, self._local(node, key) - self._usage(node, key))
                node, height = self._parents[node], height + 1
            most = max(most, height)
        return most

    def _available(self, name: str, key: tuple[str, str], *, idle: bool) -> int:
        """How much a queue may still take, with what it may borrow."""
        local, used = self._local(name, key), 0 if idle else self._usage(name, key)
        whole = self._subtree(name, key)
        if name not in self._parents:
            return whole - used
        above = self._available(self._parents[name], key, idle=idle)
        _, borrowing, _ = self._limits.get((name, *key), (0, None, None))
        if borrowing is not None:
            above = min(above, whole - local - max(0, used - local) + borrowing)
        return max(0, local - used) + above

    def _subtree(self, name: str, key: tuple[str, str]) -> int:
        nominal = self._limits.get((name, *key), [0])[0] or 0
        lent = (self._subtree(c, key) - self._local(c, key) for c in self._children(name))
        return nominal + sum(lent)

    def _local(self, name: str, key: tuple[str, str]) -> int:
        """What is never lent to others."""
        lending = self._limits.get((name, *key), (0, None, None))[2]
        return 0 if lending is None else max(0, self._subtree(name, key) - lending)

    def _usage(self, name: str, key: tuple[str, str]) -> int:
        below = (self._usage(c, key) - self._local(c, key) for c in self._children(name))
        return self._used[name, *key] + sum(max(0, used) for used in below)

    def _children(self, name: str) -> list[str]:
        return [child for child, parent in self._parents.items() if parent == name]


def _amount(text: Any) -> Decimal:
    return number(text or 0) or Decimal(0)
