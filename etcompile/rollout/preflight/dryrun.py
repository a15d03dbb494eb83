"""What an API server would do, from its own dry runs: the answers that a plan asks for.

A dry run goes through the same admission, validation and field owners as the write would, and
writes nothing (`etcompile.plan.admission` says why they are asked for, and judges the answers).
"""

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from etcompile.k8s.objects import Object
from etcompile.k8s.serverpath import place
from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError
from etcompile.plan.admission import Conflict, Doubt, Told, Updated, told
from etcompile.rollout.refusals import cannot_change, is_fatal, may_not

if TYPE_CHECKING:
    from etcompile.plan.step import ObjectRef

_LONGEST = 50
_ITSELF = frozenset({"CustomResourceDefinition", "Namespace"})
"""Kinds whose objects are not the same under another name."""


class DryRun:
    """Asks an API server about differences; safe to share between threads.

    Args:
        concurrency: How many requests at once.

    Attributes:
        accepted: The objects whose update it accepts as it is planned.
        denied: Why it does not answer, in the API server's words: who asks may not write there.
    """

    def __init__(self, cluster: Cluster, concurrency: int = 16) -> None:
        self._cluster = cluster
        self._concurrency = concurrency
        self._lock = threading.Lock()
        self._created: dict[object, Future[Object | None]] = {}
        self.denied = ""
        self.accepted: set[ObjectRef] = set()

    def ask(self, doubts: Sequence[Doubt]) -> Iterable[Told | None]:
        """What the API server says about differences, in their order.

        Raises:
            ClusterError: it cannot be reached.
        """
        if len(doubts) < 2:
            answers = [told(doubt, self) for doubt in doubts]
        else:
            with ThreadPoolExecutor(self._concurrency) as pool:
                answers = [*pool.map(lambda doubt: told(doubt, self), doubts)]
        for doubt, answer in zip(doubts, answers, strict=True):
            if answer is not None and answer.accepted:
                self.accepted.add(doubt.ref)
        return answers

    def updated(self, desired: Object, live: Object) -> Updated | None:
        """What an update would make of a live object; None if the API server does not say."""
        if self.denied:
            return None
        body = {**desired, "metadata": {**desired["metadata"], "uid": live["metadata"].get("uid")}}
        try:
            return Updated(self._cluster.server_side_apply(body, dry_run=True))
        except ClusterError as error:
            if not error.conflicts:
                return self._refused(error)
            conflicts = tuple(_conflicts(error, body, live))
        try:
            return Updated(
                self._cluster.server_side_apply(body, dry_run=True, force=True), conflicts
            )
        except ClusterError as error:
            return self._refused(error)

    def created(self, desired: Object, likeness: object) -> Object | None:
        """What the object would be if it were created now; None if the API server does not say."""
        if desired["kind"] in _ITSELF:
            return None
        with self._lock:
            known = self._created.get(likeness)
            if known is None:
                answer = self._created[likeness] = Future()
        if known is not None:
            return known.result()
        try:
            made: Object | None = self._cluster.create(under_another_name(desired), dry_run=True)
        except ClusterError as error:
            if is_fatal(error):
                answer.set_exception(error)
                raise
            made = None
        answer.set_result(made)
        return made

    def _refused(self, error: ClusterError) -> Updated | None:
        if is_fatal(error):
            raise error
        if may_not(error):
            self.denied = error.message
        fields = cannot_change(error)
        return Updated(None, immutable=fields) if fields else None


def under_another_name(value: Object) -> dict[str, Any]:
    """An object to be created beside the one of its name, in a dry run."""
    metadata = {**value["metadata"]}
    name = str(metadata.pop("name"))[:_LONGEST].rstrip("-.")
    return {**value, "metadata": {**metadata, "generateName": f"{name}-"}}


def _conflicts(error: ClusterError, desired: Object, live: Object) -> Iterable[Conflict]:
    for conflict in error.conflicts:
        found = place(desired, conflict.field) or place(live, conflict.field)
        steps = found.steps if found else tuple(conflict.field.removeprefix(".").split("."))
        yield Conflict(steps, conflict.manager)
