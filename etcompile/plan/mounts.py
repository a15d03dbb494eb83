"""Find the Pods that use an object that a plan replaces or deletes.

The API server deletes a claim only when no Pod that was ever scheduled names it, ended or not (the
finalizer `kubernetes.io/pvc-protection`), and new Pods cannot mount it until then. A Secret or a
ConfigMap is deleted at once, and the Pods of another job that name it cannot start again.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from etcompile.k8s.objects import Object, labels_of
from etcompile.k8s.pods import has_ended
from etcompile.k8s.references import references
from etcompile.model.protocol import JOB_LABEL
from etcompile.naming import some
from etcompile.plan.schedule import Draft
from etcompile.plan.step import DESTROYS, ObjectKey, Reason, Step, conflict

_CLAIM = "PersistentVolumeClaim"
_SHARED = frozenset({"ConfigMap", _CLAIM, "Secret", "ServiceAccount"})
"""The kinds of objects that Pods of several jobs may use."""


def endangered(drafts: Iterable[Draft], namespace: str) -> set[str]:
    return {draft.step.ref.namespace or namespace for draft in drafts if _is_shared(draft.step)}


def _is_shared(step: Step) -> bool:
    return step.action in DESTROYS and step.ref.kind in _SHARED and not step.needs


def held(
    drafts: Sequence[Draft],
    pods: Mapping[str, Iterable[Object]],
    namespace: str,
    jobs: Mapping[ObjectKey, str | None],
) -> list[Draft]:
    """Refuse the drafts that destroy what other Pods use; return all.

    Pods that the plan deletes or replaces hold a claim that it replaces, too: a plan deletes last,
    and a new Pod would need the new claim, which waits for the old Pod to be gone.

    Args:
        pods: By namespace, all Pods.
        jobs: The declared objects, each with its job: Pods of the same job do not count.
    """
    going = {
        draft.step.ref.key_in(namespace)
        for draft in drafts
        if draft.step.action in DESTROYS and draft.step.ref.kind == "Pod"
    }
    users: dict[str, dict[tuple[str, str], list[Object]]] = {}
    """By namespace, the Pods that use an object, by its kind and name."""
    result = []
    for draft in drafts:
        step, ref = draft.step, draft.step.ref
        if _is_shared(step):
            where = ref.namespace or namespace
            if where not in users:
                users[where] = defaultdict(list)
                for pod in pods.get(where, ()):
                    for used in {(used.kind, used.name) for used in references(pod)}:
                        users[where][used].append(pod)
            is_replaced = ref.kind == _CLAIM and step.action == "replace"
            job = (step.job or "").rpartition("/")[2]
            names = []
            for pod in users[where][ref.kind, ref.name]:
                name = pod["metadata"]["name"]
                key = ("", "Pod", where, name)
                is_ours = key in going or jobs.get(key, "") == step.job
                labels = labels_of(pod)
                is_ours = is_ours or (labels.get(JOB_LABEL) == job != "")
                is_scheduled = is_replaced and pod["spec"].get("nodeName")
                if is_scheduled or not (is_ours or (ref.kind != _CLAIM and has_ended(pod))):
                    names.append(name)
            if names:
                what, verb = ("Pods", "use") if len(names) > 1 else ("Pod", "uses")
                words = f"the {what} {some(names)}, which this plan does not delete, {verb} it"
                if is_replaced:
                    words = (
                        f"{what} {some(names)} would keep it: Kubernetes deletes a claim when no"
                        " Pod uses it; suspend the job or delete its Pods first, with the claim as"
                        " it is now"
                    )
                step = conflict(step, *step.why, Reason(words))
        result.append(structs.replace(draft, step=step))
    return result
