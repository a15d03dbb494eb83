"""Compute what the scheduler requires of a node for Pods, with what the API server adds to them.

Equal Pods are one `Role` for the scheduler, even a thousand workers. What a snapshot cannot answer
is left out and goes to `unknown`, so a Pod that does not fit by the rest does not fit at all.
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
"""Reasons, in their order and without repetition."""


class Rule(NamedTuple):
    """A rule about the Pods that a selector matches in the domain of a label of nodes."""

    kind: str  # `spread`, `together`, or `apart`, where each node is a domain
    key: str
    selector: tuple[Expression, ...]
    most: int = 0  # the maximal skew of `spread`


class Needs(Struct, frozen=True):
    """What the scheduler requires of a node for a Pod."""

    requests: Mapping[str, int]  # with `pods: 1`
    ports: frozenset[Port]
    node_terms: tuple[tuple[Expression, ...], ...]  # one of them must match
    tolerations: tuple[Mapping[str, Any], ...]
    rules: tuple[Rule, ...]
    labels: Mapping[str, str]

    def is_affine(self, labels: Mapping[str, str]) -> bool:
        return any(matches(term, labels) for term in self.node_terms)

    def untolerated(self, taints: Iterable[Taint]) -> Taint | None:
        for taint in taints:
            key, value, effect = taint
            if effect != "PreferNoSchedule" and not any(
                toleration.get("effect") in (None, "", effect)
                and (not toleration.get("key") or toleration["key"] == key)
                and (
                    toleration.get("operator") == "Exists"
                    or (toleration.get("value") or "") == value
                )
                for toleration in self.tolerations
            ):
                return taint
        return None


class Role(NamedTuple):
    """Pods that are equal for the scheduler."""

    needs: Needs
    title: str
    number: int


def admitted(snapshot: Snapshot, pod: Object, unknown: Unknown) -> Object:
    """Return a Pod with what the plugins Priority and RuntimeClass add to it."""
    classes, spec = snapshot.of_kind("PriorityClass"), dict(pod["spec"])
    default = next((each["value"] for each in classes.values() if each.get("globalDefault")), 0)
    if (name := spec.get("priorityClassName")) and name not in classes:
        unknown[f"the snapshot has no PriorityClass {name}"] = None
    spec["priority"] = classes.get(name or "", {"value": spec.get("priority", default)})["value"]
    if name := spec.get("runtimeClassName"):
        if (runtime := snapshot.of_kind("RuntimeClass").get(name)) is None:
            unknown[f"the snapshot has no RuntimeClass {name}"] = None
        added = (runtime or {}).get("scheduling") or {}
        spec["nodeSelector"] = (spec.get("nodeSelector") or {}) | (added.get("nodeSelector") or {})
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *(added.get("tolerations") or ())]
        spec["overhead"] = ((runtime or {}).get("overhead") or {}).get("podFixed") or {}
    return {**pod, "spec": spec}


def roles_of(
    snapshot: Snapshot, pods: Sequence[Object], jobs: Collection[str], unknown: Unknown
) -> list[Role]:
    """Group Pods that are equal for the scheduler, in the order of their first Pods.

    Args:
        jobs: Jobs, `namespace/name`: a rule that selects their Pods concerns no others.
    """
    needs = [_needs(snapshot, pod, jobs, unknown) for pod in pods]
    rules = sorted({rule for need in needs for rule in need.rules})
    groups: dict[str, Role] = {}
    for pod, need in zip(pods, needs, strict=True):
        # Labels differ only if rules select them differently.
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
        # Whether the rule can match only Pods of the job itself.
        is_internal = any(
            operator in ("In", "Exists") and (key not in keys or (values and names >= {*values}))
            for key, operator, values in rule.selector
        )
        if unclear:
            unknown[f"{unclear} is not looked at here"] = None
        elif is_internal:
            rules.append(rule)
        else:
            unknown["its rules may be about Pods of others, whose labels are not known"] = None
    for running in snapshot.anti_affinity:
        reaches = running["namespace"] == namespace or running["term"].keys() - _FIELDS
        selector = selector_of(running["term"])
        if running["job"] not in jobs and reaches and matches(selector, labels):
            unknown["the anti-affinity of Pods that run keeps it away from them"] = None
    requests = {**units_of(requested(spec)), "pods": 1}
    tolerations = tuple(spec.get("tolerations") or ())
    return Needs(requests, ports_of(spec), tuple(node_terms), tolerations, tuple(rules), labels)


def _undecidable(snapshot: Snapshot, spec: Object, namespace: str) -> Iterator[str]:
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
    """Yield the rules about other Pods, each with the fields that `Rule` cannot express."""
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
    if (selector := written.get("labelSelector")) is None:
        return (("", "In", ()),)
    expressions = map(_expression, selector.get("matchExpressions") or ())
    return (*equal(selector.get("matchLabels") or {}), *expressions)


def matches(selector: Iterable[Expression], labels: Mapping[str, str]) -> bool:
    for key, operator, values in selector:
        value = labels.get(key)
        if operator in ("In", "NotIn"):
            holds = (value in values) == (operator == "In")
        elif operator in ("Exists", "DoesNotExist"):
            holds = (value is not None) == (operator == "Exists")
        else:
            try:
                number, bound = int(value or ""), int(values[0])
            except (ValueError, IndexError):
                return False
            holds = number > bound if operator == "Gt" else number < bound
        if not holds:
            return False
    return True


def _expression(written: Mapping[str, Any]) -> Expression:
    return written["key"], written["operator"], tuple(written.get("values") or ())


def equal(labels: Mapping[str, Any]) -> tuple[Expression, ...]:
    return tuple((key, "In", (str(value),)) for key, value in sorted(labels.items()))
