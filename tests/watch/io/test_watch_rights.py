"""The rendered rights are enough, and none of them can be left out."""

import contextlib

import pytest
from watched import QUICK, Place, Running, eventually, training_job

from etcompile.integrations.watcher_manifests import (
    NAME,
    Installation,
    kustomize_file,
    manifests,
    needed,
)
from installation.doors import is_guarded

RIGHTS = sorted(
    {
        (resource, verb)
        for rule in (*needed(), *kustomize_file("base/lease.yaml")[0]["rules"])
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
)
HELD = "etcompile.dev/test"


def refused(place: Place) -> set[tuple[str, str]]:
    """The rights that the watcher asked for and did not have."""
    return {
        (event["objectRef"]["resource"], event["verb"])
        for event in place.plane.audit(place.namespace)
        if NAME in event["user"]["username"] and event["responseStatus"]["code"] == 403
    }


def life(place: Place) -> None:
    """What happens to a job, with whatever a watcher has to do about it."""
    place.kubelets()
    place.holding.set()  # as kubelets do, until the key pair is there
    for value in place.compiled(training_job(workers=3)):
        if value["metadata"]["name"] == "bert-worker-2":
            # It goes only when the test lets it: somebody else has its name until then.
            value["metadata"]["finalizers"] = [HELD]
        place.cluster.create(value)
    secrets = place.cluster.resource("v1", "Secret")
    eventually(lambda: place.cluster.get(secrets, "bert") or refused(place))
    place.holding.clear()
    eventually(lambda: len(place.ready()) == 3)


def failures(place: Place) -> None:
    for name in ("bert-worker-1", "bert-worker-2"):
        place.fails(name)


def served(place: Place) -> bool:
    hosts = [host.split(".")[0] for host in place.hosts()]
    secrets = place.cluster.resource("v1", "Secret")
    reported = {event["involvedObject"]["name"] for event in place.events()}
    return (
        hosts == ["bert-worker-0", "bert-worker-1", "bert-worker-2"] == place.ready()
        and place.cluster.get(secrets, "bert") is not None
        and {"bert-worker-1", "bert-worker-2"} <= reported
    )


def test_rendered_rights_are_enough_under_the_rendered_policy(place, watching):
    for value in manifests(Installation(place.namespace, (place.namespace,), "watcher:1")):
        if value["kind"].startswith("ValidatingAdmissionPolicy"):
            place.cluster.server_side_apply(value)
    eventually(lambda: is_guarded(place.cluster, place.namespace), 60)
    watching()
    life(place)
    eventually(lambda: len(place.hosts()) == 3)
    failures(place)
    eventually(lambda: "deletionTimestamp" in (place.pod("bert-worker-2") or {})["metadata"])
    place.let_go("bert-worker-2")
    eventually(lambda: served(place))
    assert refused(place) == set()


@pytest.mark.parametrize(("resource", "verb"), RIGHTS, ids=lambda word: word)
def test_each_rendered_right_is_needed(place, granted, control_plane, resource, verb):
    token = granted((resource, verb))
    kubeconfig = control_plane.kubeconfig(token=token, namespace=place.namespace)
    running = Running(kubeconfig, place.namespace, leads=True, timeouts=QUICK)
    running.begin()
    try:
        life(place)
        with contextlib.suppress(AssertionError):
            # Without some rights there will be no list, and without others no event.
            eventually(lambda: len(place.hosts()) == 3 or refused(place), 5)
        failures(place)
        eventually(lambda: (resource, verb) in refused(place))
        assert refused(place) == {(resource, verb)}
        assert not served(place)
    finally:
        running.stop()
