"""Whether a job is supervised: by the log, an Event and a metric, however it came about."""

import base64
import datetime as dt
import http.server
import ipaddress
import json
import logging
import ssl
import threading

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from watched import eventually, training_job

from etcompile.cli.watch import command
from etcompile.model.protocol import SPEC_HASH
from etcompile.watch.core.ledger import Memory
from etcompile.watch.core.reports import JsonFormatter, say

UNSUPERVISED = "etcompile_watch_unsupervised"


@pytest.fixture
def said(caplog):
    """`said()`: what the watcher has logged so far, from INFO on."""
    caplog.set_level(logging.INFO, "etcompile.watch")
    return lambda: [record.getMessage() for record in caplog.records]


def begun(place) -> None:
    place.kubelets()
    place.submit(training_job())
    eventually(lambda: place.whole(2) and place.record().get("phase") == "Running")


def test_a_job_s_life_in_the_log(place, watching, said):
    watching()
    begun(place)
    job = f"{place.namespace}/bert"
    [line] = eventually(lambda: [one for one in said() if one.startswith(f"{job}: supervised")])
    assert f"run {place.record()['run']}, Pods: 3" in line
    place.fails("bert-worker-1", 137)
    start = f"{job}-worker-1: failed (exit code 137): recreated in "
    [line] = eventually(lambda: [one for one in said() if one.startswith(start)])
    assert float(line.removeprefix(start).removesuffix(" s")) < 60
    maps = place.cluster.resource("v1", "ConfigMap")
    place.cluster.delete(maps, "bert-config")
    gone = f"{job}: no longer supervised: its ConfigMap is gone"
    eventually(lambda: gone in said())
    assert len([one for one in said() if "supervised" in one]) == 2
    # What a line says has happened: nothing is announced that may fail.
    assert not [one for one in said() if "recreating" in one]


def test_a_deletion_is_not_logged_as_a_failure(place, watching, said):
    watching()
    begun(place)
    pods = place.cluster.resource("v1", "Pod")
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    place.cluster.patch(pods, "bert-worker-1", held, place.namespace)
    place.cluster.delete(pods, "bert-worker-1", place.namespace)
    place.fails("bert-worker-1", 143)  # of the signal that its kubelet has sent
    place.let_go("bert-worker-1")
    start = f"{place.namespace}/bert-worker-1: deleted: recreated in "
    eventually(lambda: [line for line in said() if line.startswith(start)])


def test_a_second_failure_is_reported_though_there_is_a_first(place, watching, said):
    for name in ("bert-etcompile-status", "bert-etcompile-hosts"):
        place.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
    running = watching()
    place.kubelets()
    place.submit(training_job())
    eventually(lambda: place.told("NameTaken", "bert-config"))
    eventually(lambda: running.value(UNSUPERVISED, reason="NameTaken") == 1)
    maps = place.cluster.resource("v1", "ConfigMap")
    place.cluster.delete(maps, "bert-etcompile-status")
    eventually(lambda: len(place.told("NameTaken", "bert-config")) == 2, 40)
    held = " ".join(event["message"] for event in place.told("NameTaken", "bert-config"))
    for slot in ("status", "hosts"):
        assert f"the ConfigMap bert-etcompile-{slot} does not have the label" in held
    assert running.value(UNSUPERVISED, reason="NameTaken") == 1
    assert len([one for one in said() if "bert: not supervised: " in one]) == 2
    place.cluster.delete(maps, "bert-etcompile-hosts")
    eventually(lambda: running.value(UNSUPERVISED, reason="NameTaken") == 0, 40)
    [line] = eventually(lambda: [one for one in said() if "supervised again after" in one])
    assert f"{place.namespace}/bert: " in line
    eventually(lambda: place.whole(2))


@pytest.mark.parametrize("there", [True, False], ids=["watched", "between two watchers"])
def test_a_pod_that_has_lost_its_spec_hash(place, watching, there):
    first = watching()
    begun(place)
    if not there:
        first.stop()
    pods = place.cluster.resource("v1", "Pod")
    taken = {"metadata": {"annotations": {SPEC_HASH: None}}}
    place.cluster.patch(pods, "bert-worker-1", taken)
    uid = place.uid("bert-worker-1")
    if there:  # it is known which run the Pod was created for
        place.fails("bert-worker-1")
        eventually(lambda: place.uid("bert-worker-1") not in ("", uid))
        return
    running = watching()
    [event] = eventually(lambda: place.told("ForeignPod", "bert-worker-1"))
    assert f"it has lost the annotation {SPEC_HASH}" in event["message"]
    eventually(lambda: running.value(UNSUPERVISED, reason="ForeignPod") == 1)
    run = place.record()["run"]
    place.cluster.patch(pods, "bert-worker-1", {"metadata": {"annotations": {SPEC_HASH: run}}})
    eventually(lambda: running.value(UNSUPERVISED, reason="ForeignPod") == 0)
    place.fails("bert-worker-1")
    eventually(lambda: place.uid("bert-worker-1") not in ("", uid))


# Admission that rewrites images -----------------------------------------------------------------


@pytest.fixture
def mirrored(place, tmp_path):
    """An admission webhook that has all images of the namespace come from elsewhere."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mirror")])
    now = dt.datetime.now(dt.UTC)
    host = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(host, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (tmp_path / "c.pem").write_bytes(
        pem + key.private_bytes(serialization.Encoding.PEM, *form),
    )

    class Mirror(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            count = len(review["request"]["object"]["spec"]["containers"])
            patch = [
                {"op": "replace", "path": f"/spec/containers/{n}/image", "value": "mirror/a1b2c3"}
                for n in range(count)
            ]
            answer = {
                "uid": review["request"]["uid"],
                "allowed": True,
                "patchType": "JSONPatch",
                "patch": base64.b64encode(json.dumps(patch).encode()).decode(),
            }
            body = json.dumps({**review, "request": None, "response": answer}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Says nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "c.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    name = f"mirror-{place.namespace}"
    config = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "mirror.example.com",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": place.namespace}
                },
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["pods"],
                        "operations": ["CREATE"],
                    }
                ],
                "clientConfig": {
                    "url": f"https://127.0.0.1:{server.server_address[1]}/",
                    "caBundle": base64.b64encode(pem).decode(),
                },
            }
        ],
    }
    place.cluster.create(config)
    yield
    kind = "MutatingWebhookConfiguration"
    place.cluster.delete(place.cluster.resource(config["apiVersion"], kind), name)
    server.shutdown()
    server.server_close()


# The log ----------------------------------------------------------------------------------------


def test_the_log_as_json(caplog):
    caplog.set_level(logging.INFO, "etcompile.watch")
    say(logging.WARNING, ("ml", "bert"), "failed\nINFO forged", pod="bert-0", reason="PodReplaced")
    assert caplog.messages == ["ml/bert-0: failed INFO forged"]
    line = json.loads(JsonFormatter().format(caplog.records[0]))
    assert line.pop("time")
    assert line == {
        "level": "WARNING",
        "namespace": "ml",
        "job": "bert",
        "pod": "bert-0",
        "reason": "PodReplaced",
        "message": "failed INFO forged",
    }


def test_the_form_of_the_log_is_an_option():
    result = CliRunner().invoke(command, ["--log-format", "xml"])
    assert result.exit_code == 2
    assert "'text', 'json'" in result.output


def test_a_ledger_keeps_what_it_is_about_and_no_more():
    now = [0.0]
    memory = Memory(clock=lambda: now[0])
    ledger = memory.of(("ml", "bert")).ledger
    assert ledger.is_news("failure", "a")
    assert ledger.is_news("failure", "b")
    assert not ledger.is_news("failure", "a")
    ledger.resolved("failure")
    assert ledger.is_news("failure", "a")
    for number in range(10_000):
        ledger.is_news("stranger", str(number))
    assert ledger.is_news("stranger", "0")  # too many to remember each
    assert ledger.supervised() == 0.0
    assert ledger.supervised() is None
    assert ledger.unsupervised("NameTaken")
    now[0] = 5.0
    assert not ledger.unsupervised("NameTaken")
    assert ledger.unsupervised("Refused")
    assert memory.unsupervised() == {"Refused": 1}
    assert ledger.supervised() == 5.0
    assert memory.unsupervised() == {"Refused": 0}  # a series that vanishes ends no alert
    assert ledger.ended()
    assert not ledger.ended()
