"""Limit what a plan may do, and to which objects, by the choices of the user."""

from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.diagnostics.spelling import probably
from etcompile.plan.ignore_differences import Ignored
from etcompile.plan.step import IDLE, ObjectRef, Plan, unmanaged
from etcompile.several import gather


class Rights(Struct, frozen=True):
    """What a plan may do.

    Args:
        replace_data: Objects that hold data and are replaced nevertheless: `NAME`, `KIND/NAME` or
            `NAMESPACE/KIND/NAME`; `*` for any.
        adopt: Take over objects that somebody else created: people, Argo CD, Flux, another
            ApplySet.
        prune: Delete what is in an inventory and no longer declared.
        take_ownership: Managers whose fields may be changed; `*` for any.
        drain: Seconds between removing a worker from the host list and deleting its Pod; None for
            the default.
        between_files: Live objects are declarations too, such as those of a folder: all of their
            fields count, and what is not declared any more is deleted.
    """

    replace: bool = False
    replace_data: frozenset[str] = frozenset()
    adopt: bool = False
    prune: bool = False
    take_ownership: frozenset[str] = frozenset()
    ignored: tuple[Ignored, ...] = ()
    between_files: bool = False
    drain: float | None = None

    def __post_init__(self) -> None:
        gather(self, "replace_data", "take_ownership", kind=frozenset)


def targeted(plan: Plan, targets: Sequence[str]) -> Plan:
    """Reduce a plan to the steps of the named objects, as for `--target`.

    All other objects are left alone. They stay in the plan, so that they stay in their inventory,
    and the reader sees what was not changed.
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
    rest = {}
    for step in plan.steps:
        if step.action in IDLE:
            other = step
        else:
            bare = structs.replace(step, changes=(), until=None, manifest=None)
            other = unmanaged(bare, "it is not among the targets")
        if step.uid is not None and step.id not in ids:
            rest[step.ref] = other
    for step in chosen:
        rest.pop(step.ref, None)
    return structs.replace(plan, steps=(*acting, *idle, *rest.values()))


def unknown_targets(plan: Plan, targets: Sequence[str]) -> list[Diagnostic]:
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
    """Return whether an object is one of those that the user named.

    Args:
        names: `NAME`, `KIND/NAME` or `NAMESPACE/KIND/NAME`; `*` is any. Kinds as kubectl takes
            them: `Pod`, `pods`, `podgroups.scheduling.volcano.sh`.
    """
    singular = ref.kind.lower()
    forms = {singular, f"{singular}s", f"{singular}es", f"{singular.removesuffix('y')}ies"}
    for text in names:
        if text == "*":
            return True
        *where, name = text.split("/")
        in_place = len(where) < 2 or (len(where) == 2 and where[0] == ref.namespace)
        kind, _, group = (where[-1] if where else singular).lower().partition(".")
        is_kind = kind in forms and group in ("", ref.group)
        if name == ref.name and in_place and is_kind:
            return True
    return False
