"""Build host lists, gates, and the scripts with which MPI reaches hosts by `kubectl exec`.

The paths are a contract: Horovod uses kubexec.sh as its shell only under exactly that name
(reference/training-operator-mpijob.md 6, step 4).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile import model
from etcompile.model.protocol import HOSTS_PATH, SCRIPTS_PATH

CONFIG = model.Mount("mpi-job-config", "/etc/mpi")
HOSTFILE = f"{CONFIG.path}/hostfile"
DISCOVERY = "discover_hosts.sh"
HOSTS = "hosts"
"""Key of the list that the discovery script prints."""
PEERS = "peers"
"""Key of the list of hosts that a gate waits for."""

NO_GPUS = (model.Env("NVIDIA_VISIBLE_DEVICES", ""), model.Env("NVIDIA_DRIVER_CAPABILITIES", ""))
"""Variables of a launcher that is no worker, so that it does not take GPUs of its node."""


def peer_list(role: str) -> model.HostList:
    """Return the list of a role's hosts that `peer_gate` reads.

    It is not live, because names do not change in a run.
    """
    return model.HostList(PEERS, (role,), "{host}", live=False)


def peer_gate(role: str, timeout: int, **fields: Any) -> model.Gate:
    return model.Gate((role,), f"{SCRIPTS_PATH}/{PEERS}", timeout, file=PEERS, **fields)


def mpi_host_lists(
    line: str, host: str, *, launcher: bool, slots: bool = True
) -> tuple[model.HostList, ...]:
    """Return the hostfile, the list for the discovery script, and the hosts of the launcher's gate.

    A line of the hostfile has `{slots}` and `{name}` for the host. The launcher may be the first
    host; the discovery script may print each host's slots.
    """
    hosts = ("launcher", "worker") if launcher else ("worker",)
    return (
        model.HostList("hostfile", hosts, line.replace("{name}", host)),
        # With slots, horovodrun needs no --slots-per-host.
        model.HostList(HOSTS, hosts, f"{host}:{{slots}}" if slots else host),
        model.HostList(PEERS, ("worker",), host, live=False),
    )


def discovery() -> model.ConfigFile:
    """Return the script that elastic Horovod runs to list its hosts."""
    values = {"live": f"{HOSTS_PATH}/{HOSTS}", "seed": f"{SCRIPTS_PATH}/{HOSTS}"}
    return model.ConfigFile(DISCOVERY, DISCOVERY, values)


def config_files(volume: str, *files: tuple[str, int]) -> model.Volume:
    return model.Volume(volume, tuple((key, key, mode) for key, mode in files))


def unless_set(container: Mapping[str, Any], *variables: model.Env) -> Iterator[model.Env]:
    names = {env["name"] for env in container.get("env", ())}
    return (env for env in variables if env.name not in names)


def slots_per_worker(spec: Mapping[str, Any]) -> int:
    slots = spec.get("slotsPerWorker")
    return 1 if slots is None else int(slots)


KUBEXEC = "/etc/mpi/kubexec.sh"
KUBEXEC_FILE = ("kubexec.sh", 0o555)
KUBECTL_PATH = "/opt/kube"
RSH_AGENT = model.Env("OMPI_MCA_plm_rsh_agent", KUBEXEC)
# From 65 hosts on, Open MPI would start daemons from workers, which have no rights.
NO_TREE_SPAWN = model.Env("OMPI_MCA_plm_rsh_no_tree_spawn", "1")

_EXEC: tuple[dict[str, Any], ...] = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    # kubectl opens an exec stream with GET since 1.31 and with POST before.
    {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]},
)


def kubexec_script(container: str | None) -> model.ConfigFile:
    values = {"container": container, "kubectl": f"{KUBECTL_PATH}/kubectl"}
    return model.ConfigFile("kubexec.sh", "kubexec.sh", values)


def kubectl_delivery(volume: str, resources: Mapping[str, str]) -> model.InitContainer:
    return model.InitContainer(
        name="kubectl-delivery",
        image="kubectl",
        script=f'cp "$(command -v kubectl)" {KUBECTL_PATH}/kubectl',
        mounts=(model.Mount(volume, KUBECTL_PATH),),
        resources=resources,
    )


def launcher_access(
    job: str, launcher: model.PodTemplate, *, execs: bool, into: str | None = None
) -> tuple[model.ClusterAccess, str | None]:
    """Return the rights of a launcher, and the account that its Pods get.

    An account that the template names is not created. The launcher may execute commands only `into`
    the Pods of that role, or of any role if None.
    """
    account = launcher.spec.get("serviceAccountName") or launcher.spec.get("serviceAccount")
    access = model.ClusterAccess(
        account=str(account or f"{job}-launcher"),
        create_account=not account,
        rules=_EXEC if execs else (),
        exec_into=into,
    )
    return access, None if account else access.account
