"""A program proposes, looks at it and carries it out: docs/python.md, word for word, and more."""

import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import etcompile
from etcompile import operations

PAGE = Path(__file__).parents[2] / "docs/python.md"


@pytest.fixture
def cluster(kubeconfig):
    with operations.connect(kubeconfig=kubeconfig) as connected:
        yield connected


@pytest.fixture
def compilation(job, tmp_path):
    job(replicas=2)
    return etcompile.compile([str(tmp_path / "jobs")])


def programs() -> list[str]:
    """The examples of the page, in order."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def ran(program: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-c", program]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


def test_each_example_of_the_page_is_run_by_a_test_here():
    assert [program.count("operations.connect(") for program in programs()] == [0, 0, 1, 1]


def test_example_with_settings_compiles_jobs(job, tmp_path):
    job(replicas=2)
    done = ran(programs()[0], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"Pod mnist-worker-1", "PodGroup mnist"} <= set(done.stdout.splitlines())


def test_example_with_settings_ends_with_code_2_for_a_wrong_job(tmp_path, write):
    write({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "a"}})
    done = ran(programs()[0], tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stdout.startswith("error ET2002 jobs/job.yaml:")


def test_example_of_errors_prints_what_is_missing(tmp_path):
    done = ran(programs()[1], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ET2002\n  ")


def test_example_for_a_cluster_applies_jobs(
    job, kubelet, objects, kubeconfig, tmp_path, monkeypatch
):
    job(replicas=2)
    program = programs()[2]
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    first = ran(program, tmp_path)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "Pod/mnist-worker-1" in objects()
    assert re.search(r"^create Pod .*mnist-worker-1", first.stdout, re.MULTILINE)
    assert re.search(r"^Pod .*mnist-worker-1 created", first.stdout, re.MULTILINE)
    assert re.search(r"^Pod .*mnist-worker-1 ready", first.stdout, re.MULTILINE)
    job(replicas=1)
    second = ran(program, tmp_path)
    assert second.returncode == 1, second.stdout
    assert "nothing is to be deleted today" in second.stderr
    assert "Pod/mnist-worker-1" in objects()
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    third = ran(program, tmp_path)
    assert third.returncode == 6, third.stderr
    assert third.stdout.startswith("ET")


def test_example_with_a_client_applies_jobs(
    job, kubelet, objects, kubeconfig, namespace, tmp_path, monkeypatch
):
    job(replicas=2)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    done = ran(programs()[3].replace('"nlp"', f'"{namespace}"'), tmp_path)
    assert done.stdout == "0\n", done.stderr
    assert "Pod/mnist-worker-1" in objects()


def test_proposal_writes_nothing_until_it_is_executed(compilation, cluster, kubelet, objects):
    before = objects()
    proposal = operations.apply_proposal(compilation, cluster)
    assert {step.action for step in proposal.plan.steps} == {"create"}
    assert operations.refused(proposal) is None
    tried = operations.execute(cluster, proposal, dry_run=True)
    assert (tried.code, tried.outcome) == (0, None)
    assert objects() == before


def test_a_job_is_applied_restarted_and_deleted(compilation, cluster, kubelet, objects):
    applied = operations.execute(cluster, operations.apply_proposal(compilation, cluster))
    assert applied.code == 0, applied.diagnostics
    uid = objects()["Pod/mnist-worker-0"]["metadata"]["uid"]
    restarted = operations.execute(cluster, operations.restart_proposal(cluster, "mnist"))
    assert restarted.code == 0, restarted.diagnostics
    assert objects()["Pod/mnist-worker-0"]["metadata"]["uid"] != uid
    deletion = operations.delete_proposal(cluster, [(None, "mnist")])
    deleted = operations.execute(cluster, deletion)
    assert deleted.code == 0, deleted.diagnostics
    assert not [name for name in objects() if "mnist" in name]
    with pytest.raises(operations.ImpossibleError, match="mnist") as error:
        operations.delete_proposal(cluster, [(None, "mnist")])
    assert error.value.code == 7


def test_single_target_and_single_job_are_one_name(compilation, cluster, kubelet, objects):
    proposal = operations.apply_proposal(compilation, cluster, targets="Pod/mnist-worker-0")
    created = [step.ref.name for step in proposal.plan.steps if step.action == "create"]
    assert created == ["mnist-worker-0"]
    operations.execute(cluster, operations.apply_proposal(compilation, cluster))
    operations.execute(cluster, operations.delete_proposal(cluster, "mnist"))
    assert not [name for name in objects() if "mnist" in name]


def test_a_compilation_with_errors_is_never_applied(cluster, tmp_path, write):
    write({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "a"}})
    compilation = etcompile.compile([str(tmp_path / "jobs")])
    with pytest.raises(operations.ImpossibleError) as error:
        operations.apply_proposal(compilation, cluster, operations.Rights(prune=True))
    assert error.value.code == 7
    assert error.value.diagnostics


def test_a_rollout_is_interrupted_from_the_program(compilation, cluster, objects):
    @contextmanager
    def at_once(rollout):
        rollout.interrupt()
        yield

    begun, ended = [], []
    proposal = operations.apply_proposal(compilation, cluster)
    result = operations.execute(
        cluster, proposal, begin=begun.append, end=ended.append, during=at_once
    )
    assert result.code == 130
    assert result.outcome is not None
    assert result.outcome.interrupted
    assert ended == [result.outcome]
    assert begun == [proposal.plan]
    assert "Pod/mnist-worker-0" not in objects()


def test_programs_need_no_command_line():
    program = (
        "import sys; from etcompile import operations\n"
        "for name in operations.__all__: getattr(operations, name)\n"
        "assert 'click' not in sys.modules\n"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
