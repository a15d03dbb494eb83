"""`--overlay` at a shell."""

import os
import shutil
from pathlib import Path

import pytest
import yaml

from commandline import at_a_shell, etcompile

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "trainingjob" / "elastic-mnist"
HEAD = "apiVersion: etcompile.dev/v1alpha1\nkind: Overlay\n"


def settings(*arguments: object, **how: object) -> dict[str, str]:
    done = etcompile("render", EXAMPLE, *arguments, **how, code=0)
    documents = yaml.safe_load_all(done.stdout)
    data = next(d["data"] for d in documents if d["kind"] == "ConfigMap")
    settings: dict[str, str] = yaml.safe_load(data["job.yaml"])["settings"]
    return settings


@pytest.mark.parametrize("command", ["render", "check"])
def test_every_command_that_compiles_takes_overlays(command: str) -> None:
    etcompile(command, EXAMPLE, "--overlay", "prod", "--strict", code=0)


def test_explicit_flag_overrides_the_overlay_even_with_its_default_value(tmp_path: Path) -> None:
    overlay = tmp_path / "mine.yaml"
    overlay.write_text(HEAD + "settings: {secret: external, clusterDomain: a.local}\n")
    assert settings("--overlay", overlay)["secret"] == "external"
    effective = settings("--overlay", overlay, "--config", "secret=runtime")
    assert (effective["secret"], effective["clusterDomain"]) == ("runtime", "a.local")


def test_the_last_overlay_wins(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(HEAD + f"settings: {{clusterDomain: {name}}}\n")
    a, b = ("--overlay", tmp_path / "a"), ("--overlay", tmp_path / "b")
    assert settings(*a, *b)["clusterDomain"] == "b"
    assert settings(*b, *a)["clusterDomain"] == "a"


def test_local_overlay_overrides_a_shipped_overlay_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "prod").mkdir()
    assert settings("--overlay", "prod", cwd=tmp_path)["clusterDomain"] == "cluster.local"
    (tmp_path / "prod" / "overlay.yaml").write_text(HEAD + "settings: {clusterDomain: mine}\n")
    assert settings("--overlay", "prod", cwd=tmp_path)["clusterDomain"] == "mine"


def test_a_mistake_in_an_overlay_is_shown_there(tmp_path: Path) -> None:
    overlay = tmp_path / "mine.yaml"
    patch = "  - target: {kind: TrainingJob}\n    patch:\n      spec:\n        slotPerWorker: 2\n"
    overlay.write_text(f"{HEAD}patches:\n{patch}")
    done = etcompile("render", EXAMPLE, "--overlay", overlay)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{overlay}:7:9" in done.stderr
    assert "did you mean 'slotsPerWorker'?" in done.stderr


@pytest.mark.parametrize("name", ["prd", "-", "no/such.yaml", "."])
def test_a_name_that_is_no_overlay_is_one_message(name: str) -> None:
    done = etcompile("render", EXAMPLE, "--overlay", name, cwd=ROOT / "docs")
    assert (done.returncode, done.stdout) == (2, "")
    assert "ET6002" in done.stderr
    assert "dev, prod, resilient, spot" in done.stderr


def test_bytes_do_not_depend_on_hash_seed_or_working_directory(tmp_path: Path) -> None:
    shutil.copy(ROOT / "overlays" / "spot" / "overlay.yaml", tmp_path / "mine.yaml")
    outputs = set()
    for seed, where in (("0", ROOT), ("1", tmp_path), ("2", EXAMPLE)):
        overlay = os.path.relpath(tmp_path / "mine.yaml", where)
        arguments = ("--overlay", "prod", "--overlay", overlay)
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = at_a_shell("render", EXAMPLE, *arguments, cwd=where, env=environment)
        assert done.returncode == 0, done.stderr
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_the_output_folder_holds_what_the_stream_holds(tmp_path: Path) -> None:
    etcompile("render", EXAMPLE, "--overlay", "prod", "-d", tmp_path / "out", code=0)
    text = (tmp_path / "out" / "elastic-mnist" / "91-workers.yaml").read_text()
    assert "overlays/prod/overlay.yaml" in text.splitlines()[1]
    assert "environment: prod" in text
