"""What a Pod gets where its ssh does not run as root: a port to bind, and an entry in passwd."""

from typing import Any

import pytest

import etcompile
from etcompile import Options
from specs import by_name, compiled

SYSCTL = {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}
SSHD = {"command": ["/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"]}


def mpi_job(
    pod: dict[str, Any] | None = None, port: str | None = None, **main: Any
) -> dict[str, Any]:
    """An MPIJob v2 with these fields in both Pod specs, and these in the workers' container."""

    def role(container: dict[str, Any], **more: Any) -> dict[str, Any]:
        main = {"name": "main", "image": "mpi:5", **container}
        return {"template": {"spec": {"containers": [main], **(pod or {})}}, **more}

    launcher = {**main, "command": ["mpirun", "hostname"]}
    annotations = {"etcompile.dev/ssh-port": port} if port else {}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "pi", "namespace": "ml", "annotations": annotations},
        "spec": {
            "sshAuthMountPath": "/home/mpiuser/.ssh",
            "mpiReplicaSpecs": {"Launcher": role(launcher), "Worker": role(main, replicas=1)},
        },
    }


def as_user(user: int, **more: Any) -> dict[str, Any]:
    return {"securityContext": {"runAsUser": user, **more}}


def pod_spec(job: dict[str, Any], role: str = "worker") -> dict[str, Any]:
    objects = by_name(compiled(job))
    if role == "launcher":
        return dict(objects["Job", "pi-launcher"]["spec"]["template"]["spec"])
    return dict(objects["Pod", "pi-worker-0"]["spec"])


# Port -------------------------------------------------------------------------------------------


def sysctls(job: dict[str, Any]) -> Any:
    return pod_spec(job).get("securityContext", {}).get("sysctls")


@pytest.mark.parametrize(
    "job",
    [
        mpi_job(as_user(1000)),
        mpi_job(**as_user(1000)),
        mpi_job({"securityContext": {"runAsNonRoot": True}}),
        mpi_job(as_user(1000), port="22"),
        mpi_job(as_user(1000), command=["/usr/sbin/sshd", "-De", "-p", "22"]),
    ],
    ids=["pod", "container", "no-user", "annotation", "own-command"],
)
def test_a_worker_without_root_may_bind_a_port_below_1024(job: dict[str, Any]) -> None:
    assert sysctls(job) == [SYSCTL]
    assert pod_spec(job, "launcher").get("securityContext", {}).get("sysctls") is None


@pytest.mark.parametrize(
    "job",
    [
        mpi_job(),
        mpi_job(as_user(1000), **as_user(0)),
        mpi_job(as_user(1000), port="2222"),
        mpi_job(as_user(1000), **SSHD),
        mpi_job({**as_user(1000), "hostNetwork": True}),
    ],
    ids=["root", "root-in-pod-of-others", "high-port", "image-decides", "host-network"],
)
def test_a_worker_that_needs_no_low_port_gets_no_sysctl(job: dict[str, Any]) -> None:
    assert sysctls(job) is None


@pytest.mark.parametrize(
    ("user", "port", "warned"), [(1000, None, True), (1000, "2222", False), (0, None, False)]
)
def test_a_low_port_of_the_node_without_root_is_reported(
    user: int, port: str | None, warned: bool
) -> None:
    job = mpi_job({**as_user(user), "hostNetwork": True}, port=port)
    codes = [entry.code for entry in etcompile.compile([job], Options()).diagnostics]
    assert ("ET2147" in codes) is warned


def test_sysctls_of_the_template_stay() -> None:
    other = {"name": "net.ipv4.tcp_syncookies", "value": "1"}
    assert sysctls(mpi_job(as_user(1000, sysctls=[other]))) == [other, SYSCTL]
    sysctl = {**SYSCTL, "value": "20"}
    assert sysctls(mpi_job(as_user(1000, sysctls=[sysctl]))) == [sysctl]


# Entry in passwd --------------------------------------------------------------------------------


def passwd_mounts(spec: dict[str, Any]) -> dict[str, str | None]:
    """Each container of a Pod with a file mounted at /etc/passwd, and its volume."""
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    return {
        container["name"]: mount["name"]
        for container in containers
        for mount in container.get("volumeMounts", ())
        if mount["mountPath"] == "/etc/passwd"
    }


def test_a_user_that_no_image_knows_is_added_to_passwd() -> None:
    job = mpi_job(as_user(12345))
    assert passwd_mounts(pod_spec(job)) == {"main": "etcompile-users"}
    launcher = pod_spec(job, "launcher")
    names = dict.fromkeys(("wait-for-workers", "main"), "etcompile-users")
    assert passwd_mounts(launcher) == names
    first, _ = launcher["initContainers"]
    assert first["name"] == "etcompile-users"
    assert "::/home/mpiuser:/bin/sh" in first["command"][2]


@pytest.mark.parametrize(
    "job",
    [mpi_job(), mpi_job(as_user(1000)), mpi_job({"securityContext": {"runAsNonRoot": True}})],
    ids=["root", "user-of-an-image", "no-user"],
)
def test_the_passwd_file_of_the_image_stays_for_other_users(job: dict[str, Any]) -> None:
    assert passwd_mounts(pod_spec(job)) == {}


def test_a_passwd_file_of_the_template_stays() -> None:
    volume = {"name": "users", "configMap": {"name": "users"}}
    mount = {"name": "users", "mountPath": "/etc/passwd", "subPath": "passwd"}
    job = mpi_job({**as_user(12345), "volumes": [volume]}, volumeMounts=[mount])
    assert passwd_mounts(pod_spec(job)) == {"main": "users"}


# Shell ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "warned"),
    [
        ("gcr.io/distroless/python3-debian12", True),
        ("gcr.io/distroless/python3-debian12:nonroot", True),
        ("gcr.io/distroless/python3-debian12:debug-nonroot", False),
        ("cgr.dev/chainguard/static:latest", True),
        ("cgr.dev/chainguard/static-shell:latest", False),
        ("example.com/gcr.io/distroless/python3:1", False),
        ("python:3.12", False),
    ],
)
def test_an_image_that_is_known_to_have_no_shell_is_reported(image: str, warned: bool) -> None:
    diagnostics = etcompile.compile([mpi_job(image=image)], Options()).diagnostics
    messages = [diagnostic.message for diagnostic in diagnostics if diagnostic.code == "ET2146"]
    assert len(messages) == (2 if warned else 0)
