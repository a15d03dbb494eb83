"""What has become of each replica of a role: of its Pod, or of the Job that makes its Pods.

Apart from what a job as a whole comes to, because a replica is the same to every kind of job.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from etcompile.k8s import jobs as job_status
from etcompile.k8s.objects import LiveObject, is_going, seconds
from etcompile.k8s.pods import has_ended
from etcompile.model import Member, Role
from etcompile.model.completion import attempt_name, holder
from etcompile.model.protocol import INDEX_LABEL, RANK_LABEL, ROLE_LABEL
from etcompile.model.run_record import RunRecord
from etcompile.status.pod_problems import PodProblem, State, pod_problem, restarts, state
from etcompile.status.values import Replica

_MISSING = PodProblem("Missing", "not created yet, or deleted since")
_SUSPENDED = PodProblem("Suspended", "suspended by its spec")
_NO_POD = PodProblem("Pending", "its Job has not created a Pod yet")


_NOTHING_WRITTEN = RunRecord("")
_AT_WORK = ("Pending", "Running", "Ready", "Unknown")


class _RankedPod(Struct, frozen=True):
    """A Pod that has a rank, as `holder` asks for it."""

    name: str
    index: int | None
    created: float
    ended: bool
    deleting: bool


def replicas_of(
    role: Role,
    pods: Mapping[str, LiveObject],
    jobs: Mapping[str, LiveObject],
    record: RunRecord = _NOTHING_WRITTEN,
) -> Iterator[Replica]:
    """The replicas that a role should have, in the order of its members.

    Args:
        role: The role as the job declares it.
        pods: The Pods of its job, by name.
        jobs: The Jobs of Kubernetes of its job, by name.
        record: The run record: who has which rank, and which attempt.
    """
    ranks = _ranks(role, pods, record) if role.recovery.relaunch else {}
    for member in role.members:
        name = _name(role, member, ranks, record)
        first = role.pod_name(member)
        if role.recovery.relaunch is None and first in pods and state(pods[first]) in _AT_WORK:
            name = first  # a tool has brought it back
        declared = (jobs if role.batch else pods).get(name)
        if declared is None:
            found = _replica(name, "Missing", _MISSING)
        elif role.batch:
            found = _of_job(declared, [pod for pod in pods.values() if made_by(pod) == name])
        else:
            found = _of_pod(declared)
        yield structs.replace(found, role=role.name, index=member.index)


def _name(
    role: Role, member: Member, ranks: Mapping[int, list[_RankedPod]], record: RunRecord
) -> str:
    """The Pod of a replica, or of the one that has followed it in its rank."""
    if role.recovery.relaunch is None:
        attempt = record.replica((role.name, member.index or 0)).attempt
        return attempt_name(role.pod_name(member), attempt)
    rank = member.place or 0
    history = record.replica((role.name, rank)).history
    index = history.index if history is not None else None
    number = holder(member.index, index, ranks.get(rank, []), written=history is not None)
    return role.pod_name(structs.replace(member, index=number))


def _ranks(
    role: Role, pods: Mapping[str, LiveObject], record: RunRecord
) -> dict[int, list[_RankedPod]]:
    """The Pods of each rank of a role in which others may follow those that are declared."""
    out = {replica.out for _, replica in record.every_replica()}
    found: dict[int, list[_RankedPod]] = {}
    for name, pod in pods.items():
        labels = pod["metadata"].get("labels") or {}
        rank, index = labels.get(RANK_LABEL, ""), labels.get(INDEX_LABEL, "")
        if labels.get(ROLE_LABEL) != role.name or pod["metadata"].get("uid") in out:
            continue
        ranked = _RankedPod(
            name,
            int(index) if index.isdecimal() else None,
            seconds(_created(pod)) or 0.0,
            ended=has_ended(pod),
            deleting=is_going(pod),
        )
        place = rank or index
        found.setdefault(int(place) if place.isdecimal() else 0, []).append(ranked)
    return found


def labelled_replica(pod: LiveObject) -> Replica:
    """A replica as far as the labels of its Pod tell, where there is no job to ask."""
    labels = pod["metadata"].get("labels") or {}
    index = labels.get(INDEX_LABEL, "")
    return structs.replace(
        _of_pod(pod),
        role=labels.get(ROLE_LABEL, "(no role)"),
        index=int(index) if index.isdecimal() else None,
    )


def made_by(pod: LiveObject) -> str | None:
    """The Job of Kubernetes that made a Pod; None if none did."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((owner["name"] for owner in owners if owner.get("kind") == "Job"), None)


def _of_pod(pod: LiveObject) -> Replica:
    found = _replica(pod["metadata"]["name"], state(pod), pod_problem(pod))
    return structs.replace(
        found,
        restarts=restarts(pod),
        node=(pod.get("spec") or {}).get("nodeName") or "",
        created=_created(pod),
    )


def _of_job(job: LiveObject, pods: Sequence[LiveObject]) -> Replica:
    """What a Job is by its conditions; else what its newest Pod is."""
    name = job["metadata"]["name"]
    pods = sorted(pods, key=lambda pod: (_created(pod), pod["metadata"]["name"]))
    newest = _of_pod(pods[-1]) if pods else None
    if job_status.has_succeeded(job):
        found = _replica(name, "Succeeded", None)
    elif (failed := job_status.failure(job)) is not None:
        found = _replica(name, "Failed", _failure(failed, newest))
    elif newest is None:
        suspended = job_status.is_suspended(job)
        found = _replica(name, "Pending", _SUSPENDED if suspended else _NO_POD)
    elif newest.state == "Succeeded":
        found = structs.replace(newest, name=name)  # the Job only has to say so, too
    elif newest.state == "Failed":
        # The Job has not decided yet: it may try again.
        found = structs.replace(newest, name=name, state="Pending")
    else:
        found = structs.replace(newest, name=name)
    again = sum(map(restarts, pods)) + max(len(pods) - 1, 0)
    return structs.replace(found, restarts=again, created=_created(job))


def _failure(condition: Mapping[str, Any], newest: Replica | None) -> PodProblem:
    """Why a Job failed, and what its last Pod died of."""
    said = " ".join((condition.get("message") or "").split())
    if newest is not None and newest.state == "Failed":
        last = str(PodProblem(newest.reason, newest.message))
        said = f"{said}; {last}" if said else last
    return PodProblem(condition.get("reason") or "Failed", said)


def _replica(name: str, now: State, why: PodProblem | None) -> Replica:
    reason, message = (why.reason, why.message) if why else ("", "")
    return Replica(name, "", now, reason=reason, message=message)


def _created(value: LiveObject) -> str:
    return value["metadata"].get("creationTimestamp") or ""
