"""Annotations for the tool that syncs the output, a module per tool.

Each tool is one function from an object, its wave and what is around it to annotations: those
of reference/gitops.md 9 and nothing else. A new tool is a module here, a row in `_TOOLS` and a
name in `etcompile.model.settings`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import structs

from etcompile.backend.gitops import argocd, flux, kapp, kpt
from etcompile.backend.gitops.situation import Situation
from etcompile.k8s.objects import Object
from etcompile.model import Profile

__all__ = ["Situation", "annotated"]

_Annotations = Callable[[Object, int, Situation], dict[str, str]]


def _nothing(_value: Object, _wave: int, _situation: Situation) -> dict[str, str]:
    return {}


_TOOLS: dict[Profile, _Annotations] = {
    "plain": _nothing,
    "argocd": argocd.annotations,
    "flux": flux.annotations,
    "kapp": kapp.annotations,
    "kpt": kpt.annotations,
}


def annotated(
    objects: Sequence[Object],
    profiles: Sequence[Profile],
    wave: Callable[[Object], int],
    situation: Situation,
) -> tuple[Object, ...]:
    """The objects with the annotations of the chosen tools.

    Returns:
        The objects in the same order. An annotation that an object has stays as it is: whoever
        wrote it knows better than a profile for all objects.
    """
    tools = [_TOOLS[profile] for profile in dict.fromkeys(profiles) if profile != "plain"]
    if not tools:
        return tuple(objects)
    waves = [wave(value) for value in objects]
    situation = structs.replace(situation, waves=tuple(sorted({*situation.waves, *waves})))
    searched = {found: structs.replace(situation, variables=found) for found in (False, True)}
    # A role's Pods have the same annotations: they share one mapping, as they share a spec.
    shared: dict[tuple[int, tuple[tuple[str, str], ...]], dict[str, str]] = {}
    made = []
    for value, number, variables in zip(objects, waves, _with_variables(objects), strict=True):
        around = searched[variables]
        added = {key: text for tool in tools for key, text in tool(value, number, around).items()}
        if not added:
            made.append(value)
            continue
        metadata = value["metadata"]
        given = metadata.get("annotations")
        key = (id(given), tuple(added.items()))
        merged = shared.setdefault(key, {**added, **(given or {})})
        made.append({**value, "metadata": {**metadata, "annotations": merged}})
    return tuple(made)


def _with_variables(objects: Sequence[Object]) -> Iterator[bool]:
    """For each object, whether any of its texts contains `${`."""
    # A role's Pods share one spec: it need not be searched once for each of them.
    known: dict[int, bool] = {}

    def search(value: object) -> bool:
        if isinstance(value, str):
            return "${" in value
        if isinstance(value, Mapping):
            return any("${" in key for key in value) or any(map(search, value.values()))
        return isinstance(value, list | tuple) and any(map(search, value))

    def search_once(value: object) -> bool:
        if id(value) not in known:
            known[id(value)] = search(value)
        return known[id(value)]

    for value in objects:
        spec = value.get("spec")
        parts = spec.values() if isinstance(spec, Mapping) else ()
        yield any(map(search_once, parts)) or any(
            search(inner) for key, inner in value.items() if key != "spec"
        )
