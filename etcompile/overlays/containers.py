"""Images and resources of containers, wherever a document has any.

As with kustomize, a container is what stands in a list named `containers` or `initContainers`;
so this needs to know no kind.
"""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from etcompile.diagnostics import ValuePath
from etcompile.k8s.objects import CONTAINERS
from etcompile.k8s.strategic import merged
from etcompile.k8s.traced import Step, Traced
from etcompile.overlays.overlay import ImageChange, ResourceChange

_SUFFIX = re.compile(r"(:[^/:@]*)?(@.*)?\Z")


def with_image(value: Traced, at: ValuePath, change: ImageChange) -> Traced | None:
    """A document with an image changed; None if no container has the image.

    Args:
        value: The document.
        at: Below what part to look.
        change: Which image, and what about it.
    """

    def changed(container: Traced) -> Traced:
        parts = container.parts()
        image = _new_image(parts["image"].value, change.entry.value)
        if image != parts["image"].value:
            parts["image"] = _written(image, change.entry, ("digest", "newTag", "newName"))
        if policy := change.entry.part("pullPolicy"):
            parts["imagePullPolicy"] = policy
        return container.with_fields(parts)

    places = [
        place
        for place, container in _containers(value, at, CONTAINERS)
        if isinstance(image := container.get("image"), str) and _has_name(image, change.name)
    ]
    for place in places:
        value = value.changed(place, changed)
    return value if places else None


def new_image(image: str, change: ImageChange) -> str | None:
    """The image that a change makes of one; None if it is about another."""
    return _new_image(image, change.entry.value) if _has_name(image, change.name) else None


def with_resources(value: Traced, at: ValuePath, change: ResourceChange) -> Traced | None:
    """A document with resources changed; None if it has no such container.

    Args:
        value: The document.
        at: Below what part to look.
        change: Which containers, and their resources. Init containers are left alone.
    """

    def changed(container: Traced) -> Traced:
        parts = container.parts()
        entry = change.entry
        resources = parts.get("resources") or entry.with_fields({})
        wish: dict[Step, Traced] = {
            step: part for step, part in entry.parts().items() if step in ("limits", "requests")
        }
        same = "requests" in wish and not isinstance(wish["requests"].value, Mapping)
        as_limits = wish.pop("requests") if same else None
        resources = merged(resources, entry.with_fields(wish), "")
        kept = resources.parts()
        if as_limits:
            limits = kept["limits"].parts() if "limits" in kept else {}
            requests = kept.get("requests") or as_limits.with_fields({})
            equal: dict[Step, Traced] = {
                n: Traced(p.value, as_limits.source, as_limits.path) for n, p in limits.items()
            }
            kept["requests"] = requests.with_fields({**requests.parts(), **equal})
        kept = {step: part for step, part in kept.items() if part.value}
        parts.pop("resources", None)
        if kept:
            parts["resources"] = resources.with_fields(kept)
        return container.with_fields(parts)

    places = [
        place
        for place, container in _containers(value, at, ("containers",))
        if fnmatchcase(str(container.get("name", "")), change.container)
    ]
    for place in places:
        value = value.changed(place, changed)
    return value if places else None


def images(value: Any) -> list[str]:
    """The images of a document's containers."""
    return [
        container["image"]
        for _, container in _found(value, (), CONTAINERS)
        if isinstance(container.get("image"), str)
    ]


def _containers(
    value: Traced, at: ValuePath, lists: tuple[str, ...]
) -> Iterator[tuple[ValuePath, Mapping[str, Any]]]:
    part = value.at(at)
    return _found(part.value, at, lists) if part else iter(())


def _found(
    value: Any, at: ValuePath, lists: tuple[str, ...]
) -> Iterator[tuple[ValuePath, Mapping[str, Any]]]:
    """The containers below a value, with their paths."""
    if isinstance(value, list):
        for n, item in enumerate(value):
            yield from _found(item, (*at, n), lists)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key in lists and isinstance(inner, list):
                for n, container in enumerate(inner):
                    if isinstance(container, Mapping):
                        yield (*at, key, n), container
            elif key not in ("metadata", "status") or at:
                yield from _found(inner, (*at, key), lists)


def _has_name(image: str, name: str) -> bool:
    return fnmatchcase(_SUFFIX.sub("", image, count=1), name)


def _new_image(image: str, entry: Mapping[str, Any]) -> str:
    """The image with another name, tag or digest; a new tag or digest replaces both."""
    name = _SUFFIX.sub("", image, count=1)
    suffix = image[len(name) :]
    tag, digest = entry.get("newTag"), entry.get("digest")
    if tag or digest:
        suffix = (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")
    return f"{entry.get('newName') or name}{suffix}"


def _written(value: str, entry: Traced, fields: tuple[str, ...]) -> Traced:
    """A value that comes from the first of these fields that the entry has."""
    origin = next((part for field in fields if (part := entry.part(field))), entry)
    return Traced(value, origin.source, origin.path)
