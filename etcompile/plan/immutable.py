"""Which changes Kubernetes refuses on an object that exists, as a table.

A row is a field, what may become of it, and the name of the function in Kubernetes
(pkg/apis/*/validation) that says so. The rows of a kind are tried in order and the first that
names the field decides; a field that no row names may change. Only kinds that we make have rows:
what becomes of others the API server says when it is asked.
"""

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile.k8s.objects import Object
from etcompile.k8s.path import KeyedPath, keyed
from etcompile.model import quantity
from etcompile.plan.comparison import compared, encoded
from etcompile.plan.defaults import default
from etcompile.plan.places import ABSENT, Raw, value_at
from etcompile.plan.secrecy import masked


class Verdict(enum.Enum):
    """What becomes of a changed field."""

    ACCEPTED = "accepted"
    RESTARTS = "restarts"
    """Accepted, and the container starts anew in its place."""
    REFUSED = "refused"


_Judge = Callable[[Any, Any, Object, Object], bool]
"""Whether the API accepts a change, from the field's old and new value and both objects."""


class Row(Struct, frozen=True):
    """What may become of a field.

    Args:
        group: The API group.
        field: A path, such as `spec.containers[*].image`; the row is about all that is below it.
        accepts: Whether a change is accepted; None if none is.
        rule: The function of Kubernetes that decides it, and what it demands.
        restarts: An accepted change restarts a container.
        whole: The rule is about all that is in the field together.
    """

    group: str
    kind: str
    field: str
    accepts: _Judge | None
    rule: str
    restarts: bool = False
    whole: bool = False

    @property
    def steps(self) -> KeyedPath:
        """The path in steps."""
        return tuple(self.field.replace("[", ".[").split("."))

    def is_about(self, path: KeyedPath) -> bool:
        """Whether a field is the row's, or is below it."""
        return len(path) >= len(self.steps) and all(
            step in (own, "*") or (step == "[*]" and own.startswith("["))
            for step, own in zip(self.steps, path, strict=False)
        )


class Change(Struct, frozen=True):
    """A change that needs a decision.

    Args:
        verdict: Refused, or accepted with a restart.
        path: The field, in steps.
        old: Its value, or its default; None if it has none.
        new: What it is to be.
        secret: The values must not be shown.
        row: The row that decided.
    """

    verdict: Verdict
    path: KeyedPath
    old: Any
    new: Any
    secret: bool
    row: Row

    @property
    def field(self) -> str:
        """The path in one line: `spec.containers[main].command`."""
        return keyed(self.path)


def changes(old: Object, new: Object, places: Sequence[Raw] | None = None) -> list[Change]:
    """The changes of an object that are refused, or restart something.

    Args:
        old: The object as it was declared: JSON, without nulls, of a kind and with a name.
        new: The same object as it is declared now.
        places: Where they differ, if that is known.

    Returns:
        One change per field, in the order of the fields; a field that only one of the states
        has is one, whatever is inside it.
    """
    rows = ROWS.get((old["apiVersion"].rpartition("/")[0], old["kind"]), ())
    if old["kind"] == "Secret":
        old, new = encoded(old), encoded(new)
    if places is None:
        places = compared(new, old, None).places if rows else ()
    found: dict[tuple[KeyedPath, Verdict], Change] = {}
    for place in sorted(places, key=lambda place: place.path):
        for leaf in leaves(place):
            row = next((row for row in rows if row.is_about(leaf)), None)
            if row is None:
                continue
            field = leaf[: len(row.steps)]
            values = _value(old, field), _value(new, field)
            if row.accepts is None or not row.accepts(*values, old, new):
                verdict = Verdict.REFUSED
            elif row.restarts:
                verdict = Verdict.RESTARTS
            else:
                continue
            shown = field if row.whole and len(field) <= len(place.path) else place.path
            if shown[-1].startswith("[") and ABSENT in (place.before, place.after):
                shown = shown[:-1]  # the list has another item
            before, after = _value(old, shown), _value(new, shown)
            secret = any(
                value is not None and masked(old["kind"], shown, value) != value
                for value in (before, after)
            )
            change = Change(verdict, shown, before, after, secret, row)
            found.setdefault((shown, verdict), change)
    return list(found.values())


def leaves(place: Raw) -> Iterator[KeyedPath]:
    """The fields in a place: several where only one of the states has a mapping.

    Args:
        place: Where two states of an object differ.
    """
    value = place.after if place.before is ABSENT else place.before
    if isinstance(value, Mapping) and ABSENT in (place.before, place.after):
        yield from _below(place.path, value)
    else:
        yield place.path


def _below(path: KeyedPath, value: Any) -> Iterator[KeyedPath]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _below((*path, key), inner)
    else:
        yield path


def _value(of: Object, path: KeyedPath) -> Any:
    """The value of a field, or the default that the API server fills in."""
    around, found = value_at(of, path[:-1]), value_at(of, path)
    if found is not ABSENT:
        return found
    return default(of["kind"], path, around if isinstance(around, Mapping) else {})


# What a row accepts ----------------------------------------------------------------------------


def _changed(old: Any, new: Any, _before: Object, _after: Object) -> bool:
    """Not one that comes or goes with its container."""
    return bool(old and new)


def _only_added(old: Any, new: Any, _before: Object, _after: Object) -> bool:
    """Every toleration is still there; how many seconds it lasts may change."""

    def lasting(toleration: Object) -> Object:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    kept = [lasting(toleration) for toleration in new or ()]
    return all(lasting(toleration) in kept for toleration in old or ())


def _unless_immutable(_old: Any, _new: Any, before: Object, _after: Object) -> bool:
    return before.get("immutable") is not True


def _not_taken_back(old: Any, _new: Any, _before: Object, _after: Object) -> bool:
    return old is not True


def _grown(old: Any, new: Any, _before: Object, _after: Object) -> bool:
    if old is None or new is None:
        return False
    before, after = quantity.number(old), quantity.number(new)
    return before is not None and after is not None and after >= before


def _elastic(old: Any, new: Any, before: Object, after: Object) -> bool:
    """An Indexed job scales when both of its counts stay equal."""
    counts = [
        (completions, job.get("spec", {}).get("parallelism", 1))
        for completions, job in ((old, before), (new, after))
    ]
    return before.get("spec", {}).get("completionMode") == "Indexed" and all(
        completions is not None and completions == parallelism
        for completions, parallelism in counts
    )


def _of_external_name(_old: Any, _new: Any, before: Object, after: Object) -> bool:
    return "ExternalName" in (before.get("spec", {}).get("type"), after.get("spec", {}).get("type"))


def _secondary(old: Any, new: Any, before: Object, after: Object) -> bool:
    """The first entry is the primary family's, which stays; so does what a removal leaves."""
    same = (old or [])[:1] == (new or [])[:1]
    return same or _of_external_name(old, new, before, after)


# The table -------------------------------------------------------------------------------------

_POD = "ValidatePodUpdate: "
_JOB = "ValidateJobUpdate: "
_SERVICE = "ValidateServiceUpdate: "
_CLAIM = "ValidatePersistentVolumeClaimUpdate: "

_TABLE = (
    Row("", "Pod", "spec.containers[*].image", _changed, _POD + "may not be empty", restarts=True),
    # It runs again with its Pod only, which a change of the image does not restart.
    Row("", "Pod", "spec.initContainers[*].image", _changed, _POD + "may not be empty"),
    Row(
        "",
        "Pod",
        "spec.activeDeadlineSeconds",
        lambda old, new, *_: old is None or (new is not None and new <= old),
        _POD + "set or lowered",
    ),
    Row(
        "",
        "Pod",
        "spec.tolerations",
        _only_added,
        "validateOnlyAddedTolerations: existing ones keep all but tolerationSeconds",
        whole=True,
    ),
    Row(
        "",
        "Pod",
        "spec.terminationGracePeriodSeconds",
        lambda old, new, *_: isinstance(old, int) and old < 0 and new == 1,
        _POD + "from a negative value to 1",
    ),
    Row(
        "",
        "Pod",
        "spec.schedulingGates",
        lambda old, new, *_: all(gate in (old or ()) for gate in new or ()),
        "validatePodSchedulingGates: only deletion is allowed",
        whole=True,
    ),
    Row("", "Pod", "spec", None, _POD + "may not change fields other than those above"),
    Row(
        "",
        "Service",
        "spec.clusterIP",
        _of_external_name,
        _SERVICE + "immutable; patchAllocatedValues: kept when it is left out",
    ),
    *(
        Row("", "Service", field, _secondary, _SERVICE + "the primary one is immutable", whole=True)
        for field in ("spec.clusterIPs", "spec.ipFamilies")
    ),
    Row(
        "",
        "Service",
        "spec.loadBalancerClass",
        lambda _old, _new, *objects: any(
            value.get("spec", {}).get("type") != "LoadBalancer" for value in objects
        ),
        "validateLoadBalancerClassField: may not change once set",
    ),
    Row(
        "",
        "ConfigMap",
        "immutable",
        _not_taken_back,
        "ValidateConfigMapUpdate: may not be unset",
    ),
    Row("", "ConfigMap", "data", _unless_immutable, "ValidateConfigMapUpdate: immutable"),
    Row("", "ConfigMap", "binaryData", _unless_immutable, "ValidateConfigMapUpdate: immutable"),
    Row("", "Secret", "type", None, "ValidateSecretUpdate: field is immutable"),
    Row("", "Secret", "immutable", _not_taken_back, "ValidateSecretUpdate: may not be unset"),
    Row("", "Secret", "data", _unless_immutable, "ValidateSecretUpdate: immutable"),
    Row(
        "",
        "PersistentVolumeClaim",
        "spec.resources.requests.storage",
        _grown,
        _CLAIM + "may grow, once the claim is bound",
    ),
    Row(
        "",
        "PersistentVolumeClaim",
        "spec.volumeAttributesClassName",
        lambda _old, new, *_: bool(new),
        _CLAIM + "may change, once the claim is bound, but not be unset",
    ),
    Row("", "PersistentVolumeClaim", "spec", None, _CLAIM + "spec is immutable"),
    Row("batch", "Job", "spec.completions", _elastic, _JOB + "with parallelism, if Indexed"),
    *(
        Row("batch", "Job", f"spec.{field}", None, _JOB + "field is immutable")
        for field in (
            "selector",
            "completionMode",
            "podFailurePolicy",
            "successPolicy",
            "backoffLimitPerIndex",
            "managedBy",
        )
    ),
    *(
        Row(
            "batch",
            "Job",
            f"spec.template.{field}",
            lambda _old, _new, before, _: before.get("spec", {}).get("suspend") is True,
            "validatePodTemplateUpdate: scheduling directives, until it has started",
        )
        for field in (
            "metadata.annotations",
            "metadata.labels",
            "spec.affinity.nodeAffinity",
            "spec.nodeSelector",
            "spec.schedulingGates",
            "spec.tolerations",
        )
    ),
    Row("batch", "Job", "spec.template", None, "validatePodTemplateUpdate: immutable"),
    Row(
        "rbac.authorization.k8s.io",
        "RoleBinding",
        "roleRef",
        None,
        "ValidateRoleBindingUpdate: cannot change roleRef",
    ),
    Row(
        "scheduling.k8s.io",
        "PodGroup",
        "spec.schedulingPolicy.gang.minCount",
        lambda _old, _new, _, after: "/v1alpha" not in after["apiVersion"],
        "ValidatePodGroupUpdate: mutable since v1beta1",
    ),
    *(
        Row("scheduling.k8s.io", kind, "spec", None, f"Validate{kind}Update: immutable")
        for kind in ("PodGroup", "Workload")
    ),
)


ROWS: dict[tuple[str, str], tuple[Row, ...]] = {
    kind: tuple(row for row in _TABLE if (row.group, row.kind) == kind)
    for kind in dict.fromkeys((row.group, row.kind) for row in _TABLE)
}
"""The rows by API group and kind. PodTemplate, ServiceAccount, PodDisruptionBudget, Namespace
and all kinds that are not here have none: no update of theirs is refused for what it changes."""
