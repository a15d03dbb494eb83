"""The policy mpi of a TrainJob's runtime: keys, hostfile, and who is reached by ssh.

reference/trainer-v2.md 5.6. Apart from the lowering, because only this policy has any of it. The
variables of the launcher are merged into its template (`policies`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from etcompile.diagnostics import Diagnostic, Source
from etcompile.frontends import hosts
from etcompile.frontends.hosts import ssh_port
from etcompile.frontends.trainer import policies
from etcompile.frontends.trainer.policies import LAUNCHER, MAIN, NODE, SSH_HOME
from etcompile.model import ConfigFile, HostList, Mount, Role, SshCredentials

KEYS = "mpi-ssh-auth"
"""The volume of the keys."""
HOSTS = Mount("mpi-hostfile", hosts.CONFIG.path)
_HOSTFILE = "hostfile"
_REACHED = (NODE, LAUNCHER)


class Described(Struct, frozen=True):
    """What the policy adds to a job.

    Args:
        roles: All roles, those of the policy with what it adds to them.
        host_lists: The hostfile.
        credentials: The keys, if anybody has them.
        files: The script that elastic Horovod asks for hosts, where nodes come and go.
        diagnostics: What is to be said about the port of ssh.
    """

    roles: tuple[Role, ...]
    host_lists: tuple[HostList, ...]
    credentials: SshCredentials | None
    files: tuple[ConfigFile, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def described(source: Source, runtime: Mapping[str, Any], roles: Sequence[Role]) -> Described:
    """The roles, keys and hostfile of a job whose runtime has the policy."""
    named = {role.name: role for role in roles}
    launcher, node = named.get(LAUNCHER), named.get(NODE)
    holders = tuple(role.name for role in roles if role.name in _REACHED and _has_main(role))
    elastic = policies.elastic(source.data) is not None
    made = tuple(
        _launcher(role, elastic=elastic) if role is launcher and _has_main(role) else role
        for role in roles
    )
    names = tuple(role.name for role in roles if role.name in hosts_of(runtime))
    lists: tuple[HostList, ...] = (
        HostList(_HOSTFILE, names, "{host} slots={slots}", live=elastic),
    )
    files: tuple[ConfigFile, ...] = ()
    if elastic:
        lists += (HostList(hosts.HOSTS, names, "{host}:{slots}"),)
        files = (hosts.discovery(),)
    if not holders:
        return Described(made, lists, None, files)
    port: int | None = None
    told: list[Diagnostic] = []
    if launcher is not None:
        template = node.template if node is not None else None
        port, told = ssh_port(source, launcher.template, template, serves=False)
    name = source.data["metadata"]["name"]
    credentials = _credentials(runtime, name, port, holders)
    return Described(made, lists, credentials, files, tuple(told))


def hosts_of(runtime: Mapping[str, Any]) -> tuple[str, ...]:
    """The replicatedJobs whose Pods are in the hostfile."""
    return _REACHED if policies.launcher_is_node(runtime) else (NODE,)


def is_own_host(runtime: Mapping[str, Any], role: str) -> bool:
    """Whether a role starts processes on its own host, too, by the name in the hostfile."""
    if policies.mpi(runtime) is None:
        return False
    return role == LAUNCHER and policies.launcher_is_node(runtime)


def is_reached_by_ssh(runtime: Mapping[str, Any], roles: Sequence[str]) -> bool:
    """Whether roles that somebody waits for are reached by ssh."""
    return policies.mpi(runtime) is not None and NODE in roles


def slots_of(job: Mapping[str, Any], runtime: Mapping[str, Any]) -> int:
    """Processes on each host; 1 without the policy."""
    if policies.mpi(runtime) is None:
        return 1
    launcher = policies.replicated_job(runtime, LAUNCHER)
    return policies.slots(job, runtime, policies.main_of(launcher))


def _has_main(role: Role) -> bool:
    return role.template.main == MAIN


def _launcher(role: Role, *, elastic: bool) -> Role:
    script = ((hosts.DISCOVERY, 0o555),) if elastic else ()
    additions = structs.replace(
        role.additions,
        volumes=(hosts.config_files(HOSTS.volume, (_HOSTFILE, 0o444), *script),),
        mounts=(HOSTS,),
        reads_hosts=elastic,
        scripts=(hosts.HOSTS,) if elastic else (),
    )
    return structs.replace(role, additions=additions)


def _credentials(
    runtime: Mapping[str, Any], job: str, port: int | None, holders: tuple[str, ...]
) -> SshCredentials:
    path = str((policies.mpi(runtime) or {}).get("sshAuthMountPath") or SSH_HOME)
    # Root's ssh refuses a private key that its group may read.
    private = 0o600 if path.rstrip("/") == SSH_HOME else 0o640
    modes = {"id_rsa": private, "id_rsa.pub": 0o644, "authorized_keys": 0o644}
    secret = f"{job}-mpi-ssh-auth"
    return hosts.kubeflow_ssh_keys(secret, path, port, KEYS, mode=0o400, modes=modes, roles=holders)
