"""Which intent counts first never depends on the order of the PATHs on a command line."""

import io
import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

import etcompile
from specs import dlrover_type, elastic_job, pods, scale_in, scale_out, scale_plan, training_job

TIME = "2026-01-01T00:00:00Z"


def received(intent: dict[str, Any], time: str = TIME) -> dict[str, Any]:
    return {**intent, "metadata": {**intent["metadata"], "creationTimestamp": time}}


def elastic() -> dict[str, Any]:
    command = ["dlrover-run", "--nnodes=1:8", "train.py"]
    return elastic_job({"worker": dlrover_type(4, command=command)})


BY_NAME = scale_in("by-name", ["mnist-worker-1"])
BY_COUNT = scale_in("by-count", 1)
MORE = scale_out("more", 2)
MOVED = scale_plan("moved", migratePods=[{"name": "mnist-edljob-worker-3"}])
FEWER = scale_plan("fewer", replicaResourceSpecs={"worker": {"replicas": 3}})
SETS = {
    "names and a count": (training_job(replicas=3), [BY_NAME, MORE]),
    "two that remove": (training_job(replicas=4), [BY_COUNT, BY_NAME]),
    "one with a time": (training_job(replicas=4), [MORE, received(BY_COUNT), BY_NAME]),
    "one time": (training_job(replicas=4), [received(MORE), received(BY_COUNT), received(BY_NAME)]),
    "two plans": (elastic(), [MOVED, FEWER]),
}


def result(paths: list[str], standard_input: bytes) -> tuple[object, ...]:
    compilation = etcompile.compile(paths, stdin=io.BytesIO(standard_input))
    return compilation.objects, {str(problem) for problem in compilation.diagnostics}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("last_is_piped", [False, True], ids=["files", "with standard input"])
def test_any_order_of_paths_renders_the_same_objects(
    name: str, last_is_piped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, intents = SETS[name]
    folders = [Path("jobs"), Path("jobs/2"), tmp_path / "jobs/10", Path("intents")]
    monkeypatch.chdir(tmp_path)
    piped = yaml.safe_dump(intents[-1]).encode()
    paths = ["-"] if last_is_piped else []
    for number, document in enumerate([job, *intents[: len(intents) - last_is_piped]]):
        folder = folders[number]
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{'zyxw'[number]}.yaml"
        file.write_text(yaml.safe_dump(document))
        paths.append(str(file))
    results = [result(list(order), piped) for order in itertools.permutations(paths)]
    assert results[0][0]
    assert all(each == results[0] for each in results)


def test_files_count_as_the_listing_of_their_folder_shows_them(tmp_path: Path) -> None:
    texts = {"job": training_job(replicas=3), "scale-2": BY_NAME, "scale-10": MORE}
    files = [tmp_path / f"{name}.yaml" for name in texts]
    for file, document in zip(files, texts.values(), strict=True):
        file.write_text(yaml.safe_dump(document))
    listed = pods(etcompile.compile([tmp_path]))
    assert listed == [f"mnist-worker-{index}" for index in (0, 2, 3, 4)]
    assert pods(etcompile.compile([*reversed(files)])) == listed


def test_documents_of_one_file_count_from_the_top(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([MORE, BY_COUNT, BY_NAME, training_job()]))
    assert pods(etcompile.compile([file])) == ["mnist-worker-0", "mnist-worker-2"]
    file.write_text(yaml.safe_dump_all([BY_NAME, MORE, BY_COUNT, training_job()]))
    assert pods(etcompile.compile([file])) == ["mnist-worker-0", "mnist-worker-1"]
