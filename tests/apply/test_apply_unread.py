"""A rollout whose output nobody reads any more goes on, and has its own exit code."""

import os
import subprocess
import sys

import pytest

from apply.kubelet import unschedulable


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(("wrong", "code"), [(False, 0), (True, 3)])
def test_a_rollout_goes_on_when_its_reader_goes(
    job, kubelet, kubeconfig, tmp_path, objects, form, wrong, code
):
    job(replicas=3)
    if wrong:
        kubelet.let("mnist-worker-1", unschedulable("no gpu"))
    command = [sys.executable, "-m", "etcompile", "apply", "jobs", "--output", form]
    with subprocess.Popen(
        [*command, "--timeout", "8s"],
        cwd=tmp_path,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        assert started.stdout.readline()
        started.stdout.close()
        errors = started.stderr.read()
    assert started.returncode == code, errors
    assert errors == ""
    assert len([name for name in objects() if name.startswith("Pod/")]) == 4


def test_a_full_disk_below_its_output_does_not_end_a_rollout(
    job, kubelet, kubeconfig, tmp_path, objects
):
    job(replicas=3)
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        done = subprocess.run(
            [sys.executable, "-m", "etcompile", "apply", "jobs"],
            cwd=tmp_path,
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert len([name for name in objects() if name.startswith("Pod/")]) == 4
