"""A plan to what the API server has against it, before anything is written.

Each change is tried with a server-side dry run, which meets the same validation, admission and
field owners as the write. Of many new objects that are alike, the Pods of a role, one is tried.
What is to be replaced is tried under another name: an object must not be deleted for one that
will be refused (reference/gitops.md 2.2).
"""

from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from etcompile.cluster.client import Cluster
from etcompile.cluster.errors import ClusterError
from etcompile.cluster.rollout.keys import wants_key_pair, with_placeholders
from etcompile.cluster.rollout.outcome import Refusal, RefusedError
from etcompile.cluster.rollout.refusing import may_pass, no_dry_run, of_namespace, refusal
from etcompile.cluster.rollout.writing import Writer
from etcompile.model.protocol import ROLE_LABEL
from etcompile.plan.step import Object, Plan, Step

_ACCOUNT = "serviceAccountName"


def refusals(
    cluster: Cluster, plan: Plan, writer: Writer, concurrency: int, *, every: bool = False
) -> list[Refusal]:
    """What the API server would refuse.

    Args:
        cluster: The cluster.
        plan: The plan, without conflicts of its own.
        writer: What would be sent.
        concurrency: How many requests at once.
        every: Try all new objects, also where many are alike.
    """
    coming = {step.ref.name for step in plan.steps if _makes(step, "Namespace")}
    kinds = {
        (names["group"], names["kind"])
        for step in plan.steps
        if _makes(step, "CustomResourceDefinition")
        for names in [_names(step)]
    }

    accounts = {
        (step.ref.namespace, step.ref.name) for step in plan.steps if _makes(step, "ServiceAccount")
    }

    def tried(step: Step) -> Refusal | None:
        if step.ref.namespace in coming or (step.ref.group, step.ref.kind) in kinds:
            return None  # the API server knows its namespace, or its kind, only later
        try:
            body = _admissible(writer.body(step), step, accounts)
            return _tried(cluster, step, writer, body)
        except RefusedError as error:
            return error.refusal

    with ThreadPoolExecutor(concurrency) as pool:
        found = [one for one in pool.map(tried, _telling(plan.steps, every=every)) if one]
    fatal = [one for one in found if one.fatal]
    return fatal[:1] or found


def _admissible(body: Object, step: Step, accounts: Collection[tuple[str, str]]) -> Object:
    """What can be tried of an object already.

    No Pod of an account that is not there is admitted, in a dry run neither: one whose account the
    plan has yet to make is tried as one of the namespace's own.
    """
    spec = body.get("spec") or {}
    if not _makes(step, "Pod") or (step.ref.namespace, spec.get(_ACCOUNT)) not in accounts:
        return body
    return {**body, "spec": {key: value for key, value in spec.items() if key != _ACCOUNT}}


def _tried(cluster: Cluster, step: Step, writer: Writer, body: Object) -> Refusal | None:
    if wants_key_pair(body):
        body = with_placeholders(body)
    metadata = body["metadata"]
    try:
        if step.action == "replace":
            name = metadata["name"][:50].rstrip("-.")
            other = {key: value for key, value in metadata.items() if key != "name"}
            cluster.create(
                {**body, "metadata": {**other, "generateName": f"{name}-"}}, dry_run=True
            )
        else:
            pinned = {"uid": step.uid} if step.uid else {}
            cluster.server_side_apply({**body, "metadata": {**metadata, **pinned}}, dry_run=True)
    except ClusterError as error:
        if may_pass(error) or no_dry_run(error):
            return None
        if of_namespace(error):
            hint = f"kubectl create namespace {step.ref.namespace}"
            return Refusal(step.ref, "cluster", (error.message,), hint=hint)
        if writer.shared(step, body, error) is not None:
            return None
        left = writer.conflicts(step, error)
        return refusal(step.ref, left, body) if isinstance(left, ClusterError) else left
    return None


def _telling(steps: Iterable[Step], *, every: bool) -> list[Step]:
    """The steps to try: all that change something, and one of those that make alike objects."""
    chosen: dict[object, Step] = {}
    for step in steps:
        if step.action in ("update", "adopt", "replace"):
            chosen[step.id] = step
        elif step.action == "create":
            chosen.setdefault(step.id if every else _likeness(step), step)
    return list(chosen.values())


def _likeness(step: Step) -> object:
    labels = (step.manifest or {}).get("metadata", {}).get("labels") or {}
    if step.job is None or ROLE_LABEL not in labels:
        return step.id
    return step.job, step.ref.api_version, step.ref.kind, step.ref.namespace, labels[ROLE_LABEL]


def _makes(step: Step, kind: str) -> bool:
    return step.ref.kind == kind and step.action in ("create", "replace")


def _names(step: Step) -> dict[str, Any]:
    spec = (step.manifest or {}).get("spec") or {}
    return {"group": spec.get("group"), "kind": (spec.get("names") or {}).get("kind")}
