"""A plan as JSON and back: what `diff --plan` writes and `apply` reads.

The schema is schemas/plan.json. A file of another version is refused rather than half understood.
It holds the UIDs and resourceVersions of the live objects: `apply` plans again, and refuses if the
result is another plan.
"""

import hashlib
import json
import re
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from etcompile.diagnostics import ValuePath
from etcompile.k8s.objects import without_nulls
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
_BYTE = re.compile(r"\(byte (\d+)\)")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_SHOWN = 20
"""Characters of a version that a message shows."""
_HEAD = re.compile(rb'\s*\{\s*"apiVersion"\s*:\s*"etcompile\.dev/v1"\s*,\s*"kind"\s*:\s*"Plan"')


class PlanProblem(Struct, frozen=True):
    """Something wrong with the file of a plan.

    Args:
        path: The part of the plan.
        byte: Where the file stops being JSON; None if it is JSON.
    """

    text: str
    path: ValuePath = ()
    byte: int | None = None


class PlanError(Exception):
    """A file holds no plan that this version of etcompile can read."""

    def __init__(self, *problems: PlanProblem) -> None:
        super().__init__("; ".join(problem.text for problem in problems))
        self.problems = problems


class _Ref(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    api_version: str
    kind: str
    name: str
    namespace: str = ""


class _Remedy(Struct, frozen=True):
    reason: int
    option: Option
    words: str


class _Step(Struct, frozen=True, rename="camel"):
    id: str
    action: Action
    ref: _Ref = field(name="object")
    reasons: tuple[str, ...] = ()
    remedies: tuple[_Remedy, ...] = ()
    changes: tuple[FieldChange, ...] = ()
    after: tuple[str, ...] = ()
    wave: int = 0
    job: str | None = None
    needs: Need | None = None
    until: Until | None = None
    limit: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    manifest: dict[str, Any] | None = None
    origin: str | None = None
    frees_quota: bool = field(default=False, name="makesRoom")


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


class _Head(Struct, frozen=True, rename="camel"):
    api_version: Any = None
    kind: Any = None


def is_plan(data: bytes) -> bool:
    """Whether a file's content says that it is a plan, of whatever version."""
    try:
        head = msgspec.json.decode(data, type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _HEAD.match(data) is not None  # a broken plan is still meant as one
    return (head.api_version, head.kind) == (API_VERSION, KIND)


def read_plan(data: bytes) -> Plan:
    """The plan that a file's content is.

    Raises:
        PlanError: this is not a plan, one of another version, or one that somebody has changed.
    """
    try:
        value = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        at = _BYTE.search(str(error))
        byte = int(at[1]) if at else len(data)
        raise PlanError(PlanProblem("this is not a plan: it is not JSON", byte=byte)) from error
    except UnicodeDecodeError as error:
        raise PlanError(PlanProblem("this is not a plan: it is not UTF-8")) from error
    except RecursionError as error:
        raise PlanError(PlanProblem("this is not a plan: it is nested too deep")) from error
    if not isinstance(value, dict) or "steps" not in value:
        raise PlanError(PlanProblem("this is not a plan"))
    if (version := value.get("version")) != VERSION:
        problem = f"its version is {str(version)[:_SHOWN]}, not {VERSION}"
        raise PlanError(PlanProblem(problem, ("version",)))
    problems: list[PlanProblem] = []
    items = _converted(value["steps"], list[Any], ("steps",), problems) or ()
    steps = [_converted(item, _Step, ("steps", n), problems) for n, item in enumerate(items)]
    against = _converted(value.get("against"), str, ("against",), problems)
    context = _converted(value.get("context"), str | None, ("context",), problems)
    namespace = _converted(value.get("namespace"), str | None, ("namespace",), problems)
    cluster = _converted(value.get("cluster"), str | None, ("cluster",), problems)
    job_set = _converted(value.get("set"), JobSet | None, ("set",), problems)
    if problems:
        raise PlanError(*problems)
    plan = Plan(tuple(map(_step, steps)), against, context, namespace, cluster, job_set)
    if value.get("digest") != digest(plan):
        raise PlanError(PlanProblem("it was changed since it was written", ("digest",)))
    return plan


def _converted(value: Any, to: Any, path: ValuePath, problems: list[PlanProblem]) -> Any:
    """A part of a plan; None if it is wrong, which becomes one of the problems."""
    try:
        return msgspec.convert(value, to)
    except msgspec.ValidationError as error:
        words, _, below = str(error).partition(" - at `$")
        below = below.partition("[...]")[0].removesuffix("`")
        where = "".join(f"[{key}]" if isinstance(key, int) else key for key in path)
        steps = [int(at) if at else name for name, at in _STEP.findall(below)]
        quoted = words.replace("`", "'")
        problem = f"this is not a plan: {where}{below}: {quoted[:1].lower()}{quoted[1:]}"
        problems.append(PlanProblem(problem, (*path, *steps)))
        return None


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
    value: dict[str, Any] = without_nulls(
        {
            "id": step.id,
            "action": step.action,
            "object": {
                "apiVersion": step.ref.api_version,
                "kind": step.ref.kind,
                "namespace": step.ref.namespace or None,
                "name": step.ref.name,
            },
            "job": step.job,
            "wave": step.wave,
            "reasons": list(step.reasons) or None,
            "remedies": [
                {"reason": place, "option": reason.remedy.option, "words": reason.remedy.words}
                for place, reason in enumerate(step.why)
                if reason.remedy is not None
            ]
            or None,
            "after": list(step.after) or None,
            "needs": step.needs,
            "until": step.until,
            "limit": step.limit,
            "uid": step.uid,
            "resourceVersion": step.resource_version,
            "origin": step.origin,
            "makesRoom": step.frees_quota or None,
        }
    )
    if step.changes:
        value["changes"] = [_change_value(change) for change in step.changes]
    if whole and step.manifest is not None:
        value["manifest"] = step.manifest
    return value


def _change_value(change: FieldChange) -> dict[str, Any]:
    value: dict[str, Any] = {"path": change.path, "how": change.how, "steps": list(change.steps)}
    # A side that exists may be null, and one that does not is left out.
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
    del fields["id"]
    fields["ref"] = ObjectRef(**structs.asdict(read.ref))
    remedies = {remedy.reason: Remedy(remedy.option, remedy.words) for remedy in read.remedies}
    del fields["remedies"]
    why = []
    for place, text in enumerate(fields.pop("reasons")):
        remedy = remedies.get(place)
        why.append(Reason(text.removesuffix(f"; {remedy.words}") if remedy else text, remedy))
    return Step(why=tuple(why), **fields)
