"""ssh-keys.sh, which gives the keys to a user who is not root."""

import subprocess

import pytest


def _script(script, secret, home, port=22, **driver):
    values = {"renamed": [], "config": [], **driver}
    return script("ssh-keys.sh", secret_dir=str(secret), ssh_home=str(home), port=port, **values)


@pytest.fixture
def copied(shell, script, run, place, secret, other):
    """`copied(port=N)`: the directory after a run as the other user."""

    def copy(port=22):
        home = place / "home"
        home.mkdir(exist_ok=True)
        home.chmod(0o777)  # as an emptyDir
        keys = _script(script, secret, home, port)
        done = run(*other.become, *shell, keys)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
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
    output = subprocess.run([ssh, "-G", "-F", config, host], check=True, capture_output=True)
    return next(line for line in output.stdout.decode().splitlines() if line.startswith("port "))


def test_ssh_takes_the_other_port_for_every_host(copied, require):
    assert _port(copied(2222) / "config", "mnist-worker-0", require) == "port 2222"


def test_ssh_config_that_ends_in_a_host_section_keeps_that_section(copied, secret, require):
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
    keys = _script(script, place / "none", place / "home")
    assert run(*shell, keys).returncode != 0


_DRIVER = {
    "renamed": [
        ("ssh-privatekey", "id_rsa", "0600"),
        ("ssh-publickey", "id_rsa.pub", "0644"),
        ("ssh-publickey", "authorized_keys", "0644"),
    ],
    "config": ["StrictHostKeyChecking no"],
}


@pytest.fixture
def mounted(place):
    """What a CSI driver mounts: a link to each file, all of them readable by everybody."""
    folder = place / "mounted"
    (folder / "..data").mkdir(parents=True)
    for half in ("private", "public"):
        (folder / "..data" / f"ssh-{half}key").write_text(f"{half}\n")
        (folder / f"ssh-{half}key").symlink_to(f"..data/ssh-{half}key")
    return folder


def test_what_a_driver_mounts_gets_the_names_and_modes_that_ssh_wants(
    shell, script, run, place, mounted
):
    home = place / "home"
    home.mkdir()
    home.chmod(0o777)  # as an emptyDir, which sshd of root's would refuse
    for _ in range(2):  # the second time nothing changes
        done = run(*shell, _script(script, mounted, home, 2222, **_DRIVER))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {file.name: oct(file.stat().st_mode)[-4:] for file in home.iterdir()} == {
        "id_rsa": "0600",
        "id_rsa.pub": "0644",
        "authorized_keys": "0644",
        "config": "0600",
    }
    assert oct(home.stat().st_mode)[-4:] == "0700"
    assert (home / "authorized_keys").read_text() == "public\n"
    config = (home / "config").read_text()
    assert config == "StrictHostKeyChecking no\n\nHost *\n    Port 2222\n"


def test_a_key_that_the_driver_does_not_mount_fails(shell, script, run, place, mounted):
    (mounted / "ssh-publickey").unlink()
    home = place / "home"
    assert run(*shell, _script(script, mounted, home, **_DRIVER)).returncode != 0
