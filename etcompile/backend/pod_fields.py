"""Merge fields of a PodSpec that both the template and etcompile set.

Variables: the source operators append theirs, so a name that the template has too occurs twice and
the last entry counts (reference/et-operator.md 2.5, item 3; reference/training-operator.md 2.2
and 7, defect 26; reference/mpi-operator-v2.md 3.5; reference/dlrover.md 3.2). Server-side apply
refuses such a list. The earlier entry cannot simply be dropped: entries between the two may refer
to it as `$(NAME)`, and must get its value.

Tolerations: Kubernetes completes the list of every Pod that it admits. Argo CD compares lists as a
whole: if Git has a shorter list than the Pod, they differ for ever, and self-healing never ends. So
a list that is written is written in full; a Pod without one is left without.

Without root, ssh needs a port that it can bind and a passwd entry.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etcompile.backend.job_config import PREFLIGHT_SCRIPT
from etcompile.k8s.objects import Object, labels_of
from etcompile.model import Job, Role, SshCredentials
from etcompile.model.protocol import (
    HOSTS,
    PREFLIGHT,
    ROLE_LABEL,
    RUN_STATE,
    SCRIPTS,
    SCRIPTS_PATH,
    STATUS,
    USERS,
    USERS_PATH,
)

Variables = Sequence[Mapping[str, Any]]

_SYNTAX = re.compile(r"\$\$|\$\(([^)]{0,1024})\)|\$")
"""An escaped dollar, a reference, or a dollar that stays: as the kubelet reads a value."""
_RENAMED = "ETCOMPILE_TEMPLATE_"


def merged_variables(theirs: Variables, ours: Variables) -> list[Mapping[str, Any]]:
    """Merge the variables of a container to a list that means the same as `[*theirs, *ours]`.

    The kubelet goes through the list in order. A reference in a value is to an earlier entry; one
    to an unknown name stays as written; `$$` is a dollar; the last entry of a name counts.

    Args:
        theirs: The template's, each name once.
        ours: The job's, each name once; they refer only to earlier ones among themselves.

    Returns:
        The list with each name once. A reference to an overridden entry is replaced by the text of
        that entry. If its text would mean something else there, or it has none, as with a key of a
        Secret, the entry stays under another name.
    """
    overridden = {env["name"] for env in ours}.intersection(env["name"] for env in theirs)
    if not overridden:
        return [*theirs, *ours]
    merged: list[Mapping[str, Any]] = []
    references = {name for env in theirs for name in _referenced_names(env) if name != env["name"]}
    texts: dict[str, str] = {}
    names = {env["name"] for env in theirs}
    # Entries that this entry cannot refer to, but later references to it might.
    later = names - overridden
    for env in theirs:
        name, rewritten = env["name"], env
        if not texts.keys().isdisjoint(_referenced_names(env)):
            value = _SYNTAX.sub(lambda match: texts.get(match[1], match[0]), env["value"])
            rewritten = {**env, "value": value}
        later.discard(name)
        if name not in overridden:
            merged.append(rewritten)
        elif name in references and ("valueFrom" in env or later & {*_referenced_names(env)}):
            renamed = f"{_RENAMED}{name}"
            while renamed in names:
                renamed += "_"
            texts[name] = f"$({renamed})"
            merged.append({**rewritten, "name": renamed})
        else:
            # It must mean the same wherever it is inserted, so no dollar may stay unescaped.
            text = str(rewritten.get("value") or "")
            texts[name] = _SYNTAX.sub(lambda match: "$$" if match[0] == "$" else match[0], text)
    return [*merged, *ours]


def _referenced_names(env: Mapping[str, Any]) -> Iterator[str]:
    value = env.get("value")
    if isinstance(value, str) and "$(" in value:
        yield from (match[1] for match in _SYNTAX.finditer(value) if match[1] is not None)


# Tolerations -------------------------------------------------------------------------------------

Toleration = Mapping[str, Any]

_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SECONDS = 300
"""The default of kube-apiserver's --default-not-ready-toleration-seconds and its counterpart."""


def admitted(tolerations: Sequence[Toleration]) -> list[Toleration]:
    """Return the tolerations of an admitted Pod, by Kubernetes' DefaultTolerationSeconds."""
    added = [
        {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
        for taint in _TAINTS
        if not any(
            toleration.get("key") in (None, "", taint)
            and toleration.get("effect") in (None, "", "NoExecute")
            for toleration in tolerations
        )
    ]
    return [*tolerations, *added]


# Users of ssh ------------------------------------------------------------------------------------

PASSWD_MOUNT = {"name": USERS, "mountPath": "/etc/passwd", "subPath": "passwd", "readOnly": True}

_FIRST_FOREIGN_USER = 10_000
"""Users of images have lower IDs than this; IDs that a cluster assigns are higher."""
_PORT_START = "net.ipv4.ip_unprivileged_port_start"


def lacks_user(role: Role) -> bool:
    mounts = role.template.main_container.get("volumeMounts", ())
    paths = {str(mount["mountPath"]).rstrip("/") for mount in mounts}
    foreign = (role.template.user or 0) >= _FIRST_FOREIGN_USER
    return foreign and paths.isdisjoint({"/etc", "/etc/passwd"})


def passwd_script(ssh: SshCredentials) -> str:
    home = ssh.mount_path.rstrip("/").rpartition("/")[0] or "/"
    entry = f'echo "etcompile:x:$(id -u):$(id -g)::{home}:/bin/sh"'
    return f"{{ cat /etc/passwd; id -un >/dev/null 2>&1 || {entry}; }} > {USERS_PATH}/passwd"


def sysctls(role: Role, ssh: SshCredentials | None) -> list[dict[str, Any]] | None:
    """Return the sysctls of a Pod whose sshd needs one for port 22 without root; else None."""
    spec = role.template.spec
    sysctls = spec.get("securityContext", {}).get("sysctls") or []
    chosen = spec.get("hostNetwork") or any(sysctl["name"] == _PORT_START for sysctl in sysctls)
    if chosen or role.privileged_ssh_port(ssh) is None:
        return None
    return [*sysctls, {"name": _PORT_START, "value": "0"}]


# The container that checks a node -----------------------------------------------------------------

_SAME = (
    *("image", "imagePullPolicy", "workingDir", "envFrom", "env", "resources"),
    *("securityContext", "volumeDevices"),
)
"""Fields of the main container that its preflight shares."""
_OURS = frozenset({SCRIPTS, HOSTS, STATUS, RUN_STATE})
_GPU = "nvidia.com/gpu"


def with_preflight(job: Job, objects: Sequence[Object]) -> tuple[Object, ...]:
    if job.preflight is None:
        return tuple(objects)
    roles = {role.name: role for role in job.roles if role.name in job.preflight.roles}
    result = []
    for value in objects:
        if value["kind"] == "Job":
            template = _pod_with_preflight(roles, value["spec"]["template"])
            value = {**value, "spec": {**value["spec"], "template": template}}  # noqa: PLW2901
        result.append(_pod_with_preflight(roles, value) if value["kind"] == "Pod" else value)
    return tuple(result)


def _pod_with_preflight(roles: Mapping[str, Role], pod: Object) -> Object:
    if (role := roles.get(labels_of(pod).get(ROLE_LABEL, ""))) is None:
        return pod
    spec = pod["spec"]
    main = next((c for c in spec["containers"] if c["name"] == role.template.main), None)
    inits = [*spec.get("initContainers", ())]
    if main is None or any(container["name"] == PREFLIGHT for container in inits):
        return pod  # an overlay added another
    # Sidecars, such as a proxy, start before it.
    first = next((n for n, c in enumerate(inits) if c.get("restartPolicy") != "Always"), len(inits))
    resources = main.get("resources") or {}
    gpus = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}.get(_GPU, 0)
    # It needs only the scripts of our volumes.
    mounts = [m for m in main.get("volumeMounts", ()) if m["name"] not in _OURS]
    mounts.append({"name": SCRIPTS, "mountPath": SCRIPTS_PATH, "readOnly": True})
    container = {
        "name": PREFLIGHT,
        **{field: main[field] for field in _SAME if field in main},
        "command": ["sh", f"{SCRIPTS_PATH}/{PREFLIGHT_SCRIPT}", str(gpus)],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    return {**pod, "spec": {**spec, "initContainers": [*inits[:first], container, *inits[first:]]}}
