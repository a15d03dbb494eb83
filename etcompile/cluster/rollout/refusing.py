"""What the API server has against a write, to whose business it is and what to do about it.

Apart from writing because the same refusals come from a dry run, before anything is done, and
from the write itself when the world has changed in between.
"""

import re
from collections.abc import Mapping
from typing import Any

from etcompile.cluster.errors import ClusterError, FieldConflict
from etcompile.cluster.rollout.outcome import Refusal
from etcompile.cluster.rollout.paths import place, value_at
from etcompile.plan import secrecy
from etcompile.plan.step import FieldChange, ObjectRef

Object = Mapping[str, Any]

_FATAL = frozenset({"Credentials", "Interrupted", "Kubeconfig", "Unauthorized", "Unreachable"})
_IMMUTABLE = re.compile(r"field is immutable|may not change fields other than|is immutable when")
_NO_DRY_RUN = re.compile(r"does not support dry.?run")
_NO_ACCOUNT_YET = re.compile(
    r'error looking up service account \S+: serviceaccount "default" not found'
)


def refusal(
    ref: ObjectRef, error: ClusterError, desired: Object | None = None, live: Object | None = None
) -> Refusal:
    """The refusal that an answer of the API server means.

    Args:
        ref: The object that was to be written.
        error: The answer.
        desired: What was sent.
        live: What is there, for the other side of a conflict.
    """
    if error.conflicts:
        changes = tuple(_change(ref, one, desired or {}, live or {}) for one in error.conflicts)
        reasons = tuple(dict.fromkeys(f"{one.manager} owns {one.field}" for one in error.conflicts))
        hint = f"--take-ownership {error.conflicts[0].manager} takes the field over"
        return Refusal(ref, "conflict", reasons, changes, hint)
    if error.conflict or _other_uid(error):
        words = "it was changed or replaced by somebody else meanwhile"
        return Refusal(ref, "conflict", (words,), hint="look at it, and apply again")
    if error.invalid:
        if _IMMUTABLE.search(error.message):
            fields = tuple(dict.fromkeys(one.field for one in error.causes if one.field))
            named = ", ".join(fields) or "a field"
            words = f"{named} cannot change on an object that exists: {_short(error.message)}"
            hint = "--replace deletes it and makes it anew"
            changes = tuple(FieldChange(one, "changed", immutable=True) for one in fields)
            return Refusal(ref, "replace", (words,), changes, hint)
        return Refusal(ref, "invalid", (_short(error.message),))
    if error.status == 403 and not re.search(r'User "[^"]*" cannot ', error.message):
        # A policy's word about the object, not one about who asks.
        return Refusal(ref, "invalid", (_short(error.message),))
    fatal = error.reason in _FATAL
    return Refusal(ref, "cluster", (_short(str(error)),), hint=error.hint, fatal=fatal)


def may_pass(error: ClusterError) -> bool:
    """Whether the object may be accepted later as it is.

    When others make room in a quota, or when the ServiceAccount that each namespace has is there,
    which is made a moment after the namespace.
    """
    if error.status != 403:
        return False
    return "exceeded quota" in error.message or bool(_NO_ACCOUNT_YET.search(error.message))


def no_dry_run(error: ClusterError) -> bool:
    """Whether a webhook of the cluster cannot say what it would do."""
    return bool(_NO_DRY_RUN.search(error.message))


def of_namespace(error: ClusterError) -> bool:
    """Whether the object's namespace is what is missing."""
    return error.not_found and error.message.startswith("namespaces ")


def _change(ref: ObjectRef, one: FieldConflict, desired: Object, live: Object) -> FieldChange:
    path = one.field.removeprefix(".")
    found = place(desired, one.field)
    steps = found.steps if found else tuple(path.split("."))
    before, after = value_at(live, one.field), value_at(desired, one.field)
    return FieldChange(
        path,
        "changed",
        secrecy.masked(ref.kind, steps, before),
        secrecy.masked(ref.kind, steps, after),
        manager=one.manager,
        steps=steps,
    )


def _other_uid(error: ClusterError) -> bool:
    return error.status == 422 and any(one.field == "metadata.uid" for one in error.causes)


def _short(message: str) -> str:
    """One line; the API server appends a whole diff to some of its refusals."""
    words = " ".join(message.partition("\n@@")[0].partition(" @@ ")[0].split())
    return words if len(words) <= 600 else f"{words[:599]}…"
