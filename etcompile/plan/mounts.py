"""Which Pods keep a claim that a plan replaces.

The API server deletes a claim only when no Pod that was ever scheduled names it, ended or not
(the finalizer `kubernetes.io/pvc-protection`). Until then the claim is being deleted, cannot be
mounted by new Pods, and the apply that began it waits for as long as the Pods run.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec import structs

from etcompile.k8s.objects import Object
from etcompile.k8s.references import claim_of
from etcompile.plan.order import Draft
from etcompile.plan.step import ObjectRef, Reason, reference

_SHOWN = 3
"""How many Pods a message names."""


class Mounts:
    """The live Pods that mount claims.

    Args:
        namespace: The namespace of objects that name none.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._pods: dict[tuple[str, str], list[ObjectRef]] = defaultdict(list)

    def noted(self, live: Iterable[Object]) -> Iterator[Object]:
        """The live objects as they are given, each looked at in passing."""
        for value in live:
            if value["kind"] == "Pod" and (spec := value["spec"]).get("nodeName"):
                ref = reference(value)
                for volume in spec.get("volumes") or ():
                    if claim := claim_of(volume):
                        self._pods[ref.namespace or self._namespace, claim].append(ref)
            yield value

    def held(self, draft: Draft) -> Draft:
        """The draft, refused if it replaces a claim that Pods keep.

        Those that the plan deletes or replaces keep it, too: a plan deletes last, and a new Pod
        would need the new claim, which waits for the old Pod to go.
        """
        step = draft.step
        if step.action != "replace" or step.needs or step.ref.kind != "PersistentVolumeClaim":
            return draft
        pods = self._pods.get((step.ref.namespace or self._namespace, step.ref.name), [])
        if not pods:
            return draft
        what = "Pods" if len(pods) > 1 else "Pod"
        named = ", ".join(pod.name for pod in pods[:_SHOWN])
        rest = f" and {len(pods) - _SHOWN} more" if len(pods) > _SHOWN else ""
        reason = Reason(
            f"{what} {named}{rest} would keep it: Kubernetes deletes a claim when no Pod uses it;"
            " suspend the job or delete its Pods first, with the claim as it is now"
        )
        return Draft(
            structs.replace(step, action="conflict", why=(*step.why, reason), needs=None),
            draft.value,
        )
