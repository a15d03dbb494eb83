"""The page in a real browser: no script errors, nothing loaded, search, filters and folding."""

import os
import shutil
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from etcompile import emit
from etcompile.plan.planner import Declared, plan
from etcompile.plan.rights import Rights
from etcompile.plan.show.page import page
from etcompile.plan.step import Plan
from specs import compiled, launcher, scale_in, scale_out, training_job, worker

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def made() -> Plan:
    new = training_job(replicas=3)
    for role in (worker(new), launcher(new)):
        role["template"]["spec"]["nodeSelector"] = {"gpu": "yes"}
    old = compiled(training_job(replicas=3))
    right = compiled(new, scale_out("o", 6), scale_in("i", ["mnist-worker-0"]))
    groups = [Declared(one.name, one.objects, one.waits, "job.yaml") for one in right.groups]
    there: Any = old.objects
    return plan(groups, there, emit.wave, Rights(whole=True), against="main")


@pytest.fixture(scope="module")
def browser(require: Callable[..., str]) -> Iterator[Any]:
    given = os.environ.get("ETCOMPILE_BROWSER")
    program = given or next(filter(None, map(shutil.which, _BROWSERS)), None)
    require("browser", present=program is not None, why="there is no chromium and no google-chrome")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # As root, as in a container, Chromium's sandbox does not start.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = playwright.chromium.launch(executable_path=program, args=flags)
        yield found
        found.close()


@pytest.fixture
def opened(browser: Any, made: Plan, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    file = tmp_path / "plan.html"
    file.write_text(page(made, emit.to_yaml, version="1"), encoding="utf-8")
    contexts = []
    errors: list[str] = []
    asked: list[str] = []

    def open_page(**options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        found = context.new_page()
        found.on("pageerror", lambda error: errors.append(str(error)))
        found.on("console", lambda said: errors.append(said.text) if said.type != "log" else None)
        found.on("request", lambda request: asked.append(request.url))
        found.goto(file.as_uri())
        return found

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []
    assert set(asked) == {file.as_uri()}


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


def test_the_picture_is_drawn_and_light_and_dark_differ(opened: Callable[..., Any]) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        there = opened(color_scheme=scheme)
        box = there.locator(".picture svg").bounding_box()
        assert box["width"] > 400
        assert box["height"] > 100
        colours[scheme] = [
            there.evaluate(f"getComputedStyle(document.querySelector('{one}')).{name}")
            for one, name in (
                ("body", "backgroundColor"),
                ("body", "color"),
                (".picture svg .page", "fill"),
                (".do-create", "fill"),
            )
        ]
    pairs = zip(colours["light"], colours["dark"], strict=True)
    assert all(light != dark for light, dark in pairs)


def test_a_phone_shows_it_without_scrolling_sideways(opened: Callable[..., Any]) -> None:
    there = opened(viewport={"width": 380, "height": 700})
    there.click("#unfold")
    width = there.evaluate("document.documentElement.scrollWidth")
    assert width <= 380


class _Outside(HTMLParser):
    """Addresses that a page would load, and tags that are not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.addresses += [
            value for name, value in attrs if name in ("src", "href", "data", "action", "poster")
        ]
        if tag not in ("meta", "input", "br", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_names_no_address(made: Plan) -> None:
    text = page(made, emit.to_yaml)
    parser = _Outside()
    parser.feed(text)
    assert parser.addresses == []
    assert parser.open == []
    assert "url(" not in text.replace("url(#", "")
    assert "@import" not in text
