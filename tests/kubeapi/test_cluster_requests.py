"""The verbs against a real API server."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from etcompile.kubeapi import ClusterError, connect
from etcompile.kubeapi.client import dropped_fields
from specs import manifest


def config_map(name: str = "seed", **data: str) -> dict:
    return manifest("ConfigMap", name, data=data or {"hosts": "a:1"})


def pod(name: str = "worker-0", image: str = "trainer:1") -> dict:
    return manifest("Pod", name, spec={"containers": [{"name": "main", "image": image}]})


def test_the_cluster_names_its_kinds(cluster):
    pods = cluster.resource("v1", "Pod")
    assert (pods.plural, pods.namespaced) == ("pods", True)
    namespaces = cluster.resource("v1", "Namespace")
    assert namespaces.path("ignored", "x") == "/api/v1/namespaces/x"
    roles = cluster.resource("rbac.authorization.k8s.io/v1", "Role")
    assert roles.path("ml") == "/apis/rbac.authorization.k8s.io/v1/namespaces/ml/roles"


@pytest.mark.parametrize(
    "name", ["..", ".", "../../kube-system/configmaps/seed", "a/../b", "a%2fb", "a\nb", "a/log"]
)
def test_a_name_that_would_lead_elsewhere_is_refused_before_a_request(
    control_plane, namespace, name
):
    user = f"paths-{namespace}"
    kubeconfig = control_plane.kubeconfig(user=user)
    with connect(kubeconfig=kubeconfig, namespace=namespace) as cluster:
        maps = cluster.resource("v1", "ConfigMap")
        requests = [
            lambda: cluster.get(maps, name),
            lambda: cluster.get(maps, "seed", name),
            lambda: cluster.patch(maps, name, {"data": {"a": "b"}}),
            lambda: cluster.delete(maps, name, uid="1"),
            lambda: cluster.list(maps, name),
            lambda: [*cluster.watch(maps, "1", name)],
            lambda: [*cluster.log(name, "main")],
            lambda: cluster.create(manifest("ConfigMap", "seed", metadata={"namespace": name})),
        ]
        for ask in requests:
            with pytest.raises(ClusterError, match="is not a valid name of a"):
                ask()
    sent = [e["requestURI"] for e in control_plane.audit() if e["user"]["username"] == user]
    assert [uri for uri in sent if uri != "/api/v1"] == []


def test_what_else_a_name_may_hold_is_escaped(cluster):
    roles = cluster.resource("rbac.authorization.k8s.io/v1", "Role")
    role = {"apiVersion": roles.api_version, "kind": "Role", "metadata": {"name": "a:b c?d#e+f"}}
    cluster.create(role)
    assert cluster.get(roles, "a:b c?d#e+f")["metadata"]["name"] == "a:b c?d#e+f"
    assert cluster.delete(roles, "a:b c?d#e+f") is True


@pytest.mark.parametrize("group", ["../../api/v1/namespaces", "a/b", "..", "Apps"])
def test_invalid_group_is_not_served_and_not_requested(control_plane, group):
    user = f"groups-{len(group)}"
    with connect(kubeconfig=control_plane.kubeconfig(user=user)) as cluster:
        assert cluster.served(group, "Pod") is None
        with pytest.raises(ClusterError) as caught:
            cluster.resource(f"{group}/v1", "Pod")
        assert caught.value.not_found
    assert [e for e in control_plane.audit() if e["user"]["username"] == user] == []


def test_group_is_discovered_with_one_request(control_plane, namespace):
    with connect(kubeconfig=control_plane.kubeconfig(user="once"), namespace=namespace) as cluster:
        for _ in range(3):
            cluster.resource("batch/v1", "Job")
            cluster.resource("batch/v1", "CronJob")
    requests = [
        event["requestURI"]
        for event in control_plane.audit()
        if event["user"]["username"] == "once"
    ]
    assert requests == ["/apis/batch/v1"]


@pytest.mark.parametrize(("api_version", "kind"), [("v1", "Pood"), ("kubeflow.org/v1", "TFJob")])
def test_a_kind_that_is_not_served_is_named(cluster, api_version, kind):
    with pytest.raises(ClusterError) as caught:
        cluster.resource(api_version, kind)
    assert caught.value.not_found
    assert f"does not serve {kind} of {api_version}" in str(caught.value)


def test_what_is_not_there_is_none(cluster, config_maps):
    assert cluster.get(config_maps, "nothing") is None


def test_an_applied_object_is_there_and_a_second_apply_changes_nothing(cluster, config_maps):
    first = cluster.server_side_apply(config_map())
    second = cluster.server_side_apply(config_map())
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    live = cluster.get(config_maps, "seed")
    assert live["data"] == {"hosts": "a:1"}
    assert [owner["manager"] for owner in live["metadata"]["managedFields"]] == ["etcompile"]


def test_apply_with_metadata_only_returns_the_sent_object_with_its_uid(cluster, config_maps):
    sent = config_map()
    written = cluster.server_side_apply(sent, metadata_only=True)
    live = cluster.get(config_maps, "seed")
    assert written == {**sent, "metadata": written["metadata"]}
    assert written["metadata"]["uid"] == live["metadata"]["uid"]


def test_a_dry_run_leaves_nothing(cluster, config_maps, control_plane, namespace):
    assert cluster.server_side_apply(config_map(), dry_run=True)["data"] == {"hosts": "a:1"}
    cluster.create(config_map(), dry_run=True)
    assert cluster.get(config_maps, "seed") is None
    assert control_plane.writes(namespace) == []


def test_a_conflict_names_manager_and_field_and_changes_nothing(cluster, config_maps):
    cluster.server_side_apply(config_map(hosts="a:1"), field_manager="argocd-controller")
    cluster.patch(config_maps, "seed", {"data": {"more": "x"}}, field_manager='some tool "2"')
    with pytest.raises(ClusterError) as caught:
        cluster.server_side_apply(config_map(hosts="b:2", more="y"))
    error = caught.value
    assert (error.status, error.reason, error.conflict) == (409, "Conflict", True)
    by_field = {conflict.field: conflict for conflict in error.conflicts}
    assert by_field[".data.hosts"].manager == "argocd-controller"
    assert by_field[".data.more"].manager == 'some tool "2"'
    assert cluster.get(config_maps, "seed")["data"] == {"hosts": "a:1", "more": "x"}


def test_force_takes_the_field(cluster, config_maps):
    cluster.server_side_apply(config_map(hosts="a:1"), field_manager="other")
    cluster.server_side_apply(config_map(hosts="b:2"), force=True)
    assert cluster.get(config_maps, "seed")["data"] == {"hosts": "b:2"}


def test_a_field_that_does_not_exist_is_refused_by_name(cluster):
    wrong = pod()
    wrong["spec"]["containers"][0]["comand"] = ["python"]
    for write in (cluster.server_side_apply, cluster.create):
        with pytest.raises(ClusterError, match="comand") as caught:
            write(wrong)
        assert caught.value.invalid
        assert caught.value.attempts == 1
    assert cluster.get(cluster.resource("v1", "Pod"), "worker-0") is None


@pytest.mark.parametrize(
    "fields",
    [
        {"data": {"key": 53179}},
        {"data": {"key": {"deep": "53179"}}},
        {"data": {"other": 1, "key": ["a\n  .b\n53179"]}},
        {"data": "53179"},
        {"data": {"key": "53179 is no base64"}},
        {"immutable": "53179"},
    ],
)
def test_a_refused_secret_is_not_quoted(cluster, fields):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **fields}
    for write in (cluster.server_side_apply, cluster.create):
        with pytest.raises(ClusterError) as caught:
            write(secret)
        assert caught.value.invalid
        assert caught.value.attempts == 1
        texts = [str(caught.value), repr(caught.value), *(c.message for c in caught.value.causes)]
        assert not [text for text in texts if "53179" in text or "\n" in text]


def test_an_immutable_field_is_a_cause_with_its_path(cluster):
    cluster.server_side_apply(pod())
    changed = pod()
    changed["spec"]["hostname"] = "other"
    with pytest.raises(ClusterError) as caught:
        cluster.server_side_apply(changed)
    assert (caught.value.status, caught.value.reason) == (422, "Invalid")
    assert [cause.field for cause in caught.value.causes] == ["spec"]


def test_a_second_create_says_that_it_is_there_and_is_sure(cluster):
    cluster.create(config_map())
    with pytest.raises(ClusterError) as caught:
        cluster.create(config_map())
    assert caught.value.already_exists
    assert not caught.value.conflict
    assert not caught.value.uncertain


def test_a_merge_patch_takes_fields_away_and_keeps_its_preconditions(cluster, config_maps):
    created = cluster.create(config_map(a="1", b="2"))
    version = created["metadata"]["resourceVersion"]
    change = {"metadata": {"resourceVersion": version}, "data": {"a": None}}
    assert cluster.patch(config_maps, "seed", change)["data"] == {"b": "2"}
    with pytest.raises(ClusterError) as caught:
        cluster.patch(config_maps, "seed", change)
    assert caught.value.conflict
    assert caught.value.conflicts == ()


def test_a_status_is_patched_through_its_subresource(cluster):
    pods = cluster.resource("v1", "Pod")
    cluster.create(pod())
    cluster.patch(pods, "worker-0", {"status": {"phase": "Failed"}}, subresource="status")
    assert cluster.get(pods, "worker-0")["status"]["phase"] == "Failed"


def test_delete_spares_a_successor_of_the_same_name(cluster, config_maps):
    first = cluster.create(config_map())["metadata"]["uid"]
    assert cluster.delete(config_maps, "seed", uid=first)
    cluster.create(config_map())
    with pytest.raises(ClusterError) as caught:
        cluster.delete(config_maps, "seed", uid=first)
    assert caught.value.conflict
    assert cluster.get(config_maps, "seed") is not None


def test_delete_spares_what_somebody_has_changed(cluster, config_maps):
    version = cluster.create(config_map())["metadata"]["resourceVersion"]
    cluster.patch(config_maps, "seed", {"data": {"more": "x"}})
    with pytest.raises(ClusterError) as caught:
        cluster.delete(config_maps, "seed", resource_version=version)
    assert caught.value.conflict


def test_delete_tells_whether_there_was_something(cluster, config_maps):
    cluster.create(config_map())
    assert cluster.delete(config_maps, "seed", dry_run=True)
    assert cluster.delete(config_maps, "seed", grace=0)
    assert not cluster.delete(config_maps, "seed")


def test_a_long_list_comes_in_pages_and_whole(cluster, config_maps):
    def make(number: int) -> None:
        cluster.create(config_map(f"seed-{number:03}"))

    with ThreadPoolExecutor(16) as pool:
        [*pool.map(make, range(620))]
    pages = [*cluster.pages(config_maps, limit=250)]
    assert [len(page.items) for page in pages] == [250, 250, 120]
    assert len({page.resource_version for page in pages}) == 1
    whole = cluster.list(config_maps)
    assert [item["metadata"]["name"] for item in whole.items] == [
        f"seed-{number:03}" for number in range(620)
    ]
    assert whole.items[0]["kind"] == "ConfigMap"
    slim = cluster.list(config_maps, metadata_only=True)
    assert len(slim.items) == 620
    assert all(item["kind"] == "ConfigMap" for item in slim.items)
    assert not any("data" in item for item in slim.items)


def test_pages_that_etcd_has_forgotten_are_said_to_have_expired(cluster, control_plane):
    templates = cluster.resource("v1", "PodTemplate")
    for number in range(6):
        cluster.create(manifest("PodTemplate", f"t-{number}", template={"spec": pod()["spec"]}))
    pages = cluster.pages(templates, limit=2)
    assert len(next(pages).items) == 2
    cluster.create(config_map("time-passes"))
    control_plane.compact()
    with pytest.raises(ClusterError) as caught:
        next(pages)
    assert caught.value.expired


def test_selectors_select(cluster, config_maps):
    for role in ("worker", "launcher"):
        labelled = config_map(role)
        labelled["metadata"]["labels"] = {"etcompile.dev/role": role}
        cluster.create(labelled)
    matching = cluster.list(config_maps, labels="etcompile.dev/role in (worker)")
    assert [item["metadata"]["name"] for item in matching.items] == ["worker"]
    matching = cluster.list(config_maps, fields="metadata.name=launcher")
    assert [item["metadata"]["name"] for item in matching.items] == ["launcher"]


def test_a_list_can_reach_over_all_namespaces(cluster, config_maps, control_plane):
    other = control_plane.namespace()
    cluster.create(config_map("here"))
    there = config_map("there")
    there["metadata"]["namespace"] = other
    cluster.create(there)
    names = {
        (item["metadata"]["namespace"], item["metadata"]["name"])
        for page in cluster.pages(config_maps, None)
        for item in page.items
    }
    assert {(cluster.namespace, "here"), (other, "there")} <= names


def test_many_threads_share_a_connection_pool(cluster, config_maps):
    def work(number: int) -> str:
        cluster.server_side_apply(config_map(f"t-{number}", value=str(number)))
        return cluster.get(config_maps, f"t-{number}")["data"]["value"]

    with ThreadPoolExecutor(32) as pool:
        assert [*pool.map(work, range(200))] == [str(number) for number in range(200)]


def test_dropped_fields_are_detected_despite_admission_changes():
    main = {"name": "main", "image": "a", "resizePolicy": [{"resourceName": "cpu"}]}
    sent = {"containers": [main], "hostNetwork": False, "volumes": [], "hostUsers": True}
    added = {"name": "sidecar", "image": "b"}
    stored = {
        "containers": [added, {"name": "main", "image": "a", "stdin": False}],
        "dnsPolicy": "",
    }
    assert [*dropped_fields(sent, stored)] == [".containers[main].resizePolicy", ".hostUsers"]
    assert [*dropped_fields(sent, {**stored, "containers": [main], "hostUsers": True})] == []
