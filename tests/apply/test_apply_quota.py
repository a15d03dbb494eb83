"""A new run under a full quota: what must be free goes first, and nothing goes for nothing."""

import contextlib
import json
import threading
import urllib.error
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from specs import training_job, with_worker


class Quota:
    """A ResourceQuota, counted as the controller would that this control plane has not."""

    def __init__(self, plane: Any, namespace: str, pods: int) -> None:
        self._plane, self._namespace, self._pods = plane, namespace, pods
        self._path = f"/api/v1/namespaces/{namespace}/resourcequotas"
        spec = {"hard": {"pods": str(pods)}}
        plane.ask("POST", self._path, {"metadata": {"name": "small"}, "spec": spec})
        self._stop = threading.Event()
        self.count()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def count(self) -> None:
        there = self._plane.ask("GET", f"/api/v1/namespaces/{self._namespace}/pods")["items"]
        counted = {"hard": {"pods": str(self._pods)}, "used": {"pods": str(len(there))}}
        self._plane.set_status(f"{self._path}/small", counted)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            with contextlib.suppress(urllib.error.URLError, OSError):
                self.count()


@pytest.fixture
def quota(control_plane, namespace) -> Iterator[Callable[[int], Quota]]:
    """`quota(3)` allows three Pods in the namespace."""
    quotas: list[Quota] = []

    def make(pods: int) -> Quota:
        quotas.append(Quota(control_plane, namespace, pods))
        return quotas[-1]

    yield make
    for one in quotas:
        one.stop()


def names(objects: Any, kind: str) -> set[str]:
    return {name for name in objects() if name.startswith(f"{kind}/")}


NEW = {"Pod/mnist-b-launcher", "Pod/mnist-b-worker-0", "Pod/mnist-b-worker-1"}


def test_old_run_is_deleted_first_if_the_quota_fits_only_one(
    run, job, kubelet, objects, writes, quota
):
    job(replicas=2)
    run("apply", "jobs", "--run", "a", code=0)
    quota(3)
    diff = run("diff", "jobs", "--run", "b", "--prune")
    assert "it goes first: the quota small has 0 pods left, and 3 are needed" in diff.stdout
    steps = json.loads(run("diff", "jobs", "--run", "b", "--prune", "--output", "json").stdout)
    assert sum(bool(one.get("makesRoom")) for one in steps["steps"]) == 3
    before = len(writes())
    run("apply", "jobs", "--run", "b", "--prune", "--timeout", "60s", code=0)
    assert names(objects, "Pod") == NEW
    did = [one for one in writes()[before:] if "configmaps/etcompile-" not in one]
    gone = [did.index(one) for one in did if one.startswith("delete pods/mnist-a-")]
    others = [n for n, one in enumerate(did) if not one.startswith("delete pods/mnist-a-")]
    assert len(gone) == 3
    assert max(gone) < min(others), did


def test_a_plan_file_keeps_the_old_run_first(run, job, kubelet, objects, quota):
    job(replicas=2)
    run("apply", "jobs", "--run", "a")
    quota(3)
    run("diff", "jobs", "--run", "b", "--prune", "--plan", "plan.json")
    run("apply", "plan.json", "--timeout", "60s", code=0)
    assert names(objects, "Pod") == NEW


def test_a_run_that_would_not_fit_ends_nothing(run, job, kubelet, objects, writes, quota):
    job(replicas=2)
    run("apply", "jobs", "--run", "a")
    quota(3)
    before, pods = writes(), names(objects, "Pod")
    job(replicas=3)
    diff = run("diff", "jobs", "--run", "b", "--prune")
    assert "the plan frees only 3" in diff.stdout
    for options in ((), ("--dry-run=server",), ("--dry-run=client",)):
        done = run("apply", "jobs", "--run", "b", "--prune", *options)
        assert (done.returncode, "error[ET8022]" in done.stderr) == (6, True), done.stderr
        assert "the quota small has 0 pods left, and 4 are needed" in done.stderr
    assert (writes(), names(objects, "Pod")) == (before, pods)


@pytest.mark.parametrize("command", ["restart", "replace"])
def test_run_is_not_ended_if_a_lowered_quota_cannot_hold_it_again(
    applied, run, write, kubelet, objects, writes, quota, command
):
    applied(replicas=2)
    quota(1)
    before, pods = writes(), names(objects, "Pod")
    if command == "replace":
        write(with_worker(replicas=2, workingDir="/data"))
    arguments = ("restart", "mnist") if command == "restart" else ("apply", "jobs", "--replace")
    done = run(*arguments)
    assert (done.returncode, done.stderr.count("error[ET8022]")) == (6, 1), done.stderr
    assert "the quota small has 0 pods left" in done.stderr
    assert (writes(), names(objects, "Pod")) == (before, pods)


def test_restart_under_a_full_quota_uses_what_the_old_pods_free(
    applied, run, kubelet, objects, quota
):
    applied(replicas=2)
    before = {name: one["metadata"]["uid"] for name, one in objects().items() if "Pod/" in name}
    quota(3)
    run("restart", "mnist", "--timeout", "60s", code=0)
    after = {name: one["metadata"]["uid"] for name, one in objects().items() if "Pod/" in name}
    assert before.keys() == after.keys()
    assert not set(before.values()) & set(after.values())


def test_first_apply_above_the_quota_is_refused_before_any_write(run, job, writes, quota):
    job(replicas=4)
    quota(3)
    planned = run("diff", "jobs")
    assert "5 are needed; it allows 3 in all" in planned.stdout
    done = run("apply", "jobs")
    assert (done.returncode, done.stderr.count("error[ET8022]")) == (6, 1), done.stderr
    assert writes() == []


def test_new_run_over_quota_leaves_the_old_one_running(run, job, kubelet, objects, writes, quota):
    job(replicas=2)
    run("apply", "jobs", "--run", "a")
    quota(3)
    before = writes()
    done = run("apply", "jobs", "--run", "b")
    assert (done.returncode, done.stderr.count("error[ET8022]")) == (6, 1), done.stderr
    assert "with --prune, the old Pods are deleted first" in done.stderr
    assert writes() == before
    run("apply", "jobs", "--run", "b", "--prune", "--timeout", "60s", code=0)
    assert names(objects, "Pod") == NEW


def test_old_run_stays_until_the_new_one_exists_if_both_fit(
    run, job, kubelet, objects, writes, quota
):
    job(replicas=2)
    run("apply", "jobs", "--run", "a")
    quota(6)
    before = len(writes())
    run("apply", "jobs", "--run", "b", "--prune", code=0)
    did = writes()[before:]
    creations = [n for n, one in enumerate(did) if one.startswith("create pods/")]
    gone = [n for n, one in enumerate(did) if one.startswith("delete pods/")]
    assert max(creations) < min(gone)
    assert names(objects, "Pod") == NEW


def test_a_renamed_job_takes_the_place_of_the_old_one(
    run, write, kubelet, objects, quota, tmp_path
):
    (tmp_path / "etcompile.toml").write_text('repository-name = "team"\n')
    write(training_job("old", replicas=2), name="one")
    run("apply", "jobs", code=0)
    quota(3)
    write(training_job("new", replicas=2), name="one")
    run("apply", "jobs", "--prune", "--timeout", "60s", code=0)
    assert names(objects, "Pod") == {"Pod/new-launcher", "Pod/new-worker-0", "Pod/new-worker-1"}


def test_dry_run_does_not_fail_if_the_plan_frees_the_quota(run, job, kubelet, writes, quota):
    job(replicas=2)
    run("apply", "jobs", "--run", "a")
    quota(3)
    before = writes()
    run("apply", "jobs", "--run", "b", "--prune", "--dry-run=server", code=0)
    assert writes() == before
