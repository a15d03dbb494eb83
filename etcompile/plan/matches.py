"""Match live objects with the declared ones, one by one as they are read.

A job may have ten thousand objects. So a live object that is as it was declared leaves only its
step behind, and the others stay until the plan is decided (`etcompile.plan.planner`).
"""

from collections.abc import Iterable

from msgspec import Struct, structs

from etcompile.k8s import pods
from etcompile.k8s.listkeys import ABSENT
from etcompile.k8s.managedfields import Ownership, last_written, ownership
from etcompile.k8s.objects import Object, is_going, labels_of, what_keeps, with_metadata
from etcompile.model.protocol import MANAGER, is_config
from etcompile.plan import owners
from etcompile.plan.applysets import INVENTORY_ID, PART_OF
from etcompile.plan.comparison import NOBODY, Raw, compared
from etcompile.plan.ignore_differences import as_live
from etcompile.plan.scope import Rights
from etcompile.plan.step import (
    MISSING,
    Declared,
    ObjectKey,
    ObjectRef,
    Reason,
    Step,
    conflict,
    has_values,
    reference,
)


class Difference(Struct, frozen=True):
    """An object that exists and that seems to differ from what is declared.

    Args:
        desired: What is to be applied: as declared, but for fields that stay as they are.
        inventory: The id of the ApplySet that it should be in; None for none.
        owned: The owners of the live object's fields; None if that is a declaration, too.
    """

    ref: ObjectRef
    declared: Object
    desired: Object
    live: Object
    inventory: str | None
    places: tuple[Raw, ...]
    owned: Ownership | None
    job: str | None = None

    def in_its_set(self, desired: Object) -> Object:
        """Return the object with the label of the ApplySet that it is in, or should be in."""
        if not (label := self.inventory or labels_of(self.live).get(PART_OF)):
            return desired
        return with_metadata(desired, labels={**labels_of(desired), PART_OF: label})


class Matches:
    """The declared objects, and what exists of them.

    Attributes:
        desired: The declared objects, each with its reference and its group.
        refs: What to read of a cluster: the declared objects, and where a job of any kind that has
            the name of one of ours would have its ConfigMap.
        inventories: The ids of the ApplySets of the declared jobs.
        steps: What to do about declared objects that exist, unless they seem to differ.
        differences: Those that seem to differ.
        undeclared: Live objects that nothing declares.
        unready: Pods that are not Ready, and that the plan does not recreate.
        other_jobs: By job, the job of another kind that has its name already.
        listed: By job, when its host lists were last written, in seconds since 1970.
    """

    def __init__(self, groups: Iterable[Declared], rights: Rights, namespace: str) -> None:
        self.groups = list(groups)
        self.rights = rights
        self.namespace = namespace
        self.desired: dict[ObjectKey, tuple[ObjectRef, Object, Declared]] = {}
        self.refs: list[ObjectRef] = []
        self._configs: dict[ObjectKey, tuple[Object, str]] = {}
        for group in self.groups:
            for value in group.objects:
                ref = reference(value)
                self.desired[ref.key_in(namespace)] = (ref, value, group)
                self.refs.append(ref)
                for name in () if rights.between_files else owners.names_of_config(value):
                    config = structs.replace(ref, name=name)
                    self.refs.append(config)
                    if group.job:
                        self._configs[config.key_in(namespace)] = (value, group.job)
        self.inventories = frozenset(group.inventory for group in self.groups if group.inventory)
        self.steps: dict[ObjectKey, list[Step]] = {}
        self.differences: dict[ObjectKey, Difference] = {}
        self.undeclared: dict[ObjectKey, Object] = {}
        self.unready: set[ObjectKey] = set()
        self.other_jobs: dict[str, str] = {}
        self.listed: dict[str | None, float] = {}

    def add(self, live: Object) -> None:
        key = reference(live).key_in(self.namespace)
        config, job = self._configs.get(key, (live, None))
        if job and (other := owners.other_job(config, live)):
            self.other_jobs[job] = other
        if key not in self.desired:
            if INVENTORY_ID not in labels_of(live):
                self.undeclared[key] = live
            return
        ref, desired, group = self.desired[key]
        if group.listed and is_config(desired["metadata"]):
            self.listed[group.job] = last_written(live, "data")
        if ref.key in group.create_only and not is_going(live):
            # It is left as it is, but must have what it exists for.
            step, missing = unchanged(live, ref), owners.missing_keys(desired, live)
            reason = (
                f"it has no {' and no '.join(missing)}, which the Pods of the job mount: delete"
                " it, or give the job another Secret with --config secret=existing:NAME"
            )
            self.steps[key] = [conflict(step, Reason(reason)) if missing else step]
        elif not self.rights.between_files and is_going(live):
            words, uid = "the one that exists is being deleted", live["metadata"].get("uid")
            why = (Reason(f"{words}{what_keeps(live)}"),)
            gone = Step("wait", ref, why, until="gone", uid=uid)
            again = structs.replace(created(desired, ref, words), after=(gone.id,))
            self.steps[key] = [gone, again]
        else:
            seeming = difference(desired, live, ref, self.rights, group.inventory, group.job)
            if seeming is None:
                self.steps[key] = [unchanged(live, ref)]
            else:
                self.differences[key] = seeming
            is_run = not self.rights.between_files and ref.kind == "Pod"
            if is_run and pods.phase(live) != "Succeeded" and not pods.is_ready(live):
                self.unready.add(key)


def created(desired: Object, ref: ObjectRef, reason: str = MISSING) -> Step:
    return Step("create", ref, (Reason(reason),), manifest=manifest_of(desired))


def unchanged(live: Object, ref: ObjectRef) -> Step:
    metadata = live["metadata"]
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    return Step("unchanged", ref, uid=uid, resource_version=version)


def difference(
    desired: Object,
    live: Object,
    ref: ObjectRef,
    rights: Rights,
    inventory: str | None,
    job: str | None = None,
) -> Difference | None:
    owned = None if rights.between_files else ownership(live, MANAGER)
    declared = desired
    if rights.ignored:
        desired = as_live(desired, live, ref, rights.ignored, owned or NOBODY)
    places = compared(desired, live, owned)
    now = owners.inventory(live)
    if inventory and now != inventory:
        label = ("metadata", "labels", PART_OF)
        places = (*places, Raw(label, ABSENT if now is None else now, inventory))
    if not places:
        return None
    return Difference(ref, declared, desired, live, inventory, places, owned, job)


def manifest_of(desired: Object) -> Object | None:
    return None if has_values(desired) else desired
