"""ssh-keys.sh, which gives the keys to a user who is not root."""

import subprocess

import pytest


@pytest.fixture
def copied(shell, script, run, place, secret, other, require):
    """`copied(port=N)`: the directory after a run as the other user."""

    def copy(port=22):
        home = place / "home"
        home.mkdir(exist_ok=True)
        home.chmod(0o777)  # as an emptyDir
        keys = script("ssh-keys.sh", secret_dir=str(secret), ssh_home=str(home), port=port)
        found = run(*other.become, *shell, keys)
        assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
        return home

    return copy


def test_private_is_private_and_public_is_public(copied):
    modes = {file.name: oct(file.stat().st_mode)[-4:] for file in copied().iterdir()}
    assert modes == {
        "id_rsa": "0600",
        "id_rsa.pub": "0644",
        "authorized_keys": "0644",
        "config": "0600",
    }


def test_the_standard_port_leaves_the_config_as_it_is(copied, secret):
    assert (copied() / "config").read_text() == (secret / "config").read_text()


def _port(config, host, require):
    ssh = require("ssh", which="ssh")
    told = subprocess.run([ssh, "-G", "-F", config, host], check=True, capture_output=True)
    return next(line for line in told.stdout.decode().splitlines() if line.startswith("port "))


def test_ssh_takes_the_other_port_for_every_host(copied, require):
    assert _port(copied(2222) / "config", "mnist-worker-0", require) == "port 2222"


def test_a_config_that_ends_in_a_host_of_its_own_keeps_it(copied, secret, require):
    config = secret / "config"
    config.chmod(0o644)
    config.write_text("Host store\n  Port 443")
    home = copied(2222)
    assert _port(home / "config", "store", require) == "port 443"
    assert _port(home / "config", "mnist-worker-0", require) == "port 2222"


def test_a_second_run_changes_nothing(copied):
    first = {file.name: file.read_bytes() for file in copied(2222).iterdir()}
    assert {file.name: file.read_bytes() for file in copied(2222).iterdir()} == first


def test_a_missing_secret_fails(shell, script, run, place):
    keys = script("ssh-keys.sh", secret_dir=f"{place}/none", ssh_home=f"{place}/home", port=22)
    assert run(*shell, keys).returncode != 0
