"""A plan to what its user may not do: every verb of it is asked for before the first write.

A rollout that may create and not delete ends half-way, and one that may not watch never learns
that a Pod is ready. The API server answers for whoever asks (SelfSubjectAccessReview), which
everybody may do; a grant for single names counts too.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError
from etcompile.model.keypair import wants_key_pair
from etcompile.plan.step import ObjectRef, Plan, Step
from etcompile.rollout.machine.reasons import BARRIERS, has_rule
from etcompile.rollout.refusals import Refusal

_REVIEW = "authorization.k8s.io/v1", "SelfSubjectAccessReview"
_FOLLOW = ("list", "watch")
_BY_NAME = frozenset({"create", "patch", "get", "delete"})
"""Verbs that a Role can grant for single names. A server-side apply names what it creates."""
_LEAVES_SLOWLY = frozenset({"Job", "Pod"})
"""Kinds whose deletion takes a while and is followed."""

Place = tuple[str, str, str]
"""API version, kind and namespace."""
Needs = Mapping[Place, Mapping[str, list[ObjectRef]]]
"""By place, the verbs that are needed there, each with the objects."""


def needs(
    plan: Plan, parents: Iterable[tuple[ObjectRef, tuple[str, ...]]], *, waits: bool
) -> Needs:
    """What whoever does a plan must be allowed.

    Args:
        plan: What is to be done, and in it all objects that this is done to.
        parents: The parents of its ApplySets, with what is done to each.
        waits: Whether all is to be ready.
    """
    found: dict[Place, dict[str, list[ObjectRef]]] = defaultdict(lambda: defaultdict(list))
    for step in plan.steps:
        for verb in _verbs(step, waits=waits):
            found[step.ref.api_version, step.ref.kind, step.ref.namespace][verb].append(step.ref)
    for ref, verbs in parents:
        for verb in verbs:
            found[ref.api_version, ref.kind, ref.namespace][verb].append(ref)
    return found


def denied(cluster: Cluster, needed: Needs, concurrency: int) -> list[Refusal]:
    """What is needed and not allowed, a refusal for each kind and namespace.

    Args:
        cluster: Which is asked, for whoever its credentials are of.
        needed: What is needed.
        concurrency: How many requests at once.
    """
    asked = [(place, verb, refs) for place, verbs in needed.items() for verb, refs in verbs.items()]
    with ThreadPoolExecutor(concurrency) as pool:
        answers = [*pool.map(lambda question: _refused(cluster, *question), asked)]
    refused: dict[Place, list[str]] = defaultdict(list)
    first: dict[Place, ObjectRef] = {}
    for (place, verb, _), ref in zip(asked, answers, strict=True):
        if ref is not None:
            refused[place].append(verb)
            first.setdefault(place, ref)
    return [_refusal(cluster, place, verbs, first[place]) for place, verbs in refused.items()]


def _verbs(step: Step, *, waits: bool) -> Iterator[str]:
    kind = step.ref.kind
    if step.action == "create":
        yield "create"
        if step.manifest is None or not wants_key_pair(step.manifest):
            yield "patch"
    elif step.action in ("update", "adopt", "release"):
        yield "patch"
    elif step.action == "replace":
        yield from ("delete", "get", "create", "patch", *_FOLLOW)
    elif step.action == "delete":
        yield from ("delete", "get", *(_FOLLOW if kind in _LEAVES_SLOWLY else ()))
    elif step.action == "wait":
        yield from _FOLLOW
    if step.action in ("create", "update", "adopt") and has_rule(kind):
        yield from _FOLLOW if waits or kind in BARRIERS else ()


def _refused(cluster: Cluster, place: Place, verb: str, refs: list[ObjectRef]) -> ObjectRef | None:
    """The first of some objects that a verb is not allowed for; None if it is for all."""
    version, kind, namespace = place
    try:
        resource = cluster.resource(version, kind)
    except ClusterError as error:
        if error.not_found:
            return None  # the plan makes the kind
        raise
    asked = {
        "group": version.rpartition("/")[0],
        "resource": resource.plural,
        "verb": verb,
        **({"namespace": namespace or cluster.namespace} if resource.namespaced else {}),
    }
    if _allowed(cluster, asked):
        return None
    if verb in _BY_NAME:
        return next(
            (ref for ref in refs if not _allowed(cluster, {**asked, "name": ref.name})), None
        )
    return refs[0]


def _allowed(cluster: Cluster, attributes: Mapping[str, str]) -> bool:
    version, kind = _REVIEW
    review: dict[str, Any] = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {},
        "spec": {"resourceAttributes": attributes},
    }
    try:
        answer = cluster.create(review)
    except ClusterError as error:
        if error.status in (403, 404):
            return True  # nobody says so: the write itself will tell
        raise
    return bool((answer.get("status") or {}).get("allowed"))


def _refusal(cluster: Cluster, place: Place, verbs: list[str], ref: ObjectRef) -> Refusal:
    version, kind, namespace = place
    resource = cluster.resource(version, kind)
    group = version.rpartition("/")[0]
    name = f"{resource.plural}.{group}" if group else resource.plural
    *most, last = sorted(verbs)
    listed = f"{', '.join(most)} and {last}" if most else last
    count = "the verbs" if most else "the verb"
    scope = namespace or cluster.namespace
    where = f" in the namespace {scope}" if resource.namespaced else ""
    words = f"you are not allowed {count} {listed} for {name}{where}, which the plan needs"
    option = f" -n {scope}" if resource.namespaced else ""
    return Refusal(ref, "cluster", (words,), hint=f"see: kubectl auth can-i {last} {name}{option}")
