"""Write a plan as JSON for `diff --plan`, and read it for `apply`.

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
from etcompile.plan.step import Option, Plan, Reason, Remedy, Step

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


class _Remedy(Struct):
    reason: int
    option: Option
    words: str


class _Step(Step, frozen=True, kw_only=True):
    """A step as it is written, with its reasons as people read them."""

    texts: tuple[str, ...] = field(default=(), name="reasons")
    options: tuple[_Remedy, ...] = field(default=(), name="remedies")


class _Plan(Plan, frozen=True):
    steps: tuple[_Step, ...]


def plan_value(plan: Plan, *, with_manifests: bool = True) -> dict[str, Any]:
    """Return the plan as a JSON value; `apply` needs the manifests."""
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
        "steps": [_step_value(step, with_manifests=with_manifests) for step in plan.steps],
    }


class _Head(Struct, rename="camel"):
    api_version: Any = None
    kind: Any = None


def is_plan(data: bytes) -> bool:
    try:
        head = msgspec.json.decode(data, type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return (head.api_version, head.kind) == (API_VERSION, KIND)


def read_plan(data: bytes) -> Plan:
    """Read a plan from a file's content.

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
        remedies = {each.reason: Remedy(each.option, each.words) for each in step.options}
        why = []
        for number, text in enumerate(step.texts):
            remedy = remedies.get(number)
            why.append(Reason(text.removesuffix(f"; {remedy.words}") if remedy else text, remedy))
        fields = {name: getattr(step, name) for name in Step.__struct_fields__}
        steps.append(Step(**(fields | {"why": tuple(why)})))
    plan = Plan(**(structs.asdict(read) | {"steps": tuple(steps)}))
    if value.get("digest") != digest(plan):
        raise PlanError("it was changed since it was written", ("digest",))
    return plan


def digest(plan: Plan) -> str:
    """Digest everything that a plan does and what it is for.

    Two plans with the same digest do the same to the same objects, so one that was approved may
    be done if a new one still has its digest.
    """
    acting = [
        _step_value(step, with_manifests=True)
        for step in plan.steps
        if step.action not in ("unchanged", "unmanaged")
    ]
    for value in acting:
        value.pop("remedies", None)  # they say nothing that reasons do not
    context = _context(plan)
    digested: Any = {**context, "steps": acting} if context else acting
    text = json.dumps(digested, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _context(plan: Plan) -> dict[str, Any]:
    return {
        **({"cluster": plan.cluster} if plan.cluster else {}),
        **({"set": msgspec.to_builtins(plan.job_set)} if plan.job_set else {}),
    }


def _step_value(step: Step, *, with_manifests: bool) -> dict[str, Any]:
    remedies = tuple(
        _Remedy(place, reason.remedy.option, reason.remedy.words)
        for place, reason in enumerate(step.why)
        if reason.remedy is not None
    )
    fields = {**structs.asdict(step), "why": (), "manifest": None}
    value: dict[str, Any] = msgspec.to_builtins(
        _Step(**fields, texts=step.reasons, options=remedies)
    )
    value |= {"id": step.id, "wave": step.wave}
    if with_manifests and step.manifest is not None:
        value["manifest"] = step.manifest
    return value
