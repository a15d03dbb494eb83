"""Who may write the ConfigMaps that the watcher makes Pods of: the policy, on a real API server."""

import logging

import pytest
from watched import eventually, training_job

from etcompile.integrations.watcher_manifests import NAME, Installation, manifests
from etcompile.kubeapi import Cluster, ClusterError, connect
from etcompile.model.protocol import JOB_LABEL
from installation.doors import is_guarded

MAPS = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]
PODS = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]
GOING = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}]


@pytest.fixture
def user(control_plane, place):
    """`user(name, rules)`: the connection of somebody with these rights in the namespace."""
    opened: list[Cluster] = []

    def connected(name: str, rules: list[dict]) -> Cluster:
        name = f"{name}-{place.namespace}"
        control_plane.grant(place.namespace, name, rules)
        kubeconfig = control_plane.kubeconfig(user=name, groups=())
        opened.append(connect(kubeconfig=kubeconfig, namespace=place.namespace))
        return opened[-1]

    yield connected
    for one in opened:
        one.close()


@pytest.fixture
def guarded(place):
    """The policy, as the manifests have it, bound to the namespace of this test."""
    for value in manifests(Installation(place.namespace, (place.namespace,), "watcher:1")):
        if value["kind"].startswith("ValidatingAdmissionPolicy"):
            place.cluster.server_side_apply(value)
    eventually(lambda: is_guarded(place.cluster, place.namespace))


def own_map(place, name: str, labels: dict | None = None, **data: str) -> dict:
    metadata = {"name": name, "namespace": place.namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def config(place, name: str) -> dict:
    return next(v for v in place.compiled(training_job(name)) if "job.yaml" in v.get("data", {}))


def refused(ask) -> None:
    """A request is refused by the policy, in words that say what is missing."""
    with pytest.raises(ClusterError, match="only who may create Pods in this namespace") as caught:
        ask()
    assert caught.value.status == 403


def test_who_may_only_write_config_maps_gets_no_pod(place, user, guarded):
    attacker = user("attacker", MAPS)
    place.submit(training_job())
    place.cluster.create(
        own_map(place, "bert-etcompile-status", {JOB_LABEL: "bert"}, phase="Running")
    )
    maps = place.cluster.resource("v1", "ConfigMap")
    before = place.cluster.get(maps, "bert-config")

    def patched(name: str, **change) -> None:
        refused(lambda: attacker.patch(maps, name, change))

    refused(lambda: attacker.create(config(place, "evil")))
    refused(
        lambda: attacker.create(
            own_map(place, "evil-etcompile-status", {JOB_LABEL: "evil"}, record="x")
        )
    )
    patched("bert-config", data={"job.yaml": "x"})
    patched("bert-config", metadata={"labels": {JOB_LABEL: None}})
    patched("bert-config", metadata={"labels": None})
    patched("bert-config", metadata={"annotations": {"a": "b"}})
    patched("bert-etcompile-status", data={"done": "x"})
    refused(lambda: attacker.delete(maps, "bert-config"))
    # What has no label is mounted by name all the same, whatever is in it: text, bytes, or nothing
    # that could ever be changed.
    for name in ("evil-etcompile-status", "evil-etcompile-hosts"):
        blank = {**own_map(place, name), "data": None}
        for more in (
            {"data": {"done": "x", "hostfile": "10.0.0.1:1\n"}},
            {"data": {"of-no-meaning": "x"}},
            {"binaryData": {"done": "YWJj"}},
            {"immutable": True},
            {},
        ):
            refused(lambda sly={**blank, **more}: attacker.create(sly))
    assert place.cluster.get(maps, "bert-config") == before


def test_whoever_the_job_is_no_business_of_writes_as_before(place, user, guarded):
    somebody = user("somebody", MAPS)
    maps = place.cluster.resource("v1", "ConfigMap")
    somebody.create(own_map(place, "settings", {"app": "web"}, done="x"))
    somebody.create(own_map(place, "autoscaler-status", done="x"))
    somebody.create(own_map(place, "web-hosts", {}, hostfile="x"))
    somebody.create({**own_map(place, "empty"), "data": None})
    somebody.patch(maps, "settings", {"data": {"more": "x"}, "metadata": {"labels": {"a": "b"}}})
    refused(lambda: somebody.patch(maps, "settings", {"metadata": {"labels": {JOB_LABEL: "a"}}}))
    assert somebody.delete(maps, "settings")


def test_who_may_create_pods_and_administrators_may_write_them(place, user, guarded):
    maps = place.cluster.resource("v1", "ConfigMap")
    for name, cluster in (("mine", user("member", MAPS + PODS)), ("admins", place.cluster)):
        cluster.create(config(place, name))
        cluster.patch(maps, f"{name}-config", {"metadata": {"annotations": {"a": "b"}}})
        cluster.patch(maps, f"{name}-config", {"metadata": {"labels": {JOB_LABEL: None}}})
        assert cluster.delete(maps, f"{name}-config")


def test_who_cleans_up_may_delete_them(place, user, guarded):
    maps = place.cluster.resource("v1", "ConfigMap")
    place.cluster.create(config(place, "bert"))
    cleaner = user("cleaner", MAPS + GOING)
    refused(lambda: cleaner.patch(maps, "bert-config", {"data": {"job.yaml": "x"}}))
    assert cleaner.delete(maps, "bert-config")


def test_the_watcher_does_its_work_under_the_policy(place, guarded, watching, caplog):
    caplog.set_level(logging.WARNING, "etcompile.watch")
    watching()
    place.kubelets()
    place.submit(training_job())
    eventually(lambda: place.whole(2))
    before = place.uid("bert-worker-0")
    place.fails("bert-worker-0")
    eventually(lambda: place.uid("bert-worker-0") not in ("", before))
    eventually(lambda: place.whole(2))
    refusals = [
        event["requestURI"]
        for event in place.plane.audit(place.namespace)
        if NAME in event["user"]["username"]
        and event["responseStatus"]["code"] == 403
        and "dryRun=All" not in event["requestURI"]
    ]
    assert refusals == []


def test_the_policy_for_all_namespaces_is_one_the_api_server_takes(place):
    policy, binding = (
        one
        for one in manifests(Installation("etcompile-watch", None, "watcher:1"))
        if one["kind"].startswith("ValidatingAdmissionPolicy")
    )
    assert "matchResources" not in binding["spec"]
    place.cluster.server_side_apply(policy, dry_run=True)
    place.cluster.server_side_apply(binding, dry_run=True)
