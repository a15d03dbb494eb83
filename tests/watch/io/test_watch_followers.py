"""Workers of DLRover's, followed by others: what a real API server makes of it."""

import ssl
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from msgspec import structs
from watched import QUICK, Place, eventually

from etcompile.integrations.watcher_manifests import NAME
from etcompile.model.run_record import RestartHistory
from specs import dlrover_type, elastic_job

ARGO = "argocd.argoproj.io/tracking-id"
MASTER = "elasticjob-mnist-dlrover-master-0"


def named(index: int) -> str:
    return f"mnist-edljob-worker-{index}"


def job(place: Place, annotations: dict[str, str] | None = None, workers: int = 3) -> dict:
    command = ["dlrover-run", "--nnodes=2:4", "train.py"]
    value = elastic_job({"worker": dlrover_type(workers, command=command)}, annotations=annotations)
    value["metadata"]["namespace"] = place.namespace
    return value


def started(place: Place, *, marks=None, annotations: dict[str, str] | None = None) -> list[dict]:
    place.kubelets()
    objects = place.submit(job(place, annotations), marks=marks)
    eventually(lambda: len(place.ready()) == 3)
    return objects


def tracked(value: dict) -> None:
    """The mark that Argo CD puts on what it declares."""
    metadata = value["metadata"]
    group = value["apiVersion"].rpartition("/")[0]
    ours = f"app:{group}/{value['kind']}:{metadata['namespace']}/{metadata['name']}"
    metadata.setdefault("annotations", {})[ARGO] = ours


def test_a_failed_worker_stays_and_one_with_its_rank_and_the_next_number_follows(place, watching):
    watching()
    started(place)
    failed, config = (
        place.uid(named(1)),
        place.cluster.get(
            place.cluster.resource("v1", "ConfigMap"), "mnist-etcompile", place.namespace
        ),
    )
    place.fails(named(1), 1)
    pod = eventually(lambda: named(4) in place.ready() and place.pod(named(4)))
    labels = pod["metadata"]["labels"]
    assert {
        key: labels[f"elasticjob.dlrover/{key}"] for key in ("replica-index", "rank-index")
    } == {
        "replica-index": "4",
        "rank-index": "1",
    }
    assert labels["elasticjob.dlrover/relaunch-count"] == "1"
    [container] = pod["spec"]["containers"]
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert (env["NODE_ID"], env["WORKER_ID"], env["NODE_NUM"]) == ("4", "4", "3")
    assert (env["NODE_RANK"], env["WORKER_RANK"], env["RANK"]) == ("1", "1", "1")
    [owner] = pod["metadata"]["ownerReferences"]
    assert owner["uid"] == config["metadata"]["uid"], "it goes when the job goes"
    assert place.uid(named(1)) == failed
    done = place.writes(NAME)
    assert [one for one in done if one[0] in ("create", "delete") and one[1] == "pods"] == [
        ("create", "pods", named(4))
    ]
    services = place.cluster.list(place.cluster.resource("v1", "Service"), place.namespace).items
    selectors = [one["spec"]["selector"] for one in services]
    # Its rank's Service leads to it.
    assert sum(selector.items() <= labels.items() for selector in selectors) == 1


def test_a_follower_is_not_argo_cds_and_leaves_when_argo_cd_brings_the_worker_back(place, watching):
    watching()
    objects = started(place, marks=tracked)
    place.fails(named(1), 137)
    eventually(lambda: named(4) in place.ready())
    assert ARGO in place.pod(named(1))["metadata"]["annotations"]
    assert ARGO not in place.pod(named(4))["metadata"].get("annotations", {})
    pods = place.cluster.resource("v1", "Pod")
    place.cluster.delete(pods, named(1), place.namespace)  # somebody clears up
    pod = next(v for v in objects if (v["kind"], v["metadata"]["name"]) == ("Pod", named(1)))
    eventually(lambda: place.pod(named(1)) is None)
    place.cluster.create(pod)
    eventually(lambda: "deletionTimestamp" in (place.pod(named(4)) or declared_gone())["metadata"])
    assert place.ready()[:2] == [named(0), named(1)]
    assert place.replica("worker", 1, "mnist").history.index is None


def declared_gone() -> dict:
    return {"metadata": {"deletionTimestamp": "gone"}}


def test_under_argo_cd_a_deleted_worker_comes_back_as_itself(place, watching):
    watching(timeouts=structs.replace(QUICK, prune=0.5))
    started(place, marks=tracked)
    before = place.uid(named(2))
    pods = place.cluster.resource("v1", "Pod")
    place.cluster.delete(pods, named(2), place.namespace, grace=0)
    eventually(lambda: place.uid(named(2)) not in ("", before) and named(2) in place.ready())
    assert ARGO in place.pod(named(2))["metadata"]["annotations"]
    assert named(4) not in place.pods()


def test_the_verdict_ends_the_master_and_a_watcher_that_was_killed_goes_on(place, watching):
    first = watching(leads=False)
    started(place)
    place.fails(named(1), 2)
    eventually(lambda: named(4) in place.ready())
    first.kill()
    place.fails(named(4), 2)
    watching(leads=False)
    eventually(lambda: named(5) in place.ready())
    history = place.replica("worker", 1, "mnist").history
    assert history == RestartHistory(index=5, relaunches=2, counted=2)
    for name in (named(0), named(2), named(5)):
        place.becomes(name, "Succeeded", 0)
    done = eventually(lambda: place.data("mnist-etcompile-status").get("done"))
    assert done == place.pod(MASTER)["metadata"]["annotations"]["etcompile.dev/spec-hash"]
    assert place.data("mnist-etcompile-status")["phase"] == "Succeeded"
    assert {named(1), named(4)} <= set(place.pods()), "their logs stay"


# Who is silent -----------------------------------------------------------------------------------


class Kubelet(ThreadingHTTPServer):
    """As much of a kubelet as answers for logs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Logs)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*_certificate(folder))
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.words: dict[str, str] = {}
        self.asked: list[str] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Logs(BaseHTTPRequestHandler):
    server: Kubelet

    def do_GET(self) -> None:
        pod = self.path.split("/")[3]
        self.server.asked.append(pod)
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        body = f"{self.server.words.get(pod, now)} step 7\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _certificate(folder: Path) -> tuple[Path, Path]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "node")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    text = serialization.Encoding.PEM
    files = folder / "node.crt", folder / "node.key"
    files[0].write_bytes(made.sign(key, hashes.SHA256()).public_bytes(text))
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    files[1].write_bytes(key.private_bytes(text, form, plain))
    return files


@pytest.fixture
def node(place: Place, control_plane, tmp_path: Path) -> Iterator[Kubelet]:
    """A node whose kubelet answers for logs; Pods are put there by `bound`."""
    kubelet = Kubelet(tmp_path)
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.server_port}},
    }
    name = f"node-{place.namespace}"
    value = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
    control_plane.ask("POST", "/api/v1/nodes", value)
    yield kubelet
    place.cluster.delete(place.cluster.resource("v1", "Node"), name)
    kubelet.shutdown()
    kubelet.server_close()


def bound(place: Place, objects: list[dict]) -> None:
    for value in objects:
        if value["kind"] == "Pod":
            name = value["metadata"]["name"]
            path = f"/api/v1/namespaces/{place.namespace}/pods/{name}/binding"
            target = {"kind": "Node", "apiVersion": "v1", "name": f"node-{place.namespace}"}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}}
            place.plane.ask("POST", path, {**body, "target": target})


def running_while_one_is_silent(place, node) -> None:
    """A job whose Pods run for ten minutes, one of which has said nothing for an hour."""
    old = (datetime.now(UTC) - timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    node.words[named(1)] = old
    objects = place.submit(job(place, {"etcompile.dev/stuck-after": "60"}))
    bound(place, objects)
    longer = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 600))
    for name in place.pods():
        place.becomes(name, "Running", since=longer)


def test_a_worker_whose_log_stands_still_is_ended_and_followed(place, watching, node):
    running_while_one_is_silent(place, node)
    watching(rights=["logs"])
    eventually(lambda: (place.pod(named(1)) or {})["spec"].get("activeDeadlineSeconds") == 1)
    assert sorted(set(node.asked)) == [named(0), named(1), named(2)]
    assert named(4) not in place.pods(), "not before the other one has ended"
    place.becomes(named(1), "Failed", reason="DeadlineExceeded")
    eventually(lambda: named(4) in place.pods())
    assert place.uid(named(1))


def test_without_the_right_to_read_logs_nobody_is_ended(place, watching, node):
    running_while_one_is_silent(place, node)
    watching()
    eventually(
        lambda: [
            event
            for event in place.plane.audit(place.namespace)
            if event["responseStatus"]["code"] == 403
            and event["objectRef"].get("subresource") == "log"
        ]
    )
    time.sleep(QUICK.settle * 2)
    assert not node.asked
    assert len(place.ready()) == 3
