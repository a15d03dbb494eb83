"""docs/*.Dockerfile, without Docker: what their steps read is there, and the steps work.

No image is built here. Its first stage is run in a folder that holds what .dockerignore lets
through, and what the image says of itself is held against what etcompile's manifests ask of it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from etcompile._version import __version__
from etcompile.cli.main import _etcompile as program

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "docs").glob("*.Dockerfile"))
WATCH = ROOT / "docs" / "watch.Dockerfile"


def steps(file: Path) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, each with what follows it, continued lines as one."""
    text = re.sub(r"\\\n\s*", " ", file.read_text("utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def context(folder: Path) -> Path:
    """What .dockerignore lets through; it names all that it does."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    kept = [rule[1:] for rule in rules if rule.startswith("!")]
    assert [rule for rule in rules if not rule.startswith("!")] == ["*", "**/__pycache__"]
    assert all("*" not in name for name in kept)
    folder.mkdir()
    for name in kept:
        source = ROOT / name
        assert source.exists(), name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_the_head_says_how_to_build_this_file_in_this_version(file: Path) -> None:
    head = file.read_text("utf-8").partition("FROM")[0]
    assert f"docker build -f docs/{file.name} -t " in head
    assert f":{__version__} ." in head


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_an_image_takes_over_the_environment_where_it_was_made(file: Path) -> None:
    """A virtual environment knows its own path, and the Python beside it."""
    found = steps(file)
    bases = [rest.split()[0] for what, rest in found if what == "FROM"]
    assert len(bases) == 2
    assert len(set(bases)) == 1
    [made] = [re.search(r"-m venv (\S+)", rest) for what, rest in found if "-m venv" in rest]
    assert made
    assert ("COPY", f"--from=build {made[1]} {made[1]}") in found
    users = [rest for what, rest in found if what == "USER"]
    assert users
    assert all(re.fullmatch(r"[1-9][0-9]*(:[1-9][0-9]*)?", user) for user in users)


@pytest.mark.programs  # pip installs the checkout
def test_the_steps_of_the_first_stage_work_on_what_is_let_through(tmp_path: Path, require) -> None:
    stages = {rest for file in FILES for what, rest in steps(file)[:3] if what == "RUN"}
    assert stages == {
        "python -m venv /opt/etcompile && /opt/etcompile/bin/pip install --no-cache-dir /src"
    }
    source = context(tmp_path / "src")
    home = tmp_path / "opt"
    venv.create(home, with_pip=True)
    # Its dependencies are those that the tests have: only the checkout itself is of interest.
    done = subprocess.run(
        [home / "bin" / "pip", "install", "--quiet", "--no-cache-dir", "--no-deps", source],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    require("pip", present="No matching distribution" not in done.stderr, why="no package index")
    assert done.returncode == 0, done.stderr
    [packages] = home.glob("lib/python3*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    environment = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}

    def run(program: str, *arguments: object) -> str:
        return subprocess.run(
            [home / "bin" / program, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env=environment,
        ).stdout

    where = run("python", "-c", "import etcompile; print(etcompile.__file__)")
    assert Path(where.strip()).is_relative_to(home)
    assert "--manifests" in run("etcompile", "watch", "--help")
    example = "trainingjob/elastic-mnist"
    golden = (ROOT / "golden" / example / "2-in.yaml").read_text("utf-8")
    made = run("etcompile", "render", ROOT / "examples" / example)
    assert list(yaml.safe_load_all(made)) == list(yaml.safe_load_all(golden))


def test_the_watchers_image_is_what_its_deployment_runs() -> None:
    image = f"registry.example/etcompile:{__version__}"
    done = CliRunner().invoke(program, ["watch", "--manifests", "-n", "nlp", "--image", image])
    assert done.exit_code == 0, done.output
    objects: list[Any] = list(yaml.safe_load_all(done.stdout))
    [deployment] = [one for one in objects if one and one["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    found = dict(steps(WATCH))
    entry, command = json.loads(found["ENTRYPOINT"]), json.loads(found["CMD"])
    assert container["image"] == image
    assert "command" not in container, "the image's own entrypoint is run"
    assert container["args"][: len(command)] == command
    assert Path(entry[0]).name == "etcompile"
    security = {**pod.get("securityContext", {}), **container.get("securityContext", {})}
    assert found["USER"].split(":") == [str(security["runAsUser"]), str(security["runAsUser"])]
    ports = {port["containerPort"] for port in container["ports"]}
    assert ports == {int(found["EXPOSE"])}
    # Nothing can be written there, byte code neither.
    assert "PYTHONDONTWRITEBYTECODE=1" in found["ENV"]
    assert security["readOnlyRootFilesystem"] is True


def test_the_python_of_the_images_is_one_that_is_supported() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    for file in FILES:
        version = re.search(r"FROM python:([0-9.]+)-slim", file.read_text("utf-8"))
        assert version
        assert f"Programming Language :: Python :: {version[1]}" in text
    assert sys.version_info >= (3, 11)
