"""A policy that keeps Pods is met before anything is written, whatever would delete one."""

import pytest

from apply.policies import deny
from specs import training_job, with_worker

# The job with another working directory, which no live Pod can take.
CHANGED = with_worker(replicas=3, workingDir="/data")


def versions(objects):
    return {
        name: (one["metadata"]["uid"], one["metadata"]["resourceVersion"])
        for name, one in objects().items()
    }


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (CHANGED, ("apply", "jobs", "--replace")),
        (training_job(replicas=1), ("apply", "jobs", "--prune", "--config", "drain=1s")),
        (CHANGED, ("apply", "jobs", "--run", "auto", "--prune")),
        (None, ("delete", "--job", "mnist")),
        (None, ("delete", "jobs")),
        (None, ("restart", "mnist", "--yes")),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else None,
)
def test_denied_deletion_is_reported_before_any_write(
    applied, run, write, kubelet, objects, control_plane, namespace, document, words
):
    applied(replicas=3)
    before = versions(objects)
    # Of one Pod only, and not the first that is deleted.
    condition = "oldObject.metadata.name != 'mnist-worker-1'"
    remove = deny(control_plane, namespace, condition, "this Pod is kept", operations=("DELETE",))
    if document is not None:
        write(document)
    done = run(*words)
    remove()
    assert done.returncode == 7, done.stdout + done.stderr
    assert "mnist-worker-1" in done.stderr
    assert "this Pod is kept" in done.stderr
    assert versions(objects) == before


def test_without_policies_one_deletion_of_a_kind_is_tried(applied, run, kubelet, proxy, through):
    applied(replicas=5)
    requests = proxy.count("DELETE")
    run("delete", "--job", "mnist", KUBECONFIG=str(through), code=0)
    pods, tried = 6, 1
    assert proxy.count("DELETE", "/pods/") - requests == pods + tried
