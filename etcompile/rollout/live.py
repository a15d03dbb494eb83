"""A cluster as a plan sees it: objects to read (`etcompile.plan.live.LiveObjects`).

Apart from the client because it decides how to ask: many objects of a kind and namespace are
listed page by page, a few are asked for one by one.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from etcompile.k8s.objects import Object
from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.discovery import Resource
from etcompile.kubeapi.errors import ClusterError
from etcompile.plan.inventory import PART_OF
from etcompile.plan.step import ObjectRef

_FEW = 8
"""So many objects are asked for one by one, in less time than a page of others takes."""


class Live:
    """The objects of a cluster.

    Every method raises ClusterError.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._versions: dict[str, str] = {}
        """The version in which objects of a group were asked for by name."""
        self._passed: dict[tuple[str, str, str], list[Object]] = {}
        """Of what was listed as a whole: members of an ApplySet that nobody had asked for."""

    @property
    def namespace(self) -> str:
        """The namespace of objects that name none."""
        return self._cluster.namespace

    def get(self, references: Sequence[ObjectRef]) -> Iterator[Object]:
        """Those of these objects that exist, each in the version of its reference."""
        wanted: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        for ref in references:
            wanted[ref.api_version, ref.kind, ref.namespace or self.namespace].add(ref.name)
        for (version, kind, namespace), names in wanted.items():
            if (resource := self._resource(version, kind)) is None:
                continue
            self._versions[version.rpartition("/")[0]] = version
            if len(names) <= _FEW:
                for name in sorted(names):
                    if (found := self._cluster.get(resource, name, namespace)) is not None:
                        yield found
                continue
            passed: list[Object] = []
            for page in self._cluster.pages(resource, namespace):
                for item in page.items:
                    metadata = item["metadata"]
                    if metadata["name"] in names:
                        yield item
                    elif PART_OF in (metadata.get("labels") or {}):
                        passed.append(item)
            self._passed[version, kind, namespace] = passed

    def labelled(
        self,
        kinds: Iterable[tuple[str, str]],
        namespaces: Iterable[str],
        labels: Mapping[str, str],
    ) -> Iterator[Object]:
        """All objects of these kinds with these labels, but perhaps for those that `get` gave."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        places = list(dict.fromkeys(namespaces))
        for group, kind in dict.fromkeys(kinds):
            # In the version of the declared objects of the group, if there are any.
            resource = self._resource(self._versions.get(group), kind)
            resource = resource or self._cluster.served(group, kind)
            if resource is None:
                continue
            for namespace in places if resource.namespaced else places[:1]:
                place = resource.api_version, kind, namespace or self.namespace
                passed = self._passed.get(place)
                if passed is not None and labels.keys() == {PART_OF}:
                    of_set = labels[PART_OF]
                    yield from (
                        item for item in passed if item["metadata"]["labels"][PART_OF] == of_set
                    )
                    continue
                for page in self._cluster.pages(resource, namespace, labels=selector):
                    yield from page.items

    def _resource(self, version: str | None, kind: str) -> Resource | None:
        if version is None:
            return None
        try:
            return self._cluster.resource(version, kind)
        except ClusterError as error:
            if error.not_found:
                return None
            raise
