"""Pages in a real browser: what they ask for and complain of fails the test."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser(require: Callable[..., str]) -> Iterator[Any]:
    chosen = os.environ.get("ETCOMPILE_BROWSER")
    program = chosen or next(filter(None, map(shutil.which, _BROWSERS)), None)
    require("browser", present=program is not None, why="there is no chromium and no google-chrome")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # As root, as in a container, Chromium's sandbox does not start.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        launched = playwright.chromium.launch(executable_path=program, args=flags)
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """`open_page(html, **options)`: a page, opened from a file; options are of its context.

    At the end of the test no page may have told of an error or asked for anything else.
    """
    contexts = []
    errors: list[str] = []
    requested: list[str] = []
    files: set[str] = set()

    def opened(html: str, **options: Any) -> Any:
        file = tmp_path / f"page-{len(contexts)}.html"
        file.write_text(html, encoding="utf-8")
        files.add(file.as_uri())
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if said.type != "log" else None)
        page.on("request", lambda request: requested.append(request.url))
        page.goto(file.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert errors == []
    assert set(requested) <= files
