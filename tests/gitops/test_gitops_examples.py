"""Every example of every kind, synced by Argo CD or Flux from its first commit to its removal.

The examples run side by side, each in a namespace with an application of its own, all under one
watcher; a test is how one of them fared. `-s` prints how long each took.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from gitops_place import Place, eventually

pytestmark = pytest.mark.gitops

EXAMPLES = {
    str(path.parent.relative_to(path.parents[2])): path.parent
    for path in sorted((Path(__file__).parents[2] / "examples").glob("*/*/job.yaml"))
}
SIDE_BY_SIDE = 8


def fare(place: Place, example: Path) -> None:
    """Starts, trains, ends, is not run again, and goes."""
    begun = time.monotonic()
    place.copy(example)
    place.push(place.render())
    pods = place.rendered_pods
    eventually(
        lambda: [*place.phases().values()] == ["Running"] * pods,
        why=lambda: (place.status(), place.phases()),
    )
    place.synced()
    assert place.untracked() == []
    trains = time.monotonic()

    place.nodes.finish(place.namespace)
    eventually(
        lambda: set(place.phases().values()) == {"Succeeded"} and place.finished(),
        why=place.phases,
    )
    healthy = place.synced(*(["Healthy"] if place.tool.name == "argocd" else ["Ready"]))
    over = time.monotonic()

    before, trained = place.uids(), sorted(place.nodes.started[place.namespace])
    name = next(name for name, pod in sorted(place.pods().items()) if not _owned(pod))
    place.delete(name)
    eventually(
        lambda: (
            place.uids().get(name) not in (None, before[name])
            and place.phases()[name] == "Succeeded"
        ),
        why=place.phases,
    )
    assert sorted(place.nodes.started[place.namespace]) == trained, "a finished run trains again"
    place.synced(healthy.health)
    again = time.monotonic()

    place.commit()
    records = [f"ConfigMap/{name}" for name in place.records()]
    eventually(lambda: place.left() == records, why=place.left)
    place.synced()
    print(
        f"\n{place.namespace} ({example.parent.name}/{example.name}): {pods} Pods; trains after "
        f"{trains - begun:.1f} s, is {healthy.health} {over - trains:.1f} s after its end, a "
        f"deleted Pod is back after {again - over:.1f} s, is gone after "
        f"{time.monotonic() - again:.1f} s; left: {', '.join(records)}"
    )


def _owned(pod: dict) -> bool:
    return bool(pod["metadata"].get("ownerReferences"))


@pytest.fixture(scope="module")
def fared(places: Callable[..., dict[str, Place]]) -> Iterator[dict[str, Future[None]]]:
    by_name = places(*EXAMPLES)
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        yield {name: pool.submit(fare, place, EXAMPLES[name]) for name, place in by_name.items()}


@pytest.mark.parametrize("example", EXAMPLES)
def test_is_synced_ends_well_is_not_run_again_and_goes(
    fared: dict[str, Future[None]], example: str
) -> None:
    fared[example].result()
