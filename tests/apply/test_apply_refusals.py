"""What apply will not do without being told to, and that it then has changed nothing at all."""

import json

import pytest

from apply.policies import deny
from controlplane.binaries import version
from specs import manifest, training_job, with_worker

APPLY = "application/apply-patch+yaml"


def seed(**data):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        # A label that stays ours, whoever takes the data.
        "metadata": {"name": "seed", "labels": {"app": "seed"}},
        "data": data or {"hosts": "ours"},
    }


@pytest.fixture
def config_map(ask):
    """`config_map(method, body)` asks for the ConfigMap `seed` as somebody else."""

    def request(method, body=None, *, manager="theirs", content=None):
        path = "configmaps" if method == "POST" else "configmaps/seed"
        return ask(method, path, body, content, manager)

    return request


def test_a_field_of_another_manager_is_named_with_both_values_and_nothing_is_changed(
    run, write, writes, config_map
):
    write(seed())
    run("apply", "jobs")
    config_map("PATCH", {"data": {"hosts": "theirs"}})
    before = writes()
    write(seed(hosts="ours again"), training_job(replicas=1))
    done = run("apply", "jobs", code=4)
    assert "theirs owns data.hosts" in done.stderr
    assert 'data.hosts is "theirs", and would be "ours again"' in done.stderr
    assert "--config take-ownership=theirs" in done.stderr
    assert writes() == before
    assert config_map("GET")["data"] == {"hosts": "theirs"}


def test_conflict_that_only_the_server_sees_is_reported_before_any_write(
    run, write, writes, config_map
):
    write(seed())
    run("apply", "jobs")
    # The same value by another manager: shared now, and in conflict as soon as it changes.
    config_map("PATCH", {**seed(), "metadata": {"name": "seed"}}, content=APPLY)
    before = writes()
    write(seed(hosts="new"), training_job(replicas=1))
    done = run("apply", "jobs", code=4)
    assert "theirs" in done.stderr
    assert writes() == before


def test_take_ownership_affects_only_the_named_manager(run, write, config_map):
    write(seed())
    run("apply", "jobs")
    config_map("PATCH", {"data": {"hosts": "theirs"}})
    write(seed(hosts="ours again"))
    run("apply", "jobs", "--config", "take-ownership=others", code=4)
    run("apply", "jobs", "--config", "take-ownership=theirs", code=0)
    live = config_map("GET")
    assert live["data"] == {"hosts": "ours again"}
    owners = {
        entry["manager"]
        for entry in live["metadata"]["managedFields"]
        if "hosts" in json.dumps(entry["fieldsV1"])
    }
    assert owners == {"etcompile"}


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": {"argocd.argoproj.io/tracking-id": "team:/ConfigMap:NS/seed"}},
        {"labels": {"kustomize.toolkit.fluxcd.io/name": "team"}},
    ],
    ids=["argo-cd", "flux"],
)
def test_what_a_sync_tool_looks_after_is_refused(
    run, write, writes, config_map, namespace, metadata
):
    metadata = json.loads(json.dumps(metadata).replace("NS", namespace))
    theirs = seed(hosts="theirs")
    theirs["metadata"] |= metadata
    config_map("POST", theirs)
    write(seed(), training_job(replicas=1))
    done = run("apply", "jobs", code=4)
    assert "manages it" in done.stderr
    assert writes() == []
    run("apply", "jobs", "--adopt", "--config", "take-ownership=theirs", "--wait", "none", code=0)
    assert config_map("GET")["data"] == {"hosts": "ours"}


def test_what_a_controller_makes_is_refused_whatever_is_allowed(run, write, writes, config_map):
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1", "controller": True}
    theirs = seed(hosts="theirs")
    theirs["metadata"]["ownerReferences"] = [owner]
    config_map("POST", theirs)
    write(seed())
    done = run("apply", "jobs", "--adopt", "--config", "take-ownership=*", code=4)
    assert "Pod x controls it" in done.stderr
    assert writes() == []


def test_an_object_of_kubectl_is_adopted_with_what_it_owned(run, write, config_map):
    theirs = seed(hosts="ours", old="1")
    config_map("POST", theirs, manager="kubectl-client-side-apply")
    write(seed(hosts="ours"))
    # Equal in what is declared: nothing to do, and nothing is taken.
    assert "nothing had to be changed" in run("apply", "jobs").stdout
    write(seed(hosts="ours", new="2"))
    refused = run("apply", "jobs", code=4)
    assert "kubectl-client-side-apply made it" in refused.stderr
    assert "--adopt" in refused.stderr
    assert config_map("GET")["data"] == {"hosts": "ours", "old": "1"}
    done = run("apply", "jobs", "--adopt", code=0)
    assert "adopted" in done.stdout
    live = config_map("GET")
    assert live["data"] == {"hosts": "ours", "new": "2"}
    managers = {entry["manager"] for entry in live["metadata"]["managedFields"]}
    assert managers == {"etcompile"}


def test_a_change_that_a_pod_does_not_take_is_named_and_nothing_is_changed(
    run, write, writes, kubelet
):
    write(with_worker())
    run("apply", "jobs")
    before = writes()
    write(with_worker(workingDir="/data"), seed())
    done = run("apply", "jobs", code=5)
    assert "Pod mnist-worker-0" in done.stderr
    assert "workingDir" in done.stderr
    assert done.stderr.count("--replace ") == 1
    assert "hint: --replace deletes and recreates it; another ID" in done.stderr
    assert writes() == before


def test_replace_deletes_that_very_pod_waits_and_recreates_it(
    run, write, writes, kubelet, control_plane, namespace, objects
):
    write(with_worker())
    run("apply", "jobs")
    old = objects()["Pod/mnist-worker-0"]["metadata"]["uid"]
    before = len(writes())
    write(with_worker(workingDir="/data"))
    run("apply", "jobs", "--replace", code=0)
    requests = writes()[before:]
    assert requests.index("delete pods/mnist-worker-0") < requests.index(
        "create pods/mnist-worker-0"
    )
    deleted = next(
        event
        for event in control_plane.writes(namespace)
        if event["verb"] == "delete" and event["objectRef"]["name"] == "mnist-worker-0"
    )
    assert deleted["requestObject"]["preconditions"] == {"uid": old}
    assert deleted["requestObject"]["propagationPolicy"] == "Background"


def test_a_pod_that_stays_because_of_a_finalizer_is_waited_for_and_then_replaced(
    run, start, write, kubelet, ask, objects
):
    write(with_worker())
    run("apply", "jobs")
    ask("PATCH", "pods/mnist-worker-0", {"metadata": {"finalizers": ["example.com/hold"]}})
    write(with_worker(workingDir="/data"))
    started = start("apply", "jobs", "--replace")
    for line in started.stdout:
        if "mnist-worker-0  deleting" in line:
            break
    assert objects()["Pod/mnist-worker-0"]["metadata"]["deletionTimestamp"]
    ask("PATCH", "pods/mnist-worker-0", {"metadata": {"finalizers": None}})
    out, err = started.communicate(timeout=60)
    assert started.returncode == 0, out + err
    assert objects()["Pod/mnist-worker-0"]["spec"]["containers"][0]["workingDir"] == "/data"


def test_a_replacement_that_would_be_refused_deletes_nothing(run, write, writes, kubelet, ask):
    write(with_worker())
    run("apply", "jobs")
    before = writes()
    quota = manifest(
        "LimitRange", "small", spec={"limits": [{"type": "Container", "max": {"memory": "1Mi"}}]}
    )
    ask("POST", "limitranges", quota)
    resources = {"requests": {"memory": "2Mi"}, "limits": {"memory": "2Mi"}}
    write(with_worker(workingDir="/data", resources=resources))
    done = run("apply", "jobs", "--replace", code=7)
    assert "maximum memory usage per Container is 1Mi" in done.stderr
    assert writes() == before


def test_object_that_the_server_rejects_is_refused_before_any_write(run, write, writes):
    service = manifest("Service", "web", spec={"clusterIP": "10.255.0.1", "ports": [{"port": 80}]})
    write(seed(), service)
    done = run("apply", "jobs", code=7)
    assert "Service web" in done.stderr
    assert "10.255.0.1" in done.stderr
    assert writes() == []


def test_refused_input_is_another_exit_code_than_usage(run, write):
    document = training_job()
    document["spec"]["etReplicaSpecs"]["worker"]["replicas"] = "many"
    write(document)
    run("apply", "jobs", code=7)
    run("apply", code=2)
    run("apply", "jobs", "--timeout", "soon", code=2)


def test_a_create_that_finds_the_object_there_does_not_write_over_it(
    start, write, config_map, slow
):
    """Somebody makes the object between the plan and its turn."""
    write(seed())
    slow.proxy.add("delay", method="PATCH", path="dryRun", seconds=2.0, before_others=True)
    started = start("apply", "jobs", KUBECONFIG=str(slow.kubeconfig))
    _until(lambda: slow.proxy.count("PATCH", "dryRun"))
    config_map("POST", seed(hosts="theirs"))
    out, err = started.communicate(timeout=60)
    assert started.returncode == 4, out + err
    assert "theirs owns" in err
    assert config_map("GET")["data"] == {"hosts": "theirs"}


def _until(condition):
    import time

    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_diff_shows_what_apply_would_refuse(run, job, control_plane, namespace, writes):
    """A Pod Security standard, and an inventory that is another tool's."""
    enforce = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    control_plane.ask("PATCH", f"/api/v1/namespaces/{namespace}", enforce)
    job(replicas=1)
    done = run("diff", "jobs", code=1)
    assert "violates PodSecurity" in done.stderr
    assert "Pod mnist-worker-0" in done.stdout.replace(f"{namespace}/", "")
    assert writes() == []
    run("apply", "jobs", code=7)
    assert writes() == []


@pytest.mark.parametrize("whose", ["nobody's", "kubectl's"])
def test_diff_shows_an_inventory_that_apply_would_not_write(
    applied, run, kubelet, ask, writes, whose
):
    applied(replicas=1)
    before = writes()
    change = {"labels": {"applyset.kubernetes.io/id": None}}
    if whose == "kubectl's":
        change = {"annotations": {"applyset.kubernetes.io/tooling": "kubectl/v1.34.0"}}
    ask("PATCH", "configmaps/etcompile-mnist", {"metadata": change})
    seen, refused = run("diff", "jobs"), run("apply", "jobs")
    assert (seen.returncode, refused.returncode) == (1, 4), seen.stderr + refused.stderr
    words = "not the label" if whose == "nobody's" else "belongs to kubectl/v1.34.0"
    assert words in seen.stderr
    assert words in refused.stderr
    assert writes() == before
    if whose == "kubectl's":
        run("apply", "jobs", "--adopt", code=0)


def test_warnings_of_the_api_server_are_shown_once(run, job, kubelet, control_plane, namespace):
    warn = {"metadata": {"labels": {"pod-security.kubernetes.io/warn": "restricted"}}}
    control_plane.ask("PATCH", f"/api/v1/namespaces/{namespace}", warn)
    job(replicas=2)
    for command in ("diff", "apply"):
        done = run(command, "jobs", code=1 if command == "diff" else 0)
        lines = [line for line in done.stderr.splitlines() if "would violate PodSecurity" in line]
        assert lines
        assert len(lines) == len(set(lines))
        assert all("ET8026" in line for line in lines)


def test_a_field_that_the_api_server_drops_is_reported(run, write, kubelet, objects):
    """The feature gate HostnameOverride is off in 1.34, GenericWorkload in 1.37."""
    values = {"1.34.4": ("hostnameOverride", "w0.example.com")}
    field, value = values.get(version(), ("schedulingGroup", {"podGroupName": "a"}))
    document = training_job(replicas=1)
    worker = document["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]
    worker[field] = value
    write(document)
    for command, code in (("diff", 1), ("apply", 0)):
        done = run(command, "jobs", code=code)
        assert done.stderr.count("ET8029") == 1, done.stderr
        assert f"does not keep spec.{field} of a Pod" in done.stderr
    assert field not in objects()["Pod/mnist-worker-0"]["spec"]


def test_apply_that_is_denied_after_its_first_write_ends_with_6(
    run, job, control_plane, namespace, writes
):
    """Codes 4, 5 and 7 promise that nothing was changed."""
    condition = (
        "(has(request.dryRun) && request.dryRun) || object.metadata.name != 'mnist-worker-1'"
    )
    remove = deny(control_plane, namespace, condition, "not for real")
    job(replicas=2)
    done = run("apply", "jobs", "--wait", "none")
    remove()
    assert done.returncode == 6, done.stdout + done.stderr
    assert "not for real" in done.stdout + done.stderr
    assert "create Pod" in done.stdout.split("not done:")[1]
    assert writes() != []


@pytest.mark.parametrize("who", ["kubectl made it", "kubectl edited it"])
def test_service_port_of_another_manager_needs_a_replacement(run, write, ask, who):
    """Its port stays beside the new one, and two ports cannot have one name."""
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
    service = manifest("Service", "web", spec={"selector": {"app": "web"}, "ports": ports})
    wanted = {**service, "spec": {**service["spec"], "ports": [{**ports[0], "port": 81}]}}
    write(wanted)
    if who == "kubectl made it":
        ask("POST", "services", service, manager="kubectl")
        options = ("--adopt",)
    else:
        run("apply", "jobs", code=0)
        change = {"spec": {"ports": ports}}
        ask("PATCH", "services/web", change, manager="kubectl")
        options = ()
    refused = run("apply", "jobs", *options, code=5)
    assert "--replace deletes and recreates it" in refused.stderr
    run("apply", "jobs", *options, "--replace", code=0)
    live = ask("GET", "services/web")
    assert [port["port"] for port in live["spec"]["ports"]] == [81]
    run("diff", "jobs", code=0)
