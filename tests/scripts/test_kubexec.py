"""kubexec.sh, as Open MPI and Horovod call it instead of ssh. kubectl is one that says its
arguments."""

import pytest

SAY = '#!/bin/sh\nprintf "<%s>" "$@"\nexit 7\n'


@pytest.fixture
def kubectl(place):
    """`kubectl(DIRECTORY)`: puts a kubectl there."""

    def put(directory):
        path = place / directory / "kubectl"
        path.parent.mkdir()
        path.write_text(SAY)
        path.chmod(0o755)
        return path

    return put


@pytest.fixture
def kubexec(shell, script, run, place):
    def kubexec(*arguments, container="worker", path="/nonexistent", pods=()):
        kubectl = str(place / "delivered" / "kubectl")
        text = script("kubexec.sh", container=container, kubectl=kubectl, pods=pods)
        return run(*shell, text, *arguments, env={"PATH": path})

    return kubexec


def test_it_runs_the_command_line_in_the_worker(kubexec, kubectl):
    kubectl("delivered")
    done = kubexec("mnist-worker-0", 'cd /a; env K="v w"', "orted", "-mca x")
    line = 'cd /a; env K="v w" orted -mca x'
    expected = f"<exec><mnist-worker-0><--container><worker><--></bin/sh><-c><{line}>"
    assert (done.returncode, done.stdout, done.stderr) == (7, expected, "")


def test_without_a_container_name_kubectl_chooses(kubexec, kubectl):
    kubectl("delivered")
    done = kubexec("w", "true", container=None)
    assert done.stdout == "<exec><w><--></bin/sh><-c><true>"


@pytest.mark.parametrize(
    ("host", "pod"),
    [
        ("mnist-worker-0", "mnist-lr2-worker-0"),
        ("mnist-worker-12", "mnist-lr2-worker-12"),
        ("mnist-launcher", "mnist-lr2-launcher"),
        ("mnist-worker-3.ml.svc", "mnist-lr2-worker-3"),
        ("mnist-workers", "mnist-workers"),
        ("other", "other"),
    ],
)
def test_a_host_is_the_pod_of_the_run(kubexec, kubectl, host, pod):
    kubectl("delivered")
    pods = [("mnist-worker", "mnist-lr2-worker"), ("mnist-launcher", "mnist-lr2-launcher")]
    assert f"<exec><{pod}>" in kubexec(host, "true", pods=pods).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["-x", "w"],
        ["-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no", "w"],
        ["-p", "2222", "-i", "/id", "-l", "root", "w"],
        ["-q", "-T", "-t", "-n", "-v", "w"],
        ["-p2222", "-oBatchMode=yes", "w"],
        ["root@w"],
        ["w", "-p", "2222", "-o", "ConnectTimeout=5"],
    ],
)
def test_options_of_ssh_are_skipped_wherever_ssh_takes_them(kubexec, kubectl, arguments):
    kubectl("delivered")
    done = kubexec(*arguments, "ls -l", "-x")
    assert done.stdout == "<exec><w><--container><worker><--></bin/sh><-c><ls -l -x>"


def test_the_kubectl_of_the_image_does_when_none_was_delivered(kubexec, kubectl):
    image = kubectl("image")
    assert kubexec("w", "true", path=str(image.parent)).returncode == 7


def test_no_kubectl_is_said_clearly(kubexec):
    done = kubexec("w", "true")
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("etcompile: no kubectl: ")


@pytest.mark.parametrize("arguments", [[], ["-x"], ["-o"]])
def test_no_host_is_said_clearly(kubexec, kubectl, arguments):
    kubectl("delivered")
    done = kubexec(*arguments)
    assert (done.returncode, done.stderr) == (2, "etcompile: usage: kubexec.sh HOST COMMAND...\n")
