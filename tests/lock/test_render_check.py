"""`etcompile render --check`: whether a folder is what rendering would make it."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from rendering import done, render, tree, write

from etcompile.emit.difference import unified
from specs import training_job, worker


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return write(tmp_path / "job.yaml", training_job())


@pytest.fixture
def out(tmp_path: Path, job: Path) -> Path:
    done(job, "-d", tmp_path / "out")
    return tmp_path / "out"


def _states(stdout: str) -> dict[str, str]:
    lines = stdout.partition("\n---")[0].splitlines()
    return {Path(line.split()[1]).name: line.split()[0] for line in lines}


def test_an_equal_folder_is_code_0_and_no_output(job: Path, out: Path) -> None:
    result = done(job, "-d", out, "--check")
    assert result.stdout == ""
    assert "up to date" in result.stderr


def test_differences_are_listed_and_shown_and_nothing_is_written(job: Path, out: Path) -> None:
    (out / "mnist" / "10-prereqs.yaml").unlink()
    launcher = out / "mnist" / "90-launcher.yaml"
    launcher.write_text(f"{launcher.read_text()}# mine\n")
    document = training_job()
    worker(document)["template"]["spec"]["containers"][0]["image"] = "horovod/horovod:0.28.2"
    write(job, document)
    before = tree(out)
    result = render(job, "-d", out, "--check")
    assert result.exit_code == 1
    assert _states(result.stdout) == {
        "10-prereqs.yaml": "missing",
        "20-config.yaml": "changed",
        "90-launcher.yaml": "changed",
        "91-workers.yaml": "changed",
        "etcompile.lock.json": "changed",
    }
    assert "90-launcher.yaml (it was edited by hand)" in result.stdout
    assert "\n-    image: horovod/horovod:0.28.1\n" in result.stdout
    assert "\n+    image: horovod/horovod:0.28.2\n" in result.stdout
    assert tree(out) == before


def test_a_stale_file_is_a_difference(tmp_path: Path, out: Path) -> None:
    other = write(tmp_path / "other.yaml", training_job("other"))
    states = render(other, "-d", out, "--check").stdout
    assert f"stale    {out}/mnist/90-launcher.yaml" in states


def test_a_folder_that_is_not_there_is_a_difference(tmp_path: Path, job: Path) -> None:
    result = render(job, "-d", tmp_path / "none", "--check")
    assert result.exit_code == 1
    assert set(_states(result.stdout).values()) == {"missing"}
    assert not (tmp_path / "none").exists()


def test_refused_input_is_code_2(tmp_path: Path, out: Path) -> None:
    bad = write(tmp_path / "bad.yaml", training_job("x.y"))
    assert render(bad, "-d", out, "--check").exit_code == 2


def test_what_render_would_not_overwrite_is_code_2(tmp_path: Path, job: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "kustomization.yaml").write_text("resources: []\n")
    result = render(job, "-d", out, "--check")
    assert result.exit_code == 2
    assert "ET5001" in result.stderr
    result = render(job, "-d", job, "--check")
    assert (result.exit_code, "ET5002" in result.stderr) == (2, True)


def test_what_writes_does_not_go_with_what_checks(job: Path, out: Path) -> None:
    assert "Error: --check writes nothing" in render(job, "-d", out, "--check", "--force").stderr


@pytest.mark.parametrize("option", ["--check", "--force", "--replace"])
def test_options_about_a_folder_need_one(job: Path, option: str) -> None:
    assert f"Error: {option} needs -d DIR" in render(job, option).stderr


def test_quiet_leaves_the_code_only(job: Path, out: Path) -> None:
    write(job, training_job(replicas=3))
    result = render(job, "-d", out, "--check", "-q")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "")


def test_a_long_diff_is_cut(job: Path, out: Path) -> None:
    write(job, training_job(replicas=99))
    lines = render(job, "-d", out, "--check").stdout.splitlines()
    assert len(lines) < 250
    assert any(line.startswith("… ") for line in lines)


def test_nothing_in_a_file_can_steer_the_terminal(job: Path, out: Path) -> None:
    (out / "mnist" / "10-prereqs.yaml").write_text("\x1b[2Jgone\n")
    assert "\x1b" not in render(job, "-d", out, "--check").stdout


def test_check_reports_missing_output_as_stale_and_a_symlink_as_an_error(
    tmp_path: Path, job: Path, out: Path
) -> None:
    shutil.rmtree(out / "mnist")
    assert render(job, "-d", out, "--check").exit_code == 1
    (out / "mnist").symlink_to(tmp_path)
    assert render(job, "-d", out, "--check").exit_code == 2


# The diff ---------------------------------------------------------------------------------------


def test_a_diff_is_one_that_patch_could_apply(tmp_path: Path) -> None:
    if not shutil.which("git"):
        pytest.skip("needs git")
    chance = random.Random(0)
    for _ in range(20):
        old = [f"line {chance.randrange(9)}" for _ in range(chance.randrange(40))]
        new = [line for line in old if chance.random() > 0.2]
        for _ in range(chance.randrange(4)):
            new.insert(chance.randrange(len(new) + 1), f"new {chance.randrange(9)}")
        if not old or not new or old == new:
            continue
        file = tmp_path / "a.txt"
        file.write_text("\n".join(old) + "\n")
        lines = list(unified("a.txt", file.read_text(), "\n".join(new) + "\n"))
        lines[1] = "+++ a.txt"
        patch = "\n".join(lines) + "\n"
        command = ["git", "apply", "-p0", "--unidiff-zero", "-"]
        done = subprocess.run(command, input=patch, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, (done.stderr, patch)
        assert file.read_text() == "\n".join(new) + "\n"


def test_diff_of_a_huge_file_shows_a_difference_but_no_torn_hunks() -> None:
    old = [f"{n}: a" for n in range(50_000)]
    new = [*old[:1000], "added", *old[1000:40_000], "added", *old[40_000:]]
    lines = list(unified("x", "\n".join(old), "\n".join(new)))
    assert [line for line in lines[2:] if not line.startswith((" ", "@"))] == ["+added"]


def test_a_new_file_is_all_additions() -> None:
    assert list(unified("x", "", "a\nb\n")) == [
        "--- /dev/null",
        "+++ x (rendered now)",
        "@@ -0,0 +1,2 @@",
        "+a",
        "+b",
    ]
