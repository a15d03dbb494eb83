"""Turn errors of the API server into refusals, with advice for the person who can help.

A dry run before the rollout and a write during it report refusals in the same way.
"""

import re
from typing import Literal

from msgspec import Struct

from etcompile.exitcodes import CLUSTER, CONFLICT, INPUT, REPLACEMENT
from etcompile.kubeapi.errors import ClusterError
from etcompile.plan.step import ObjectRef

Cause = Literal["conflict", "replace", "cluster", "rights", "namespace", "invalid", "room"]
"""Somebody else's object or field; a field that cannot change; the API server or the way to it; a
right that the user lacks; a namespace in which nothing can be created; an object that the API
server does not accept; a quota that cannot hold what the plan creates."""

_CODES: dict[Cause, int] = {
    "conflict": CONFLICT,
    "replace": REPLACEMENT,
    "cluster": CLUSTER,
    "rights": CLUSTER,
    "namespace": CLUSTER,
    "invalid": INPUT,
    "room": CLUSTER,
}

_FATAL = frozenset({"Credentials", "Interrupted", "Kubeconfig", "Unauthorized", "Unreachable"})
_IMMUTABLE = re.compile(
    r"field is immutable|may not change fields other than|is immutable when"
    # The port of another field manager stays, and has the name of the new one.
    r"|spec\.ports\[\d+\]\.(name|nodePort): Duplicate value"
)
_MAY_NOT = re.compile(r'User "[^"]*" cannot ')
_NO_DRY_RUN = re.compile(r"does not support dry.?run")
_NO_ACCOUNT_YET = re.compile(
    r'error looking up service account \S+: serviceaccount "default" not found'
)


class Refusal(Struct, frozen=True):
    """A step that must not be done, or that could not be.

    Args:
        fatal: Nothing else will work either: the server cannot be reached, or rejects the user.
        clause: What is wrong with a namespace: `does not exist`.
    """

    ref: ObjectRef
    cause: Cause
    reasons: tuple[str, ...]
    hint: str = ""
    fatal: bool = False
    clause: str = ""

    @property
    def code(self) -> int:
        return _CODES[self.cause]


class RefusedError(Exception):
    """A step could not be done; carries the Refusal."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__("; ".join(refusal.reasons))
        self.refusal = refusal


def refusal(ref: ObjectRef, error: ClusterError) -> Refusal:
    if clause := of_namespace(error):
        # It is about the namespace, and the same for all objects in it.
        namespace = ObjectRef("v1", "Namespace", "", ref.namespace)
        hint = "wait until it is gone and create it again, or apply to another namespace"
        if error.not_found:
            hint = f"kubectl create namespace {ref.namespace}"
        return Refusal(namespace, "namespace", (f"it {clause}",), hint=hint, clause=clause)
    if error.conflicts:
        owners = (f"{conflict.manager} owns {conflict.field}" for conflict in error.conflicts)
        reasons = tuple(dict.fromkeys(owners))
        hint = f"--config take-ownership={error.conflicts[0].manager} takes the field over"
        return Refusal(ref, "conflict", reasons, hint)
    other_uid = error.status == 422 and any(cause.field == "metadata.uid" for cause in error.causes)
    if error.conflict or other_uid:
        words = "it was changed or replaced by another client in the meantime"
        return Refusal(ref, "conflict", (words,), hint="check the object, then apply again")
    if fields := cannot_change(error):
        words = f"{', '.join(fields)} cannot be changed on an existing object"
        hint = "--replace deletes and recreates it"
        return Refusal(ref, "replace", (f"{words}: {_short(error.message)}",), hint)
    if error.invalid or (error.status == 403 and not may_not(error)):
        # A policy refuses the object, not the user.
        return Refusal(ref, "invalid", (_short(error.message),))
    cause: Cause = "rights" if may_not(error) else "cluster"
    return Refusal(ref, cause, (_short(str(error)),), hint=error.hint, fatal=is_fatal(error))


def cannot_change(error: ClusterError) -> tuple[str, ...]:
    if not error.invalid or not _IMMUTABLE.search(error.message):
        return ()
    return tuple(dict.fromkeys(cause.field for cause in error.causes if cause.field)) or (
        "a field",
    )


def may_not(error: ClusterError) -> bool:
    is_read = error.request.startswith("GET ")
    return error.status == 403 and (is_read or bool(_MAY_NOT.search(error.message)))


def is_fatal(error: ClusterError) -> bool:
    return error.reason in _FATAL


def may_pass(error: ClusterError) -> bool:
    """Return whether the object may be accepted later as it is.

    A quota may get room, and a new namespace gets its ServiceAccount a moment later.
    """
    no_account = error.status == 403 and _NO_ACCOUNT_YET.search(error.message)
    return error.over_quota or bool(no_account)


def full(ref: ObjectRef, error: ClusterError) -> Refusal:
    hint = "apply tries it again for ten minutes; raise the quota, or end what else uses it"
    return Refusal(ref, "cluster", (_short(error.message),), hint=hint)


def no_dry_run(error: ClusterError) -> bool:
    return bool(_NO_DRY_RUN.search(error.message))


def of_namespace(error: ClusterError) -> str:
    if error.not_found:
        return "does not exist" if error.message.startswith("namespaces ") else ""
    return "is being deleted" if error.terminating else ""


def _short(message: str) -> str:
    """Return one line; the API server appends a whole diff to some of its refusals."""
    words = " ".join(message.partition("\n@@")[0].partition(" @@ ")[0].split())
    return words if len(words) <= 600 else f"{words[:599]}…"
