"""Tell which changes of an existing object the API server refuses.

The rules are rows of `schemas/kubernetes/updates.yaml`, whose comments say what a row is. They are
for two folders, or an output folder and what would be written over it: a cluster's dry run decides
itself.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from etcompile.k8s import quantity
from etcompile.k8s.defaults import default, table
from etcompile.k8s.listkeys import ABSENT, value_at
from etcompile.k8s.objects import Object
from etcompile.k8s.path import KeyedPath, keyed
from etcompile.plan.comparison import TAINTS, Raw, compared, encoded
from etcompile.plan.step import masked


class Row(Struct, frozen=True):
    """What may become of fields of a kind: a row of `updates.yaml`."""

    kind: str
    fields: tuple[str, ...]
    group: str = ""
    accepts: str = ""
    restarts: bool = False
    whole: bool = False


_ROWS = msgspec.json.Decoder(tuple[Row, ...])


class Change(Struct, frozen=True):
    """A change that is refused, or that restarts a container in place.

    Args:
        path: The field, in steps.
        old: Its value, or its default; None if it has none.
        secret: The values must not be shown.
    """

    verdict: Literal["refused", "restarts"]
    path: KeyedPath
    old: Any
    new: Any
    secret: bool

    @property
    def field(self) -> str:
        return keyed(self.path)


@functools.cache
def rows() -> dict[tuple[str, str], tuple[tuple[KeyedPath, Row], ...]]:
    by_kind: dict[tuple[str, str], list[tuple[KeyedPath, Row]]] = {}
    for row in _ROWS.decode(msgspec.json.encode(table()["changes"])):
        fields = [(tuple(field.replace("[", ".[").split(".")), row) for field in row.fields]
        by_kind.setdefault((row.group, row.kind), []).extend(fields)
    return {kind: tuple(fields) for kind, fields in by_kind.items()}


def row_of(kind: tuple[str, str], path: KeyedPath) -> tuple[KeyedPath, Row] | None:
    for steps, row in rows().get(kind, ()):
        if len(path) >= len(steps) and all(
            step in (part, "*") or (step == "[*]" and part.startswith("["))
            for step, part in zip(steps, path, strict=False)
        ):
            return steps, row
    return None


def changes(old: Object, new: Object, places: Sequence[Raw] | None = None) -> list[Change]:
    """Return the changes of an object that are refused, or restart something.

    Args:
        old: The object as it was declared: JSON, without nulls, of a kind and with a name.
        places: Where they differ, if that is known.

    Returns:
        One change per field, in the order of the fields; a field that only one of the states
        has is one, whatever is inside it.
    """
    kind = (old["apiVersion"].rpartition("/")[0], old["kind"])
    if old["kind"] == "Secret":
        old, new = encoded(old), encoded(new)
    if places is None:
        places = compared(new, old, None) if kind in rows() else ()
    result: dict[tuple[KeyedPath, str], Change] = {}
    for place in sorted(places, key=lambda place: place.path):
        for leaf in leaves(place):
            match = row_of(kind, leaf)
            if match is None:
                continue
            steps, row = match
            field = leaf[: len(steps)]
            accepts = _ACCEPTS[row.accepts]
            verdict: Literal["refused", "restarts"] = "restarts" if row.restarts else "refused"
            if not accepts(_value(old, field), _value(new, field), old, new):
                verdict = "refused"
            elif not row.restarts:
                continue
            shown = field if row.whole and len(field) <= len(place.path) else place.path
            if shown[-1].startswith("[") and ABSENT in (place.before, place.after):
                shown = shown[:-1]  # the list has another item
            before, after = _value(old, shown), _value(new, shown)
            secret = any(
                value is not None and masked(old["kind"], shown, value) != value
                for value in (before, after)
            )
            change = Change(verdict, shown, before, after, secret)
            result.setdefault((shown, verdict), change)
    return list(result.values())


def leaves(place: Raw) -> Iterator[KeyedPath]:
    value = place.after if place.before is ABSENT else place.before
    if not isinstance(value, Mapping) or ABSENT not in (place.before, place.after):
        yield place.path
        return
    for key, inner in value.items():
        after = inner if place.before is ABSENT else ABSENT
        before = ABSENT if place.before is ABSENT else inner
        yield from leaves(Raw((*place.path, key), before, after))


def _value(of: Object, path: KeyedPath) -> Any:
    value = value_at(of, path)
    if value is not ABSENT:
        return value
    around = value_at(of, path[:-1])
    return default(of["kind"], path, around if isinstance(around, Mapping) else {})


def _tolerations_added(old: Any, new: Any, *_: Object) -> bool:
    def lasting(toleration: Object) -> Object:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    present = [lasting(toleration) for toleration in new or ()]
    return all(
        lasting(toleration) in present
        for toleration in old or ()
        if toleration.get("key") not in TAINTS
    )


def _grown(old: Any, new: Any, *_: Object) -> bool:
    before, after = quantity.number(old), quantity.number(new)
    return before is not None and after is not None and after >= before


def _elastic(old: Any, new: Any, before: Object, after: Object) -> bool:
    """Accept that an Indexed job scales, if both of its counts stay equal."""
    counts = [
        (completions, job.get("spec", {}).get("parallelism", 1))
        for completions, job in ((old, before), (new, after))
    ]
    return before.get("spec", {}).get("completionMode") == "Indexed" and all(
        completions is not None and completions == parallelism
        for completions, parallelism in counts
    )


_ACCEPTS: dict[str, Callable[[Any, Any, Object, Object], bool]] = {
    "": lambda *_: False,
    # Not one that comes or goes with its container.
    "changed": lambda old, new, *_: bool(old and new),
    "elastic": _elastic,
    "external_name": lambda _old, _new, *objects: any(
        value.get("spec", {}).get("type") == "ExternalName" for value in objects
    ),
    "grown": _grown,
    "items_removed": lambda old, new, *_: all(item in (old or ()) for item in new or ()),
    "lowered": lambda old, new, *_: old is None or (new is not None and new <= old),
    "since_beta": lambda _old, _new, _, after: "/v1alpha" not in after["apiVersion"],
    "suspended": lambda _old, _new, job, _: job.get("spec", {}).get("suspend") is True,
    "tolerations_added": _tolerations_added,
    "unless_immutable": lambda _old, _new, before, _: before.get("immutable") is not True,
    "unless_true": lambda old, *_: old is not True,
}
"""Whether a change is accepted: the field's old and new value, and both objects."""
