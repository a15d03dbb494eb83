"""The key pair of an ssh job: made once, in the cluster, and seen nowhere else."""

import base64
import json
import subprocess

import pytest

from specs import manifest, mpi_job, training_job


def data(objects, name="mnist"):
    secret = objects()[f"Secret/{name}"]
    return {key: base64.b64decode(value) for key, value in secret["data"].items()}


def test_the_pair_is_one_that_openssh_reads(applied, kubelet, objects, require, tmp_path):
    ssh_keygen = require("ssh", which="ssh-keygen")
    applied(replicas=1)
    secret = objects()["Secret/mnist"]
    assert secret["immutable"] is True
    assert secret["type"] == "Opaque"
    files = data(objects)
    assert files.keys() == {"id_rsa", "id_rsa.pub", "config"}
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_bytes(files["id_rsa"])
    public = subprocess.run(
        [ssh_keygen, "-y", "-f", key], capture_output=True, text=True, check=True
    ).stdout
    assert public.split()[:2] == files["id_rsa.pub"].decode().split()[:2]
    assert public.startswith("ssh-ed25519 ")
    assert b"StrictHostKeyChecking no" in files["config"]


def test_mpi_jobs_get_the_keys_that_their_secret_type_demands(
    run, write, kubelet, objects, namespace
):
    document = mpi_job("v2beta1", "pi", slotsPerWorker=1)
    document["metadata"]["namespace"] = namespace
    write(document)
    run("apply", "jobs", code=0)
    secret = objects()["Secret/pi-ssh"]
    assert secret["type"] == "kubernetes.io/ssh-auth"
    assert secret["data"].keys() == {"ssh-privatekey", "ssh-publickey"}


def test_a_pair_that_is_there_is_never_replaced_or_pruned(applied, run, job, kubelet, objects):
    applied(replicas=1)
    before = objects()["Secret/mnist"]
    job(replicas=2)
    run("apply", "jobs", "--prune", code=0)
    assert run("apply", "jobs", "--prune", "--config", "secret=existing:mine").returncode in (0, 5)
    assert objects()["Secret/mnist"] == before


def test_secret_of_a_user_stays_unchanged(applied, kubelet, objects, ask):
    theirs = {"metadata": {"name": "mnist"}, "stringData": {"id_rsa": "a", "id_rsa.pub": "b"}}
    ask("POST", "secrets", theirs)
    before = objects()["Secret/mnist"]
    applied(replicas=1)
    assert objects()["Secret/mnist"] == before


def test_secret_without_a_key_pair_is_not_used_as_one(run, job, kubelet, objects, ask):
    theirs = {"metadata": {"name": "mnist"}, "stringData": {"password": "mine", "id_rsa.pub": "b"}}
    ask("POST", "secrets", theirs)
    before = objects()["Secret/mnist"]
    job(replicas=1)
    for options in ((), ("--adopt", "--replace", "--yes")):
        done = run("apply", "jobs", *options, code=4)
        assert "it has no id_rsa, which the Pods of the job mount" in done.stderr
    assert objects() == {"Secret/mnist": before}


@pytest.mark.parametrize("output", ["text", "json"])
def test_no_key_is_ever_shown(run, job, kubelet, objects, tmp_path, output):
    job(replicas=1)
    texts = [
        run("diff", "jobs", "--plan", "plan.json", "--output", output).stdout,
        (tmp_path / "plan.json").read_text(),
        run("apply", "jobs", "--dry-run=server", "--output", output).stdout,
    ]
    done = run("apply", "jobs", "--output", output)
    texts += [done.stdout, done.stderr, run("diff", "jobs", "--output", output).stdout]
    private = data(objects)["id_rsa"].decode()
    for text in texts:
        assert "PRIVATE KEY" not in text
        assert base64.b64encode(private.encode()).decode() not in text
        assert not any(line in text for line in private.splitlines()[1:-1])


def test_a_secret_with_values_is_applied_and_masked(run, write, kubelet, objects):
    secret = manifest("Secret", "s3", stringData={"password": "correct horse"})
    write(secret)
    run("apply", "jobs", "--config=allow-plain-secrets=true", code=0)
    assert data(objects, "s3") == {"password": b"correct horse"}
    secret["stringData"]["password"] = "battery staple"
    write(secret)
    shown = run("apply", "jobs", "--config=allow-plain-secrets=true", "--dry-run=client")
    applied = run("apply", "jobs", "--config=allow-plain-secrets=true", "--output", "json", code=0)
    assert data(objects, "s3") == {"password": b"battery staple"}
    for text in (shown.stdout, shown.stderr, applied.stdout, applied.stderr):
        assert "horse" not in text
        assert "staple" not in text
    assert json.loads(applied.stdout.splitlines()[-1])["done"] == 1


def test_a_conflict_about_a_secret_shows_no_value(run, write, ask):
    secret = manifest("Secret", "s3", data={"password": base64.b64encode(b"ours").decode()})
    write(secret)
    run("apply", "jobs", "--config=allow-plain-secrets=true")
    changed = {"data": {"password": base64.b64encode(b"theirs!").decode()}}
    ask("PATCH", "secrets/s3", changed, manager="theirs")
    secret["data"]["password"] = base64.b64encode(b"ours again").decode()
    write(secret, training_job())
    done = run("apply", "jobs", "--config=allow-plain-secrets=true", code=4)
    assert "theirs owns data.password" in done.stderr
    for value in (b"theirs!", b"ours again"):
        assert base64.b64encode(value).decode() not in done.stderr
