"""Carry out steps as requests.

Each request names what it expects, so that no object is overwritten that the plan has not seen: a
create expects no object, an update or a deletion expects that very UID. If something else exists,
the rules of the plan decide, or the step is refused.
"""

import copy
import time
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import structs

from etcompile.k8s.objects import Object, is_going, labels_of, with_metadata
from etcompile.k8s.path import overlap
from etcompile.k8s.serverpath import place
from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError
from etcompile.model.keypair import wants_key_pair, with_key_pair
from etcompile.model.protocol import MANAGER, ROLE_LABEL
from etcompile.plan.applysets import PART_OF
from etcompile.plan.comparison import NOBODY, compared
from etcompile.plan.planner import matched
from etcompile.plan.step import Action, ObjectRef, Step
from etcompile.rollout.live import NOTHING_YET, live_object
from etcompile.rollout.machine.messages import Effect, Proposal, Written
from etcompile.rollout.refusals import Refusal, RefusedError

_CLIENT_SIDE = "kubectl-client-side-apply"
_TRIES = 5
_DISCOVERY, _POLL = 10.0, 0.2
"""Seconds in which discovery has a kind whose definition is Established, and between two looks."""

_WITH_PODS = frozenset({"apps", "batch"})
"""API groups whose objects create Pods. They are deleted after their Pods: what replaces or follows
a launcher must not run while the old one ends."""
_WRITTEN: dict[Action, Effect] = {"adopt": "adopted", "release": "released"}


class Writer:
    """The requests of a rollout; safe to share between threads.

    Every method raises ClusterError or RefusedError.
    """

    def __init__(
        self,
        cluster: Cluster,
        proposal: Proposal,
        inventory: Callable[[str | None], str | None],
    ) -> None:
        self._cluster = cluster
        self._rights = proposal.rights
        self._secrets = proposal.secrets
        self._inventory = inventory
        self._answered: set[object] = set()
        """The roles of which an object has been created, and the answer was read as a whole."""

    def body(self, step: Step) -> dict[str, Any]:
        manifest = step.manifest if step.manifest is not None else self._secrets.get(step.ref)
        if manifest is None:
            words = "no plan carries the values of a Secret: apply the sources instead of the plan"
            raise RefusedError(Refusal(step.ref, "invalid", (words,)))
        metadata = dict(manifest["metadata"])
        is_member = step.action != "release" and not wants_key_pair(manifest)
        member = self._inventory(step.job) if is_member else None
        if member:
            metadata["labels"] = {**(metadata.get("labels") or {}), PART_OF: member}
        return {**manifest, "metadata": metadata}

    def create(self, step: Step) -> Written:
        """Create an object; judge one that is there meanwhile as the plan would have."""
        body = self.body(step)
        if wants_key_pair(body):
            try:
                pair = self._cluster.create(with_key_pair(body))
                live = {key: pair[key] for key in ("apiVersion", "kind", "metadata")}
            except ClusterError as error:
                if not error.already_exists:
                    raise
                # Another client was faster; a second key pair would cut off running Pods.
                return Written("created", live_object(self._cluster, step.ref, metadata_only=True))
            return Written("created", live)
        # A definition is Established a moment before the API server's discovery has its kind. A
        # kind without a definition has been refused before anything was written.
        last = time.monotonic() + _DISCOVERY
        while self._cluster.find(step.ref.api_version, step.ref.kind) is None:
            if time.monotonic() > last:
                break  # the write says why
            time.sleep(_POLL)
        try:
            role = likeness(step.ref, step.job, labels_of(body))
            # A plain create would leave the fields to our manager as an Update, and the next apply,
            # which is another owner to the API server, could not take any of them away.
            live = self._cluster.server_side_apply(
                with_metadata(body, resourceVersion=NOTHING_YET),
                metadata_only=role in self._answered,
            )
            self._answered.add(role)
        except ClusterError as error:
            # Also one of field managers: the object is there, made by somebody else meanwhile, and
            # perhaps as we would have made it, as the watcher makes Pods.
            if not error.conflict:
                raise
            if (there := live_object(self._cluster, step.ref)) is None:
                raise _unsteady(step.ref) from None
        else:
            return Written("created", live)
        if is_going(there):
            raise _unsteady(step.ref)
        inventory = self._inventory(step.job)
        ids = frozenset({inventory} if inventory else ())
        judged = matched(body, there, step.ref, self._rights, inventory, ids)
        if judged.action == "unchanged":
            return Written("created", there)
        if judged.action in ("update", "adopt") and not judged.needs:
            uid, version = judged.uid, judged.resource_version
            return self.update(
                structs.replace(step, action=judged.action, uid=uid, resource_version=version)
            )
        reasons = ("it was created by another client in the meantime", *judged.reasons)
        cause = judged.action if judged.action == "replace" else "conflict"
        raise RefusedError(Refusal(step.ref, cause, reasons))

    def update(self, step: Step) -> Written:
        body = self.body(step)
        status = _WRITTEN.get(step.action, "updated")
        if step.action == "adopt":
            self._inherit(step)
        for _ in range(_TRIES):
            try:
                return Written(
                    status, self._cluster.server_side_apply(with_metadata(body, uid=step.uid))
                )
            except ClusterError as error:
                if (agreed := self.shared(step, body, error)) is not None:
                    body = agreed
                    continue
                if not self.may_take(error):
                    raise
            live = live_object(self._cluster, step.ref, metadata_only=True)
            if live is None or live["metadata"]["uid"] != step.uid:
                raise _unsteady(step.ref)
            # Nobody else's fields: with that version, the conflicts are those just seen.
            version = live["metadata"]["resourceVersion"]
            pinned = with_metadata(body, uid=step.uid, resourceVersion=version)
            try:
                return Written(status, self._cluster.server_side_apply(pinned, force=True))
            except ClusterError as error:
                if not error.conflict:
                    raise
        raise _unsteady(step.ref)

    def delete(self, ref: ObjectRef, uid: str | None, *, dry_run: bool = False) -> Written:
        """Delete that very object, if it is still there; a dry run only tries whether it may."""
        if (resource := self._cluster.find(ref.api_version, ref.kind)) is None:
            return Written("deleted", None)
        namespace, has_pods = ref.namespace or None, ref.group in _WITH_PODS
        try:
            was_there = self._cluster.delete(
                resource,
                ref.name,
                namespace,
                uid=uid or "",
                foreground=has_pods,
                dry_run=dry_run,
            )
        except ClusterError as error:
            if not error.conflict:
                raise
            return Written("deleted", None)  # another one has its name
        if was_there and not dry_run:
            left = self._cluster.get(resource, ref.name, namespace, metadata_only=not has_pods)
            if left is not None and left["metadata"].get("uid") == uid:
                return Written("deleting", left)
        return Written("deleted", None)

    def shared(self, step: Step, desired: Object, error: ClusterError) -> dict[str, Any] | None:
        """Return the desired object with the live values of fields that do not really conflict.

        A list that the API server treats as one value, such as the sources of a projected volume,
        is in conflict as soon as the server filled in a default in it, although no manager changes
        it (seen with two server-side applies of one manifest). Sending the live value makes us its
        second owner, and takes nothing from the first. None if a conflict is a real difference.
        """
        live = live_object(self._cluster, step.ref) if error.conflicts else None
        if live is None:
            return None
        differing = [changed.path for changed in compared(desired, live, NOBODY)]
        body: dict[str, Any] = copy.deepcopy(dict(desired))
        for conflict in error.conflicts:
            ours, theirs = place(body, conflict.field), place(live, conflict.field)
            if ours is None or theirs is None:
                return None
            if any(overlap(ours.steps, path) for path in differing):
                return None
            ours.holder[ours.key] = theirs.value
        return body

    def may_take(self, error: ClusterError) -> bool:
        losers = self._rights.take_ownership
        return bool(error.conflicts) and (
            "*" in losers or all(conflict.manager in losers for conflict in error.conflicts)
        )

    def _inherit(self, step: Step) -> None:
        """Take over fields of `kubectl apply`, or what leaves the manifest would stay for ever.

        As kubectl itself does when it goes over to server-side apply (reference/gitops.md 4.4).
        """
        for _ in range(_TRIES):
            live = live_object(self._cluster, step.ref, metadata_only=True)
            if live is None or live["metadata"].get("uid") != step.uid:
                return
            entries = live["metadata"].get("managedFields") or []
            changed = [
                {**entry, "manager": MANAGER, "operation": "Apply"}
                if entry.get("manager") == _CLIENT_SIDE and not entry.get("subresource")
                else entry
                for entry in entries
            ]
            if changed == entries or any(entry["manager"] == MANAGER for entry in entries):
                return
            version = live["metadata"]["resourceVersion"]
            change = {"metadata": {"managedFields": changed, "resourceVersion": version}}
            resource = self._cluster.resource(step.ref.api_version, step.ref.kind)
            try:
                self._cluster.patch(resource, step.ref.name, change, step.ref.namespace or None)
            except ClusterError as error:
                if not error.conflict:
                    raise
            else:
                return


def likeness(ref: ObjectRef, job: str | None, labels: Mapping[str, Any]) -> object:
    """Return what objects of one role share: admission treats them as one, but for their names."""
    if job is None or ROLE_LABEL not in labels:
        return ref
    return job, ref.api_version, ref.kind, ref.namespace, labels[ROLE_LABEL]


def _unsteady(ref: ObjectRef) -> RefusedError:
    words = "another client creates, changes or deletes it at the same time"
    return RefusedError(
        Refusal(ref, "conflict", (words,), hint="check the object, then apply again")
    )
