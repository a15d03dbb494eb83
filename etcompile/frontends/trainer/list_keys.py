"""Lists of TrainJobs and runtimes whose entries Trainer's CRDs tell apart by some of their fields.

Such a list with two entries alike is refused by the API server, and a merge of patches could only
lose one of them. Apart from the other refusals, because it comes before patches are merged.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, Source
from etcompile.frontends.notes import not_compiled
from etcompile.k8s.listkeys import POD_LISTS, key_values
from etcompile.k8s.path import dotted
from etcompile.model import Origin

_KEYS: Mapping[str, tuple[str, ...]] = {
    **POD_LISTS,
    "dependsOn": ("name",),
    "replicatedJobs": ("name",),
    "runtimePatches": ("manager",),
    "targets": ("jobName",),
}
"""The fields by which entries of a list are told apart, by the list's name."""
_OF_PATCHES = {**_KEYS, "volumeMounts": ("name",)}
"""The same in the patches of a TrainJob: one mount of each volume."""


def problems(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """Entries that another entry of their list is like."""
    yield from _below(Origin(job, ("spec",)), job.data["spec"], _OF_PATCHES)
    yield from _below(Origin(runtime, ("spec",)), runtime.data["spec"], _KEYS)


def _below(
    origin: Origin, value: Any, tables: Mapping[str, tuple[str, ...]]
) -> Iterator[Diagnostic]:
    """The entries in a value, at any depth, that others are like."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if isinstance(inner, list) and (keys := tables.get(name)):
                yield from _alike(origin.at(name), inner, keys)
            yield from _below(origin.at(name), inner, tables)
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            yield from _below(origin.at(number), entry, tables)


def _alike(origin: Origin, entries: list[Any], keys: tuple[str, ...]) -> Iterator[Diagnostic]:
    seen: set[tuple[str, ...]] = set()
    for number, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            continue
        named = tuple(str(value) for value in key_values(entry, keys))
        if named in seen:
            where = f"{dotted(origin.path)} '{' '.join(named)}'"
            reason = f"another entry of the list has this {' and '.join(keys)}"
            yield not_compiled(origin.locate(number), where, reason, "remove one of them")
        seen.add(named)
