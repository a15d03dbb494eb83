"""Every CPython on this machine renders every example to the same bytes.

The others get an installation of their own, made from the checkout as a user makes it, so that
this is also the test that a wheel holds all that rendering needs.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLDEST, NEWEST = 11, 15

PLACES = (
    "~/.pyenv/versions/*/bin",
    "~/.local/share/uv/python/cpython-*/bin",
    "~/.local/bin",
    "/usr/bin",
    "/usr/local/bin",
    "/opt/homebrew/bin",
    "/opt/python/*/bin",
    "/opt/hostedtoolcache/Python/*/*/bin",
)
"""Where Pythons stand that are not on everybody's PATH."""

EVERYTHING = (
    "--config=profile=argocd",
    "--config=profile=flux",
    "--config=profile=kapp",
    "--config=profile=kpt",
    "--config=split=true",
)

SETTINGS = {
    "default": (),
    "prod": ("--overlay=prod", "--config=kubernetes-version=1.31"),
    "a run": ("--run=auto", "--config=secret=external", "--config=services=shared"),
    "every profile": EVERYTHING,
}

EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/*/job.yaml"))

RUN = """
import importlib, json, sys
for name, *arguments in json.loads(sys.argv[1]):
    command = importlib.import_module(f"etcompile.cli.{name}").command
    if code := command.main(arguments, standalone_mode=False):
        sys.exit(f"{name} {arguments}: {code}")
"""

PROBE = """
import ensurepip, sys, venv
print(sys.implementation.name, "%d.%d" % sys.version_info[:2], sys.version_info.releaselevel)
"""


@pytest.fixture(scope="session")
def others(require: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Pythons of other minor versions, each with etcompile installed."""
    pythons = _interpreters()
    this = f"{sys.version_info.major}.{sys.version_info.minor}"
    alone = f"this machine has no released CPython from 3.{OLDEST} on but {this}"
    require("pythons", present=bool(pythons), why=alone)
    folders = [tmp_path_factory.mktemp(f"python{version}-") for version in pythons]
    with ThreadPoolExecutor() as pool:
        problems = list(pool.map(_install, pythons.values(), folders))
    why = "; ".join(
        f"{version}: {problem}"
        for version, problem in zip(pythons, problems, strict=True)
        if problem
    )
    require("pythons", present=not why, why=f"pip cannot install this checkout with {why}")
    return [folder / "bin" / "python" for folder in folders]


@pytest.mark.parametrize("settings", SETTINGS)
def test_all_pythons_write_the_same_folders(
    settings: str, others: list[Path], tmp_path: Path
) -> None:
    def folders(python: Path) -> dict[str, bytes]:
        out = tmp_path / "out"
        runs = [
            ("render", str(example), *SETTINGS[settings], "-d", str(out / _name(example)), "-q")
            for example in EXAMPLES
        ]
        _printed(python, runs)
        files = {
            path.relative_to(out).as_posix(): path.read_bytes()
            for path in out.rglob("*")
            if path.is_file()
        }
        shutil.rmtree(out)
        return files

    wanted = folders(Path(sys.executable))
    assert {path.partition("/")[0] for path in wanted} == {_name(example) for example in EXAMPLES}
    for python in others:
        written = folders(python)
        assert sorted(written) == sorted(wanted), python
        for path, content in wanted.items():
            assert written[path] == content, (python, path)


@pytest.mark.parametrize("command", ["render", "graph --output=mermaid"])
def test_all_pythons_print_the_same(command: str, others: list[Path]) -> None:
    runs = [(*command.split(), str(example)) for example in EXAMPLES]
    wanted = _printed(Path(sys.executable), runs)
    assert len(wanted) > len(EXAMPLES)
    for python in others:
        assert _printed(python, runs) == wanted, python


@pytest.mark.parametrize("form", ["text", "json", "sarif", "github", "rdjson"])
def test_all_pythons_refuse_in_the_same_words(
    form: str, others: list[Path], tmp_path: Path
) -> None:
    job = (ROOT / "examples" / "trainingjob" / "elastic-mnist" / "job.yaml").read_text("utf-8")
    bad = tmp_path / "bad.yaml"
    bad.write_text(job.replace("image:", "imgae:"), "utf-8")

    def words(python: Path) -> tuple[bytes, bytes]:
        done = _started(python, "-m", "etcompile", "check", bad, f"--output-format={form}")
        assert done.returncode == 2
        return done.stdout, done.stderr

    wanted = words(Path(sys.executable))
    assert b"imgae" in b"".join(wanted)
    for python in others:
        assert words(python) == wanted, python


def test_the_others_run_what_they_have_installed(others: list[Path]) -> None:
    for python in others:
        where = _run(python, "-P", "-c", "import etcompile; print(etcompile.__file__)")
        assert Path(where.stdout.decode().strip()).is_relative_to(python.parents[1])


def _install(python: Path, folder: Path) -> str:
    """Makes a venv with etcompile, not editable; what is wrong, if it cannot be made."""
    done = _run(python, "-m", "venv", folder)
    if done.returncode == 0:
        pip = (folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check")
        done = _run(*pip, "install", "--quiet", ROOT)
    output = done.stderr.decode().strip() or f"code {done.returncode}"
    return output.splitlines()[-1] if done.returncode else ""


def _name(example: Path) -> str:
    return f"{example.parent.name}-{example.name}"


def _printed(python: Path, runs: Sequence[Sequence[str]]) -> bytes:
    """What the commands print, run one after another in one process, as starting costs most."""
    done = _started(python, "-c", RUN, json.dumps(runs))
    assert done.returncode == 0, (python, done.stderr.decode())
    return done.stdout


def _started(python: Path, *arguments: object) -> "subprocess.CompletedProcess[bytes]":
    # -P: not the checkout in the current directory, but what this Python has installed.
    command = [str(part) for part in (python, "-P", *arguments)]
    # Each with a hash seed of its own, too.
    environment = {**os.environ, "PYTHONHASHSEED": str(sum(str(python).encode()))}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(command, capture_output=True, env=environment, check=False)


def _interpreters() -> dict[str, Path]:
    """The first Python that works of each minor version but the running one, by `3.N`."""
    pythons: dict[str, Path] = {}
    for minor in range(OLDEST, NEWEST + 1):
        version = f"3.{minor}"
        if minor != sys.version_info.minor:
            works = (path for path in _candidates(f"python{version}") if _works(path, version))
            if python := next(works, None):
                pythons[version] = python
    return pythons


def _candidates(name: str) -> Iterator[Path]:
    if on_path := shutil.which(name):
        yield Path(on_path)
    for place in PLACES:
        folder = Path(place).expanduser()
        yield from sorted(Path(folder.anchor).glob(str(folder.relative_to(folder.anchor) / name)))


def _works(python: Path, version: str) -> bool:
    """Whether it is a released CPython that can make a venv: a shim may stand for nothing."""
    try:
        done = subprocess.run([python, "-c", PROBE], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.stdout.decode().split() == ["cpython", version, "final"]


def _run(*command: object) -> "subprocess.CompletedProcess[bytes]":
    words = [str(part) for part in command]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        words, capture_output=True, cwd=Path(words[0]).parent, env=env, check=False
    )
