"""The policy mpi of a TrainJob's runtime: keys, hostfile, and who is reached by ssh.

reference/trainer-v2.md 5.6. The variables of the launcher are merged into its template (`merge`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from etcompile.diagnostics import Diagnostic, Source
from etcompile.frontends import hosts
from etcompile.frontends.ssh_access import kubeflow_ssh_keys, ssh_port
from etcompile.frontends.trainer import policies
from etcompile.frontends.trainer.policies import LAUNCHER, MAIN, NODE
from etcompile.model import HostList, Mount, Role

KEYS = "mpi-ssh-auth"
"""The volume of the keys."""
HOSTS = Mount("mpi-hostfile", hosts.CONFIG.path)
_HOSTFILE = "hostfile"
_SSH_HOME = "/root/.ssh"


def described(
    source: Source, runtime: Mapping[str, Any], roles: Sequence[Role]
) -> tuple[tuple[Role, ...], dict[str, Any], list[Diagnostic]]:
    """The policy's part of a job.

    Returns:
        All roles, the launcher with what the policy adds to it; fields of the job; and what is to
        be said about the port of ssh.
    """
    if (policy := policies.mpi(runtime)) is None:
        return tuple(roles), {}, []
    reached = {role.name: role for role in roles if role.name in (NODE, LAUNCHER)}
    launcher, node = reached.get(LAUNCHER), reached.get(NODE)
    is_host = {NODE, LAUNCHER} if policies.launcher_is_node(runtime) else {NODE}
    names = tuple(name for name in reached if name in is_host)
    elastic = policies.elastic(source.data) is not None
    lists = [HostList(_HOSTFILE, names, "{host} slots={slots}", live=elastic)]
    fields: dict[str, Any] = {"host_lists": lists, "slots": slots_of(source.data, runtime)}
    if elastic:  # by a script elastic Horovod finds hosts
        lists.append(HostList(hosts.HOSTS, names, "{host}:{slots}"))
        fields["files"] = (hosts.discovery(),)
    holders = tuple(name for name, role in reached.items() if role.template.main == MAIN)
    if not holders:
        return tuple(roles), fields, []
    port: int | None = None
    problems: list[Diagnostic] = []
    if launcher is not None:
        template = node.template if node is not None else None
        port, problems = ssh_port(source, launcher.template, template, serves=False)
    path = str(policy.get("sshAuthMountPath") or _SSH_HOME)
    # Root's ssh refuses a private key that its group may read.
    private = 0o600 if path.rstrip("/") == _SSH_HOME else 0o640
    fields["credentials"] = kubeflow_ssh_keys(
        f"{source.data['metadata']['name']}-mpi-ssh-auth",
        path,
        port,
        KEYS,
        mode=0o400,
        modes={"id_rsa": private, "id_rsa.pub": 0o644, "authorized_keys": 0o644},
        roles=holders,
    )
    if launcher is not None and LAUNCHER in holders:
        script = ((hosts.DISCOVERY, 0o555),) if elastic else ()
        additions = structs.replace(
            launcher.additions,
            volumes=(hosts.config_files(HOSTS.volume, (_HOSTFILE, 0o444), *script),),
            mounts=(HOSTS,),
            reads_hosts=elastic,
            scripts=(hosts.HOSTS,) if elastic else (),
        )
        own = structs.replace(launcher, additions=additions)
        roles = [own if role is launcher else role for role in roles]
    return tuple(roles), fields, problems


def slots_of(job: Mapping[str, Any], runtime: Mapping[str, Any]) -> int:
    """Processes that the launcher starts on each host."""
    main = policies.main_of(policies.replicated_job(runtime, LAUNCHER))
    return policies.slots(job, runtime, main)
