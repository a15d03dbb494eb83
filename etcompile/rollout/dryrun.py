"""Ask the API server in dry runs what it would change, and what it would refuse.

Admission may change what is sent: a plugin that always pulls images, a policy that sets requests
when a Pod is created. So a difference counts only if a dry run of the update shows it
(reference/gitops.md 4.3). A second dry run asks what the same manifest would become if it were
created now. Where that is there already, a policy for new objects made it so, and changing it back
would go on for ever.

Before anything is written, each change of the plan is tried: a dry run meets the same rights,
validation, admission and field owners as the write. One new Pod of each role is tried, by the
request of the write, and one deletion of each kind of a job. More are tried only where admission
may tell them apart (`Policies`), new ones by a POST: it meets the same admission, for a third of
what a server-side apply of a missing object costs the API server. What is to be replaced is tried
under another name: an object must not be deleted for one that will be refused
(reference/gitops.md 2.2). SelfSubjectAccessReviews ask for the verbs of the real requests, and for
those of the waits (`denied`).
"""

import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any, Literal

from msgspec import structs

from etcompile.k8s.defaults import same
from etcompile.k8s.listkeys import changed_at, value_at
from etcompile.k8s.objects import Object, labels_of, with_metadata
from etcompile.k8s.path import KeyedPath, overlap
from etcompile.k8s.serverpath import place
from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError, if_allowed
from etcompile.model.keypair import wants_key_pair, with_placeholders
from etcompile.plan.comparison import Raw, compared
from etcompile.plan.matches import Difference
from etcompile.plan.planner import Answer
from etcompile.plan.step import DESTROYS, Action, ObjectRef, Plan, Step
from etcompile.rollout.machine.messages import Proposal
from etcompile.rollout.machine.reasons import has_rule, is_barrier
from etcompile.rollout.refusals import (
    Refusal,
    RefusedError,
    cannot_change,
    full,
    is_fatal,
    may_not,
    may_pass,
    no_dry_run,
    of_namespace,
    refusal,
)
from etcompile.rollout.writer import Writer, likeness

_AT_ONCE = 16
_LONGEST = 50
_ITSELF = frozenset({"CustomResourceDefinition", "Namespace"})
"""Kinds whose objects are not the same under another name."""


class DryRun:
    """Dry runs of updates; safe to share between threads.

    Attributes:
        denied: Why there is no answer, in the API server's words: the user may not write there.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._new: dict[object, Future[Object | None]] = {}
        self.denied = ""

    def ask(self, differences: Sequence[Difference]) -> list[Answer | None]:
        """Return what the API server says about differences, in their order.

        None stands for no answer, because a quota is full or a webhook knows no dry run.
        """
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return [*pool.map(self.answer, differences)]

    def answer(self, difference: Difference) -> Answer | None:
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
            foreseen = compared(difference.in_its_set(desired), live, difference.owned)
            if not foreseen:
                return Answer(desired, (), accepted=True)
            answer = self._updated(desired, difference)
        if answer is not None and answer.result is None:
            return structs.replace(answer, places=foreseen)
        return answer

    def _updated(self, desired: Object, difference: Difference) -> Answer | None:
        if self.denied:
            return None
        live, body = difference.live, difference.in_its_set(desired)
        body = with_metadata(body, uid=live["metadata"].get("uid"))
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
        """Return what the object would be if it were created now; None if the server does not say.

        Equal objects, the Pods of a role with the same differences, need one answer.
        """
        if difference.ref.kind in _ITSELF:
            return None
        changes = ((at.path, repr(at.before), repr(at.after)) for at in difference.places)
        labels = labels_of(difference.desired)
        question = likeness(difference.ref, difference.job, labels), tuple(changes)
        with self._lock:
            known = self._new.get(question)
            if known is None:
                answer = self._new[question] = Future()
        if known is not None:
            return known.result()
        try:
            body = _under_another_name(difference.in_its_set(difference.desired))
            answer.set_result(self._cluster.create(body, dry_run=True))
        except ClusterError as error:
            if is_fatal(error):
                answer.set_exception(error)
                raise
            answer.set_result(None)
        return answer.result()


def _under_another_name(value: Object) -> dict[str, Any]:
    metadata = {**value["metadata"]}
    name = str(metadata.pop("name"))[:_LONGEST].rstrip("-.")
    return {**value, "metadata": {**metadata, "generateName": f"{name}-"}}


# Before anything is written -----------------------------------------------------------------------

_REVIEW = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SelfSubjectAccessReview",
    "metadata": {},
}
_WORKLOADS = frozenset({"Job", "Pod"})
"""Kinds that use a quota, and whose deletion takes a while and is followed."""
_ACCOUNT = "serviceAccountName"
_FOLLOW = ("list", "watch")
_VERBS: dict[Action, tuple[str, ...]] = {
    "create": ("patch", "create"),
    "update": ("patch",),
    "adopt": ("patch", "get"),
    "release": ("patch",),
    "delete": ("delete", "get"),
    "replace": ("delete", "get", "patch", "create"),
    "wait": (),
}
"""The verbs of the requests with which `Writer` does a step: it creates by server-side apply, and
reads an object after it has requested its deletion."""


def denied(cluster: Cluster, plan: Plan, concurrency: int, *, waits: bool) -> list[Refusal]:
    """Return a refusal for each kind and namespace where the user lacks a verb the plan needs.

    A dry run is not enough: it may use another verb than the write, and nothing tries a wait.
    """
    needed: dict[tuple[str, str, str], dict[str, list[ObjectRef]]] = {}
    for step in plan.steps:
        kind, action = step.ref.kind, step.action
        if step.needs or action not in _VERBS:
            continue
        becomes_ready = action in ("create", "update", "adopt") and has_rule(kind)
        verbs = _VERBS[action]
        if action == "create" and step.manifest is not None and wants_key_pair(step.manifest):
            verbs = ("create", "get")
        elif (
            action in ("replace", "wait")
            or (action == "delete" and kind in _WORKLOADS)
            or (becomes_ready and (waits or is_barrier(kind)))
        ):
            verbs += _FOLLOW
        place = step.ref.api_version, kind, step.ref.namespace
        for verb in verbs:
            needed.setdefault(place, {}).setdefault(verb, []).append(step.ref)

    def missing(verbs: Mapping[str, Sequence[ObjectRef]]) -> Refusal | None:
        ref = next(iter(verbs.values()))[0]
        if (resource := cluster.find(ref.api_version, ref.kind)) is None:
            return None  # the plan creates the kind
        scope = (ref.namespace or cluster.namespace) if resource.namespaced else ""
        attributes = {"group": ref.group, "resource": resource.plural, "namespace": scope}

        def may(verb: str, name: str = "") -> bool:
            spec = {"resourceAttributes": {**attributes, "verb": verb, "name": name}}
            with if_allowed():
                answer = cluster.create({**_REVIEW, "spec": spec})
                return bool((answer.get("status") or {}).get("allowed"))
            return True  # there are no reviews: the request itself is the answer

        # A user may have the right for single names; lists and watches have none.
        lacking = [
            verb
            for verb, refs in verbs.items()
            if not may(verb)
            and (verb in _FOLLOW or not all(may(verb, name) for name in {r.name for r in refs}))
        ]
        if not lacking:
            return None
        name = f"{resource.plural}.{ref.group}" if ref.group else resource.plural
        where, option = (f" in the namespace {scope}", f" -n {scope}") if scope else ("", "")
        words = f"you are not allowed to {' or '.join(lacking)} {name}{where}, which the plan needs"
        hint = f"see: kubectl auth can-i {lacking[-1]} {name}{option}"
        return Refusal(ref, "cluster", (words,), hint=hint)

    with ThreadPoolExecutor(concurrency) as pool:
        return [*filter(None, pool.map(missing, needed.values()))]


def refusals(
    cluster: Cluster,
    proposal: Proposal,
    writer: Writer,
    concurrency: int,
    *,
    dry_run: bool = False,
) -> list[Refusal]:
    """Return what the API server would refuse.

    Args:
        dry_run: Nothing follows: try all new objects, also where many are alike, and report a full
            quota, which a rollout would wait for, unless the plan deletes Pods that use it.
    """
    plan = proposal.full_plan
    coming, accounts = set[str](), set[tuple[str, str]]()
    kinds = set[tuple[object, object]]()
    for step in plan.steps:
        if step.action in ("create", "replace"):
            match step.ref.kind:
                case "Namespace":
                    coming.add(step.ref.name)
                case "CustomResourceDefinition":
                    spec = (step.manifest or {}).get("spec") or {}
                    kinds.add((spec.get("group"), (spec.get("names") or {}).get("kind")))
                case "ServiceAccount":
                    accounts.add((step.ref.namespace, step.ref.name))
    # What is being deleted must not be taken for what is made once it is gone.
    going = {step.ref for step in plan.steps if step.until == "gone" or step.action == "delete"}
    frees = any(step.action in DESTROYS and step.ref.kind in _WORKLOADS for step in plan.steps)
    quotas = dry_run and not frees

    def tried(step: Step, way: _Way) -> Refusal | None:
        if step.ref.namespace in coming or (step.ref.group, step.ref.kind) in kinds:
            return None  # the API server knows its namespace, or its kind, only later
        try:
            if way == "delete":
                writer.delete(step.ref, step.uid, dry_run=True)
                return None
            body: Object = writer.body(step)
            spec = body.get("spec") or {}
            # No Pod of an account that is not there is admitted, in a dry run neither: one whose
            # account the plan has yet to make is tried as one of the namespace's own.
            account = step.ref.namespace, spec.get(_ACCOUNT)
            if (
                step.ref.kind == "Pod"
                and step.action in ("create", "replace")
                and (account in accounts)
            ):
                others = {key: value for key, value in spec.items() if key != _ACCOUNT}
                body = {**body, "spec": others}
            if wants_key_pair(body):
                body = with_placeholders(body)
            if step.action == "replace" or step.ref in going:
                cluster.create(_under_another_name(body), dry_run=True)
            elif way == "post":
                cluster.create(body, dry_run=True)
            else:
                cluster.server_side_apply(with_metadata(body, uid=step.uid), dry_run=True)
        except RefusedError as error:
            return error.refusal
        except ClusterError as error:
            if no_dry_run(error):
                return None
            if way == "delete":
                return refusal(step.ref, error)
            if error.over_quota:
                return full(step.ref, error) if quotas else None
            if may_pass(error) or error.already_exists:
                return None  # an object that is there meanwhile is judged at the write
            if of_namespace(error):
                where = step.ref.namespace or cluster.namespace
                return refusal(structs.replace(step.ref, namespace=where), error)
            if writer.may_take(error) or writer.shared(step, body, error) is not None:
                return None
            return refusal(step.ref, error)
        return None

    trials = zip(*_trials(plan, proposal.accepted, cluster, every=dry_run), strict=True)
    with ThreadPoolExecutor(concurrency) as pool:
        problems = [*filter(None, pool.map(tried, *trials))]
    fatal = [refused for refused in problems if refused.fatal]
    return fatal[:1] or list(dict.fromkeys(problems))


_Way = Literal["write", "post", "delete"]
"""How a step is tried: by the request of the write, by a POST, or by its deletion."""


def _trials(
    plan: Plan, accepted: Collection[ObjectRef], cluster: Cluster, *, every: bool
) -> Iterator[tuple[Step, _Way]]:
    """Yield what to try: of replicas of a role those that admission may tell apart, or every."""
    policies = Policies(cluster)
    groups: dict[tuple[object, ...], list[Step]] = {}
    for step in plan.steps:
        ref = step.ref
        if step.action == "create":
            labels = (step.manifest or {}).get("metadata", {}).get("labels") or {}
            groups.setdefault(("CREATE", likeness(ref, step.job, labels)), []).append(step)
        elif step.action == "replace" or (
            step.action in ("update", "adopt", "release") and ref not in accepted
        ):
            yield step, "write"
        if step.action in DESTROYS:
            group = "DELETE", step.job, ref.api_version, ref.kind, ref.namespace
            groups.setdefault(group, []).append(step)
    for (operation, *_), (first, *more) in groups.items():
        yield first, "write" if operation == "CREATE" else "delete"
        for step in more if every or not more else policies.suspects(more, str(operation)):
            yield step, "post" if operation == "CREATE" else "delete"


# Policies ---------------------------------------------------------------------------------------

_GROUP = "admissionregistration.k8s.io"
_POLICIES = (
    "ValidatingAdmissionPolicy",
    "MutatingAdmissionPolicy",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
)

_CEL = ("matchConditions", "variables", "validations")
_DISTINGUISHES = re.compile(
    r"\b(?:args|command|env|hostname|metadata|name|request|resourceNames|subdomain|volumes"
    r"|match(?:Labels|Expressions))\b"
)
"""Words for what differs between replicas of a role."""
UNKNOWN = ""
"""The test of a webhook, and of policies that the user may not read."""


class Policies:
    """The fields that admission policies and webhooks of a cluster read, fetched when first needed.

    A policy says in CEL what it reads. Only one that mentions a field in which replicas of a role
    differ can refuse one and accept another. What a webhook reads is unknown, and so are policies
    that the user may not read: then the first and the last of the new replicas are tried, and all
    deletions. If such a policy refuses one in between, apply reports that write and what it has
    created, and exits with 6.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rules: Sequence[tuple[Mapping[str, Any], str]] | None = None

    def suspects(self, steps: Sequence[Step], operation: str) -> Sequence[Step]:
        """Return those of steps of one kind that may be refused though one like them is not."""
        if self._rules is None:
            with ThreadPoolExecutor(len(_POLICIES)) as pool:
                self._rules = [*chain.from_iterable(pool.map(self._read, _POLICIES))]
        ref = steps[0].ref
        about = (
            ("apiGroups", {"*", ref.group}),
            ("resources", {"*", "*/*", self._cluster.resource(ref.api_version, ref.kind).plural}),
            ("operations", {"*", operation}),
        )
        tests = [
            test
            for rule, test in self._rules
            if all(rule.get(key) is None or not known.isdisjoint(rule[key]) for key, known in about)
        ]
        if any(map(_DISTINGUISHES.search, tests)) or (tests and operation == "DELETE"):
            return steps
        return steps[-1:] if UNKNOWN in tests else ()  # the last of a role has the longest name

    def _read(self, kind: str) -> list[tuple[Mapping[str, Any], str]]:
        policies = None
        with if_allowed():
            resource = self._cluster.served(_GROUP, kind)
            policies = self._cluster.list(resource, None).items if resource else []
        if policies is None:
            return [({}, UNKNOWN)]
        rules: list[tuple[Mapping[str, Any], str]] = []
        for policy in policies:
            spec = policy.get("spec") or {}
            constraints = spec.get("matchConstraints") or {}
            selected = {**constraints, "namespaceSelector": None}
            cel = [each.get("expression") for part in _CEL for each in spec.get(part) or ()]
            test = f"{selected} {cel} {spec.get('mutations')}"
            rules += ((rule, test) for rule in constraints.get("resourceRules") or ())
            for webhook in policy.get("webhooks") or ():
                rules += ((rule, UNKNOWN) for rule in webhook.get("rules") or ())
        return rules
