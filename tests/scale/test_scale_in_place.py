"""`etcompile scale --in-place`: another number in the job's own file, and nothing else of it."""

import functools
import shutil
from pathlib import Path

import pytest
import yaml

import commandline
import etcompile
import specs
from etcompile.compiler.choices import Options
from specs import pods

ROOT = Path(__file__).parents[2]


scale = functools.partial(commandline.etcompile, "scale")


def elastic_examples():
    """The examples of elastic jobs, each with its file and its job's name."""
    for path in sorted((ROOT / "examples").rglob("job.yaml")):
        documents = [*yaml.safe_load_all(path.read_text("utf-8"))]
        job = documents[-1]
        compilation = etcompile.compile(path, etcompile.Options(without_keys=True))
        if compilation.ok and len(compilation.groups) >= 1:
            yield path, job["metadata"]["name"]


@pytest.mark.parametrize(
    ("example", "name"), [*elastic_examples()], ids=lambda value: str(value).split("examples/")[-1]
)
def test_one_number_changes_or_it_is_refused_for_what_scale_refuses(example, name, tmp_path):
    file = tmp_path / "job.yaml"
    shutil.copy(example, file)
    other = scale(name, "--add", 1, "--dry-run", cwd=tmp_path)
    done = scale(name, "--add", 1, "--in-place", cwd=tmp_path)
    before, after = example.read_text("utf-8"), file.read_text("utf-8")
    if other.returncode != 0:
        assert done.returncode != 0
        assert after == before
        return
    if done.returncode != 0:
        assert "ET3019" in done.stderr
        assert after == before
        return
    changed = [
        pair
        for pair in zip(before.splitlines(), after.splitlines(), strict=True)
        if len({*pair}) > 1
    ]
    assert len(changed) == 1
    compilation = etcompile.compile(file)
    assert compilation.ok, compilation.diagnostics
    (tmp_path / "other").mkdir()
    shutil.copy(example, tmp_path / "other" / "job.yaml")
    scale(name, "--add", 1, cwd=tmp_path / "other", code=0)
    assert pods(compilation) == pods(etcompile.compile(tmp_path / "other"))


@pytest.fixture
def tree(tmp_path):
    shutil.copy(ROOT / "examples" / "pytorchjob" / "elastic" / "job.yaml", tmp_path / "job.yaml")
    return tmp_path


def test_fewer_and_a_number_in_all(tree):
    scale("elastic", "--to", 4, "--in-place", cwd=tree, code=0)
    done = scale("elastic", "--remove", 1, "--in-place", cwd=tree)
    assert "4 -> 3" in done.stderr
    document = yaml.safe_load((tree / "job.yaml").read_text("utf-8"))
    assert document["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 3
    before = (tree / "job.yaml").read_bytes()
    scale("elastic", "--to", 3, "--in-place", cwd=tree, code=0)
    scale("elastic", "--to", 400, "--in-place", cwd=tree, code=2)
    assert (tree / "job.yaml").read_bytes() == before
    assert sorted(path.name for path in tree.iterdir()) == ["job.yaml"]


def test_a_dry_run_prints_the_file_and_leaves_it(tree):
    before = (tree / "job.yaml").read_text("utf-8")
    done = scale("elastic", "--to", 4, "--in-place", "--dry-run", cwd=tree)
    assert done.stdout == before.replace("replicas: 2", "replicas: 4")
    assert (tree / "job.yaml").read_text("utf-8") == before


def test_a_job_with_intents_keeps_its_number(tree):
    scale("elastic", "--to", 4, "--no-in-place", cwd=tree, code=0)
    done = scale("elastic", "--to", 3, "--in-place", cwd=tree, code=2)
    assert "ET3019" in done.stderr
    assert "scale intents" in done.stderr


def test_an_elastic_job_has_its_number_changed_unless_something_else_counts(tree):
    before = (tree / "job.yaml").read_text("utf-8")
    scale("elastic", "--to", 3, cwd=tree, code=0)
    assert [path.name for path in tree.iterdir()] == ["job.yaml"]
    assert (tree / "job.yaml").read_text("utf-8") == before.replace("replicas: 2", "replicas: 3")
    scale("elastic", "--to", 4, "--no-in-place", cwd=tree, code=0)
    changed = (tree / "job.yaml").read_text("utf-8")
    scale("elastic", "--to", 2, cwd=tree, code=0)
    assert (tree / "job.yaml").read_text("utf-8") == changed, "an intent counts from it"
    assert len(list(tree.iterdir())) == 3


def test_missing_replica_number_is_reported_by_scale_in_place(tree):
    text = (tree / "job.yaml").read_text("utf-8")
    (tree / "job.yaml").write_text(
        text.replace("      replicas: 2\n", "").replace("minReplicas: 2", "minReplicas: 1"), "utf-8"
    )
    done = scale("elastic", "--to", 3, "--in-place", cwd=tree, code=2)
    assert "spec.pytorchReplicaSpecs.Worker.replicas" in done.stderr


def test_pods_are_not_a_number(tree):
    done = scale("elastic", "--pods", "elastic-worker-1", "--in-place", cwd=tree, code=2)
    assert "--remove N" in done.stderr


def overlay(folder, patch):
    """An overlay of PyTorchJobs, outside the folder of the jobs."""
    file = folder.with_name(f"{folder.name}-overlay.yaml")
    file.write_text(yaml.safe_dump(specs.patch(patch, kind="PyTorchJob")))
    return file


OTHER = {"metadata": {"labels": {"team": "nlp"}}}
# Also where it happens to say what the file says.
NUMBERS = [{"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": n}}}} for n in (2, 4)]


@pytest.mark.parametrize("more", [("--overlay", "prod"), OTHER], ids=["prod", "labels"])
def test_overlay_without_the_number_leaves_it_to_the_job_file(tree, more):
    before = (tree / "job.yaml").read_text("utf-8")
    more = more if isinstance(more, tuple) else ("--overlay", overlay(tree, more))
    scale("elastic", "--to", 3, *more, cwd=tree, code=0)
    assert [path.name for path in tree.iterdir()] == ["job.yaml"]
    assert (tree / "job.yaml").read_text("utf-8") == before.replace("replicas: 2", "replicas: 3")


@pytest.mark.parametrize("patch", NUMBERS, ids=["the same", "another"])
def test_overlay_with_the_number_adds_a_file_that_counts_from_it(tree, patch):
    file = overlay(tree, patch)
    before = (tree / "job.yaml").read_bytes()
    refused = scale("elastic", "--to", 3, "--in-place", "--overlay", file, cwd=tree)
    assert (refused.returncode, "an overlay sets the number" in refused.stderr) == (2, True)
    scale("elastic", "--to", 3, "--overlay", file, cwd=tree, code=0)
    assert (tree / "job.yaml").read_bytes() == before
    assert len([*tree.iterdir()]) == 2
    compiled = etcompile.compile([tree], Options(overlays=(str(file),)))
    assert len(pods(compiled)) == 3
