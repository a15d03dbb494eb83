"""What a compilation made, to what a plan compares: the right side of `diff` and of `apply`."""

from collections.abc import Iterator, Mapping

from etcompile.compiler import Compilation
from etcompile.k8s.objects import Object
from etcompile.plan import inventory
from etcompile.plan.live import LiveObjects
from etcompile.plan.planner import Declared
from etcompile.plan.step import ObjectKey, ObjectRef, reference


def declarations(
    compilation: Compilation,
    inventories: Mapping[str | None, str] | None = None,
    *,
    generated: bool = False,
) -> list[Declared]:
    """The desired objects, by job.

    Args:
        compilation: What was compiled.
        inventories: The ids of the jobs' ApplySets, by title; none if None.
        generated: With what is made in the cluster only, such as key pairs.
    """
    return [
        Declared(
            job=(title := job_title(group.namespace, group.name)),
            objects=(*group.generated, *group.objects) if generated else group.objects,
            waits=group.waits,
            origin=", ".join(group.sources) or None,
            inventory=(inventories or {}).get(title),
            kept=frozenset(reference(value).key for value in group.generated),
        )
        for group in compilation.groups
    ]


def job_title(namespace: str | None, name: str | None) -> str | None:
    """A job as people call it: `nlp/bert`."""
    return f"{namespace}/{name}" if namespace and name else name


class Inventories:
    """The ApplySets of the jobs of a compilation, as far as the cluster has them.

    Args:
        compilation: What was compiled.
        live: The cluster.
    """

    def __init__(self, compilation: Compilation, live: LiveObjects) -> None:
        self.ids: dict[str | None, str] = {}
        """Of the sets that are there."""
        self.wanted: dict[str | None, str] = {}
        """Of all, also those that are still to be made."""
        self.parents: dict[str | None, Object] = {}
        """The parents of those, by job."""
        parents: dict[ObjectKey, tuple[ObjectRef, str | None]] = {}
        for group in compilation.groups:
            if group.name:
                ref = inventory.parent(group.name, group.namespace or live.namespace)
                title = job_title(group.namespace, group.name)
                parents[ref.key] = ref, title
                self.wanted[title] = inventory.applyset_id(ref)
        for found in live.get([ref for ref, _ in parents.values()]):
            ref, title = parents[reference(found).key]
            if inventory.is_parent(found, ref):
                self.ids[title] = inventory.applyset_id(ref)
                self.parents[title] = found

    def members(self, live: LiveObjects) -> Iterator[Object]:
        """The objects of the sets."""
        for found in self.parents.values():
            kinds, namespaces = inventory.members(found)
            label = found["metadata"]["labels"][inventory.INVENTORY_ID]
            yield from live.labelled(kinds, namespaces, {inventory.PART_OF: label})
