"""etcompile.lock.json: what it says, and what a later run makes of it."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from rendering import done, render, tree, write

from etcompile import emit
from specs import overlay, scale_out, training_job, worker

LOCK = "etcompile.lock.json"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return write(tmp_path / "job.yaml", training_job())


@pytest.fixture
def out(tmp_path: Path, job: Path) -> Path:
    done(job, "-d", tmp_path / "out")
    return tmp_path / "out"


def _sha(path: Path) -> str:
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def test_it_lists_every_file_that_was_read_and_written(tmp_path: Path, job: Path) -> None:
    more = write(tmp_path / "more.yaml", scale_out("a", 1))
    overlay = ROOT / "overlays" / "dev" / "overlay.yaml"
    templates = tmp_path / "templates"
    templates.mkdir()
    shutil.copy(ROOT / "templates" / "run-once.sh.j2", templates)
    out = tmp_path / "out"
    done(job, more, "--overlay", "dev", "--config", f"templates={templates}", "-d", out)
    lock = json.loads((out / LOCK).read_text())
    assert lock["inputs"] == {
        "job.yaml": _sha(job),
        "more.yaml": _sha(more),
        "overlays/dev/overlay.yaml": _sha(overlay),
        "templates/run-once.sh.j2": _sha(templates / "run-once.sh.j2"),
    }
    files = {path: _sha(out / path) for path in tree(out) if path != LOCK}
    assert lock["outputs"] == files
    assert lock["settings"]["services"] == "per-replica"


def test_no_tool_that_reads_the_folder_takes_it_for_a_manifest(out: Path) -> None:
    assert "+argocd:skip-file-rendering" in (out / LOCK).read_text()
    assert LOCK not in (out / "kustomization.yaml").read_text()
    assert done(out).stdout.count("kind: Pod") == 3


def test_it_is_the_same_wherever_and_whenever_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "job.yaml", training_job())
        monkeypatch.chdir(tmp_path / name)
        path = "job.yaml" if name == "here" else tmp_path / name / "job.yaml"
        done(path, "-d", "out" if name == "here" else tmp_path / name / "deep" / "out")
        locks += tmp_path.joinpath(name).rglob(LOCK)
    one, other = (lock.read_text() for lock in locks)
    assert one == other
    assert str(tmp_path) not in one
    assert tmp_path.parts[1] not in one


def test_files_that_share_a_name_are_both_in_it(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "job.yaml", training_job(name))
    paths = [tmp_path / name / "job.yaml" for name in ("one", "two")]
    done(*paths, "-d", tmp_path / "out")
    lock = json.loads((tmp_path / "out" / LOCK).read_text())
    assert lock["inputs"] == {"job.yaml": " ".join(sorted(_sha(path) for path in paths))}


def test_lock_file_records_settings_after_overlays_and_flags(tmp_path: Path, job: Path) -> None:
    file = write(tmp_path / "o.yaml", overlay(settings={"services": "shared"}))
    out = tmp_path / "out"
    done(job, "--overlay", file, "-n", "ml", "--config=split=true", "--run", "auto", "-d", out)
    settings = json.loads((out / LOCK).read_text())["settings"]
    wanted = {"services": "shared", "namespace": "ml", "split": True, "run": "auto"}
    assert settings | wanted == settings


# Files edited by hand ---------------------------------------------------------------------------


def test_a_file_edited_by_hand_is_not_overwritten(out: Path, job: Path) -> None:
    edited = out / "mnist" / "20-config.yaml"
    edited.write_text(edited.read_text() + "# mine\n")
    before = tree(out)
    result = render(job, "-d", out)
    assert result.exit_code == 2
    assert f"error[ET5007]: {edited} is not what etcompile wrote: it was edited by hand" in (
        result.stderr
    )
    assert "overlay" in result.stderr
    assert tree(out) == before
    done(job, "-d", out, "--force")
    assert "# mine" not in edited.read_text()


def test_a_stale_file_edited_by_hand_is_not_removed(tmp_path: Path, out: Path) -> None:
    (out / "mnist" / "90-launcher.yaml").write_text("mine")
    other = write(tmp_path / "other.yaml", training_job("other"))
    assert "ET5007" in render(other, "-d", out).stderr
    done(other, "-d", out, "--force")
    assert not (out / "mnist").exists()


def test_an_edit_that_equals_the_new_output_is_none(tmp_path: Path, job: Path, out: Path) -> None:
    write(job, training_job(replicas=3))
    done(job, "-d", tmp_path / "new")
    shutil.copy(tmp_path / "new" / "mnist" / "91-workers.yaml", out / "mnist")
    done(job, "-d", out)
    assert tree(out) == tree(tmp_path / "new")


def test_a_file_that_was_deleted_by_hand_comes_back(job: Path, out: Path) -> None:
    before = tree(out)
    (out / "mnist" / "91-workers.yaml").unlink()
    done(job, "-d", out)
    assert tree(out) == before


def test_every_edited_file_is_reported(job: Path, out: Path) -> None:
    for name in ("10-prereqs", "90-launcher"):
        (out / "mnist" / f"{name}.yaml").write_text("mine")
    assert render(job, "-d", out).stderr.count("error[ET5007]") == 2


# What the lock decides --------------------------------------------------------------------------


def test_a_file_with_our_header_that_the_lock_does_not_list_stays(job: Path, out: Path) -> None:
    foreign = out / "mnist" / "kept.yaml"
    foreign.write_text(f"{emit.HEADER}\n")
    write(job, training_job(replicas=3))
    done(job, "-d", out)
    assert foreign.exists()


def test_without_a_lock_the_header_decides(job: Path, out: Path) -> None:
    (out / LOCK).unlink()
    stale = out / "mnist" / "stale.yaml"
    stale.write_text(f"{emit.HEADER}\n")
    edited = out / "mnist" / "10-prereqs.yaml"
    edited.write_text(f"{emit.HEADER}\n# mine\n")
    done(job, "-d", out)
    assert not stale.exists()
    assert "# mine" not in edited.read_text()
    assert (out / LOCK).exists()


def test_a_file_of_ours_in_the_way_that_the_lock_does_not_list_is_not_overwritten(
    tmp_path: Path, out: Path
) -> None:
    theirs = out / "other" / "91-workers.yaml"
    theirs.parent.mkdir()
    theirs.write_text(f"{emit.HEADER}\n# from another branch\n")
    other = write(tmp_path / "other.yaml", training_job("other"))
    result = render(other, "-d", out)
    assert "ET5007" in result.stderr
    assert "does not list it" in result.stderr
    done(other, "-d", out, "--force")
    assert "another branch" not in theirs.read_text()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<<<<<<< HEAD\n{}", "no JSON"),
        ("{}", "no lock file"),
        ('{"comment": 1}', "no lock file"),
        ("", "no JSON"),
        pytest.param("[" * 100_000, "no lock file", id="nested deeply"),
    ],
)
def test_a_lock_that_cannot_be_read_is_refused(
    job: Path, out: Path, text: str, reason: str
) -> None:
    before = tree(out)
    (out / LOCK).write_text(text)
    result = render(job, "-d", out)
    assert result.exit_code == 2
    assert "ET5011" in result.stderr
    assert reason in result.stderr
    done(job, "-d", out, "--force")
    assert tree(out) == before


def test_a_lock_of_a_newer_format_is_refused(job: Path, out: Path) -> None:
    lock = json.loads((out / LOCK).read_text()) | {"format": 2}
    (out / LOCK).write_text(json.dumps(lock))
    result = render(job, "-d", out)
    assert "its format is 2, and this etcompile knows 1" in result.stderr


def test_a_lock_cannot_name_files_outside_its_folder(tmp_path: Path, job: Path, out: Path) -> None:
    precious = tmp_path / "precious.yaml"
    precious.write_text("mine")
    lock = json.loads((out / LOCK).read_text())
    lock["outputs"] |= {"../precious.yaml": _sha(precious), str(precious): _sha(precious)}
    (out / LOCK).write_text(json.dumps(lock))
    write(job, training_job(replicas=3))
    done(job, "-d", out)
    assert precious.read_text() == "mine"


def test_a_foreign_file_in_the_way_is_not_forced(tmp_path: Path, job: Path) -> None:
    out = tmp_path / "out"
    (out / "mnist").mkdir(parents=True)
    (out / "mnist" / "20-config.yaml").write_text("mine")
    assert "ET5001" in render(job, "-d", out, "--force").stderr


def test_a_lock_is_no_input(tmp_path: Path, job: Path, out: Path) -> None:
    for path in (out, f"{out}/*"):
        assert LOCK not in done(path, "-d", tmp_path / "copy").stderr


def test_git_sees_one_line_for_one_changed_file(tmp_path: Path, job: Path, out: Path) -> None:
    if not shutil.which("git"):
        pytest.skip("needs git")
    shutil.copytree(out, tmp_path / "old")
    document = training_job()
    worker(document)["template"]["metadata"] = {"labels": {"team": "a"}}
    write(job, document)
    done(job, "-d", out)
    command = ["git", "diff", "--no-index", "--numstat", "old/" + LOCK, "out/" + LOCK]
    diff = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    # The input, the ConfigMap with the stored job, the workers: a label makes no other run.
    assert diff.stdout.split()[:2] == ["3", "3"]


@pytest.mark.parametrize(
    "way", ["folder", "full folder", "link", "link to nowhere", "link to a folder", "pipe"]
)
def test_a_lock_file_that_is_none_is_in_the_way_and_opened_by_nothing(
    tmp_path: Path, job: Path, out: Path, way: str
) -> None:
    (out / LOCK).rename(tmp_path / "kept")
    before = (tmp_path / "kept").read_bytes()
    if way.endswith("folder") and not way.startswith("link"):
        (out / LOCK).mkdir()
    if way == "full folder":
        (out / LOCK / "notes").write_text("mine")
    if way.startswith("link"):
        (out / LOCK).symlink_to(
            {"link": "../kept", "link to nowhere": "../no"}.get(way, str(tmp_path))
        )
    if way == "pipe":
        os.mkfifo(out / LOCK)
    for more in ((), ("--force",), ("--check",)):
        result = render(job, "-d", out, *more)
        assert result.exit_code == 2
        assert "ET5001" in result.stderr
        assert LOCK in result.stderr
    assert (tmp_path / "kept").read_bytes() == before
    assert os.path.lexists(out / LOCK)
    assert not (tmp_path / "no").exists()
