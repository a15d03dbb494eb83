"""The ApplySets of a rollout: what their parents say is there, before, while and after it.

A parent names the kinds of the members before the first of them is made and until the last of
them is gone, so that a rollout that is killed loses sight of nothing (reference/gitops.md 3).
The format is kubectl's, with its rule that another tool's set is not touched.
"""

import threading
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from etcompile._version import __version__
from etcompile.k8s.objects import Object
from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError
from etcompile.plan import claims
from etcompile.plan.inventory import (
    INVENTORY_ID,
    KINDS,
    NAMESPACES,
    applyset_id,
    is_parent,
    listed,
    parent,
)
from etcompile.plan.sets import (
    DEFAULT_NAMESPACE,
    ORPHANED,
    SET,
    SOURCE,
    SPREAD,
    belonging,
    other_set,
)
from etcompile.plan.step import MAKES, WRITES, JobSet, ObjectRef, Plan
from etcompile.rollout.refusals import Refusal, RefusedError

MANAGER = "etcompile-applyset"
TOOLING = "applyset.kubernetes.io/tooling"
_TOOL = "etcompile"


class Inventories:
    """The ApplySets of a plan's jobs; safe to share between threads.

    Args:
        adopt: Take over sets of other tools.
        job_set: The set of jobs that is applied; None for single files, whose jobs stay in theirs.
        orphans: The titles of its jobs that are not declared any more.
    """

    def __init__(
        self,
        cluster: Cluster,
        plan: Plan,
        *,
        adopt: bool,
        job_set: JobSet | None = None,
        orphans: Collection[str] = (),
    ) -> None:
        self._cluster = cluster
        self._adopt = adopt
        self._job_set = job_set
        self._orphans = orphans
        jobs = {step.job for step in plan.steps if step.job is not None}
        self._spread = {self.parent(job).namespace for job in jobs}
        self._lock = threading.Lock()
        self._written: set[str] = set()
        self._found: dict[str, Object | None] = {}
        self._before: dict[str, set[ObjectRef]] = {}
        self._after: dict[str, set[ObjectRef]] = {}
        for step in plan.steps:
            # A job's Secret is its key pair, which no set may prune while the job is there.
            if step.job is None or step.ref.kind == "Secret":
                continue
            before = self._before.setdefault(step.job, set())
            after = self._after.setdefault(step.job, set())
            if step.action in WRITES:
                before.add(step.ref)
            if step.action in MAKES or step.action == "unchanged":
                after.add(step.ref)

    def id(self, job: str | None) -> str | None:
        """The id of a job's set; None for objects of no job, which are in none."""
        return applyset_id(self.parent(job)) if job else None

    def parent(self, job: str) -> ObjectRef:
        """The parent of a job's set."""
        namespace, _, name = job.rpartition("/")
        return parent(name, namespace or self._cluster.namespace)

    def accesses(self) -> list[tuple[ObjectRef, tuple[str, ...]]]:
        """The parents that a rollout writes, each with the verbs that this takes."""
        return [
            (
                self.parent(job),
                ("get", "create", "patch") if self._after[job] else ("get", "delete"),
            )
            for job, before in self._before.items()
            if before
        ]

    def refusals(self) -> list[Refusal]:
        """Which parents are not ours to write."""
        found = []
        for job in self._before:
            live = self._live(job)
            if live is not None and (refused := self._refused(self.parent(job), live)):
                found.append(refused)
        return found

    def widen(self, job: str | None) -> None:
        """Lets the parent of a job's set name all that the rollout makes or removes.

        Raises:
            ClusterError: it could not be written.
            RefusedError: it belongs to somebody else.
        """
        with self._lock:
            if job is None or job in self._written:
                return
            live = self._live(job)
            if live is None and not self._after.get(job):
                return  # deleting makes no inventory
            if live is not None and (refused := self._refused(self.parent(job), live)):
                raise RefusedError(refused)
            kinds, namespaces = _said(live) if live else (set(), set())
            members = self._before.get(job, set())
            self._write(job, kinds | _kinds(members), namespaces | _namespaces(members))
            self._written.add(job)

    def narrow(self, job: str, kept: Iterable[ObjectRef]) -> None:
        """Lets the parent name exactly what is there, once a job's rollout is through.

        Args:
            job: The title of the job: namespace and name.
            kept: Members that are not declared, and still there.
        """
        with self._lock:
            members = self._after.get(job, set()) | set(kept)
            live = self._live(job)
            if not members:
                self._remove(self.parent(job), live)
            else:
                self._write(job, _kinds(members), _namespaces(members))

    def _remove(self, ref: ObjectRef, live: Object | None) -> None:
        if live is not None and is_parent(live, ref):
            resource = self._cluster.resource(ref.api_version, ref.kind)
            uid = live["metadata"]["uid"]
            try:
                self._cluster.delete(resource, ref.name, ref.namespace, uid=uid)
            except ClusterError as error:
                if not error.conflict:
                    raise

    def _write(self, job: str, kinds: set[str], namespaces: set[str]) -> None:
        ref = self.parent(job)
        own = self._cluster.namespace if not ref.namespace else ref.namespace
        annotations = {
            TOOLING: f"{_TOOL}/v{__version__}",
            KINDS: ",".join(sorted(kinds)),
            NAMESPACES: ",".join(sorted(namespaces - {own, ""})),
        }
        labels = {
            INVENTORY_ID: applyset_id(ref),
            "app.kubernetes.io/managed-by": "etcompile",
        }
        live = self._found.get(job)
        set_labels, set_annotations = self._belonging(job, live)
        labels |= set_labels
        annotations |= set_annotations
        metadata = live["metadata"] if live else {}
        if (
            live
            and _has(metadata.get("labels"), labels)
            and _has(metadata.get("annotations"), annotations)
            and belonging(live) == (set_labels, set_annotations)
        ):
            return
        value: dict[str, Any] = {
            "apiVersion": ref.api_version,
            "kind": ref.kind,
            "metadata": {
                "name": ref.name,
                "namespace": own,
                "labels": labels,
                "annotations": annotations,
            },
        }
        # Only its own annotations, and only of a set that is ours or given to us.
        written = self._cluster.server_side_apply(value, field_manager=MANAGER, force=True)
        self._found[job] = written

    def _belonging(self, job: str, live: Object | None) -> tuple[dict[str, str], dict[str, str]]:
        """The labels and annotations that say which set of jobs a job is in."""
        labels, annotations = belonging(live)
        if job in self._orphans:
            return labels, {**annotations, ORPHANED: "true"}
        if self._job_set is None or (
            not self._job_set.whole and labels and not other_set(live, self._job_set)
        ):
            return labels, annotations
        annotations = {
            SOURCE: self._job_set.source,
            DEFAULT_NAMESPACE: self._cluster.namespace,
        }
        if len(self._spread) > 1:
            annotations[SPREAD] = ",".join(sorted(self._spread))
        return {SET: self._job_set.id}, annotations

    def _live(self, job: str) -> Object | None:
        if job not in self._found:
            ref = self.parent(job)
            resource = self._cluster.resource(ref.api_version, ref.kind)
            found = self._cluster.get(resource, ref.name, ref.namespace, metadata_only=True)
            self._found[job] = found and {
                **found,
                "apiVersion": ref.api_version,
                "kind": ref.kind,
            }
        return self._found[job]

    def _refused(self, ref: ObjectRef, live: Object) -> Refusal | None:
        if not is_parent(live, ref):
            words = f"it has the name of the ApplySet parent, but not the label {INVENTORY_ID}"
            return Refusal(ref, "conflict", (words,), hint="rename it, or the job")
        tooling = (live["metadata"].get("annotations") or {}).get(TOOLING, "")
        tool = str(tooling).rpartition("/")[0] or str(tooling)
        if tool not in ("", _TOOL) and not self._adopt:
            words = f"the ApplySet belongs to {tooling}"
            return Refusal(ref, "conflict", (words,), hint="--adopt takes it over")
        if owner := claims.tracker(live):
            return Refusal(ref, "conflict", (f"{owner} manages it",))
        return None


def members_left(plan: Plan) -> dict[str, list[ObjectRef]]:
    """The members of each job's set that are not declared and that a plan leaves alone."""
    left: dict[str, list[ObjectRef]] = {}
    for step in plan.steps:
        if step.job is not None and step.action == "unmanaged":
            left.setdefault(step.job, []).append(step.ref)
    return left


def _kinds(members: Iterable[ObjectRef]) -> set[str]:
    return {f"{ref.kind}.{ref.group}" if ref.group else ref.kind for ref in members}


def _namespaces(members: Iterable[ObjectRef]) -> set[str]:
    return {ref.namespace for ref in members}


def _said(live: Object) -> tuple[set[str], set[str]]:
    """The kinds and the namespaces that a parent names."""
    annotations = live["metadata"].get("annotations") or {}
    return {*listed(annotations.get(KINDS))}, {*listed(annotations.get(NAMESPACES))}


def _has(live: Mapping[str, Any] | None, wanted: Mapping[str, str]) -> bool:
    return wanted.items() <= (live or {}).items()
