"""`migrate --write`: the job's own file says what runs, and nothing else of it changes."""

import copy
import difflib
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from etcompile import stages
from etcompile.compiler import Options, compile  # noqa: A004
from etcompile.diagnostics import codes
from etcompile.integrations.migrate import migrated
from etcompile.load import load
from tests.commandline import etcompile
from tests.migrate.dumps import dumped

BERT = """\
# Our BERT, with love.
apiVersion: kai.alibabacloud.com/v1alpha1
kind: TrainingJob
metadata:
  name: bert   # the name
  labels: {team: nlp}
spec:
  cleanPodPolicy: Running
  etReplicaSpecs:
    launcher:
      replicas: 1
      template:
        spec:
          containers:
          - name: mpi
            # pinned by hand
            image: "registry.example.com/bert:1.0"
            command: ["horovodrun", '-np', "4"]
    worker:
      replicas: 4    # four of them
      maxReplicas: 9
      minReplicas: 1
      template:
        spec:
          terminationGracePeriodSeconds: 30
          containers:
          - name: mpi
            image: 'registry.example.com/bert:1.0'
            resources:
              limits: {nvidia.com/gpu: 1, memory: 10Gi}
            env:
            - {name: A, value: "1"}
            - {name: B, value: "2"}
---
# Somebody else's.
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
data: {a:   "b"}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bert.yaml"
    path.write_bytes(BERT.encode())
    return path


def _worker(job: Any) -> Any:
    return job["spec"]["etReplicaSpecs"]["worker"]


def _dump(tmp_path: Path, change: Any = None, text: str = BERT, **status: Any) -> Path:
    """What a cluster has of the first job of a text, after a change."""
    job = next(iter(yaml.safe_load_all(text)))
    if change:
        change(job)
    path = tmp_path / "live.yaml"
    path.write_text(yaml.safe_dump(dumped(job, **status)))
    return path


def _changed_lines(before: str, after: str) -> list[str]:
    lines = difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True))
    return [line.rstrip() for line in lines if line[0] in "+-"]


def test_values_that_run_are_written_in_their_quotes_and_beside_their_comments(file, tmp_path):
    def drift(job: Any) -> None:
        container = _worker(job)["template"]["spec"]["containers"][0]
        container["image"] = "registry.example.com/bert:1.1"
        container["resources"]["limits"]["memory"] = "12Gi"
        container["env"][1]["value"] = "3"
        _worker(job)["template"]["spec"]["terminationGracePeriodSeconds"] = 60

    running = [f"bert-worker-{n}" for n in range(5)]
    live = _dump(tmp_path, drift, phase="Running", targetWorkers=running)
    result = etcompile("migrate", live, "--write", file)
    assert result.returncode == 0
    assert "bert.yaml: 5 changes" in result.stderr
    assert "worker.replicas: 4 -> 5" in result.stderr
    assert _changed_lines(BERT, file.read_text()) == [
        "-       replicas: 4    # four of them",
        "+       replicas: 5    # four of them",
        "-           terminationGracePeriodSeconds: 30",
        "+           terminationGracePeriodSeconds: 60",
        "-             image: 'registry.example.com/bert:1.0'",
        "+             image: 'registry.example.com/bert:1.1'",
        "-               limits: {nvidia.com/gpu: 1, memory: 10Gi}",
        "+               limits: {nvidia.com/gpu: 1, memory: 12Gi}",
        '-             - {name: B, value: "2"}',
        '+             - {name: B, value: "3"}',
    ]
    again = file.read_bytes()
    result = etcompile("migrate", live, "--write", file)
    assert "no value of it had to be changed" in result.stderr
    assert file.read_bytes() == again


def test_the_file_renders_what_a_dump_in_its_place_renders(file, tmp_path):
    def drift(job: Any) -> None:
        _worker(job)["template"]["spec"]["containers"][0]["image"] = "other:2"

    # A dump does not show whether somebody wrote a default.
    text = BERT.replace("          terminationGracePeriodSeconds: 30\n", "")
    file.write_text(text)
    live = _dump(tmp_path, drift, text, targetWorkers=["bert-worker-0", "bert-worker-1"])
    etcompile("migrate", live, "-d", tmp_path / "anew")
    etcompile("migrate", live, "--write", file)
    anew = tmp_path / "anew"
    rendered = etcompile("render", anew / "bert.yaml", "--overlay", anew / "overlay.yaml")
    assert rendered.returncode == 0
    assert _objects(etcompile("render", file).stdout) == _objects(rendered.stdout)


def _objects(text: str) -> Any:
    """Objects of a job without what depends on words of the spec."""
    found = [v for v in yaml.safe_load_all(text) if v["metadata"]["name"] != "other"]
    for value in found:
        value.get("metadata", {}).get("annotations", {}).pop("etcompile.dev/spec-hash", None)
        value.get("data", {}).pop("job.yaml", None)
    return found


@pytest.mark.parametrize("prefix", ["", "\ufeff"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_ends_and_a_byte_order_mark_stay(newline, prefix, tmp_path):
    text = prefix + BERT.replace("\n", newline)
    path = tmp_path / "bert.yaml"
    path.write_bytes(text.encode())

    def drift(job: Any) -> None:
        _worker(job)["template"]["spec"]["containers"][0]["image"] = "other:2"

    assert etcompile("migrate", _dump(tmp_path, drift), "--write", path).returncode == 0
    wanted = text.replace("'registry.example.com/bert:1.0'", "'other:2'")
    assert path.read_bytes().decode() == wanted


def test_a_field_that_one_side_alone_has_is_told_at_its_place(file, tmp_path):
    def drift(job: Any) -> None:
        spec = _worker(job)["template"]["spec"]
        spec["nodeSelector"] = {"disk": "ssd"}
        del spec["containers"][0]["env"]

    result = etcompile("migrate", _dump(tmp_path, drift), "--write", file)
    assert result.returncode == 0
    assert result.stderr.count("warning[ET5024]") == 2
    assert 'runs with spec.etReplicaSpecs.worker.template.spec.nodeSelector: {"disk": "ssd"}' in (
        result.stderr
    )
    assert f"--> {file}:24:9" in result.stderr
    assert "it runs without spec.etReplicaSpecs.worker.template.spec.containers[0].env" in (
        result.stderr
    )
    assert file.read_text() == BERT


def test_a_policy_that_no_pod_shows_is_told_as_well(file, tmp_path):
    def drift(job: Any) -> None:
        job["spec"]["backoffLimit"] = 11

    result = etcompile("migrate", _dump(tmp_path, drift), "--write", file)
    assert "it runs with spec.backoffLimit: 11" in result.stderr


def test_what_an_operator_fills_in_is_not_told(tmp_path):
    """reference/training-operator.md: restartPolicy, cleanPodPolicy and a port are defaults."""
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "pt"},
        "spec": {
            "pytorchReplicaSpecs": {
                "Master": {
                    "replicas": 1,
                    "template": {
                        "spec": {
                            "containers": [
                                {"name": "pytorch", "image": "x:1", "command": ["train"]}
                            ]
                        }
                    },
                }
            }
        },
    }
    path = tmp_path / "pt.yaml"
    path.write_text(yaml.safe_dump(job))
    live: Any = dumped(job)
    master = live["spec"]["pytorchReplicaSpecs"]["Master"]
    master["restartPolicy"] = "OnFailure"
    container = master["template"]["spec"]["containers"][0]
    container["ports"] = [{"containerPort": 23456, "name": "pytorchjob-port"}]
    live["spec"]["runPolicy"] = {"cleanPodPolicy": "None"}
    (tmp_path / "live.yaml").write_text(yaml.safe_dump(live))
    result = etcompile("migrate", tmp_path / "live.yaml", "--write", path)
    assert "ET5024" not in result.stderr
    assert "no value of it had to be changed" in result.stderr


def test_a_value_that_an_alias_repeats_is_told_and_not_changed_for_both(tmp_path):
    text = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: pt}
spec:
  pytorchReplicaSpecs:
    Master: &replica
      replicas: 1
      template:
        spec:
          containers:
          - {name: pytorch, image: "x:1", command: [train]}
    Worker:
      <<: *replica
      replicas: 3
"""
    path = tmp_path / "pt.yaml"
    path.write_text(text)

    def drift(job: Any) -> None:
        worker = copy.deepcopy(job["spec"]["pytorchReplicaSpecs"]["Worker"])
        worker["replicas"] = 2
        worker["template"]["spec"]["containers"][0]["image"] = "x:2"
        job["spec"]["pytorchReplicaSpecs"]["Worker"] = worker

    result = etcompile("migrate", _dump(tmp_path, drift, text), "--write", path)
    assert _changed_lines(text, path.read_text()) == ["-       replicas: 3", "+       replicas: 2"]
    assert result.stderr.count("warning[ET5024]") == 1
    assert "it runs with x:2 for spec.pytorchReplicaSpecs.Worker" in result.stderr


def test_a_file_without_the_job_is_refused_by_name(file, tmp_path):
    live = _dump(tmp_path)
    file.write_text(BERT.replace("name: bert ", "name: brat "))
    before = file.read_bytes()
    result = etcompile("migrate", live, "--write", file, "-d", tmp_path / "out")
    assert result.returncode == 2
    assert "error[ET5025]: TrainingJob bert cannot be written into" in result.stderr
    assert "it has TrainingJob brat" in result.stderr
    assert result.stderr.rstrip().endswith("nothing was written")
    assert file.read_bytes() == before
    assert not (tmp_path / "out").exists()


def test_another_namespace_is_another_job(file, tmp_path):
    file.write_text(BERT.replace("name: bert ", "namespace: vision\n  name: bert "))
    result = etcompile("migrate", _dump(tmp_path), "--write", file)
    assert "it has TrainingJob vision/bert" in result.stderr


def test_scale_intents_that_led_to_what_runs_are_no_value_of_a_file(file, tmp_path):
    live = _dump(tmp_path, targetWorkers=[f"bert-worker-{n}" for n in range(5)])
    intent = {
        "apiVersion": "kai.alibabacloud.com/v1alpha1",
        "kind": "ScaleOut",
        "metadata": {"name": "more", "creationTimestamp": "2026-11-01T11:00:00Z"},
        "spec": {"selector": {"name": "bert"}, "toAdd": {"count": 1}},
        "status": {"phase": "ScaleSucceeded", "addPods": ["bert-worker-4"]},
    }
    live.write_text(f"{live.read_text()}---\n{yaml.safe_dump(intent)}")
    result = etcompile("migrate", live, "--write", file)
    assert result.returncode == 2
    assert "in an order that no field of a job can say" in result.stderr
    assert file.read_text() == BERT


def test_a_link_is_refused_before_anything_is_written(file, tmp_path):
    link = tmp_path / "link.yaml"
    link.symlink_to(file)

    def drift(job: Any) -> None:
        _worker(job)["template"]["spec"]["containers"][0]["image"] = "other:2"

    result = etcompile("migrate", _dump(tmp_path, drift), "--write", link, "-d", tmp_path / "out")
    assert "error[ET5023]" in result.stderr
    assert file.read_text() == BERT
    assert not (tmp_path / "out").exists()


def test_the_instructions_name_the_file(file, tmp_path):
    etcompile("migrate", _dump(tmp_path), "--write", file, "-d", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["HANDOVER.md"]
    assert f"etcompile render {file}" in (tmp_path / "out" / "HANDOVER.md").read_text()


def test_another_kind_of_job_needs_a_folder(file):
    result = etcompile("migrate", file, "--write", file, "--to", "trainjob")
    assert result.returncode == 2
    assert "--to writes another kind of job" in result.stderr


EXAMPLES = sorted(Path("examples").glob("*/*/*.yaml"))


@pytest.mark.parametrize("seed", range(60))
def test_whatever_values_drift_the_file_says_them_afterwards(seed, tmp_path):
    """On the examples, with values that a cluster may have otherwise."""
    chance = random.Random(seed)
    path, job = chance.choice(_JOBS)
    text = path.read_text()
    live = copy.deepcopy(job)
    for place in _some(chance, _scalars(live["spec"])):
        _change(live["spec"], place)
    if not compile(_documents(live, tmp_path), Options()).ok:
        return
    file = tmp_path / path.name
    file.write_text(text)
    made = migrated(_documents(dumped(live), tmp_path), file=file)
    told = {d.code for d in made.diagnostics}
    assert made.rewritten is not None
    again = made.rewritten.content.decode()
    assert again.count("\n") == text.count("\n")
    assert again.count("#") == text.count("#")
    if codes.RUNS_OTHERWISE not in told:
        wanted = compile(_documents(live, tmp_path), Options())
        have = compile(made.rewritten.documents, Options())
        assert [_plain(group) for group in have.groups] == [_plain(g) for g in wanted.groups]


def _some(chance: random.Random, places: list[Any]) -> list[Any]:
    return chance.sample(places, min(3, len(places)))


def _documents(value: Any, tmp_path: Path) -> Any:
    path = tmp_path / "value.yaml"
    path.write_text(yaml.safe_dump(value))
    return stages.loaded([str(path)], Options(), None).documents


def _plain(group: Any) -> Any:
    return _objects(yaml.safe_dump_all([*group.objects]))


def _jobs() -> list[tuple[Path, Any]]:
    found = []
    for path in EXAMPLES:
        documents = [d.data for d in load([str(path)]).documents]
        is_job = any(kind.endswith("Job") for kind in (str(d.get("kind")) for d in documents))
        jobs = [d for d in documents if "spec" in d and compile(load([str(path)]).documents).groups]
        if len(documents) == 1 and jobs and is_job:
            found.append((path, jobs[0]))
    return found


_JOBS = _jobs()


def _scalars(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [p for key, below in value.items() for p in _scalars(below, (*path, key))]
    if isinstance(value, list):
        return [p for number, below in enumerate(value) for p in _scalars(below, (*path, number))]
    return [path] if isinstance(value, str | int) and not isinstance(value, bool) else []


def _change(value: Any, path: tuple[Any, ...]) -> None:
    for step in path[:-1]:
        value = value[step]
    old = value[path[-1]]
    value[path[-1]] = old + 1 if isinstance(old, int) else f"{old}x"
