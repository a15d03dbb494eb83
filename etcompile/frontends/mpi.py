"""What MPIJob of the Training Operator and of the MPI Operator share.

Apart from both, because one reaches its workers by exec and the other by ssh, and they have
little else in common than a hostfile and a discovery script.
"""

from collections.abc import Iterator, Mapping

from etcompile.frontends.kubeflow import Replica, Spec
from etcompile.launch.commands import least_workers
from etcompile.model import ConfigFile, Env, HostList, Mount, SshCredentials
from etcompile.model.protocol import HOSTS_PATH, SCRIPTS_PATH

CONFIG = Mount("mpi-job-config", "/etc/mpi")
HOSTFILE = f"{CONFIG.path}/hostfile"
DISCOVERY = "discover_hosts.sh"
HOSTS = "hosts"
"""Key of the list that the discovery script prints."""
PEERS = "peers"
"""Key of the list of hosts that the launcher waits for."""

NO_GPUS = (Env("NVIDIA_VISIBLE_DEVICES", ""), Env("NVIDIA_DRIVER_CAPABILITIES", ""))
"""Of a launcher that is no worker: it must not take the GPUs of its node."""


def unless_given(launcher: Replica, *variables: Env) -> Iterator[Env]:
    """Those of our variables that the launcher's template does not have: they are no promise."""
    given = {env["name"] for env in launcher.template.main_container.get("env", ())}
    return (env for env in variables if env.name not in given)


def slots(spec: Spec) -> int:
    """Processes for each worker."""
    given = spec.fields.get("slotsPerWorker")
    return 1 if given is None else int(given)


def quorum(spec: Spec, worker: Replica, *, others: bool) -> int:
    """How many workers the launcher needs to begin; `others`: it is a host, too."""
    main = spec.part("Launcher").template.main_container
    return least_workers(main, worker.replicas, slots(spec), others=int(others))


def ssh_keys(
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


def discovery() -> ConfigFile:
    """The script that elastic Horovod asks for hosts."""
    values = {"live": f"{HOSTS_PATH}/{HOSTS}", "seed": f"{SCRIPTS_PATH}/{HOSTS}"}
    return ConfigFile(DISCOVERY, DISCOVERY, values)


def host_lists(line: str, host: str, *, launcher: bool, slots: bool = True) -> tuple[HostList, ...]:
    """The hostfile, what the discovery script prints, and whom the launcher waits for.

    Args:
        line: A line of the hostfile, with `{slots}` and `{name}` for the host.
        host: How a host is named: `{host}`, with its domain where it needs one.
        launcher: The launcher is a host, too: the first.
        slots: The discovery script tells each host's slots.
    """
    hosts = ("launcher", "worker") if launcher else ("worker",)
    return (
        HostList("hostfile", hosts, line.replace("{name}", host)),
        # With slots, so that horovodrun needs no --slots-per-host.
        HostList(HOSTS, hosts, f"{host}:{{slots}}" if slots else host),
        HostList(PEERS, ("worker",), host, live=False),
    )
