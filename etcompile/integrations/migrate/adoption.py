"""Decide what becomes of each rendered or live object when the operator goes.

Hardly any field of a Pod can change, so a run that goes on keeps the operator's Pods. Other objects
are taken over at once if no Pod notices, or else when the run has ended. The rules of the API
(`etcompile.plan`) decide which.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from etcompile.k8s.objects import Object
from etcompile.load import Document
from etcompile.model import Job
from etcompile.naming import some
from etcompile.plan.planner import matched
from etcompile.plan.scope import Rights
from etcompile.plan.step import ObjectRef, reference

Outcome = Literal[
    "same",
    "any time",
    "at the end",
    "runs on",
    "new",
    "kept",
    "left over",
    "useless",
    "again",
    "gone",
]
"""What becomes of an object.

`same`: it is as rendered. `any time`: it is taken over, and no Pod notices. `at the end`: it is
taken over after the run, because Pods would notice. `runs on`: it cannot become the rendered one,
and goes when it has ended. `new`: the first apply creates it. `kept`: not rendered, but needed.
`left over`: not rendered, goes with the run. `useless`: not rendered, acts on a resource that is
gone. `again`, `gone`: it is deleted with the custom resource, and created again or not.
"""

_UNNOTICED = ("spec.publishNotReadyAddresses",)
"""Fields whose change does not disturb a run: names resolve a little earlier."""
_NO_OPERATOR_NEEDED = frozenset({"HorizontalPodAutoscaler"})


class Fate(Struct, frozen=True):
    """What becomes of an object.

    Args:
        why: The reason, in plain words; empty if it is obvious.
    """

    ref: ObjectRef
    outcome: Outcome
    why: str = ""


def is_pod(value: Object) -> bool:
    """Return True for a Pod of Kubernetes, not for another group's kind of that name."""
    return (value.get("apiVersion"), value.get("kind")) == ("v1", "Pod")


def fates(
    rendered: Iterable[Object],
    live: Sequence[Object],
    owner: Document,
    job: Job,
    *,
    all_go: bool = False,
) -> tuple[Fate, ...]:
    """Decide what becomes of each object of a job.

    Args:
        live: Objects of the cluster, the job's among them.
        all_go: Objects of the custom resource are deleted with it.

    Returns:
        Rendered objects first, in their order, then live ones that are not rendered.
    """
    namespace = job.namespace or owner.namespace or "default"
    there = {reference(value).key_in(namespace): value for value in live}
    mine = {id(value) for value in owned(live, owner.kind or "", owner.name or "")}
    outcomes = []
    for value in rendered:
        ref = reference(value)
        standing = there.pop(ref.key_in(namespace), None)
        if standing is None:
            outcomes.append(Fate(ref, "new"))
        elif all_go and id(standing) in mine:
            lost = "its data is lost" if value["kind"] == "PersistentVolumeClaim" else ""
            outcomes.append(Fate(ref, "again", lost))
        else:
            outcomes.append(_matched(value, standing, owner))
    secret = job.credentials.secret if job.credentials else None
    for value in there.values():
        ref = reference(value)
        if all_go:
            if id(value) in mine:
                outcomes.append(Fate(ref, "gone"))
        elif value["kind"] == "Secret" and ref.name == secret:
            outcomes.append(Fate(ref, "kept", "its keys are used on"))
        elif id(value) in mine and value["kind"] in _NO_OPERATOR_NEEDED:
            outcomes.append(Fate(ref, "useless", "it scales a resource that will be gone"))
        elif id(value) in mine:
            outcomes.append(Fate(ref, "left over"))
    return tuple(outcomes)


def seamless(outcomes: Iterable[Fate]) -> bool:
    """Return True if everything is taken over while the run goes on."""
    rendered = [fate for fate in outcomes if fate.outcome not in ("kept", "left over", "useless")]
    pods = [fate for fate in rendered if fate.ref.kind in ("Pod", "Job")]
    there = all(fate.outcome in ("same", "any time") for fate in pods)
    return bool(pods) and there and all(fate.outcome != "at the end" for fate in rendered)


def _matched(desired: Object, live: Object, owner: Document) -> Fate:
    holders = live["metadata"].get("ownerReferences") or ()
    others = [other for other in holders if _who(other) != (owner.kind, owner.name)]
    about = {key: field for key, field in live["metadata"].items() if key != "ownerReferences"}
    about |= {"ownerReferences": others} if others else {}
    orphaned = {**live, "metadata": about}
    step = matched(desired, orphaned, reference(desired), Rights(), None)
    if step.action == "unchanged":
        return Fate(step.ref, "same")
    if step.action == "replace":
        fields = some(change.path for change in step.changes if change.immutable)
        return Fate(step.ref, "runs on", f"may not change: {fields}")
    if step.action == "conflict" and not step.changes:
        return Fate(step.ref, "at the end", "; ".join(step.reasons))
    changes = [change for change in step.changes if change.steps[0] != "metadata"]
    if live["kind"] in ("Pod", "Job") and changes:
        # A change that the API allows, such as an image, restarts a container during the run.
        return Fate(step.ref, "runs on", f"changes {some(change.path for change in changes)}")
    noticed = [change for change in changes if change.path not in _UNNOTICED]
    if live["kind"] == "ConfigMap":
        noticed = [change for change in noticed if change.how != "added"]
    if noticed:
        return Fate(step.ref, "at the end", f"changes {some(change.path for change in noticed)}")
    marks = ["labels"] if len(changes) < len(step.changes) else []
    return Fate(step.ref, "any time", some([*marks, *(change.path for change in changes)]))


# Whose is it ------------------------------------------------------------------------------------


def owned(values: Sequence[Object], kind: str, name: str) -> Iterator[Object]:
    """Yield the objects of a custom resource, those of its Jobs included."""
    owners = {(kind, name)}
    places: set[int] = set()
    has_grown = True
    while has_grown:
        has_grown = False
        for place, value in enumerate(values):
            holders = value["metadata"].get("ownerReferences") or ()
            if place not in places and any(_who(holder) in owners for holder in holders):
                places.add(place)
                owners.add((value["kind"], str(value["metadata"].get("name") or "")))
                has_grown = True
    for place in sorted(places):
        yield values[place]


def _who(reference: Mapping[str, Any]) -> tuple[str, str]:
    return str(reference.get("kind")), str(reference.get("name"))
