"""Build the Pods of a role.

A role's Pods differ in their names, a label or two and at most the host name, so the Pod is built
once and copied for each replica. Its parts come in the order in which the source operators append
them: the user's template, what the kind adds (`Role`), then what etcompile adds: gate, run-once
guard, resident wrapper and the volumes of the run-time protocol.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from etcompile.backend import job_config, pod_fields
from etcompile.backend.identity import (
    identity_labels,
    index_labels,
    job_object,
    metadata,
    pod_labels,
    recommended_labels,
)
from etcompile.backend.services import domain, port_entry, service_name
from etcompile.model import (
    DOMAIN,
    IndexedEnv,
    Job,
    Member,
    Mount,
    Role,
    Settings,
    SshCredentials,
)
from etcompile.model.protocol import (
    EPOCH,
    HOSTS,
    HOSTS_PATH,
    INDEX_LABEL,
    NOTICE,
    POD_ANNOTATIONS,
    RESERVED_LABELS,
    ROLE_LABEL,
    RUN_STATE,
    RUN_STATE_PATH,
    SCRIPTS,
    SCRIPTS_PATH,
    SPEC_HASH,
    SPEC_HASH_FILE,
    SSH,
    SSH_PATH,
    STATUS,
    STATUS_PATH,
    USERS,
    USERS_PATH,
    hosts_name,
    status_name,
)
from etcompile.model.supervision import is_supervised

_SMALL = {"cpu": "100m", "memory": "64Mi"}
"""Resources of our init containers: a namespace with a quota refuses Pods without any."""
_PROBES = {"cpu": "1", "memory": "512Mi"}
"""Limits of a gate, which probes many hosts at once: a few kubectl or Python exceed 64Mi."""

_REPLACES_PODS_BY_POLICY = 29
"""The minor version since which Jobs have `podReplacementPolicy` without a feature gate."""


def objects(job: Job, role: Role, settings: Settings, run: str) -> list[dict[str, Any]]:
    """Return the Pods of a role, or the Job that creates them; `run` is the run's hash."""
    spec = _spec(job, role, settings)
    notes = role.template.annotations.items()
    annotations = {key: text for key, text in notes if key not in POD_ANNOTATIONS}
    annotations[SPEC_HASH] = run
    identity = identity_labels(job, role)
    # The author's labels stay, except identities, which the operators overwrite as well.
    written = {k: v for k, v in role.template.labels.items() if k not in RESERVED_LABELS}
    common = {**recommended_labels(job, role), **written}
    suffix = domain(job, settings)
    # PodSpecs of replicas differ in host name and variables only.
    same = not any(isinstance(env, IndexedEnv) or env.of != "all" for env in role.additions.env)
    containers: list[dict[str, Any]] = []
    pods = []
    for member in role.members:
        name, host = role.pod_name(member), role.host_name(member)
        # The Pod's own host name is the same name: launchers compare them.
        named = job.is_behind_one_service(settings.services) or (
            role.naming.pod_stem and "hostname" not in spec
        )
        indexes = {**pod_labels(role, member), **index_labels(role, member)}
        labels = {**common, **member.labels, **identity, **indexes}
        stamped = {**spec, "hostname": host} if named else spec
        if role.additions.env:
            if not containers or not same:
                containers = _containers(role, spec["containers"], member, suffix)
            stamped = {**stamped, "containers": containers}
        stamped = _with_size_and_priority(role, stamped, member)
        noted = annotations
        if role.labels.annotated and role.labels.index in indexes:
            noted = {**annotations, role.labels.index: indexes[role.labels.index]}
        if role.batch:
            template = {"metadata": {"labels": labels, "annotations": noted}, "spec": stamped}
            limits = {
                "backoffLimit": role.batch.backoff_limit,
                "activeDeadlineSeconds": role.batch.deadline,
            }
            minor = int(settings.kubernetes_version.partition(".")[2])
            # Hosts know the launcher by its name, so the next Pod must not start before the last
            # is gone.
            policy = {"podReplacementPolicy": "Failed"} if minor >= _REPLACES_PODS_BY_POLICY else {}
            of_job = {
                **{field: limit for field, limit in limits.items() if limit is not None},
                **policy,
                **({"suspend": True} if job.run.suspended else {}),
                "template": template,
            }
            pods.append(job_object(job, "batch/v1", "Job", name, spec=of_job))
            continue
        finalizers = role.template.finalizers
        more = {"finalizers": list(finalizers)} if finalizers else {}
        pod = metadata(job, name, labels, annotations=noted, **more)
        pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": stamped})
    return pods


def _spec(job: Job, role: Role, settings: Settings) -> dict[str, Any]:
    ssh = credentials(job, role)
    spec = dict(role.template.spec)
    main = _main(job, role)
    # Where all restart together the watcher answers a failure, and a kubelet would answer it, too.
    by_watcher = job.run.together and job.run.in_place is None
    spec["restartPolicy"] = "Never" if by_watcher else role.recovery.pod_restart
    if role.recovery.deadline is not None:
        # A job may be configured to end at once, but a Pod needs at least one second.
        deadline = max(role.recovery.deadline, 1)
        spec["activeDeadlineSeconds"] = min(deadline, spec.get("activeDeadlineSeconds", deadline))
    spec["containers"] = [
        main if container["name"] == role.template.main else {**_LAST_LINES, **container}
        for container in spec["containers"]
    ]
    before, gates = _init_containers(job, role, settings)
    theirs = [{**_LAST_LINES, **container} for container in spec.get("initContainers", ())]
    inits = [*before, *theirs, *gates]
    volumes = [*spec.get("volumes", ()), *_volumes(job, role)]
    if ssh and pod_fields.lacks_user(role):
        mount, command = _mount(Mount(USERS, USERS_PATH)), pod_fields.passwd_script(ssh)
        inits.insert(0, _init(role, USERS, ["sh", "-c", command], [mount], _SMALL))
        volumes.append({"name": USERS, "emptyDir": {}})
        for container in (main, *gates):
            container["volumeMounts"] = [*container["volumeMounts"], pod_fields.PASSWD_MOUNT]
    if inits:
        spec["initContainers"] = inits
    if sysctls := pod_fields.sysctls(role, ssh):
        spec["securityContext"] = {**spec.get("securityContext", {}), "sysctls": sysctls}
    if volumes:
        spec["volumes"] = volumes
    if role.additions.service_account:
        spec.pop("serviceAccount", None)
        spec["serviceAccountName"] = role.additions.service_account
    if spec.get("tolerations") and not role.batch:
        spec["tolerations"] = pod_fields.admitted(spec["tolerations"])
    if job.is_behind_one_service(settings.services):
        spec["subdomain"] = service_name(job)
        if job.has_bare_names or not job.service:
            # Bare host names resolve under the shared Service.
            search = f"{service_name(job)}.{job.namespace}.svc.{settings.cluster_domain}"
            dns = spec.get("dnsConfig", {})
            spec["dnsConfig"] = {**dns, "searches": [*dns.get("searches", ()), search]}
    return spec


def credentials(job: Job, role: Role) -> SshCredentials | None:
    ssh = job.credentials
    return ssh if ssh and ssh.is_for(role.name) else None


_UNBUFFERED = {"name": "PYTHONUNBUFFERED", "value": "1"}
"""Python writes a buffered stdout after the traceback that ends it, or never if it is killed."""
_LAST_LINES = {"terminationMessagePolicy": "FallbackToLogsOnError"}
"""A container that fails leaves its last lines in the Pod's status. Reading them needs no right to
logs, and the watcher records them when the Pod goes (`etcompile.causes`)."""


# The main container ---------------------------------------------------------------------------


def _main(job: Job, role: Role) -> dict[str, Any]:
    main, ssh = dict(role.template.main_container), credentials(job, role)
    variables = {env["name"] for env in main.get("env", ())}
    if _UNBUFFERED["name"] not in variables.union(env.name for env in role.additions.env):
        main["env"] = [*main.get("env", ()), _UNBUFFERED]
    mounts = [_mount(mount) for mount in role.additions.mounts]
    if ssh:
        volume = _HOME if ssh.copied else _ssh_volume(role, ssh)
        folder = {} if ssh.copied or ssh.whole else {"subPath": ".ssh"}
        mount = {"name": volume, "mountPath": ssh.mount_path, **folder}
        mounts.insert(0 if ssh.volume else len(mounts), mount)
    if role.additions.main_ports:
        ours = [port_entry(port, "containerPort") for port in role.additions.main_ports]
        main["ports"] = [*main.get("ports", ()), *ours]
    mounts += [_mount(mount, readOnly=True) for mount in _protocol_mounts(job, role)]
    if (in_place := job.run.in_place) and is_supervised(job, role):
        port = in_place.port
        main["ports"] = [*main.get("ports", ()), {"name": "supervisor", "containerPort": port}]
        # Its supervisor reports it as ready while its command runs. The first answer waits until
        # all replicas are there, so that a normal start leaves no Events about a failed probe,
        # even if a node pulls the image for minutes. If a supervisor hangs, the others notice.
        probe = {"httpGet": {"path": "/ready", "port": port}, "periodSeconds": 2}
        probe |= {"initialDelaySeconds": 1, "timeoutSeconds": 600, "failureThreshold": 1}
        main.setdefault("readinessProbe", probe)
        mounts.append(_mount(Mount(RUN_STATE, RUN_STATE_PATH)))
    if mounts:
        main["volumeMounts"] = [*main.get("volumeMounts", ()), *mounts]
    if role.is_resident:
        main["command"] = ["sh", f"{SCRIPTS_PATH}/{job_config.WORKER}"]
        main.pop("args", None)
        if ssh and ssh.port and role.additions.resident and role.additions.resident.ssh:
            # A running Pod is not ready: sshd may not listen yet (reference defect 31).
            listens = {"tcpSocket": {"port": ssh.port}, "periodSeconds": 2}
            main.setdefault("readinessProbe", listens)
    elif before := job_config.wrapped(job, role):
        main["command"] = [*before, *main["command"]]
    return {**_LAST_LINES, **main}


def _containers(
    role: Role, containers: Sequence[dict[str, Any]], member: Member, domain: str
) -> list[dict[str, Any]]:
    """Return the containers of a replica, with the user's variables, then ours.

    Ours replaces the user's of the same name, unless the source operator would leave that alone.
    """
    ours: list[dict[str, Any]] = []
    for env in role.additions.env:
        if isinstance(env, IndexedEnv):
            number = member.place if env.rank else member.index
            value = str((number or 0) + env.offset).join(env.parts)
            ours.append({"name": env.name, "value": value.replace(DOMAIN, domain)})
        elif env.of != "all" and (env.of == "first") != (member.index in (0, None)):
            continue
        elif env.field:
            source = {"fieldRef": {"fieldPath": env.field}}
            ours.append({"name": env.name, "valueFrom": source})
        else:
            ours.append(_variable(env.name, env.value.replace(DOMAIN, domain)))
    defaults = {env.name for env in role.additions.env if env.default}
    stamped = []
    for container in containers:
        if role.additions.env_everywhere or container["name"] == role.template.main:
            theirs = container.get("env", ())
            stay = {env["name"] for env in theirs} & defaults
            more = [env for env in ours if env["name"] not in stay]
            container = {**container, "env": pod_fields.merged_variables(theirs, more)}  # noqa: PLW2901
        stamped.append(container)
    return stamped


@functools.lru_cache(maxsize=256)
def _variable(name: str, value: str) -> dict[str, Any]:
    """Return a variable that all replicas share, as one object that is written once."""
    return {"name": name, "value": value}


def _with_size_and_priority(role: Role, spec: dict[str, Any], member: Member) -> dict[str, Any]:
    if member.resources:
        sized = []
        for container in spec["containers"]:
            if container["name"] == role.template.main:
                before = container.get("resources", {})
                sizes = {
                    field: {**before.get(field, {}), **member.resources}
                    for field in ("limits", "requests")
                }
                container = {**container, "resources": {**before, **sizes}}  # noqa: PLW2901
            sized.append(container)
        spec = {**spec, "containers": sized}
    if priority := role.additions.priority:
        name = priority.high if (member.place or 0) < priority.first else priority.low
        spec = {**spec, "priorityClassName": name} if name else spec
    return spec


def _protocol_mounts(job: Job, role: Role) -> list[Mount]:
    if role.is_resident:
        return [Mount(SCRIPTS, SCRIPTS_PATH), Mount(STATUS, STATUS_PATH)]
    hosts = [Mount(HOSTS, HOSTS_PATH)] if role.additions.reads_hosts else []
    if hosts or job_config.wrapper(job, role):
        return [Mount(SCRIPTS, SCRIPTS_PATH), *hosts, Mount(STATUS, STATUS_PATH)]
    return []


# Init containers ------------------------------------------------------------------------------


def _init_containers(
    job: Job, role: Role, settings: Settings
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return our init containers before the user's, and those after them: the gate, if any."""
    images = {"init": settings.init_image, "kubectl": settings.kubectl_image}
    before = [
        _init(
            role,
            init.name,
            ["sh", "-c", init.script],
            [_mount(mount) for mount in init.mounts],
            init.resources,
            images[init.image],
        )
        for init in role.additions.setup
    ]
    ssh, scripts = credentials(job, role), Mount(SCRIPTS, SCRIPTS_PATH)
    if ssh and ssh.copied:
        mounts: list[dict[str, Any]] = [
            {"name": _ssh_volume(role, ssh), "mountPath": SSH_PATH, "readOnly": True},
            {"name": _HOME, "mountPath": ssh.mount_path},
            _mount(scripts, readOnly=True),
        ]
        command = ["sh", f"{SCRIPTS_PATH}/{job_config.SSH_KEYS}"]
        before.append(_init(role, "copy-ssh-keys", command, mounts, _SMALL))
    gate = role.additions.gate
    if gate is None or job_config.gate_place(job, role) != "init":
        return before, []
    hosts = [Mount(HOSTS, HOSTS_PATH)] if job_config.enough_hosts(job, role, settings) else []
    protocol = (scripts, *hosts, Mount(STATUS, STATUS_PATH))
    mounts = [_mount(mount) for mount in gate.mounts]
    mounts += [_mount(mount, readOnly=True) for mount in protocol]
    command = ["sh", f"{SCRIPTS_PATH}/{job_config.gate_script(job, role)}"]
    return before, [_init(role, gate.name, command, mounts, _PROBES, requests=_SMALL)]


def _init(
    role: Role,
    name: str,
    command: list[str],
    mounts: list[dict[str, Any]],
    limits: Mapping[str, str],
    image: str | None = None,
    requests: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return an init container of ours; requests default to the limits.

    It runs as the main container's user, so that this user can read what it writes (reference
    defect 29), and from the main container's image unless another is configured, because that one
    is on the node anyway.
    """
    main = role.template.main_container
    pull = "IfNotPresent" if image else main.get("imagePullPolicy", "IfNotPresent")
    container = {
        "name": name,
        "image": image or main["image"],
        "imagePullPolicy": pull,
        "command": command,
        "resources": {"limits": dict(limits), "requests": dict(requests or limits)},
        **_LAST_LINES,
        "volumeMounts": mounts,
    }
    if "securityContext" in main:
        container["securityContext"] = main["securityContext"]
    return container


# Volumes --------------------------------------------------------------------------------------

_HOME = f"{SSH}-home"
_CSI_DRIVER = "secrets-store.csi.k8s.io"
_READABLE_KEY_MODE = 0o444
"""For a container that copies keys and may run as any user."""


def _volumes(job: Job, role: Role) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = []
    for volume in role.additions.volumes:
        files = [{"key": key, "path": path, "mode": mode} for key, path, mode in volume.items]
        source: dict[str, Any] = {"configMap": {"name": job.config_name, "items": files}}
        if volume.live:  # of two sources of one file, the last that is there counts
            lists = {"configMap": {"name": hosts_name(job.name), "optional": True}}
            source = {"projected": {"sources": [source, lists]}}
        volumes.append({"name": volume.name, **(source if files else {"emptyDir": {}})})
    if ssh := credentials(job, role):
        # A kind that names the volume has it first.
        folder = "" if ssh.copied or ssh.whole else ".ssh/"
        mode = _READABLE_KEY_MODE if ssh.copied else ssh.mode
        modes = {} if ssh.copied else ssh.modes
        keys = [
            {
                "key": key,
                **({"mode": modes[file]} if file in modes else {}),
                "path": f"{folder}{file}",
            }
            for key, file in ssh.files
        ]
        bits = {"defaultMode": mode} if mode is not None else {}
        source = {"secret": {"secretName": ssh.secret, **bits, "items": keys}}
        if ssh.provider_class:
            attributes = {"secretProviderClass": ssh.provider_class}
            driver = {"driver": _CSI_DRIVER, "readOnly": True, "volumeAttributes": attributes}
            source = {"csi": driver}
        named = {"name": _ssh_volume(role, ssh), **source}
        volumes.insert(0 if ssh.volume else len(volumes), named)
        if ssh.copied:
            volumes.append({"name": _HOME, "emptyDir": {}})
    if scripts := _scripts_volume(job, role):
        volumes.append(scripts)
    mounted = {mount.volume for mount in _protocol_mounts(job, role)} | (
        {STATUS} if role.additions.gate else set()
    )
    for name, config_map in ((HOSTS, hosts_name(job.name)), (STATUS, status_name(job.name))):
        if name in mounted:
            live = {"name": config_map, "optional": True}
            volumes.append({"name": name, "configMap": live})
    if is_supervised(job, role):
        volumes.append({"name": RUN_STATE, "emptyDir": {}})
    return volumes


def _scripts_volume(job: Job, role: Role) -> dict[str, Any] | None:
    wrapper, ssh = job_config.wrapper(job, role), credentials(job, role)
    gate = role.additions.gate if job_config.gate_place(job, role) != "none" else None
    asks = job.preflight and role.name in job.preflight.roles
    scripts = [
        *([job_config.WORKER] if role.is_resident else [wrapper] if wrapper else []),
        *([job_config.SUPERVISE] if wrapper == job_config.SUPERVISE_BY_SHELL else []),
        *([job_config.gate_script(job, role)] if gate else []),
        *([gate.file] if gate and gate.file else []),
        *role.additions.scripts,
        *([job_config.SSH_KEYS] if ssh and ssh.copied else []),
        *([job_config.PREFLIGHT_SCRIPT, job_config.PREFLIGHT_CHECK] if asks else []),
    ]
    if not scripts:
        return None
    facts = {SPEC_HASH_FILE.rpartition("/")[2]: f"annotations['{SPEC_HASH}']"}
    if is_supervised(job, role):
        facts |= {
            "epoch": f"annotations['{EPOCH}']",
            "notice": f"annotations['{NOTICE}']",
            "uid": "uid",
            "role": f"labels['{ROLE_LABEL}']",
            "index": f"labels['{INDEX_LABEL}']",
        }
    items = [{"key": script, "path": script} for script in scripts]
    fields = [
        {"path": file, "fieldRef": {"fieldPath": f"metadata.{field}"}}
        for file, field in facts.items()
    ]
    sources = [
        {"configMap": {"name": job.config_name, "items": items}},
        {"downwardAPI": {"items": fields}},
    ]
    return {"name": SCRIPTS, "projected": {"sources": sources}}


def _ssh_volume(role: Role, ssh: SshCredentials) -> str:
    """Return the Secret's name, as upstream, unless no volume can have it (reference defect 17)."""
    if ssh.volume:
        return ssh.volume
    ours = {SCRIPTS, HOSTS, STATUS, RUN_STATE, _HOME}
    ours |= {volume.name for volume in role.additions.volumes}
    names = ours | {volume["name"] for volume in role.template.spec.get("volumes", ())}
    return SSH if "." in ssh.secret or len(ssh.secret) > 63 or ssh.secret in names else ssh.secret


def _mount(mount: Mount, **fields: Any) -> dict[str, Any]:
    return {"name": mount.volume, "mountPath": mount.path, **fields}
