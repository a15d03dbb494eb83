"""A plan as JSON: what it says, that it comes back, and that it is refused when it is another."""

import json
from typing import Any, get_args

import pytest

from etcompile import data
from etcompile.plan.plan_file import PlanError, digest, plan_value, read_plan
from etcompile.plan.planner import plan
from etcompile.plan.scope import Rights
from etcompile.plan.step import ACTIONS, Declared, Need, Plan, Until
from specs import compiled, scale_in, scale_out, training_job


@pytest.fixture
def example_plan() -> Plan:
    old = compiled(training_job(replicas=3))
    new = compiled(training_job(replicas=3), scale_out("o", 2), scale_in("i", ["mnist-worker-0"]))
    groups = [Declared(one.name, one.objects, one.waits, "job.yaml") for one in new.groups]
    rights = Rights(between_files=True)
    there: Any = old.objects
    return plan(groups, there, rights, against="main")


def test_a_plan_comes_back_as_it_was_written(example_plan: Plan) -> None:
    assert read_plan(json.dumps(plan_value(example_plan)).encode()) == example_plan


def test_the_schema_of_a_plan_lists_all_that_a_step_may_be() -> None:
    schema = json.loads((data.folder("schemas") / "plan.json").read_text())["$defs"]
    fields = schema["step"]["properties"]
    assert schema["action"]["enum"] == [*ACTIONS]
    assert set(fields["needs"]["enum"]) == {*get_args(Need)}
    assert set(fields["until"]["enum"]) == {*get_args(Until)}


def test_a_plan_follows_its_schema(example_plan: Plan) -> None:
    import jsonschema

    schema = json.loads((data.folder("schemas") / "plan.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(
        json.loads(json.dumps(plan_value(example_plan)))
    )


def test_a_plan_that_somebody_changed_is_refused(example_plan: Plan) -> None:
    value = json.loads(json.dumps(plan_value(example_plan)))
    value["steps"][0]["manifest"]["metadata"]["name"] = "other"
    with pytest.raises(PlanError, match="changed"):
        read_plan(json.dumps(value).encode())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2, "steps": []}', '{"steps": 1}'])
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(PlanError):
        read_plan(text.encode())


def test_the_digest_tells_another_world(example_plan: Plan) -> None:
    from msgspec import structs

    first = structs.replace(example_plan.steps[0], resource_version="8")
    assert digest(structs.replace(example_plan, steps=(first, *example_plan.steps[1:]))) != digest(
        example_plan
    )
    assert digest(structs.replace(example_plan, steps=example_plan.steps[:-1])) == digest(
        example_plan
    )  # unchanged ones
