"""Apply strategic merge patches, which look like what they patch.

Mappings merge, null removes, a list replaces the other, except those that Kubernetes keys by a
field of their items (`k8s.listkeys`): containers, volumes, environment and so on. Pod templates
inside job documents merge as Pods do, whatever the document's kind.
"""

from msgspec import Struct

from etcompile.diagnostics import ValuePath
from etcompile.k8s.traced import PatchError, Step, Traced

_DIRECTIVE = "$patch"


class _Merge(Struct, frozen=True):
    kind: str
    new_first: bool
    directives: bool


def merged(
    base: Traced,
    patch: Traced,
    kind: str,
    at: ValuePath = (),
    *,
    new_first: bool = False,
    directives: bool = True,
) -> Traced:
    """Return a value after a strategic merge patch.

    Args:
        new_first: Put the items of a patch before those that it does not name, as the API server
            does; else new items go to the end.
        directives: Follow `$patch`; else it is a key like any other.

    Raises:
        PatchError: A directive or an item of the patch cannot be followed.
    """
    result = _merged(base, patch, _Merge(kind, new_first, directives), at)
    if result is None:
        raise PatchError("cannot be removed by an overlay", patch, "remove it from the inputs")
    return result


def _merged(base: Traced | None, patch: Traced, merge: _Merge, at: ValuePath) -> Traced | None:
    if isinstance(patch.value, list):
        return _merged_list(base, patch, merge, at)
    if not isinstance(patch.value, dict):
        return patch
    directive = _directive(patch, merge)
    if directive == "delete":
        return None
    if directive == "replace" or (base and not isinstance(base.value, dict)):
        base = None
    changes: dict[Step, Traced] = {}
    removed: set[Step] = set()
    for step, part in patch.parts().items():
        if merge.directives and step == _DIRECTIVE:
            continue
        old = base.part(step) if base else None
        value = None if part.value is None else _merged(old, part, merge, (*at, step))
        if value is not None:
            changes[step] = value
        elif old is not None:
            removed.add(step)
    if base is None:
        return patch.with_fields(changes)
    if not removed:
        return base.with_changes(changes)
    left = {step: part for step, part in base.parts().items() if step not in removed}
    return base.with_fields({**left, **changes}, by=patch)


def _merged_list(base: Traced | None, patch: Traced, merge: _Merge, at: ValuePath) -> Traced:
    from etcompile.k8s.listkeys import patch_key  # noqa: PLC0415 - only patches need it

    key = patch_key(merge.kind, at)
    patches = patch.items()
    # An item with nothing but the directive is about the whole list.
    replaces = [
        _directive(entry, merge) == "replace" and len(entry.value) == 1 for entry in patches
    ]
    items: list[Traced] = []
    if key and base and isinstance(base.value, list | tuple) and not any(replaces):
        items = base.items()
    before = len(items)
    for number, (entry, replace) in enumerate(zip(patches, replaces, strict=True), 1):
        if replace:
            continue
        if key is None:
            if _directive(entry, merge) == "delete":
                raise PatchError(
                    "is a list without names, so no item of it can be removed alone",
                    entry,
                    "write out the whole list that is to be",
                )
            item = _merged(None, entry, merge, (*at, 0))
            items += [item] if item else []
            continue
        named = entry.value.get(key) if isinstance(entry.value, dict) else None
        if named is None:
            raise PatchError(
                f"needs '{key}' in each item of '{at[-1]}'",
                entry,
                f"add the {key} of the item that you mean",
            )
        names = [item.value.get(key) if isinstance(item.value, dict) else None for item in items]
        place = names.index(named) if named in names else None
        old = items[place] if place is not None else None
        new = _merged(old, entry, merge, (*at, 0))
        if place is None:
            where = len(items)
            if at[-1:] == ("env",):
                # A variable can only refer to earlier ones, so the patch's order must survive.
                later = [p.value.get(key) for p in patches[number:] if isinstance(p.value, dict)]
                where = next((n for n, name in enumerate(names) if name in later), where)
            items[where:where] = [new] if new else []
        else:
            items[place : place + 1] = [new] if new else []
    if merge.new_first and key:
        items = _in_server_order(base, items, key, [entry.value[key] for entry in patches])
    if key is None:
        return patch.with_items(items)  # it replaces the other list
    return (base or patch).with_items(items, by=patch if base and len(items) < before else None)


def _in_server_order(
    base: Traced | None, items: list[Traced], key: str, names: list[object]
) -> list[Traced]:
    """Order items as the API server does: the patch's items first, both orders preserved.

    An item of the base goes before one of the patch only if it already stood before it.
    """
    by_name = {item.value[key]: item for item in items}
    order = [item.value[key] for item in base.items()] if base else []
    changed = [name for name in names if name in by_name]
    others = [name for name in order if name in by_name and name not in names]
    ordered: list[Traced] = []
    while changed and others:
        mine, other = changed[0], others[0]
        is_later = mine in order and order.index(mine) > order.index(other)
        ordered.append(by_name[(others if is_later else changed).pop(0)])
    return [*ordered, *(by_name[name] for name in (*changed, *others))]


def _directive(patch: Traced, merge: _Merge) -> str | None:
    if not (merge.directives and isinstance(patch.value, dict)):
        return None
    for step in patch.value:
        if not step.startswith("$"):
            continue
        entry = patch.parts()[step]
        if step != _DIRECTIVE:
            problem = f"has the directive '{step}', which no overlay can follow"
            raise PatchError(problem, entry, "only $patch: delete, replace and merge are known")
        if entry.value not in ("delete", "replace", "merge"):
            problem = f"has $patch: {entry.value}, which is none of delete, replace and merge"
            raise PatchError(problem, entry)
        return str(entry.value)
    return None
