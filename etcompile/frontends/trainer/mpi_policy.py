"""The policy mpi of a TrainJob's runtime: keys, hostfile, and who is reached by ssh.

reference/trainer-v2.md 5.6. The variables of the launcher are merged into its template (`merge`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from etcompile.diagnostics import Diagnostic, Source
from etcompile.frontends import hosts
from etcompile.frontends.ssh_access import kubeflow_ssh_keys, ssh_port
from etcompile.frontends.trainer import policies
from etcompile.frontends.trainer.policies import LAUNCHER, MAIN, NODE
from etcompile.model import ConfigFile, HostList, Mount, Role, SshCredentials

KEYS = "mpi-ssh-auth"
"""The volume of the keys."""
HOSTS = Mount("mpi-hostfile", hosts.CONFIG.path)
_HOSTFILE = "hostfile"
_SSH_HOME = "/root/.ssh"


class Described(Struct, frozen=True):
    """What the policy adds to a job.

    Args:
        roles: All roles, those of the policy with what it adds to them.
        host_lists: The hostfile.
        credentials: The keys, if anybody has them.
        slots: Processes on each host.
        files: The script by which elastic Horovod finds hosts, where nodes come and go.
        diagnostics: What is to be said about the port of ssh.
    """

    roles: tuple[Role, ...]
    host_lists: tuple[HostList, ...] = ()
    credentials: SshCredentials | None = None
    slots: int = 1
    files: tuple[ConfigFile, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def described(source: Source, runtime: Mapping[str, Any], roles: Sequence[Role]) -> Described:
    """The roles, keys and hostfile of a job; as they are if its runtime has another policy."""
    if (policy := policies.mpi(runtime)) is None:
        return Described(tuple(roles))
    reached = {role.name: role for role in roles if role.name in (NODE, LAUNCHER)}
    launcher, node = reached.get(LAUNCHER), reached.get(NODE)
    is_host = {NODE, LAUNCHER} if policies.launcher_is_node(runtime) else {NODE}
    names = tuple(name for name in reached if name in is_host)
    elastic = policies.elastic(source.data) is not None
    lists: tuple[HostList, ...] = (
        HostList(_HOSTFILE, names, "{host} slots={slots}", live=elastic),
    )
    files: tuple[ConfigFile, ...] = ()
    if elastic:
        lists += (HostList(hosts.HOSTS, names, "{host}:{slots}"),)
        files = (hosts.discovery(),)
    slots = slots_of(source.data, runtime)
    holders = tuple(name for name, role in reached.items() if role.template.main == MAIN)
    if not holders:
        return Described(tuple(roles), lists, None, slots, files)
    port: int | None = None
    problems: list[Diagnostic] = []
    if launcher is not None:
        template = node.template if node is not None else None
        port, problems = ssh_port(source, launcher.template, template, serves=False)
    path = str(policy.get("sshAuthMountPath") or _SSH_HOME)
    # Root's ssh refuses a private key that its group may read.
    private = 0o600 if path.rstrip("/") == _SSH_HOME else 0o640
    credentials = kubeflow_ssh_keys(
        f"{source.data['metadata']['name']}-mpi-ssh-auth",
        path,
        port,
        KEYS,
        mode=0o400,
        modes={"id_rsa": private, "id_rsa.pub": 0o644, "authorized_keys": 0o644},
        roles=holders,
    )
    made = tuple(
        _launcher(role, elastic=elastic) if role.name == LAUNCHER and LAUNCHER in holders else role
        for role in roles
    )
    return Described(made, lists, credentials, slots, files, tuple(problems))


def slots_of(job: Mapping[str, Any], runtime: Mapping[str, Any]) -> int:
    """Processes that the launcher starts on each host."""
    main = policies.main_of(policies.replicated_job(runtime, LAUNCHER))
    return policies.slots(job, runtime, main)


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
