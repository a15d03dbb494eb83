"""Rules that need the whole job: names, bounds, and what the template may not take.

They hold for every kind, so they look at the model and not at a document; each diagnostic
still points into the document the value came from.
"""

import re
from collections.abc import Iterable, Iterator

from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.k8s.names import is_run
from etcompile.k8s.path import dotted
from etcompile.launch.commands import launch_program, may_launch
from etcompile.model import FieldEnv, Job, Member, Role, protocol
from etcompile.model.run import LONGEST_RUN

_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_NAME_LIMIT = 63
_WITHOUT_SHELL = r"gcr\.io/distroless/(?!.*:[\w.-]*debug)|cgr\.dev/chainguard/static(?![\w-])"

_OWN_VOLUMES = (
    protocol.SCRIPTS,
    protocol.HOSTS,
    protocol.STATUS,
    protocol.RUN_STATE,
    protocol.SSH,
    f"{protocol.SSH}-home",
    protocol.USERS,
)
_OWN_INITS = ("wait-for-workers", "copy-ssh-keys", protocol.USERS)


def check_spec(job: Job) -> list[Diagnostic]:
    """What is wrong with a job as its document describes it, before any scale intent."""
    return [
        *_name(job),
        *_suspended(job),
        *(problem for role in job.roles for problem in _role(job, role)),
        *_unguarded(job),
        # Held against the workers it starts with: scaled in later, a launcher runs on.
        *_launch_problems(job),
        *_in_place_problems(job),
    ]


def check_folded(job: Job, highest_index: int) -> list[Diagnostic]:
    """What is wrong with a job once its scale intents are folded in.

    Args:
        job: The job with its final members.
        highest_index: The highest index a scale-out ever gave out.
    """
    return list(_longest_name(job, highest_index))


def check_run(run: str | None, place: Location | None) -> list[Diagnostic]:
    """What is wrong with the ID of a run.

    Args:
        run: The ID; None if there is none.
        place: Where an overlay says it; None if whoever runs the program did.
    """
    if run is None or is_run(run):
        return []
    problem = f"the ID of a run is at most {LONGEST_RUN} lower-case letters, digits and '-'"
    advice = "name it after what changed, such as lr2, or say auto"
    return [diagnose(codes.OPTION, place, option=f"--run '{run}'", problem=problem, advice=advice)]


def _launch_problems(job: Job) -> Iterable[Diagnostic]:
    """What a launcher asks of the workers; a job without a launcher asks nothing."""
    if not any(map(may_launch, (role.template.main_container for role in job.roles))):
        return ()
    from etcompile.check.launch import check_launch  # noqa: PLC0415 - few jobs need it

    return check_launch(job)


def _in_place_problems(job: Job) -> Iterable[Diagnostic]:
    """What keeps a job from restarting in place; nothing of one that does not."""
    if job.run.in_place is None:
        return ()
    from etcompile.check.in_place import check_in_place  # noqa: PLC0415 - few jobs need it

    return check_in_place(job, job.run.in_place)


def _name(job: Job) -> Iterator[Diagnostic]:
    if _LABEL.fullmatch(job.name):
        return
    if "." in job.name:
        problem = "it contains a dot"
    elif not job.name[:1].isalpha():
        problem = "it does not start with a letter"
    elif job.name.endswith("-"):
        problem = "it ends with '-'"
    else:
        problem = "it contains other characters"
    place = job.origin.locate("metadata", "name")
    yield diagnose(codes.JOB_NAME, place, name=job.name, problem=problem)


def _suspended(job: Job) -> Iterator[Diagnostic]:
    if job.run.suspended:
        by = job.run.suspended_by
        field = "the annotation" if "annotations" in by else dotted(by)
        yield diagnose(codes.SUSPENDED, job.origin.locate(*by), job=job.name, field=field)


def _longest_name(job: Job, highest_index: int) -> Iterator[Diagnostic]:
    """One error for the longest of all names, so that who shortens it does so once."""
    longest: dict[str, Role] = {}
    for role in job.roles:
        index = highest_index if role.bounds else len(role.members) - 1
        if role.bounds and role.bounds.maximum:
            index = max(index, role.bounds.maximum - 1)
        last = Member(None if role.labels.index is None else index)
        # A Pod that nobody looks for by its name may have a longer one.
        pod_name = "" if role.naming.service else role.pod_name(last)
        longest.setdefault(max(role.host_name(last), pod_name, key=len), role)
    name = max(longest, key=len, default="")
    if (length := len(name)) > _NAME_LIMIT:
        bounds = longest[name].bounds
        facts = {"name": name, "length": length, "limit": _NAME_LIMIT}
        facts |= {"excess": length - _NAME_LIMIT}
        what = "the job's name or the ID of its run" if job.run_id else "the job's name"
        advice = f" or lower {bounds.names[1]}" if bounds and bounds.maximum else ""
        place = job.origin.locate("metadata", "name")
        yield diagnose(codes.NAME_TOO_LONG, place, **facts, what=what, advice=advice)


def _role(job: Job, role: Role) -> Iterator[Diagnostic]:
    yield from _bounds(role)
    yield from _reserved(job, role)
    yield from _overwritten(job, role)
    yield from _sidecar_first(role)
    main = role.template.main_container
    wrapped = (role.additions.run_once or role.recovery.serves) and main.get("command")
    if (wrapped or role.additions.resident or role.additions.gate) and re.match(
        _WITHOUT_SHELL, str(main["image"])
    ):
        yield diagnose(
            codes.IMAGE_WITHOUT_SHELL,
            role.template.main_origin.locate("image"),
            where=f"container '{role.template.main}' of {role.name}",
            image=main["image"],
        )
    port = role.privileged_ssh_port(job.credentials)
    if port is not None and role.template.spec.get("hostNetwork"):
        yield diagnose(
            codes.PRIVILEGED_SSH_PORT,
            role.template.origin.locate("spec", "hostNetwork", key=True),
            role=role.name,
            port=port,
        )
    resident = role.additions.resident
    silent = resident is not None and not resident.keeps_args
    if silent and main.get("args") and not main.get("command"):
        yield diagnose(
            codes.NO_EFFECT,
            role.template.main_origin.locate("args", key=True),
            where=f"args of container '{role.template.main}'",
            reason="without a command the container serves the launcher and takes no arguments",
            advice="write a command too, or remove the arguments",
        )


def _unguarded(job: Job) -> Iterator[Diagnostic]:
    """One warning for all roles whose command is the image's own: nothing can be put before it."""
    found = [
        role
        for role in job.roles
        if (role.additions.run_once or role.recovery.serves)
        and not (job.run.in_place and role.name in job.run.in_place.roles)  # which is an error
        and not role.template.main_container.get("command")
        and not (role.additions.resident and not role.template.main_container.get("args"))
        and not (role.additions.resident and not role.additions.resident.keeps_args)
    ]
    if found:
        first = found[0]
        of: dict[str, list[str]] = {}
        for role in found:
            of.setdefault(role.template.main, []).append(role.name)
        named = [
            f"container '{main}'" + (f" of {', '.join(roles)}" if len(job.roles) > 1 else "")
            for main, roles in of.items()
        ]
        # "has no command" suits several only one by one.
        where = named[0] if len(named) == 1 else f"each of {' and '.join(named)}"
        yield diagnose(codes.NO_RUN_ONCE_GUARD, first.template.main_origin.locate(), where=where)


def _bounds(role: Role) -> Iterator[Diagnostic]:
    if role.bounds is None:
        return
    beside = role.bounds.beside
    replicas, low = len(role.members) + beside, role.bounds.minimum + beside
    high = None if role.bounds.maximum is None else role.bounds.maximum + beside
    least, most = role.bounds.names
    own = f"{role.name}.replicas", role.origin.at("replicas")
    count, written = role.bounds.count or own
    facts = {"where": count, "replicas": replicas, "minimum": low, "maximum": high}
    facts |= {"least": least, "most": most}
    limits = role.bounds.origin or role.origin
    if high is not None and low > high:
        yield diagnose(
            codes.MIN_ABOVE_MAX, limits.locate("minReplicas"), **{**facts, "where": role.name}
        )
    elif high is not None and replicas > high:
        yield diagnose(codes.REPLICAS_ABOVE_MAX, written.locate(), **facts)
    elif replicas < low:
        yield diagnose(codes.REPLICAS_BELOW_MIN, written.locate(), **facts)


def _reserved(job: Job, role: Role) -> Iterator[Diagnostic]:
    """Names and paths in a template that the compiled Pod needs for itself."""
    spec, origin = role.template.spec, role.template.origin
    added = {volume.name for volume in role.additions.volumes} | set(_OWN_VOLUMES)
    paths = {mount.path for mount in role.additions.mounts}
    if (ssh := job.credentials) and ssh.is_for(role.name):
        paths |= {ssh.mount_path.rstrip("/")}
        added |= {ssh.volume} if ssh.volume else set()
    for index, volume in enumerate(spec.get("volumes", ())):
        if volume["name"] in added:
            place = origin.locate("spec", "volumes", index, "name")
            yield diagnose(
                codes.RESERVED_NAME, place, where="volume", name=volume["name"], what="name"
            )
    inits = {*_OWN_INITS, *(init.name for init in role.additions.setup)}
    inits |= {role.additions.gate.name} if role.additions.gate else set()
    for index, container in enumerate(spec.get("initContainers", ())):
        if container["name"] in inits:
            place = origin.locate("spec", "initContainers", index, "name")
            facts = {"where": "init container", "name": container["name"], "what": "name"}
            yield diagnose(codes.RESERVED_NAME, place, **facts)
    for index, container in enumerate(spec["containers"]):
        if container["name"] in inits:
            place = origin.locate("spec", "containers", index, "name")
            facts = {"where": "container", "name": container["name"], "what": "name"}
            yield diagnose(codes.RESERVED_NAME, place, **facts)
    for index, mount in enumerate(role.template.main_container.get("volumeMounts", ())):
        path = str(mount["mountPath"]).rstrip("/")
        if path in paths or f"{path}/".startswith("/etc/etcompile/"):
            place = role.template.main_origin.locate("volumeMounts", index, "mountPath")
            yield diagnose(codes.RESERVED_NAME, place, where="mount path", name=path, what="path")


def _overwritten(job: Job, role: Role) -> Iterator[Diagnostic]:
    origin = role.template.origin
    own = _identity(job, role)
    for label, value in role.template.labels.items():
        if label in own and own[label] != value:
            place = origin.locate("metadata", "labels", label)
            facts = {"name": label, "reason": "it is how the job finds its Pods"}
            yield diagnose(
                codes.OVERWRITTEN, place, where="label", advice="use another label", **facts
            )
    for name, reason in protocol.POD_ANNOTATIONS.items():
        if name in role.template.annotations:
            place = origin.locate("metadata", "annotations", name)
            facts = {"name": name, "reason": reason}
            yield diagnose(
                codes.OVERWRITTEN, place, where="annotation", advice="remove it", **facts
            )
    for field in ("hostname", "subdomain"):
        # Whichever way Services are asked for, such a job has one: its hosts are named by it.
        if field in role.template.spec and job.is_behind_one_service("per-replica"):
            place = origin.locate("spec", field)
            reason = "the Pods' host names come from the job's name"
            facts = {"name": str(role.template.spec[field]), "reason": reason}
            yield diagnose(codes.OVERWRITTEN, place, where=field, advice="remove it", **facts)
    added = {env.name for env in role.additions.env if isinstance(env, FieldEnv) or not env.default}
    for index, env in enumerate(role.template.main_container.get("env", ())):
        if env["name"] in added:
            place = role.template.main_origin.locate("env", index)
            facts = {"name": env["name"], "reason": "the job sets it"}
            yield diagnose(
                codes.OVERWRITTEN, place, where="environment variable", advice="", **facts
            )


def _identity(job: Job, role: Role) -> dict[str, str | None]:
    """The labels of a role's Pods that replace a template's; None for a value of each replica."""
    numbered = (role.labels.index, role.labels.rank, role.labels.relaunch)
    return {
        **dict.fromkeys(label for label in (*numbered, *protocol.OWN_LABELS) if label),
        **job.selector,
        **role.labels.common,
        **role.labels.objects,
        **role.labels.pods,
        **role.labels.leader,
    }


def _sidecar_first(role: Role) -> Iterator[Diagnostic]:
    """A trainer that is not the first container, and no annotation that says so (defect 42)."""
    containers = role.template.spec["containers"]
    if not role.additions.run_once or launch_program(role.template.main_container):
        return
    for index, container in enumerate(containers):
        if found := launch_program(container):
            place = role.template.origin.locate("spec", "containers", index, "name")
            facts = {"other": container["name"], "program": found}
            yield diagnose(codes.PROBABLY_SIDECAR, place, first=role.template.main, **facts)
            return
