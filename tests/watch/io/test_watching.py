"""Replacement on a real API server, under the watcher's own rights, beside tools that sync Git."""

import json
import re
import threading
import time

import pytest
from watched import eventually, training_job

from etcompile.integrations.watcher_manifests import NAME
from etcompile.kubeapi import ClusterError


def manifest(pod: dict) -> dict:
    """What of a live Pod came from whoever created it."""
    preserved = ("name", "namespace", "labels", "annotations", "ownerReferences", "finalizers")
    metadata = {key: value for key, value in pod["metadata"].items() if key in preserved}
    metadata.get("annotations", {}).pop("etcompile.dev/touched", None)
    return {"metadata": metadata, "spec": pod["spec"]}


def without_lots(pod: dict) -> str:
    """The same as text. Each Pod has a volume with its token, whose name is drawn by lot."""
    return re.sub(r"kube-api-access-\w{5}", "TOKEN", json.dumps(manifest(pod), sort_keys=True))


def test_failed_worker_is_recreated_as_it_was_and_an_event_says_why(place, watching):
    watching()
    place.begin()
    before = place.pod("bert-worker-1")
    place.fails("bert-worker-1", 137)
    after = eventually(
        lambda: (
            (pod := place.pod("bert-worker-1"))
            and pod["metadata"]["uid"] != before["metadata"]["uid"]
            and pod
        )
    )
    assert without_lots(after) == without_lots(before)
    eventually(lambda: place.whole(2))
    uid = before["metadata"]["uid"]
    events = eventually(
        lambda: [e for e in place.events() if e["involvedObject"].get("uid") == uid]
    )
    assert "137" in events[0]["message"]


def test_run_record_has_no_owner_and_outlives_the_job_unlike_the_host_list(place, watching):
    watching()
    place.begin()
    eventually(lambda: place.data("bert-etcompile-hosts") and place.data("bert-etcompile-status"))
    maps = place.cluster.resource("v1", "ConfigMap")
    hosts = place.cluster.get(maps, "bert-etcompile-hosts")
    config = place.cluster.get(maps, "bert-config")
    owners = [owner["uid"] for owner in hosts["metadata"]["ownerReferences"]]
    assert owners == [config["metadata"]["uid"]]
    assert "ownerReferences" not in place.cluster.get(maps, "bert-etcompile-status")["metadata"]


def test_key_pair_is_created_once_and_never_replaced(place, watching):
    watching()
    place.submit(training_job())
    secrets = place.cluster.resource("v1", "Secret")
    key_pair = eventually(lambda: place.cluster.get(secrets, "bert"))
    assert {"id_rsa", "id_rsa.pub"} <= key_pair["data"].keys()
    assert key_pair["immutable"] is True
    watching()  # another one, which cannot know
    place.submit(training_job("other"))
    eventually(lambda: place.cluster.get(secrets, "other"))
    assert place.cluster.get(secrets, "bert")["data"] == key_pair["data"]


# ---- Git in the loop -----------------------------------------------------------------------------


def argo_cd(value: dict) -> None:
    """Marks an object as one of the application `ml`, as Argo CD does."""
    group, _, _ = value["apiVersion"].rpartition("/")
    metadata = value["metadata"]
    tracked = f"ml:{group}/{value['kind']}:{metadata['namespace']}/{metadata['name']}"
    metadata.setdefault("annotations", {})["argocd.argoproj.io/tracking-id"] = tracked


def flux(value: dict) -> None:
    """Marks an object as one of the Kustomization `ml`, as Flux does."""
    labels = value["metadata"].setdefault("labels", {})
    labels["kustomize.toolkit.fluxcd.io/name"] = "ml"
    labels["kustomize.toolkit.fluxcd.io/namespace"] = "flux-system"


def test_replaced_pod_belongs_to_the_kustomization_that_declares_pods(place, watching):
    """With Flux in two stages the job's ConfigMap is declared by another Kustomization."""
    label = "kustomize.toolkit.fluxcd.io/name"

    def staged(value: dict) -> None:
        flux(value)
        if value["kind"] != "Pod":
            value["metadata"]["labels"][label] = "ml-prereqs"

    watching()
    place.begin(marks=staged)
    place.replaces("bert-worker-1")
    assert place.pod("bert-worker-1")["metadata"]["labels"][label] == "ml"


@pytest.mark.parametrize("marks", [argo_cd, flux], ids=["argocd", "flux"])
def test_watcher_and_a_tool_that_applies_git_every_second_do_not_fight(place, watching, marks):
    watching()
    declared = place.begin(3, profiles=("argocd", "flux"), marks=marks)
    stop = threading.Event()
    refused: list[ClusterError] = []

    def apply() -> None:
        while not stop.wait(1.0):
            for value in declared:
                try:
                    place.cluster.server_side_apply(
                        value, field_manager="argocd-controller", force=True
                    )
                except ClusterError as error:
                    refused.append(error)

    syncing = threading.Thread(target=apply)
    syncing.start()
    try:
        for name in ("bert-worker-1", "bert-worker-2"):
            place.replaces(name)
            eventually(lambda: place.whole(3))
        place.cluster.delete(place.cluster.resource("v1", "Pod"), "bert-worker-0")
        eventually(lambda: place.whole(3))
        # From here on nothing happens, so nobody has anything to write.
        time.sleep(1.5)
        quiet = len(writes_but_leases(place))
        uids = {name: pod["metadata"]["uid"] for name, pod in place.pods().items()}
        time.sleep(3)
        assert len(writes_but_leases(place)) == quiet
        assert {name: pod["metadata"]["uid"] for name, pod in place.pods().items()} == uids
    finally:
        stop.set()
        syncing.join()
    assert refused == []
    for value in declared:
        if value["kind"] == "Pod":
            live = place.pod(value["metadata"]["name"])["metadata"]
            assert value["metadata"]["labels"].items() <= live["labels"].items()
            assert value["metadata"]["annotations"].items() <= live["annotations"].items()
            assert "ownerReferences" not in live


def writes_but_leases(place) -> list:
    return [one for one in place.writes(NAME) if one[1] != "leases"]


def test_watcher_writes_no_object_of_git_but_the_touched_annotation(place, watching):
    watching()
    place.begin()
    place.fails("bert-worker-1")
    eventually(lambda: place.whole(2))
    declared = {"bert-config", "bert-worker-0", "bert-worker-1", "bert-launcher"}
    for event in place.plane.writes(place.namespace):
        about = event["objectRef"]
        if NAME not in event["user"]["username"] or about.get("name") not in declared:
            continue
        assert about["resource"] == "pods"
        if event["verb"] == "patch":
            changed = event["requestObject"]
            assert changed.keys() == {"metadata"}
            assert changed["metadata"].keys() == {"uid", "annotations"}
            assert changed["metadata"]["annotations"].keys() == {"etcompile.dev/touched"}
