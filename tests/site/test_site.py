"""The documentation site, built from a copy of the checkout by the one command of CONTRIBUTING.md.

First what it is made of, read as HTML: links, anchors, headings, pictures. Then what a reader meets
in a browser: on a telephone and a screen, light and dark, by the rules of WCAG 2.2 AA that axe
checks, and with the search. Nothing may be asked of anybody but the site itself.
"""

import functools
import http.server
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from etcompile.diagnostics import RULES
from etcompile.diagnostics.rule_text import page_of

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.programs  # pip installs the checkout, with all that the site needs

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
[COMMAND] = re.findall(r"^    (.*docs/site/build\.py)$", CONTRIBUTING, re.MULTILINE)
LOOKED_AT = (
    *("", "start/", "kinds/pytorchjob/", "recovery/", "failures/", "apply/"),
    *("cli/", "cli/apply/", "api/", "checks/", "search/"),
)
"""Pages of every sort, for what takes a second a page."""
FOR_CONTRIBUTORS = (
    *("architecture/", "contributing/", "dependencies/", "differences/", "matrix/", "protocol/"),
    *("reference/", "sources/", "project/contributing/"),
)
ALLOWED_LINKS = ("https://", "mailto:")


@pytest.fixture(scope="module")
def site(tmp_path_factory, require) -> Path:
    git = require("site", which="git")
    listed = [git, "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, capture_output=True, text=True, check=False)
    require("site", present=done.returncode == 0, why="this is no checkout of Git")
    checkout = tmp_path_factory.mktemp("site") / "checkout"
    for name in filter(None, done.stdout.split("\0")):
        if (ROOT / name).is_file():  # and not one that was deleted
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, checkout / name)
    built = subprocess.run(
        ["bash", "-c", COMMAND], cwd=checkout, capture_output=True, text=True, check=False
    )
    offline = "No matching distribution" in built.stderr
    require("site", present=not offline, why="pip cannot install this checkout")
    assert built.returncode == 0, built.stdout + built.stderr
    return checkout / "build" / "site"


class Read(HTMLParser):
    """What a page has that others link, and what it links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.headings: list[int] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.anchors |= {attributes[name] for name in ("id", "name") if attributes.get(name)}
        if tag in ("a", "link") and "href" in attributes:
            self.links.append(attributes["href"])
        if tag in ("img", "script") and "src" in attributes:
            self.links.append(attributes["src"])
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Read]:
    """Every page by its address below the site."""
    by_path = {
        path.parent.relative_to(site).as_posix().removeprefix(".") + "/": Read(path.read_text())
        for path in site.rglob("index.html")
    }
    return {name.lstrip("/"): page for name, page in by_path.items()}


def test_every_page_of_the_contents_is_there(pages: dict[str, Read]) -> None:
    assert {"", "start/", "kinds/", "kinds/trainjob/", "reference/", "changelog/"} <= {
        name.removeprefix("project/") for name in pages
    }
    assert {"cli/", "cli/render/", "cli/argocd/", "api/"} <= pages.keys()
    in_docs = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"README"}
    assert {f"{name}/" for name in in_docs} <= pages.keys()
    known = {urljoin("/", urlsplit(link).path) for link in pages[""].links}
    unlisted = [name for name in pages if f"/{name}" not in known]
    below = ("cli/", "kinds/", "reference/")
    assert {name for name in unlisted if not name.startswith(below)} <= {"", "search/"}


def test_no_link_is_broken(site: Path, pages: dict[str, Read]) -> None:
    broken = []
    for name, page in pages.items():
        for link in page.links:
            if link.startswith(ALLOWED_LINKS):
                continue
            parts = urlsplit(urljoin(f"/{name}", link))
            path = unquote(parts.path).lstrip("/")
            if path in pages:
                if parts.fragment and parts.fragment not in pages[path].anchors:
                    broken.append((name, link))
            elif not (site / path).is_file():
                broken.append((name, link))
    assert sorted(set(broken)) == []


def test_headings_are_in_order(pages: dict[str, Read]) -> None:
    wrong = {
        name: page.headings
        for name, page in pages.items()
        if page.headings.count(1) != 1
        or page.headings[0] != 1
        or any(after > before + 1 for before, after in pairwise(page.headings))
    }
    assert wrong == {}


def test_codes_of_diagnostics_can_be_linked(pages: dict[str, Read]) -> None:
    for code in RULES:
        page = page_of(code).removesuffix(".md")
        assert code.lower() in pages[f"diagnostics/{page}/"].anchors
    assert "../diagnostics/et5xxx/#et5008" in pages["tutorial/"].links


def test_schemas_are_published_at_the_paths_that_editors_use(site: Path) -> None:
    assert (site / "schemas" / "kubeflow.org" / "v1" / "PyTorchJob.json").is_file()
    assert (site / "schemas" / "catalog.json").is_file()


# ---- in a browser ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def reader(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """`reader(**options)`: a page of a browser whose options are those of a context.

    At the end nothing may have been asked of anybody else, and no page may have complained.
    """
    contexts = []
    requests: list[str] = []
    complaints: list[str] = []

    def opened(**options: Any) -> Any:
        context = browser.new_context(reduced_motion="reduce", base_url=address, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
        page.on(
            "console",
            lambda said: (
                complaints.append(f"{page.url}: {said.text}")
                if said.type in ("error", "warning")
                else None
            ),
        )
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [url for url in requests if not url.startswith((address, "data:"))] == []
    assert complaints == []


TABLES = """() => [...document.querySelectorAll("article table")].map((table) => {
    const frame = table.closest(".table-wrapper");
    const own = frame ?? table.parentElement;
    return {
        text: table.innerText.slice(0, 60),
        fits: own.scrollWidth <= own.clientWidth,
        // A shadow at its end shows that there is more.
        scrolls: frame !== null && getComputedStyle(frame).overflowX === "auto"
            && getComputedStyle(frame).backgroundImage.includes("gradient"),
    };
})"""


@pytest.mark.parametrize("width", [400, 1400])
def test_no_page_is_wider_than_the_window_and_no_table_is_cut(
    reader, pages: dict[str, Read], width: int
) -> None:
    page = reader(viewport={"width": width, "height": 800})
    wide, cut, scrolling = {}, [], set()
    for name in pages:
        page.goto(name or "./", wait_until="domcontentloaded")
        if (got := page.evaluate("document.documentElement.scrollWidth")) > width:
            wide[name] = got
        tables = page.evaluate(TABLES)
        cut += [(name, one["text"]) for one in tables if not one["fits"] and not one["scrolls"]]
        scrolling |= {name for one in tables if not one["fits"]}
    assert (wide, cut) == ({}, [])
    # Only pages for contributors have tables for which the window is too narrow.
    assert {name for name in scrolling if not name.startswith(FOR_CONTRIBUTORS)} == set()


def test_tables_begin_where_the_text_does(reader) -> None:
    page = reader(viewport={"width": 1400, "height": 800})
    for name in LOOKED_AT:
        page.goto(name or "./", wait_until="domcontentloaded")
        edges = page.locator("article section > .table-wrapper > table").evaluate_all(
            "all => all.map(one => one.getBoundingClientRect().left"
            " - one.closest('section').getBoundingClientRect().left)"
        )
        assert [edge for edge in edges if not 0 <= edge <= 4] == [], name


def test_overview_is_whole_on_a_telephone(reader) -> None:
    page = reader(viewport={"width": 400, "height": 800})
    page.goto("./")
    box = page.locator("article img[src*=overview]:visible").bounding_box()
    assert 0 <= box["x"] <= box["x"] + box["width"] <= 400


def test_a_wide_table_is_a_list_on_a_telephone(reader) -> None:
    page = reader(viewport={"width": 400, "height": 800})
    page.goto("capacity/")
    row = page.locator("table.stacks tbody tr").first
    cells = row.locator("td").evaluate_all(
        "all => all.map(one => [one.offsetLeft, one.offsetTop, one.dataset.label ?? null])"
    )
    assert len({left for left, _, _ in cells}) == 1
    assert [top for _, top, _ in cells] == sorted({top for _, top, _ in cells})
    assert [label is None for _, _, label in cells] == [True, *[False] * (len(cells) - 1)]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 400)])
def test_everybody_can_read_it(reader, scheme: str, width: int) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = reader(color_scheme=scheme, viewport={"width": width, "height": 900})
    axe = Axe()
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    # Beyond WCAG: one heading of the first level, no level left out, and parts that have names.
    more = ["page-has-heading-one", "heading-order", "landmark-unique", "region"]
    options = {"runOnly": tags, "rules": {rule: {"enabled": True} for rule in more}}
    problems = []
    for name in LOOKED_AT:
        page.goto(name or "./")
        violations = axe.run(page, options=options).response["violations"]
        problems += [
            (name, one["id"], [node["html"][:100] for node in one["nodes"][:3]])
            for one in violations
        ]
    assert problems == []


def test_light_and_dark_are_what_the_reader_has_set(reader) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        page = reader(color_scheme=scheme)
        page.goto("failures/")
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        shown = page.locator("article img:visible").evaluate_all("all => all.map(one => one.src)")
        assert len(shown) == 2
        assert all(f"-{scheme}." in source for source in shown)
    assert len(set(grounds)) == 2


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("--run", r"cli/\w+/#cmdoption-etcompile-\w+-run"),
        ("--prune", r"cli/apply/#cmdoption-etcompile-apply-prune"),
        ("ET3001", r"diagnostics/(\w+/)?#et3001"),
        ("etcompile.dev/restart", r"annotations/#etcompile-dev-restart"),
    ],
)
def test_the_first_result_of_a_search_is_the_right_one(
    reader, address: str, words: str, first: str
) -> None:
    page = reader()
    page.goto("./")
    box = page.get_by_role("textbox", name="Search")
    box.fill(words)
    box.press("Enter")
    page.locator("#search-results li").first.wait_for()
    page.wait_for_load_state("networkidle")
    links = page.locator("#search-results li > a").evaluate_all("all => all.map(one => one.href)")
    assert re.match(first, links[0].removeprefix(address)), links[:5]
