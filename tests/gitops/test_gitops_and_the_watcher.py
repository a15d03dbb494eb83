"""Argo CD or Flux, and the watcher, at the same Pods: each does its part, and then all is quiet.

The stories run side by side, each in a namespace with an application of its own, all under one
watcher; a test is how one of them ended. `-s` prints who changed what, and how long it took.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from gitops_place import Place, eventually

from specs import kubeflow_job, launcher, scale_in, scale_out, worker
from specs import training_job as any_training_job

pytestmark = pytest.mark.gitops

QUIET = 20
"""Seconds in which nothing may change, once all is said and done."""

SIDE_BY_SIDE = 10

Object = dict[str, Any]


def training_job(workers: int = 3) -> Object:
    """An elastic job of et-operator, whose lost workers and launcher are replaced."""
    document = any_training_job("bert", replicas=workers, cleanPodPolicy="All")
    worker(document).update(restartPolicy="OnFailure", maxReplicas=9)
    launcher(document).update(restartPolicy="OnFailure")
    for role in (launcher(document), worker(document)):
        role["template"]["spec"]["containers"][0]["image"] = "example.com/horovod:1"
    return document


def bert(*workers: int) -> list[str]:
    return ["bert-launcher", *(f"bert-worker-{number}" for number in workers)]


def started(place: Place, workers: int = 3) -> dict[str, str]:
    """A job that trains, and is listed; its UIDs."""
    place.commit(training_job(workers))
    names = bert(*range(workers))
    eventually(lambda: place.run(*names), why=lambda: (place.status(), place.phases()))
    eventually(lambda: len(place.hosts("bert")) == workers, why=lambda: place.hosts("bert"))
    place.synced()
    return place.uids()


def ended(place: Place, begun: float, *healths: str) -> None:
    """All is synced, tracked, and quiet."""
    place.synced(*healths)
    place.changes.settle(place.namespace)
    took = time.monotonic() - begun
    changed = place.changes.summary(place.namespace, begun)
    place.changes.quiet(place.namespace, QUIET)
    assert place.untracked() == []
    status = place.synced(*healths)
    print(
        f"\n{place.namespace}: {took:.1f} s, then quiet for {QUIET} s, {status.health}: {changed}"
    )


def other(place: Place, before: dict[str, str], *names: str) -> bool:
    now, phases = place.uids(), place.phases()
    return all(
        name in now and now[name] != before[name] and phases[name] == "Running" for name in names
    )


def a_worker_that_fails_again_and_again_is_replaced_each_time(place: Place) -> None:
    before = started(place)
    begun = time.monotonic()
    for _ in range(3):
        last = place.uids()
        place.nodes.ends(place.namespace, "bert-worker-1", 137)
        eventually(lambda: other(place, last, "bert-worker-1"))  # noqa: B023
    eventually(lambda: sorted(place.hosts("bert")) == bert(0, 1, 2)[1:])
    ended(place, begun)
    assert place.creators("bert-worker-1", begun) == ["etcompile-watcher"] * 3
    after = place.uids()
    assert {name for name in after if after[name] != before[name]} == {"bert-worker-1"}


def a_worker_deleted_by_hand_comes_back_once(place: Place) -> None:
    before = started(place)
    begun = time.monotonic()
    place.delete("bert-worker-0")
    eventually(lambda: other(place, before, "bert-worker-0"))
    ended(place, begun)
    assert len(place.creators("bert-worker-0", begun)) == 1
    after = place.uids()
    assert {name for name in after if after[name] != before[name]} == {"bert-worker-0"}


def a_scale_out_and_a_scale_in_touch_only_what_scales(place: Place) -> None:
    before = started(place)
    begun = time.monotonic()
    more = scale_out("more", 2, job="bert")
    place.commit(training_job(), more)
    eventually(lambda: place.run(*bert(*range(5))), why=place.phases)
    eventually(lambda: len(place.hosts("bert")) == 5)
    place.synced()
    less = scale_in("less", 2, job="bert")
    place.commit(training_job(), more, less)
    eventually(lambda: len(place.pods()) == 4, why=place.phases)
    place.synced()
    eventually(lambda: sorted(place.hosts("bert")) == sorted(set(place.pods()) - {"bert-launcher"}))
    ended(place, begun)
    after = place.uids()
    assert {name: before[name] for name in after} == after
    for name in ("bert-worker-3", "bert-worker-4"):
        assert len(place.creators(name, begun)) == 1, "came back after the scale-in"
    assert [one for one in place.left() if one.endswith(("worker-3", "worker-4"))] == []


def a_new_run_takes_the_place_of_the_old_one(place: Place) -> None:
    started(place)
    begun = time.monotonic()
    place.commit(training_job(), flags=("--run", "r2"))
    names = [name.replace("bert-", "bert-r2-") for name in bert(0, 1, 2)]
    eventually(lambda: place.run(*names), why=place.phases)
    eventually(lambda: len(place.hosts("bert")) == 3)
    ended(place, begun)
    for name in bert(0, 1, 2):
        assert place.creators(name, begun) == [], "came back after its run was over"
    for name in names:
        assert len(place.creators(name, begun)) == 1


def a_drained_node_is_left_by_all_and_they_come_back_elsewhere(place: Place) -> None:
    drained, other_node = (f"{place.namespace}-{which}" for which in "ab")
    place.nodes.move(place.namespace, drained, other_node)
    before = started(place, 4)
    begun = time.monotonic()
    place.kubectl("drain", drained, "--force", "--delete-emptydir-data", "--ignore-daemonsets")
    names = bert(*range(4))
    eventually(lambda: other(place, before, *names), why=place.phases)
    eventually(lambda: len(place.hosts("bert")) == 4)
    ended(place, begun)
    assert {pod["spec"]["nodeName"] for pod in place.pods().values()} == {other_node}
    for name in names:
        assert len(place.creators(name, begun)) == 1


def a_node_by_whose_fault_two_pods_failed_is_avoided_and_all_stays_synced(place: Place) -> None:
    document = training_job()
    document["metadata"]["annotations"] = {"etcompile.dev/avoid-nodes": "2"}
    place.commit(document)
    eventually(lambda: place.run(*bert(0, 1, 2)), why=place.phases)
    place.synced()
    begun = time.monotonic()
    bad = place.pods()["bert-worker-1"]["spec"]["nodeName"]
    for avoided in ([], [bad]):
        before = place.uids()
        # Killed, and nobody says by whom.
        place.nodes.ends(place.namespace, "bert-worker-1", 137)
        eventually(lambda: other(place, before, "bert-worker-1"))  # noqa: B023
        assert _avoided(place.pods()["bert-worker-1"]) == avoided
    ended(place, begun)
    # What comes back later avoids it too; what has not failed stays as it was.
    assert _avoided(place.pods()["bert-worker-1"]) == [bad]
    assert _avoided(place.pods()["bert-worker-0"]) == []
    assert len(place.creators("bert-worker-1", begun)) == 2


def _avoided(pod: Object) -> list[str]:
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    return [
        name
        for term in terms.get("nodeSelectorTerms", ())
        for field in term["matchFields"]
        for name in field["values"]
        if (field["key"], field["operator"]) == ("metadata.name", "NotIn")
    ]


def a_suspended_job_runs_nothing_until_it_is_resumed(place: Place) -> None:
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2})
    names = ["mnist-master-0", "mnist-worker-0", "mnist-worker-1"]
    place.commit(document)
    eventually(lambda: place.run(*names), why=place.phases)
    place.synced()
    begun = time.monotonic()
    document["spec"]["runPolicy"] = {"suspend": True}
    place.commit(document)
    eventually(lambda: place.pods() == {}, why=place.phases)
    place.synced()
    place.changes.settle(place.namespace, 8)
    for name in names:
        assert place.creators(name, begun) == [], "came back though the job is suspended"
    document["spec"]["runPolicy"] = {"suspend": False}
    place.commit(document)
    eventually(lambda: place.run(*names), why=place.phases)
    ended(place, begun)


def a_job_that_leaves_git_leaves_nothing_but_its_record(place: Place) -> None:
    started(place)
    begun = time.monotonic()
    place.commit()
    eventually(lambda: place.left() == ["ConfigMap/bert-etcompile-status"], why=place.left)
    ended(place, begun)
    assert place.left() == ["ConfigMap/bert-etcompile-status"]
    for name in bert(0, 1, 2):
        assert place.creators(name, begun) == [], "came back after it left Git"


_ORDERED = (
    a_scale_out_and_a_scale_in_touch_only_what_scales,
    a_new_run_takes_the_place_of_the_old_one,
    a_suspended_job_runs_nothing_until_it_is_resumed,
    a_job_that_leaves_git_leaves_nothing_but_its_record,
)
"""What the order matters to in which a tool prunes and applies, and so its profile."""
_OTHERS = (
    a_worker_that_fails_again_and_again_is_replaced_each_time,
    a_worker_deleted_by_hand_comes_back_once,
    a_node_by_whose_fault_two_pods_failed_is_avoided_and_all_stays_synced,
    a_drained_node_is_left_by_all_and_they_come_back_elsewhere,
)
PLACES = {
    **{f"{one.__name__}-plain": one for one in (*_ORDERED, *_OTHERS)},
    **{f"{one.__name__}-profile": one for one in _ORDERED},
}


@pytest.fixture(scope="module")
def outcomes(places: Callable[..., dict[str, Place]]) -> Iterator[dict[str, Future[None]]]:
    by_name = places(*PLACES)
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        yield {name: pool.submit(PLACES[name], place) for name, place in by_name.items()}


@pytest.mark.parametrize("name", PLACES)
def test_gitops_tool_works_together_with_the_watcher(
    outcomes: dict[str, Future[None]], name: str
) -> None:
    outcomes[name].result()
