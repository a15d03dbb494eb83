"""A job whose file is removed, renamed or moved is noticed, and pruned if that is asked for."""

import pytest
import yaml

from commandline import git
from etcompile.operations import job_set
from specs import training_job


def names(objects):
    """The jobs that anything in the namespace belongs to."""
    live = {name.partition("/")[2] for name in objects()}
    return {job for job in ("one", "two", "three") if any(job in name for name in live)}


@pytest.fixture
def two(run, write, kubelet, tmp_path):
    (tmp_path / "etcompile.toml").write_text('repository-name = "team"\n')
    write(training_job("one", replicas=1), name="one")
    write(training_job("two", replicas=1), name="two")
    run("apply", "jobs", code=0)


def test_a_job_whose_file_is_removed_is_named_and_then_pruned(run, two, kubelet, objects, tmp_path):
    (tmp_path / "jobs" / "two.yaml").unlink()
    left = run("apply", "jobs", code=0)
    assert names(objects) == {"one", "two"}
    assert "no longer in the files, and kept: --prune deletes them" in left.stderr
    assert "two" in run("status").stdout.split("no longer in the files")[1]
    assert "it is no longer in" in run("status", "two").stdout
    assert "mnist" not in run("diff", "jobs").stdout
    planned = run("diff", "jobs", "--prune")
    assert "two-launcher" in planned.stdout
    assert "its job is no longer in" in planned.stdout
    run("apply", "jobs", "--prune", code=0)
    assert names(objects) == {"one"}
    assert "ConfigMap/etcompile-two" not in objects()
    assert run("apply", "jobs", "--prune").stdout.count("nothing had to be changed") == 1


def test_an_inventory_of_which_nothing_is_left_is_pruned(
    run, two, kubelet, objects, erase, tmp_path
):
    (tmp_path / "jobs" / "two.yaml").unlink()
    # As after an apply that was killed between the last member and its inventory.
    erase("two")
    assert {name for name in objects() if "two" in name} == {"ConfigMap/etcompile-two"}
    assert "etcompile-two" in run("diff", "jobs", "--prune").stdout
    run("apply", "jobs", "--prune", code=0)
    assert names(objects) == {"one"}


def test_a_job_that_is_renamed_leaves_nothing_behind(run, two, write, kubelet, objects, tmp_path):
    (tmp_path / "jobs" / "two.yaml").unlink()
    write(training_job("three", replicas=1), name="three")
    run("apply", "jobs", "--prune", code=0)
    assert names(objects) == {"one", "three"}


def test_a_job_that_moves_to_another_namespace_leaves_the_first(
    applied, run, write, kubelet, objects, control_plane, tmp_path
):
    (tmp_path / "etcompile.toml").write_text('repository-name = "team"\n')
    applied("one", replicas=1)
    other = control_plane.namespace()
    moved = training_job("one", replicas=1)
    moved["metadata"]["namespace"] = other
    write(moved)
    run("apply", "jobs", "--prune", "--wait", "none", code=0)
    assert names(objects) == set()
    run("delete", "jobs")


def test_a_job_that_is_declared_again_is_no_orphan(run, two, write, kubelet, objects, tmp_path):
    (tmp_path / "jobs" / "two.yaml").unlink()
    run("apply", "jobs")
    assert "no longer in the files" in run("status").stdout
    write(training_job("two", replicas=1), name="two")
    run("apply", "jobs", code=0)
    assert "no longer in the files" not in run("status").stdout
    run("apply", "jobs", "--prune", code=0)
    assert names(objects) == {"one", "two"}


def test_nothing_is_pruned_that_the_same_set_did_not_declare(
    run, two, write, kubelet, objects, tmp_path
):
    """Another folder, single files, and a set of another name know nothing of these jobs."""
    (tmp_path / "jobs" / "two.yaml").unlink()
    for arguments in (("jobs/one.yaml",), ("jobs", "--config", "set=other", "--adopt")):
        run("apply", *arguments, "--prune", code=0)
        assert names(objects) == {"one", "two"}
    write(training_job("three", replicas=1), name="three")
    (tmp_path / "more").mkdir()
    (tmp_path / "jobs" / "three.yaml").rename(tmp_path / "more" / "three.yaml")
    run("apply", "more", "--prune", code=0)
    assert names(objects) == {"one", "two", "three"}


def test_a_job_that_another_set_has_applied_since_is_not_pruned(
    run, two, kubelet, objects, tmp_path
):
    run("apply", "jobs/two.yaml", "--config", "set=mine", "--adopt", code=0)
    (tmp_path / "jobs" / "two.yaml").rename(tmp_path / "two.yaml")
    run("apply", "jobs", "--prune", code=0)
    assert names(objects) == {"one", "two"}


def test_a_single_file_keeps_its_job_in_the_set_of_its_folder(run, two, kubelet, objects, tmp_path):
    run("apply", "jobs/two.yaml", code=0)
    (tmp_path / "jobs" / "two.yaml").unlink()
    run("apply", "jobs", "--prune", code=0)
    assert names(objects) == {"one"}


@pytest.mark.parametrize("named", [(), ("--config", "set=team")])
def test_a_folder_that_is_applied_for_two_namespaces_is_two_sets(
    run, write, kubelet, objects, control_plane, named, tmp_path
):
    (tmp_path / "etcompile.toml").write_text('repository-name = "team"\n')
    other = control_plane.namespace()
    write(training_job("one", replicas=1))
    run("apply", "jobs", *named, code=0)
    second = run("apply", "jobs", *named, "-n", other, "--prune", "--wait", "none", code=0)
    assert "deleted" not in second.stdout
    assert names(objects) == {"one"}
    run("delete", "jobs", *named, "-n", other, code=0)


@pytest.mark.parametrize(
    "remote",
    [
        "git@git.example.org:team/Jobs.git",
        "https://git.example.org/team/jobs",
        "https://token:secret@git.example.org/team/jobs.git/",
        "ssh://git@git.example.org:2222/team/jobs.git",
    ],
)
def test_every_clone_of_a_repository_is_the_same_set(tmp_path, remote):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        (folder / "prod").mkdir(parents=True)
        git(folder, "init", "-q")
    for folder, url in ((first, remote), (second, "https://git.example.org/team/jobs")):
        git(folder, "remote", "add", "origin", url)
    clone_set = job_set([str(first / "prod")])
    assert clone_set == job_set([str(second / "prod")])
    assert clone_set != job_set([str(first)])
    assert clone_set.source == "git.example.org/team/jobs/prod"


@pytest.mark.parametrize("sign", ["remote", "first commit"])
def test_copied_repository_name_prunes_no_job_of_the_other_repository(
    run, kubelet, objects, tmp_path, sign
):
    for name in ("a", "b"):
        folder = tmp_path / name / "jobs"
        folder.mkdir(parents=True)
        (folder / f"{name}.yaml").write_text(
            yaml.safe_dump(training_job("one" if name == "a" else "two", replicas=1))
        )
        (tmp_path / name / "etcompile.toml").write_text('repository-name = "team"\n')
        git(folder.parent, "init", "-q")
        if sign == "remote":
            git(folder.parent, "remote", "add", "origin", f"git@git.example.com:{name}/jobs.git")
        else:
            git(folder.parent, "add", ".")
            git(folder.parent, "commit", "-q", "-m", name)
    run("apply", "a/jobs", code=0)
    run("apply", "b/jobs", "--prune", code=0)
    assert names(objects) == {"one", "two"}
    seen = run("diff", "b/jobs", "--prune")
    assert "another repository of the name team" in seen.stdout, seen.stdout
    run("apply", "a/jobs", "--prune", code=0)
    assert names(objects) == {"one", "two"}
    (tmp_path / "a" / "jobs" / "a.yaml").rename(tmp_path / "a" / "jobs" / "new.yaml")
    run("apply", "b/jobs", "--prune", "--adopt", code=0)
    assert names(objects) == {"two"}
