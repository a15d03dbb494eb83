"""A plan to what the API server has against it, before anything is written.

What is half done because its second half is refused is worse than what was not begun.

Rights come first: a rollout that may create and not delete ends half-way, and one that may not
watch never learns that a Pod is ready. The API server says what its user may do
(SelfSubjectAccessReview, which everybody may create); a grant for single names counts too.

Then each change is tried with a server-side dry run, which meets the same validation, admission and
field owners as the write. Of many new objects that are alike, the Pods of a role, one is tried,
unless the cluster has policies that may tell them apart. What is to be replaced is tried under
another name: an object must not be deleted for one that will be refused (reference/gitops.md 2.2).
Deletions are tried as well: a policy may keep Pods, and half a job would be left.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec import structs

from etcompile.k8s.objects import Object
from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError
from etcompile.model.keypair import wants_key_pair, with_placeholders
from etcompile.plan.step import DESTROYS, ObjectRef, Plan, Step
from etcompile.rollout.dryrun import likeness, under_another_name
from etcompile.rollout.machine.messages import Place
from etcompile.rollout.machine.reasons import has_rule, is_barrier
from etcompile.rollout.refusals import (
    Refusal,
    RefusedError,
    full,
    may_pass,
    no_dry_run,
    of_namespace,
    refusal,
)
from etcompile.rollout.writer import Writer

# Rights ------------------------------------------------------------------------------------------

_REVIEW = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SelfSubjectAccessReview",
    "metadata": {},
}
_FOLLOW = ("list", "watch")
_BY_NAME = frozenset({"create", "patch", "get", "delete"})
"""Verbs that a Role can grant for single names. A server-side apply names what it creates."""
_LEAVES_SLOWLY = frozenset({"Job", "Pod"})
"""Kinds whose deletion takes a while and is followed."""

Needs = Mapping[Place, Mapping[str, list[ObjectRef]]]
"""By place, the verbs that are needed there, each with the objects."""


def needs(
    plan: Plan, parents: Iterable[tuple[ObjectRef, tuple[str, ...]]], *, waits: bool
) -> Needs:
    """What whoever does a plan must be allowed.

    Args:
        parents: The parents of its ApplySets, with what is done to each.
        waits: Whether all is to be ready.
    """
    needed: dict[Place, dict[str, list[ObjectRef]]] = defaultdict(lambda: defaultdict(list))
    verbs_of = ((step.ref, _verbs(step, waits=waits)) for step in plan.steps)
    for ref, verbs in (*verbs_of, *parents):
        for verb in verbs:
            needed[ref.api_version, ref.kind, ref.namespace][verb].append(ref)
    return needed


def denied(cluster: Cluster, needed: Needs, concurrency: int) -> list[Refusal]:
    """What is needed and not allowed, a refusal for each kind and namespace."""
    rights = [
        (place, verb, refs) for place, verbs in needed.items() for verb, refs in verbs.items()
    ]
    with ThreadPoolExecutor(concurrency) as pool:
        answers = [*pool.map(lambda right: _denied(cluster, *right), rights)]
    verbs_of: dict[Place, list[str]] = defaultdict(list)
    first: dict[Place, ObjectRef] = {}
    for (place, verb, _), ref in zip(rights, answers, strict=True):
        if ref is not None:
            verbs_of[place].append(verb)
            first.setdefault(place, ref)
    refused = []
    for (version, kind, namespace), verbs in verbs_of.items():
        resource = cluster.resource(version, kind)
        group = version.rpartition("/")[0]
        name = f"{resource.plural}.{group}" if group else resource.plural
        *most, last = sorted(verbs)
        listed = f"the verbs {', '.join(most)} and {last}" if most else f"the verb {last}"
        scope = namespace or cluster.namespace
        where, option = f" in the namespace {scope}", f" -n {scope}"
        if not resource.namespaced:
            where = option = ""
        words = f"you are not allowed {listed} for {name}{where}, which the plan needs"
        hint = f"see: kubectl auth can-i {last} {name}{option}"
        refused.append(Refusal(first[version, kind, namespace], "cluster", (words,), hint=hint))
    return refused


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
        yield from _FOLLOW if waits or is_barrier(kind) else ()


def _denied(cluster: Cluster, place: Place, verb: str, refs: list[ObjectRef]) -> ObjectRef | None:
    """The first of some objects that a verb is not allowed for; None if it is for all."""
    version, kind, namespace = place
    try:
        resource = cluster.resource(version, kind)
    except ClusterError as error:
        if error.not_found:
            return None  # the plan makes the kind
        raise
    attributes = {
        "group": version.rpartition("/")[0],
        "resource": resource.plural,
        "verb": verb,
        **({"namespace": namespace or cluster.namespace} if resource.namespaced else {}),
    }
    if _allowed(cluster, attributes):
        return None
    if verb in _BY_NAME:
        named = (ref for ref in refs if not _allowed(cluster, {**attributes, "name": ref.name}))
        return next(named, None)
    return refs[0]


def _allowed(cluster: Cluster, attributes: Mapping[str, str]) -> bool:
    try:
        answer = cluster.create({**_REVIEW, "spec": {"resourceAttributes": attributes}})
    except ClusterError as error:
        if error.status in (403, 404):
            return True  # nobody says so: the write itself will tell
        raise
    return bool((answer.get("status") or {}).get("allowed"))


# Writes ------------------------------------------------------------------------------------------

_ACCOUNT = "serviceAccountName"


def refusals(
    cluster: Cluster,
    plan: Plan,
    writer: Writer,
    concurrency: int,
    *,
    dry_run: bool = False,
    accepted: Collection[ObjectRef] = (),
) -> list[Refusal]:
    """What the API server would refuse.

    Args:
        dry_run: Nothing follows: try all new objects, also where many are alike, and report also
            what a rollout would wait for, such as room in a quota.
        accepted: Objects whose update was tried when the plan was made.
    """
    coming = {step.ref.name for step in plan.steps if _makes(step, "Namespace")}
    kinds = {
        (spec.get("group"), (spec.get("names") or {}).get("kind"))
        for step in plan.steps
        if _makes(step, "CustomResourceDefinition")
        for spec in [(step.manifest or {}).get("spec") or {}]
    }
    accounts = {
        (step.ref.namespace, step.ref.name) for step in plan.steps if _makes(step, "ServiceAccount")
    }
    # What is being deleted must not be taken for what is made once it is gone.
    going = {step.ref for step in plan.steps if step.until == "gone" or step.action == "delete"}
    again = going & {step.ref for step in plan.steps if step.action == "create"}
    rooms = {
        step.ref.namespace or cluster.namespace
        for step in plan.steps
        if step.frees_quota
        or (step.ref.kind in ("Job", "Pod") and (step.action == "replace" or step.ref in again))
    }

    def tried(step: Step) -> Refusal | None:
        if step.ref.namespace in coming or (step.ref.group, step.ref.kind) in kinds:
            return None  # the API server knows its namespace, or its kind, only later
        try:
            body = _admissible(writer.body(step), step, accounts)
            is_there = step.action == "replace" or step.ref in going
            refused = _tried(cluster, step, writer, body, under_another=is_there)
        except RefusedError as error:
            return error.refusal
        if refused is None or not refused.full:
            return refused
        if not dry_run:
            return None  # it is tried again while others make room
        return structs.replace(refused, passes=(step.ref.namespace or cluster.namespace) in rooms)

    def tried_deletion(step: Step) -> Refusal | None:
        try:
            writer.delete(step.ref, step.uid, dry_run=True)
        except ClusterError as error:
            return None if no_dry_run(error) else refusal(step.ref, error)
        return None

    single_out = (lambda *_: True) if dry_run else Policies(cluster).single_out
    chosen = _telling(plan.steps, accepted, single_out)
    with ThreadPoolExecutor(concurrency) as pool:
        deletions = pool.map(tried_deletion, _deletions(plan.steps, single_out))
        problems = [refused for refused in (*pool.map(tried, chosen), *deletions) if refused]
    fatal = [refused for refused in problems if refused.fatal]
    return fatal[:1] or list(dict.fromkeys(problems))


def _admissible(body: Object, step: Step, accounts: Collection[tuple[str, str]]) -> Object:
    """What can be tried of an object already.

    No Pod of an account that is not there is admitted, in a dry run neither: one whose account the
    plan has yet to make is tried as one of the namespace's own.
    """
    spec = body.get("spec") or {}
    if not _makes(step, "Pod") or (step.ref.namespace, spec.get(_ACCOUNT)) not in accounts:
        return body
    return {**body, "spec": {key: value for key, value in spec.items() if key != _ACCOUNT}}


def _tried(
    cluster: Cluster, step: Step, writer: Writer, body: Object, *, under_another: bool
) -> Refusal | None:
    """What the API server has against a step, whose object may have its name only later."""
    if wants_key_pair(body):
        body = with_placeholders(body)
    metadata = body["metadata"]
    try:
        if under_another:
            cluster.create(under_another_name(body), dry_run=True)
        else:
            pinned = {"uid": step.uid} if step.uid else {}
            cluster.server_side_apply({**body, "metadata": {**metadata, **pinned}}, dry_run=True)
    except ClusterError as error:
        if error.over_quota:
            return full(step.ref, error)
        if may_pass(error) or no_dry_run(error):
            return None
        if of_namespace(error):
            where = step.ref.namespace or cluster.namespace
            return refusal(structs.replace(step.ref, namespace=where), error)
        if writer.shared(step, body, error) is not None:
            return None
        left = writer.conflicts(step, error)
        return refusal(step.ref, left, body) if isinstance(left, ClusterError) else left
    return None


def _telling(
    steps: Iterable[Step],
    accepted: Collection[ObjectRef],
    single_out: Callable[[ObjectRef, str], bool],
) -> list[Step]:
    """The steps to try: all that change something, and one of those that make alike objects."""
    chosen: list[Step] = []
    new: dict[object, list[Step]] = defaultdict(list)
    for step in steps:
        if step.action == "create":
            labels = (step.manifest or {}).get("metadata", {}).get("labels") or {}
            new[likeness(step.ref, step.job, labels)].append(step)
        elif step.action == "replace" or (
            step.action in ("update", "adopt", "release") and step.ref not in accepted
        ):
            chosen.append(step)
    for first, *others in new.values():
        chosen.append(first)
        if others and single_out(first.ref, "CREATE"):
            chosen += others
    return chosen


def _deletions(
    steps: Iterable[Step], single_out: Callable[[ObjectRef, str], bool]
) -> Iterator[Step]:
    """The deletions to try: the first of a kind and namespace, or all if a policy is about them."""
    tried: dict[tuple[str, str, str], bool] = {}
    for step in steps:
        place = step.ref.api_version, step.ref.kind, step.ref.namespace
        if step.action in DESTROYS and (place not in tried or tried[place]):
            if place not in tried:
                tried[place] = single_out(step.ref, "DELETE")
            yield step


def _makes(step: Step, kind: str) -> bool:
    return step.ref.kind == kind and step.action in ("create", "replace")


# Policies ---------------------------------------------------------------------------------------

_GROUP = "admissionregistration.k8s.io"
_POLICIES = (
    "ValidatingAdmissionPolicy",
    "MutatingAdmissionPolicy",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
)

Rule = Mapping[str, Any]


class Policies:
    """The rules of a cluster's policies and webhooks; read when they are first needed.

    Of many objects that are alike, one dry run tells about all, unless somebody's policy looks
    at names or labels: then each is tried. Who may not read the policies tries each, too.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rules: Sequence[Rule] | None = None

    def single_out(self, ref: ObjectRef, operation: str) -> bool:
        """Whether one of alike objects may be refused and another accepted."""
        if self._rules is None:
            self._rules = [*self._read()]
        resource = self._cluster.resource(ref.api_version, ref.kind).plural
        return any(_is_about(rule, ref.group, resource, operation) for rule in self._rules)

    def _read(self) -> Iterator[Rule]:
        for kind in _POLICIES:
            try:
                resource = self._cluster.served(_GROUP, kind)
                policies = self._cluster.list(resource, None).items if resource else ()
            except ClusterError as error:
                if error.status not in (403, 404):
                    raise
                yield {}  # unknown: it may be about anything
                return
            for policy in policies:
                constraints = (policy.get("spec") or {}).get("matchConstraints") or {}
                yield from constraints.get("resourceRules") or ()
                for webhook in policy.get("webhooks") or ():
                    yield from webhook.get("rules") or ()


def _is_about(rule: Rule, group: str, resource: str, operation: str) -> bool:
    groups, resources = rule.get("apiGroups"), rule.get("resources")
    operations = rule.get("operations")
    return (
        (groups is None or not {"*", group}.isdisjoint(groups))
        and (resources is None or not {"*", "*/*", resource}.isdisjoint(resources))
        and (operations is None or not {"*", operation}.isdisjoint(operations))
    )
