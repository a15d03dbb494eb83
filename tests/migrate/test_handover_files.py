"""`etcompile migrate` at a shell: what it writes where, and what it does not overwrite."""

from pathlib import Path

import pytest
import yaml
from dumps import dumped

from commandline import etcompile
from specs import training_job


@pytest.fixture
def live(tmp_path: Path) -> Path:
    path = tmp_path / "live.yaml"
    items = [dumped(training_job(), phase="Running")]
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def test_a_folder_gets_spec_and_instructions(live: Path, tmp_path: Path) -> None:
    etcompile("migrate", live, "-d", tmp_path / "job", code=0)
    assert {one.name for one in (tmp_path / "job").iterdir()} == {"mnist.yaml", "HANDOVER.md"}
    etcompile("render", tmp_path / "job", code=0)


def test_without_a_folder_the_spec_can_be_piped_into_render(live: Path) -> None:
    done = etcompile("migrate", "-", stdin=live.read_text())
    assert "# Handing over TrainingJob mnist" in done.stderr
    etcompile("render", "-", stdin=done.stdout, code=0)


def test_second_migration_rewrites_identical_files(live: Path, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    etcompile("migrate", live, "-d", folder, code=0)
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    etcompile("migrate", live, "-d", folder, code=0)
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == before


@pytest.mark.parametrize("name", ["mnist.yaml", "HANDOVER.md"])
def test_a_file_that_somebody_edited_is_not_overwritten(live: Path, tmp_path: Path, name) -> None:
    folder = tmp_path / "job"
    etcompile("migrate", live, "-d", folder)
    edited = folder / name
    edited.write_text(edited.read_text() + "# mine\n")
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    done = etcompile("migrate", live, "-d", folder, code=2)
    assert "ET5001" in done.stderr
    assert name in done.stderr
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == before


def test_neither_files_nor_a_cluster_is_a_mistake_of_usage(live: Path) -> None:
    etcompile("migrate", code=2)
    etcompile("migrate", live, "--from-cluster", "trainingjob/mnist", code=2)
    etcompile("migrate", live, "--context", "prod", code=2)
