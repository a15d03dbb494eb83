"""Keep for every part of a JSON value where it was written.

Patching mixes values of several files, and a diagnostic about a patched value must point into the
file that the value came from. A value that no patch has touched costs one node, however large.
"""

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from etcompile.diagnostics import Location, Source, ValuePath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Step = str | int


class Traced(Struct, frozen=True, eq=False):
    """A JSON value and where it was written."""

    value: Any
    source: Source
    path: ValuePath = ()
    # Parts that were written elsewhere than below `path`, by key or index.
    entries: "Mapping[Step, Traced] | None" = None

    @property
    def data(self) -> Any:
        """Return the value; with it a mapping can serve as a document again, a `Source`."""
        return self.value

    @property
    def relative(self) -> str:
        """Return the file of the value itself; parts of it may come from others."""
        return self.source.relative

    def parts(self) -> "dict[Step, Traced]":
        if isinstance(self.value, dict):
            steps: Iterable[Step] = self.value
        else:
            steps = range(len(self.value)) if isinstance(self.value, list | tuple) else ()
        entries, path = self.entries or {}, self.path
        return {
            step: entries.get(step) or Traced(self.value[step], self.source, (*path, step))
            for step in steps
        }

    def part(self, step: Step) -> "Traced | None":
        if self.entries and step in self.entries:
            return self.entries[step]
        if isinstance(self.value, dict):
            known = step in self.value
        else:
            is_list = isinstance(self.value, list | tuple)
            known = is_list and isinstance(step, int) and 0 <= step < len(self.value)
        return Traced(self.value[step], self.source, (*self.path, step)) if known else None

    def items(self) -> "list[Traced]":
        return list(self.parts().values())

    def with_changes(self, parts: "Mapping[Step, Traced]") -> "Traced":
        value = {**self.value, **{step: part.value for step, part in parts.items()}}
        return Traced(value, self.source, self.path, {**(self.entries or {}), **parts})

    def with_fields(
        self, parts: "Mapping[Step, Traced]", *, by: "Traced | None" = None
    ) -> "Traced":
        """Return a mapping in the place of this one.

        Args:
            by: What removed a field, if anything did. Diagnostics about the missing field point
                there.
        """
        place = by or self
        value = {step: part.value for step, part in parts.items()}
        return Traced(value, place.source, place.path, dict(parts))

    def with_items(self, items: "Iterable[Traced]", *, by: "Traced | None" = None) -> "Traced":
        """Return a list in the place of this one; `by` is as in `with_fields`."""
        place, items = by or self, list(items)
        value = [item.value for item in items]
        return Traced(value, place.source, place.path, dict(enumerate(items)))

    def at(self, path: ValuePath) -> "Traced | None":
        part: Traced | None = self
        for step in path:
            part = part.part(step) if part else None
        return part

    def changed(self, path: ValuePath, change: "Callable[[Traced], Traced]") -> "Traced":
        """Return this value with the part at a path replaced by what `change` returns for it.

        Raises:
            KeyError: there is no such part.
        """
        if not path:
            return change(self)
        part = self.part(path[0])
        if part is None:
            raise KeyError(path[0])
        after = part.changed(path[1:], change)
        if isinstance(self.value, dict):
            return self.with_changes({path[0]: after})
        return self.with_items({**self.parts(), path[0]: after}.values())

    def origin_of(self, path: ValuePath) -> tuple[Source, ValuePath, bool]:
        """Return the source and path of the value at `path`; and True if that is its parent's."""
        place = self
        for n, step in enumerate(path):
            if place.entries is None:
                return place.source, (*place.path, *path[n:]), False
            part = place.part(step)
            if part is None:
                return place.source, place.path, True
            place = part
        return place.source, place.path, False

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:
        """Locate the value at `path`, or its nearest parent, in the file it came from."""
        source, written, is_missing = self.origin_of(path)
        return source.locate(written, key=key or is_missing)


class PatchError(Exception):
    """A patch that cannot be applied.

    Args:
        problem: What is wrong, to follow the name of the patched thing.
    """

    def __init__(self, problem: str, place: Traced, advice: str = "") -> None:
        super().__init__(problem)
        self.problem, self.place, self.advice = problem, place, advice
