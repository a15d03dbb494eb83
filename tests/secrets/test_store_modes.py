"""The secret modes `csi:...` and `external...`: the keys stay in a vault, or in the cluster."""

import pytest
import yaml

from etcompile import backend
from etcompile.compiler.stored import read_stored
from etcompile.model import Settings
from etcompile.model.settings import secret_mode
from specs import by_name, compiled, training_job

_PATTERN = """
apiVersion: secrets-store.csi.x-k8s.io/v1
kind: SecretProviderClass
metadata: {name: any}
spec:
  provider: vault
  parameters:
    vaultAddress: https://vault.example.com
    roleName: training
    objects: |
      - {objectName: $(privateKey), secretPath: secret/data/$(namespace)/$(job), secretKey: private}
      - {objectName: $(publicKey), secretPath: secret/data/$(namespace)/$(job), secretKey: public}
"""
_COPY = "copy-ssh-keys"


@pytest.fixture
def pattern(tmp_path):
    file = tmp_path / "class.yaml"
    file.write_text(_PATTERN)
    return file


def _driver(pod):
    volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
    assert not any("secret" in one for one in volumes.values())
    (name,) = (name for name, one in volumes.items() if "csi" in one)
    copy = next(one for one in pod["spec"]["initContainers"] if one["name"] == _COPY)
    assert [one["mountPath"] for one in copy["volumeMounts"] if one["name"] == name] == [
        "/etc/etcompile/ssh"
    ]
    return volumes[name]["csi"]


def test_the_driver_mounts_a_class_that_somebody_looks_after(folder, mpi_folder):
    for one, count in ((folder, 3), (mpi_folder, 2)):
        one.rendered("csi:vault-ssh")
        assert not one.objects("SecretProviderClass")
        assert len(one.objects("Pod")) == count
        for pod in one.objects("Pod"):
            assert _driver(pod) == {
                "driver": "secrets-store.csi.k8s.io",
                "readOnly": True,
                "volumeAttributes": {"secretProviderClass": "vault-ssh"},
            }


@pytest.mark.parametrize(
    ("kind", "name", "job", "private", "public"),
    [
        ("folder", "bert", "bert", "id_rsa", "id_rsa.pub"),
        ("mpi_folder", "pi-ssh", "pi", "ssh-privatekey", "ssh-publickey"),
    ],
)
def test_pattern_produces_a_separate_class_for_each_job(
    request, pattern, kind, name, job, private, public
):
    folder = request.getfixturevalue(kind)
    before = folder.rendered(f"csi:{pattern}")
    value = folder.object("SecretProviderClass")
    assert value["metadata"]["name"] == name
    assert value["metadata"]["namespace"] == "nlp"
    assert value["spec"]["provider"] == "vault"
    objects = yaml.safe_load(value["spec"]["parameters"]["objects"])
    assert [one["objectName"] for one in objects] == [private, public]
    assert {one["secretPath"] for one in objects} == {f"secret/data/nlp/{job}"}
    for pod in folder.objects("Pod"):
        assert _driver(pod)["volumeAttributes"] == {"secretProviderClass": name}
    assert folder.rendered(f"csi:{pattern}") == before
    assert str(pattern) not in "".join(text.decode() for text in before.values())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (_PATTERN.replace("$(job)", "$(jobb)"), "there is no $(jobb); there are $(job), $(name"),
        (_PATTERN.replace("provider: vault", "provider: ''"), "its spec must name a provider"),
        (_PATTERN.replace("SecretProviderClass", "SecretProvider"), "it must hold one Secret"),
        (f"{_PATTERN}---{_PATTERN}", "it must hold one SecretProviderClass and nothing else"),
    ],
)
def test_invalid_pattern_is_reported(folder, pattern, text, problem):
    pattern.write_text(text)
    result = folder.render(f"csi:{pattern}")
    assert result.exit_code == 2
    assert f"--config secret=csi: {problem}" in result.stderr
    assert f"{pattern}:" in result.stderr


def test_missing_pattern_file_is_reported(folder, tmp_path):
    result = folder.render(f"csi:{tmp_path}/none.yaml")
    assert "error[ET1002]" in result.stderr


def test_the_graph_shows_that_pods_mount_the_class(folder, pattern):
    done = folder.run(
        "graph", folder.jobs, "--config", f"secret=csi:{pattern}", "--output", "mermaid"
    )
    assert done.exit_code == 0, done.stderr
    assert "SecretProviderClass" in done.stdout


def _external(mode):
    job = training_job("bert")
    settings = Settings(secret=secret_mode(mode))
    return by_name(compiled(job, settings=settings))


def test_generate_in_cluster_is_another_word_for_external():
    assert _external("generate-in-cluster") == _external("external")
    assert ("SSHKey", "bert-ssh") in _external("external")


@pytest.mark.parametrize(
    ("mode", "kind", "key"),
    [
        ("external:vault/ml/ssh", "SecretStore", "ml/ssh/bert"),
        ("external:cluster:vault/ml/", "ClusterSecretStore", "ml/bert"),
        ("external:vault", "SecretStore", "bert"),
    ],
)
def test_a_store_has_an_entry_for_each_secret(mode, kind, key):
    objects = _external(mode)
    assert not any(kind == "SSHKey" for kind, _ in objects)
    spec = objects["ExternalSecret", "bert-ssh"]["spec"]
    assert spec["secretStoreRef"] == {"kind": kind, "name": "vault"}
    assert [one["remoteRef"] for one in spec["data"]] == [
        {"key": key, "property": "id_rsa"},
        {"key": key, "property": "id_rsa.pub"},
    ]
    assert spec["target"]["name"] == "bert"
    assert spec["target"]["template"]["data"]["id_rsa"] == "{{ .private }}"


@pytest.mark.parametrize("mode", ["sealed:{cert}", "sops:{age}", "csi:{pattern}", "csi:vault-ssh"])
@pytest.mark.parametrize("run", [(), ("--run", "two")])
def test_whoever_makes_a_pod_again_mounts_the_same(folder, certificate, owner, pattern, mode, run):
    """From the stored job alone, which knows no file and no recipient."""
    mode = mode.format(cert=certificate, age=owner.recipient, pattern=pattern)
    folder.rendered(mode, *run)
    config = next(one for one in folder.objects("ConfigMap") if "job.yaml" in one["data"])
    text = config["data"]["job.yaml"]
    assert not any(secret in text for secret in (str(certificate), owner.recipient, str(pattern)))
    job, settings = read_stored(yaml.safe_load(text))
    again = backend.lower(job, settings, backend.Texts(), text)
    rendered = {one["metadata"]["name"]: one for one in folder.objects("Pod")}
    pods = [one for one in again if one["kind"] == "Pod"]
    assert {one["metadata"]["name"]: one["spec"]["volumes"] for one in pods} == {
        name: one["spec"]["volumes"] for name, one in rendered.items()
    }
