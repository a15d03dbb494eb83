"""A JSON value whose every part knows where it was written.

Patching mixes values of several files; a diagnostic about a patched value must still point into
the file that it came from. A value that nothing has touched costs one node, however large.
"""

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from etcompile.diagnostics import Location, Source, ValuePath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Step = str | int


class Traced(Struct, frozen=True, eq=False):
    """A JSON value and where it was written.

    Args:
        entries: The parts that were written elsewhere than below `path`, by key or index; None
            while there are none.
    """

    value: Any
    source: Source
    path: ValuePath = ()
    entries: "Mapping[Step, Traced] | None" = None

    @property
    def data(self) -> Any:
        """The value: a mapping is a document again, a `Source`."""
        return self.value

    @property
    def relative(self) -> str:
        """The file of the value itself; parts of it may be of others."""
        return self.source.relative

    def parts(self) -> "dict[Step, Traced]":
        """The parts of a mapping by key, of a list by index; none of anything else."""
        if isinstance(self.value, dict):
            steps: Iterable[Step] = self.value
        else:
            steps = range(len(self.value)) if isinstance(self.value, list | tuple) else ()
        own, path = self.entries or {}, self.path
        return {
            step: own.get(step) or Traced(self.value[step], self.source, (*path, step))
            for step in steps
        }

    def part(self, step: Step) -> "Traced | None":
        """The part at a key or index, None if there is none."""
        if self.entries and step in self.entries:
            return self.entries[step]
        if isinstance(self.value, dict):
            known = step in self.value
        else:
            is_list = isinstance(self.value, list | tuple)
            known = is_list and isinstance(step, int) and 0 <= step < len(self.value)
        return Traced(self.value[step], self.source, (*self.path, step)) if known else None

    def items(self) -> "list[Traced]":
        """The items of a list."""
        return list(self.parts().values())

    def with_changes(self, parts: "Mapping[Step, Traced]") -> "Traced":
        """The mapping with some of its fields replaced, or with more."""
        value = {**self.value, **{step: part.value for step, part in parts.items()}}
        return Traced(value, self.source, self.path, {**(self.entries or {}), **parts})

    def with_fields(
        self, parts: "Mapping[Step, Traced]", *, by: "Traced | None" = None
    ) -> "Traced":
        """A mapping in this one's place.

        Args:
            by: What took a field away, if anything did: whoever misses the field is shown that.
        """
        place = by or self
        value = {step: part.value for step, part in parts.items()}
        return Traced(value, place.source, place.path, dict(parts))

    def with_items(self, items: "Iterable[Traced]", *, by: "Traced | None" = None) -> "Traced":
        """A list in this one's place, as `with_fields`."""
        place, items = by or self, list(items)
        value = [item.value for item in items]
        return Traced(value, place.source, place.path, dict(enumerate(items)))

    def at(self, path: ValuePath) -> "Traced | None":
        """The part at a path, None if there is none."""
        part: Traced | None = self
        for step in path:
            part = part.part(step) if part else None
        return part

    def changed(self, path: ValuePath, change: "Callable[[Traced], Traced]") -> "Traced":
        """This value with the part at a path replaced by what `change` makes of it.

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
        """Return whose the value at `path` is, its path there, and whether that is its parent's."""
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
        """The place of the value at `path`, or of its nearest parent, in the file it came from."""
        source, written, is_missing = self.origin_of(path)
        return source.locate(written, key=key or is_missing)


class PatchError(Exception):
    """A patch cannot be applied.

    Args:
        problem: What is wrong, to be put after the name of what was patched.
    """

    def __init__(self, problem: str, place: Traced, advice: str = "") -> None:
        super().__init__(problem)
        self.problem, self.place, self.advice = problem, place, advice
