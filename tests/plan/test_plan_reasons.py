"""Why a step is what it is: what people read of a reason, and what is decided by it."""

import json
from typing import Any

import jsonschema
import pytest

from etcompile import data
from etcompile.operations.execution import refused
from etcompile.plan.deletion import removable, removal
from etcompile.plan.plan_file import digest, plan_value, read_plan
from etcompile.plan.scope import Rights
from etcompile.plan.step import Plan, Step
from etcompile.rollout.machine.messages import Proposal
from plan.live_objects import live
from plan.test_plan_classes import (
    ARGO,
    CLAIM,
    OTHER_CLAIM,
    PREVENTED,
    SET,
    config,
    member,
    planned,
    pod,
)

IMMUTABLE = "spec.containers[main].command cannot be changed on an existing object"
FORBIDDEN = (
    "its annotation etcompile.dev/prevent-destroy forbids deleting it; remove the annotation first"
)
ADOPT = "--adopt deletes it anyway"
NAMED = "--replace-data PersistentVolumeClaim/x replaces it anyway"
CASES: dict[str, tuple[Plan, list[str], list[tuple[str, str]]]] = {
    "prune": (
        planned([], [member(config("old"))], inventory=SET),
        ["it is no longer in the files; --prune deletes it"],
        [("prune", "--prune deletes it")],
    ),
    "prune-given": (
        planned([], [member(config("old"))], inventory=SET, prune=True),
        ["it is no longer in the files"],
        [],
    ),
    "replace": (
        planned([pod("a:1", "new")], [live(pod("a:1", "old"))]),
        [f"{IMMUTABLE}; --replace deletes and recreates it"],
        [("replace", "--replace deletes and recreates it")],
    ),
    "replace-given": (
        planned([pod("a:1", "new")], [live(pod("a:1", "old"))], replace=True),
        [IMMUTABLE],
        [],
    ),
    "replace-data": (
        planned([OTHER_CLAIM], [live(CLAIM)]),
        [
            "spec.accessModes cannot be changed on an existing object",
            f"deleting it may delete its volume and everything on it; {NAMED}",
        ],
        [("replace-data", NAMED)],
    ),
    "forbidden": (
        planned([pod("a:1", "new")], [live(pod("a:1", "old"), **PREVENTED)]),
        [IMMUTABLE, FORBIDDEN],
        [],
    ),
    "adopt": (
        Plan(removal(removable([("n/j", live(config(), **ARGO))]))),
        [f"Argo CD application team manages it, and would create it again; {ADOPT}"],
        [("adopt", ADOPT)],
    ),
}
cases = pytest.mark.parametrize("case", CASES)


def only(plan: Plan) -> Step:
    (step,) = plan.steps
    return step


@cases
def test_a_remedy_is_a_value_and_ends_the_reason_that_people_read(case: str) -> None:
    plan, reasons, remedies = CASES[case]
    step = only(plan)
    assert [*step.reasons] == reasons
    assert [(one.option, one.words) for one in step.remedies] == remedies
    assert not any("--" in one.text for one in step.why)


@cases
def test_the_hint_of_a_refusal_names_the_remedy_and_its_problem_does_not(case: str) -> None:
    plan, _, _ = CASES[case]
    result = refused(Proposal(plan=plan, rights=Rights()))
    for one in result.diagnostics if result else ():
        assert "--" not in one.message
    if case == "adopt":
        assert result is not None
        assert result.diagnostics[0].hint == ADOPT


@cases
def test_a_plan_that_is_read_knows_the_remedies(case: str) -> None:
    plan, reasons, _ = CASES[case]
    value = written(plan)
    schema = json.loads((data.folder("schemas") / "plan.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(value)
    assert value["steps"][0]["reasons"] == reasons
    assert read_plan(json.dumps(value).encode()).steps == plan.steps


@cases
def test_a_plan_without_remedies_is_read_and_has_the_same_digest(case: str) -> None:
    plan, reasons, _ = CASES[case]
    value = written(plan)
    value["steps"][0].pop("remedies", None)
    read = read_plan(json.dumps(value).encode())
    assert [*only(read).reasons] == reasons
    assert digest(read) == digest(plan)


def written(plan: Plan) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(json.dumps(plan_value(plan)))
    return value
