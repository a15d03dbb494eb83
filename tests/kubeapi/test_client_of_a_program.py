"""A program's `kubernetes.client.ApiClient` in place of a context, at a real API server."""

import json
import subprocess
import sys

import pytest
import urllib3
from kubernetes import client, config

import etcompile
from etcompile import operations
from etcompile.kubeapi import Cluster
from etcompile.plan.plan_file import plan_value
from specs import training_job

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}


def user(cluster: Cluster) -> str:
    return cluster.create(REVIEW)["status"]["userInfo"]["username"]


@pytest.fixture
def configuration(control_plane) -> client.Configuration:
    """Where the API server is, and nothing of who asks."""
    settings = client.Configuration(host=control_plane.server)
    settings.ssl_ca_cert = str(control_plane.authority.file)
    return settings


@pytest.fixture
def administrator(control_plane):
    with config.new_client_from_config(str(control_plane.kubeconfig())) as client:
        yield client


def test_client_applies_scales_and_deletes_a_job_and_stays_open(administrator, namespace):
    core = client.CoreV1Api(administrator)
    compilation = etcompile.compile([training_job("bert")])
    with operations.connect(administrator, namespace) as cluster:
        assert cluster.server == administrator.configuration.host
        proposal = operations.apply_proposal(compilation, cluster)
        choices = operations.Choices(wait="none")
        assert operations.execute(cluster, proposal, choices).code == 0
        names = {pod.metadata.name for pod in core.list_namespaced_pod(namespace).items}
        assert "bert-launcher" in names
        deletion = operations.delete_proposal(cluster, [(None, "bert")])
        assert operations.execute(cluster, deletion, choices).code == 0
    assert core.list_namespaced_pod(namespace).items == []


def test_headers_of_the_client_are_sent_such_as_impersonation(administrator):
    administrator.set_default_header("Impersonate-User", "carol")
    with operations.connect(context=administrator) as cluster:
        assert user(cluster) == "carol"
        with pytest.raises(operations.ClusterError) as refused:
            cluster.list(cluster.resource("v1", "Pod"))
    assert refused.value.status == 403


def test_hook_of_the_client_renews_its_token_after_a_refusal(configuration):
    tokens = iter(["expired"])

    def renew(settings: client.Configuration) -> None:
        settings.api_key["authorization"] = next(tokens, "admin-token")

    configuration.api_key = {"authorization": "expired"}
    configuration.api_key_prefix = {"authorization": "Bearer"}
    configuration.refresh_api_key_hook = renew
    with client.ApiClient(configuration) as api, operations.connect(api) as cluster:
        assert user(cluster) == "admin"


def test_refused_token_that_stays_the_same_is_an_error(configuration):
    configuration.api_key = {"authorization": "Bearer expired"}
    with (
        client.ApiClient(configuration) as api,
        operations.connect(api) as cluster,
        pytest.raises(operations.ClusterError) as refused,
    ):
        cluster.version()
    assert refused.value.status == 401


def test_credential_plugin_of_the_client_runs_again_when_its_token_expires(
    written, plugin, tmp_path
):
    count = tmp_path / "count"
    program = (
        f"calls = pathlib.Path({str(count)!r})\n"
        "number = len(calls.read_text()) if calls.exists() else 0\n"
        "calls.write_text('x' * (number + 1))\n"
        "status = {'token': ['old-token', 'admin-token'][number > 0],\n"
        "          'expirationTimestamp': '2020-01-01T00:00:00Z'}\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1',\n"
        "                  'kind': 'ExecCredential', 'status': status}))"
    )
    file = written({"exec": plugin(program)})
    with config.new_client_from_config(str(file)) as api, operations.connect(api) as cluster:
        assert user(cluster) == "admin"
    assert len(count.read_text()) >= 2


def test_failed_renewal_is_a_clear_error(configuration):
    def fail(_: client.Configuration) -> None:
        raise RuntimeError("the vault is sealed")

    configuration.api_key = {"authorization": "Bearer admin-token"}
    configuration.refresh_api_key_hook = fail
    with (
        client.ApiClient(configuration) as api,
        operations.connect(api) as cluster,
        pytest.raises(operations.ClusterError, match="renew its token: the vault is sealed"),
    ):
        cluster.version()


def test_certificate_authority_and_verify_ssl_of_the_client_count(configuration):
    configuration.api_key = {"authorization": "Bearer admin-token"}
    configuration.ssl_ca_cert = None
    with (
        client.ApiClient(configuration) as api,
        operations.connect(api) as cluster,
        pytest.raises(operations.ClusterError, match="is not trusted"),
    ):
        cluster.version()
    configuration.verify_ssl = False
    with (
        client.ApiClient(configuration) as api,
        operations.connect(api) as cluster,
        pytest.warns(urllib3.exceptions.InsecureRequestWarning),
    ):
        assert cluster.version().startswith("v1.")


def test_proxy_of_the_client_is_used_and_named(configuration):
    configuration.api_key = {"authorization": "Bearer admin-token"}
    configuration.proxy = "http://127.0.0.1:1"
    with (
        client.ApiClient(configuration) as api,
        operations.connect(api) as cluster,
        pytest.raises(operations.ClusterError, match=r"the proxy 127\.0\.0\.1:1 of"),
    ):
        cluster.version()


def test_plan_saved_with_a_context_is_executed_with_a_client(
    administrator, control_plane, namespace, tmp_path
):
    compilation = etcompile.compile([training_job("bert")])
    file = tmp_path / "plan.json"
    with operations.connect(kubeconfig=control_plane.kubeconfig(), namespace=namespace) as cluster:
        plan = operations.apply_proposal(compilation, cluster).plan
        file.write_text(json.dumps(plan_value(plan)))
    saved = operations.saved_plan(str(file), context=administrator)
    with operations.connect(administrator, namespace) as cluster:
        proposal = operations.saved_proposal(saved, cluster, str(file), operations.Rights())
        assert {step.action for step in proposal.plan.steps} == {"create"}


def test_package_of_the_client_is_never_imported(control_plane):
    program = (
        "import sys, types, urllib3\n"
        "sys.modules['kubernetes'] = None\n"
        "from etcompile import operations\n"
        "server, authority = sys.argv[1:]\n"
        "settings = types.SimpleNamespace(host=server, ssl_ca_cert=authority)\n"
        "token = {'in': 'header', 'key': 'authorization', 'value': 'Bearer admin-token'}\n"
        "settings.auth_settings = lambda: {'BearerToken': token}\n"
        "pool = urllib3.PoolManager(ca_certs=authority)\n"
        "client = types.SimpleNamespace(configuration=settings, default_headers={},\n"
        "    rest_client=types.SimpleNamespace(pool_manager=pool))\n"
        "with operations.connect(client) as cluster:\n"
        "    print(cluster.version())\n"
    )
    words = [sys.executable, "-c", program, control_plane.server, control_plane.authority.file]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("v1."), done.stderr


@pytest.mark.parametrize("other", [1, client.CoreV1Api, client.Configuration])
def test_other_values_are_no_context(other):
    with pytest.raises(TypeError, match=r"is a name or a kubernetes\.client\.ApiClient, not a "):
        operations.connect(other if other == 1 else other())
