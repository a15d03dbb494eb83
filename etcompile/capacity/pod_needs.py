"""Pods to what the scheduler asks of a node for them.

Pods of a job are alike for the scheduler: a thousand workers are one `Needs` and a thousand names.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, structs

from etcompile.k8s.objects import Object
from etcompile.k8s.requests import Amounts, requested

HOSTNAME = "kubernetes.io/hostname"
NODE_NAME = "metadata.name"
"""The field that `matchFields` of a node affinity may name; it counts as a label here."""
DURING_SCHEDULING = "requiredDuringSchedulingIgnoredDuringExecution"

Port = tuple[str, str, int]
"""Protocol, address and number of a port of the host."""
Taint = tuple[str, str, str]
"""Key, value and effect."""
Expression = tuple[str, str, tuple[str, ...]]
"""Key, operator and values of one requirement of a selector."""


class Term(NamedTuple):
    """The Pods that a selector matches (None: no Pod) in the domain of a label of nodes."""

    key: str
    selector: tuple[Expression, ...] | None


class Spread(NamedTuple):
    """A topology spread constraint that the scheduler must satisfy."""

    term: Term
    most: int
    least_domains: int
    by_affinity: bool
    by_taints: bool


class Needs(Struct, frozen=True):
    """What the scheduler asks of a node for a Pod: requests with `pods: 1`, and rules.

    Of `node_terms` one must match, unless they are None. `labels` are the Pod's own.
    """

    requests: Mapping[str, int]
    ports: frozenset[Port]
    selector: tuple[Expression, ...]
    node_terms: tuple[tuple[Expression, ...], ...] | None
    tolerations: tuple[Mapping[str, Any], ...]
    spreads: tuple[Spread, ...]
    affinity: tuple[Term, ...]
    anti_affinity: tuple[Term, ...]
    labels: Mapping[str, str]
    namespace: str

    @property
    def terms(self) -> tuple[Term, ...]:
        """All terms that select Pods."""
        return (*(spread.term for spread in self.spreads), *self.affinity, *self.anti_affinity)

    def is_affine(self, labels: Mapping[str, str]) -> bool:
        """Whether its node selector and node affinity match the labels of a node."""
        terms = ((),) if self.node_terms is None else self.node_terms
        return matches(self.selector, labels) and any(matches(term, labels) for term in terms)

    def untolerated(self, taints: Iterable[Taint]) -> Taint | None:
        """The first taint that keeps the Pod away."""
        for taint in taints:
            key, value, effect = taint
            if effect != "PreferNoSchedule" and not any(
                own.get("effect") in (None, "", effect)
                and (not own.get("key") or own["key"] == key)
                and (own.get("operator") == "Exists" or (own.get("value") or "") == value)
                for own in self.tolerations
            ):
                return taint
        return None


class Role(NamedTuple):
    """Pods that are alike for the scheduler, by name, in the order of their creation."""

    needs: Needs
    pods: tuple[str, ...]


def units(amounts: Amounts) -> dict[str, int]:
    """Amounts as the scheduler counts them: rounded up to thousandths of a CPU or whole units."""
    return {n: int(-(-(a * 1000 if n == "cpu" else a) // 1)) for n, a in amounts.items()}


def taint_of(written: Mapping[str, Any]) -> Taint:
    """A taint as nodes and flavors of Kueue declare it."""
    return written["key"], written.get("value") or "", written["effect"]


def ports_of(spec: Mapping[str, Any]) -> frozenset[Port]:
    """The ports of the host that a Pod takes."""
    starting = spec.get("initContainers") or ()
    sidecars = [each for each in starting if each.get("restartPolicy") == "Always"]
    ports = [p for c in (*spec["containers"], *sidecars) for p in c.get("ports") or ()]
    numbers = [p.get("hostPort") or (spec.get("hostNetwork") and p["containerPort"]) for p in ports]
    return frozenset(
        (port.get("protocol") or "TCP", port.get("hostIP") or "", number)
        for port, number in zip(ports, numbers, strict=True)
        if number
    )


def collide(ports: frozenset[Port], taken: frozenset[Port]) -> bool:
    """Whether one of some ports of the host is taken already."""
    every = ("", "0.0.0.0")  # noqa: S104 - nothing is bound here
    return any(
        (protocol, number) == (other[0], other[2])
        and (address == other[1] or address in every or other[1] in every)
        for protocol, address, number in ports
        for other in taken
    )


def needs_of(pod: Object) -> Needs:
    """What the scheduler asks of a node for a Pod."""
    spec, metadata = pod["spec"], pod["metadata"]
    labels, namespace = metadata.get("labels") or {}, metadata.get("namespace") or ""
    affinity = spec.get("affinity") or {}
    required = (affinity.get("nodeAffinity") or {}).get(DURING_SCHEDULING)
    # A term without requirements matches no node.
    node_terms = [
        tuple(map(_expression, (*(t.get("matchExpressions") or ()), *(t.get("matchFields") or ()))))
        or ((NODE_NAME, "In", ()),)
        for t in (required or {}).get("nodeSelectorTerms") or ()
    ]
    return Needs(
        requests={**units(requested(spec)), "pods": 1},
        ports=ports_of(spec),
        selector=equal(spec.get("nodeSelector") or {}),
        node_terms=None if required is None else tuple(node_terms),
        tolerations=tuple(spec.get("tolerations") or ()),
        spreads=tuple(
            Spread(
                Term(written["topologyKey"], selector_of(written, labels)),
                most=written["maxSkew"],
                least_domains=written.get("minDomains") or 1,
                by_affinity=written.get("nodeAffinityPolicy") != "Ignore",
                by_taints=written.get("nodeTaintsPolicy") == "Honor",
            )
            for written in spec.get("topologySpreadConstraints") or ()
            if written.get("whenUnsatisfiable") != "ScheduleAnyway"
        ),
        affinity=_terms(affinity.get("podAffinity"), labels, namespace),
        anti_affinity=_terms(affinity.get("podAntiAffinity"), labels, namespace),
        labels=labels,
        namespace=namespace,
    )


def roles_of(pods: Sequence[Object]) -> list[Role]:
    """Pods in groups that are alike for the scheduler, in the order of their first Pods."""
    needs = [needs_of(pod) for pod in pods]
    terms = sorted({term for need in needs for term in need.terms}, key=repr)
    groups: dict[str, tuple[Needs, list[str]]] = {}
    for pod, need in zip(pods, needs, strict=True):
        # Of its labels it matters which terms select them.
        seen = {str(n): "" for n, term in enumerate(terms) if matches(term.selector, need.labels)}
        key = repr(structs.replace(need, labels=seen))
        groups.setdefault(key, (need, []))[1].append(pod["metadata"]["name"])
    return [Role(need, tuple(names)) for need, names in groups.values()]


def _terms(written: Any, labels: Mapping[str, str], namespace: str) -> tuple[Term, ...]:
    """The required terms of a Pod affinity or anti-affinity, where they reach its own namespace."""
    result = []
    for term in (written or {}).get(DURING_SCHEDULING) or ():
        reaches = namespace in (term.get("namespaces") or (namespace,))
        reaches = reaches or term.get("namespaceSelector") == {}
        result.append(Term(term["topologyKey"], selector_of(term, labels) if reaches else None))
    return tuple(result)


def selector_of(
    written: Mapping[str, Any], labels: Mapping[str, str]
) -> tuple[Expression, ...] | None:
    """The selector of a term, with what its `matchLabelKeys` add from the Pod's own labels."""
    if (selector := written.get("labelSelector")) is None:
        return None
    result = [*equal(selector.get("matchLabels") or {})]
    result += map(_expression, selector.get("matchExpressions") or ())
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        own = (key for key in written.get(field) or () if key in labels)
        result += [(key, operator, (labels[key],)) for key in own]
    return tuple(result)


def matches(selector: Iterable[Expression] | None, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy all requirements of a selector of Pods or nodes; None matches none."""
    return selector is not None and all(_satisfies(labels.get(e[0]), e[1], e[2]) for e in selector)


def _satisfies(value: str | None, operator: str, values: Sequence[str]) -> bool:
    if operator in ("In", "NotIn"):
        return (value in values) == (operator == "In")
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    try:
        own, bound = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return own > bound if operator == "Gt" else own < bound


def _expression(written: Mapping[str, Any]) -> Expression:
    return written["key"], written["operator"], tuple(written.get("values") or ())


def equal(labels: Mapping[str, Any]) -> tuple[Expression, ...]:
    """Labels as requirements of a selector."""
    return tuple((key, "In", (str(value),)) for key, value in sorted(labels.items()))
