"""kubectl in one namespace of a real cluster, whoever asks: a test or a benchmark."""

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import etcompile
from etcompile import Options, Settings, emit

KUBECONFIG = os.environ.get("ETCOMPILE_E2E_KUBECONFIG")
KUBECTL = os.environ.get("ETCOMPILE_E2E_KUBECTL", "kubectl")


class Cluster:
    """kubectl in one namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def command(self, *words: str) -> list[str]:
        return [KUBECTL, "--kubeconfig", str(KUBECONFIG), "-n", self.namespace, *words]

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            self.command(*words), input=stdin, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def get(self, *words: str) -> Any:
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def phases(self) -> dict[str, str]:
        return {p["metadata"]["name"]: p["status"]["phase"] for p in self.get("pods")["items"]}

    def uids(self) -> dict[str, str]:
        items = self.get("pods")["items"]
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in items}

    def apply(self, *documents: Any, **settings: Any) -> None:
        """Renders documents and applies what comes of it."""
        self.kubectl("apply", "-f", "-", stdin=self.rendered(*documents, **settings))

    def rendered(self, *documents: Any, **settings: Any) -> str:
        options = Options(namespace=self.namespace, settings=Settings(**settings))
        compilation = etcompile.compile(list(documents), options)
        assert compilation.ok, compilation.diagnostics
        return emit.stream(compilation.objects, ["job.yaml"])

    def etcompile(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "etcompile", *words, "-n", self.namespace],
            env={**os.environ, "KUBECONFIG": str(KUBECONFIG)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def create_key(self, job: str, folder: Path) -> None:
        """Creates what the secret mode `runtime` leaves to the moment of apply, for any kind."""
        key = folder / "id_rsa"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        private, public = key.read_bytes(), key.with_suffix(".pub").read_bytes()
        config = b"StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
        self._create_secret(
            f"{job}-ssh",
            {"ssh-privatekey": private, "ssh-publickey": public},
            type="kubernetes.io/ssh-auth",
        )
        self._create_secret(job, {"id_rsa": private, "id_rsa.pub": public, "config": config})

    def _create_secret(self, name: str, files: dict[str, bytes], **fields: str) -> None:
        data = {file: base64.b64encode(text).decode() for file, text in files.items()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
        self.kubectl("apply", "-f", "-", stdin=json.dumps({**secret, **fields}))

    def log(self, *words: str) -> str:
        return self.kubectl("logs", *words)

    def until(self, holds: Callable[[dict[str, str]], bool], seconds: int = 120) -> dict[str, str]:
        end = time.monotonic() + seconds
        while not holds(phases := self.phases()):
            assert time.monotonic() < end, f"{phases}\n{self.kubectl('describe', 'pods')}"
            time.sleep(0.5)
        return phases
