"""What goes wrong between apply and the API server: it gets through, once, and says so."""

import json

import pytest

from apply.kubelet import waiting
from definitions import definition
from faultproxy import WRITE
from specs import with_worker


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 429, "headers": {"Retry-After": "0"}},
        {"kind": "status", "status": 500},
        {"kind": "lost", "status": 504},
        {"kind": "reset-before"},
        {"kind": "reset-after"},
    ],
    ids=lambda fault: f"{fault['kind']}-{fault.get('status', '')}",
)
def test_every_third_write_fails_and_nothing_is_doubled(
    run, job, kubelet, proxy, through, control_plane, namespace, fault
):
    job(replicas=3)
    for method in ("PATCH", "POST"):
        proxy.add(**fault, method=method, path=WRITE, times=20, every=3)
    proxy.add(**fault, method="POST", path="selfsubjectaccessreviews", times=20, every=3)
    done = run("apply", "jobs", KUBECONFIG=str(through), code=0)
    assert "trying again in" in done.stdout
    created = [
        (event["objectRef"]["resource"], event["objectRef"]["name"])
        for event in control_plane.writes(namespace)
        if event["verb"] in ("create", "patch") and not event["objectRef"].get("subresource")
    ]
    # The inventory is written twice: to take the lease of the job, and to give it away.
    created.remove(("configmaps", "etcompile-mnist"))
    assert len(created) == len(set(created))
    before = len(control_plane.writes(namespace))
    run("apply", "jobs", code=0)
    assert len(control_plane.writes(namespace)) == before


def test_deletions_that_fail_on_the_way_are_not_done_to_a_successor(
    applied, run, write, kubelet, proxy, through, objects
):
    applied(replicas=2)
    write(with_worker(replicas=2, workingDir="/data"))
    proxy.add("reset-after", method="DELETE", times=2)
    run("apply", "jobs", "--replace", KUBECONFIG=str(through), code=0)
    for index in range(2):
        pod = objects()[f"Pod/mnist-worker-{index}"]
        assert pod["spec"]["containers"][0]["workingDir"] == "/data"


def test_a_kind_whose_definition_is_new_is_waited_for(run, write, job, kubelet, proxy, through):
    """Discovery follows a definition that is Established, sometimes only after a moment."""
    group = "late.example.com"
    gauge = {"apiVersion": f"{group}/v1", "kind": "Gauge", "metadata": {"name": "speed"}}
    job(replicas=1)
    write(definition(group, "Gauge"), gauge, name="gauges")
    body = '{"kind": "Status", "reason": "NotFound", "code": 404}'
    proxy.add("status", method="GET", path=f"/apis/{group}/v1$", times=12, status=404, body=body)
    run("apply", "jobs", KUBECONFIG=str(through), code=0)


def test_broken_watch_is_resumed(run, job, kubelet, proxy, through):
    job(replicas=2)
    proxy.add("cut", method="GET", path="watch=true", times=5, after=1)
    run("apply", "jobs", KUBECONFIG=str(through), code=0)


def test_a_token_that_expires_in_the_midst_is_renewed(
    run, job, kubelet, proxy, control_plane, namespace, tmp_path
):
    """A credential plugin gives out a new token each time; the first is refused after a while."""
    plugin = tmp_path / "plugin"
    count = tmp_path / "count"
    plugin.write_text(
        f"""#!/bin/sh
echo x >> {count}
n=$(wc -l < {count})
token=admin-token; [ "$n" -gt 1 ] && token=admin-token-2
echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
 "status": {{"token": "'$token'"}}}}'
"""
    )
    plugin.chmod(0o755)
    kubeconfig = control_plane.kubeconfig(token="x", server=proxy.url, namespace=namespace)
    value = json.loads(kubeconfig.read_text())
    value["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "interactiveMode": "Never",
            "command": str(plugin),
        }
    }
    kubeconfig.write_text(json.dumps(value))
    job(replicas=3)
    proxy.add("status", method="PATCH", path=WRITE, status=401, times=1, every=4)
    run("apply", "jobs", "--config", "concurrency=1", KUBECONFIG=str(kubeconfig), code=0)
    tokens = {seen.authorization for seen in proxy.seen if seen.method == "PATCH"}
    assert tokens == {"Bearer admin-token", "Bearer admin-token-2"}


def test_a_server_that_does_not_answer_is_exit_6_and_the_next_run_goes_on(
    run, job, kubelet, proxy, through, control_plane, namespace
):
    job(replicas=2)
    # From the fourth write on nothing gets through any more.
    proxy.add("status", method="PATCH", path=WRITE, status=401, times=1000, every=4)
    done = run("apply", "jobs", "--config", "concurrency=1", KUBECONFIG=str(through), code=6)
    assert "ET8004" in done.stderr or "ET8002" in done.stderr
    assert "not done:" in done.stdout
    run("apply", "jobs", code=0)
    created = [
        (event["objectRef"]["resource"], event["objectRef"]["name"])
        for event in control_plane.writes(namespace)
        if event["responseStatus"]["code"] == 201
    ]
    assert len(created) == len(set(created))


def test_watch_that_has_gone_silent_does_not_decide(run, job, kubelet, proxy, through):
    """Its connection stays open, and nothing comes: the Pods have long been ready."""
    proxy.add("lag", path="watch=true", times=99, seconds=600.0)
    job(replicas=1)
    done = run("apply", "jobs", "--timeout", "20s", KUBECONFIG=str(through), code=0)
    assert "Pod mnist-worker-0  ready" in done.stdout


@pytest.mark.parametrize("first", [True, False], ids=["writes", "only waits"])
def test_denied_watch_is_never_refused_input(run, job, kubelet, proxy, through, first):
    """An authorizer may say so in its own words."""
    status = {"kind": "Status", "reason": "Forbidden", "code": 403, "message": "not on a Friday"}
    proxy.add("status", path="watch=true", times=99, status=403, body=json.dumps(status))
    job(replicas=1)
    kubelet.let("mnist-*", waiting("ImagePullBackOff", "not found"))
    if not first:
        run("apply", "jobs", "--wait", "none", code=0)
    done = run("apply", "jobs", KUBECONFIG=str(through), code=6)
    assert "not on a Friday" in done.stderr
    assert ("created" in done.stdout) is first
