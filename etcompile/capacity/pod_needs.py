"""Pods to what the scheduler asks of a node for them, after what the API server adds to them.

Pods of a job are alike for the scheduler: a thousand workers are one `Role`.
What a snapshot cannot tell is left out of them, and goes to `unknown`, so that what does not fit by
the rest does not fit at all.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, structs

from etcompile.capacity.snapshot import (
    DURING_SCHEDULING,
    HOSTNAME,
    Port,
    Snapshot,
    Taint,
    ports_of,
    units_of,
)
from etcompile.k8s.objects import Object
from etcompile.k8s.requests import requested
from etcompile.model.protocol import ROLE_LABEL

Expression = tuple[str, str, tuple[str, ...]]
"""Key, operator and values of one requirement of a selector."""
_FIELDS = {"topologyKey", "labelSelector", "maxSkew", "whenUnsatisfiable"}
Unknown = dict[str, None]
"""Reasons, in their order and each of them once."""


class Rule(NamedTuple):
    """A rule about the Pods that a selector matches in the domain of a label of nodes."""

    kind: str  # `spread`, `together`, or `apart`, where each node is a domain
    key: str
    selector: tuple[Expression, ...]
    most: int = 0  # the maximal skew of `spread`


class Needs(Struct, frozen=True):
    """What the scheduler asks of a node for a Pod: requests with `pods: 1`, and rules.

    Of `node_terms` one must match. `labels` are the Pod's own.
    """

    requests: Mapping[str, int]
    ports: frozenset[Port]
    node_terms: tuple[tuple[Expression, ...], ...]
    tolerations: tuple[Mapping[str, Any], ...]
    rules: tuple[Rule, ...]
    labels: Mapping[str, str]

    def is_affine(self, labels: Mapping[str, str]) -> bool:
        """Whether its node selector and node affinity match the labels of a node."""
        return any(matches(term, labels) for term in self.node_terms)

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
    """Pods that are alike for the scheduler."""

    needs: Needs
    title: str
    number: int


def admitted(snapshot: Snapshot, pod: Object, unknown: Unknown) -> Object:
    """A Pod with what the plugins Priority and RuntimeClass add to it."""
    classes, spec = snapshot.of_kind("PriorityClass"), dict(pod["spec"])
    default = next((each["value"] for each in classes.values() if each.get("globalDefault")), 0)
    if (name := spec.get("priorityClassName")) and name not in classes:
        unknown[f"the snapshot has no PriorityClass {name}"] = None
    spec["priority"] = classes.get(name or "", {"value": spec.get("priority", default)})["value"]
    if name := spec.get("runtimeClassName"):
        if (runtime := snapshot.of_kind("RuntimeClass").get(name)) is None:
            unknown[f"the snapshot has no RuntimeClass {name}"] = None
        own = (runtime or {}).get("scheduling") or {}
        spec["nodeSelector"] = (spec.get("nodeSelector") or {}) | (own.get("nodeSelector") or {})
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *(own.get("tolerations") or ())]
        spec["overhead"] = ((runtime or {}).get("overhead") or {}).get("podFixed") or {}
    return {**pod, "spec": spec}


def roles_of(
    snapshot: Snapshot, pods: Sequence[Object], jobs: Collection[str], unknown: Unknown
) -> list[Role]:
    """Pods in groups that are alike for the scheduler, in the order of their first Pods.

    Args:
        jobs: These jobs, `namespace/name`: a rule that names their Pods is not about others.
    """
    needs = [_needs(snapshot, pod, jobs, unknown) for pod in pods]
    rules = sorted({rule for need in needs for rule in need.rules})
    groups: dict[str, Role] = {}
    for pod, need in zip(pods, needs, strict=True):
        # Of its labels it matters which rules select them.
        seen = {str(n): "" for n, rule in enumerate(rules) if matches(rule.selector, need.labels)}
        key = repr(structs.replace(need, labels=seen))
        title = need.labels.get(ROLE_LABEL) or pod["metadata"]["name"]
        role = groups.get(key, Role(need, title, 0))
        groups[key] = role._replace(number=role.number + 1)
    return [*groups.values()]


def _needs(snapshot: Snapshot, pod: Object, jobs: Collection[str], unknown: Unknown) -> Needs:
    spec, metadata = pod["spec"], pod["metadata"]
    labels, affinity = metadata.get("labels") or {}, spec.get("affinity") or {}
    namespace = metadata.get("namespace") or ""
    unknown |= dict.fromkeys(_undecidable(snapshot, spec, namespace))
    required = (affinity.get("nodeAffinity") or {}).get(DURING_SCHEDULING)
    written = [{}] if required is None else required["nodeSelectorTerms"]
    node_terms, selected = [], equal(spec.get("nodeSelector") or {})
    for term in written:
        expressions = [*selected, *map(_expression, term.get("matchExpressions") or ())]
        hidden = [e for e in expressions if e[0] in snapshot.unique_labels and "In" in e[1]]
        if hidden or term.get("matchFields"):
            name = hidden[0][0] if hidden else "the names of nodes"
            unknown[f"the snapshot leaves out {name}, which its node selector names"] = None
        # A term without requirements matches no node.
        if term or required is None:
            node_terms.append(tuple(e for e in expressions if e not in hidden))
    keys = {*snapshot.pod_labels.get(namespace, ())}
    names = {job.partition("/")[2] for job in jobs}
    rules = []
    for rule, unclear in _rules(spec):
        # Whether it can match only Pods of the job itself.
        is_own = any(
            operator in ("In", "Exists") and (key not in keys or (values and names >= {*values}))
            for key, operator, values in rule.selector
        )
        if unclear:
            unknown[f"{unclear} is not looked at here"] = None
        elif is_own:
            rules.append(rule)
        else:
            unknown["its rules may be about Pods of others, whose labels are not known"] = None
    for own in snapshot.anti_affinity:
        reaches = own["namespace"] == namespace or own["term"].keys() - _FIELDS
        selector = selector_of(own["term"])
        if own["job"] not in jobs and reaches and matches(selector, labels):
            unknown["the anti-affinity of Pods that run keeps it away from them"] = None
    requests = {**units_of(requested(spec)), "pods": 1}
    tolerations = tuple(spec.get("tolerations") or ())
    return Needs(requests, ports_of(spec), tuple(node_terms), tolerations, tuple(rules), labels)


def _undecidable(snapshot: Snapshot, spec: Object, namespace: str) -> Iterator[str]:
    """What decides about a Pod that no snapshot holds."""
    if (scheduler := spec.get("schedulerName") or "default-scheduler") != "default-scheduler":
        yield f"{scheduler} schedules it, by rules of its own"
    for volume in spec.get("volumes") or ():
        if "ephemeral" in volume or "persistentVolumeClaim" in volume:
            yield f"on which nodes the volume {volume['name']} can be is not known"
    if spec.get("resourceClaims"):
        yield "which nodes have devices for its resource claims is not known"
    limited = {key.partition("/")[0] for key in snapshot.of_kind("LimitRange")}
    if namespace in limited:
        yield "the LimitRange of its namespace may change or refuse its Pods"
    if not namespace and (limited or snapshot.of_kind("ResourceQuota")):
        yield "the job names no namespace, so its quotas are not known"
    if spec.get("nodeName"):
        yield "it names its node, so the scheduler does not place it"


def _rules(spec: Object) -> Iterator[tuple[Rule, str]]:
    """The rules about other Pods, each with what it has that no rule holds."""
    for written in spec.get("topologySpreadConstraints") or ():
        selector = selector_of(written)
        # An empty selector counts no Pods: countPodsMatchSelector in the plugin's common.go.
        if written.get("whenUnsatisfiable") != "ScheduleAnyway" and selector:
            rule = Rule("spread", written["topologyKey"], selector, written["maxSkew"])
            yield rule, " and ".join(sorted(written.keys() - _FIELDS))
    for kind, field in (("together", "podAffinity"), ("apart", "podAntiAffinity")):
        terms = (spec.get("affinity") or {}).get(field) or {}
        for term in terms.get(DURING_SCHEDULING) or ():
            rule = Rule(kind, term["topologyKey"], selector_of(term))
            unclear = " and ".join(sorted(term.keys() - _FIELDS))
            if kind == "apart" and rule.key != HOSTNAME:
                unclear = f"its anti-affinity by {rule.key}"
            yield rule, unclear


def selector_of(written: Mapping[str, Any]) -> tuple[Expression, ...]:
    """The selector of a rule about Pods; one that matches none if it has none."""
    if (selector := written.get("labelSelector")) is None:
        return (("", "In", ()),)
    expressions = map(_expression, selector.get("matchExpressions") or ())
    return (*equal(selector.get("matchLabels") or {}), *expressions)


def matches(selector: Iterable[Expression], labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy all requirements of a selector of Pods or nodes."""
    for key, operator, values in selector:
        value = labels.get(key)
        if operator in ("In", "NotIn"):
            holds = (value in values) == (operator == "In")
        elif operator in ("Exists", "DoesNotExist"):
            holds = (value is not None) == (operator == "Exists")
        else:
            try:
                own, bound = int(value or ""), int(values[0])
            except (ValueError, IndexError):
                return False
            holds = own > bound if operator == "Gt" else own < bound
        if not holds:
            return False
    return True


def _expression(written: Mapping[str, Any]) -> Expression:
    return written["key"], written["operator"], tuple(written.get("values") or ())


def equal(labels: Mapping[str, Any]) -> tuple[Expression, ...]:
    """Labels as requirements of a selector."""
    return tuple((key, "In", (str(value),)) for key, value in sorted(labels.items()))
