"""The walk over a job's objects that applies patches to them.

Apart from `objects`, because most runs have no patch of a compiled object.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from operator import itemgetter
from typing import Any

from msgspec import Struct, field, structs

from etcompile.diagnostics import Diagnostic, Location, ValuePath, codes, diagnose
from etcompile.k8s.objects import Object, without_nulls
from etcompile.k8s.path import dotted
from etcompile.model.protocol import (
    POD_ANNOTATIONS,
    ROLE_LABEL,
    RUN_STATE,
    SCRIPTS_PATH,
    STORED_JOB,
)
from etcompile.overlays.alike import Alike, GapRead, filled, filling, grouped
from etcompile.overlays.document_patches import failed, patched
from etcompile.overlays.errors import PatchError
from etcompile.overlays.objects import PatchedObject
from etcompile.overlays.overlay import Edit, Patch
from etcompile.overlays.strategic import merged
from etcompile.overlays.traced import Step, Traced

_NUMBER = itemgetter(0)


class _Made(Struct, frozen=True):
    """A compiled object, as the source of what no overlay wrote: blames the edit."""

    data: Object
    edit: Edit

    @property
    def relative(self) -> str:
        return self.edit.origin.source.relative

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:  # noqa: ARG002
        return self.edit.origin.locate()


class _State(Struct, frozen=True):
    """How far objects that are alike have come.

    Args:
        alike: The objects as they were compiled.
        traced: What they have become; None if no edit was for them so far.
        applied: The edits that made it.
        next: The number of the edit that comes next.
    """

    alike: Alike
    traced: Traced | None = None
    applied: tuple[Edit, ...] = ()
    next: int = 0

    def now(self, edit: Edit) -> Traced:
        """The objects as they are, for an edit to work on."""
        value = self.alike.value
        return self.traced or Traced(value, _Made(value, edit))

    def of(self, numbers: Iterable[int]) -> "_State":
        """The same of some of the objects."""
        return structs.replace(self, alike=self.alike.only(numbers))

    def apart(self) -> "Iterator[_State]":
        """The same of each object by itself."""
        own = filling(self.alike.value)
        for number, texts in self.alike.texts.items():
            alone = Alike(own.of(texts), {number: ()})
            traced = self.traced and filled(self.traced, texts)
            yield structs.replace(self, alike=alone, traced=traced)


class ObjectPatches(Struct):
    """A walk over a job's objects: what was found, and the parts that were patched before.

    Objects that are alike, such as the Pods of a role, are patched as one.
    """

    own_labels: frozenset[str]
    edits: Sequence[Edit]
    changed: list[PatchedObject] = field(default_factory=list)
    kinds: dict[Edit, set[str]] = field(default_factory=dict)
    # By object and edit.
    diagnostics: dict[tuple[int, int], list[Diagnostic]] = field(default_factory=dict)
    # By edit, field and identity of its value, which is kept so that no other can have it.
    parts: dict[tuple[Edit, Step, int], tuple[Any, Traced]] = field(default_factory=dict)
    cleaned: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    sound: set[tuple[int, int]] = field(default_factory=set)
    seen: set[tuple[int, tuple[Edit, ...]]] = field(default_factory=set)

    def told(self) -> tuple[Diagnostic, ...]:
        """The diagnostics, object by object."""
        return tuple(
            diagnostic
            for _, found in sorted(self.diagnostics.items(), key=_NUMBER)
            for diagnostic in found
        )

    def patched(self, objects: Sequence[Object]) -> tuple[Object, ...]:
        """The objects after all edits that are for them; themselves if there is none."""
        todo = [_State(alike) for alike in grouped(objects, _sort)]
        made: dict[int, tuple[Object, _State]] = {}
        while todo:
            state = todo.pop()
            if state.next == len(self.edits):
                made |= self._made(state)
                continue
            try:
                todo += self._after(objects, state)
            except GapRead:
                todo += state.apart()
        for _, (data, state) in sorted(made.items(), key=_NUMBER):
            if state.traced is None:
                continue
            # Objects that share a spec and were patched alike need one check.
            alike = id(data.get("spec", data)), state.applied
            if alike not in self.seen:
                self.seen.add(alike)
                source = state.applied[-1].origin.source
                self.changed.append(PatchedObject(dict(data), source.relative, state.traced))
        return tuple(made[number][0] for number in range(len(objects)))

    def _after(self, objects: Sequence[Object], state: _State) -> list[_State]:
        """What becomes of objects by their next edit; nothing is kept if that reads a gap."""
        edit, now = self.edits[state.next], state.now(self.edits[state.next])
        chosen = _chosen(edit, now.value, state.alike)
        further = structs.replace(state, next=state.next + 1)
        if not chosen:
            return [further]
        if len(chosen) < len(state.alike.texts):
            return [further.of(state.alike.texts.keys() - chosen), state.of(chosen)]
        found: Mapping[int, list[Diagnostic]] = {}
        try:
            after = self._patched(now, edit)
        except PatchError as error:
            found = {number: [failed(_label(objects[number]), error)] for number in chosen}
        else:
            if broken := self._broken(now, after, edit):
                found = dict.fromkeys(chosen, broken)
            else:
                further = structs.replace(further, traced=after, applied=(*state.applied, edit))
        self.kinds.setdefault(edit, set()).add(now.value["kind"])
        self.diagnostics |= {(number, state.next): told for number, told in found.items()}
        return [further]

    def _made(self, state: _State) -> dict[int, tuple[Object, _State]]:
        """What has become of each object."""
        value = state.alike.value
        if state.traced is not None:
            fields = state.traced.value.items()
            value = {key: self._without_nulls(inner) for key, inner in fields if inner is not None}
        own = filling(value)
        return {number: (own.of(texts), state) for number, texts in state.alike.texts.items()}

    def _patched(self, value: Traced, edit: Edit) -> Traced:
        change = edit.change
        assert isinstance(change, Patch)  # noqa: S101 - nothing else is for objects
        kind = str(value.value["kind"])
        if not isinstance(change.patch.value, Mapping) or "spec" not in change.patch.value:
            return patched(value, change, kind)
        # The spec apart, once for all objects that share it; the rest as it is.
        wish = change.patch.parts()
        spec = wish.pop("spec")
        rest = Patch(change.patch.with_fields(wish))
        after = patched(value, rest, kind)
        return after.with_fields({**after.parts(), "spec": self._spec(value, spec, edit, kind)})

    def _spec(self, value: Traced, wish: Traced, edit: Edit, kind: str) -> Traced:
        base = value.part("spec")
        old = base.value if base else None
        if (edit, "spec", id(old)) not in self.parts:
            empty = Traced({}, wish.source, wish.path)
            made = merged(base or empty, wish, kind, ("spec",))
            self.parts[edit, "spec", id(old)] = old, made
        return self.parts[edit, "spec", id(old)][1]

    def _broken(self, before: Traced, after: Traced, edit: Edit) -> list[Diagnostic]:
        """What must not have changed; specs that many objects share are compared once."""
        old, new = before.value.get("spec"), after.value.get("spec")
        shared = self.parts.get((edit, "spec", id(old)))
        if shared is None or shared[1].value is not new:
            return list(_broken(before, after, edit, self.own_labels))
        if (id(old), id(new)) in self.sound:
            after = structs.replace(after, value={**after.value, "spec": old})
        broken = list(_broken(before, after, edit, self.own_labels))
        if not broken:
            self.sound.add((id(old), id(new)))
        return broken

    def _without_nulls(self, value: Any) -> Any:
        """The value without nulls; equal for all that share it."""
        known = self.cleaned.get(id(value))
        if known is None:
            known = self.cleaned[id(value)] = (value, without_nulls(value))
        return known[1]


def _is_for(edit: Edit, value: Object) -> bool:
    """Whether an edit is for a compiled object; patches without a kind are for documents."""
    if edit.target.kind is None and edit.reach != "objects":
        return False
    return edit.target.selects(value)


def _sort(value: Object) -> tuple[Any, ...]:
    """What edits may be for or not; no two objects that differ in it are patched as one."""
    labels = value["metadata"].get("labels") or {}
    return value["apiVersion"], value["kind"], labels.get(ROLE_LABEL)


def _chosen(edit: Edit, value: Object, alike: Alike) -> set[int]:
    """The numbers of the objects that an edit is for, of those that are alike."""
    read = edit.target.read(value)
    own = filling(read)
    if own.shared:
        return set(alike.texts) if _is_for(edit, read) else set()
    texts = alike.texts
    # A patch's name is that of few objects: only these are put together to be looked at.
    gap, name = own.places["metadata"].get("name"), edit.target.name
    if gap is not None and name is not None:
        texts = {
            number: own_texts
            for number, own_texts in texts.items()
            if fnmatchcase(own_texts[gap], name)
        }
    return {number for number, own_texts in texts.items() if _is_for(edit, own.of(own_texts))}


def _label(value: Object) -> str:
    metadata = value["metadata"]
    namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{value['kind']} {namespace}{metadata['name']}"


# What a job relies on ---------------------------------------------------------------------------

_FOUND_BY = "its Service and the watcher find it by this"
_FIXED: Mapping[str, tuple[tuple[ValuePath, str], ...]] = {
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
}
_NAMED = ("containers", "initContainers", "volumes")


def _broken(
    before: Traced, after: Traced, edit: Edit, own_labels: frozenset[str]
) -> Iterator[Diagnostic]:
    """What an edit of a compiled object changed that must stay as it is."""
    value, new = before.value, after.value
    for path, reason in _fixed(value, new, own_labels):
        if _value(value, path) != _value(new, path):
            yield _refused(value, after, path, edit, reason)
    if value["kind"] == "Pod" and value["spec"] is not new.get("spec"):
        for group in _NAMED:
            left = _names(new, group)
            for name in _names(value, group):
                if name not in left:
                    reason = f"the job needs '{name}' in it"
                    yield _refused(value, after, ("spec", group), edit, reason)


def _fixed(
    before: Object, after: Object, own_labels: frozenset[str]
) -> Iterator[tuple[ValuePath, str]]:
    """The paths that must not change, each with the reason; none in what is plainly the same."""
    changed = {field for field, value in before.items() if value is not after.get(field)}
    for path, reason in _FIXED.get(before["kind"], ()):
        if path[0] in changed:
            yield path, reason
    if "spec" in changed and before["kind"] == "Pod":
        yield from _fixed_in_pod(before)
    if "metadata" in changed:
        labels, new = before["metadata"].get("labels", {}), after["metadata"].get("labels")
        new = new if isinstance(new, Mapping) else {}
        moved = [key for key in own_labels if labels.get(key) != new.get(key)]
        yield from ((("metadata", "labels", key), _FOUND_BY) for key in sorted(moved))


def _fixed_in_pod(pod: Object) -> Iterator[tuple[ValuePath, str]]:
    """The commands that run scripts of ours, such as the gate's, and what a supervisor needs."""
    for group in ("containers", "initContainers"):
        for container in pod["spec"].get(group, ()):
            if any(str(word).startswith(SCRIPTS_PATH) for word in container.get("command", ())):
                reason = "it is wrapped in a script of the job"
                yield ("spec", group, container["name"], "command"), reason
    for container in pod["spec"]["containers"]:
        if any(mount["name"] == RUN_STATE for mount in container.get("volumeMounts", ())):
            for field in ("shareProcessNamespace", "hostPID"):
                yield ("spec", field), "who restarts a command in place must be process 1"


def _step(value: Any, step: str | int) -> str | int:
    """The step as a key or an index: an item of a list may be given by its name."""
    if isinstance(step, str) and isinstance(value, list | tuple):
        names = [item.get("name") if isinstance(item, Mapping) else None for item in value]
        return names.index(step) if step in names else -1
    return step


def _value(value: Any, path: ValuePath) -> Any:
    """The value at a path, None if there is none."""
    for name in path:
        step = _step(value, name)
        if isinstance(value, Mapping):
            value = value.get(step)
        else:
            known = isinstance(value, list | tuple) and isinstance(step, int) and step >= 0
            value = value[step] if known else None
    return value


def _names(pod: Object, group: str) -> list[str]:
    items = _value(pod, ("spec", group))
    items = items if isinstance(items, list | tuple) else ()
    return [item["name"] for item in items if isinstance(item, Mapping) and item.get("name")]


def _refused(value: Object, after: Traced, path: ValuePath, edit: Edit, reason: str) -> Diagnostic:
    changed: Traced | None = after
    for name in path:
        changed = changed.part(_step(changed.value, name)) if changed else None
    overlay = edit.origin.source
    place = (
        overlay.locate(changed.path)
        if changed and changed.source is overlay
        else edit.origin.locate("patch")
    )
    what = dotted(path)
    return diagnose(
        codes.OVERLAY_BREAKS_JOB, place, what=f"{what} of {value['kind']}s", reason=reason
    )
