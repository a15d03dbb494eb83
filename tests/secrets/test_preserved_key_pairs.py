"""An encrypted key pair is made once: what stands in the output folder is kept, or nothing is."""

import shutil

import pytest
import yaml
from keyholders import Owner, is_key_pair

from specs import overlay, scale_out, training_job, worker

_KINDS = ("SealedSecret", "Secret")


def _secret(folder):
    return next(one for kind in _KINDS for one in folder.objects(kind))


def _file(folder):
    signs = ("encryptedData:", "ENC[")
    return next(
        path for path in folder.out.rglob("*.yaml") if any(s in path.read_text() for s in signs)
    )


def _data(folder):
    value = _secret(folder)
    return value.get("data") or value["spec"]["encryptedData"]


def _first(folder, encrypting):
    """The mode of a first render, and the key pair that it has encrypted."""
    mode = encrypting()
    folder.rendered(mode)
    return mode, _data(folder)


def test_recipient_decrypts_the_secret_that_a_training_job_mounts(folder, recipient):
    mode, decrypted = recipient
    folder.rendered(mode)
    secret = decrypted(folder)
    assert (secret["type"], secret["immutable"]) == ("Opaque", True)
    assert (secret["metadata"]["namespace"], secret["metadata"]["name"]) == ("nlp", "bert")
    data = secret["data"]
    assert data.keys() == {"id_rsa", "id_rsa.pub", "config"}
    assert is_key_pair(data["id_rsa"], data["id_rsa.pub"])
    assert data["id_rsa.pub"].endswith(b" bert\n")
    assert b"StrictHostKeyChecking no\n" in data["config"]
    mounted = [
        one["secret"] for one in folder.objects("Pod")[0]["spec"]["volumes"] if "secret" in one
    ]
    assert [one["secretName"] for one in mounted] == ["bert"]


def test_recipient_decrypts_the_secret_that_an_mpi_job_mounts(mpi_folder, recipient):
    mode, decrypted = recipient
    mpi_folder.rendered(mode)
    secret = decrypted(mpi_folder)
    assert (secret["type"], secret["metadata"]["name"]) == ("kubernetes.io/ssh-auth", "pi-ssh")
    assert secret["data"].keys() == {"ssh-privatekey", "ssh-publickey"}
    assert is_key_pair(secret["data"]["ssh-privatekey"], secret["data"]["ssh-publickey"])


def test_later_renders_and_checks_change_no_byte(folder, encrypting):
    mode = encrypting()
    before = folder.rendered(mode)
    result = folder.render(mode)
    assert result.stderr.startswith(f"{folder.out}: 0 written")
    assert folder.render(mode, "--check").exit_code == 0
    assert folder.files() == before


def test_check_finds_a_key_pair_that_is_not_there(folder, encrypting):
    mode = encrypting()
    folder.rendered(mode)
    _file(folder).unlink()
    before = folder.files()
    result = folder.render(mode, "--check")
    assert result.exit_code == 1
    assert "missing" in result.stdout
    assert folder.files() == before


def test_another_machine_renders_the_same_from_the_same_folder(folder, encrypting, tmp_path):
    mode = encrypting()
    before = folder.rendered(mode)
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(folder.out, elsewhere)
    done = folder.run("render", folder.jobs, "-d", elsewhere, "--config", f"secret={mode}")
    assert done.exit_code == 0
    folder.out = elsewhere
    assert folder.files() == before


def test_a_scale_out_touches_no_key(folder, encrypting):
    mode, before = _first(folder, encrypting)
    folder.job(scale_out("more", 2, job="bert"))
    folder.rendered(mode)
    assert len(folder.objects("Pod")) == 5
    assert _data(folder) == before


def test_another_layout_of_the_folder_keeps_the_key(folder, encrypting):
    mode, before = _first(folder, encrypting)
    folder.rendered(mode, "--config=split=true", "--config", "profile=argocd")
    assert _data(folder) == before


def test_every_job_has_a_distinct_key_pair(folder, encrypting):
    mode, before = _first(folder, encrypting)
    folder.job(training_job("gpt"))
    folder.rendered(mode)
    by_job = {
        one["metadata"]["name"]: one.get("data") or one["spec"]["encryptedData"]
        for kind in _KINDS
        for one in folder.objects(kind)
    }
    assert by_job.keys() == {"bert", "gpt"}
    assert by_job["bert"] == before
    assert by_job["gpt"] != before


def test_another_namespace_is_another_key_pair(folder, encrypting):
    mode, before = _first(folder, encrypting)
    folder.job(training_job("bert"), namespace="vision")
    folder.rendered(mode)
    assert _secret(folder)["metadata"]["namespace"] == "vision"
    assert _data(folder) != before


def test_another_recipient_is_refused_with_the_two_ways_out(folder, encrypting):
    before = folder.rendered(encrypting())
    result = folder.render(encrypting())
    assert result.exit_code == 2
    assert "error[ET5015]" in result.stderr
    assert str(_file(folder)) in result.stderr
    way = "or start a new run with its own key pair: annotation etcompile.dev/run: ID"
    assert way in result.stderr
    ways = ("pass the certificate that it was sealed with", "pass --config secret=sops:age1")
    assert any(way in result.stderr for way in ways), result.stderr
    assert folder.files() == before


def test_new_run_id_encrypts_the_secret_for_another_recipient(folder, encrypting):
    folder.rendered(encrypting())
    before = _data(folder)
    mode = encrypting()
    folder.rendered(mode, "--run", "two")
    assert _secret(folder)["metadata"]["name"] == "bert-two"
    assert _data(folder) != before
    for pod in folder.objects("Pod"):
        names = [v["secret"]["secretName"] for v in pod["spec"]["volumes"] if "secret" in v]
        assert names == ["bert-two"]
    again = folder.files()
    assert folder.rendered(mode, "--run", "two") == again
    result = folder.render(encrypting(), "--run", "two")
    assert "annotation etcompile.dev/run: another ID" in result.stderr


def test_another_way_to_encrypt_is_refused(folder, certificate, owner):
    folder.rendered(f"sealed:{certificate}")
    result = folder.render(f"sops:{owner.recipient}")
    assert "its key pair is encrypted for sealed, not for sops" in result.stderr
    assert "stay with sealed" in result.stderr


def test_another_scope_is_refused(folder, certificate):
    folder.rendered(f"sealed:namespace-wide:{certificate}")
    result = folder.render(f"sealed:{certificate}")
    assert "its key pair is sealed namespace-wide, not strict" in result.stderr
    assert f"pass --config secret=sealed:namespace-wide:{certificate}" in result.stderr


def test_a_ciphertext_with_a_hole_is_refused(folder, encrypting):
    mode = encrypting()
    folder.rendered(mode)
    file = _file(folder)
    lines = file.read_text().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if line.strip().startswith("id_rsa:"))
    file.write_text("".join(lines[:place] + lines[place + 1 :]))
    result = folder.render(mode, "--force")
    assert "its ciphertext is not whole" in result.stderr
    assert "restore the file from Git" in result.stderr


def test_a_merge_conflict_makes_no_new_key_pair(folder, encrypting):
    mode = encrypting()
    folder.rendered(mode)
    file = _file(folder)
    file.write_text(file.read_text().replace("  name: bert\n", "<<<<<<< ours\n  name: bert\n", 1))
    before = folder.files()
    result = folder.render(mode, "--force")
    assert result.exit_code == 2
    assert f"its key pair may be in {file}, which cannot be read" in result.stderr
    assert folder.files() == before


def test_secret_rotated_by_its_owner_is_preserved(folder, owner, tmp_path):
    """As `sops rotate` leaves it: other ciphertexts, for another recipient."""
    folder.rendered(f"sops:{owner.recipient}")
    other, elsewhere = Owner(), tmp_path / "elsewhere"
    folder.run("render", folder.jobs, "-d", elsewhere, "--config", f"secret=sops:{other.recipient}")
    file = _file(folder)
    file.write_text((elsewhere / file.relative_to(folder.out)).read_text())
    before = folder.files()
    after = folder.rendered(f"sops:{other.recipient}")
    lock = "etcompile.lock.json"
    assert after == {**before, lock: after[lock]}


def test_a_stream_is_refused_and_says_why(folder, encrypting):
    result = folder.run("render", folder.jobs, "--config", f"secret={encrypting()}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "error[ET5014]" in result.stderr
    assert "render to a folder with -d DIR" in result.stderr


def test_a_job_without_ssh_needs_no_folder(folder, encrypting):
    (folder.jobs / "bert.yaml").unlink()
    folder.job(training_job("plain", launcherAttachMode="kubexec"))
    result = folder.run("render", folder.jobs, "--config", f"secret={encrypting()}")
    assert result.exit_code == 0, result.stderr
    assert "SealedSecret" not in result.stdout


def test_a_secret_that_the_job_names_is_left_alone(folder, encrypting):
    job = training_job("bert")
    job["metadata"]["annotations"] = {"arena.kubeflow.org/ssh-secret": "ours"}
    folder.job(job)
    folder.rendered(encrypting())
    assert not any(folder.objects(kind) for kind in _KINDS)


def test_check_and_diff_with_a_folder_need_no_new_key(folder, encrypting):
    mode = encrypting()
    assert folder.run("check", folder.jobs, "--config", f"secret={mode}", "-q").exit_code == 0
    folder.rendered(mode)
    same = folder.run("diff", folder.jobs, "--config", f"secret={mode}", "--against", folder.out)
    assert (same.exit_code, same.stderr) == (0, "")


def test_an_overlay_may_say_how_and_names_its_certificate_from_where_it_stands(
    folder, controller, tmp_path, monkeypatch
):
    (tmp_path / "prod").mkdir()
    controller.certificate(tmp_path / "prod" / "cert.pem")
    file = tmp_path / "prod" / "overlay.yaml"
    file.write_text(yaml.safe_dump(overlay(settings={"secret": "sealed:cert.pem"})))
    monkeypatch.chdir(folder.jobs)
    done = folder.run("render", folder.jobs, "-d", folder.out, "--overlay", file)
    assert done.exit_code == 0, done.stderr
    assert controller.unsealed(folder.object("SealedSecret"))["data"]
    lock = (folder.out / "etcompile.lock.json").read_text()
    assert '"cert.pem": "sha256:' in lock
    assert str(tmp_path) not in "".join(text.decode() for text in folder.files().values())


def test_nothing_in_the_clear_leaves(folder, mpi_folder, encrypting):
    mode = encrypting()
    results = [one.render(mode) for one in (folder, mpi_folder)]
    results.append(folder.render(encrypting()))
    results.append(folder.run("render", folder.jobs, "--config", f"secret={mode}"))
    said = "".join(result.output for result in results)
    files = b"".join(text for one in (folder, mpi_folder) for text in one.files().values())
    for text in (said, files.decode()):
        assert "PRIVATE KEY" not in text
        assert "UFJJVkFURSBLRV" not in text  # the same in base64
        assert "ssh-ed25519" not in text


def test_the_final_scan_still_refuses_a_key_in_the_clear(folder, encrypting):
    job = training_job("bert")
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n"
    worker(job)["template"]["spec"]["containers"][0]["env"] = [{"name": "KEY", "value": key}]
    folder.job(job)
    result = folder.render(encrypting())
    assert result.exit_code == 2
    assert "ET4006" in result.stderr
    assert "abc" not in result.stdout


@pytest.mark.parametrize("mode", ["sealed", "sealed:", "sops", "csi:", "vault", "runtime:x"])
def test_invalid_secret_mode_is_reported(folder, mode):
    result = folder.run("render", folder.jobs, "--config", f"secret={mode}")
    assert result.exit_code == 2
    assert "is not one of runtime, existing:NAME, external" in result.stderr


def test_a_secret_that_sops_encrypted_passes_among_the_inputs(folder, owner):
    folder.rendered(f"sops:{owner.recipient}")
    done = folder.run("render", _file(folder))
    assert done.exit_code == 0, done.stderr
    assert yaml.safe_load(done.stdout) == folder.object("Secret")
    half = _file(folder).read_text().replace("\ndata:\n", "\ndata:\n  token: c2VjcmV0\n", 1)
    (folder.jobs / "half.yaml").write_text(half.replace("name: bert\n", "name: half\n"))
    assert "ET4007" in folder.run("render", folder.jobs).stderr
