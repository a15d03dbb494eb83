"""What a launcher may ask of the Kubernetes API: to send commands into its workers, or nothing.

For the kinds whose launcher has an account of its own, whether it reaches its workers by ssh or
by exec.
"""

from typing import Any

from etcompile.model import ClusterAccess, PodTemplate

_EXEC: tuple[dict[str, Any], ...] = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    # kubectl opens an exec stream with GET since 1.31 and with POST before.
    {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]},
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
