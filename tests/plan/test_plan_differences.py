"""What is a difference between a manifest and a live object, and what is not."""

import copy
import subprocess
import sys
from typing import Any

import pytest

from etcompile.k8s.managedfields import ownership
from etcompile.k8s.path import keyed
from etcompile.plan.comparison import compared
from etcompile.plan.updates import changes
from plan.live_objects import live


def pod(**spec: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "busybox:1.36",
        "command": ["sh", "-c", "sleep 1"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "ports": [{"containerPort": 22}],
        "resources": {"limits": {"cpu": "1000m", "memory": 1073741824}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"app": "x"}},
        "spec": {"containers": [container], "tolerations": [{"key": "gpu"}], **spec},
    }


def config(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def paths(desired: Any, there: Any, *, whole: bool = False) -> list[str]:
    differences = compared(desired, there, None if whole else ownership(there, "etcompile"))
    return sorted(keyed(place.path) for place in differences)


def test_what_the_server_fills_in_is_no_difference() -> None:
    there = live(pod())
    spec = there["spec"]
    main = spec["containers"][0]
    main |= {
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "volumeMounts": [{"name": "kube-api-access-x", "mountPath": "/var/run/secrets"}],
    }
    main["ports"][0]["protocol"] = "TCP"
    main["resources"] = {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "1", "memory": "1Gi"},
    }
    spec |= {
        "nodeName": "node-1",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "volumes": [{"name": "kube-api-access-x", "projected": {"sources": []}}],
    }
    spec["tolerations"] += [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    ]
    there["status"] = {"phase": "Running"}
    assert paths(pod(), there) == []
    # And it is no part of what another change does: that would be refused on a Pod.
    newer = pod()
    newer["spec"]["containers"][0]["image"] = "busybox:2"
    differences = compared(newer, there, ownership(there, "etcompile"))
    assert [one.field for one in changes(there, newer, differences)] == [
        "spec.containers[main].image"
    ]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda o: o["metadata"]["labels"].update(app="y"), "metadata.labels.app"),
        (lambda o: o["metadata"]["labels"].clear(), "metadata.labels.app"),
        (
            lambda o: o["spec"]["containers"][0].update(image="busybox:2"),
            "spec.containers[main].image",
        ),
        (
            lambda o: o["spec"]["containers"][0]["command"].append("x"),
            "spec.containers[main].command",
        ),
        (
            lambda o: o["spec"]["containers"][0]["command"].insert(1, "-e"),
            "spec.containers[main].command",
        ),
        (lambda o: o["spec"]["containers"][0]["env"].pop(0), "spec.containers[main].env[A]"),
        (
            lambda o: o["spec"]["containers"][0]["env"][1].update(value="3"),
            "spec.containers[main].env[B].value",
        ),
        (
            lambda o: o["spec"]["containers"][0]["resources"]["limits"].update(cpu="2"),
            "spec.containers[main].resources.limits.cpu",
        ),
        (lambda o: o["spec"]["tolerations"][0].update(key="tpu"), "spec.tolerations[0].key"),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_a_changed_field_is_the_only_difference(change: Any, path: str, whole: bool) -> None:
    desired = pod()
    change(desired)
    there = pod() if whole else live(pod())
    assert paths(desired, there, whole=whole) == [path]


def test_a_field_of_another_manager_is_no_difference() -> None:
    there = live(
        config(a="1"), others={"sidecar": {"data": {"b": "2"}, "metadata": {"labels": {"x": "y"}}}}
    )
    assert paths(config(a="1"), there) == []


def test_a_field_that_we_applied_and_no_longer_declare_is_removed() -> None:
    assert paths(config(a="1"), live(config(a="1", b="2"))) == ["data.b"]
    assert paths(config(), live(config(b="2"))) == ["data.b"]


def test_a_field_that_another_manager_shares_stays_when_we_give_it_up() -> None:
    there = live(config(a="1", b="2"), others={"sidecar": {"data": {"b": "2"}}})
    assert paths(config(a="1"), there) == []


def test_the_label_of_the_inventory_is_not_removed() -> None:
    applied = config(a="1")
    applied["metadata"]["labels"] = {"applyset.kubernetes.io/part-of": "applyset-x-v1"}
    assert paths(config(a="1"), live(applied)) == []


def test_all_of_a_declaration_counts() -> None:
    assert paths(config(a="1"), config(a="1", b="2"), whole=True) == ["data.b"]


def test_writing_a_default_out_is_no_difference() -> None:
    assert paths(pod(restartPolicy="Always", hostNetwork=False), pod(), whole=True) == []
    assert paths(pod(), pod(restartPolicy="Always", hostNetwork=False), whole=True) == []


def test_a_selector_is_one_value() -> None:
    service: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"selector": {"a": "1", "b": "2"}, "ports": [{"port": 22}, {"port": 80}]},
    }
    desired = copy.deepcopy(service)
    del desired["spec"]["selector"]["b"]
    desired["spec"]["ports"][0]["name"] = "ssh"
    there = live(service)
    there["spec"] |= {"clusterIP": "10.0.0.1", "type": "ClusterIP", "sessionAffinity": "None"}
    for port in there["spec"]["ports"]:
        port |= {"protocol": "TCP", "targetPort": port["port"]}
    assert paths(desired, there) == ["spec.ports[22/TCP].name", "spec.selector.b"]


def test_the_texts_of_a_secret_are_compared_as_the_server_keeps_them() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "Opaque"}
    there = live({**secret, "data": {"k": "dg=="}})
    assert paths({**secret, "stringData": {"k": "v"}}, there) == []
    assert paths({**secret, "stringData": {"k": "w"}}, there) == ["data.k"]


def test_the_order_of_init_containers_is_a_difference_and_that_of_volumes_is_none() -> None:
    def with_lists(*names: str) -> dict[str, Any]:
        named = [{"name": name, "image": "busybox:1.36"} for name in names]
        volumes = [{"name": name, "emptyDir": {}} for name in names]
        return pod(initContainers=named, volumes=volumes)

    there = live(with_lists("a", "b"))
    assert {path.split("[")[0] for path in paths(with_lists("b", "a"), there)} == {
        "spec.initContainers"
    }


def test_equal_objects_import_nothing_heavy() -> None:
    code = (
        "import sys; from etcompile.plan.planner import plan;"
        "from etcompile.plan.step import Declared;"
        "o={'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'c'},'data':{'a':'1'}};"
        "n={**o,'data':{'a':'2'}};"
        "plan([Declared(None,[o])],[o]); plan([Declared(None,[n])],[o]);"
        "assert not {'kubernetes','urllib3'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
