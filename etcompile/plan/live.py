"""What a plan asks of a cluster: to read objects, and nothing else.

A protocol, so that the plan stays pure: `etcompile.kubeapi` satisfies it, and so does whatever
else has objects, such as a folder or a Git revision.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from etcompile.k8s.objects import Object
from etcompile.plan.step import ObjectRef


class LiveObjects(Protocol):
    """Objects that are there now."""

    @property
    def namespace(self) -> str:
        """The namespace of objects that name none."""

    def get(self, references: Sequence[ObjectRef]) -> Iterator[Object]:
        """Those of these objects that exist, each in the version of its reference.

        Args:
            references: Any number of them. Many of a kind and namespace are better listed. A
                kind that the cluster does not know has no objects.

        Yields:
            The objects, in any order, so that few need to be in memory at a time.
        """

    def labelled(
        self,
        kinds: Iterable[tuple[str, str]],
        namespaces: Iterable[str],
        labels: Mapping[str, str],
    ) -> Iterator[Object]:
        """All objects of these kinds with these labels, but perhaps for those that `get` gave.

        Args:
            kinds: API group and kind. One that the cluster does not know has no objects.
            namespaces: Where to look for those that have one.
            labels: What they must all carry.
        """
