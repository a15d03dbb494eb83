"""The mode `sealed:CERT.pem`: SealedSecrets that the controller, and nobody else, can open."""

import pytest
import yaml
from cryptography.exceptions import InvalidTag
from keyholders import Controller, by_kubeseal, elliptic

from specs import patch, training_job

_WIDE = {
    "strict": {},
    "namespace-wide": {"sealedsecrets.bitnami.com/namespace-wide": "true"},
    "cluster-wide": {"sealedsecrets.bitnami.com/cluster-wide": "true"},
}


@pytest.mark.parametrize("scope", _WIDE)
def test_each_scope_is_what_the_ciphertext_is_bound_to(folder, certificate, controller, scope):
    folder.rendered(f"sealed:{scope}:{certificate}")
    value = folder.object("SealedSecret")
    annotations = value["metadata"]["annotations"]
    assert {key: annotations[key] for key in annotations if "bitnami" in key} == _WIDE[scope]
    assert value["spec"]["template"]["metadata"].get("annotations", {}) == _WIDE[scope]
    assert controller.unsealed(value)["data"]
    for field, opened_by in (("name", "namespace-wide"), ("namespace", "cluster-wide")):
        moved = {**value, "metadata": {**value["metadata"], field: "other"}}
        if scope in (opened_by, "cluster-wide"):
            assert controller.unsealed(moved)["data"]
        else:
            with pytest.raises((ValueError, InvalidTag)):
                controller.unsealed(moved)


@pytest.mark.parametrize("scope", _WIDE)
def test_kubeseal_recovers_it(folder, certificate, controller, scope, tmp_path, require):
    kubeseal = require("kubeseal", which="kubeseal")
    folder.rendered(f"sealed:{scope}:{certificate}")
    value = folder.object("SealedSecret")
    decrypted = by_kubeseal(kubeseal, value, controller.private(tmp_path / "key.pem"))
    assert decrypted == controller.unsealed(value)["data"]


def test_another_controller_cannot_open_it(folder, certificate):
    folder.rendered(f"sealed:{certificate}")
    with pytest.raises(ValueError):  # noqa: PT011 - what cryptography says is its own
        Controller().unsealed(folder.object("SealedSecret"))


def test_a_scope_that_names_a_namespace_gives_a_job_without_one_the_default(
    folder, certificate, controller
):
    folder.job(training_job("bert"), namespace="")
    result = folder.render(f"sealed:{certificate}")
    assert "ET2043" in result.stderr
    value = folder.object("SealedSecret")
    assert value["metadata"]["namespace"] == "default"
    assert controller.unsealed(value)["data"]
    folder.rendered(f"sealed:cluster-wide:{certificate}", "--run", "two")
    assert "namespace" not in folder.object("SealedSecret")["metadata"]


def test_unusable_certificate_is_reported_with_the_reason(folder, controller, tmp_path):
    expired = controller.certificate(tmp_path / "expired.pem", days=-1)
    text = tmp_path / "text.pem"
    text.write_text("-----BEGIN CERTIFICATE-----\nbm90IG9uZQ==\n-----END CERTIFICATE-----\n")
    files = {
        expired: "it has expired on",
        text: "it holds no certificate",
        tmp_path / "none.pem": "the file cannot be read: no such file",
        tmp_path: "it is no file",
        controller.private(tmp_path / "key.pem"): "it holds no certificate",
        controller.certificate(tmp_path / "ec.pem", key=elliptic()): "its key is no RSA key",
    }
    for file, problem in files.items():
        result = folder.render(f"sealed:{file}")
        assert result.exit_code == 2
        assert f"error[ET5016]: --config secret=sealed:{file}: {problem}" in result.stderr
    assert not folder.out.exists()


def test_an_expired_certificate_is_good_enough_for_what_was_sealed_with_it(
    folder, controller, certificate
):
    before = folder.rendered(f"sealed:{certificate}")
    controller.certificate(certificate, days=-1)  # of the same key
    after = folder.rendered(f"sealed:{certificate}")
    assert after["bert/10-prereqs.yaml"] == before["bert/10-prereqs.yaml"]


def test_a_renewed_certificate_of_the_same_key_changes_no_manifest(folder, controller, certificate):
    before = folder.rendered(f"sealed:{certificate}")
    controller.certificate(certificate, days=700)
    after = folder.rendered(f"sealed:{certificate}")
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"etcompile.lock.json"}  # where the certificate is an input


def test_the_graph_shows_whose_the_mounted_secret_is(folder, certificate):
    mode = f"sealed:{certificate}"
    result = folder.run("graph", folder.jobs, "--config", f"secret={mode}", "--output", "mermaid")
    assert result.exit_code == 0
    assert "SealedSecret" in result.stdout


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"spec": {"template": {"immutable": "yes"}}}, "ET6006"),
        ({"spec": {"template": {"type": 5}}}, "ET6006"),
        ({"spec": {"encryptedData": []}}, "ET6006"),
        ({"metadata": {"labels": {"team": 5}}}, "ET4002"),
        ({"metadata": {"labels": {"a b": "c"}}}, "ET4002"),
    ],
)
def test_overlay_with_wrong_type_is_refused(folder, certificate, tmp_path, change, code):
    overlay = tmp_path / "team.yaml"
    overlay.write_text(yaml.safe_dump(patch(change, kind="SealedSecret")))
    result = folder.render(f"sealed:{certificate}", "--overlay", overlay)
    assert (result.exit_code, f"error[{code}]" in result.stderr) == (2, True)
