"""Where the official `kubernetes` client is wrong, which is why etcompile uses its own.

If a test here fails because it has been mended, docs/dependencies.md is to be read again.
"""

import os

import pytest
from kubernetes import client, config

from etcompile.kubeapi import ClusterError, connect

ANONYMOUS = "system:anonymous"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}


def by_official(file: str) -> tuple[str, str]:
    """The user's name and the namespace, as the official client has them."""
    with config.new_client_from_config(config_file=file) as api:
        try:
            review = client.AuthenticationV1Api(api).create_self_subject_review(REVIEW)
            name = review.status.user_info.username
        except client.ApiException as refused:
            # Who is nobody may not even ask who that is.
            name = ANONYMOUS if ANONYMOUS in str(refused.body) else str(refused)
    _, current = config.list_kube_config_contexts(file)
    return name, current["context"].get("namespace", "default")


def by_ours(file: str) -> tuple[str, str]:
    """The same, as ours has them; several files as KUBECONFIG names them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", file)
        with connect() as cluster:
            name: str = cluster.create(REVIEW)["status"]["userInfo"]["username"]
            return name, cluster.namespace


def test_it_takes_the_last_current_context_of_several_files(written):
    """kubectl takes the first: "the first file to set a particular value or map key wins"."""
    first = written({"token": "nobody-token"}, "a", "of-a")
    files = f"{first}{os.pathsep}{written({'token': 'admin-token'}, 'b', 'of-b')}"
    assert by_ours(files)[1] == "of-a"
    assert by_official(files)[1] == "of-b"


def test_it_asks_as_nobody_after_a_plugin_has_failed(written, plugin):
    """kubectl stops: `getting credentials: exec: ...`."""
    file = str(written({"exec": plugin("sys.exit(1)")}))
    assert by_official(file)[0] == ANONYMOUS
    with pytest.raises(ClusterError, match="plugin"):
        by_ours(file)


def test_it_drops_impersonation(written):
    """kubectl sends `Impersonate-User`: who acts as somebody of fewer rights must not have more."""
    file = str(written({"token": "admin-token", "as": "carol", "as-groups": ["ops"]}))
    assert by_ours(file)[0] == "carol"
    assert by_official(file)[0] != "carol"
