"""How the replicas of a job find and reach each other: host lists, gates, ssh, `kubectl exec`.

The paths are a contract: Horovod takes kubexec.sh for its shell only under exactly that name
(reference/training-operator-mpijob.md 6, step 4). Kinds whose launcher comes by ssh decide in the
same way on which port: what the annotation says counts, else what the templates agree on.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.frontends.annotations import PREFIX, annotation_value, annotations_of
from etcompile.launch.ssh import SshPort, connecting_ports, declared_ports, listening_ports
from etcompile.model import (
    ClusterAccess,
    ConfigFile,
    ConfigMapVolume,
    Env,
    Gate,
    HostList,
    InitContainer,
    Mount,
    PodTemplate,
    SshCredentials,
)
from etcompile.model.protocol import HOSTS_PATH, SCRIPTS_PATH

# Host lists and gates ---------------------------------------------------------------------------

CONFIG = Mount("mpi-job-config", "/etc/mpi")
HOSTFILE = f"{CONFIG.path}/hostfile"
DISCOVERY = "discover_hosts.sh"
HOSTS = "hosts"
"""Key of the list that the discovery script prints."""
PEERS = "peers"
"""Key of the list of hosts that a gate waits for."""

NO_GPUS = (Env("NVIDIA_VISIBLE_DEVICES", ""), Env("NVIDIA_DRIVER_CAPABILITIES", ""))
"""Of a launcher that is no worker: it must not take the GPUs of its node."""


def peer_list(role: str) -> HostList:
    """The list of a role's hosts that `peer_gate` reads.

    It does not follow the Pods that are there, because names do not change in a run.
    """
    return HostList(PEERS, (role,), "{host}", live=False)


def peer_gate(role: str, timeout: int, name: str, port: int | None = None) -> Gate:
    """What waits for the hosts of `peer_list`."""
    return Gate(
        roles=(role,),
        hosts=f"{SCRIPTS_PATH}/{PEERS}",
        mounts=(),
        ssh=False,
        timeout=timeout,
        name=name,
        file=PEERS,
        port=port,
    )


def mpi_host_lists(
    line: str, host: str, *, launcher: bool, slots: bool = True
) -> tuple[HostList, ...]:
    """The hostfile, what the discovery script prints, and whom the launcher waits for.

    Args:
        line: A line of the hostfile, with `{slots}` and `{name}` for the host.
        host: How a host is named: `{host}`, with its domain where it needs one.
        launcher: The launcher is a host, too: the first.
        slots: The discovery script prints each host's slots.
    """
    hosts = ("launcher", "worker") if launcher else ("worker",)
    return (
        HostList("hostfile", hosts, line.replace("{name}", host)),
        # With slots, so that horovodrun needs no --slots-per-host.
        HostList(HOSTS, hosts, f"{host}:{{slots}}" if slots else host),
        HostList(PEERS, ("worker",), host, live=False),
    )


def discovery() -> ConfigFile:
    """The script that elastic Horovod runs to list its hosts."""
    values = {"live": f"{HOSTS_PATH}/{HOSTS}", "seed": f"{SCRIPTS_PATH}/{HOSTS}"}
    return ConfigFile(DISCOVERY, DISCOVERY, values)


def config_files(volume: str, *files: tuple[str, int]) -> ConfigMapVolume:
    """A volume of files from the job's ConfigMap, each under its own key."""
    return ConfigMapVolume(volume, tuple((key, key, mode) for key, mode in files))


def unless_set(container: Mapping[str, Any], *variables: Env) -> Iterator[Env]:
    """Those of our variables that the container does not have: they are no promise."""
    own = {env["name"] for env in container.get("env", ())}
    return (env for env in variables if env.name not in own)


def slots_per_worker(spec: Mapping[str, Any]) -> int:
    """Processes for each worker of an MPIJob."""
    slots = spec.get("slotsPerWorker")
    return 1 if slots is None else int(slots)


# By kubectl exec --------------------------------------------------------------------------------

KUBEXEC = "/etc/mpi/kubexec.sh"
KUBEXEC_FILE = ("kubexec.sh", 0o555)
KUBECTL_PATH = "/opt/kube"
RSH_AGENT = Env("OMPI_MCA_plm_rsh_agent", KUBEXEC)
# From 65 hosts on, Open MPI would start daemons from workers, which have no rights.
NO_TREE_SPAWN = Env("OMPI_MCA_plm_rsh_no_tree_spawn", "1")

_EXEC: tuple[dict[str, Any], ...] = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    # kubectl opens an exec stream with GET since 1.31 and with POST before.
    {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]},
)


def kubexec_script(container: str | None) -> ConfigFile:
    """The script that runs a command in a worker: in a container of it, if that is named."""
    values = {"container": container, "kubectl": f"{KUBECTL_PATH}/kubectl"}
    return ConfigFile("kubexec.sh", "kubexec.sh", values)


def kubectl_delivery(volume: str, resources: Mapping[str, str]) -> InitContainer:
    """The init container that brings kubectl."""
    return InitContainer(
        name="kubectl-delivery",
        image="kubectl",
        script=f'cp "$(command -v kubectl)" {KUBECTL_PATH}/kubectl',
        mounts=(Mount(volume, KUBECTL_PATH),),
        resources=resources,
    )


def launcher_access(
    job: str, launcher: PodTemplate, *, execs: bool, into: str | None = None
) -> tuple[ClusterAccess, str | None]:
    """The rights of a launcher, and the account that its Pods get.

    Args:
        job: The job's name.
        launcher: The launcher's template. If it names an account, that one is used, and none is
            created.
        execs: It reaches its workers by exec.
        into: The role into whose Pods, and no others, it may; None for any Pod of the namespace.
    """
    own = launcher.spec.get("serviceAccountName") or launcher.spec.get("serviceAccount")
    access = ClusterAccess(
        account=str(own or f"{job}-launcher"),
        create_account=not own,
        rules=_EXEC if execs else (),
        exec_into=into,
    )
    return access, None if own else access.account


# By ssh -----------------------------------------------------------------------------------------

SSH_PORT = f"{PREFIX}ssh-port"
_HIGHEST = 65535
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
    """The key pair of Kubeflow's MPI Operator and of its Trainer: a Secret of Kubernetes' type."""
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
    """The arguments of the ssh of a launcher: it tries again, on the annotated port if any."""
    port = annotations_of(source).get(SSH_PORT, "")
    return f"{_RETRIES} -p {port}" if _is_port(port) else _RETRIES


def ssh_port(
    source: Source, launcher: PodTemplate, worker: PodTemplate | None, *, serves: bool
) -> tuple[int | None, list[Diagnostic]]:
    """The port on which the workers' sshd is reached.

    Args:
        source: The document.
        launcher: The launcher's template.
        worker: The workers' template, if there are any.
        serves: The workers run etcompile's sshd, which listens where the launcher connects to.

    Returns:
        The port, None where the images decide, and what is to be said about it.
    """
    annotated = annotations_of(source).get(SSH_PORT)
    if annotated is not None:
        if _is_port(annotated):
            return int(annotated), []
        return None, [annotation_value(source, SSH_PORT, "a port number, quoted")]
    if worker is None:
        return None, []
    listens = () if serves else listening_ports(worker.main_container)
    declared = declared_ports(worker.main_container)
    connects = connecting_ports(launcher.main_container)
    # The nearest to the program comes first. What is only exposed moves no sshd of etcompile's.
    mentions = (*listens, *connects, *(() if serves else declared))
    if not mentions:
        return None, []
    open_ports = {port.number for port in listens}
    others = (*connects, *declared)
    first = mentions[0].number
    port = next((other.number for other in others if other.number in open_ports), first)
    wanted = open_ports or {port}
    if all(other.number in wanted for other in others):
        return port, []
    every: tuple[SshPort, ...] = (*listens, *others)
    odd = next(mention for mention in every if mention.number != port)
    place = (launcher if "launcher" in odd.where else worker).main_origin.locate(*odd.path)
    ports = ", ".join(dict.fromkeys(f"{mention.where} {mention.number}" for mention in every))
    facts = {"job": source.data["metadata"]["name"], "name": SSH_PORT, "port": port}
    return port, [diagnose(codes.SSH_PORTS_DISAGREE, place, ports=ports, **facts)]


def _is_port(text: str) -> bool:
    plain = text.isascii() and text.isdecimal() and len(text) <= len(str(_HIGHEST))
    return plain and 0 < int(text) <= _HIGHEST
