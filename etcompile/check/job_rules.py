"""Check rules that need the whole job: names, bounds, and reserved parts of the template.

They hold for every kind, so they read the model and not a document; each diagnostic still points
into the document that the value comes from.
"""

import re
from collections.abc import Callable, Iterator

from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.k8s.path import dotted
from etcompile.launch.launchers import launch_program, may_launch
from etcompile.model import Job, Member, Origin, Role, protocol
from etcompile.model.job import Env
from etcompile.model.supervision import SUPERVISOR_PORT

_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_NAME_LIMIT = 63
_WITHOUT_SHELL = r"gcr\.io/distroless/(?!.*:[\w.-]*debug)|cgr\.dev/chainguard/static(?![\w-])"

_RESERVED_VOLUMES = (
    *(protocol.SCRIPTS, protocol.HOSTS, protocol.STATUS, protocol.RUN_STATE, protocol.USERS),
    *(protocol.SSH, f"{protocol.SSH}-home"),
)
_RESERVED_INITS = ("wait-for-workers", "copy-ssh-keys", protocol.USERS)


def check_spec(job: Job) -> list[Diagnostic]:
    """Report what is wrong with a job as its document describes it, before any scale intent.

    `check_name` checks the name, which needs no job.
    """
    problems = []
    if job.run.suspended:
        by = job.run.suspended_by
        facts = {"job": job.name, "field": "the annotation" if "annotations" in by else dotted(by)}
        problems.append(diagnose(codes.SUSPENDED, job.origin.locate(*by), **facts))
    for role in job.roles:
        problems += (problem for rule in ROLE_RULES for problem in rule(job, role))
    problems += unguarded_commands(job)
    if any(may_launch(role.template.main_container) for role in job.roles):
        from etcompile.check.launch_rules import check_launch  # noqa: PLC0415 - few jobs need it

        # Checked with the initial workers: after a scale-in, a launcher runs on.
        problems += check_launch(job)
    for role in job.roles:
        problems += obstacles_to_restarts_in_place(job, role)
    return problems


def check_longest_name(job: Job, highest_index: int) -> list[Diagnostic]:
    """Report the longest of all names if it is too long, so that one change corrects all.

    Args:
        highest_index: The highest index that a scale-out ever assigned.
    """
    longest: dict[str, Role] = {}
    for role in job.roles:
        index = highest_index if role.bounds else len(role.members) - 1
        if role.bounds and role.bounds.maximum:
            index = max(index, role.bounds.maximum - 1)
        last = Member(None if role.labels.index is None else index)
        # A Pod behind a Service needs no host name, so its name may be longer.
        pod_name = "" if role.naming.service else role.pod_name(last)
        longest.setdefault(max(role.host_name(last), pod_name, key=len), role)
    name = max(longest, key=len, default="")
    if len(name) <= _NAME_LIMIT:
        return []
    bounds = longest[name].bounds
    facts = {
        "name": name,
        "length": len(name),
        "limit": _NAME_LIMIT,
        "excess": len(name) - _NAME_LIMIT,
        "what": "the job's name or the ID of its run" if job.run_id else "the job's name",
        "advice": f" or lower {bounds.names[1]}" if bounds and bounds.maximum else "",
    }
    return [diagnose(codes.NAME_TOO_LONG, job.origin.locate("metadata", "name"), **facts)]


def check_name(name: str, origin: Origin) -> list[Diagnostic]:
    if _LABEL.fullmatch(name):
        return []
    if "." in name:
        problem = "it contains a dot"
    elif not name[:1].isalpha():
        problem = "it does not start with a letter"
    elif name.endswith("-"):
        problem = "it ends with '-'"
    else:
        problem = "it contains other characters"
    place = origin.locate("metadata", "name")
    return [diagnose(codes.JOB_NAME, place, name=name, problem=problem)]


def replicas_out_of_bounds(_: Job, role: Role) -> Iterator[Diagnostic]:
    if role.bounds is None:
        return
    others = role.bounds.others
    replicas, low = len(role.members) + others, role.bounds.minimum + others
    high = None if role.bounds.maximum is None else role.bounds.maximum + others
    least, most = role.bounds.names
    count, written = role.bounds.count or (f"{role.name}.replicas", role.origin.at("replicas"))
    facts = {"where": count, "replicas": replicas, "minimum": low, "maximum": high}
    facts |= {"least": least, "most": most, "wider": role.bounds.wider(len(role.members))}
    if high is not None and low > high:
        place = (role.bounds.origin or role.origin).locate("minReplicas")
        yield diagnose(codes.MIN_ABOVE_MAX, place, **{**facts, "where": role.name})
    elif high is not None and replicas > high:
        yield diagnose(codes.REPLICAS_ABOVE_MAX, written.locate(), **facts)
    elif replicas < low:
        yield diagnose(codes.REPLICAS_BELOW_MIN, written.locate(), **facts)


def reserved_names(job: Job, role: Role) -> Iterator[Diagnostic]:
    spec, origin = role.template.spec, role.template.origin
    volumes = {volume.name for volume in role.additions.volumes} | set(_RESERVED_VOLUMES)
    paths = {mount.path for mount in role.additions.mounts}
    if (ssh := job.credentials) and ssh.is_for(role.name):
        paths |= {ssh.mount_path.rstrip("/")}
        volumes |= {ssh.volume} if ssh.volume else set()
    inits = {*_RESERVED_INITS, *(init.name for init in role.additions.setup)}
    inits |= {role.additions.gate.name} if role.additions.gate else set()
    lists = (
        ("volumes", "volume", volumes),
        ("initContainers", "init container", inits),
        ("containers", "container", inits),
    )
    for field, where, names in lists:
        for index, item in enumerate(spec.get(field, ())):
            if item["name"] in names:
                place = origin.locate("spec", field, index, "name")
                facts = {"where": where, "name": item["name"], "what": "name"}
                yield diagnose(codes.RESERVED_NAME, place, **facts)
    for index, mount in enumerate(role.template.main_container.get("volumeMounts", ())):
        path = str(mount["mountPath"]).rstrip("/")
        if path in paths or f"{path}/".startswith("/etc/etcompile/"):
            place = role.template.main_origin.locate("volumeMounts", index, "mountPath")
            yield diagnose(codes.RESERVED_NAME, place, where="mount path", name=path, what="path")


def overwritten_fields(job: Job, role: Role) -> Iterator[Diagnostic]:
    origin = role.template.origin
    # Labels that replace a template's; None for a value per replica.
    numbered = (role.labels.index, role.labels.rank, role.labels.relaunch)
    identity: dict[str, str | None] = {
        **dict.fromkeys(label for label in (*numbered, *protocol.RESERVED_LABELS) if label),
        **job.selector,
        **role.labels.common,
        **role.labels.objects,
        **role.labels.pods,
        **role.labels.leader,
    }
    for label, value in role.template.labels.items():
        if label in identity and identity[label] != value:
            place = origin.locate("metadata", "labels", label)
            facts = {"name": label, "reason": "it is how the job finds its Pods"}
            facts |= {"where": "label", "advice": "use another label"}
            yield diagnose(codes.OVERWRITTEN, place, **facts)
    for name, reason in protocol.POD_ANNOTATIONS.items():
        if name in role.template.annotations:
            place = origin.locate("metadata", "annotations", name)
            facts = {"where": "annotation", "advice": "remove it", "name": name, "reason": reason}
            yield diagnose(codes.OVERWRITTEN, place, **facts)
    for field in ("hostname", "subdomain"):
        # Such a job has one Service under any setting: its hosts are named by it.
        if field in role.template.spec and job.is_behind_one_service("per-replica"):
            reason = "the Pods' host names come from the job's name"
            facts = {"name": str(role.template.spec[field]), "reason": reason}
            facts |= {"where": field, "advice": "remove it"}
            yield diagnose(codes.OVERWRITTEN, origin.locate("spec", field), **facts)
    variables = [env for env in role.additions.env if not env.default]
    added = {env.name for env in variables}
    whole = [env for env in variables if isinstance(env, Env) and env.of == "all"]
    same = {(env.name, env.value) for env in whole if not env.field}
    for index, env in enumerate(role.template.main_container.get("env", ())):
        if env["name"] in added and (env["name"], env.get("value")) not in same:
            place = role.template.main_origin.locate("env", index)
            facts = {"name": env["name"], "reason": "the job sets it"}
            facts |= {"where": "environment variable", "advice": ""}
            yield diagnose(codes.OVERWRITTEN, place, **facts)


def unsuitable_containers(job: Job, role: Role) -> Iterator[Diagnostic]:
    # A trainer that is not the first container, without an annotation (defect 42).
    if role.additions.run_once and not launch_program(role.template.main_container):
        for index, container in enumerate(role.template.spec["containers"]):
            if program := launch_program(container):
                place = role.template.origin.locate("spec", "containers", index, "name")
                facts = {"other": container["name"], "program": program}
                yield diagnose(codes.PROBABLY_SIDECAR, place, first=role.template.main, **facts)
                break
    main, origin = role.template.main_container, role.template.main_origin
    resident = role.additions.resident
    wrapped = (role.additions.run_once or role.recovery.serves) and main.get("command")
    if (wrapped or resident or role.additions.gate) and re.match(
        _WITHOUT_SHELL, str(main["image"])
    ):
        where = f"container '{role.template.main}' of {role.name}"
        facts = {"where": where, "image": main["image"]}
        yield diagnose(codes.IMAGE_WITHOUT_SHELL, origin.locate("image"), **facts)
    port = role.privileged_ssh_port(job.credentials)
    if port is not None and role.template.spec.get("hostNetwork"):
        place = role.template.origin.locate("spec", "hostNetwork", key=True)
        yield diagnose(codes.PRIVILEGED_SSH_PORT, place, role=role.name, port=port)
    silent = resident is not None and not resident.keeps_args
    if silent and main.get("args") and not main.get("command"):
        yield diagnose(
            codes.NO_EFFECT,
            origin.locate("args", key=True),
            where=f"args of container '{role.template.main}'",
            reason="without a command the container serves the launcher and takes no arguments",
            advice="write a command too, or remove the arguments",
        )


ROLE_RULES: tuple[Callable[[Job, Role], Iterator[Diagnostic]], ...] = (
    replicas_out_of_bounds,
    reserved_names,
    overwritten_fields,
    unsuitable_containers,
)


def unguarded_commands(job: Job) -> Iterator[Diagnostic]:
    """Warn once of all roles with the image's command, before which nothing can be inserted."""
    in_place = job.run.in_place.roles if job.run.in_place else ()  # where it is an error
    unguarded: list[Role] = []
    for role in job.roles:
        main, resident = role.template.main_container, role.additions.resident
        guarded = role.additions.run_once or role.recovery.serves
        if not guarded or role.name in in_place or main.get("command"):
            continue
        # Without arguments, a container that serves the launcher runs no command of its image.
        if resident is None or (main.get("args") and resident.keeps_args):
            unguarded.append(role)
    if unguarded:
        by_container: dict[str, list[str]] = {}
        for role in unguarded:
            by_container.setdefault(role.template.main, []).append(role.name)
        named = [
            f"container '{main}'" + (f" of {', '.join(roles)}" if len(job.roles) > 1 else "")
            for main, roles in by_container.items()
        ]
        # The message "has no command" is in the singular.
        where = named[0] if len(named) == 1 else f"each of {' and '.join(named)}"
        place = unguarded[0].template.main_origin.locate()
        yield diagnose(codes.NO_RUN_ONCE_GUARD, place, where=where)


# Restarts in place ----------------------------------------------------------------------------

_SHARED = ("shareProcessNamespace", "hostPID")
"""Fields of a PodSpec with which a container's first process is not process 1."""


def obstacles_to_restarts_in_place(job: Job, role: Role) -> Iterator[Diagnostic]:
    """Report what keeps the command of a role from running again in its container.

    Most of these problems would not show before the first failure.
    """
    if (in_place := job.run.in_place) is None or role.name not in in_place.roles:
        return

    def obstacle(place: Location, problem: str, advice: str) -> Diagnostic:
        facts = {"job": job.name, "problem": problem, "advice": advice}
        return diagnose(codes.NOT_IN_PLACE, place, **facts)

    origin, main, port = role.template.origin, role.template.main_container, in_place.port
    if not main.get("command"):
        problem = (
            f"container '{main['name']}' of {role.name} has no command, and the image's own cannot"
            " be run again"
        )
        place = role.template.main_origin.locate()
        yield obstacle(place, problem, "write the command into the container's spec")
    for field in _SHARED:
        if role.template.spec.get(field):
            problem = (
                f"with {field}: true its supervisor is not process 1 of {role.name}, and cannot"
                " end all that its command started"
            )
            yield obstacle(origin.locate("spec", field), problem, f"remove {field}")
    if in_place.mode == "each" and role.recovery.permanent == "all":
        problem = f"restartPolicy Never of {role.name} says that its command is not run again"
        advice = f"write restartPolicy: OnFailure beside the template of {role.name}"
        yield obstacle(role.origin.locate("restartPolicy"), problem, advice)
    for number, container in enumerate(role.template.spec["containers"]):
        for index, opened in enumerate(container.get("ports", ())):
            if opened["containerPort"] == port and opened.get("protocol") in (None, "TCP"):
                where = ("spec", "containers", number, "ports", index, "containerPort")
                problem = f"the supervisor of {role.name} listens on port {port}, and so does"
                problem += f" container '{container['name']}'"
                advice = f"write another port into the annotation {SUPERVISOR_PORT}"
                yield obstacle(origin.locate(*where), problem, advice)
