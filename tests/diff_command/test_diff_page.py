"""The page in a real browser: no script errors, nothing loaded, search, filters and folding."""

from collections.abc import Callable
from typing import Any

import pytest

from browsers.pages import check_page
from etcompile import emit
from etcompile.plan.planner import plan
from etcompile.plan.presentation import page
from etcompile.plan.scope import Rights
from etcompile.plan.step import Declared, Plan
from specs import compiled, launcher, scale_in, scale_out, training_job, worker


@pytest.fixture(scope="module")
def example_plan() -> Plan:
    new = training_job(replicas=3)
    for role in (worker(new), launcher(new)):
        role["template"]["spec"]["nodeSelector"] = {"gpu": "yes"}
    old = compiled(training_job(replicas=3))
    right = compiled(new, scale_out("o", 6), scale_in("i", ["mnist-worker-0"]))
    groups = [Declared(one.name, one.objects, one.waits, "job.yaml") for one in right.groups]
    there: Any = old.objects
    return plan(groups, there, Rights(between_files=True), against="main")


@pytest.fixture
def opened(open_page: Callable[..., Any], example_plan: Plan) -> Callable[..., Any]:
    text = page(example_plan, emit.to_yaml)
    return lambda **options: open_page(text, **options)


def test_search_filters_and_the_words_must_all_be_there(opened: Callable[..., Any]) -> None:
    there = opened()
    steps = there.locator(".step:visible")
    every = steps.count()
    assert every > 8
    there.keyboard.press("/")
    there.keyboard.type("service WORKER-0")
    assert steps.count() == 1
    assert "Service mnist-worker-0" in steps.first.inner_text()
    assert there.locator("#count").inner_text() == f"1 of {every}"
    there.fill("#search", "nodeSelector")  # only in the change that is folded away
    assert 0 < steps.count() < every
    there.fill("#search", "no such words")
    assert steps.count() == 0
    assert there.locator("#none").is_visible()
    there.fill("#search", "mnist-worker-5")  # one of many alike
    assert steps.count() >= 1
    there.fill("#search", "")
    assert steps.count() == every
    there.uncheck("[name=action][value=delete]")
    assert 0 < steps.count() < every
    assert there.locator(".step[data-action=delete]:visible").count() == 0


def test_each_change_folds_and_all_of_them_together(opened: Callable[..., Any]) -> None:
    there = opened()
    first = there.locator(".step").first
    inside = first.locator(".inside")
    assert not inside.is_visible()
    first.locator("summary").click()
    assert inside.is_visible()
    first.locator("summary").click()
    assert not inside.is_visible()
    there.click("#unfold")
    assert there.locator(".step:not([open])").count() == 0
    assert there.locator(".diff .new").first.is_visible()
    there.click("#fold")
    assert there.locator(".step[open]").count() == 0


def test_everything_can_be_read_without_scripts(opened: Callable[..., Any]) -> None:
    there = opened(java_script_enabled=False)
    there.locator(".step summary").first.click()
    assert there.locator(".step .inside").first.is_visible()


def test_a_step_stands_right_of_what_it_waits_for_and_leads_to_its_change(
    opened: Callable[..., Any],
) -> None:
    there = opened()
    columns = there.locator(".turns li")
    lefts = [columns.nth(n).bounding_box()["x"] for n in range(columns.count())]
    assert len(lefts) > 1
    assert lefts == sorted(set(lefts))
    texts = [columns.nth(n).inner_text() for n in range(columns.count())]
    service, pod = (next(n for n, text in enumerate(texts) if f"+ {kind}" in text)
                    for kind in ("Service", "Pod"))  # fmt: skip
    assert service < pod
    boxes = there.locator(".turns .box")
    assert boxes.count() == there.locator(".step").count()
    assert there.locator(boxes.first.get_attribute("href")).count() == 1


def test_light_and_dark_differ(opened: Callable[..., Any]) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        there = opened(color_scheme=scheme)
        colours[scheme] = [
            there.evaluate(f"getComputedStyle(document.querySelector('{one}')).{name}")
            for one, name in (
                ("body", "backgroundColor"),
                ("body", "color"),
                (".box.create", "color"),
                (".box.create", "backgroundColor"),
            )
        ]
    pairs = zip(colours["light"], colours["dark"], strict=True)
    assert all(light != dark for light, dark in pairs)


def test_a_phone_shows_it_without_scrolling_sideways(opened: Callable[..., Any]) -> None:
    there = opened(viewport={"width": 380, "height": 700})
    there.click("#unfold")
    width = there.evaluate("document.documentElement.scrollWidth")
    assert width <= 380


def test_the_page_is_well_formed_and_names_no_address(example_plan: Plan) -> None:
    check_page(page(example_plan, emit.to_yaml))
