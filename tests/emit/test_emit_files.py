"""No door of etcompile writes past a link to somewhere else than the user named."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from etcompile.cli.main import program
from etcompile.emit.files import write_file, write_files
from specs import training_job

BLOB = "0" * 64


def run(*arguments: object) -> "tuple[int, str]":
    done = CliRunner().invoke(program, [str(one) for one in arguments], catch_exceptions=False)
    return done.exit_code, done.output


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder of somebody else, which must look the same after every test."""
    folder = tmp_path / "elsewhere"
    (folder / "below").mkdir(parents=True)
    (folder / "precious").write_text("mine")
    (folder / "index.json").write_text("mine")
    (folder / BLOB).write_text("mine")
    before = state(folder)
    yield folder
    assert state(folder) == before


def state(folder: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "jobs").mkdir()
    path = tmp_path / "jobs" / "mnist.yaml"
    value = training_job()
    value["spec"]["etReplicaSpecs"]["worker"]["maxReplicas"] = 8
    path.write_text(yaml.safe_dump(value))
    return path


@pytest.fixture
def output(tmp_path: Path) -> Path:
    folder = tmp_path / "output"
    folder.mkdir()
    return folder


# The function ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "target", "name"),
    [
        ("a", "elsewhere/precious", "a"),
        ("a", "elsewhere", "a/b"),
        ("a", "elsewhere/below", "a/b/c"),
        ("a", "nowhere", "a"),
        ("a", "nowhere", "a/b"),
        ("a", "output", "a/b"),
    ],
)
@pytest.mark.parametrize("only_new", [False, True])
def test_a_link_on_the_way_is_refused_before_anything_is_written(
    elsewhere, output, tmp_path, link, target, name, only_new
):
    (output / link).symlink_to(tmp_path / target)
    [diagnostic] = write_files(output, {"first": b"1", name: b"2"}, only_new=only_new)
    assert diagnostic.code == "ET5023"
    assert str(output / link) in diagnostic.message
    assert [path.name for path in output.iterdir()] == [link]
    assert not (tmp_path / "nowhere").exists()


def test_the_folder_itself_may_be_a_link(output, tmp_path):
    (tmp_path / "named").symlink_to(output)
    assert write_files(tmp_path / "named", {"a/b": b"1", "c": b"2"}) == []
    assert state(output) == {"a": None, "a/b": b"1", "c": b"2"}
    assert write_file(tmp_path / "named" / "c", b"3") == []
    assert state(output)["c"] == b"3"


@pytest.mark.parametrize("name", ["../elsewhere/precious", "a/../../elsewhere/new", "/tmp/x"])
def test_a_name_leads_nowhere_else(elsewhere, output, name):
    assert [diagnostic.code for diagnostic in write_files(output, {name: b""})] == ["ET5023"]
    assert state(output) == {}


def test_what_has_another_name_elsewhere_keeps_its_content(elsewhere, output):
    os.link(elsewhere / "precious", output / "a")
    assert write_files(output, {"a": b"new"}) == []
    assert (output / "a").read_bytes() == b"new"


def test_existing_file_keeps_its_mode_and_a_new_one_follows_the_umask(output):
    (output / "a").write_text("old")
    (output / "a").chmod(0o600)
    (output / "plain").write_text("")
    assert write_files(output, {"a": b"new", "b": b"new"}) == []
    assert (output / "a").stat().st_mode & 0o777 == 0o600
    assert (output / "b").stat().st_mode == (output / "plain").stat().st_mode


def test_what_is_there_stays_where_only_new_files_are_written(output):
    (output / "a").write_text("old")
    [diagnostic] = write_files(output, {"a": b"new"}, only_new=True)
    assert (diagnostic.code, (output / "a").read_text()) == ("ET5003", "old")


def test_unwritable_file_is_reported_by_name(output):
    (output / "a" / "b").mkdir(parents=True)
    [diagnostic] = write_files(output, {"a/b": b"new"})
    assert diagnostic.message.startswith(f"cannot write {output}/a/b: ")
    assert state(output) == {"a": None, "a/b": None}


def test_a_pipe_is_written_to_and_stays_a_pipe(output):
    os.mkfifo(output / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((output / "pipe").read_bytes()))
    reader.start()
    assert write_file(output / "pipe", b"content") == []
    reader.join()
    assert read == [b"content"]
    assert (output / "pipe").is_fifo()


# The doors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["jobs", "overlays", "overlays/prod", ".github", "out"])
def test_init_does_not_write_through_a_symlink(elsewhere, output, place):
    (output / place).parent.mkdir(exist_ok=True)
    (output / place).symlink_to(elsewhere)
    code, said = run("init", output)
    assert (code, "ET5023" in said) == (2, True)
    assert state(output).keys() <= {place, "overlays"}


@pytest.mark.parametrize("place", ["mnist.yaml", "HANDOVER.md"])
@pytest.mark.parametrize("target", ["precious", "nothing"])
def test_a_hand_over_is_not_written_through_a_link(elsewhere, output, job, place, target):
    (output / place).symlink_to(elsewhere / target)
    code, said = run("migrate", job, "-d", output)
    assert (code, "ET5023" in said) == (2, True)
    assert [path.name for path in output.iterdir()] == [place]


def test_the_temporary_names_of_a_hand_over_cannot_be_foreseen(elsewhere, output, job):
    for name in ("mnist.yaml", "HANDOVER.md"):
        (output / f".{name}.new").symlink_to(elsewhere / "precious")
    assert run("migrate", job, "-d", output)[0] == 0
    assert (output / "mnist.yaml").is_file()


def test_a_plan_is_not_written_through_a_link(elsewhere, output, job, tmp_path):
    (output / "plan.json").symlink_to(elsewhere / "precious")
    (tmp_path / "none").mkdir()
    code, said = run("diff", job, "--against", tmp_path / "none", "--plan", output / "plan.json")
    assert code == 2
    assert "it is a link" in " ".join(said.split())
    (output / "plan.json").unlink()
    code, _ = run("diff", job, "--against", tmp_path / "none", "--plan", output / "plan.json")
    assert (code, bool(json.loads((output / "plan.json").read_text()))) == (1, True)


def test_a_scale_intent_is_not_written_where_a_link_has_led(output, job):
    (output / "team").symlink_to(job.parent)
    code, said = run("scale", "mnist", output, "--add", 1)
    assert (code, "ET5023" in said) == (2, True)
    assert [path.name for path in job.parent.iterdir()] == [job.name]
    for place in (output / "team", job, job.parent / "*.yaml"):
        assert run("scale", "mnist", place, "--add", 1)[0] == 0


def test_a_render_carries_links_over_and_follows_none(elsewhere, output, job):
    assert run("render", job, "-d", output)[0] == 0
    (output / "mine").symlink_to(elsewhere)
    job.write_text(yaml.safe_dump(training_job("other")))
    assert run("render", job, "-d", output)[0] == 0
    assert (output / "mine").readlink() == elsewhere
    assert (output / "other").is_dir()


@pytest.mark.parametrize("place", ["mnist", "mnist/20-config.yaml", "etcompile.lock.json"])
def test_a_render_is_not_written_through_a_link(elsewhere, output, job, place, tmp_path):
    assert run("render", job, "-d", output)[0] == 0
    (output / place).rename(tmp_path / "kept")
    (output / place).symlink_to(elsewhere / ("precious" if "." in place else "below"))
    before = state(tmp_path / "kept") if (tmp_path / "kept").is_dir() else None
    code, said = run("render", job, "-d", output, "--force")
    assert (code, "ET5001" in said) == (2, True)
    assert (state(tmp_path / "kept") if (tmp_path / "kept").is_dir() else None) == before


def test_the_place_of_a_render_may_be_a_link(output, job, tmp_path):
    (tmp_path / "named").symlink_to(output)
    assert run("render", job, "-d", tmp_path / "named")[0] == 0
    assert (tmp_path / "named").is_symlink()
    assert (output / "mnist").is_dir()
