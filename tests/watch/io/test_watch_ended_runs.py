"""What a watcher removes after the end of a run is no difference: `apply` agrees with `status`."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml
from watched import eventually

from etcompile.compiler.choices import Options
from etcompile.compiler.pipeline import compile  # noqa: A004
from specs import elastic_job, kubeflow_job, mpi_job, training_job

TYPES = {
    "PyTorchJob": {"Master": 1, "Worker": 1},
    "TFJob": {"Chief": 1, "Worker": 1},
    "XGBoostJob": {"Master": 1, "Worker": 1},
    "PaddleJob": {"Master": 1, "Worker": 1},
    "JAXJob": {"Worker": 2},
    "MXJob": {"Scheduler": 1, "Server": 1, "Worker": 1},
}
TRAINER = {"image": "example.com/trainer:1", "command": ["torchrun", "train.py"], "numNodes": 2}


def documents(policy: str, namespace: str) -> list[dict]:
    """A job of each kind with a policy for the Pods of a run that is over."""
    limits = {"cleanPodPolicy": policy, "backoffLimit": 0}
    jobs = {kind: kubeflow_job(kind, types, runPolicy=limits) for kind, types in TYPES.items()}
    jobs["MPIJob"] = mpi_job("v1")
    jobs["MPIJob"]["spec"]["runPolicy"] = limits
    jobs["TrainingJob"] = training_job(cleanPodPolicy=policy)
    jobs["ElasticJob"] = elastic_job()
    jobs["TrainJob"] = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": TRAINER},
    }
    for name, document in jobs.items():
        document["metadata"] |= {"name": name.lower(), "namespace": namespace}
        for types in document["spec"].values():
            for replicas in types.values() if isinstance(types, dict) else ():
                if isinstance(replicas, dict) and "template" in replicas:
                    replicas.setdefault("restartPolicy", "Never")
    return [*jobs.values()]


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
@pytest.mark.parametrize("policy", ["None", "Running", "All"])
def test_apply_agrees_with_status_about_a_run_that_is_over(
    place, watching, run, tmp_path, namespace, policy, end
):
    jobs = documents(policy, namespace)
    if end == "Failed":
        # These replace what fails.
        jobs = [job for job in jobs if job["kind"] not in ("ElasticJob", "TrainJob")]
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "all.yaml").write_text(yaml.safe_dump_all(jobs))
    groups = [group for group in compile([*jobs], Options()).groups if group.name]
    assert len(groups) == len(jobs)
    place.kubelets()
    done = run("apply", "jobs", "--wait", "none")
    assert done.returncode == 0, done.stdout + done.stderr
    watching()
    names = [group.name for group in groups]
    eventually(
        lambda: all(
            place.data(f"{name}-etcompile-status").get("phase") == "Running" for name in names
        ),
        90,
    )
    for group in groups:
        for name in group.deciding[0]:
            place.becomes(name, end, 0 if end == "Succeeded" else 1)

    def phases() -> dict[str, str]:
        return {name: place.data(f"{name}-etcompile-status").get("phase") for name in names}

    eventually(lambda: set(phases().values()) == {end}, 60, str(phases()))
    left = place.pods().keys()
    for name in names:
        shown = json.loads(run("status", name, "-o", "json").stdout)
        assert end in json.dumps(shown), name
    before = len(place.writes("admin"))
    differences = run("diff", "jobs")
    assert differences.returncode == 0, differences.stdout + differences.stderr
    for wait in ("ready", "complete"):
        again = run("apply", "jobs", "--wait", wait, "--timeout", "20s")
        assert again.returncode == (0 if end == "Succeeded" else 3), again.stdout + again.stderr
        assert ("the run has failed" in again.stdout) == (end == "Failed")
        assert "not known yet" not in again.stdout
    assert place.pods().keys() <= left
    created = [one for one in place.writes("admin")[before:] if one[1] in ("pods", "jobs")]
    assert created == []
    gone = run("delete", "jobs", "--timeout", "20s")
    assert "kept: Pod" not in gone.stderr


@pytest.mark.parametrize(("limit", "code"), [({"activeDeadlineSeconds": 5}, 3), ({}, 0)])
def test_a_wait_ends_with_the_run_that_the_record_says_is_over(
    place, watching, run, tmp_path, namespace, limit, code
):
    """All Pods stay as they are: by its deadline, or as somebody has marked it as done."""
    job = kubeflow_job("TFJob", TYPES["TFJob"], runPolicy={"cleanPodPolicy": "None", **limit})
    job["metadata"]["namespace"] = namespace
    (tmp_path / "jobs.yaml").write_text(yaml.safe_dump(job))
    place.kubelets()
    watching()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run, "apply", "jobs.yaml", "--wait", "complete", "--timeout", "120s")
        eventually(lambda: place.record("mnist").get("phase") in ("Running", "Failed"), 90)
        if not limit:
            done = {"data": {"done": place.record("mnist")["run"]}}
            maps = place.cluster.resource("v1", "ConfigMap")
            place.cluster.patch(maps, "mnist-etcompile-status", done, namespace)
        ended = [waiting.result()]
    if limit:
        ended.append(run("restart", "mnist", "--wait", "complete", "--timeout", "120s"))
    for command in ended:
        assert command.returncode == code, command.stdout + command.stderr
        assert "timed out" not in command.stdout
        assert ("DeadlineExceeded" in command.stdout) == bool(limit)
