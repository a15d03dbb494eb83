"""Watching a real API server, whose watches end, break and expire."""

import threading
from contextlib import closing

import pytest

from etcompile.kubeapi import ClusterError, watch_stream


def config_map(name: str) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}}


def test_changes_come_in_order_from_a_version_on(cluster, config_maps):
    cluster.create(config_map("before"))
    version = cluster.list(config_maps).resource_version
    cluster.create(config_map("after"))
    cluster.patch(config_maps, "after", {"data": {"a": "2"}})
    cluster.delete(config_maps, "before")
    seen = []
    with closing(cluster.watch(config_maps, version)) as watch:
        for event in watch:
            if event.type != "BOOKMARK":
                seen.append((event.type, event.object["metadata"]["name"]))
            if len(seen) == 3:
                break
    assert seen == [("ADDED", "after"), ("MODIFIED", "after"), ("DELETED", "before")]


def test_a_watch_goes_on_when_the_server_ends_it(cluster, config_maps, control_plane):
    version = cluster.list(config_maps).resource_version
    seen = []
    written = threading.Timer(3.5, lambda: cluster.create(config_map("late")))
    written.start()
    with closing(cluster.watch(config_maps, version, renewal=1.0)) as watch:
        for event in watch:
            if event.type == "ADDED":
                seen.append(event.object["metadata"]["name"])
                break
    written.join()
    requests = [
        event for event in control_plane.audit(cluster.namespace) if event["verb"] == "watch"
    ]
    assert seen == ["late"]
    assert len(requests) >= 2


def test_a_bookmark_moves_the_version_on_and_the_watch_goes_on_from_there(
    faulty, proxy, control_plane
):
    config_maps = faulty.resource("v1", "ConfigMap")
    version = faulty.list(config_maps).resource_version
    elsewhere = config_map("elsewhere")
    elsewhere["metadata"]["namespace"] = control_plane.namespace()
    written = faulty.create(elsewhere)["metadata"]["resourceVersion"]
    # From "0" an API server tells what there is and then, by a bookmark, that this was all; those
    # that it sends while nothing happens take a minute to come.
    with closing(faulty.watch(config_maps, "0", renewal=2.0)) as watch:
        events = iter(watch)
        bookmark = next(event for event in events if event.type == "BOOKMARK")
        assert int(bookmark.resource_version) >= int(written) > int(version)
        assert watch.resource_version == bookmark.resource_version
        threading.Timer(3.0, lambda: faulty.create(config_map("late"))).start()
        late = next(event for event in events if event.type != "BOOKMARK")
    assert (late.type, late.object["metadata"]["name"]) == ("ADDED", "late")
    requests = [seen.path for seen in proxy.seen if "watch=true" in seen.path]
    assert "resourceVersion=0&" in requests[0]
    assert f"resourceVersion={bookmark.resource_version}&" in requests[-1]


def test_a_version_that_etcd_has_forgotten_is_the_callers_to_solve(cluster, control_plane):
    templates = cluster.resource("v1", "PodTemplate")  # this server reads them straight from etcd
    old = cluster.list(templates).resource_version
    for number in range(3):
        cluster.create(config_map(f"time-passes-{number}"))
    control_plane.compact()
    with pytest.raises(ClusterError) as caught:
        next(iter(cluster.watch(templates, old)))
    assert caught.value.expired


def test_another_thread_can_end_a_quiet_watch(cluster, config_maps):
    version = cluster.list(config_maps).resource_version
    watch = cluster.watch(config_maps, version)
    threading.Timer(0.5, watch.close).start()
    assert [event for event in watch if event.type != "BOOKMARK"] == []


def test_closing_the_connection_ends_its_watches(cluster, config_maps):
    version = cluster.list(config_maps).resource_version
    watch = cluster.watch(config_maps, version)
    threading.Timer(0.5, cluster.close).start()
    assert [event for event in watch if event.type != "BOOKMARK"] == []


def test_a_broken_connection_loses_and_repeats_no_event(faulty, proxy):
    resource = faulty.resource("v1", "ConfigMap")
    version = faulty.list(resource).resource_version
    for number in range(6):
        faulty.create(config_map(f"c-{number}"))
    proxy.add("cut", method="GET", path="watch=true", times=3, after=1)
    proxy.add("reset-before", method="GET", path="watch=true", times=1)
    seen = []
    with closing(faulty.watch(resource, version)) as watch:
        for event in watch:
            if event.type == "ADDED":
                seen.append(event.object["metadata"]["name"])
            if len(seen) == 6:
                break
    assert seen == [f"c-{number}" for number in range(6)]
    assert proxy.count("GET", "watch=true") >= 4


def test_a_slow_server_refuses_a_watch_for_a_while(faulty, proxy, notices):
    resource = faulty.resource("v1", "ConfigMap")
    version = faulty.list(resource).resource_version
    faulty.create(config_map("there"))
    proxy.add("status", path="watch=true", status=429, headers={"Retry-After": "1"})
    with closing(faulty.watch(resource, version)) as watch:
        assert next(iter(watch)).object["metadata"]["name"] == "there"
    assert len(notices) == 1
    assert "429 TooManyRequests" in notices[0]


def test_a_connection_that_goes_silent_is_replaced(faulty, proxy, monkeypatch):
    assert watch_stream.SILENCE <= 90.0
    monkeypatch.setattr(watch_stream, "SILENCE", 2.0)
    resource = faulty.resource("v1", "ConfigMap")
    version = faulty.list(resource).resource_version
    faulty.create(config_map("there"))
    proxy.add("lag", method="GET", path="watch=true", times=1, seconds=20.0)
    with closing(faulty.watch(resource, version)) as watch:
        assert next(iter(watch)).object["metadata"]["name"] == "there"
    assert proxy.count("GET", "watch=true") == 2


@pytest.mark.parametrize(
    "line", ["null", "[]", '{"type": "ADDED"}', '{"type": "ADDED", "object": 1}']
)
def test_watch_goes_on_after_a_line_that_is_no_event(faulty, proxy, line):
    maps = faulty.resource("v1", "ConfigMap")
    version = faulty.list(maps).resource_version
    faulty.create(config_map("after"))
    chunked = {"Transfer-Encoding": "chunked"}
    body = f"{len(line) + 1:x}\r\n{line}\n\r\n0\r\n\r\n"
    proxy.add("status", path="watch=true", status=200, headers=chunked, body=body, times=1)
    with closing(faulty.watch(maps, version)) as watch:
        assert next(iter(watch)).object["metadata"]["name"] == "after"
    assert proxy.count("GET", "watch=true") == 2
