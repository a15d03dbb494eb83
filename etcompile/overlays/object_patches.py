"""Apply patches to the objects that the backend compiled.

Patches cannot change what the job relies on at run time: names, selectors, the gate, the run-once
guard. Replicas that share a spec share the patched spec, too, so a patch is applied to it once.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from etcompile.diagnostics import Diagnostic, Location, ValuePath, codes, diagnose
from etcompile.k8s import quantity
from etcompile.k8s.objects import Object, is_custom, labels_of, without_nulls
from etcompile.k8s.path import KeyedPath, keyed, mappings_of, value_at, value_path
from etcompile.k8s.strategic import merged
from etcompile.k8s.traced import PatchError, Traced
from etcompile.model.protocol import (
    POD_ANNOTATIONS,
    ROLE_LABEL,
    RUN_STATE,
    SCRIPTS_PATH,
    STORED_JOB,
)
from etcompile.overlays.document_patches import failed, patched
from etcompile.overlays.overlay import Edit, PatchedObjects

_Specs = dict[tuple[Edit, int], tuple[Any, Traced]]
"""By edit and identity of a spec: the spec before and after the edit."""


class _Compiled(Struct, frozen=True):
    """The source of values that no overlay wrote, located at the first edit of the object."""

    data: Object
    edit: Edit

    @property
    def relative(self) -> str:
        return self.edit.origin.source.relative

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:  # noqa: ARG002
        return self.edit.origin.locate()


def patched_objects(
    objects: Sequence[Object], edits: Sequence[Edit], *, protected_labels: frozenset[str]
) -> PatchedObjects:
    patches = {edit: edit.value for edit in edits if edit.change == "patch"}
    with_nulls = {edit for edit, p in patches.items() if without_nulls(p.value) is not p.value}
    specs: _Specs = {}
    results: list[Object] = []
    changed: dict[object, Traced] = {}
    kinds: dict[Edit, set[str]] = {}
    problems: list[Diagnostic] = []
    for number, value in enumerate(objects):
        after: Traced | None = None
        applied: list[Edit] = []
        for edit, patch in patches.items():
            before = after or Traced(value, _Compiled(value, edit))
            # Patches without a kind are for documents.
            is_for_objects = edit.target.kind is not None or edit.reach == "objects"
            if not is_for_objects or not edit.target.selects(before.value):
                continue
            kinds.setdefault(edit, set()).add(value["kind"])
            try:
                result = _patched(before, edit, patch, specs)
            except PatchError as error:
                metadata = value["metadata"]
                namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
                label = f"{value['kind']} {namespace}{metadata['name']}"
                problems.append(failed(label, error))
                continue
            if broken := [*_damage(before, result, edit, protected_labels)]:
                problems += broken
            else:
                after = result
                applied.append(edit)
        if after is None:
            results.append(value)
            continue
        data = after.value if with_nulls.isdisjoint(applied) else without_nulls(after.value)
        results.append(data)
        # Replicas of a role after the same edits differ only in their numbers.
        role = labels_of(data).get(ROLE_LABEL)
        group = (data["kind"], role or number, *applied)
        if group not in changed:
            changed[group] = structs.replace(after, value=data)
    return PatchedObjects(
        tuple(results),
        tuple(changed.values()),
        {edit: frozenset(kinds[edit]) for edit in patches if edit in kinds},
        tuple(problems),
    )


def _patched(value: Traced, edit: Edit, patch: Traced, specs: _Specs) -> Traced:
    """Patch an object; its spec is patched once for all objects that share it."""
    kind = str(value.value["kind"])
    parts = patch.parts()
    spec = value.part("spec")
    if spec is None or not isinstance(patch.value, dict) or "spec" not in parts:
        return patched(value, patch, kind)
    of_spec = parts.pop("spec")
    after = patched(value, patch.with_fields(parts), kind) if parts else value
    key = (edit, id(spec.value))
    if key not in specs:
        # Store the spec as well, so that its id is not used again.
        specs[key] = spec.value, merged(spec, of_spec, kind, ("spec",))
    return after.with_changes({"spec": specs[key][1]})


_FIXED: Mapping[str, tuple[tuple[KeyedPath, str], ...]] = {
    "Service": (
        (("spec", "selector"), "it selects the Pods of the job"),
        (("spec", "clusterIP"), "a headless Service gives each Pod its name"),
    ),
    "Pod": (
        (("spec", "hostname"), "host lists name it"),
        (("spec", "subdomain"), "host lists name it"),
        (("spec", "restartPolicy"), "a failed Pod is replaced, not restarted in place"),
        *((("metadata", "annotations", name), why) for name, why in POD_ANNOTATIONS.items()),
    ),
    "RoleBinding": (
        (("roleRef",), "the API server refuses to change it"),
        (("subjects",), "the launcher needs the role"),
    ),
    "ConfigMap": ((("data", STORED_JOB), "it must be the job that was compiled"),),
    "ExternalSecret": ((("spec", "target", "name"), "the Pods mount the Secret of this name"),),
}
_TYPES = {bool: "true or false", int: "a whole number", str: "text", dict: "a mapping"}


def _damage(
    before: Traced, after: Traced, edit: Edit, protected_labels: frozenset[str]
) -> Iterator[Diagnostic]:
    value, new = before.value, after.value
    # The paths of one or two steps whose values are no longer the same object.
    changed: set[KeyedPath] = set()
    for name in {**value, **new}:
        if value.get(name) is not new.get(name):
            changed.add((name,))
            parts = (part.get(name) for part in (value, new))
            old, part = (part if isinstance(part, dict) else {} for part in parts)
            changed |= {(name, k) for k in {**old, **part} if old.get(k) is not part.get(k)}
    for path, reason in _protected_paths(value, protected_labels, changed):
        if _value(value, path) != _value(new, path):
            yield _refused(value, after, path, edit, reason)
    if is_custom(value):  # no schema of Kubernetes checks its fields
        for path, old in _retyped_paths(value.get("spec"), new.get("spec"), ("spec",)):
            reason = f"it must be {_TYPES.get(type(old), 'a list')}"
            yield _refused(value, after, path, edit, reason)
    for group in ("containers", "initContainers", "volumes") if value["kind"] == "Pod" else ():
        if ("spec", group) in changed:
            left = [item.get("name") for _, item in mappings_of(new.get("spec"), group)]
            for name in (item.get("name") for _, item in mappings_of(value["spec"], group)):
                if name and name not in left:
                    reason = f"the job needs '{name}' in it"
                    yield _refused(value, after, ("spec", group), edit, reason)


def _retyped_paths(old: Any, new: Any, at: KeyedPath) -> Iterator[tuple[KeyedPath, Any]]:
    """Yield the paths of values whose type has changed, each with the old value."""
    if old is new or old is None or new is None:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            yield from _retyped_paths(old[key], new.get(key), (*at, key))
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple):
        for index, (item, other) in enumerate(zip(old, new, strict=False)):
            yield from _retyped_paths(item, other, (*at, f"[{index}]"))
    elif type(old) is not type(new):
        # A quantity may also be a number.
        is_amount = isinstance(old, str) and type(new) in (int, float)
        if not is_amount or quantity.number(old) is None:
            yield at, old


def _protected_paths(
    value: Object, protected_labels: frozenset[str], changed: Collection[KeyedPath]
) -> Iterator[tuple[KeyedPath, str]]:
    """Yield the changed paths that must not change, each with the reason."""
    for path, reason in _FIXED.get(value["kind"], ()):
        if path[:2] in changed:
            yield path, reason
    if ("metadata", "labels") in changed:
        for key in sorted(protected_labels):
            yield ("metadata", "labels", key), "its Service and the watcher find it by this"
    if value["kind"] != "Pod" or ("spec",) not in changed:
        return
    spec = value["spec"]
    for group in ("containers", "initContainers"):
        for container in spec.get(group, ()) if ("spec", group) in changed else ():
            if any(str(word).startswith(SCRIPTS_PATH) for word in container.get("command", ())):
                path = ("spec", group, f"[{container['name']}]", "command")
                yield path, "it is wrapped in a script of the job"
    for field in ("shareProcessNamespace", "hostPID"):
        if ("spec", field) in changed:
            mounts = (m["name"] for c in spec["containers"] for m in c.get("volumeMounts", ()))
            if RUN_STATE in mounts:
                yield ("spec", field), "who restarts a command in place must be process 1"


def _value(value: Object, path: KeyedPath) -> Any:
    plain = value_at(value, path)
    if plain is not None or path[-1] != "command":
        return plain  # no step is the key of a list entry
    steps = value_path(value, path)
    return value_at(value, steps) if len(steps) == len(path) else None


def _refused(value: Object, after: Traced, path: KeyedPath, edit: Edit, reason: str) -> Diagnostic:
    steps = value_path(after.value, path)
    changed = after.at(steps) if len(steps) == len(path) else None
    overlay = edit.origin.source
    place = edit.origin.locate("patch")
    if changed and changed.source is overlay:
        place = overlay.locate(changed.path)
    what = f"{keyed(path)} of {value['kind']}s"
    return diagnose(codes.OVERLAY_BREAKS_JOB, place, what=what, reason=reason)
