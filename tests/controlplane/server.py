"""Starts etcd and kube-apiserver on free ports of 127.0.0.1, and says how to talk to them.

TLS, RBAC and the usual admission are on, so that tests meet the refusals that users meet. There is
no kube-controller-manager: nothing collects garbage or empties a namespace that is deleted, and
tests must not wait for it. Pods have no phase until a test writes their status.
"""

import base64
import contextlib
import ctypes
import io
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping, Sequence
from email.message import Message
from pathlib import Path
from typing import Any

import urllib3
from cryptography.hazmat.primitives.asymmetric import ec

from controlplane.certificates import Authority, write_key

ADMIN_TOKEN = "admin-token"
_WRITES = ("create", "update", "patch", "delete", "deletecollection")

# Who reads what is enough; a write is kept with what was sent, as the witness of what was done.
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "None", "users": ["system:apiserver"]},
        {"level": "Request", "verbs": list(_WRITES)},
        {"level": "Metadata"},
    ],
}


class ControlPlane:
    """A running API server."""

    def __init__(self, folder: Path, binaries: Path, *, flags: Sequence[str] = ()) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.binaries = binaries
        self._processes: list[subprocess.Popen[bytes]] = []
        self._audit = folder / "audit.log"
        # Where in that log each namespace begins.
        self._begun: dict[str, int] = {}
        self._http = urllib3.PoolManager(
            maxsize=32, retries=False, timeout=30, ca_certs=str(self.authority.file)
        )
        try:
            self._start(flags)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends both programs; what they wrote is nobody's."""
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        self._processes.clear()
        self._http.clear()

    # ---- who talks to it -----------------------------------------------------------------------

    def kubeconfig(
        self,
        *,
        user: str = "admin",
        groups: Sequence[str] = ("system:masters",),
        token: str = "",
        namespace: str = "default",
        server: str = "",
        context: str = "test",
    ) -> Path:
        """A kubeconfig file.

        Args:
            user: Who; it gets a client certificate, unless there is a token.
            token: A bearer token to use instead.
            server: Another URL than the API server's: a proxy's.
        """
        if token:
            who: dict[str, Any] = {"token": token}
        else:
            certificate, key = self.authority.user(user, groups)
            who = {"client-certificate": str(certificate), "client-key": str(key)}
        path = self.folder / f"kubeconfig-{uuid.uuid4().hex[:8]}"
        path.write_text(
            json.dumps(
                kubeconfig(server or self.server, self.authority.file, who, namespace, context)
            )
        )
        return path

    def service_account(self, namespace: str, name: str) -> str:
        """A token of a ServiceAccount, which is created if it is not there."""
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        with contextlib.suppress(urllib.error.HTTPError):
            self.ask("POST", accounts, {"metadata": {"name": name}})
        issued = self.ask("POST", f"{accounts}/{name}/token", {"spec": {}})
        token: str = issued["status"]["token"]
        return token

    def grant(self, namespace: str, user: str, rules: Sequence[dict[str, Any]] = ()) -> None:
        """Lets a user (or `system:serviceaccount:NAMESPACE:NAME`) do something in a namespace.

        Args:
            rules: What, as in a Role; everything if empty. The well-known ClusterRoles `edit` and
                `admin` are of no use here: the kube-controller-manager fills them.
        """
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
        name = f"test-{uuid.uuid4().hex[:8]}"
        group = "rbac.authorization.k8s.io"
        everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        role = {"metadata": {"name": name}, "rules": [*rules] or everything}
        self.ask("POST", f"{path}/roles", role)
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        }
        self.ask("POST", f"{path}/rolebindings", binding)

    def namespace(self, labels: Mapping[str, str] | None = None) -> str:
        """A new namespace, with the ServiceAccount that Pods have without asking."""
        name = f"test-{uuid.uuid4().hex[:8]}"
        self._begun[name] = self._audit.stat().st_size if self._audit.exists() else 0
        metadata = {"name": name, "labels": dict(labels or {})}
        self.ask("POST", "/api/v1/namespaces", {"metadata": metadata})
        accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
        self.ask("POST", accounts, {"metadata": {"name": "default"}})
        return name

    # ---- what tests do behind etcompile's back -------------------------------------------------

    def ask(self, method: str, path: str, body: Any = None, content: str | None = None) -> Any:
        """A request of the administrator, by other code than what is tested.

        Args:
            content: The type of the body; if None, a merge patch or an object.
        """
        url, data = self.server + path, None if body is None else json.dumps(body).encode()
        content = content or f"application/{'merge-patch+' if method == 'PATCH' else ''}json"
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": content}
        try:
            answer = self._http.request(method, url, body=data, headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise OSError(str(error)) from error
        if answer.status >= 300:
            said = io.BytesIO(answer.data)
            raise urllib.error.HTTPError(url, answer.status, answer.reason or "", Message(), said)
        return answer.json()

    def set_status(self, path: str, status: dict[str, Any]) -> Any:
        """Writes the status of an object, as a kubelet would: `set_status(pod_path, {...})`."""
        return self.ask("PATCH", f"{path}/status", {"status": status})

    def audit(self, namespace: str = "") -> list[dict[str, Any]]:
        """All requests to a namespace so far; all that there were if it is empty.

        The order is that in which they came: the log has them as they ended, and two that end at
        about the same time in any order.
        """
        marker = uuid.uuid4().hex.encode()
        # The log is written behind the answer: once this request is in it, so is what came before.
        self.ask("GET", f"/version?marker={marker.decode()}")
        with self._audit.open("rb") as log:
            log.seek(self._begun.get(namespace, 0))
            text = log.read()
            while marker not in text:
                time.sleep(0.01)
                text += log.read()
        # The last line may be one that is being written.
        lines = text[: text.rindex(b"\n")].splitlines()
        events = [json.loads(line) for line in lines if namespace.encode() in line]
        events.sort(key=lambda event: str(event["requestReceivedTimestamp"]))
        return [
            event
            for event in events
            if not namespace or (event.get("objectRef") or {}).get("namespace") == namespace
        ]

    def requests(self, agent: str) -> int:
        """How many requests there were so far of a user agent.

        In little memory: a process that this one starts is measured with what this one has.
        """
        marker = uuid.uuid4().hex
        self.ask("GET", f"/version?marker={marker}")
        named, sought = f'"userAgent":"{agent}'.encode(), marker.encode()
        while True:
            with self._audit.open("rb") as log:
                count = 0
                for line in log:
                    if sought in line:
                        return count
                    count += named in line
            time.sleep(0.1)

    def writes(self, namespace: str) -> list[dict[str, Any]]:
        """The requests to a namespace that changed something, with what was sent.

        Without that which gave it the ServiceAccount that each namespace has.
        """
        default_account = ("serviceaccounts", "default")
        return [
            event
            for event in self.audit(namespace)
            if event["verb"] in _WRITES
            and (event["objectRef"]["resource"], event["objectRef"].get("name")) != default_account
            and event["responseStatus"]["code"] < 300
            and "dryRun=All" not in event["requestURI"]
        ]

    def compact(self) -> None:
        """Makes etcd forget all versions but the newest."""
        key = base64.b64encode(b"/").decode()
        now = self._etcd("range", {"key": key, "limit": "1"})["header"]["revision"]
        self._etcd("compaction", {"revision": now, "physical": True})

    def half_delete(self, namespace: str, name: str, *, finalizers: bool = True) -> None:
        """Leaves a Pod as a deletion without grace does whose client is killed in the middle.

        The API server marks the Pod, and removes it with a second write. It leaves that out when
        nobody waits for the answer any more. Finalizers that the Pod has stay, if they are to.
        """
        pod = self.ask("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        pod["metadata"] |= {"deletionTimestamp": now, "deletionGracePeriodSeconds": 0}
        del pod["metadata"]["resourceVersion"]
        if not finalizers:
            pod["metadata"].pop("finalizers", None)
        stored = {"key": f"/registry/pods/{namespace}/{name}", "value": json.dumps(pod)}
        coded = {key: base64.b64encode(text.encode()).decode() for key, text in stored.items()}
        self._etcd("put", coded)

    def _etcd(self, verb: str, body: dict[str, Any]) -> Any:
        data = json.dumps(body).encode()
        url = f"{self._etcd_url}/v3/kv/{verb}"
        with urllib.request.urlopen(url, data, timeout=10) as answer:
            return json.load(answer)

    # ---- starting ------------------------------------------------------------------------------

    def _start(self, flags: Sequence[str]) -> None:
        etcd_port, peer_port, port = free_ports(3)
        self._etcd_url = f"http://127.0.0.1:{etcd_port}"
        peers = f"http://127.0.0.1:{peer_port}"
        self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            "--quota-backend-bytes=8589934592",  # who writes a megabyte a time fills 2 GiB soon
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
            "--log-level=error",
        )
        certificate, key = self.authority.server("server")
        accounts = self.folder / "accounts.key"
        write_key(accounts, ec.generate_private_key(ec.SECP256R1()))
        tokens = self.folder / "tokens.csv"
        tokens.write_text(
            f'{ADMIN_TOKEN},admin,1,"system:masters"\n'
            f'{ADMIN_TOKEN}-2,admin,1,"system:masters"\n'
            'nobody-token,nobody,2,""\n'
        )
        policy = self.folder / "audit.json"
        policy.write_text(json.dumps(_AUDIT_POLICY))
        self.server = f"https://127.0.0.1:{port}"
        self._run(
            "kube-apiserver",
            f"--etcd-servers={self._etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self.authority.file}",
            f"--token-auth-file={tokens}",
            f"--service-account-key-file={accounts}",
            f"--service-account-signing-key-file={accounts}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/16",
            "--authorization-mode=RBAC",
            "--endpoint-reconciler-type=none",
            "--allow-privileged",
            # Straight from etcd, which `compact` makes forget; the server's own memory does not.
            "--watch-cache-sizes=podtemplates#0",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self._audit}",
            "--audit-log-maxsize=100000",  # megabytes: it is never moved away
            *flags,
        )
        self._wait_until_ready()

    def _run(self, name: str, *arguments: str) -> None:
        log = self.folder / f"{name}.log"
        self._processes.append(start(log, self.binaries / name, *arguments))

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + 180
        trusted = ssl.create_default_context(cafile=str(self.authority.file))
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        while time.monotonic() < end:
            for process, name in zip(self._processes, ("etcd", "kube-apiserver"), strict=True):
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended: {self._log(name)}")
            try:
                request = urllib.request.Request(f"{self.server}/readyz", headers=headers)
                with urllib.request.urlopen(request, context=trusted, timeout=5):
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"kube-apiserver is not ready: {self._log('kube-apiserver')}")

    def _log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-1500:]


def kubeconfig(
    server: str, authority: Path, user: dict[str, Any], namespace: str, context: str
) -> dict[str, Any]:
    cluster = {"server": server, "certificate-authority": str(authority)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": context, "cluster": cluster}],
        "users": [{"name": context, "user": user}],
        "contexts": [
            {
                "name": context,
                "context": {"cluster": context, "user": context, "namespace": namespace},
            }
        ],
    }


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def start(log: Path, *command: str | Path, **how: Any) -> "subprocess.Popen[bytes]":
    """Starts a server that says what it does in a log, and ends with the test run."""
    with log.open("ab") as file:
        return subprocess.Popen(
            [*map(str, command)],
            stdout=file,
            stderr=subprocess.STDOUT,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
            **how,
        )


def _end_with_parent() -> None:
    """A test run that is killed must not leave servers behind."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() == 1:
        os._exit(1)
