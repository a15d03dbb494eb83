"""Limits a plan to the objects that the user named with `--target`.

All other objects stay in the plan, marked as left alone. So they stay in their inventory, and the
reader of the plan sees what was not changed.
"""

from collections.abc import Iterable, Sequence

from msgspec import structs

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.diagnostics.spelling import probably
from etcompile.plan.step import IDLE, ObjectRef, Plan, Reason, Step

_SHORT_NAMES = {
    "cm": "configmap",
    "crd": "customresourcedefinition",
    "cj": "cronjob",
    "deploy": "deployment",
    "ds": "daemonset",
    "ing": "ingress",
    "limits": "limitrange",
    "netpol": "networkpolicy",
    "ns": "namespace",
    "pc": "priorityclass",
    "pdb": "poddisruptionbudget",
    "po": "pod",
    "pv": "persistentvolume",
    "pvc": "persistentvolumeclaim",
    "quota": "resourcequota",
    "rs": "replicaset",
    "sa": "serviceaccount",
    "sts": "statefulset",
    "svc": "service",
}
"""What `kubectl api-resources` calls the kinds for short."""


def targeted(plan: Plan, targets: Sequence[str]) -> Plan:
    """The plan with the steps of the named objects only.

    Args:
        plan: The plan for all objects.
        targets: `NAME`, `KIND/NAME` or `NAMESPACE/KIND/NAME` of each object.
    """
    if not targets:
        return plan
    chosen = [step for step in plan.steps if is_named(step.ref, targets)]
    ids = {step.id for step in chosen}
    acting = [
        structs.replace(step, after=tuple(other for other in step.after if other in ids))
        for step in chosen
        if step.action not in IDLE
    ]
    idle = [step for step in chosen if step.action in IDLE]
    left = {
        step.ref: _left(step) for step in plan.steps if step.uid is not None and step.id not in ids
    }
    for step in chosen:
        left.pop(step.ref, None)
    return structs.replace(plan, steps=(*acting, *idle, *left.values()))


def not_found(plan: Plan, targets: Sequence[str]) -> list[Diagnostic]:
    """An error for each target that is no object of a plan."""
    errors = []
    for target in targets:
        if any(is_named(step.ref, [target]) for step in plan.steps):
            continue
        names = [
            f"{step.ref.kind}/{step.ref.name}" if "/" in target else step.ref.name
            for step in plan.steps
        ]
        near = probably(target, names)
        advice = f"did you mean {near}?" if near else "etcompile diff lists the objects"
        errors.append(diagnose(codes.NO_SUCH_TARGET, None, target=target, advice=advice))
    return errors


def is_named(ref: ObjectRef, names: Iterable[str]) -> bool:
    """Whether somebody named an object: `NAME`, `KIND/NAME` or `NAMESPACE/KIND/NAME`; `*` is any.

    Args:
        ref: The object that may be meant.
        names: What was named; kinds as kubectl takes them: `Pod`, `pods`, `po`,
            `podgroups.scheduling.volcano.sh`.
    """
    return any(name == "*" or _names(name, ref) for name in names)


def _names(text: str, ref: ObjectRef) -> bool:
    *where, name = text.split("/")
    if name != ref.name or len(where) > 2:
        return False
    if len(where) == 2 and where[0] != ref.namespace:
        return False
    return not where or _is_kind(where[-1].lower(), ref)


def _is_kind(text: str, ref: ObjectRef) -> bool:
    kind, _, group = text.partition(".")
    singular = ref.kind.lower()
    forms = {singular, f"{singular}s", f"{singular}es", f"{singular.removesuffix('y')}ies"}
    return _SHORT_NAMES.get(kind, kind) in forms and group in ("", ref.group)


def _left(step: Step) -> Step:
    """The step of an object that exists and is not named."""
    if step.action in IDLE:
        return step
    return structs.replace(
        step,
        action="unmanaged",
        why=(Reason("it is not among the targets"),),
        changes=(),
        after=(),
        needs=None,
        until=None,
        manifest=None,
    )
