"""What a compilation made, to what a plan compares: the right side of `diff` and of `apply`."""

from collections.abc import Mapping

from etcompile.compiler import Compilation
from etcompile.plan.step import Declared, reference


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
            create_only=frozenset(reference(value).key for value in group.generated),
        )
        for group in compilation.groups
    ]


def job_title(namespace: str | None, name: str | None) -> str | None:
    """A job as people call it: `nlp/bert`."""
    return f"{namespace}/{name}" if namespace and name else name
