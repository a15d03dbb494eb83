"""A plan that was looked at, and is done only if the world is still the one it was made for."""

import json

import pytest

from specs import manifest, scale_in, scale_out, training_job


def planned(run, *more):
    return run("diff", "jobs", "--plan", "plan.json", *more)


def test_a_plan_is_done_as_it_was_shown(run, job, kubelet, objects):
    job(replicas=2)
    assert planned(run).returncode == 1
    run("apply", "plan.json", code=0)
    assert "Pod/mnist-launcher" in objects()
    assert "nothing had to be changed" in run("apply", "jobs").stdout


def test_a_scale_in_that_was_planned_is_done_with_its_deletions(
    applied, run, write, kubelet, objects
):
    applied(replicas=2)
    write(scale_in("less", 1), name="in")
    planned(run, "--prune")
    run("apply", "plan.json", "--config", "drain=0", code=0)
    assert "Pod/mnist-worker-1" not in objects()


def test_the_status_of_a_pod_may_change_in_between(
    applied, run, write, kubelet, control_plane, namespace
):
    applied(replicas=1)
    write(scale_out("more", 1), name="out")
    planned(run)
    path = f"/api/v1/namespaces/{namespace}/pods/mnist-worker-0"
    control_plane.set_status(path, {"message": "still here"})
    run("apply", "plan.json", code=0)


@pytest.mark.parametrize("change", ["deleted", "made", "field"])
def test_a_changed_world_is_refused_and_nothing_is_written(
    applied, run, write, writes, kubelet, ask, change
):
    applied(replicas=1)
    write(scale_out("more", 1), name="out")
    planned(run)
    if change == "deleted":
        kubelet.let("*", None)
        ask("DELETE", "pods/mnist-worker-0")
    elif change == "made":
        port = {"spec": {"ports": [{"port": 22}]}, "metadata": {"name": "mnist-worker-1"}}
        ask("POST", "services", port)
    else:
        data = {"data": {"hostfile": "nobody"}}
        ask("PATCH", "configmaps/mnist-config", data)
    before = writes()
    done = run("apply", "plan.json", code=4)
    assert "ET8009" in done.stderr
    assert writes() == before


def test_a_plan_that_was_edited_is_refused(run, job, tmp_path):
    job(replicas=1)
    planned(run)
    plan = json.loads((tmp_path / "plan.json").read_text())
    plan["steps"] = plan["steps"][1:]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    done = run("apply", "plan.json", code=7)
    assert "it was changed since it was written" in done.stderr


def test_a_plan_against_something_else_is_refused(run, write, tmp_path):
    write(training_job())
    (tmp_path / "out").mkdir()
    assert planned(run, "--against", "out").returncode == 1
    done = run("apply", "plan.json", code=7)
    assert "not against a cluster" in done.stderr


def test_a_plan_with_a_secret_says_that_it_carries_no_values(run, write):
    secret = manifest("Secret", "s3", stringData={"password": "x"})
    write(secret)
    planned(run, "--config=allow-plain-secrets=true")
    done = run("apply", "plan.json", code=7)
    assert "no plan carries the values of a Secret" in done.stderr
