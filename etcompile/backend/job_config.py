"""Build the ConfigMap of a job: its scripts, its seed host lists, and the job itself.

Git declares it, and nothing changes it in the cluster. What changes at run time is in two other
ConfigMaps, which the watcher writes (`etcompile.model.protocol`).
"""

import re
from collections.abc import Iterator
from typing import Any, Literal

from etcompile.backend.identity import job_object
from etcompile.backend.services import domain
from etcompile.backend.texts import Texts
from etcompile.launch.launchers import discovers_hosts, launch_program
from etcompile.model import DOMAIN, HostList, Job, Role, Settings
from etcompile.model.protocol import (
    COMPLETED_FILE,
    DONE_FILE,
    SCRIPTS_PATH,
    SPEC_HASH_FILE,
    SSH_PATH,
    STORED_JOB,
)
from etcompile.model.supervision import is_supervised, options

GATE = "wait-for-workers.sh"
RUN_ONCE = "run-once.sh"
WORKER = "worker.sh"
UNTIL_DONE = "until-done.sh"
SUPERVISE = "supervise.py"
SUPERVISE_BY_SHELL = "supervise.sh"
"""Finds a Python for `SUPERVISE`."""
SSH_KEYS = "ssh-keys.sh"
PREFLIGHT_SCRIPT = "preflight.sh"
PREFLIGHT_CHECK = "preflight-check"
"""The job's check, which the script runs."""

_GATE_POLL = 1
_STATUS_POLL = 5
"""Seconds between two polls: of hosts by a gate, of the run record by a worker."""
_SSH_PORT = 22
_PREFLIGHT = 300
"""Seconds for a preflight check."""


def config_map(job: Job, settings: Settings, texts: Texts, stored: str) -> dict[str, Any]:
    suffix = domain(job, settings)
    data = {}
    for lines in job.host_lists:
        listed = (role for name in lines.roles if (role := job.role(name)))
        hosts = [role.host_name(member) for role in listed for member in role.members]
        end = _suffix(job, lines, suffix)
        data[lines.key] = "".join(host_line(job, lines, host + end) for host in hosts)
    # Stems of host names and Pod names, for roles in which they differ.
    named = [role.naming for role in job.roles]
    pods = [(naming.stem, naming.pod_stem) for naming in named if naming.pod_stem]
    for file in job.files:
        data[file.key] = texts.render(file.template, **file.values, pods=pods)
    for key, template, values in _scripts(job, settings):
        data[key] = texts.render(template, **values)
    if any(is_supervised(job, role) for role in job.roles):
        data[SUPERVISE] = texts.plain(SUPERVISE)
    if job.preflight is not None:
        data[PREFLIGHT_CHECK] = job.preflight.command + "\n"
    data[STORED_JOB] = stored
    return job_object(job, "v1", "ConfigMap", job.config_name, data=data)


def host_line(job: Job, lines: HostList, name: str) -> str:
    line = lines.line.replace(DOMAIN, "")
    return line.format(host=name, slots=job.slots) + "\n"


def host_names(job: Job, lines: HostList, settings: Settings, host: str) -> tuple[str, ...]:
    """Return all names that reach a host, first the one in the list from Git."""
    short = domain(job, settings)
    # The resolver appends each tail of `.SERVICE.NS.svc`.
    parts = short.split(".")[1:]
    longer = [f".{'.'.join(parts[:count])}" for count in range(1, len(parts) + 1)]
    whole = f"{short}.{settings.cluster_domain}"
    bare = ("",) if job.has_bare_names else ()
    forms = (_suffix(job, lines, short), *bare, *longer, whole, f"{whole}.")
    return tuple(dict.fromkeys(host + form for form in forms))


def _suffix(job: Job, lines: HostList, domain: str) -> str:
    if DOMAIN in lines.line:
        return domain
    return f".{job.service.name}" if job.service and not job.has_bare_names else ""


def gate_script(job: Job, role: Role) -> str:
    several = sum(other.additions.gate is not None for other in job.roles) > 1
    return f"{role.name}-{GATE}" if several else GATE


def gate_place(job: Job, role: Role) -> Literal["init", "command", "none"]:
    """Return where a role waits: in an init container, before its command, or not at all.

    An init container costs each start of a Pod a second or two. But a Pod that decides about the
    run is not at work while it waits, and the template's probes may not expect a container that
    waits.
    """
    gate, main = role.additions.gate, role.template.main_container
    if gate is None:
        return "none"
    if gate.completed:
        return "init"
    if is_supervised(job, role) and job.run.in_place and job.run.in_place.mode == "together":
        return "none"  # its supervisor waits for all others
    probed = main.keys() & {"livenessProbe", "startupProbe", "lifecycle"}
    decides = role.name in job.run.success.roles
    waits_inside = wrapper(job, role) == RUN_ONCE and not (decides or probed or gate.mounts)
    return "command" if waits_inside else "init"


def ends_with_run(role: Role) -> bool:
    serves = role.recovery.serves and bool(role.template.main_container.get("command"))
    return role.is_resident or serves


_PYTHON = re.compile(r"(.*/)?python3(\.[0-9]+)?")


def wrapper(job: Job, role: Role) -> str | None:
    """Return the script that runs the main container's command; None if it runs directly."""
    command = role.template.main_container.get("command")
    if not command:
        return None
    if is_supervised(job, role):
        # An image that runs Python may have no shell.
        return SUPERVISE if _PYTHON.fullmatch(command[0]) else SUPERVISE_BY_SHELL
    if role.recovery.serves:
        return UNTIL_DONE
    return RUN_ONCE if role.additions.run_once else None


def wrapped(job: Job, role: Role) -> list[str]:
    script = wrapper(job, role)
    if script is None:
        return []
    # -SE: neither the user's PYTHONPATH nor packages of the image can break the supervisor.
    program = [role.template.main_container["command"][0], "-SE"] if script == SUPERVISE else ["sh"]
    words = [*program, f"{SCRIPTS_PATH}/{script}"]
    if gate_place(job, role) == "command":
        return ["sh", f"{SCRIPTS_PATH}/{gate_script(job, role)}", *words]
    if not is_supervised(job, role):
        return words
    restarts_alone = job.run.in_place is not None and job.run.in_place.mode == "each"
    # A role that restarts with all others waits for them anyway.
    waits = restarts_alone and role.additions.gate
    gate = [f"--gate={SCRIPTS_PATH}/{gate_script(job, role)}"] if waits else []
    return [*words, *options(job, role), *gate, "--"]


def enough_hosts(job: Job, role: Role, settings: Settings) -> tuple[str, int] | None:
    """Return how many hosts a gate needs to let its container begin without the others.

    That is possible only with a gang scheduler, which starts others when there is capacity, and
    only if a live list shows the launcher which hosts exist: the seed names all.

    Returns:
        The live list's path and the number of hosts; None if all must exist.
    """
    scaled, main = job.scaled_role, role.template.main_container
    if (
        settings.gang == "none"
        or scaled is None
        or not role.additions.gate
        or not role.additions.reads_hosts
    ):
        return None
    if scaled.name not in role.additions.gate.roles or not (
        discovers_hosts(main) or launch_program(main) is None
    ):
        return None
    live = next((file.values["live"] for file in job.files if "live" in file.values), None)
    return (str(live), max(scaled.quorum, 1)) if live else None


def _scripts(job: Job, settings: Settings) -> Iterator[tuple[str, str, dict[str, object]]]:
    marker: dict[str, object] = {"status_done": DONE_FILE, "spec_hash_file": SPEC_HASH_FILE}
    ssh = job.credentials
    for role in job.roles:
        if role.is_resident:
            resident = role.additions.resident
            sshd = {
                "ssh": bool(ssh and resident and resident.ssh),
                "ssh_port": ssh.port if ssh else None,
                "ssh_home": ssh.mount_path if ssh else None,
            }
            yield WORKER, WORKER, {**marker, **sshd, "poll_seconds": _STATUS_POLL}
        elif (script := wrapper(job, role)) == UNTIL_DONE:
            yield UNTIL_DONE, UNTIL_DONE, {**marker, "poll_seconds": _STATUS_POLL}
        elif script and script != SUPERVISE:  # that one is no template
            yield script, script, marker
        gate, place = role.additions.gate, gate_place(job, role)
        if gate and place != "none":
            live, hosts = enough_hosts(job, role, settings) or (None, None)
            yield (
                gate_script(job, role),
                GATE,
                {
                    **marker,
                    "ssh": gate.ssh or gate.port is not None,
                    "port": gate.port or (ssh.port if ssh else None),
                    "hostfile": gate.hosts,
                    "before_command": place == "command",
                    "timeout_seconds": gate.timeout,
                    "kubexec": gate.kubexec,
                    "live": live,
                    "enough": hosts,
                    "poll_seconds": _GATE_POLL,
                    "completed": " ".join(gate.completed),
                    "itself": gate.itself,
                    "status_completed": COMPLETED_FILE,
                },
            )
    if ssh and ssh.copied:
        keys = (ssh.private_key, ssh.public_key)
        private = {ssh.private_key: "0600"}
        renamed = [(key, file, private.get(key, "0644")) for key, file in ssh.files if key in keys]
        values: dict[str, object] = {
            "secret_dir": SSH_PATH,
            "ssh_home": ssh.mount_path,
            "port": ssh.port or _SSH_PORT,
            "renamed": renamed if ssh.provider_class else [],
            "config": (ssh.config or "").splitlines() if ssh.provider_class else [],
        }
        yield SSH_KEYS, SSH_KEYS, values
    if job.preflight is not None:
        check = f"{SCRIPTS_PATH}/{PREFLIGHT_CHECK}"
        values = {"check_file": check, "timeout_seconds": _PREFLIGHT}
        yield PREFLIGHT_SCRIPT, PREFLIGHT_SCRIPT, values
