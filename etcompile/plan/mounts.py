"""Which Pods use an object that a plan replaces or deletes.

The API server deletes a claim only when no Pod that was ever scheduled names it, ended or not
(the finalizer `kubernetes.io/pvc-protection`). Until then new Pods cannot mount the claim, and the
apply that began to delete it waits for as long as the Pods run. A Secret or a ConfigMap is deleted
at once, and the Pods of another job that name it cannot start again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from etcompile.k8s import pods
from etcompile.k8s.objects import Object
from etcompile.k8s.references import references
from etcompile.model.protocol import JOB_LABEL
from etcompile.plan.schedule import Draft
from etcompile.plan.step import DESTROYS, ObjectKey, Reason, Step, conflict

_CLAIM = "PersistentVolumeClaim"
_SHARED = frozenset({"ConfigMap", _CLAIM, "Secret", "ServiceAccount"})
"""The kinds of objects that Pods of several jobs may use."""
_SHOWN = 3
"""How many Pods a message names."""

ReadPods = Callable[[str], Iterable[Object]]
"""Reads all Pods of a namespace."""


class _User(Struct, frozen=True):
    job: str | None
    scheduled: bool
    ended: bool


class Mounts:
    """The live Pods that use Secrets, ConfigMaps, claims and ServiceAccounts.

    Args:
        read: Reads the Pods of a namespace when a step needs them; None for those noted only.
    """

    def __init__(self, namespace: str, read: ReadPods | None = None) -> None:
        self._namespace = namespace
        self._read = read
        self._complete: set[str] = set()
        self._users: dict[tuple[str, str, str], dict[str, _User]] = defaultdict(dict)

    def noted(self, live: Iterable[Object]) -> Iterator[Object]:
        """The live objects as they come, each looked at in passing."""
        for value in live:
            if value["kind"] == "Pod":
                metadata = value["metadata"]
                where = metadata.get("namespace") or self._namespace
                user = _User(
                    job=(metadata.get("labels") or {}).get(JOB_LABEL),
                    scheduled=bool(value["spec"].get("nodeName")),
                    ended=pods.has_ended(value),
                )
                for used in references(value):
                    if used.kind in _SHARED:
                        self._users[used.kind, where, used.name][metadata["name"]] = user
            yield value

    def held(
        self, drafts: Sequence[Draft], jobs: Mapping[ObjectKey, str | None] | None = None
    ) -> list[Draft]:
        """The drafts, of which those are refused that destroy what other Pods use.

        Pods that the plan deletes or replaces hold a claim that it replaces, too: a plan deletes
        last, and a new Pod would need the new claim, which waits for the old Pod to be gone.

        Args:
            drafts: The steps of a plan.
            jobs: The declared objects, each with its job: Pods of the same job do not count.
        """
        going = {
            draft.step.ref.key_in(self._namespace)
            for draft in drafts
            if draft.step.action in DESTROYS and draft.step.ref.kind == "Pod"
        }
        return [
            Draft(self._refused(draft.step, going, jobs or {}), draft.value) for draft in drafts
        ]

    def _refused(
        self, step: Step, going: set[ObjectKey], jobs: Mapping[ObjectKey, str | None]
    ) -> Step:
        if step.action not in DESTROYS or step.ref.kind not in _SHARED or step.needs:
            return step
        where = step.ref.namespace or self._namespace
        if self._read is not None and where not in self._complete:
            self._complete.add(where)
            for _ in self.noted(self._read(where)):
                pass
        replaced_claim = step.ref.kind == _CLAIM and step.action == "replace"
        job = (step.job or "").rpartition("/")[2]
        users = []
        for name, pod in self._users[step.ref.kind, where, step.ref.name].items():
            key = ("", "Pod", where, name)
            own = key in going or jobs.get(key, "") == step.job or (job and pod.job == job)
            if (replaced_claim and pod.scheduled) or (
                not own and (step.ref.kind == _CLAIM or not pod.ended)
            ):
                users.append(name)
        if not users:
            return step
        what, verb = ("Pods", "use") if len(users) > 1 else ("Pod", "uses")
        named = ", ".join(users[:_SHOWN])
        rest = f" and {len(users) - _SHOWN} more" if len(users) > _SHOWN else ""
        text = f"the {what} {named}{rest}, which this plan does not delete, {verb} it"
        if replaced_claim:
            text = (
                f"{what} {named}{rest} would keep it: Kubernetes deletes a claim when no Pod uses"
                " it; suspend the job or delete its Pods first, with the claim as it is now"
            )
        return conflict(step, *step.why, Reason(text))
