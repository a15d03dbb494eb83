"""What kinds have in common whose launcher starts ranks in its workers by `kubectl exec`.

The paths are a contract: Horovod takes kubexec.sh for its shell only under exactly that name
(reference/training-operator-mpijob.md 6, step 4). The account that a launcher has for it is here,
too, for those that reach their workers by ssh.
"""

from collections.abc import Mapping
from typing import Any

from etcompile.model import ClusterAccess, ConfigFile, Env, InitContainer, Mount, PodTemplate

KUBEXEC = "/etc/mpi/kubexec.sh"
KUBEXEC_FILE = ("kubexec.sh", "kubexec.sh", 0o555)
KUBECTL_PATH = "/opt/kube"
RSH_AGENT = Env("OMPI_MCA_plm_rsh_agent", KUBEXEC)
# From 65 hosts on, Open MPI would start daemons from workers, which have no rights.
NO_TREE_SPAWN = Env("OMPI_MCA_plm_rsh_no_tree_spawn", "1")

_EXEC: tuple[dict[str, Any], ...] = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    # kubectl opens an exec stream with GET since 1.31 and with POST before.
    {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]},
)


def script(container: str | None) -> ConfigFile:
    """The script that runs a command in a worker: in a container of it, if that is named."""
    values = {"container": container, "kubectl": f"{KUBECTL_PATH}/kubectl"}
    return ConfigFile("kubexec.sh", "kubexec.sh", values)


def delivery(volume: str, resources: Mapping[str, str]) -> InitContainer:
    """The init container that brings kubectl."""
    return InitContainer(
        name="kubectl-delivery",
        image="kubectl",
        script=f'cp "$(command -v kubectl)" {KUBECTL_PATH}/kubectl',
        mounts=(Mount(volume, KUBECTL_PATH),),
        resources=resources,
    )


def own_account(template: PodTemplate) -> str | None:
    """The ServiceAccount that a template names itself."""
    account = template.spec.get("serviceAccountName") or template.spec.get("serviceAccount")
    return str(account) if account else None


def launcher_access(
    job: str, launcher: PodTemplate, *, execs: bool, into: str | None = None
) -> ClusterAccess:
    """The account and the rights of a launcher.

    Args:
        job: The job's name.
        launcher: The launcher's template; the account that it names is used, and not made.
        execs: It reaches its workers by exec.
        into: The role into whose Pods, and no others, it may; None for any Pod of the namespace.
    """
    own = own_account(launcher)
    return ClusterAccess(
        account=own or f"{job}-launcher",
        create_account=own is None,
        rules=_EXEC if execs else (),
        exec_into=into,
    )
