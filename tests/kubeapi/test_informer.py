"""The one loop that lists and watches, against an API server whose etcd forgets."""

import threading

from etcompile.kubeapi import Retries, connect
from etcompile.kubeapi.controller.informer import Informer
from waiting import eventually


def template(name: str, namespace: str) -> dict:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": name, "namespace": namespace, "labels": {"a": "b"}}
    # This API server reads pod templates straight from etcd, which forgets on demand.
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": metadata,
        "template": {"spec": spec},
    }


def test_informer_lists_again_when_etcd_compacted_its_version(control_plane, namespace, proxy):
    lists: list[set[str]] = []
    names: set[str] = set()
    restarts: list[str] = []

    def on_object(value, gone):
        names.add(value["metadata"]["name"])

    def left(listed, version):
        lists.append({name for _, name in listed})

    def failed(error) -> bool:
        restarts.append("expired" if error.expired else "error")
        return True

    def wait(check) -> None:
        eventually(check, 15, lambda: f"lists {lists}, restarts {restarts}", pause=0.02)

    kubeconfig = control_plane.kubeconfig(token="admin-token", server=proxy.url)
    with connect(kubeconfig=kubeconfig, retries=Retries(attempts=1), timeout=5) as cluster:
        informer = Informer(
            cluster, "v1", "PodTemplate", namespace, on_object, left, failed, labels="a=b"
        )
        thread = threading.Thread(target=informer.run)
        thread.start()
        assert informer.synced.wait(10)
        cluster.create(template("one", namespace))
        wait(lambda: "one" in names)
        proxy.add("status", path="podtemplates.*watch=true", status=503, times=4)
        assert proxy.hang_up("podtemplates.*watch=true") == 1
        wait(lambda: "error" in restarts)
        for number in range(3):
            cluster.create(template(f"unseen-{number}", namespace))
        control_plane.compact()
        wait(lambda: {"one", "unseen-0", "unseen-1", "unseen-2"} <= lists[-1])
        assert "expired" in restarts
        assert len(lists) == 2
        informer.close()
        cluster.close()
        thread.join(10)
