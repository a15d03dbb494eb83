"""The objects of a job as those of a gang: what describes it, and its marks on every Pod.

Pods of a role share their spec and their annotations, and still do afterwards: of thousands of
Pods, only what differs is made anew.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from etcompile.backend.gang.group import Place, group_of, place_of
from etcompile.backend.gang.scheduler import Membership, Scheduler
from etcompile.k8s.objects import Object
from etcompile.model import Job, Settings


class Marks:
    """What makes the objects of a job those of a gang, by its scheduler."""

    def __init__(
        self, job: Job, settings: Settings, scheduler: Scheduler, objects: Sequence[Object]
    ) -> None:
        self.group = group_of(job, settings, objects, scheduler.default_queue)
        self._scheduler = scheduler
        self._scheduler_name = settings.gang_scheduler or scheduler.scheduler_name
        self._memberships: dict[tuple[str, bool, bool], Membership] = {}
        self._shared: dict[tuple[object, ...], tuple[object, dict[str, Any]]] = {}

    def on(self, value: Object) -> dict[str, Any]:
        """The object with the marks, on itself or on the Pods that it makes."""
        if value["kind"] == "Job":
            spec = {**value["spec"], "template": self._on_pod(value["spec"]["template"])}
            return {**value, "spec": spec}
        return self._on_pod(value) if value["kind"] == "Pod" else dict(value)

    def _on_pod(self, pod: Object) -> dict[str, Any]:
        place = place_of(self.group, pod)
        if place is None:
            return dict(pod)
        member = self._membership(place)
        metadata = dict(pod["metadata"])
        metadata["labels"] = {**metadata.get("labels", {}), **member.labels}
        if member.annotations:
            annotations = metadata.get("annotations", {})
            metadata["annotations"] = self._with(annotations, member.annotations)
        spec = self._with(pod["spec"], self._fields(pod["spec"], member))
        return {**pod, "metadata": metadata, "spec": spec}

    def _membership(self, place: Place) -> Membership:
        key = (place.share.role.name, place.leads, place.core)
        if key not in self._memberships:
            self._memberships[key] = self._scheduler.membership(self.group, place)
        return self._memberships[key]

    def _fields(self, spec: Object, member: Membership) -> Mapping[str, Any]:
        """The fields of a PodSpec to set.

        What its author named stays, unless the operator of the kind replaces it; a rule compares
        it (`assignment`).
        """
        fields = dict(member.spec)
        replaces = self.group.asked.operator.replaces_scheduler
        if self._scheduler_name and (replaces or not spec.get("schedulerName")):
            fields["schedulerName"] = self._scheduler_name
        wanted = self.group.asked.priority_class
        if wanted and not spec.get("priorityClassName"):
            fields["priorityClassName"] = wanted
        return fields

    def _with(self, before: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
        """`before` with the fields; the same value for the same two."""
        key = (id(before), *((name, str(value)) for name, value in fields.items()))
        if key not in self._shared:
            # With what it was made from, whose id must not become another's meanwhile.
            self._shared[key] = (before, {**before, **fields})
        return self._shared[key][1]
