"""The official `kubernetes` client as the oracle of ours: the same kubeconfigs, servers and users.

Where it is wrong, which is why it is not what etcompile uses, its answer is pinned too: if a test
here fails because it has been mended, docs/dependencies.md is to be read again.
"""

import base64
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from controlplane.certificates import SERVER_NAME
from controlplane.server import kubeconfig
from etcompile.kubeapi import ClusterError, connect

ANONYMOUS = "system:anonymous"
REVIEW = {
    "apiVersion": "authentication.k8s.io/v1",
    "kind": "SelfSubjectReview",
    "metadata": {},
}


def refused_user(message: str) -> str:
    """Whom the API server refuses to answer: who is nobody may not even ask who that is."""
    assert ANONYMOUS in message, message
    return ANONYMOUS


def by_official(file: str, context: str | None = None) -> tuple[str, str]:
    """The user's name and the namespace, as the official client has them."""
    with config.new_client_from_config(config_file=file, context=context) as api:
        try:
            review = client.AuthenticationV1Api(api).create_self_subject_review(REVIEW)
            name = review.status.user_info.username
        except client.ApiException as refused:
            name = refused_user(str(refused.body))
    _, current = config.list_kube_config_contexts(file)
    named = {one["name"]: one for one in config.list_kube_config_contexts(file)[0]}
    chosen = named[context] if context else current
    return name, chosen["context"].get("namespace", "default")


def by_ours(file: str, context: str | None = None) -> tuple[str, str]:
    """The same, as ours has them; several files as KUBECONFIG names them."""
    several = os.pathsep in file
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", file)
        with connect(context, kubeconfig=None if several else file) as cluster:
            try:
                name: str = cluster.create(REVIEW)["status"]["userInfo"]["username"]
            except ClusterError as refused:
                if refused.status != 403:
                    raise
                name = refused_user(str(refused))
            return name, cluster.namespace


@pytest.fixture
def written(tmp_path: Path, control_plane: Any) -> Callable[..., str]:
    """`written(user, name=..., cluster fields)`: the path of a kubeconfig of one context."""

    def write(user: Mapping[str, Any], name: str = "test", **cluster: Any) -> str:
        ca = control_plane.authority.file
        value = kubeconfig(control_plane.server, ca, dict(user), f"of-{name}", name)
        given = {**value["clusters"][0]["cluster"], **cluster}
        value["clusters"][0]["cluster"] = {k: v for k, v in given.items() if v is not None}
        path = tmp_path / f"{name}.kubeconfig"
        path.write_text(json.dumps(value))
        return str(path)

    return write


def data(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


@pytest.fixture
def users(control_plane: Any, tmp_path: Path, plugin: Any) -> Mapping[str, Mapping[str, Any]]:
    """What a user of a kubeconfig can be, by what it is."""
    certificate, key = control_plane.authority.user("alice", [])
    (tmp_path / "token").write_text("nobody-token")
    return {
        "a token": {"token": "nobody-token"},
        "a token file": {"tokenFile": "token"},
        "certificate files": {"client-certificate": str(certificate), "client-key": str(key)},
        "relative files": {
            "client-certificate": os.path.relpath(certificate, tmp_path),
            "client-key": os.path.relpath(key, tmp_path),
        },
        "certificate data": {
            "client-certificate-data": data(certificate),
            "client-key-data": data(key),
        },
        "a plugin": {
            "exec": plugin(
                'print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1",'
                ' "kind": "ExecCredential", "status": {"token": "nobody-token"}}))'
            )
        },
        "nobody": {},
    }


@pytest.mark.parametrize(
    "named",
    [
        "a token",
        "a token file",
        "certificate files",
        "relative files",
        "certificate data",
        "a plugin",
        "nobody",
    ],
)
def test_both_are_the_same_user_in_the_same_namespace(named, users, written):
    file = written(users[named])
    assert by_ours(file) == by_official(file)


@pytest.mark.parametrize("change", ["data", "unchecked", "other name"])
def test_both_trust_a_server_for_the_same_reasons(change, written, control_plane):
    server = control_plane.server
    changed = {
        "data": {
            "certificate-authority": None,
            "certificate-authority-data": data(control_plane.authority.file),
        },
        "unchecked": {"certificate-authority": None, "insecure-skip-tls-verify": True},
        "other name": {
            "server": server.replace("127.0.0.1", "localhost"),
            "tls-server-name": SERVER_NAME,
        },
    }[change]
    file = written({"token": "nobody-token"}, **changed)
    assert by_ours(file) == by_official(file)


def test_both_take_the_context_that_is_named(written):
    first, second = written({"token": "nobody-token"}, "a"), written({"token": "admin-token"}, "b")
    files = os.pathsep.join((first, second))
    for context in ("a", "b"):
        assert by_ours(files, context) == by_official(files, context)


# ---- where it is wrong -----------------------------------------------------------------------


def test_it_takes_the_last_current_context_of_several_files(written):
    """kubectl takes the first: "the first file to set a particular value or map key wins"."""
    first, second = written({"token": "nobody-token"}, "a"), written({"token": "admin-token"}, "b")
    files = os.pathsep.join((first, second))
    assert by_ours(files)[1] == "of-a"
    assert by_official(files)[1] == "of-b"


def test_it_asks_as_nobody_after_a_plugin_has_failed(written, plugin):
    """kubectl stops: `getting credentials: exec: ...`."""
    file = written({"exec": plugin("sys.exit(1)")})
    assert by_official(file)[0] == ANONYMOUS
    with pytest.raises(ClusterError, match="plugin"):
        by_ours(file)


def test_it_drops_impersonation(written):
    """kubectl sends `Impersonate-User`: who acts as somebody of fewer rights must not have more."""
    file = written({"token": "admin-token", "as": "carol", "as-groups": ["ops"]})
    assert by_ours(file)[0] == "carol"
    assert by_official(file)[0] != "carol"
