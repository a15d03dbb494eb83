"""Pods to what the scheduler asks of a node for them.

Pods of a job are alike for the scheduler: a thousand workers are one `Needs` and a number.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile.k8s.objects import Object
from etcompile.k8s.requests import Amounts, requested

HOSTNAME = "kubernetes.io/hostname"
NODE_NAME = "metadata.name"
"""The field that `matchFields` of a node affinity may name; it counts as a label here."""

Units = dict[str, int]
"""Amounts by resource, as the scheduler counts: thousandths of a CPU, else whole units."""
Port = tuple[str, str, int]
"""Protocol, address and number of a port of the host."""
Expression = tuple[str, str, tuple[str, ...]]
"""Key, operator and values of one requirement of a selector."""


class Term(Struct, frozen=True):
    """Pods in one domain of a topology: those that a selector matches.

    Args:
        key: The label of nodes whose value is the domain.
        selector: Requirements that all hold; None matches no Pod.
    """

    key: str
    selector: tuple[Expression, ...] | None


class Spread(Struct, frozen=True):
    """A topology spread constraint that the scheduler must satisfy."""

    term: Term
    most: int
    least_domains: int
    by_affinity: bool
    by_taints: bool


class Needs(Struct, frozen=True):
    """What the scheduler asks of a node for a Pod.

    Args:
        requests: The effective request, with `pods: 1`.
        selector: The node selector.
        node_terms: Required terms of the node affinity, of which one must match; None for any node.
        tolerations: As the Pod has them.
    """

    requests: Mapping[str, int]
    ports: frozenset[Port] = frozenset()
    selector: tuple[Expression, ...] = ()
    node_terms: tuple[tuple[Expression, ...], ...] | None = None
    tolerations: tuple[Mapping[str, Any], ...] = ()
    spreads: tuple[Spread, ...] = ()
    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    labels: Mapping[str, str] = {}
    namespace: str = ""

    @property
    def terms(self) -> Iterable[Term]:
        """All terms that select Pods."""
        return (*(spread.term for spread in self.spreads), *self.affinity, *self.anti_affinity)


class Role(Struct, frozen=True):
    """Pods that are alike for the scheduler, in the order of their creation.

    Args:
        needs: What each of them needs.
        pods: Their names.
    """

    needs: Needs
    pods: tuple[str, ...]


def units(amounts: Amounts) -> Units:
    """Amounts as the scheduler counts them: rounded up to thousandths of a CPU or whole units."""
    scaled = {name: value * 1000 if name == "cpu" else value for name, value in amounts.items()}
    return {name: int(-(-value // 1)) for name, value in scaled.items()}


def ports_of(spec: Mapping[str, Any]) -> frozenset[Port]:
    """The ports of the host that a Pod takes."""
    sidecars = (
        container
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    )
    result = set()
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (spec.get("hostNetwork") and port["containerPort"])
            if number:
                address = port.get("hostIP") or "0.0.0.0"  # noqa: S104 - not bound here
                result.add((port.get("protocol") or "TCP", address, number))
    return frozenset(result)


def needs_of(pod: Object) -> Needs:
    """What the scheduler asks of a node for a Pod."""
    spec, metadata = pod["spec"], pod["metadata"]
    labels = metadata.get("labels") or {}
    affinity = spec.get("affinity") or {}
    required = (affinity.get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    own = metadata.get("namespace")
    return Needs(
        requests={**units(requested(spec)), "pods": 1},
        ports=ports_of(spec),
        selector=equal(spec.get("nodeSelector") or {}),
        node_terms=None if required is None else tuple(map(_node_term, _list(required))),
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
            if written.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
        ),
        affinity=terms_of(affinity.get("podAffinity"), labels, own),
        anti_affinity=terms_of(affinity.get("podAntiAffinity"), labels, own),
        labels=labels,
        namespace=own or "",
    )


def roles_of(pods: Sequence[Object]) -> list[Role]:
    """Pods in groups that are alike for the scheduler, in the order of their first Pods."""
    keys = [
        json.dumps([_relevant(pod["spec"]), pod["metadata"].get("namespace")], sort_keys=True)
        for pod in pods
    ]
    needs: dict[str, Needs] = {}
    for key, pod in zip(keys, pods, strict=True):
        needs.setdefault(key, needs_of(pod))
    terms = {term for need in needs.values() for term in need.terms}
    if terms or any(need.spreads for need in needs.values()):
        # Then it matters which labels a Pod has.
        labels = [pod["metadata"].get("labels") or {} for pod in pods]
        for index, (key, pod) in enumerate(zip(keys, pods, strict=True)):
            own = needs_of(pod)
            seen = sorted(str(term) for term in terms if matches(term.selector, labels[index]))
            keys[index] = json.dumps([key, seen, sorted(map(str, own.terms))])
            needs.setdefault(keys[index], own)
    names: dict[str, list[str]] = {}
    for key, pod in zip(keys, pods, strict=True):
        names.setdefault(key, []).append(pod["metadata"]["name"])
    return [Role(needs[key], tuple(each)) for key, each in names.items()]


def _relevant(spec: Mapping[str, Any]) -> Any:
    """The fields of a PodSpec that the scheduler reads."""
    containers = [
        [container.get(field) for field in ("resources", "ports", "restartPolicy")]
        for kind in ("initContainers", "containers")
        for container in (*(spec.get(kind) or ()), {})
    ]
    fields = ("resources", "overhead", "nodeSelector", "affinity", "tolerations", "hostNetwork")
    return containers, spec.get("topologySpreadConstraints"), [spec.get(field) for field in fields]


def terms_of(written: Any, labels: Mapping[str, str], own: str | None) -> tuple[Term, ...]:
    """The required terms of a Pod affinity or anti-affinity that reach Pods of its namespace."""
    result = []
    for term in (written or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ():
        namespaces = term.get("namespaces") or ()
        selector = selector_of(term, labels)
        # Which namespaces a selector matches is not known here, but for the one that matches all.
        if namespaces and own not in namespaces and not term.get("namespaceSelector"):
            selector = None
        result.append(Term(term["topologyKey"], selector))
    return tuple(result)


def selector_of(
    written: Mapping[str, Any], labels: Mapping[str, str]
) -> tuple[Expression, ...] | None:
    """The selector of a term, with what its `matchLabelKeys` add from the Pod's own labels."""
    selector = written.get("labelSelector")
    if selector is None:
        return None
    keys = {
        operator: [key for key in written.get(field) or () if key in labels]
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
    }
    return (
        *equal(selector.get("matchLabels") or {}),
        *map(_expression, selector.get("matchExpressions") or ()),
        *((key, operator, (labels[key],)) for operator, own in keys.items() for key in own),
    )


def matches(selector: Iterable[Expression] | None, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy all requirements of a selector of Pods or nodes."""
    if selector is None:
        return False
    for key, operator, values in selector:
        value = labels.get(key)
        match operator:
            case "In":
                ok = value in values
            case "NotIn":
                ok = value not in values
            case "Exists":
                ok = value is not None
            case "DoesNotExist":
                ok = value is None
            case _:
                ok = _compares(operator, value, values)
        if not ok:
            return False
    return True


def _compares(operator: str, value: str | None, values: Sequence[str]) -> bool:
    """Whether a label is above (`Gt`) or below (`Lt`) a number."""
    try:
        own, bound = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return own > bound if operator == "Gt" else own < bound


def tolerates(tolerations: Iterable[Mapping[str, Any]], taint: tuple[str, str, str]) -> bool:
    """Whether a taint (key, value, effect) keeps no Pod with these tolerations away."""
    key, value, effect = taint
    return any(
        toleration.get("effect") in (None, "", effect)
        and (not toleration.get("key") or toleration["key"] == key)
        and (toleration.get("operator") == "Exists" or (toleration.get("value") or "") == value)
        for toleration in tolerations
    )


def _list(required: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return required.get("nodeSelectorTerms") or ()


def _node_term(term: Mapping[str, Any]) -> tuple[Expression, ...]:
    """A term of a node affinity; one without requirements matches no node."""
    written = (*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ()))
    return tuple(map(_expression, written)) or ((NODE_NAME, "In", ()),)


def _expression(written: Mapping[str, Any]) -> Expression:
    return written["key"], written["operator"], tuple(written.get("values") or ())


def equal(labels: Mapping[str, Any]) -> tuple[Expression, ...]:
    """Labels as requirements of a selector."""
    return tuple((key, "In", (str(value),)) for key, value in sorted(labels.items()))
