"""Whether a Pod that looks like one of a job's is one: by its owner, its place and what it ran.

Labels and annotations are anybody's who may create a Pod. A Pod that somebody else made must not
end a run, be followed, or keep a replica from coming back (docs/security.md says what is left).
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from etcompile.model import Job, Role
from etcompile.watch.state import MOST_WORDS, PodView, Ran, RanContainer, ran


class Owners(Struct, frozen=True):
    """Who may own Pods of a job.

    Args:
        config: The UID of the job's ConfigMap: of Pods that follow others.
        jobs: The UIDs of the Jobs of Kubernetes that make its Pods.
    """

    config: str
    jobs: frozenset[str]


def difference(
    live: Ran, compiled: RanContainer, written: Mapping[str, Any], *, patched: bool
) -> str:
    """What the main container of a Pod ran that the job does not declare; empty if nothing.

    Images may come from a mirror: the end of their paths counts. A Pod that another version of
    etcompile has made may be wrapped in other words: what the job's author wrote ends them.

    Args:
        live: What it ran.
        compiled: The main container as it is compiled.
        written: The same as the job's author wrote it.
        patched: Whether overlays may have changed what was written.
    """
    found = next((container for container in live if container.name == compiled.name), None)
    if found is None:
        return f"it has no container {compiled.name}"
    if not f"/{_path(found.image)}".endswith(f"/{_path(compiled.image)}"):
        return f"its container {found.name} runs the image {found.image[:100]}"
    [own] = ran({"containers": [{**written, "name": compiled.name}]})
    if patched or found.words == compiled.words or not 0 < len(own.words) < MOST_WORDS:
        return ""
    if found.words[-len(own.words) :] == own.words:
        return ""
    return f"its container {found.name} runs another command"


def stranger(pod: PodView, job: Job, owners: Owners, declared: Mapping[str, Role]) -> str:
    """Why a Pod with the labels of a run is not one of it; empty if it is, as far as that shows.

    Args:
        pod: The Pod as the watcher sees it.
        job: The job that its labels name.
        owners: Who may own its Pods.
        declared: The names of the Pods that the job declares, each with its role.
    """
    role = job.role(pod.role)
    if role is None:
        return ""  # no rule asks for it
    if role.batch is not None:
        if pod.controller and pod.controller in owners.jobs:
            return ""
        return f"the Job of Kubernetes that makes the Pods of {role.name} has not made it"
    if pod.controller:
        return "another controller has made it"
    if pod.name in declared:
        return "" if declared[pod.name].name == pod.role else "its name is that of another role"
    places = {member.place for member in role.members} | {member.index for member in role.members}
    claims = {pod.index, pod.rank} - {None}
    if role.recovery.relaunch is not None and claims & places and pod.owner != owners.config:
        return "the watcher has not made it, and the job does not declare it"
    return ""


def declared_names(job: Job) -> dict[str, Role]:
    """The names of the Pods that a job declares, each with its role."""
    return {role.pod_name(member): role for role in job.roles for member in role.members}


def _path(image: str) -> str:
    """The path of an image, without its registry, tag and digest."""
    first, slash, rest = image.partition("@")[0].partition("/")
    is_registry = slash and (first == "localhost" or "." in first or ":" in first)
    path = rest if is_registry else first + slash + rest
    directory, slash, name = path.rpartition("/")
    return f"{directory}{slash}{name.partition(':')[0]}"
