"""The Pods of a role.

A role's Pods differ in their names, a label or two and at most the host name, so the Pod is
built once and stamped for each replica. What goes into it, in the order in which the source
operators append it: the user's template, what the kind promises (`Role`), then etcompile's
own: gate, run-once guard, resident wrapper and the volumes of the run-time protocol.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from etcompile.backend import config
from etcompile.backend.identity import index_labels, metadata, role_labels, spec_hash
from etcompile.backend.services import service_name
from etcompile.model import (
    ConfigMapVolume,
    EmptyDir,
    Env,
    Gate,
    InitContainer,
    Job,
    Mount,
    Role,
    Settings,
    SshCredentials,
    Volume,
)
from etcompile.model.protocol import (
    HOSTS,
    HOSTS_PATH,
    SCRIPTS,
    SCRIPTS_PATH,
    SPEC_HASH,
    SPEC_HASH_FILE,
    SSH,
    SSH_PATH,
    STATUS,
    STATUS_PATH,
    hosts_name,
    status_name,
)

_SMALL = {"cpu": "100m", "memory": "64Mi"}
"""Resources of our own init containers: a namespace with a quota refuses Pods without any."""
_PROBES = {"cpu": "1", "memory": "512Mi"}
"""Limits of a gate, which probes many hosts at once: in 64Mi a few kubectl or Python starve."""


def objects(job: Job, role: Role, settings: Settings) -> list[dict[str, Any]]:
    """The role's Pods, one for each member."""
    spec = _spec(job, role, settings)
    annotations = {**role.template.annotations, SPEC_HASH: spec_hash(job)}
    own = role_labels(job, role)
    pods = []
    for member in role.members:
        name, host = role.pod_name(member), role.host_name(member)
        # A Pod is its host to itself, too: launchers compare the names.
        named = "subdomain" in spec or (name != host and "hostname" not in spec)
        indexes = index_labels(role, member)
        labels = {**role.template.labels, **member.labels, **own, **indexes}
        pods.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata(job, name, labels, annotations=annotations),
                "spec": {**spec, "hostname": host} if named else spec,
            }
        )
    return pods


def _spec(job: Job, role: Role, settings: Settings) -> dict[str, Any]:
    ssh = job.credentials
    spec = dict(role.template.spec)
    main = _main(role, ssh)
    spec["restartPolicy"] = "Never"
    spec["containers"] = [
        main if container["name"] == role.template.main else container
        for container in spec["containers"]
    ]
    inits = [
        *(_setup(role, init, settings) for init in role.setup),
        *([_key_copy(role, ssh)] if ssh and ssh.copied else []),
        *spec.get("initContainers", ()),
        *([_gate(role, role.gate)] if role.gate else []),
    ]
    if inits:
        spec["initContainers"] = inits
    volumes = [*spec.get("volumes", ()), *_volumes(job, role)]
    if volumes:
        spec["volumes"] = volumes
    if role.service_account:
        spec.pop("serviceAccount", None)
        spec["serviceAccountName"] = role.service_account
    if settings.services == "shared":
        spec |= _shared_name(job, spec, settings)
    return spec


def _shared_name(job: Job, spec: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Makes bare host names resolve under one Service: a search domain for the rest of them."""
    domain = f"{service_name(job)}.{job.namespace}.svc.{settings.cluster_domain}"
    dns = spec.get("dnsConfig", {})
    return {
        "subdomain": service_name(job),
        "dnsConfig": {**dns, "searches": [*dns.get("searches", ()), domain]},
    }


# The main container ---------------------------------------------------------------------------


def _main(role: Role, ssh: SshCredentials | None) -> dict[str, Any]:
    main = dict(role.template.main_container)
    mounts = [_mount(mount) for mount in role.mounts]
    if ssh:
        mounts.append(_ssh_mount(role, ssh))
    mounts += [_read_only(mount) for mount in _protocol_mounts(role)]
    if mounts:
        main["volumeMounts"] = [*main.get("volumeMounts", ()), *mounts]
    if role.env:
        main["env"] = _env(main.get("env", ()), role.env)
    if is_resident(role):
        main["command"] = ["sh", f"{SCRIPTS_PATH}/{config.WORKER}"]
        if ssh and role.resident and role.resident.ssh:
            # Running is not ready: sshd may not listen yet (reference defect 31).
            probe = {"tcpSocket": {"port": ssh.port}, "periodSeconds": 2}
            main.setdefault("readinessProbe", probe)
    elif _is_guarded(role):
        main["command"] = ["sh", f"{SCRIPTS_PATH}/{config.RUN_ONCE}", *main["command"]]
    return main


def is_resident(role: Role) -> bool:
    """Whether the role's main container runs our wrapper that serves until the run is done."""
    return role.resident is not None and not role.template.main_container.get("command")


def _is_guarded(role: Role) -> bool:
    return role.run_once and bool(role.template.main_container.get("command"))


def _env(given: Sequence[Mapping[str, Any]], added: Iterable[Env]) -> list[Mapping[str, Any]]:
    """The user's variables, then ours; one of ours replaces a user's of the same name.

    et-operator appends a second entry of that name, of which the last wins
    (reference/et-operator.md 2.5, item 3); server-side apply refuses such a list.
    """
    ours = [{"name": env.name, "value": env.value} for env in added]
    names = {env["name"] for env in ours}
    return [*(env for env in given if env["name"] not in names), *ours]


def _protocol_mounts(role: Role) -> list[Mount]:
    """The volumes of the run-time protocol that the main container reads."""
    if is_resident(role):
        return [Mount(SCRIPTS, SCRIPTS_PATH), Mount(STATUS, STATUS_PATH)]
    if role.run_once:
        return [
            Mount(SCRIPTS, SCRIPTS_PATH),
            Mount(HOSTS, HOSTS_PATH),
            Mount(STATUS, STATUS_PATH),
        ]
    return []


# Init containers ------------------------------------------------------------------------------


def _setup(role: Role, init: InitContainer, settings: Settings) -> dict[str, Any]:
    image = {"init": settings.init_image, "kubectl": settings.kubectl_image}[init.image]
    mounts = [_mount(mount) for mount in init.mounts]
    return _init(role, init.name, ["sh", "-c", init.script], mounts, init.resources, image)


def _gate(role: Role, gate: Gate) -> dict[str, Any]:
    own = (Mount(SCRIPTS, SCRIPTS_PATH), Mount(STATUS, STATUS_PATH))
    mounts = [*(_mount(m) for m in gate.mounts), *(_read_only(m) for m in own)]
    command = ["sh", f"{SCRIPTS_PATH}/{config.GATE}"]
    return _init(role, "wait-for-workers", command, mounts, _PROBES, requests=_SMALL)


def _key_copy(role: Role, ssh: SshCredentials) -> dict[str, Any]:
    mounts: list[dict[str, Any]] = [
        {"name": _ssh_volume(role, ssh), "mountPath": SSH_PATH, "readOnly": True},
        {"name": _HOME, "mountPath": ssh.mount_path},
        _read_only(Mount(SCRIPTS, SCRIPTS_PATH)),
    ]
    return _init(role, "copy-ssh-keys", ["sh", f"{SCRIPTS_PATH}/{config.SSH_KEYS}"], mounts, _SMALL)


def _init(
    role: Role,
    name: str,
    command: list[str],
    mounts: list[dict[str, Any]],
    limits: Mapping[str, str],
    image: str | None = None,
    requests: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """An init container of ours; its requests are its limits unless they are given.

    It runs as the main container's user, so that what it writes can be read there (reference
    defect 29), and from the main container's image unless another is configured: that one is
    on the node anyway.
    """
    main = role.template.main_container
    pull = "IfNotPresent" if image else main.get("imagePullPolicy", "IfNotPresent")
    container = {
        "name": name,
        "image": image or main["image"],
        "imagePullPolicy": pull,
        "command": command,
        "resources": {"limits": dict(limits), "requests": dict(requests or limits)},
        "volumeMounts": mounts,
    }
    if "securityContext" in main:
        container["securityContext"] = main["securityContext"]
    return container


# Volumes --------------------------------------------------------------------------------------

_HOME = f"{SSH}-home"
_KEY_MODE = 0o600
_READABLE_KEY_MODE = 0o444
"""For a container that copies them: whoever it runs as can read them there, and only there."""


def _volumes(job: Job, role: Role) -> list[dict[str, Any]]:
    volumes = [_volume(job, volume) for volume in role.volumes]
    if ssh := job.credentials:
        volumes.append(_secret_volume(role, ssh))
        if ssh.copied:
            volumes.append({"name": _HOME, "emptyDir": {}})
    if scripts := _role_scripts(job, role):
        volumes.append(_scripts_volume(job, scripts))
    mounted = {mount.volume for mount in _protocol_mounts(role)} | (
        {STATUS} if role.gate else set()
    )
    for name, config_map in ((HOSTS, hosts_name(job)), (STATUS, status_name(job))):
        if name in mounted:
            source = {"name": config_map, "optional": True}
            volumes.append({"name": name, "configMap": source})
    return volumes


def _volume(job: Job, volume: Volume) -> dict[str, Any]:
    match volume:
        case EmptyDir(name):
            return {"name": name, "emptyDir": {}}
        case ConfigMapVolume(name, items):
            files = [{"key": key, "path": path, "mode": mode} for key, path, mode in items]
            return {"name": name, "configMap": {"name": job.config_name, "items": files}}


def _role_scripts(job: Job, role: Role) -> list[str]:
    return [
        *([config.WORKER] if is_resident(role) else []),
        *([config.RUN_ONCE] if _is_guarded(role) else []),
        *([config.GATE] if role.gate else []),
        *([config.SSH_KEYS] if job.credentials and job.credentials.copied else []),
    ]


def _scripts_volume(job: Job, scripts: Sequence[str]) -> dict[str, Any]:
    items = [{"key": script, "path": script} for script in scripts]
    own = {
        "path": SPEC_HASH_FILE.rpartition("/")[2],
        "fieldRef": {"fieldPath": f"metadata.annotations['{SPEC_HASH}']"},
    }
    sources = [
        {"configMap": {"name": job.config_name, "items": items}},
        {"downwardAPI": {"items": [own]}},
    ]
    return {"name": SCRIPTS, "projected": {"sources": sources}}


def _secret_volume(role: Role, ssh: SshCredentials) -> dict[str, Any]:
    folder = "" if ssh.copied else ".ssh/"
    return {
        "name": _ssh_volume(role, ssh),
        "secret": {
            "secretName": ssh.secret,
            "defaultMode": _READABLE_KEY_MODE if ssh.copied else _KEY_MODE,
            "items": [{"key": key, "path": f"{folder}{file}"} for key, file in ssh.files],
        },
    }


def _ssh_volume(role: Role, ssh: SshCredentials) -> str:
    """The Secret's name, as upstream, unless the volume cannot have it (reference defect 17)."""
    own = {SCRIPTS, HOSTS, STATUS, _HOME, *(volume.name for volume in role.volumes)}
    taken = own | {volume["name"] for volume in role.template.spec.get("volumes", ())}
    return SSH if "." in ssh.secret or len(ssh.secret) > 63 or ssh.secret in taken else ssh.secret


def _ssh_mount(role: Role, ssh: SshCredentials) -> dict[str, Any]:
    if ssh.copied:
        return {"name": _HOME, "mountPath": ssh.mount_path}
    return {"name": _ssh_volume(role, ssh), "mountPath": ssh.mount_path, "subPath": ".ssh"}


def _mount(mount: Mount) -> dict[str, Any]:
    return {"name": mount.volume, "mountPath": mount.path}


def _read_only(mount: Mount) -> dict[str, Any]:
    return {**_mount(mount), "readOnly": True}
