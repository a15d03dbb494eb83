"""What keeps the commands of a job from running again in their containers.

Apart from the other rules of jobs, because few jobs restart in place. Most of these problems would
not show before the first failure.
"""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.model import Env, InPlace, Job, Port, Role
from etcompile.model.supervision import SUPERVISOR_PORT

_SHARED = ("shareProcessNamespace", "hostPID")
"""Fields of a PodSpec with which a container's first process is not process 1."""
_PORTS = ("MASTER_PORT", "RDZV_ENDPOINT")
"""How the names of variables end that name a port on which the first replica listens."""


def check_in_place(job: Job, in_place: InPlace) -> Iterator[Diagnostic]:
    """Errors for what a job that restarts in place cannot have.

    Args:
        job: The job as its frontend made it, with the templates of its roles.
        in_place: How it restarts in place.
    """
    for role in job.roles:
        if role.name in in_place.roles:
            found = (*_problems(role, in_place), *_port_problems(job, role, in_place.port))
            for place, problem, advice in found:
                facts = {"job": job.name, "problem": problem, "advice": advice}
                yield diagnose(codes.NOT_IN_PLACE, place, **facts)


def _problems(role: Role, in_place: InPlace) -> Iterator[tuple[Location, str, str]]:
    """Where something of a role stands in the way, what that is, and what to do."""
    origin, main = role.template.origin, role.template.main_container
    container = f"container '{main['name']}' of {role.name}"
    if not main.get("command"):
        problem = f"{container} has no command, and the image's own cannot be run again"
        place = role.template.main_origin.locate()
        yield place, problem, "write the command into the container's spec"
    for field in _SHARED:
        if role.template.spec.get(field):
            problem = (
                f"with {field}: true its supervisor is not process 1 of {role.name}, and cannot"
                " end all that its command started"
            )
            yield origin.locate("spec", field), problem, f"remove {field}"
    if in_place.mode == "each" and role.recovery.permanent == "all":
        problem = f"restartPolicy Never of {role.name} says that its command is not run again"
        advice = f"write restartPolicy: OnFailure beside the template of {role.name}"
        yield role.origin.locate("restartPolicy"), problem, advice


def _port_problems(job: Job, role: Role, port: int) -> Iterator[tuple[Location, str, str]]:
    """Who else listens on the port of the supervisors, in a Pod of a role."""
    what, origin = f"the supervisor of {role.name} listens on port {port}", role.template.origin
    advice = f"write another port into the annotation {SUPERVISOR_PORT}"
    others = [opened.name for opened in role.ports if opened == Port(opened.name, port)]
    written = (
        (env["name"], env.get("value")) for env in role.template.main_container.get("env", ())
    )
    added = ((env.name, env.value) for env in role.additions.env if isinstance(env, Env))
    for name, value in (*written, *added):
        if name.endswith(_PORTS) and str(value).rpartition(":")[2] == str(port):
            others.append(name)
    if job.credentials and job.credentials.is_for(role.name) and job.credentials.port == port:
        others.append("ssh")
    for number, container in enumerate(role.template.spec["containers"]):
        for place, given in enumerate(container.get("ports", ())):
            where = origin.locate("spec", "containers", number, "ports", place, "containerPort")
            if given["containerPort"] == port and given.get("protocol") in (None, "TCP"):
                others.clear()
                yield where, f"{what}, and so does container '{container['name']}'", advice
            elif given.get("name") == "supervisor" and container["name"] == role.template.main:
                problem = f"container '{container['name']}' has a port of the name supervisor"
                yield where, f"{problem}, as its supervisor's is called", "rename it"
    if others:
        where = job.origin.locate("metadata", "annotations", SUPERVISOR_PORT)
        yield where, f"{what}, which is also that of {others[0]}", advice
