"""Who may write the ConfigMaps of which the watcher makes Pods: the admission policy at work."""

from collections.abc import Callable, Iterator

import pytest

from etcompile.integrations.watcher_manifests import Installation, manifests
from etcompile.kubeapi import Cluster, ClusterError, connect
from etcompile.model.protocol import JOB_LABEL
from installation.doors import is_guarded
from specs import compiled, training_job
from waiting import eventually

MAPS = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]
CREATE_PODS = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]
DELETE_PODS = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}]


@pytest.fixture
def admin(control_plane, namespace) -> Iterator[Cluster]:
    """The administrator's connection to a namespace that the policy guards."""
    with connect(kubeconfig=control_plane.kubeconfig(), namespace=namespace) as cluster:
        for value in manifests(Installation(namespace, (namespace,), "watcher:1")):
            if value["kind"].startswith("ValidatingAdmissionPolicy"):
                cluster.server_side_apply(value)
        eventually(lambda: is_guarded(cluster, namespace), 60, lambda: "no policy", pause=0.1)
        yield cluster


@pytest.fixture
def user(control_plane, admin, namespace) -> Iterator[Callable[..., Cluster]]:
    """`user(name, rules)`: the connection of a user with these rights in the namespace."""
    opened: list[Cluster] = []

    def connected(name: str, rules: list[dict]) -> Cluster:
        name = f"{name}-{namespace}"
        control_plane.grant(namespace, name, rules)
        kubeconfig = control_plane.kubeconfig(user=name, groups=())
        opened.append(connect(kubeconfig=kubeconfig, namespace=namespace))
        return opened[-1]

    yield connected
    for one in opened:
        one.close()


def job_map(name: str, labels: dict | None = None, **data: str) -> dict:
    metadata = {"name": name, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def config(namespace: str, name: str) -> dict:
    objects = compiled(training_job(name), namespace=namespace).objects
    return next(value for value in objects if "job.yaml" in value.get("data", {}))


def refused(request: Callable[[], object]) -> None:
    """The policy refuses a request, in words that say which right is missing."""
    with pytest.raises(ClusterError, match="only who may create Pods in this namespace") as caught:
        request()
    assert caught.value.status == 403


def test_policy_refuses_all_writes_by_who_may_only_write_config_maps(admin, user, namespace):
    attacker = user("attacker", MAPS)
    admin.create(config(namespace, "bert"))
    admin.create(job_map("bert-etcompile-status", {JOB_LABEL: "bert"}, phase="Running"))
    maps = admin.resource("v1", "ConfigMap")
    before = admin.get(maps, "bert-config")
    refused(lambda: attacker.create(config(namespace, "evil")))
    refused(
        lambda: attacker.create(job_map("evil-etcompile-status", {JOB_LABEL: "evil"}, record="x"))
    )
    for change in (
        {"data": {"job.yaml": "x"}},
        {"metadata": {"labels": {JOB_LABEL: None}}},
        {"metadata": {"labels": None}},
        {"metadata": {"annotations": {"a": "b"}}},
    ):
        refused(lambda change=change: attacker.patch(maps, "bert-config", change))
    refused(lambda: attacker.patch(maps, "bert-etcompile-status", {"data": {"done": "x"}}))
    refused(lambda: attacker.delete(maps, "bert-config"))
    # Pods mount these by name, whatever their labels say and whatever is in them.
    for name in ("evil-etcompile-status", "evil-etcompile-hosts"):
        blank = {**job_map(name), "data": None}
        for more in (
            {"data": {"done": "x", "hostfile": "10.0.0.1:1\n"}},
            {"data": {"of-no-meaning": "x"}},
            {"binaryData": {"done": "YWJj"}},
            {"immutable": True},
            {},
        ):
            refused(lambda value={**blank, **more}: attacker.create(value))
    assert admin.get(maps, "bert-config") == before


def test_policy_allows_config_maps_that_are_not_of_a_job(admin, user):
    somebody = user("somebody", MAPS)
    maps = admin.resource("v1", "ConfigMap")
    somebody.create(job_map("settings", {"app": "web"}, done="x"))
    somebody.create(job_map("autoscaler-status", done="x"))
    somebody.create(job_map("web-hosts", {}, hostfile="x"))
    somebody.create({**job_map("empty"), "data": None})
    somebody.patch(maps, "settings", {"data": {"more": "x"}, "metadata": {"labels": {"a": "b"}}})
    refused(lambda: somebody.patch(maps, "settings", {"metadata": {"labels": {JOB_LABEL: "a"}}}))
    assert somebody.delete(maps, "settings")


def test_policy_allows_writes_by_who_may_create_pods(admin, user, namespace):
    maps = admin.resource("v1", "ConfigMap")
    for name, cluster in (("mine", user("member", MAPS + CREATE_PODS)), ("admins", admin)):
        cluster.create(config(namespace, name))
        cluster.patch(maps, f"{name}-config", {"metadata": {"annotations": {"a": "b"}}})
        cluster.patch(maps, f"{name}-config", {"metadata": {"labels": {JOB_LABEL: None}}})
        assert cluster.delete(maps, f"{name}-config")


def test_policy_allows_only_deletions_by_who_may_delete_pods(admin, user, namespace):
    maps = admin.resource("v1", "ConfigMap")
    admin.create(config(namespace, "bert"))
    cleaner = user("cleaner", MAPS + DELETE_PODS)
    refused(lambda: cleaner.patch(maps, "bert-config", {"data": {"job.yaml": "x"}}))
    assert cleaner.delete(maps, "bert-config")
