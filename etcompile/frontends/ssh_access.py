"""Decide how a launcher reaches its workers by ssh: the key pair, the port, the client's arguments.

For all kinds the annotation sets the port, or else the templates.
"""

from collections.abc import Mapping

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.frontends.annotations import PREFIX, annotation_value, annotations_of
from etcompile.launch.ssh import (
    SshPort,
    connecting_ports,
    declared_ports,
    listening_ports,
    port_number,
)
from etcompile.model import PodTemplate, SshCredentials

SSH_PORT = f"{PREFIX}ssh-port"
_RETRIES = "-o ConnectionAttempts=10"


def kubeflow_ssh_keys(
    secret: str,
    path: str,
    port: int | None,
    volume: str,
    *,
    mode: int | None,
    modes: Mapping[str, int] | None = None,
    roles: tuple[str, ...] = (),
) -> SshCredentials:
    """Return the key pair of Kubeflow's MPI Operator and Trainer: a Secret of Kubernetes' type."""
    private, public = "ssh-privatekey", "ssh-publickey"
    return SshCredentials(
        secret=secret,
        files=((private, "id_rsa"), (public, "id_rsa.pub"), (public, "authorized_keys")),
        mount_path=path,
        port=port,
        owned=True,
        copied=False,
        config=None,
        secret_type="kubernetes.io/ssh-auth",  # noqa: S106 - a type of Secret
        private_key=private,
        public_key=public,
        volume=volume,
        whole=True,
        mode=mode,
        modes=modes or {},
        roles=roles,
    )


def ssh_arguments(source: Source) -> str:
    text = annotations_of(source).get(SSH_PORT, "")
    return f"{_RETRIES} -p {text}" if port_number(text) else _RETRIES


def ssh_port(
    source: Source, launcher: PodTemplate, worker: PodTemplate | None, *, serves: bool
) -> tuple[int | None, list[Diagnostic]]:
    """Return the port of the workers' sshd (None if the images decide), and diagnostics.

    Args:
        serves: The workers run etcompile's sshd, which listens on the port of the launcher.
    """
    annotated = annotations_of(source).get(SSH_PORT)
    if annotated is not None:
        if (port := port_number(annotated)) is not None:
            return port, []
        return None, [annotation_value(source, SSH_PORT, "a port number, quoted")]
    if worker is None:
        return None, []
    listens = () if serves else listening_ports(worker.main_container)
    declared = declared_ports(worker.main_container)
    connects = connecting_ports(launcher.main_container)
    # Commands come before declared ports, which do not affect etcompile's sshd.
    mentions = (*listens, *connects, *(() if serves else declared))
    if not mentions:
        return None, []
    open_ports = {port.number for port in listens}
    others = (*connects, *declared)
    first = mentions[0].number
    port = next((other.number for other in others if other.number in open_ports), first)
    possible = open_ports or {port}
    if all(other.number in possible for other in others):
        return port, []
    every: tuple[SshPort, ...] = (*listens, *others)
    odd = next(mention for mention in every if mention.number != port)
    place = (launcher if "launcher" in odd.where else worker).main_origin.locate(*odd.path)
    ports = ", ".join(dict.fromkeys(f"{mention.where} {mention.number}" for mention in every))
    facts = {"job": source.data["metadata"]["name"], "name": SSH_PORT, "port": port}
    return port, [diagnose(codes.SSH_PORTS_DISAGREE, place, ports=ports, **facts)]
