"""What keeps the commands of a job from running again in their containers.

Apart from the other rules of jobs, because few jobs restart in place. Each problem is one that
nobody would see before the first failure: a supervisor that is not asked, or is not believed.
"""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.model import InPlace, Job, Role

_SHARED = ("shareProcessNamespace", "hostPID")
"""Fields of a PodSpec with which a container's first process is not process 1."""


def check_in_place(job: Job, in_place: InPlace) -> Iterator[Diagnostic]:
    """Errors for what a job that restarts in place cannot have.

    Args:
        job: The job as its frontend made it, with the templates of its roles.
        in_place: How it restarts in place.
    """
    for role in job.roles:
        if role.name in in_place.roles:
            for place, problem, advice in _problems(role, in_place):
                facts = {"job": job.name, "problem": problem, "advice": advice}
                yield diagnose(codes.NOT_IN_PLACE, place, **facts)


def _problems(role: Role, in_place: InPlace) -> Iterator[tuple[Location, str, str]]:
    """Where something of a role stands in the way, what that is, and what to do."""
    origin, main = role.template.origin, role.template.main_container
    names = [container["name"] for container in role.template.spec["containers"]]
    place = ("spec", "containers", names.index(role.template.main))
    container = f"container '{main['name']}' of {role.name}"
    if not main.get("command"):
        problem = f"{container} has no command, and the image's own cannot be run again"
        yield origin.locate(*place), problem, "write the command into the container's spec"
    if main.get("readinessProbe"):
        problem = f"the readinessProbe of {container} does not tell whether its command runs"
        advice = "remove it: such a container is ready as long as its command runs"
        yield origin.locate(*place, "readinessProbe", key=True), problem, advice
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
