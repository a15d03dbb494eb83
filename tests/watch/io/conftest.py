"""A watcher under exactly the rights that its manifests give it, and who plays the kubelets."""

import contextlib
import os
import subprocess
import sys
import urllib.error
from collections.abc import Callable, Collection, Iterator

import pytest
from watched import QUICK, Place, Running

from etcompile.integrations.watcher_manifests import NAME, Installation, manifests
from etcompile.kubeapi import connect
from etcompile.watch.core.run import Timeouts
from installation.choices import IMAGE

PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
}


@pytest.fixture
def place(control_plane, namespace) -> Iterator[Place]:
    with connect(kubeconfig=control_plane.kubeconfig(), namespace=namespace) as cluster:
        started = Place(control_plane, cluster, namespace)
        yield started
        started.close()


@pytest.fixture
def run(control_plane, namespace, tmp_path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`run("apply", "job.yaml")`: the command, by an administrator of the namespace."""
    kubeconfig = control_plane.kubeconfig(token="admin-token", namespace=namespace)

    def etcompile(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "etcompile", *arguments],
            cwd=tmp_path,
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    return etcompile


@pytest.fixture
def granted(control_plane, namespace) -> Callable[..., str]:
    """`granted(without=(resource, verb))`: a token with the watcher's rights, and one less.

    Those of the manifests; the other ways of installing it grant the same (tests/installation).
    """

    def grant(without: tuple[str, str] | None = None, rights: Collection[str] = ()) -> str:
        installation = Installation(namespace, (namespace,), IMAGE, **dict.fromkeys(rights, True))
        for value in manifests(installation):
            if value["kind"] not in PATHS:
                continue
            if value["kind"] == "Role" and without:
                value["rules"] = [*_less(value["rules"], *without)]
            path = PATHS[value["kind"]].format(namespace)
            with contextlib.suppress(urllib.error.HTTPError):
                control_plane.ask("POST", path, value)
        return control_plane.service_account(namespace, NAME)

    return grant


def _less(rules: list[dict], resource: str, verb: str) -> Iterator[dict]:
    for rule in rules:
        others = [one for one in rule["resources"] if one != resource]
        if others:
            yield {**rule, "resources": others}
        left = [one for one in rule["verbs"] if one != verb]
        if left and len(others) < len(rule["resources"]):
            yield {**rule, "resources": [resource], "verbs": left}


@pytest.fixture
def watching(control_plane, namespace, granted) -> Iterator[Callable[..., Running]]:
    """`watching()`: a watcher with its own rights, started."""
    started: list[Running] = []

    def start(
        *,
        server: str = "",
        without: tuple[str, str] | None = None,
        leads: bool = True,
        timeouts: Timeouts = QUICK,
        rights: Collection[str] = (),
    ) -> Running:
        token = granted(without, rights=rights)
        kubeconfig = control_plane.kubeconfig(token=token, namespace=namespace, server=server)
        started.append(Running(kubeconfig, namespace, leads=leads, timeouts=timeouts))
        return started[-1].start()

    yield start
    for one in started:
        one.stop()
