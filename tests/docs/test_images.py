"""Dockerfile and docker-bake.hcl, without Docker: what their steps read is there, and they agree.

No image is built here; `tests/node/test_images_on_a_real_node.py` runs those that somebody built.
What the images leave out of the installed packages is left out here, too, and nothing misses it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from commandline import etcompile
from stability.test_version import published

ROOT = Path(__file__).parents[2]
BAKE = (ROOT / "docker-bake.hcl").read_text("utf-8")
PYTHON = "3.13"
"""Debian's, in the images."""

EVERY_MODULE = """
import importlib, pkgutil, etcompile
for module in pkgutil.walk_packages(etcompile.__path__, "etcompile."):
    if module.name not in ("etcompile.__main__", "etcompile.integrations.editor.server"):
        importlib.import_module(module.name)  # the server is of the extra `lsp`
"""


def steps() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each with what follows it, continued lines as one."""
    text = (ROOT / "Dockerfile").read_text("utf-8")
    text = re.sub(r"(?m)^\s*#.*\n", "", text)
    text = re.sub(r"\\\n\s*", " ", text)
    instructions = re.findall(r"(?m)^([A-Z]+) (.*?<<(\w+)\n(?s:.*?)\n\3$|.*)", text)
    return [(what, rest) for what, rest, _ in instructions]


def stage(name: str) -> list[tuple[str, str]]:
    """The instructions of one stage, those of the stages that it is built from before them."""
    instructions = steps()
    [begin] = [
        i for i, (what, rest) in enumerate(instructions) if what == "FROM" and f"AS {name}" in rest
    ]
    end = next(
        (i for i in range(begin + 1, len(instructions)) if instructions[i][0] == "FROM"),
        len(instructions),
    )
    base = instructions[begin][1].removeprefix("--platform=$BUILDPLATFORM ").split()[0]
    stages = {rest.split()[-1] for what, rest in instructions if what == "FROM"}
    return [*(stage(base) if base in stages else []), *instructions[begin:end]]


def last(name: str, instruction: str) -> str:
    return [rest for what, rest in stage(name) if what == instruction][-1]


def baked() -> dict[str, str]:
    """The targets of docker-bake.hcl that are images: which stage each is, by its tag's name."""
    blocks = re.findall(r'target "\w+" \{\n(.*?)\n\}', BAKE, re.DOTALL)
    targets: dict[str, str] = {}
    for block in blocks:
        if named := re.search(r"\$\{REGISTRY\}/([\w-]+):\$\{VERSION\}", block):
            target = re.search(r'target += "(\w+)"', block)
            assert target
            targets[named[1]] = target[1]
    return targets


def context(folder: Path) -> Path:
    """What .dockerignore lets through; it names all that it does."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    included = [rule[1:] for rule in rules if rule.startswith("!")]
    assert [rule for rule in rules if not rule.startswith("!")] == ["*", "**/__pycache__"]
    assert all("*" not in name for name in included)
    folder.mkdir()
    for name in included:
        source = ROOT / name
        assert source.exists(), name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


def test_every_image_that_is_baked_is_a_stage() -> None:
    assert baked() == {
        "etcompile": "etcompile",
        "etcompile-argocd": "argocd",
        "etcompile-krm": "krm",
    }
    for target in baked().values():
        assert stage(target)[0] == ("FROM", "scratch AS base")
    # What a build without a target makes.
    assert [rest for what, rest in steps() if what == "FROM"][-1] == "base AS etcompile"
    assert re.findall(r"\[([^]]+)\]", BAKE)[0] == '"etcompile", "argocd", "krm"'


def test_a_stage_for_another_machine_runs_nothing() -> None:
    """Then an image for arm64 is built on amd64 without emulation."""
    for target in baked().values():
        assert {what for what, _ in stage(target)}.isdisjoint({"RUN", "ADD"})
    for what, rest in steps():
        if what == "FROM" and not rest.startswith("--platform=$BUILDPLATFORM "):
            base = rest.split()[0]
            assert base in {"scratch", "build", "base"}


def test_what_is_copied_from_the_checkout_is_let_through(tmp_path: Path) -> None:
    source = context(tmp_path / "src")
    copied = [
        name
        for what, rest in steps()
        if what == "COPY" and not rest.startswith("--from=")
        for name in rest.split()[:-1]
    ]
    assert "etcompile" in copied
    assert [name for name in copied if not (source / name).exists()] == []
    assert {path.name for path in source.iterdir()} == set(copied)


def test_no_image_runs_as_root_or_writes_byte_code() -> None:
    for target in baked().values():
        assert re.fullmatch(r"([1-9]\d*):\1", last(target, "USER"))
        assert "PYTHONDONTWRITEBYTECODE=1" in last(target, "ENV")


def test_the_python_of_the_images_is_one_that_is_supported() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f"Programming Language :: Python :: {PYTHON}" in text
    named = set(re.findall(r"python(\d\.\d+)", (ROOT / "Dockerfile").read_text("utf-8")))
    assert named == {PYTHON}


def test_the_watchers_image_is_what_its_deployment_runs() -> None:
    image = "ghcr.io/etcompile/etcompile:dev"
    words = ["watch", "--manifests", "-n", "nlp", "--image", image]
    done = etcompile(*words, code=0)
    objects: list[Any] = list(yaml.safe_load_all(done.stdout))
    [deployment] = [value for value in objects if value and value["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["image"] == image
    assert "command" not in container, "the image's own entrypoint is run"
    assert container["args"][0] == "watch"
    assert Path(json.loads(last("etcompile", "ENTRYPOINT"))[0]).name == "etcompile"
    security = {**pod.get("securityContext", {}), **container.get("securityContext", {})}
    assert last("etcompile", "USER") == f"{security['runAsUser']}:{security['runAsUser']}"
    ports = {port["containerPort"] for port in container["ports"]}
    assert ports == {int(last("etcompile", "EXPOSE"))}
    assert security["readOnlyRootFilesystem"] is True


def test_pages_name_images_that_are_baked_here_or_by_a_release() -> None:
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    text = "".join(page.read_text("utf-8") for page in pages)
    named = set(re.findall(r"ghcr\.io/etcompile/([\w-]+):([\w.]+)\b", text))
    assert {name for name, _ in named} == baked().keys()
    [baked_here] = re.findall(r'"VERSION" \{\n  default = "(.*)"', BAKE)
    assert {tag for _, tag in named} == {baked_here, published()}
    install = (ROOT / "docs" / "install.md").read_text("utf-8")
    assert set(re.findall(r"\bv?(\d+\.\d+\.\d+)\b", install)) == {published()}


@pytest.mark.programs  # pip builds and installs the checkout
def test_nothing_misses_what_the_images_leave_out(tmp_path: Path, require) -> None:
    source, installed = context(tmp_path / "src"), tmp_path / "installed"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--target", installed, source],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    require("pip", present="No matching distribution" not in done.stderr, why="no package index")
    assert done.returncode == 0, done.stderr
    [[install]] = [
        [rest for what, rest in stage("packages") if what == "RUN" and "--target /all" in rest]
    ]
    left_out = re.findall(r"(?m)^  rm -r (.*\*)$", install)
    assert len(left_out) == 1
    for pattern in left_out[0].split():
        paths = list(installed.glob(pattern))
        assert paths, f"{pattern} is no longer installed"
        for path in paths:
            shutil.rmtree(path)
    alone = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}

    def run(*command: object) -> str:
        return subprocess.run(
            [*map(str, command)],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            # Without the packages of the tests.
            env={**alone, "PYTHONPATH": str(installed), "PYTHONNOUSERSITE": "1"},
        ).stdout

    python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    run(python, "-c", EVERY_MODULE)
    example = "trainingjob/elastic-mnist"
    golden = (ROOT / "golden" / example / "2-in.yaml").read_text("utf-8")
    rendered = run(python, "-m", "etcompile", "render", ROOT / "examples" / example)
    assert list(yaml.safe_load_all(rendered)) == list(yaml.safe_load_all(golden))
    assert "kind: ConfigManagementPlugin" in run(python, "-m", "etcompile", "argocd", "plugin")
