"""What has become of each replica of a role: of its Pod, or of the Job that makes its Pods.

Apart from what a job as a whole comes to, because a replica is the same to every kind of job.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from etcompile.cluster.trouble import State, Trouble, restarts, state, trouble
from etcompile.model import Role
from etcompile.model.protocol import INDEX_LABEL, RANK_LABEL, ROLE_LABEL
from etcompile.status.values import Replica

Object = dict[str, Any]

_MISSING = Trouble("Missing", "not created yet, or deleted since")
_SUSPENDED = Trouble("Suspended", "its spec suspends it")
_NO_POD = Trouble("Pending", "its Job has made no Pod yet")


def replicas_of(
    role: Role, pods: Mapping[str, Object], jobs: Mapping[str, Object]
) -> Iterator[Replica]:
    """The replicas that a role should have, in the order of its members.

    Args:
        role: The role.
        pods: The Pods of its job, by name.
        jobs: The Jobs of Kubernetes of its job, by name.
    """
    holders = _holders(role, pods)
    for member in role.members:
        name = holders.get(str(member.place)) or role.pod_name(member)
        declared = (jobs if role.batch else pods).get(name)
        if declared is None:
            found = _replica(name, "Missing", _MISSING)
        elif role.batch:
            found = _of_job(declared, [pod for pod in pods.values() if made_by(pod) == name])
        else:
            found = _of_pod(declared)
        yield structs.replace(found, role=role.name, index=member.index)


def _holders(role: Role, pods: Mapping[str, Object]) -> dict[str, str]:
    """The Pods that have ranks, where others may have followed those that are declared.

    Whoever is at work has a rank; of those that have ended, the last (docs/watcher.md).
    """
    if role.relaunch is None:
        return {}
    found: dict[str, list[Object]] = {}
    for pod in pods.values():
        labels = pod["metadata"].get("labels") or {}
        if labels.get(ROLE_LABEL) == role.name and RANK_LABEL in labels:
            found.setdefault(labels[RANK_LABEL], []).append(pod)
    return {rank: max(those, key=_at_work)["metadata"]["name"] for rank, those in found.items()}


def _at_work(pod: Object) -> tuple[bool, str]:
    return state(pod) not in ("Failed", "Succeeded"), _created(pod)


def labelled_replica(pod: Object) -> Replica:
    """A replica as far as the labels of its Pod tell, where there is no job to ask."""
    labels = pod["metadata"].get("labels") or {}
    index = labels.get(INDEX_LABEL, "")
    return structs.replace(
        _of_pod(pod),
        role=labels.get(ROLE_LABEL, "(no role)"),
        index=int(index) if index.isdecimal() else None,
    )


def made_by(pod: Object) -> str | None:
    """The Job of Kubernetes that made a Pod; None if none did."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((one["name"] for one in owners if one.get("kind") == "Job"), None)


def _of_pod(pod: Object) -> Replica:
    found = _replica(pod["metadata"]["name"], state(pod), trouble(pod))
    return structs.replace(
        found,
        restarts=restarts(pod),
        node=(pod.get("spec") or {}).get("nodeName") or "",
        created=_created(pod),
    )


def _of_job(job: Object, pods: Sequence[Object]) -> Replica:
    """What a Job is by its conditions; else what its newest Pod is."""
    name = job["metadata"]["name"]
    pods = sorted(pods, key=lambda pod: (_created(pod), pod["metadata"]["name"]))
    newest = _of_pod(pods[-1]) if pods else None
    conditions = (job.get("status") or {}).get("conditions") or ()
    true = {one["type"]: one for one in conditions if one.get("status") == "True"}
    if "Complete" in true:
        found = _replica(name, "Succeeded", None)
    elif "Failed" in true:
        found = _replica(name, "Failed", _failure(true["Failed"], newest))
    elif newest is None:
        suspended = (job.get("spec") or {}).get("suspend")
        found = _replica(name, "Pending", _SUSPENDED if suspended else _NO_POD)
    elif newest.state in ("Failed", "Succeeded"):
        # The Job has not decided yet: it may try again.
        found = structs.replace(newest, name=name, state="Pending")
    else:
        found = structs.replace(newest, name=name)
    again = sum(map(restarts, pods)) + max(len(pods) - 1, 0)
    return structs.replace(found, restarts=again, created=_created(job))


def _failure(condition: Mapping[str, Any], newest: Replica | None) -> Trouble:
    """Why a Job failed, and what its last Pod died of."""
    said = " ".join((condition.get("message") or "").split())
    if newest is not None and newest.state == "Failed":
        last = str(Trouble(newest.reason, newest.message))
        said = f"{said}; {last}" if said else last
    return Trouble(condition.get("reason") or "Failed", said)


def _replica(name: str, now: State, why: Trouble | None) -> Replica:
    reason, message = (why.reason, why.message) if why else ("", "")
    return Replica(name, "", now, reason=reason, message=message)


def _created(value: Object) -> str:
    return value["metadata"].get("creationTimestamp") or ""
