"""A request for more or fewer workers to the intent that says so: the way back of a fold.

Whether the request can be met is not checked here: the intent is folded like any other, so that it
is refused for the same reasons, in the same words.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from etcompile.model import Job, Role

SEQUENCE = "etcompile.dev/sequence"
_OWN = "etcompile.dev/v1alpha1"
_LABEL_LIMIT = 63
"""Characters of a label's value: the Pods of a ScaleOut carry its name."""

Way = Literal["out", "in"]


class Request(Struct, frozen=True):
    """How many workers there are to be, said in one of four ways.

    Args:
        to: So many in all.
        add: So many more.
        remove: So many fewer, those with the highest indexes.
        pods: Without these.
    """

    to: int | None = None
    add: int | None = None
    remove: int | None = None
    pods: tuple[str, ...] = ()


class Change(Struct, frozen=True):
    """What a request means for a job as it is.

    Args:
        way: Whether workers come or go.
        spec: `toAdd` or `toDelete` of the intent's spec.
    """

    way: Way
    spec: Mapping[str, Any]


def number_of(role: Role) -> int:
    """How many replicas people say there are: those of a role, and those counted with them."""
    return len(role.members) + (role.bounds.beside if role.bounds else 0)


def change(job: Job, request: Request) -> Change | None:
    """What has to change in a job after its intents; None if it has as many workers already."""
    if request.pods:
        # Of a worker that is named twice one goes.
        return Change("in", {"toDelete": {"podNames": [*dict.fromkeys(request.pods)]}})
    role = job.scaled_role
    standing = number_of(role) if role else 0
    more = request.add or -(request.remove or 0)
    if request.to is not None:
        more = request.to - standing
    if more == 0:
        return None
    if more > 0:
        return Change("out", {"toAdd": {"count": more}})
    return Change("in", {"toDelete": {"count": -more}})


def intent_document(
    job: Job, wanted: Change, name: str, sequence: int | None, *, versioned: bool = False
) -> dict[str, Any]:
    """The ScaleOut or ScaleIn that asks for a change.

    Args:
        job: The job that it selects.
        wanted: The change that it asks for.
        name: The intent's name.
        sequence: Its number among the job's intents; None leaves its place to the files.
        versioned: The selector must name the job's API version, too.

    Returns:
        A document: et-operator's own kind for its TrainingJob, etcompile's for any other.
    """
    upstream = job.kind == "TrainingJob"
    selector = {"name": job.name}
    if not upstream:
        version = {"apiVersion": job.api_version} if versioned else {}
        selector = {**version, "kind": job.kind, **selector}
    metadata: dict[str, Any] = {"name": name}
    if job.namespace is not None:
        metadata["namespace"] = job.namespace
    if sequence is not None:
        metadata["annotations"] = {SEQUENCE: str(sequence)}
    return {
        "apiVersion": job.api_version if upstream else _OWN,
        "kind": "ScaleOut" if wanted.way == "out" else "ScaleIn",
        "metadata": metadata,
        "spec": {"selector": selector, **wanted.spec},
    }


def intent_name(job: Job, stem: str) -> str:
    """A name for an intent of the job.

    Args:
        job: The job that it selects.
        stem: What tells it from others of the job: `scale-003-out`.
    """
    name = f"{job.name}-{stem}"
    return name if len(name) <= _LABEL_LIMIT else stem
