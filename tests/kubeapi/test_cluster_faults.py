"""What goes wrong between etcompile and an API server, and that nothing is done twice."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from etcompile.kubeapi import ClusterError, Retries, connect
from specs import manifest


def config_map(name: str = "seed", **data: str) -> dict:
    return manifest("ConfigMap", name, data=data or {"hosts": "a:1"})


BROKEN = [
    {"kind": "status", "status": 429, "headers": {"Retry-After": "0"}},
    {"kind": "status", "status": 500},
    {"kind": "status", "status": 503},
    {"kind": "lost", "status": 502},
    {"kind": "lost", "status": 504},
    {"kind": "reset-before"},
    {"kind": "reset-after"},
]


@pytest.mark.parametrize(
    "fault", BROKEN, ids=lambda fault: f"{fault['kind']}-{fault.get('status')}"
)
def test_an_apply_gets_through_and_writes_once(
    faulty, proxy, control_plane, namespace, notices, fault
):
    proxy.add(**fault, method="PATCH", times=2)
    applied = faulty.server_side_apply(config_map())
    assert applied["data"] == {"hosts": "a:1"}
    assert proxy.count("PATCH") == 3
    assert len(notices) == 2
    versions = {event["responseStatus"]["code"] for event in control_plane.writes(namespace)}
    assert versions <= {200, 201}
    created = [
        event for event in control_plane.writes(namespace) if event["responseStatus"]["code"] == 201
    ]
    assert len(created) == 1
    resource = faulty.resource("v1", "ConfigMap")
    owners = faulty.get(resource, "seed")["metadata"]["managedFields"]
    assert [owner["manager"] for owner in owners] == ["etcompile"]


@pytest.mark.parametrize(
    "fault", BROKEN, ids=lambda fault: f"{fault['kind']}-{fault.get('status')}"
)
def test_a_read_gets_through(faulty, proxy, fault):
    resource = faulty.resource("v1", "ConfigMap")
    faulty.create(config_map())
    proxy.add(**fault, method="GET", times=4)
    assert faulty.get(resource, "seed") is not None


@pytest.mark.parametrize("kind", ["lost", "reset-after"])
def test_a_create_whose_answer_was_lost_leaves_one_object_and_says_so(
    faulty, proxy, control_plane, namespace, kind
):
    proxy.add(kind, method="POST", status=504)
    with pytest.raises(ClusterError) as caught:
        faulty.create(config_map())
    assert caught.value.already_exists
    assert caught.value.uncertain
    assert len(control_plane.writes(namespace)) == 1


def test_a_create_without_a_name_is_not_sent_again_when_it_may_have_been_done(
    faulty, proxy, control_plane, namespace
):
    generated = config_map()
    generated["metadata"] = {"generateName": "seed-"}
    proxy.add("reset-after", method="POST")
    with pytest.raises(ClusterError, match="broke") as caught:
        faulty.create(generated)
    assert caught.value.uncertain
    assert len(control_plane.writes(namespace)) == 1
    assert proxy.count("POST") == 1


def test_a_create_without_a_name_is_sent_again_when_it_was_refused_unread(
    faulty, proxy, control_plane, namespace
):
    generated = config_map()
    generated["metadata"] = {"generateName": "seed-"}
    proxy.add("status", method="POST", status=429, times=3)
    assert faulty.create(generated)["metadata"]["name"].startswith("seed-")
    assert len(control_plane.writes(namespace)) == 1


@pytest.mark.parametrize("kind", ["lost", "reset-after"])
def test_a_delete_by_uid_whose_answer_was_lost_is_done(
    faulty, proxy, control_plane, namespace, kind
):
    resource = faulty.resource("v1", "ConfigMap")
    uid = faulty.create(config_map())["metadata"]["uid"]
    proxy.add(kind, method="DELETE", status=503)
    assert faulty.delete(resource, "seed", uid=uid)
    assert proxy.count("DELETE") == 2
    assert [event["verb"] for event in control_plane.writes(namespace)] == ["create", "delete"]


def test_a_delete_by_name_is_not_sent_again_when_it_may_have_been_done(faulty, proxy):
    resource = faulty.resource("v1", "ConfigMap")
    faulty.create(config_map())
    proxy.add("reset-after", method="DELETE")
    with pytest.raises(ClusterError) as caught:
        faulty.delete(resource, "seed")
    assert caught.value.uncertain
    assert "check before" in caught.value.hint
    faulty.create(config_map())  # a successor
    assert proxy.count("DELETE") == 1
    assert faulty.get(resource, "seed") is not None


def test_a_server_that_asks_for_time_gets_it(faulty, proxy, notices):
    proxy.add("status", method="PATCH", status=429, headers={"Retry-After": "2"})
    begun = time.monotonic()
    faulty.server_side_apply(config_map())
    assert time.monotonic() - begun >= 2
    assert "429 TooManyRequests, trying again in 2." in notices[0]
    assert "hosts" not in notices[0]


def test_patience_ends_with_what_the_server_said(faulty, proxy):
    proxy.add("status", method="PATCH", status=503, times=99)
    with pytest.raises(ClusterError, match="injected 503") as caught:
        faulty.server_side_apply(config_map())
    assert (caught.value.status, caught.value.attempts) == (503, 5)
    assert caught.value.uncertain
    assert proxy.count("PATCH") == 5


def test_a_refusal_is_not_repeated(faulty, proxy):
    wrong = config_map()
    wrong["dta"] = {}
    with pytest.raises(ClusterError, match="dta"):
        faulty.server_side_apply(wrong)
    assert proxy.count("PATCH") == 1


def test_late_response_is_requested_again(control_plane, proxy, namespace):
    kubeconfig = control_plane.kubeconfig(token="admin-token", server=proxy.url)
    quick = Retries(attempts=3, first=0.02)
    with connect(kubeconfig=kubeconfig, namespace=namespace, timeout=0.5, retries=quick) as cluster:
        proxy.add("delay", method="PATCH", seconds=1.5)
        cluster.server_side_apply(config_map())
    time.sleep(1.5)  # the late one arrives too, and finds everything as it wants it
    written = control_plane.writes(namespace)
    assert sorted(event["responseStatus"]["code"] for event in written) == [200, 201]


@pytest.fixture
def rotating(control_plane, proxy, namespace, tmp_path):
    """A connection through the proxy that takes its token from a file, and that file."""
    token = tmp_path / "token"
    token.write_text("admin-token")
    kubeconfig = control_plane.kubeconfig(token="x", server=proxy.url)
    text = kubeconfig.read_text().replace('"token": "x"', f'"tokenFile": "{token}"')
    kubeconfig.write_text(text)
    with connect(kubeconfig=kubeconfig, namespace=namespace) as cluster:
        cluster.resource("v1", "ConfigMap")
        proxy.seen.clear()
        yield cluster, token


def test_a_token_that_expired_is_renewed_for_all_threads(rotating, proxy, control_plane, namespace):
    cluster, token = rotating
    token.write_text("admin-token-2")
    proxy.add("status", status=401, times=99, authorization="Bearer admin-token")
    with ThreadPoolExecutor(4) as pool:
        [*pool.map(lambda n: cluster.server_side_apply(config_map(f"c-{n}")), range(4))]
    assert len(control_plane.writes(namespace)) == 4
    shown = [seen.authorization for seen in proxy.seen if not seen.fault]
    assert shown == ["Bearer admin-token-2"] * 4


def test_credentials_that_are_renewed_and_refused_again_are_not_tried_a_third_time(rotating, proxy):
    cluster, token = rotating
    token.write_text("wrong")
    proxy.add("status", status=401)
    with pytest.raises(ClusterError, match="Unauthorized") as caught:
        cluster.version()
    assert caught.value.diagnostics[0].code == "ET8002"
    assert [seen.authorization for seen in proxy.seen] == ["Bearer admin-token", "Bearer wrong"]


def test_what_answers_is_no_api_server(faulty, proxy):
    proxy.add("status", path="version", status=200, body="<html>log in</html>")
    with pytest.raises(ClusterError, match="does not answer as an API server does") as caught:
        faulty.version()
    assert caught.value.diagnostics[0].code == "ET8003"


def test_list_that_expired_between_two_pages_is_read_again_completely(faulty, proxy):
    resource = faulty.resource("v1", "ConfigMap")
    for number in range(5):
        faulty.create(config_map(f"c-{number}"))
    proxy.add("status", method="GET", path="continue=", status=410)
    assert len(faulty.list(resource, limit=2).items) == 5


def test_closing_ends_a_wait_between_attempts(faulty, proxy):
    proxy.add("status", method="PATCH", status=429, times=9, headers={"Retry-After": "30"})
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(faulty.server_side_apply, config_map())
        while not proxy.count("PATCH"):
            time.sleep(0.01)
        time.sleep(0.1)
        faulty.close()
        with pytest.raises(ClusterError, match="interrupted"):
            waiting.result(timeout=5)


def test_many_writers_through_a_bad_line_write_each_object_once(proxy, control_plane, namespace):
    kubeconfig = control_plane.kubeconfig(token="admin-token", server=proxy.url)
    patient = Retries(attempts=15, first=0.02, longest=0.1)
    faulty = connect(kubeconfig=kubeconfig, namespace=namespace, retries=patient)
    for every, fault in enumerate(BROKEN, start=11):
        proxy.add(**fault, method="PATCH", times=6, every=every)
    with ThreadPoolExecutor(4) as pool:
        [*pool.map(lambda n: faulty.server_side_apply(config_map(f"c-{n}")), range(120))]
    written = control_plane.writes(namespace)
    created = [event for event in written if event["responseStatus"]["code"] == 201]
    assert len(created) == 120
    assert {seen.fault for seen in proxy.seen} == {
        "",
        "status",
        "lost",
        "reset-before",
        "reset-after",
    }
    objects = faulty.list(faulty.resource("v1", "ConfigMap")).items
    # What came twice changed nothing: every object is as it was created.
    assert len(objects) == 120
    assert all(item["metadata"]["managedFields"][0]["operation"] == "Apply" for item in objects)


def test_pages_that_need_not_be_of_one_moment_go_on_when_the_list_is_forgotten(faulty, proxy):
    for number in range(5):
        faulty.create(config_map(f"map-{number}"))
    resource = faulty.resource("v1", "ConfigMap")
    proxy.add("status", method="GET", path="continue=", status=410)
    pages = faulty.pages(resource, limit=2, one_moment=False)
    names = [item["metadata"]["name"] for page in pages for item in page.items]
    assert sorted(names) == [f"map-{number}" for number in range(5)]


@pytest.mark.parametrize("body", ["null", "[]", '"text"', "1"])
@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_answer_that_is_no_object_is_an_error_of_the_server(faulty, proxy, method, body):
    resource = faulty.resource("v1", "ConfigMap")
    requests = {
        "GET": lambda: faulty.list(resource),
        "PATCH": lambda: faulty.server_side_apply(config_map()),
        "DELETE": lambda: faulty.delete(resource, "seed"),
    }
    proxy.add("status", method=method, path="configmaps", status=200, body=body)
    with pytest.raises(ClusterError, match="does not answer as an API server does"):
        requests[method]()
