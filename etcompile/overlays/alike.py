"""Objects that are the same but for some texts, as one value with gaps where the texts differ.

What is done to that value is done to all of them at once, as long as nothing asks what a gap
holds: asking raises `GapRead`, and then each object has to be worked on by itself. So whoever
works on a value with gaps cannot get another outcome than with each object.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from etcompile.diagnostics import ValuePath
from etcompile.k8s.objects import Object
from etcompile.overlays.traced import Traced

Texts = Sequence[str]
_Places = Mapping[str | int, Any]


class GapRead(Exception):  # noqa: N818 - no error: the answer to a question
    """Something asked for the text of a gap, which is another one in each object."""


class Gap(str):
    """Stands for a text that is not the same in all objects; it equals itself only.

    It is a text to whoever asks for its type, as what it stands for is.
    """

    number: int

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        raise GapRead

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        raise GapRead


def _refuse(*_: object, **__: object) -> Any:
    raise GapRead


_OF_OBJECTS = frozenset(dir(object)) - {"__str__", "__repr__", "__format__"}
for _name in frozenset(dir(str)) - _OF_OBJECTS | {"__lt__", "__le__", "__gt__", "__ge__"}:
    setattr(Gap, _name, _refuse)


class Alike(Struct, frozen=True):
    """Objects that differ in some texts only.

    Args:
        value: What they share, with gaps.
        texts: What each of them has in the gaps, by its number in the list it is from.
    """

    value: Object
    texts: Mapping[int, Texts]

    def only(self, numbers: Iterable[int]) -> "Alike":
        """Some of the objects."""
        return structs.replace(self, texts={number: self.texts[number] for number in numbers})


def grouped(objects: Sequence[Object], key: Callable[[Object], Hashable]) -> list[Alike]:
    """Objects in groups of those that are alike.

    Args:
        objects: JSON objects.
        key: Tells apart what must not come into one group.

    Returns:
        Groups, each of at least one object; one that is like no other is its group's value.
    """
    found: dict[Hashable, list[_Group]] = {}
    for number, value in enumerate(objects):
        groups = found.setdefault(key(value), [])
        # The latest of them is enough: what is alike stands side by side.
        if not (groups and groups[-1].takes(number, value)):
            groups.append(_Group(value, [number]))
    return [group.alike(objects) for groups in found.values() for group in groups]


class Filling(Struct, frozen=True):
    """What makes each object's own value of one with gaps; parts without gaps are shared.

    Args:
        value: The value with gaps.
        places: Where it has them: the number of a gap, or the parts with any; None without.
    """

    value: Any
    places: Any

    @property
    def shared(self) -> bool:
        """Whether all objects have the value as it is."""
        return self.places is None

    def of(self, texts: Texts) -> Any:
        """The value of the object that has these texts."""
        return _filled(self.value, self.places, texts)


def filling(value: Any) -> Filling:
    """What fills the gaps of a value."""
    return Filling(value, _places(value))


def filled(value: Traced, texts: Texts) -> Traced:
    """A traced value with the gaps filled."""
    own = filling(value.value).of(texts)
    if own is value.value:
        return value
    entries = value.entries
    if entries is not None:
        entries = {step: filled(part, texts) for step, part in entries.items()}
    return structs.replace(value, value=own, entries=entries)


class _Group(Struct):
    first: Object
    numbers: list[int]
    paths: dict[ValuePath, None] = {}

    def takes(self, number: int, value: Object) -> bool:
        """Takes an object in, if it is like the first."""
        paths: list[ValuePath] = []
        if not _alike(self.first, value, (), paths):
            return False
        self.numbers.append(number)
        self.paths.update(dict.fromkeys(paths))
        return True

    def alike(self, objects: Sequence[Object]) -> Alike:
        """The objects of the group as one."""
        value: Any = self.first
        for number, path in enumerate(self.paths):
            gap = Gap()
            gap.number = number
            value = _with(value, path, gap)
        texts = {
            number: tuple(_at(objects[number], path) for path in self.paths)
            for number in self.numbers
        }
        return Alike(value, texts)


def _alike(one: Any, other: Any, at: ValuePath, differing: list[ValuePath]) -> bool:
    """Whether two values differ in texts only; adds the paths of these."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, Mapping):
        return list(one) == list(other) and all(
            _alike(part, other[step], (*at, step), differing) for step, part in one.items()
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(
            _alike(part, other[n], (*at, n), differing) for n, part in enumerate(one)
        )
    if one != other:
        differing.append(at)
        return isinstance(one, str)
    return True


def _at(value: Any, path: ValuePath) -> Any:
    for step in path:
        value = value[step]
    return value


def _with(value: Any, path: ValuePath, part: Any) -> Any:
    if not path:
        return part
    return _put(value, {path[0]: _with(value[path[0]], path[1:], part)})


def _put(value: Any, parts: Mapping[Any, Any]) -> Any:
    """A mapping or a list with other values in some places."""
    if isinstance(value, Mapping):
        return {**value, **parts}
    return type(value)(parts.get(n, part) for n, part in enumerate(value))


def _places(value: Any) -> int | _Places | None:
    """Where a value has gaps, as `Filling` says."""
    if isinstance(value, Gap):
        return value.number
    if isinstance(value, Mapping):
        parts: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list | tuple):
        parts = enumerate(value)
    else:
        return None
    found = {step: places for step, part in parts if (places := _places(part)) is not None}
    return found or None


def _filled(value: Any, places: int | _Places | None, texts: Texts) -> Any:
    if places is None:
        return value
    if isinstance(places, int):
        return texts[places]
    return _put(value, {step: _filled(value[step], place, texts) for step, place in places.items()})
