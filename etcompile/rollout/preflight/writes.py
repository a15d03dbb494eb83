"""A plan to what the API server has against it, before anything is written.

Each change is tried with a server-side dry run, which meets the same validation, admission and
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
from etcompile.rollout.preflight.dryrun import likeness, under_another_name
from etcompile.rollout.refusals import (
    Refusal,
    RefusedError,
    full,
    may_pass,
    no_dry_run,
    of_namespace,
    of_quota,
    refusal,
)
from etcompile.rollout.writer import Writer

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
        cluster: Which is asked; nothing is written.
        plan: The plan, without conflicts of its own.
        writer: What would be sent.
        concurrency: How many requests at once.
        dry_run: Nothing follows: try all new objects, also where many are alike, and tell also
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
    anew = going & {step.ref for step in plan.steps if step.action == "create"}
    rooms = {
        step.ref.namespace or cluster.namespace
        for step in plan.steps
        if step.frees_quota
        or (step.ref.kind in ("Job", "Pod") and (step.action == "replace" or step.ref in anew))
    }

    def tried(step: Step) -> Refusal | None:
        if step.ref.namespace in coming or (step.ref.group, step.ref.kind) in kinds:
            return None  # the API server knows its namespace, or its kind, only later
        try:
            body = _admissible(writer.body(step), step, accounts)
            is_there = step.action == "replace" or step.ref in going
            refused = _tried(cluster, step, writer, body, anew=is_there)
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
        found = [refused for refused in (*pool.map(tried, chosen), *deletions) if refused]
    fatal = [refused for refused in found if refused.fatal]
    return fatal[:1] or list(dict.fromkeys(found))


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
    cluster: Cluster, step: Step, writer: Writer, body: Object, *, anew: bool
) -> Refusal | None:
    """What the API server has against a step; `anew` is one whose object has its name now."""
    if wants_key_pair(body):
        body = with_placeholders(body)
    metadata = body["metadata"]
    try:
        if anew:
            cluster.create(under_another_name(body), dry_run=True)
        else:
            pinned = {"uid": step.uid} if step.uid else {}
            cluster.server_side_apply({**body, "metadata": {**metadata, **pinned}}, dry_run=True)
    except ClusterError as error:
        if of_quota(error):
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
    """The steps to try: all that change something, and one of those that make alike objects.

    Args:
        steps: The steps of the plan.
        accepted: Objects whose update was tried already.
        single_out: Whether one of alike objects may be refused and another accepted.
    """
    chosen: list[Step] = []
    made: dict[object, list[Step]] = defaultdict(list)
    for step in steps:
        if step.action == "create":
            labels = (step.manifest or {}).get("metadata", {}).get("labels") or {}
            made[likeness(step.ref, step.job, labels)].append(step)
        elif step.action == "replace" or (
            step.action in ("update", "adopt", "release") and step.ref not in accepted
        ):
            chosen.append(step)
    for first, *others in made.values():
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
_POLICIES = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
_WEBHOOKS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")

Rule = Mapping[str, Any]


class Policies:
    """The rules of a cluster's policies and webhooks; read when they are first asked about.

    Of many objects that are alike, one dry run tells about all, unless somebody's policy looks
    at names or labels: then each is tried. Who may not read the policies tries each, too.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rules: Sequence[Rule] | None = None

    def single_out(self, ref: ObjectRef, operation: str) -> bool:
        """Whether one of alike objects may be refused and another accepted.

        Args:
            ref: One of them.
            operation: `CREATE` or `DELETE`.
        """
        if self._rules is None:
            self._rules = [*self._read()]
        resource = self._cluster.resource(ref.api_version, ref.kind).plural
        return any(_is_about(rule, ref.group, resource, operation) for rule in self._rules)

    def _read(self) -> Iterator[Rule]:
        for kind in (*_POLICIES, *_WEBHOOKS):
            try:
                resource = self._cluster.served(_GROUP, kind)
                found = self._cluster.list(resource, None).items if resource else ()
            except ClusterError as error:
                if error.status not in (403, 404):
                    raise
                yield {}  # unknown: it may be about anything
                return
            for policy in found:
                yield from _rules(policy, kind)


def _rules(value: Mapping[str, Any], kind: str) -> Iterator[Rule]:
    if kind in _POLICIES:
        constraints = (value.get("spec") or {}).get("matchConstraints") or {}
        yield from constraints.get("resourceRules") or ()
    else:
        for webhook in value.get("webhooks") or ():
            yield from webhook.get("rules") or ()


def _is_about(rule: Rule, group: str, resource: str, operation: str) -> bool:
    groups, resources = rule.get("apiGroups"), rule.get("resources")
    operations = rule.get("operations")
    return (
        (groups is None or not {"*", group}.isdisjoint(groups))
        and (resources is None or not {"*", "*/*", resource}.isdisjoint(resources))
        and (operations is None or not {"*", operation}.isdisjoint(operations))
    )
