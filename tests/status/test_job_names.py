"""A job is named NAME, KIND/NAME or by a Pod, in every command, on a real API server."""

import subprocess
from collections.abc import Callable

import pytest

from commandline import etcompile
from etcompile.status import find_job
from specs import elastic_job, training_job

COMMANDS = {
    "status": (),
    "why": (),
    "logs": (),
    "restart": ("--dry-run=client",),
    "checkpoint": (),
    "delete": ("--dry-run=client", "--job"),
}
NAMES = [
    "mnist",
    "trainingjob/mnist",
    "TrainingJobs/mnist",
    "trainingjobs.kai.alibabacloud.com/mnist",
    "trainingjob.v1alpha1.kai.alibabacloud.com/mnist",
    "mnist-worker-1",
    "po/mnist-worker-1",
    "pod/mnist-worker-1",
    "Pods/mnist-worker-1",
]
OTHERS = {
    "elasticjob/mnist": "the job 'mnist' is a TrainingJob",
    "foo/mnist": "there is no kind 'foo' of jobs",
    "scaleout/mnist": "there is no kind 'scaleout' of jobs",
    "/mnist": "there is no kind '' of jobs",
    "ns/trainingjob/mnist": "there is no kind 'ns/trainingjob' of jobs",
    "pod/nginx": "the Pod belongs to no job",
    "pod/mnist": "there is no such Pod",
    "pod/mnist-worker-7": "there is no such Pod",
    "trainingjob/mnist-worker-1": "there is no job 'mnist-worker-1'",
    "trainingjob/bert": "there is no job 'bert'",
    "nginx": "there is no job 'nginx'",
    "Mnist_1": "there is no job 'Mnist_1'",
    "trainingjob/": "there is no job ''",
    "m" * 300: "there is no job 'mmm",
}


@pytest.fixture
def jobs(cluster, deployed) -> None:
    speech = elastic_job(name="speech")
    del speech["metadata"]["namespace"]
    deployed(training_job(), speech)
    container = {"name": "main", "image": "nginx:1"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "nginx"}}
    cluster.create({**pod, "spec": {"containers": [container]}})


@pytest.fixture
def run(kubeconfig) -> Callable[..., subprocess.CompletedProcess[str]]:
    return lambda command, word, *more: etcompile(
        command, "--kubeconfig", kubeconfig, *COMMANDS[command], word, *more
    )


def test_every_command_finds_the_job_by_each_name(jobs, run, cluster):
    for command in COMMANDS:
        by_name = run(command, "mnist")
        for word in NAMES:
            done = run(command, word)
            assert done.returncode == by_name.returncode, (command, word, done.stdout + done.stderr)
            if command in ("why", "checkpoint", "restart", "delete"):  # no times in them
                assert done.stdout + done.stderr == by_name.stdout + by_name.stderr, (command, word)
            elif command == "status":
                assert f"{cluster.namespace}/mnist (TrainingJob)" in done.stdout


def test_every_command_refuses_what_names_no_job(jobs, run):
    for command in COMMANDS:
        for word, problem in OTHERS.items():
            done = run(command, word)
            assert done.returncode in (2, 7), (command, word, done.stdout + done.stderr)
            assert problem in done.stderr, (command, word, done.stdout + done.stderr)
            assert "hint: " in done.stderr
            assert "API server" not in done.stderr


def test_logs_of_a_pod_exclude_other_pods_of_the_job(jobs, run):
    """No kubelet runs here: the Pods that are named have not started yet."""
    stderr = run("logs", "pod/mnist-worker-1").stderr
    assert "mnist-worker-1" in stderr
    assert "mnist-worker-0" not in stderr
    assert "mnist-worker-0" in run("logs", "trainingjob/mnist").stderr


def test_job_is_located_in_its_namespace_among_all_namespaces(cluster, deployed):
    name = f"job-{cluster.namespace}"
    deployed(training_job(name))
    for word in (name, f"trainingjob/{name}", f"{name}-worker-1", f"pod/{name}-worker-1"):
        target = find_job(cluster, word, None)
        assert (target.name, target.namespace) == (name, cluster.namespace)


def test_delete_by_kind_finishes_a_job_without_its_config_map(jobs, run, cluster):
    """An earlier deletion may have been interrupted after the ConfigMap."""
    maps = cluster.resource("v1", "ConfigMap")
    cluster.delete(maps, "mnist-config", cluster.namespace)
    done = run("delete", "trainingjob/mnist")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mnist-worker-1" in done.stdout + done.stderr
