"""A plan as JSON and back: what `diff --plan` writes and `apply` reads.

The schema is schemas/plan.json. A file of another version is refused rather than half understood.
It holds the UIDs and resourceVersions of the live objects: `apply` plans again, and refuses if the
result is another plan.
"""

import hashlib
import json
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from etcompile.diagnostics import ValuePath
from etcompile.k8s.path import dotted, misfit
from etcompile.plan.step import (
    Action,
    FieldChange,
    JobSet,
    Need,
    ObjectRef,
    Option,
    Plan,
    Reason,
    Remedy,
    Step,
    Until,
)

API_VERSION = "etcompile.dev/v1"
KIND = "Plan"
VERSION = 1
_SHOWN = 20
"""Characters of a version that a message shows."""


class PlanError(Exception):
    """A file holds no plan that this version of etcompile can read; `path` is the wrong part."""

    def __init__(self, problem: str, path: ValuePath = ()) -> None:
        super().__init__(problem)
        self.path = path


class _Ref(Struct, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    api_version: str
    kind: str
    namespace: str = ""
    name: str


class _Remedy(Struct):
    reason: int
    option: Option
    words: str


class _Step(Struct, kw_only=True, rename="camel", omit_defaults=True):
    id: str
    action: Action
    ref: _Ref = field(name="object")
    job: str | None = None
    wave: int
    reasons: tuple[str, ...] = ()
    remedies: tuple[_Remedy, ...] = ()
    after: tuple[str, ...] = ()
    needs: Need | None = None
    until: Until | None = None
    limit: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    origin: str | None = None
    frees_quota: bool = field(default=False, name="makesRoom")
    changes: tuple[FieldChange, ...] = ()
    manifest: dict[str, Any] | None = None


class _Plan(Struct, kw_only=True):
    against: str
    context: str | None = None
    namespace: str | None = None
    cluster: str | None = None
    job_set: JobSet | None = field(default=None, name="set")
    steps: tuple[_Step, ...]


def plan_value(plan: Plan, *, whole: bool = True) -> dict[str, Any]:
    """The plan as a JSON value; unless `whole`, without the manifests that apply needs."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "version": VERSION,
        "against": plan.against,
        **({"context": plan.context} if plan.context else {}),
        **({"namespace": plan.namespace} if plan.namespace else {}),
        **_context(plan),
        "digest": digest(plan),
        "differs": plan.differs,
        "counts": plan.counts(),
        "steps": [_step_value(step, whole=whole) for step in plan.steps],
    }


class _Head(Struct, rename="camel"):
    api_version: Any = None
    kind: Any = None


def is_plan(data: bytes) -> bool:
    """Whether a file's content says that it is a plan, of whatever version."""
    try:
        head = msgspec.json.decode(data, type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return (head.api_version, head.kind) == (API_VERSION, KIND)


def read_plan(data: bytes) -> Plan:
    """The plan that a file's content is.

    Raises:
        PlanError: this is not a plan, one of another version, or one that somebody has changed.
    """
    try:
        value = msgspec.json.decode(data)
        if not isinstance(value, dict) or "steps" not in value:
            raise PlanError("this is not a plan")
        if (version := value.get("version")) != VERSION:
            problem = f"its version is {str(version)[:_SHOWN]}, not {VERSION}"
            raise PlanError(problem, ("version",))
        read = msgspec.convert(value, _Plan)
    except msgspec.ValidationError as error:
        problem, path = misfit(error)
        raise PlanError(f"this is not a plan: {dotted(path)}: {problem}", path) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PlanError(f"this is not a plan: {error}") from error
    steps = []
    for step in read.steps:
        fields = structs.asdict(step)
        del fields["id"]
        ref = ObjectRef(**structs.asdict(fields.pop("ref")))
        remedies = {
            remedy.reason: Remedy(remedy.option, remedy.words) for remedy in fields.pop("remedies")
        }
        why = []
        for number, text in enumerate(fields.pop("reasons")):
            remedy = remedies.get(number)
            why.append(Reason(text.removesuffix(f"; {remedy.words}") if remedy else text, remedy))
        steps.append(Step(ref=ref, why=tuple(why), **fields))
    plan = Plan(**{**structs.asdict(read), "steps": tuple(steps)})
    if value.get("digest") != digest(plan):
        raise PlanError("it was changed since it was written", ("digest",))
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
    for value in acting:
        value.pop("remedies", None)  # they say nothing that reasons do not
    made_for = _context(plan)
    digested: Any = {**made_for, "steps": acting} if made_for else acting
    text = json.dumps(digested, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _context(plan: Plan) -> dict[str, Any]:
    """The cluster and the set of jobs that a plan is for."""
    return {
        **({"cluster": plan.cluster} if plan.cluster else {}),
        **({"set": msgspec.to_builtins(plan.job_set)} if plan.job_set else {}),
    }


def _step_value(step: Step, *, whole: bool) -> dict[str, Any]:
    fields = structs.asdict(step)
    manifest = fields.pop("manifest")
    fields["ref"] = _Ref(**structs.asdict(fields["ref"]))
    fields["remedies"] = tuple(
        _Remedy(place, reason.remedy.option, reason.remedy.words)
        for place, reason in enumerate(fields.pop("why"))
        if reason.remedy is not None
    )
    written = _Step(id=step.id, reasons=step.reasons, **fields)
    value: dict[str, Any] = msgspec.to_builtins(written)
    if whole and manifest is not None:
        value["manifest"] = manifest
    return value
