"""Every example renders to what is committed under golden/, in every layout, step by step.

`pytest tests/examples --update-goldens` writes them anew; read the diff before you commit it.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

import etcompile
from etcompile import emit

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/*/job.yaml"))


def steps(example: Path) -> Iterator[tuple[str, list[Path]]]:
    """Each step of an example: its name, and the files that are there at that step."""
    scalers = sorted(example.glob("scale-*.yaml"))
    inputs = [path for path in sorted(example.glob("*.yaml")) if path not in scalers]
    yield "0-start", list(inputs)
    for number, scaler in enumerate(scalers, start=1):
        inputs.append(scaler)
        yield f"{number}-{scaler.stem.rpartition('-')[2]}", list(inputs)


def rendered(example: Path) -> dict[str, str]:
    files = {}
    for name, inputs in steps(example):
        compilation = etcompile.compile(inputs)
        assert compilation.ok, compilation.diagnostics
        files[f"{name}.yaml"] = emit.stream(compilation.objects, compilation.sources)
    groups = [emit.Group(g.name, g.namespace, g.objects, g.sources) for g in compilation.groups]
    for layout, split in (("out", False), ("split", True)):
        tree = emit.layout(groups, split=split)
        files |= {f"{layout}/{path}": text for path, text in tree.items()}
    overlaid = etcompile.compile(inputs, etcompile.Options(overlays=("prod",)))
    assert overlaid.ok, overlaid.diagnostics
    files["prod.yaml"] = emit.stream(overlaid.objects, overlaid.sources)
    return files


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_renders_to_its_golden(example: Path, request: pytest.FixtureRequest) -> None:
    golden = ROOT / "golden" / example.relative_to(ROOT / "examples")
    wanted = rendered(example)
    if request.config.getoption("--update-goldens"):
        _replace(golden, wanted)
    files = {
        path.relative_to(golden).as_posix(): path.read_text("utf-8")
        for path in golden.rglob("*")
        if path.is_file()
    }
    assert sorted(files) == sorted(wanted)
    for path, text in wanted.items():
        assert files[path] == text, path


def test_no_golden_is_left_of_an_example_that_is_gone() -> None:
    golden = {path.parent for path in (ROOT / "golden").glob("*/*/0-start.yaml")}
    assert {path.relative_to(ROOT / "golden") for path in golden} == {
        path.relative_to(ROOT / "examples") for path in EXAMPLES
    }


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_has_nothing_to_warn_about(example: Path) -> None:
    assert not etcompile.compile([example]).diagnostics


def _replace(folder: Path, files: dict[str, str]) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
