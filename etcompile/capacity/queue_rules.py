"""Pods to what the ResourceQuotas of their namespace and the queues of Kueue say about them.

Kueue gives each set of equal Pods the first flavor that has quota for it, and borrows from the
cohort what others do not use (pkg/scheduler/flavorassigner and pkg/cache/scheduler in Kueue 0.17).
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct, structs

from etcompile.capacity.pod_needs import Needs, Role, equal, matches, tolerates
from etcompile.capacity.snapshot import Snapshot, quantities, units_of
from etcompile.k8s.objects import Object
from etcompile.k8s.quantity import number
from etcompile.k8s.quota_usage import total_usage
from etcompile.k8s.requests import written

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_UNLIMITED = 1 << 62
_Flavored = tuple[str, str]
"""A flavor and a resource."""


class QueueAnswer(Struct, frozen=True):
    """What Kueue does with Pods.

    Args:
        reason: Why it does not admit them, or why that is not known; "" if it does.
        verdict: `over-quota`, `queue-full` or `unknown` then.
        roles: The Pods with the node labels and tolerations of their flavors.
        preempts: It may end other work for them.
    """

    roles: tuple[Role, ...]
    verdict: str = ""
    reason: str = ""
    preempts: bool = False


def quota_shortages(
    snapshot: Snapshot, pods: Sequence[Object], jobs: Collection[str]
) -> Iterator[str]:
    """What the ResourceQuotas of the Pods' namespaces have too little of.

    Args:
        jobs: The jobs whose Pods they replace.
    """
    for quota in snapshot.extras.get("resourceQuotas", ()):
        namespace, name = quota["metadata"]["namespace"], quota["metadata"]["name"]
        own = [pod for pod in pods if pod["metadata"].get("namespace") == namespace]
        needs, status = total_usage(own, quota["spec"]), quota.get("status") or {}
        used = _amounts(status.get("used"))
        for job in jobs:
            for resource, amount in _amounts((status.get("jobs") or {}).get(job)).items():
                used[resource] = used.get(resource, Decimal(0)) - amount
        for resource, most in _amounts(status.get("hard") or quota["spec"].get("hard")).items():
            free = max(most - used.get(resource, Decimal(0)), Decimal(0))
            if needs.get(resource, Decimal(0)) > free:
                texts = [written({resource.split(".", 1)[-1]: a}) for a in (needs[resource], free)]
                asks, left = (next(iter(text.values()), "0") for text in texts)
                yield (
                    f"needs {resource}: {asks}, and the ResourceQuota {namespace}/{name} has"
                    f" {left} left"
                )


def queue_answer(
    snapshot: Snapshot, queue: str, namespace: str, roles: Sequence[Role]
) -> QueueAnswer:
    """Whether Kueue admits Pods that name a LocalQueue."""
    asis = tuple(roles)
    locals_ = {_key(value): value for value in snapshot.extras.get("localQueues", ())}
    queues = {
        value["metadata"]["name"]: value for value in snapshot.extras.get("clusterQueues", ())
    }
    local = locals_.get((namespace, queue))
    name = (local or {}).get("spec", {}).get("clusterQueue", "")
    if local is None or name not in queues:
        missing = f"ClusterQueue {name}" if local else f"LocalQueue {namespace}/{queue}"
        return QueueAnswer(asis, "unknown", f"the snapshot has no {missing}")
    spec = queues[name]["spec"]
    for value in (local, queues[name]):
        if value["spec"].get("stopPolicy") not in (None, "None"):
            return QueueAnswer(asis, "queue-full", f"the queue {_key(value)[1]} is stopped")
    if spec.get("admissionChecks") or spec.get("admissionChecksStrategy"):
        return QueueAnswer(asis, "unknown", f"the ClusterQueue {name} has admission checks")
    namespaces = (spec.get("namespaceSelector") or {}).get("matchLabels") or {}
    if spec.get("namespaceSelector") != {} and namespaces != {_NAMESPACE: namespace}:
        return QueueAnswer(asis, "unknown", f"the ClusterQueue {name} selects its namespaces")
    tree = _Tree(snapshot)
    flavors = {v["metadata"]["name"]: v["spec"] for v in snapshot.extras.get("resourceFlavors", ())}
    # In which order Kueue takes the sets is not known here, so both of the extremes must do.
    forward = _assigned(tree, name, spec, flavors, asis)
    if not forward.verdict and len(roles) > 1:
        backward = _assigned(tree, name, spec, flavors, asis[::-1])
        return backward if backward.verdict else forward
    policies = (spec.get("preemption") or {}).items()
    may = any(v != "Never" for k, v in policies if isinstance(v, str))
    return structs.replace(forward, preempts=may)


_NAMESPACE = "kubernetes.io/metadata.name"


def _assigned(
    tree: "_Tree",
    name: str,
    spec: Mapping[str, Any],
    flavors: Mapping[str, Any],
    roles: Sequence[Role],
) -> QueueAnswer:
    """Gives each role the first flavor of each group of resources that has quota for it."""
    taken: dict[_Flavored, int] = defaultdict(int)
    admitted = []
    for role in roles:
        covered = {name for group in spec["resourceGroups"] for name in group["coveredResources"]}
        requests = {n: a * len(role.pods) for n, a in role.needs.requests.items()}
        if lacking := [n for n, a in requests.items() if a and n not in covered and n != "pods"]:
            reason = f"the ClusterQueue {name} has no quota for {lacking[0]}"
            return QueueAnswer(tuple(roles), "over-quota", reason)
        needs = role.needs
        for group in spec["resourceGroups"]:
            own = {n: a for n, a in requests.items() if n in group["coveredResources"]}
            tried = [flavor["name"] for flavor in group["flavors"]]
            keys = {k for f in tried for k in flavors.get(f, {}).get("nodeLabels") or ()}
            open_to = [f for f in tried if f in flavors and _goes(needs, flavors[f], keys)]
            fits = [
                f
                for f in open_to
                if all(taken[f, n] + a <= tree.available(name, (f, n)) for n, a in own.items())
            ]
            if own and not fits:
                return _refused(tree, name, roles, open_to, own, taken)
            if not own:
                continue
            chosen = flavors[fits[0]]
            if chosen.get("topologyName"):
                reason = f"the flavor {fits[0]} places Pods by a topology of Kueue"
                return QueueAnswer(tuple(roles), "unknown", reason)
            for resource, amount in own.items():
                taken[fits[0], resource] += amount
            needs = structs.replace(
                needs,
                selector=(*needs.selector, *equal(chosen.get("nodeLabels") or {})),
                tolerations=(*needs.tolerations, *(chosen.get("tolerations") or ())),
            )
        admitted.append(structs.replace(role, needs=needs))
    return QueueAnswer(tuple(admitted))


def _refused(
    tree: "_Tree",
    name: str,
    roles: Sequence[Role],
    open_to: Sequence[str],
    own: Mapping[str, int],
    taken: Mapping[_Flavored, int],
) -> QueueAnswer:
    """Why no flavor has quota: never, or not now."""
    if not open_to:
        reason = f"no flavor of the ClusterQueue {name} matches its node selector and tolerations"
        return QueueAnswer(tuple(roles), "over-quota", reason)

    def short(*, idle: bool) -> list[str]:
        """Of each flavor the first resource of which there is too little."""
        texts = []
        for flavor in open_to:
            for resource, amount in own.items():
                has = tree.available(name, (flavor, resource), idle=idle)
                wanted = amount + taken.get((flavor, resource), 0)
                if wanted > has:
                    asks, left = (
                        quantities({resource: max(v, 0)}).get(resource, "0") for v in (wanted, has)
                    )
                    texts.append(f"{resource}: {asks} of the flavor {flavor}, which has {left}")
                    break
        return texts

    if len(never := short(idle=True)) == len(open_to):
        return QueueAnswer(
            tuple(roles), "over-quota", f"the ClusterQueue {name} never has {never[0]}"
        )
    reason = f"the ClusterQueue {name} does not have {short(idle=False)[0]} left"
    return QueueAnswer(tuple(roles), "queue-full", reason)


def _goes(needs: Needs, flavor: Mapping[str, Any], keys: Collection[str]) -> bool:
    """Whether Pods may go to nodes of a flavor, by the labels that the group's flavors have."""
    labels = flavor.get("nodeLabels") or {}
    tolerations = (*needs.tolerations, *(flavor.get("tolerations") or ()))
    terms = [tuple(e for e in term if e[0] in keys) for term in needs.node_terms or ()]
    return (
        all(
            tolerates(tolerations, (t["key"], t.get("value") or "", t["effect"]))
            for t in flavor.get("nodeTaints") or ()
            if t["effect"] != "PreferNoSchedule"
        )
        and matches([e for e in needs.selector if e[0] in keys], labels)
        and (not all(terms) or not terms or any(matches(term, labels) for term in terms))
    )


class _Tree:
    """The quotas of ClusterQueues and cohorts, and what is reserved of them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._quotas: dict[str, dict[_Flavored, tuple[int, int | None, int | None]]] = {}
        self._parents: dict[str, str] = {}
        self._children: dict[str, list[str]] = defaultdict(list)
        self._used: dict[tuple[str, _Flavored], int] = {}
        for prefix, kind in (("", "clusterQueues"), ("cohort/", "cohorts")):
            for value in snapshot.extras.get(kind, ()):
                name, spec = prefix + value["metadata"]["name"], value.get("spec") or {}
                self._quotas[name] = dict(_quotas(spec))
                parents = (spec.get(f) for f in ("cohortName", "cohort", "parentName", "parent"))
                if parent := next(filter(None, parents), None):
                    self._parents[name] = f"cohort/{parent}"
                    self._children[f"cohort/{parent}"].append(name)
                for flavor in (value.get("status") or {}).get("flavorsReservation") or ():
                    for resource in flavor.get("resources") or ():
                        amount = units_of({resource["name"]: resource.get("total") or 0})
                        key = flavor["name"], resource["name"]
                        self._used[name, key] = amount[resource["name"]]

    def available(self, name: str, key: _Flavored, *, idle: bool = False) -> int:
        """How much a queue may still take, with what it may borrow; `idle`: if nothing ran."""
        local, used = self._local(name, key), 0 if idle else self._usage(name, key)
        whole = self._subtree(name, key)
        if name not in self._parents:
            return whole - used
        above = self.available(self._parents[name], key, idle=idle)
        _, borrowing, _ = self._quotas.get(name, {}).get(key, (0, None, None))
        if borrowing is not None:
            above = min(above, whole - local - max(0, used - local) + borrowing)
        return max(0, local - used) + above

    def _subtree(self, name: str, key: _Flavored) -> int:
        children = self._children.get(name, ())
        nominal = self._quotas.get(name, {}).get(key, (0, None, None))[0]
        return nominal + sum(self._subtree(c, key) - self._local(c, key) for c in children)

    def _local(self, name: str, key: _Flavored) -> int:
        """What is never lent to others."""
        lending = self._quotas.get(name, {}).get(key, (0, None, None))[2]
        return 0 if lending is None else max(0, self._subtree(name, key) - lending)

    def _usage(self, name: str, key: _Flavored) -> int:
        children = self._children.get(name, ())
        own = self._used.get((name, key), 0)
        return own + sum(max(0, self._usage(c, key) - self._local(c, key)) for c in children)


def _quotas(
    spec: Mapping[str, Any],
) -> Iterator[tuple[_Flavored, tuple[int, int | None, int | None]]]:
    """By flavor and resource: nominal quota, borrowing limit, lending limit."""
    for group in spec.get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                name = resource["name"]
                nominal, borrowing, lending = (
                    None if resource.get(f) is None else units_of({name: resource[f]})[name]
                    for f in ("nominalQuota", "borrowingLimit", "lendingLimit")
                )
                yield (flavor["name"], name), (nominal or 0, borrowing, lending)


def _key(value: Object) -> tuple[str, str]:
    return value["metadata"].get("namespace") or "", value["metadata"]["name"]


def _amounts(texts: Mapping[str, Any] | None) -> dict[str, Decimal]:
    return {name: number(text) or Decimal(0) for name, text in (texts or {}).items()}
