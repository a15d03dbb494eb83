"""A plan as JSON and back: what `diff -o` writes and `apply` reads.

The schema is schemas/plan.json. A file of another version is refused rather than half understood.
The UIDs and resourceVersions in it are those that the plan was made for: who does it later makes a
plan anew, and refuses if that is another one.
"""

import hashlib
import json
from typing import Any

import msgspec
from msgspec import Struct, structs

from etcompile.load import without_nulls
from etcompile.plan.step import FieldChange, ObjectRef, Plan, Step

VERSION = 1


class PlanError(Exception):
    """What was read is no plan that this version of etcompile can read."""


class _Ref(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    api_version: str
    kind: str
    name: str
    namespace: str = ""


class _Change(Struct, frozen=True, rename="camel"):
    path: str
    how: Any
    steps: tuple[str, ...]
    before: Any = None
    after: Any = None
    manager: str | None = None
    immutable: bool = False


class _Step(Struct, frozen=True, rename="camel"):
    id: str
    action: Any
    object: _Ref
    reasons: tuple[str, ...] = ()
    changes: tuple[_Change, ...] = ()
    after: tuple[str, ...] = ()
    wave: int = 0
    job: str | None = None
    needs: Any = None
    until: Any = None
    limit: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    manifest: dict[str, Any] | None = None
    origin: str | None = None


def plan_value(plan: Plan, *, whole: bool = True) -> dict[str, Any]:
    """The plan as a JSON value.

    Args:
        plan: The plan.
        whole: With what is to be applied, so that it can be; else for reading only.
    """
    value: dict[str, Any] = {
        "version": VERSION,
        "against": plan.against,
        **({"context": plan.context} if plan.context else {}),
        "digest": digest(plan),
        "differs": plan.differs,
        "counts": plan.counts(),
        "steps": [_step_value(step, whole=whole) for step in plan.steps],
    }
    return value


def read_plan(data: bytes) -> Plan:
    """The plan that a file holds.

    Args:
        data: The file's content.

    Raises:
        PlanError: it is no plan, one of another version, or one that somebody has changed.
    """
    try:
        value = msgspec.json.decode(data)
        if not isinstance(value, dict) or "steps" not in value:
            raise PlanError("it is no plan")
        if value.get("version") != VERSION:
            raise PlanError(f"it is of version {value.get('version')}, and not {VERSION}")
        steps = tuple(_step(msgspec.convert(one, _Step)) for one in value["steps"])
        plan = Plan(steps, str(value["against"]), value.get("context"))
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError) as error:
        raise PlanError(f"it is no plan: {error}") from error
    if value.get("digest") != digest(plan):
        raise PlanError("it was changed since it was written")
    return plan


def digest(plan: Plan) -> str:
    """A digest of everything that a plan does and of what it was made for.

    Two plans with the same digest do the same to the same objects, so one that was approved may
    be done if a new one still has its digest.
    """
    acting = [
        _step_value(step, whole=True)
        for step in plan.steps
        if step.action not in ("unchanged", "unmanaged")
    ]
    text = json.dumps(acting, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _step_value(step: Step, *, whole: bool) -> dict[str, Any]:
    ref = {
        "apiVersion": step.ref.api_version,
        "kind": step.ref.kind,
        "namespace": step.ref.namespace or None,
        "name": step.ref.name,
    }
    value: dict[str, Any] = without_nulls(
        {
            "id": step.id,
            "action": step.action,
            "object": ref,
            "job": step.job,
            "wave": step.wave,
            "reasons": list(step.reasons) or None,
            "after": list(step.after) or None,
            "needs": step.needs,
            "until": step.until,
            "limit": step.limit,
            "uid": step.uid,
            "resourceVersion": step.resource_version,
            "origin": step.origin,
        }
    )
    if step.changes:
        value["changes"] = [_change_value(one) for one in step.changes]
    if whole and step.manifest is not None:
        value["manifest"] = step.manifest
    return value


def _change_value(change: FieldChange) -> dict[str, Any]:
    value: dict[str, Any] = {"path": change.path, "how": change.how, "steps": list(change.steps)}
    # A side that is there may be null, and one that is not is left out.
    if change.how != "added":
        value["before"] = change.before
    if change.how != "removed":
        value["after"] = change.after
    if change.manager:
        value["manager"] = change.manager
    if change.immutable:
        value["immutable"] = True
    return value


def _step(read: _Step) -> Step:
    fields = structs.asdict(read)
    fields.pop("id")
    one = fields.pop("object")
    ref = ObjectRef(one.api_version, one.kind, one.namespace, one.name)
    changes = tuple(FieldChange(**structs.asdict(change)) for change in read.changes)
    return Step(**{**fields, "ref": ref, "changes": changes})
