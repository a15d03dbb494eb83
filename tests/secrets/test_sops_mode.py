"""The secret mode `sops:age1...`: Secrets that SOPS decrypts for who holds an identity of age."""

import sys

import pytest
import yaml
from keyholders import Owner, by_sops

from specs import overlay

_FILE = "bert/10-secret-bert.yaml"


def test_each_of_several_recipients_decrypts_it_alone(folder, owner):
    other = Owner()
    folder.rendered(f"sops:{owner.recipient},{other.recipient}")
    value = folder.object("Secret")
    assert owner.decrypted(value) == other.decrypted(value)
    again = folder.files()
    assert folder.rendered(f"sops:{other.recipient}, {owner.recipient}") == again


@pytest.mark.parametrize("split", [(), ("--config=split=true",)])
def test_sops_decrypts_the_file_and_its_mac_is_right(folder, owner, split, require):
    sops = require("sops", which="sops")
    folder.rendered(f"sops:{owner.recipient}", "--config", "profile=argocd", *split)
    decrypted = by_sops(sops, folder.out / _FILE, owner)
    assert decrypted == owner.decrypted(folder.object("Secret"))["data"]


def test_sops_secret_has_a_separate_file_listed_in_the_kustomization(folder, owner):
    files = folder.rendered(f"sops:{owner.recipient}")
    assert len(list(yaml.safe_load_all(files[_FILE]))) == 1
    listed = yaml.safe_load(files["bert/kustomization.yaml"])["resources"]
    assert listed.index("10-secret-bert.yaml") < listed.index("90-launcher.yaml")


def test_a_changed_label_leaves_ciphertext_and_mac_right(folder, owner, tmp_path):
    folder.rendered(f"sops:{owner.recipient}")
    team = tmp_path / "team.yaml"
    team.write_text(yaml.safe_dump(overlay(labels=[{"pairs": {"team": "nlp"}}])))
    before = folder.object("Secret")
    folder.rendered(f"sops:{owner.recipient}", "--overlay", team, "--replace")
    after = folder.object("Secret")
    assert after["metadata"]["labels"]["team"] == "nlp"
    assert owner.decrypted(after)["data"] == owner.decrypted(before)["data"]


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("age1nobody", "has a letter that no recipient has"),
        ("ssh-ed25519 AAAA", "is no X25519 recipient of age"),
        ("age1" + "q" * 58, "is mistyped: its length or its checksum is wrong"),
        ("", "is no X25519 recipient of age"),
    ],
)
def test_invalid_recipient_is_reported(folder, owner, written, problem):
    result = folder.render(f"sops:{owner.recipient},{written}")
    assert result.exit_code == 2
    assert "error[ET5016]: --config secret=sops:" in result.stderr
    assert problem in result.stderr


def test_sops_without_pyrage_is_one_error_that_names_the_extra(folder, owner, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyrage", None)
    result = folder.render(f"sops:{owner.recipient}")
    assert (result.exit_code, folder.out.exists()) == (2, False)
    assert (
        "error[ET5027]: --config secret=sops needs pyrage, which is not installed" in result.stderr
    )
    assert "hint: install the extra etcompile[sops]" in result.stderr


def test_other_secret_modes_need_no_pyrage(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyrage", None)
    assert folder.render("external").exit_code == 0


def test_an_identity_in_place_of_a_recipient_is_not_repeated(folder, owner):
    identity = str(owner.identity)
    for written in (identity, identity.lower()):
        result = folder.render(f"sops:{written}")
        assert "this is an identity, which stays with its owner" in result.stderr
        assert written[16:] not in result.output
