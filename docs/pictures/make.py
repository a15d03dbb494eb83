"""Draws the pictures of the documentation anew: `python docs/pictures/make.py`.

Each is made of an example of this repository by the command whose output it shows, and drawn twice,
for a light and a dark page. Mermaid diagrams, which GitHub draws by itself, are drawn for the site;
their files are named after their text, so that the site does not build with one that is old.

Needs the extra `test`, a Chromium, and npm for Mermaid. Without a cluster: what `status` and `why`
show is computed of objects, as they compute it of those that they have read.
"""

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "docs" / "site")]

from contents import listed
from msgspec import structs
from pages import MERMAID, diagram_file
from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

import etcompile
from capacity.clusters import gpu_cluster
from etcompile.capacity.snapshot import to_document
from etcompile.cli import progress
from etcompile.cli.progress import Lines
from etcompile.emit import to_yaml
from etcompile.operations.declarations import compared
from etcompile.plan.presentation import text as text_of_plan
from etcompile.plan.step import Plan
from etcompile.rollout.machine.messages import Choices, StepEvent, Tick, Write, Written, Wrote
from etcompile.rollout.machine.steps import Machine
from etcompile.status import statuses
from etcompile.status.explanation_text import explanation_page
from etcompile.status.text import job_text
from status.explained import NOW, of_many_ranks

SOURCES = Path(__file__).resolve().parent / "sources"
"""Pictures that somebody has drawn by hand."""
MERMAID_VERSION = "11.17.2"
_EXAMPLE = ROOT / "examples" / "pytorchjob" / "elastic" / "job.yaml"
_ELASTIC = ROOT / "examples" / "trainingjob" / "elastic-mnist" / "job.yaml"
_GENERATED: dict[str, Any] = {"metadata": {}}
_TRAINJOB = ROOT / "examples" / "trainjob" / "torch" / "job.yaml"
_WAITS = "elastic-mnist-worker-1"
"""The Pod that finds no node."""
_THEMES = {
    "light": TerminalTheme(
        (246, 248, 250),
        (31, 35, 40),
        [
            *((31, 35, 40), (164, 14, 38), (17, 99, 41), (112, 77, 0)),
            *((5, 80, 174), (102, 57, 186), (27, 98, 120), (89, 99, 110)),
        ],
    ),
    "dark": TerminalTheme(
        (21, 27, 35),
        (240, 246, 252),
        [
            *((145, 152, 161), (255, 123, 114), (63, 185, 80), (210, 153, 34)),
            *((88, 166, 255), (188, 140, 255), (57, 197, 207), (240, 246, 252)),
        ],
    ),
}
_TERMINAL = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<style>
.{unique_id}-matrix {{
  font: {char_height}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
}}
{styles}
</style>
<defs>{lines}</defs>
<rect fill="GROUND" x="1" y="1" width="{terminal_width}" height="{terminal_height}" rx="8"/>
<g transform="translate(18, 14)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""rich's own picture of a terminal without its title bar, and without the font that it loads."""


def main() -> None:
    """Draws all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent)
    folder = parser.parse_args().output.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("*.svg"), *folder.glob("*.png")):
        old.unlink()
    draw_overview(folder)
    draw_status(folder)
    draw_rollout(folder)
    with tempfile.TemporaryDirectory() as work, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=_flags())
        draw_capacity(folder, Path(work))
        # Without the version, which changes with each release.
        plan = plan_page(Path(work)).replace(f" {etcompile.__version__}", "")
        why = why_page()
        photograph(browser, plan, folder / "plan", height=820)
        photograph(browser, why, folder / "why", height=1240)
        photograph(browser, why, folder / "timeline", height=780, part="section:has(.strip)")
        # Pictures of a browser depend on its fonts: a test compares what they were taken of.
        pages = {"plan": plan, "why": why}
        digests = {name: sha256(page.encode()).hexdigest() for name, page in pages.items()}
        (folder / "photographed.json").write_text(json.dumps(digests, indent=2) + "\n", "utf-8")
        draw_diagrams(browser, mermaid_script(Path(work)), folder)
        browser.close()


def plan_page(work: Path) -> str:
    """Render the page of `etcompile diff`: a job gets a worker, another a new image."""
    jobs = work / "plan"
    jobs.mkdir()
    job = jobs / "job.yaml"
    text = _EXAMPLE.read_text("utf-8")
    job.write_text(text, "utf-8")
    _etcompile("render", "plan", "-d", "out", folder=work)
    changed = text.replace("replicas: 2", "replicas: 3", 1)
    assert changed != text, _EXAMPLE
    job.write_text(changed, "utf-8")
    words = ("diff", "plan", "--against", "out", "--output", "html", "--exit-zero")
    return _etcompile(*words, folder=work)


def why_page() -> str:
    """Render the page of `etcompile why`: a run that failed four times for the same rank."""
    return explanation_page(of_many_ranks(8), NOW)


def draw_overview(folder: Path) -> None:
    """Draws what etcompile does, of a picture that follows the reader's theme."""
    _draw_both((SOURCES / "overview.svg").read_text("utf-8"), folder / "overview")


def _draw_both(text: str, file: Path) -> None:
    """Write a picture that follows the reader's theme once for each theme."""
    dark = re.compile(
        r"^ *@media \(prefers-color-scheme: dark\) \{\n(.*?)^ *\}\n", re.MULTILINE | re.DOTALL
    )
    assert dark.search(text)
    for theme, rules in (("light", ""), ("dark", r"\1")):
        file.with_name(f"{file.name}-{theme}.svg").write_text(dark.sub(rules, text), "utf-8")


def draw_status(folder: Path) -> None:
    """Draws what `etcompile status JOB` writes to a terminal of a job that waits for a node."""
    [job] = statuses([*live_objects(), *events()], now=NOW.timestamp())
    _draw_terminal(job_text(job, NOW, color=True), folder, "status")


def draw_rollout(folder: Path) -> None:
    """Draws what `diff` and `apply` write of a new job: its plan, a wait, and a failure."""
    with tempfile.TemporaryDirectory() as work:
        job = Path(work, "job.yaml")
        text = _ELASTIC.read_text("utf-8").replace("maxReplicas: 9", "maxReplicas: 64")
        job.write_text(text.replace(" replicas: 2\n", " replicas: 64\n", 1), "utf-8")
        compilation = etcompile.compile([str(job)])
        assert compilation.ok, compilation.diagnostics
        empty = Path(work, "empty")
        empty.mkdir()
        proposed = compared(compilation, str(empty), [str(job)], etcompile.Options())
    proposed = structs.replace(proposed, against="cluster", context="prod")
    lines = "\n".join(text_of_plan(proposed, to_yaml, color=True))
    _draw_terminal(f"$ etcompile diff job.yaml\n{lines}\n", folder, "diff")
    with mock.patch.multiple(progress, _TICK=1e9, time=mock.Mock(monotonic=lambda: 0.0)):
        draw_waits(proposed, folder)


def draw_waits(proposed: Plan, folder: Path) -> None:
    """Draws a rollout of which some Pods wait, and one of which some have failed."""
    full = [f"elastic-mnist-worker-{number}" for number in range(60, 64)]
    states = dict.fromkeys(full, _unschedulable())
    waits = rollout_text(proposed, states, seconds=150)
    _draw_terminal(f"$ etcompile apply job.yaml\n{waits}", folder, "apply")
    container = {"name": "mnist", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    states[full[0]] = {"phase": "Pending", "containerStatuses": [container]}
    failed = rollout_text(proposed, states, seconds=900)
    _draw_terminal(f"$ etcompile apply job.yaml\n{failed}", folder, "failed")


def rollout_text(proposed: Plan, states: dict[str, dict[str, Any]], *, seconds: int) -> str:
    """Return the output of `apply` after some seconds of a rollout.

    Args:
        proposed: Its plan.
        states: The status of Pods that are not running, by name.
        seconds: 900 is the time limit.
    """
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    lines = Lines(stream, quiet=False, color=True)
    lines.begin(proposed)
    machine = Machine(proposed, Choices(timeout=900.0), "ml")
    queue = deque(machine.begin(0.0))
    for now in range(seconds + 1):
        while queue:
            match queue.popleft():
                case StepEvent() as event:
                    lines.tell(event)
                case Write(step, phase):
                    name, manifest = step.ref.name, dict(step.manifest or _GENERATED)
                    if step.ref.kind == "Pod":
                        manifest["status"] = states.get(name, _running())
                    manifest["metadata"] = {**manifest["metadata"], "uid": name}
                    queue.extend(
                        machine.advance(Wrote(step, phase, Written("created", manifest)), now)
                    )
        queue.extend(machine.advance(Tick(), now))
    if machine.stopping:
        lines.end(machine.outcome())
    else:
        lines.show(seconds)
        lines.conclude()
    value = stream.buffer
    assert isinstance(value, io.BytesIO)
    return value.getvalue().decode()


def draw_capacity(folder: Path, work: Path) -> None:
    """Draws what `etcompile check --capacity` writes of jobs that wait, and that never fit."""
    (work / "capacity.yaml").write_text(to_yaml(to_document(gpu_cluster())), "utf-8")
    jobs = work / "jobs"
    jobs.mkdir(exist_ok=True)
    small = _TRAINJOB.read_text("utf-8")
    large = small.replace("nvidia.com/gpu: 2", "nvidia.com/gpu: 8").replace("mnist\n", "llama\n", 1)
    elastic = _EXAMPLE.read_text("utf-8").replace("replicas: 2", "replicas: 3", 1)
    (jobs / "elastic.yaml").write_text(elastic, "utf-8")
    (jobs / "llama.yaml").write_text(large, "utf-8")
    words = ("check", "jobs", "--capacity", "capacity.yaml", "--color", "always")
    words += ("--config", "none", "--ignore", "ET9001")
    command = [sys.executable, "-m", "etcompile", *words]
    run = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    _draw_terminal(
        "$ etcompile check jobs/ --capacity capacity.yaml\n" + run.stderr, folder, "capacity"
    )


def _draw_terminal(words: str, folder: Path, name: str) -> None:
    for theme, colors in _THEMES.items():
        console = Console(record=True, width=136, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
        console.print(Text.from_ansi(words), soft_wrap=name == "status")
        ground = "#" + "".join(f"{part:02x}" for part in colors.background_color)
        picture = console.export_svg(
            theme=colors, code_format=_TERMINAL.replace("GROUND", ground), unique_id=name
        )
        (folder / f"{name}-{theme}.svg").write_text(picture, "utf-8")


def live_objects() -> list[dict[str, Any]]:
    """Return the live objects of a job with a Pod that finds no node."""
    compilation = etcompile.compile([str(_ELASTIC)])
    assert compilation.ok, compilation.diagnostics
    created = datetime(2026, 11, 23, 7, 10, tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = []
    for manifest in compilation.objects:
        value = dict(manifest)
        value["metadata"] = {**value["metadata"], "creationTimestamp": created}
        if value["kind"] == "Pod":
            waits = value["metadata"]["name"] == _WAITS
            value["status"] = _unschedulable() if waits else _running()
        found.append(value)
    return found


def events() -> list[dict[str, Any]]:
    """Return the scheduler's Event about the Pod that finds no node."""
    return [
        {
            "kind": "Event",
            "involvedObject": {"kind": "Pod", "namespace": "ml", "name": _WAITS},
            "metadata": {"namespace": "ml", "name": f"{_WAITS}.1"},
            "type": "Warning",
            "reason": "FailedScheduling",
            "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
            "count": 4,
            "lastTimestamp": "2026-11-23T10:07:00Z",
        }
    ]


def mermaid_script(work: Path) -> Path:
    """Mermaid, from npm."""
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("there is no npm, which Mermaid comes from")
    words = ("install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts")
    subprocess.run([npm, *words, "--prefix", str(work), f"mermaid@{MERMAID_VERSION}"], check=True)
    return work / "node_modules" / "mermaid" / "dist" / "mermaid.min.js"


def diagrams() -> Iterator[str]:
    """Return the text of every Mermaid diagram on a page of the site."""
    for source in listed():
        if source.is_file():
            yield from MERMAID.findall(source.read_text("utf-8"))


def draw_diagrams(browser: Browser, script: Path, folder: Path) -> None:
    """Draws Mermaid diagrams as SVG without HTML in it, which images may not have."""
    for theme, name, ground in (("light", "default", "#ffffff"), ("dark", "dark", "#131416")):
        page = browser.new_page()
        page.set_content("<!doctype html><body></body>")
        page.add_script_tag(path=script)
        page.evaluate(
            """([theme, ground]) => mermaid.initialize({
                startOnLoad: false, theme, htmlLabels: false,
                themeVariables: { edgeLabelBackground: ground },
                themeCSS: ".edgeLabel rect { opacity: 1 }", // or the line goes through the words
                flowchart: { htmlLabels: false, useMaxWidth: true },
                fontFamily: '"DejaVu Sans", sans-serif' })""",
            [name, ground],
        )
        for text in diagrams():
            file = diagram_file(text)
            drawn = page.evaluate(
                "async ([id, text]) => (await mermaid.render(id, text)).svg", [file, text]
            )
            (folder / f"{file}-{theme}.svg").write_text(drawn + "\n", "utf-8")
        page.close()


def photograph(
    browser: Browser, html: str, file: Path, *, height: int, part: str | None = None
) -> None:
    """Take pictures of a page or of a part of it, light and dark.

    Args:
        part: The selector of the part.
    """
    for theme in ("light", "dark"):
        context = browser.new_context(
            color_scheme="light" if theme == "light" else "dark",
            viewport={"width": 1000, "height": height},
            reduced_motion="reduce",
        )
        page = context.new_page()
        page.set_content(html)
        picture = file.with_name(f"{file.name}-{theme}.png")
        if part is None:
            page.screenshot(path=picture)
        else:
            page.locator(part).screenshot(path=picture)
        context.close()


def _running() -> dict[str, Any]:
    conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "PodScheduled")]
    return {"phase": "Running", "conditions": conditions}


def _unschedulable() -> dict[str, Any]:
    message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"phase": "Pending", "conditions": [{**scheduled, "message": message}]}


def _etcompile(*words: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "etcompile", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def _chromium() -> str:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = os.environ.get("ETCOMPILE_BROWSER") or next(filter(None, map(shutil.which, names)), "")
    if not found:
        sys.exit("there is no chromium and no google-chrome")
    return found


def _flags() -> list[str]:
    # As root, as in a container, Chromium's sandbox does not start.
    return ["--no-sandbox"] if os.geteuid() == 0 else []


if __name__ == "__main__":
    main()
