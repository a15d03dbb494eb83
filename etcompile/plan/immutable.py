"""Which changes Kubernetes refuses on an object that exists, as a table.

A row is a field, what may become of it, and the name of the function in Kubernetes
(pkg/apis/*/validation) that says so. The rows of a kind are tried in order and the first that
names the field decides; a field that no row names may change.
"""

import enum
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from etcompile.k8s.objects import Object
from etcompile.k8s.path import KeyedPath
from etcompile.model import quantity
from etcompile.plan.defaults import settled
from etcompile.plan.fields import Difference, differences, matches
from etcompile.plan.secrecy import masked


class Verdict(enum.Enum):
    """What becomes of a changed field."""

    ACCEPTED = "accepted"
    RESTARTS = "restarts"
    """Accepted, and the container starts anew in its place."""
    REFUSED = "refused"


_Judge = Callable[[Difference, Object, Object], bool]
"""Whether the API accepts a difference between two states of an object."""


class Row(Struct, frozen=True):
    """What may become of a field.

    Args:
        group: The API group.
        field: A path, as `etcompile.plan.fields.matches` reads it.
        accepts: Whether a difference is accepted.
        rule: The function of Kubernetes that decides it, and what it demands.
        restarts: An accepted change restarts a container.
    """

    group: str
    kind: str
    field: str
    accepts: _Judge
    rule: str
    restarts: bool = False


class Change(Struct, frozen=True):
    """A change that needs a decision.

    Args:
        verdict: Refused, or accepted with a restart.
        field: The field, such as `spec.containers[main].command`.
        path: The same in steps, as `etcompile.plan.fields` writes them.
        old: Its value; None for absent.
        new: What it is to be; None for absent.
        secret: The values must not be shown.
        row: The row that decided.
    """

    verdict: Verdict
    field: str
    path: KeyedPath
    old: Any
    new: Any
    secret: bool
    row: Row


def changes(old: Object, new: Object) -> list[Change]:
    """The changes of an object that are refused, or restart something.

    Args:
        old: The object as it was declared: JSON, without nulls, of a kind and with a name.
        new: The same object as it is declared now.

    Returns:
        One change per field, in the order of the fields; a field that only one of the states
        has is one, whatever is inside it.
    """
    rows = ROWS.get((_group(old), old["kind"]))
    if not rows or old == new:
        return []
    before, after = settled(old, new), settled(new, old)
    found: dict[tuple[str, Verdict], Change] = {}
    for difference in differences(before, after):
        row = next((row for row in rows if matches(row.field, difference.path)), None)
        if row is None:
            continue
        if not row.accepts(difference, before, after):
            verdict = Verdict.REFUSED
        elif row.restarts:
            verdict = Verdict.RESTARTS
        else:
            continue
        seen = difference.visible
        secret = any(
            state is not None and masked(old["kind"], seen.path, state) != state
            for state in (seen.old, seen.new)
        )
        change = Change(verdict, seen.field, seen.path, seen.old, seen.new, secret, row)
        found.setdefault((seen.field, verdict), change)
    return list(found.values())


def _group(value: Object) -> str:
    version: str = value["apiVersion"]
    return version.rpartition("/")[0]


# What a row accepts ----------------------------------------------------------------------------


def _since_beta(_change: Difference, _old: Object, new: Object) -> bool:
    return not new["apiVersion"].rpartition("/")[2].startswith("v1alpha")


def _always(_change: Difference, _old: Object, _new: Object) -> bool:
    return True


def _never(_change: Difference, _old: Object, _new: Object) -> bool:
    return False


def _set(change: Difference, _old: Object, _new: Object) -> bool:
    return bool(change.new)


def _set_or_lowered(change: Difference, _old: Object, _new: Object) -> bool:
    if change.old is None:
        return True
    return change.new is not None and change.new <= change.old


def _negative_to_one(change: Difference, _old: Object, _new: Object) -> bool:
    return isinstance(change.old, int) and change.old < 0 and change.new == 1


def _only_added(change: Difference, _old: Object, _new: Object) -> bool:
    """Every toleration is still there; how many seconds it lasts may change."""

    def lasting(toleration: Object) -> Object:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    kept = [lasting(toleration) for toleration in change.new or ()]
    return all(lasting(toleration) in kept for toleration in change.old or ())


def _only_removed(change: Difference, _old: Object, _new: Object) -> bool:
    return all(item in (change.old or ()) for item in change.new or ())


def _unless_immutable(_change: Difference, old: Object, _new: Object) -> bool:
    return old.get("immutable") is not True


def _not_taken_back(change: Difference, _old: Object, _new: Object) -> bool:
    return change.old is not True


def _grown(change: Difference, _old: Object, _new: Object) -> bool:
    if change.old is None or change.new is None:
        return False
    before, after = quantity.number(change.old), quantity.number(change.new)
    return before is not None and after is not None and after >= before


def _while_suspended(_change: Difference, old: Object, _new: Object) -> bool:
    return old.get("spec", {}).get("suspend") is True


def _elastic(change: Difference, old: Object, new: Object) -> bool:
    """An Indexed job scales when both of its counts stay equal."""
    before, after = old.get("spec", {}), new.get("spec", {})
    counts = [(change.old, before.get("parallelism", 1)), (change.new, after.get("parallelism", 1))]
    return before.get("completionMode") == "Indexed" and all(
        completions is not None and completions == parallelism
        for completions, parallelism in counts
    )


def _of_external_name(_change: Difference, old: Object, new: Object) -> bool:
    return "ExternalName" in (old.get("spec", {}).get("type"), new.get("spec", {}).get("type"))


def _secondary(change: Difference, old: Object, new: Object) -> bool:
    """The first entry is the primary family's, which stays; so does what a removal leaves."""
    before, after = change.old or [], change.new or []
    return bool(before[:1] == after[:1]) or _of_external_name(change, old, new)


def _with_another_type(_change: Difference, old: Object, new: Object) -> bool:
    before, after = old.get("spec", {}).get("type"), new.get("spec", {}).get("type")
    return not before == after == "LoadBalancer"


# The table -------------------------------------------------------------------------------------

_POD = "ValidatePodUpdate: "
_JOB = "ValidateJobUpdate: "
_SERVICE = "ValidateServiceUpdate: "
_CLAIM = "ValidatePersistentVolumeClaimUpdate: "
_SET = "ValidateStatefulSetUpdate: "

_TABLE = (
    Row("", "Pod", "spec.containers[*].image", _set, _POD + "may not be empty", restarts=True),
    # It runs again with its Pod only, which a change of the image does not restart.
    Row("", "Pod", "spec.initContainers[*].image", _set, _POD + "may not be empty"),
    Row("", "Pod", "spec.activeDeadlineSeconds", _set_or_lowered, _POD + "set or lowered"),
    Row(
        "",
        "Pod",
        "spec.tolerations",
        _only_added,
        "validateOnlyAddedTolerations: existing ones keep all but tolerationSeconds",
    ),
    Row(
        "",
        "Pod",
        "spec.terminationGracePeriodSeconds",
        _negative_to_one,
        _POD + "from a negative value to 1",
    ),
    Row(
        "",
        "Pod",
        "spec.schedulingGates",
        _only_removed,
        "validatePodSchedulingGates: only deletion is allowed",
    ),
    Row("", "Pod", "spec.**", _never, _POD + "may not change fields other than those above"),
    Row(
        "",
        "Service",
        "spec.clusterIP",
        _of_external_name,
        _SERVICE + "immutable; patchAllocatedValues: kept when it is left out",
    ),
    Row("", "Service", "spec.clusterIPs", _secondary, _SERVICE + "the primary one is immutable"),
    Row("", "Service", "spec.ipFamilies", _secondary, _SERVICE + "the primary one is immutable"),
    Row(
        "",
        "Service",
        "spec.loadBalancerClass",
        _with_another_type,
        "validateLoadBalancerClassField: may not change once set",
    ),
    Row(
        "",
        "ConfigMap",
        "immutable",
        _not_taken_back,
        "ValidateConfigMapUpdate: may not be unset",
    ),
    Row("", "ConfigMap", "data.**", _unless_immutable, "ValidateConfigMapUpdate: immutable"),
    Row("", "ConfigMap", "binaryData.**", _unless_immutable, "ValidateConfigMapUpdate: immutable"),
    Row("", "Secret", "type", _never, "ValidateSecretUpdate: field is immutable"),
    Row("", "Secret", "immutable", _not_taken_back, "ValidateSecretUpdate: may not be unset"),
    Row("", "Secret", "data.**", _unless_immutable, "ValidateSecretUpdate: immutable"),
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
        _set,
        _CLAIM + "may change, once the claim is bound, but not be unset",
    ),
    Row("", "PersistentVolumeClaim", "spec.**", _never, _CLAIM + "spec is immutable"),
    Row("batch", "Job", "spec.completions", _elastic, _JOB + "with parallelism, if Indexed"),
    *(
        Row("batch", "Job", f"spec.{field}", _never, _JOB + "field is immutable")
        for field in (
            "selector.**",
            "completionMode",
            "podFailurePolicy.**",
            "successPolicy.**",
            "backoffLimitPerIndex",
            "managedBy",
        )
    ),
    *(
        Row(
            "batch",
            "Job",
            f"spec.template.{field}",
            _while_suspended,
            "validatePodTemplateUpdate: scheduling directives, until it has started",
        )
        for field in (
            "metadata.annotations.**",
            "metadata.labels.**",
            "spec.affinity.nodeAffinity.**",
            "spec.nodeSelector.**",
            "spec.schedulingGates",
            "spec.tolerations",
        )
    ),
    Row("batch", "Job", "spec.template.**", _never, "validatePodTemplateUpdate: immutable"),
    *(
        Row("apps", "StatefulSet", f"spec.{field}", _always, _SET + "may change")
        for field in (
            "replicas",
            "ordinals.**",
            "template.**",
            "updateStrategy.**",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy.**",
            "minReadySeconds",
        )
    ),
    Row("apps", "StatefulSet", "spec.**", _never, _SET + "other fields are forbidden"),
    *(
        Row("apps", kind, "spec.selector.**", _never, f"Validate{kind}Update: field is immutable")
        for kind in ("DaemonSet", "Deployment", "ReplicaSet")
    ),
    *(
        Row(
            "rbac.authorization.k8s.io",
            kind,
            "roleRef.**",
            _never,
            f"Validate{kind}Update: cannot change roleRef",
        )
        for kind in ("ClusterRoleBinding", "RoleBinding")
    ),
    *(
        Row("scheduling.k8s.io", "PriorityClass", field, _never, "ValidatePriorityClassUpdate")
        for field in ("value", "preemptionPolicy")
    ),
    Row(
        "scheduling.k8s.io",
        "PodGroup",
        "spec.schedulingPolicy.gang.minCount",
        _since_beta,
        "ValidatePodGroupUpdate: mutable since v1beta1",
    ),
    *(
        Row("scheduling.k8s.io", kind, "spec.**", _never, f"Validate{kind}Update: immutable")
        for kind in ("PodGroup", "Workload")
    ),
    *(
        Row("storage.k8s.io", "StorageClass", field, _never, "ValidateStorageClassUpdate")
        for field in ("parameters.**", "provisioner", "reclaimPolicy", "volumeBindingMode")
    ),
)


def _by_kind(table: tuple[Row, ...]) -> dict[tuple[str, str], tuple[Row, ...]]:
    kinds = dict.fromkeys((row.group, row.kind) for row in table)
    return {kind: tuple(row for row in table if (row.group, row.kind) == kind) for kind in kinds}


ROWS: dict[tuple[str, str], tuple[Row, ...]] = _by_kind(_TABLE)
"""The rows by API group and kind. PodTemplate, ServiceAccount, PodDisruptionBudget, Namespace
and all kinds that are not here have none: no update of theirs is refused for what it changes."""
