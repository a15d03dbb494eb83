"""What keeps rendering fast, counted and not timed."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import etcompile
from etcompile.compiler import run_objects
from etcompile.emit import blocks
from etcompile.emit import yaml as writer
from etcompile.load.positions import Origin
from specs import compiled, training_job, worker

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "trainingjob" / "elastic-mnist"

_ONLY_FOR_COMPLAINTS = {"difflib", "etcompile.diagnostics.output.terminal"}
_ONLY_FOR_FOLDERS = {"ctypes", "etcompile.emit.directory"}
_ONLY_FOR_OUR_TEMPLATES = {"jinja2", "etcompile.backend.jinja"}
MOST_FUNCTIONS, MOST_MODULES = 500, 100
_NEVER = {"kubernetes", "kubernetes_validate", "jsonschema", "ruamel", "rich"}


def _imported(*arguments: object) -> set[str]:
    """The modules in memory after a command."""
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from etcompile.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stderr.split())


def _sequences_written(workers: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many lists are written for a job of that many workers."""
    document = training_job()
    worker(document)["replicas"] = workers
    worker(document).pop("maxReplicas", None)
    compilation = compiled(document)
    write, count = writer._sequence, 0  # noqa: SLF001 - the work itself, to be counted

    def counted(*arguments: Any) -> None:
        nonlocal count
        count += 1
        write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(writer, "_sequence", counted)
        text = "".join(blocks(compilation.in_order(), compilation.sources))
    assert text.count("\nkind: Pod\n") == workers + 1
    return count


def test_refused_job_does_not_create_its_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    document = training_job("n" * 60)
    worker(document)["replicas"] = 1000
    worker(document).pop("maxReplicas", None)
    counts: list[int] = []
    objects = run_objects.objects

    def counted(job: Any, *arguments: Any) -> Any:
        counts.append(sum(len(role.members) for role in job.roles))
        return objects(job, *arguments)

    monkeypatch.setattr(run_objects, "objects", counted)
    assert not etcompile.compile([document]).ok
    assert all(count < 10 for count in counts)


def test_the_spec_of_workers_is_written_once_for_hundreds(monkeypatch: pytest.MonkeyPatch) -> None:
    few = _sequences_written(2, monkeypatch)
    assert _sequences_written(100, monkeypatch) == few > 0
    assert _sequences_written(1000, monkeypatch) <= 4 * few  # 256 Pods are in memory at a time


def test_a_clean_render_imports_nothing_that_only_a_complaint_or_a_folder_needs() -> None:
    imported = _imported("render", EXAMPLE)
    assert "etcompile.compiler" in imported
    assert not imported & (_ONLY_FOR_COMPLAINTS | _ONLY_FOR_FOLDERS | _NEVER)
    assert not imported & _ONLY_FOR_OUR_TEMPLATES


@pytest.mark.parametrize("words", [["--version"], ["status", "--help"], ["logs", "--help"]])
def test_a_command_that_compiles_nothing_does_not_import_the_compiler(words: list[str]) -> None:
    imported = _imported(*words)
    assert not imported & {"etcompile.compiler", "jinja2", "yaml", "jsonschema_rs"}


EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*/*") if path.is_dir())


def test_no_place_is_looked_up_where_there_is_nothing_to_report(monkeypatch):
    """A place takes a second reading of its document, longer than all checks of it."""
    located: list[str] = []
    clean = 0
    for example in EXAMPLES:
        with monkeypatch.context() as patch:
            patch.setattr(Origin, "locate", _counted(located, example.name))
            compilation = etcompile.compile([str(example)])
        if compilation.findings:
            located.clear()
        clean += not compilation.findings
        assert located == []
    assert clean > len(EXAMPLES) // 2


def _counted(located: list[str], name: str) -> Any:
    locate = Origin.locate

    def counted(self: Origin, path: Any, **options: Any) -> Any:
        located.append(name)
        return locate(self, path, **options)

    return counted


def test_a_small_render_enters_few_functions() -> None:
    """How much code somebody has to read who follows one job from its file to its Pods."""
    program = (
        "import sys\n"
        "entered = set()\n"
        "def profile(frame, event, argument):\n"
        "    if event == 'call' and frame.f_code.co_flags & 2:  # not the body of a class\n"
        "        entered.add(frame.f_code)\n"
        "sys.setprofile(profile)\n"
        "from etcompile.cli.main import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    sys.setprofile(None)\n"
        "    for code in entered:\n"
        "        print(code.co_filename, code.co_qualname, file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", program, "render", "examples/pytorchjob/all-reduce"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    package = str(ROOT / "etcompile")
    functions = {line for line in done.stderr.splitlines() if line.startswith(package)}
    named = {line for line in functions if not line.endswith(">")}
    modules = {line.split()[0] for line in functions}
    assert len(named) <= MOST_FUNCTIONS
    assert len(modules) <= MOST_MODULES
