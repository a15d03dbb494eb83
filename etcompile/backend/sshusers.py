"""What a Pod needs where its ssh does not run as root: a port to bind, and a passwd entry."""

from typing import Any

from etcompile.model import Role, SshCredentials
from etcompile.model.protocol import USERS, USERS_PATH

MOUNT = {"name": USERS, "mountPath": "/etc/passwd", "subPath": "passwd", "readOnly": True}

_FIRST_FOREIGN_USER = 10_000
"""Users of images have lower IDs than this. IDs that a cluster gives out are higher."""
_PORT_START = "net.ipv4.ip_unprivileged_port_start"


def lacks_entry(role: Role) -> bool:
    """Whether ssh and sshd would not run because the image's /etc/passwd lacks the role's user."""
    mounts = role.template.main_container.get("volumeMounts", ())
    paths = {str(mount["mountPath"]).rstrip("/") for mount in mounts}
    foreign = (role.template.user or 0) >= _FIRST_FOREIGN_USER
    return foreign and paths.isdisjoint({"/etc", "/etc/passwd"})


def script(ssh: SshCredentials) -> str:
    """The script that writes the image's passwd file with the user that runs it."""
    home = ssh.mount_path.rstrip("/").rpartition("/")[0] or "/"
    entry = f'echo "etcompile:x:$(id -u):$(id -g)::{home}:/bin/sh"'
    return f"{{ cat /etc/passwd; id -un >/dev/null 2>&1 || {entry}; }} > {USERS_PATH}/passwd"


def sysctls(role: Role, ssh: SshCredentials | None) -> list[dict[str, Any]] | None:
    """The sysctls of a Pod whose sshd needs one to listen on port 22 without root; else None."""
    spec = role.template.spec
    given = spec.get("securityContext", {}).get("sysctls") or []
    chosen = spec.get("hostNetwork") or any(sysctl["name"] == _PORT_START for sysctl in given)
    if chosen or role.privileged_ssh_port(ssh) is None:
        return None
    return [*given, {"name": _PORT_START, "value": "0"}]
