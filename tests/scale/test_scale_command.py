"""`etcompile scale`: one file more, which render then counts as was wished."""

import functools
import shutil
from pathlib import Path

import pytest
import yaml

import commandline
import etcompile
from specs import API_VERSION, patch, pods, scale_in, scale_out, training_job, worker

EXAMPLES = Path(__file__).parents[2] / "examples"


scale = functools.partial(commandline.etcompile, "scale")


def workers(*paths: Path) -> list[str]:
    compilation = etcompile.compile(list(paths))
    assert compilation.ok, compilation.diagnostics
    return pods(compilation)


def texts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A job of two workers, of at most eight, with comments."""
    job = training_job()
    worker(job)["maxReplicas"] = 8
    text = f"# Ask Kim before you change this.\n{yaml.safe_dump(job)}"
    (tmp_path / "mnist.yaml").write_text(text)
    return tmp_path


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The elastic example: two workers, one more, and one less."""
    return Path(shutil.copytree(EXAMPLES / "trainingjob" / "elastic-mnist", tmp_path / "mnist"))


def test_adding_workers_writes_one_intent_next_to_the_job_and_changes_no_file(example):
    before = texts(example)
    scale("elastic-mnist", "--add", 2, cwd=example, code=0)
    after = texts(example)
    assert {name: after[name] for name in before} == before
    (new,) = after.keys() - before.keys()
    assert new == "scale-3-out.yaml"
    written = yaml.safe_load(after[new])
    assert (written["apiVersion"], written["kind"]) == (API_VERSION, "ScaleOut")
    assert written["metadata"]["annotations"] == {"etcompile.dev/sequence": "3"}
    assert workers(example) == [f"elastic-mnist-worker-{index}" for index in range(5)]


def test_it_says_what_it_wrote_and_which_pods_come(example):
    done = scale("elastic-mnist", "--add", 2, cwd=example)
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "wrote scale-3-out.yaml: ScaleOut elastic-mnist-scale-3-out",
        "elastic-mnist: 3 -> 5 workers",
        "  + elastic-mnist-worker-3, elastic-mnist-worker-4",
    ]


def test_the_first_intent_of_a_job_is_numbered_with_three_digits(tree):
    scale("mnist", "--add", 1, cwd=tree, code=0)
    assert yaml.safe_load((tree / "scale-001-out.yaml").read_text())["metadata"] == {
        "name": "mnist-scale-001-out",
        "annotations": {"etcompile.dev/sequence": "1"},
    }


def test_target_number_of_workers_accounts_for_all_earlier_intents(example):
    for wanted in (6, 1, 4):
        scale("elastic-mnist", "--to", wanted, cwd=example, code=0)
        assert len(workers(example)) == wanted
    names = [path.stem for path in sorted(example.glob("scale-*"))]
    assert names == ["scale-1-out", "scale-2-in", "scale-3-out", "scale-4-in", "scale-5-out"]


def test_job_that_already_has_the_target_size_gets_no_intent(example):
    before = texts(example)
    done = scale("elastic-mnist", "--to", 3, cwd=example)
    assert (done.returncode, texts(example)) == (0, before)
    assert "already has 3 workers" in done.stderr


def test_remove_drops_the_highest_indexes_and_pods_drops_the_named_pods(tree):
    scale("mnist", "--to", 5, cwd=tree)
    scale("mnist", "--remove", 1, cwd=tree)
    done = scale("mnist", "--pods", "mnist-worker-0,mnist-worker-2", cwd=tree)
    assert "  - mnist-worker-0, mnist-worker-2" in done.stderr
    assert workers(tree) == ["mnist-worker-1", "mnist-worker-3"]


def test_a_dry_run_prints_the_file_and_writes_none(tree):
    before = texts(tree)
    done = scale("mnist", "--add", 3, "--dry-run", cwd=tree)
    assert (done.returncode, texts(tree)) == (0, before)
    assert yaml.safe_load(done.stdout)["spec"]["toAdd"] == {"count": 3}
    assert "would write" in done.stderr


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        (("--to", 9), "ET3004"),
        (("--to", 0), "ET3005"),
        (("--remove", 7), "ET3005"),
        (("--pods", "mnist-worker-7"), "ET3002"),
    ],
)
def test_what_render_would_refuse_is_refused_in_the_same_words_before_it_is_written(
    tree, wish, code
):
    before = texts(tree)
    done = scale("mnist", *wish, cwd=tree)
    assert (done.returncode, texts(tree)) == (2, before)
    assert f"error[{code}]" in done.stderr
    assert "nothing was written" in done.stderr


def test_behind_intents_without_a_number_the_new_one_comes_by_its_name(tree):
    (tree / "zz.yaml").write_text(yaml.safe_dump(scale_out("last", 3)))
    scale("mnist", "--pods", "mnist-worker-4", cwd=tree, code=0)
    (new,) = {path.name for path in tree.iterdir()} - {"mnist.yaml", "zz.yaml"}
    assert new == "zz_scale-001-in.yaml"
    assert "annotations" not in yaml.safe_load((tree / new).read_text())["metadata"]
    # It names a worker that the intent without a number adds: render takes it, so it comes after.
    assert workers(tree) == [f"mnist-worker-{index}" for index in range(4)]


def test_an_intent_follows_the_last_one_into_its_folder(tree):
    folder = tree / "scaling"
    folder.mkdir()
    (folder / "one.yaml").write_text(yaml.safe_dump(scale_out("one", 1)))
    scale("mnist", "--add", 1, cwd=tree, code=0)
    assert [path.name for path in sorted(folder.iterdir())] == ["one.yaml", "scale-001-out.yaml"]
    assert len(workers(tree)) == 4


def test_new_intent_counts_last_in_whichever_order_paths_are_named(tree):
    paths = []
    for name, wish in (("b", scale_out("first", 3)), ("a", scale_in("second", 1))):
        (tree / name).mkdir()
        (tree / name / "one.yaml").write_text(yaml.safe_dump(wish))
        paths.append(tree / name)
    # The ScaleIn counts first, so that the ScaleOut begins with worker 1.
    scale("mnist", tree / "mnist.yaml", *paths, "--pods", "mnist-worker-3", cwd=tree, code=0)
    assert (tree / "b" / "scale-001-in.yaml").exists()
    left = [f"mnist-worker-{index}" for index in range(3)]
    assert workers(tree) == workers(*reversed(paths), tree) == left


def test_intents_in_the_file_of_their_job_count(tree):
    more = scale_out("more", 1)
    more["metadata"]["annotations"] = {"etcompile.dev/sequence": "4"}
    with (tree / "mnist.yaml").open("a") as file:
        file.write(f"---\n{yaml.safe_dump(more)}")
    before = (tree / "mnist.yaml").read_bytes()
    scale("mnist", "--to", 5, cwd=tree, code=0)
    assert (tree / "mnist.yaml").read_bytes() == before
    assert "'5'" in (tree / "scale-005-out.yaml").read_text()
    assert len(workers(tree)) == 5


def test_pytorchjob_gets_an_intent_of_the_etcompile_api_group(tmp_path):
    folder = Path(shutil.copytree(EXAMPLES / "pytorchjob" / "elastic", tmp_path / "elastic"))
    before = workers(folder)
    scale("elastic", "--remove", 1, cwd=folder, code=0)
    written = yaml.safe_load((folder / "scale-3-in.yaml").read_text())
    assert written["apiVersion"] == "etcompile.dev/v1alpha1"
    assert written["spec"]["selector"] == {"kind": "PyTorchJob", "name": "elastic"}
    assert workers(folder) == before[:-1]


@pytest.mark.parametrize(
    ("folder", "job", "how"),
    [
        ("xgboostjob/iris", "iris", "etcompile.dev/run"),
        ("pytorchjob/all-reduce", "all-reduce", "spec.elasticPolicy"),
        ("tfjob/multi-worker", "multi-worker", "spec.enableDynamicWorker"),
        ("trainjob/torch", "mnist", "spec.trainer.numNodes, and its annotation etcompile.dev/run"),
        ("trainjob/mpi", "t5", "spec.trainer.numNodes, and its annotation etcompile.dev/run"),
    ],
)
def test_a_job_that_cannot_scale_says_why_and_what_to_do(folder, job, how):
    done = scale(job, "--add", 1, "--dry-run", cwd=EXAMPLES / folder, code=2)
    assert "error[ET3015]" in done.stderr
    assert how in done.stderr


def test_of_jobs_with_one_name_the_namespace_chooses(tree):
    there = training_job()
    there["metadata"]["namespace"] = "vision"
    (tree / "vision.yaml").write_text(yaml.safe_dump(there))
    done = scale("mnist", "--add", 1, cwd=tree, code=2)
    assert "choose one with -n: default, vision" in done.stderr
    (tree / "mnist.yaml").write_text((tree / "vision.yaml").read_text().replace("vision", "nlp"))
    scale("mnist", "--add", 1, "-n", "nlp", cwd=tree, code=0)
    written = yaml.safe_load((tree / "scale-001-out.yaml").read_text())
    assert written["metadata"]["namespace"] == "nlp"


def test_of_jobs_with_one_name_the_kind_chooses(tree):
    other = yaml.safe_load((EXAMPLES / "pytorchjob" / "elastic" / "job.yaml").read_text())
    other["metadata"] = {"name": "mnist"}
    (tree / "other.yaml").write_text(yaml.safe_dump(other))
    done = scale("mnist", "--add", 1, cwd=tree, code=2)
    assert "--kind" in done.stderr
    words = ("--kind", "pytorchjob", "--no-in-place", "--dry-run")
    done = scale("mnist", "--add", 1, *words, cwd=tree)
    assert yaml.safe_load(done.stdout)["spec"]["selector"]["kind"] == "PyTorchJob"


def test_a_misspelt_job_is_guessed(tree):
    done = scale("mnits", "--add", 1, cwd=tree, code=2)
    assert "did you mean 'mnist'?" in done.stderr


def test_broken_files_block_scaling_only_if_they_mention_the_job(tree):
    (tree / "chart.yaml").write_text("kind: {{ .Values.kind }}\n")
    broken = training_job("other")
    worker(broken)["replicas"] = -1
    (tree / "other.yaml").write_text(yaml.safe_dump(broken))
    scale("mnist", "--add", 1, "--dry-run", cwd=tree, code=0)
    (tree / "chart.yaml").write_text("name: {{ .Values.mnist }}\n")
    scale("mnist", "--add", 1, "--dry-run", cwd=tree, code=2)


def test_an_overlay_counts_as_it_does_for_render(tree):
    overlay = tree.parent / "small.yaml"
    small = {"spec": {"etReplicaSpecs": {"worker": {"replicas": 1}}}}
    overlay.write_text(yaml.safe_dump(patch(small, kind="TrainingJob")))
    done = scale("mnist", "--to", 4, "--overlay", overlay, "--dry-run", cwd=tree, code=0)
    assert yaml.safe_load(done.stdout)["spec"]["toAdd"] == {"count": 3}


def test_workers_of_a_run_may_be_named_as_its_pods(tree):
    words = ("--pods", "mnist-b-worker-1", "--config", "run=b", "--dry-run")
    done = scale("mnist", *words, cwd=tree, code=0)
    assert "  - mnist-b-worker-1" in done.stderr


@pytest.mark.parametrize(
    "arguments", [(), ("--to", 1, "--add", 1), ("--pods", " , "), ("--add", 0), ("--add", 1, "-")]
)
def test_a_wish_that_says_nothing_or_two_things_is_refused(tree, arguments):
    scale("mnist", *arguments, cwd=tree, code=2)
    assert len(texts(tree)) == 1


@pytest.mark.parametrize(
    "word",
    [
        *("trainingjob/mnist", "TrainingJobs/mnist", "trainingjobs.kai.alibabacloud.com/mnist"),
        *("mnist-worker-1", "pod/mnist-worker-1", "po/mnist-launcher"),
    ],
)
def test_job_is_named_by_its_kind_or_one_of_its_pods(word: str, tree: Path):
    (tree / "other.yaml").write_text(yaml.safe_dump(training_job("mnist-large")))
    done = scale(word, "--to", 3, "--dry-run", cwd=tree, code=0)
    assert done.stderr == scale("mnist", "--to", 3, "--dry-run", cwd=tree).stderr


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("tfjob/mnist", "it is a TrainingJob, not a tfjob"),
        ("foo/mnist", "it is a TrainingJob, not a foo"),
        ("pod/mnist", "there is no job 'pod/mnist'"),
        ("mnist-worker-7", "did you mean 'mnist'?"),
        ("pod/mnist-worker-7", "did you mean 'mnist'?"),
        ("trainingjob/mnist-worker-1", "jobs there: mnist"),
    ],
)
def test_name_of_no_job_is_refused(word: str, advice: str, tree: Path):
    before = texts(tree)
    done = scale(word, "--to", 3, cwd=tree, code=2)
    assert "there is no job '" in done.stderr
    assert advice in done.stderr
    assert texts(tree) == before


def test_kind_is_named_once(tree: Path):
    done = scale("trainingjob/mnist", "--kind", "TrainingJob", "--to", 3, cwd=tree)
    assert (done.returncode, "leave out --kind" in done.stderr) == (2, True)
