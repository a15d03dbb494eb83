"""What is written, when, and that nothing is written twice: told by the audit log."""

import time
from pathlib import Path

import pytest
import yaml

from apply.kubelet import ready
from specs import copy_example, manifest, scale_in, scale_out

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/*/job.yaml"))


def of_the_job(writes_so_far: list[str]) -> list[str]:
    """Without the inventory, which is written to take the lease of the job and to give it away."""
    return [one for one in writes_so_far if one != "patch configmaps/etcompile-mnist"]


def place(writes_so_far: list[str], wanted: str) -> int:
    return next(number for number, one in enumerate(writes_so_far) if one == wanted)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_every_example_is_accepted_applied_in_order_and_then_left_alone(
    run, writes, kubelet, tmp_path, namespace, example
):
    copy_example(example, tmp_path / "example", namespace)
    run("apply", "example", "--dry-run=server", code=0)
    assert writes() == []
    run("apply", "example", "--timeout", "60s", code=0)
    writes_so_far = writes()
    created = [one for one in writes_so_far if one.startswith("create ")]
    others = ("services", "serviceaccounts", "roles", "rolebindings", "secrets")
    # Jobs do not wait for each other.
    for document in yaml.safe_load_all((example / "job.yaml").read_text()):
        job = document["metadata"]["name"]
        refs = [one.split()[1].partition("/") for one in created]
        kinds = [kind for kind, _, name in refs if job in name]
        pods = [number for number, kind in enumerate(kinds) if kind in ("pods", "jobs")]
        assert all(number < min(pods) for number, kind in enumerate(kinds) if kind in others)
    assert len(writes_so_far) == len(set(writes_so_far))
    run("apply", "example", "--timeout", "60s", code=0)
    assert writes() == writes_so_far


def test_a_job_is_applied_inventory_first_and_the_launcher_after_its_workers(
    applied, writes, kubelet
):
    applied(replicas=3)
    writes_so_far = writes()
    assert writes_so_far[0] == "create configmaps/etcompile-mnist"
    launcher = place(writes_so_far, "create pods/mnist-launcher")
    assert all(
        place(writes_so_far, f"create pods/mnist-worker-{index}") < launcher for index in range(3)
    )


def test_a_scale_out_is_service_pod_ready_and_then_the_host_list(
    applied, start, writes, write, kubelet, objects
):
    applied(replicas=1)
    before = len(writes())
    kubelet.let("mnist-worker-1", None)
    write(scale_out("more", 1), name="out")
    started = start("apply", "jobs")
    deadline = time.monotonic() + 30
    while "create pods/mnist-worker-1" not in writes() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    assert "patch configmaps/mnist-config" not in of_the_job(writes()[before:])
    kubelet.let("mnist-worker-1", ready())
    started.communicate(timeout=60)
    assert started.returncode == 0
    assert of_the_job(writes()[before:]) == [
        "create services/mnist-worker-1",
        "create pods/mnist-worker-1",
        "patch configmaps/mnist-config",
    ]
    assert "mnist-worker-1" in objects()["ConfigMap/mnist-config"]["data"]["hostfile"]


def test_a_scale_out_that_was_killed_still_waits_before_it_lists_the_host(
    applied, run, writes, write, kubelet
):
    applied(replicas=1)
    kubelet.let("mnist-worker-1", None)
    write(scale_out("more", 1), name="out")
    run("apply", "jobs", "--timeout", "2s", code=3)
    before = len(writes())
    run("apply", "jobs", "--timeout", "2s", code=3)
    assert of_the_job(writes()[before:]) == []
    kubelet.let("mnist-worker-1", ready())
    run("apply", "jobs", code=0)
    assert of_the_job(writes()[before:]) == ["patch configmaps/mnist-config"]


def test_a_scale_in_is_the_host_list_a_while_to_drain_the_pod_and_its_service(
    applied, run, writes, write, kubelet
):
    applied(replicas=3)
    before = len(writes())
    write(scale_in("less", ["mnist-worker-1"]), name="in")
    left = run("apply", "jobs", code=0)
    assert "2 objects are no longer in the files, and kept: --prune deletes them" in left.stderr
    run("apply", "jobs", "--prune", "--config", "drain=2s", code=0)
    writes_so_far = of_the_job(writes()[before:])
    assert writes_so_far[:3] == [
        "patch configmaps/mnist-config",
        "delete pods/mnist-worker-1",
        "delete services/mnist-worker-1",
    ]


def test_what_is_in_a_new_namespace_comes_after_it(run, write, control_plane, namespace):
    other = f"{namespace}-new"
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}
    config = manifest("ConfigMap", "seed", metadata={"namespace": other}, data={"a": "1"})
    write(config, document)
    run("apply", "jobs", code=0)
    seed = control_plane.ask("GET", f"/api/v1/namespaces/{other}/configmaps/seed")
    assert seed["data"] == {"a": "1"}
