"""Differences to what the API server would make of them, from its own dry runs.

Admission may change what is sent: a plugin that always pulls images, a policy that sets requests
when a Pod is created. So a difference counts only if a dry run of the update shows it
(reference/gitops.md 4.3). A second dry run asks what the same manifest would become if it were
created now. Where that is there already, a policy for new objects made it so, and changing it back
would go on for ever.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from msgspec import structs

from etcompile.k8s.objects import Object
from etcompile.k8s.path import KeyedPath, overlap
from etcompile.k8s.serverpath import place
from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError
from etcompile.model.protocol import ROLE_LABEL
from etcompile.plan.applysets import PART_OF
from etcompile.plan.classes import Answer, Difference
from etcompile.plan.comparison import compared
from etcompile.plan.field_values import Raw, changed_at, same, value_at
from etcompile.plan.step import ObjectRef
from etcompile.rollout.refusals import cannot_change, is_fatal, may_not

_AT_ONCE = 16
_LONGEST = 50
_ITSELF = frozenset({"CustomResourceDefinition", "Namespace"})
"""Kinds whose objects are not the same under another name."""


class DryRun:
    """Asks an API server about differences; safe to share between threads.

    Attributes:
        accepted: The objects whose update it accepts as it is planned.
        denied: Why it does not answer, in the API server's words: its user may not write there.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._new: dict[object, Future[Object | None]] = {}
        self.denied = ""
        self.accepted: set[ObjectRef] = set()

    def ask(self, differences: Sequence[Difference]) -> Iterable[Answer | None]:
        """What the API server says about differences, in their order.

        None stands for no answer, because a quota is full or a webhook knows no dry run.
        """
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            answers = [*pool.map(self._answer, differences)]
        for difference, answer in zip(differences, answers, strict=True):
            if answer is not None and answer.accepted:
                self.accepted.add(difference.ref)
        return answers

    def _answer(self, difference: Difference) -> Answer | None:
        """What is left of a difference; None if the server does not say."""
        desired, live = difference.desired, difference.live
        answer, foreseen = self._updated(desired, difference), difference.places
        if answer is None or (answer.result is not None and not answer.places):
            return answer
        new = self._as_new(difference)
        for changed in foreseen if new is not None else ():
            # Where a new object would be as the live one is, what is there stays.
            is_there = value_at(live, changed.path)
            if same(changed.path, value_at(new, changed.path), is_there):
                desired = changed_at(desired, changed.path, is_there)
        if desired is not difference.desired:
            foreseen = compared(_member(desired, difference), live, difference.owned)
            if not foreseen:
                return Answer(desired, (), accepted=True)
            answer = self._updated(desired, difference)
        if answer is not None and answer.result is None:
            return structs.replace(answer, places=foreseen)
        return answer

    def _updated(self, desired: Object, difference: Difference) -> Answer | None:
        """What an update would make of the live object; None if the API server does not say."""
        if self.denied:
            return None
        live, body = difference.live, _member(desired, difference)
        body = {**body, "metadata": {**body["metadata"], "uid": live["metadata"].get("uid")}}
        owners: list[tuple[KeyedPath, str]] = []
        try:
            result = self._cluster.server_side_apply(body, dry_run=True)
        except ClusterError as error:
            if not error.conflicts:
                return self._refused(desired, error)
            for conflict in error.conflicts:
                at = place(body, conflict.field) or place(live, conflict.field)
                words = conflict.field.removeprefix(".").split(".")
                owners.append((at.steps if at else tuple(words), conflict.manager))
            try:
                result = self._cluster.server_side_apply(body, dry_run=True, force=True)
            except ClusterError as error:
                return self._refused(desired, error)
        places = tuple(
            Raw(
                changed.path,
                changed.before,
                changed.after,
                tuple(dict.fromkeys(name for path, name in owners if overlap(path, changed.path))),
            )
            for changed in compared(result, live, None)
        )
        return Answer(desired, places, accepted=not owners, result=result)

    def _refused(self, desired: Object, error: ClusterError) -> Answer | None:
        if is_fatal(error):
            raise error
        if may_not(error):
            self.denied = error.message
        fields = cannot_change(error)
        return Answer(desired, (), accepted=False, immutable=fields) if fields else None

    def _as_new(self, difference: Difference) -> Object | None:
        """What the object would be if it were created now; None if the API server does not say.

        Alike objects, the Pods of a role with the same differences, need one answer.
        """
        if difference.ref.kind in _ITSELF:
            return None
        changes = ((at.path, repr(at.before), repr(at.after)) for at in difference.places)
        labels = difference.desired["metadata"].get("labels") or {}
        question = likeness(difference.ref, difference.job, labels), tuple(changes)
        with self._lock:
            known = self._new.get(question)
            if known is None:
                answer = self._new[question] = Future()
        if known is not None:
            return known.result()
        try:
            body = under_another_name(_member(difference.desired, difference))
            answer.set_result(self._cluster.create(body, dry_run=True))
        except ClusterError as error:
            if is_fatal(error):
                answer.set_exception(error)
                raise
            answer.set_result(None)
        return answer.result()


def likeness(ref: ObjectRef, job: str | None, labels: Mapping[str, Any]) -> object:
    """What an object has in common with those that admission treats as it: those of its role."""
    if job is None or ROLE_LABEL not in labels:
        return ref
    return job, ref.api_version, ref.kind, ref.namespace, labels[ROLE_LABEL]


def under_another_name(value: Object) -> dict[str, Any]:
    """An object to be created in a dry run while another has its name."""
    metadata = {**value["metadata"]}
    name = str(metadata.pop("name"))[:_LONGEST].rstrip("-.")
    return {**value, "metadata": {**metadata, "generateName": f"{name}-"}}


def _member(desired: Object, difference: Difference) -> Object:
    """The object with the label of its ApplySet: that of an inventory, else the one it has."""
    labels = difference.live["metadata"].get("labels") or {}
    if not (label := difference.inventory or labels.get(PART_OF)):
        return desired
    metadata = desired["metadata"]
    own = {**(metadata.get("labels") or {}), PART_OF: label}
    return {**desired, "metadata": {**metadata, "labels": own}}
