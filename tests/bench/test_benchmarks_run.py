"""Every benchmark still runs, at its smallest size: its figures mean nothing here."""

import asyncio
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.programs  # each benchmark starts etcompile many times
FOLDER = Path(__file__).parents[2] / "benchmarks"
RUN = {
    *("apply", "capacity", "dependencies", "editor", "failing", "figures", "gang", "lint"),
    *("recovery", "render", "watch"),
}
"""What tests of this module run; `failing` is a part of `watch`, `figures` of those with a page."""

Load = Callable[[str], ModuleType]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Imports a benchmark, under a name that no folder of tests has."""
    monkeypatch.syspath_prepend(FOLDER)

    def loaded(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return loaded


@pytest.fixture
def run(load: Load, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Callable[..., str]:
    """`run(name, word..., CONSTANT=value)`: what a benchmark prints with these constants."""

    def printed(name: str, *words: str, **constants: Any) -> str:
        benchmark = load(name)
        for constant, value in constants.items():
            monkeypatch.setattr(benchmark, constant, value)
        monkeypatch.setattr(sys, "argv", [name, *words])
        benchmark.main()
        return str(capsys.readouterr().out)

    return printed


def copied(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    shutil.copy(FOLDER.parent / "docs" / "benchmarks.md", folder)
    return folder


def test_the_page_has_a_place_for_the_figures_of_each_script(load: Load, tmp_path: Path) -> None:
    figures = load("figures")
    page = copied(tmp_path) / "benchmarks.md"
    before = page.read_text("utf-8")
    for name in ("apply", "gang", "recovery", "render", "watch"):
        figures.write_figures(tmp_path, name, f"figures of {name}")
        assert f"\n\nfigures of {name}\n\n<!-- end of figures -->" in page.read_text("utf-8")
    headings = re.compile(r"^#+ .*$", re.MULTILINE)
    assert headings.findall(page.read_text("utf-8")) == headings.findall(before)
    with pytest.raises(SystemExit, match="no place for the figures of lint"):
        figures.write_figures(tmp_path, "lint", "")


def test_no_benchmark_is_left_out() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == RUN


def test_render(load: Load, run: Callable[..., str], tmp_path: Path) -> None:
    smallest = load("render").Scenario("1 job of 1 worker", 1, 1)
    constants = {"SCENARIOS": (smallest,), "DOCS": copied(tmp_path)}
    assert smallest.title in run("render", "--runs", "1", "--date", "2026-01-31", **constants)
    assert smallest.title in (tmp_path / "benchmarks.md").read_text()
    assert smallest.title in (tmp_path / "benchmarks.svg").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("lint --runs 1 --files 5", ["5 files, 1 pairs of runs", "ratio: "]),
        (
            "capacity --runs 1 --nodes 50 --replicas 3",
            ["50 nodes, 3 replicas, 1 pairs of runs", "CPU time of a check: "],
        ),
    ],
)
def test_benchmark_prints_its_figures(run: Callable[..., str], words: str, said: list[str]) -> None:
    output = run(*words.split())
    assert all(text in output for text in said)


def test_dependencies(load: Load, run: Callable[..., str]) -> None:
    lines = run("dependencies", ROUNDS=1).splitlines()
    assert len(lines) == 2 + len(load("dependencies").pairs())


def test_apply(
    load: Load, run: Callable[..., str], tmp_path: Path, control_plane: Any, require: Any
) -> None:
    there = bool(load("apply").kubectl(control_plane))
    require("kubectl", present=there, why="the benchmark times it beside etcompile")
    page = copied(tmp_path / "docs") / "benchmarks.md"
    run("apply", "--workers", "2", "--many", "3", "--rounds", "1", ROOT=tmp_path)
    for title in ("apply of 4 new objects", "diff of 4 unchanged objects, 20 ms away"):
        assert f"| {title} |" in page.read_text()


def test_watch(load: Load, monkeypatch: pytest.MonkeyPatch, control_plane: Any) -> None:
    """The watcher's half: the Training Operator is built with Go, in minutes."""
    benchmark = load("watch")
    watcher = benchmark.Bench
    quiet = watcher.quiet
    monkeypatch.setattr(watcher, "quiet", lambda self, still=1.0: quiet(self, min(still, 1.0)))
    result = benchmark.measured(watcher, 8, 2, 2, [(2, 2)])
    titles = [failure["title"] for failure in result["failures"]]
    assert titles == ["one at a time", "bare, 2 at once", "2 at once, told by 2 kubelets"]
    assert all(one in benchmark.table([result], [result], result) for one in (titles[0], titles[2]))
    text = benchmark.figures_text([result], [result], result, [0.1], 0.5)
    assert all(f"| {one}, 1,000 Pods |" in text for one in (titles[0], titles[2]))


def test_editor_benchmark_reports_median_slowest_and_memory(
    load: Load, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = load("editor")
    asyncio.run(benchmark.measured(60, 3))
    output = capsys.readouterr().out
    assert re.search(r"median \d+, slowest \d+; \d+ MB at most", output)


def test_a_gang_restarts_as_often_as_a_command_of_it_is_killed(load: Load) -> None:
    benchmark = load("gang")
    row = benchmark.measure(3, kills=2, idle=0.5)
    assert row[0] == "3"
    assert re.fullmatch(r"\d+\.\d\d s", row[1])
    assert f"| {' | '.join(row)} |" in benchmark.figures_text([row], 0.5, 2)


def test_recovery_results_are_shown_in_a_table_and_a_plot(load: Load) -> None:
    """Without a node: that its kills are real ones is for `test_recovery`."""
    benchmark = load("recovery")
    times = {"in place": [4.0, 5.0, 9.0], "new Pods": [20.0, 25.0, 31.0]}
    results = [
        benchmark.Result(program, way, [benchmark.Recovery(s - 1, s) for s in seconds], 2.0)
        for program in benchmark.PROGRAMS
        for way, seconds in times.items()
    ]
    table = benchmark.table(results)
    assert "next step | in place | 5.0 s | 9.0 s |  |" in table
    assert "next step | new Pods | 25.0 s | 31.0 s | 0.20 |" in table
    assert "| new Pods | 25.0 s | 25.0 s |" in benchmark.figures_text(results, "2026-01-31", 3)
    drawn = benchmark.plot(results)
    assert drawn.count("<title>in place: 5.0 s, 9.0 s</title>") == len(benchmark.PROGRAMS)


@pytest.mark.node
def test_recovery(run: Callable[..., str], tmp_path: Path) -> None:
    for name in ("ETCOMPILE_E2E_KUBECONFIG", "ETCOMPILE_E2E_TORCH_IMAGE"):
        if not os.environ.get(name):
            pytest.skip(f"{name} is not set")
    words = ("--kills", "1", "--ranks", "2", "--only", "quick")
    run("recovery", *words, DOCS=copied(tmp_path))
    assert "Each median is of 1 kills" in (tmp_path / "benchmarks.md").read_text()
