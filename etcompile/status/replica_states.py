"""Derive the state of each replica of a role from its Pod, or from the Job that creates its Pods.

The word for a Pod is one that `kubectl get pods` has; its sentence is that of
`rollout.machine.reasons`, so that `apply` and `status` say the same of the same Pod.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from msgspec import structs

from etcompile.causes.log import failures_of
from etcompile.k8s import jobs as job_status
from etcompile.k8s import pods as pod_status
from etcompile.k8s.objects import (
    LiveObject,
    Object,
    created_at,
    is_going,
    labels_of,
    seconds,
    status_of,
)
from etcompile.model import Role
from etcompile.model.protocol import INDEX_LABEL, ROLE_LABEL
from etcompile.model.run_completion import Ranked, holder
from etcompile.model.run_record import RunRecord, label_number, labelled_rank
from etcompile.rollout.machine.reasons import object_state
from etcompile.status.values import Replica, State

# A Pod ------------------------------------------------------------------------------------------


def state(pod: Object) -> State:
    phase = cast("State", pod_status.phase(pod))
    # A kubelet reports a Pod that it ends on request as Failed, and that is no failure.
    is_ended_on_request = phase == "Failed" and is_going(pod) and not any(failures_of(pod))
    if phase in pod_status.ENDED and not is_ended_on_request:
        return phase  # also while it is being deleted
    if is_going(pod):
        return "Terminating"
    return "Ready" if phase == "Running" and pod_status.is_ready(pod) else phase


def _word(pod: Object, now: State) -> str:
    """Return why a Pod is not ready: `Unschedulable`, `ImagePullBackOff`, `OOMKilled` ..."""
    reason, ended_by = status_of(pod).get("reason"), (pod_status.disruption(pod) or ("",))[0]
    is_unreachable = bool(pod_status.unreachable_since(pod))
    if now == "Failed":
        failures = (ended.get("reason") or "Error" for _, ended in pod_status.failures(pod))
        return ended_by or reason or next(failures, "Failed")
    if now == "Terminating":
        return ended_by or ("NodeLost" if is_unreachable else now)
    if is_unreachable or now == "Unknown" or reason == "NodeLost":
        return "NodeLost"
    if (unscheduled := pod_status.unscheduled(pod)) is not None:
        return unscheduled.get("reason") or "Unschedulable"
    if held := next(pod_status.held(pod), None):
        return str(held["reason"])
    if now == "Running":
        return "NotReady"
    inits = pod_status.init_containers(pod)
    if any(map(pod_status.is_running, inits)):
        return "Initializing"
    containers = (*inits, *pod_status.containers(pod))
    waiting = (pod_status.waiting(container).get("reason") for container in containers)
    return next(filter(None, waiting), now)


def _restarts(pod: Object) -> int:
    return pod_status.restarts((*pod_status.init_containers(pod), *pod_status.containers(pod)))


def _of_pod(pod: LiveObject) -> Replica:
    now, reason, message = state(pod), "", ""
    if now not in ("Ready", "Succeeded"):
        reason = _word(pod, now)
        message = object_state(pod).reason.removeprefix(f"{reason}: ")
    return Replica(
        pod["metadata"]["name"],
        "",
        now,
        reason=reason,
        message=message,
        restarts=_restarts(pod),
        node=(pod.get("spec") or {}).get("nodeName") or "",
        created=created_at(pod),
    )


def labelled_replica(pod: LiveObject) -> Replica:
    """Return the replica of a Pod by its labels alone, for an unreadable job."""
    labels = labels_of(pod)
    number = label_number(labels.get(INDEX_LABEL))
    return structs.replace(_of_pod(pod), role=labels.get(ROLE_LABEL, "(no role)"), index=number)


# A replica --------------------------------------------------------------------------------------


def replicas_of(
    role: Role,
    pods: Mapping[str, LiveObject],
    jobs: Mapping[str, LiveObject],
    record: RunRecord,
) -> Iterator[Replica]:
    out = {replica.out for _, replica in record.every_replica()}
    ranks: defaultdict[int, list[Ranked]] = defaultdict(list)
    for pod in pods.values() if role.recovery.relaunch is not None else ():
        labels = labels_of(pod)
        if labels.get(ROLE_LABEL) == role.name and pod["metadata"].get("uid") not in out:
            lives = not (pod_status.has_ended(pod) or is_going(pod))
            index, created = label_number(labels.get(INDEX_LABEL)), seconds(created_at(pod)) or 0.0
            ranks[labelled_rank(labels)].append(Ranked(index, created, lives))
    for member in role.members:
        name = role.pod_name(member)
        if role.recovery.relaunch is not None:
            rank = member.place or 0
            history = record.replica((role.name, rank)).history
            index = history.index if history is not None else None
            number = holder(member.index, index, ranks[rank], written=history is not None)
            name = role.pod_name(structs.replace(member, index=number))
        declared = (jobs if role.batch else pods).get(name)
        if declared is None:
            words = "not created yet, or deleted since"
            replica = Replica(name, "", "Missing", reason="Missing", message=words)
        elif role.batch:
            replica = _of_job(declared, [pod for pod in pods.values() if owning_job(pod) == name])
        else:
            replica = _of_pod(declared)
        yield structs.replace(replica, role=role.name, index=member.index)


def owning_job(pod: LiveObject) -> str | None:
    """Return the name of the batch Job that created a Pod, or None."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((owner["name"] for owner in owners if owner.get("kind") == "Job"), None)


def _of_job(job: LiveObject, pods: Sequence[LiveObject]) -> Replica:
    """Return the state of a Job by its conditions, else by its newest Pod."""
    name = job["metadata"]["name"]
    pods = sorted(pods, key=lambda pod: (created_at(pod), pod["metadata"]["name"]))
    newest = _of_pod(pods[-1]) if pods else None
    if job_status.has_succeeded(job):
        replica = Replica(name, "", "Succeeded")
    elif (failed := job_status.failure(job)) is not None:
        words = " ".join((failed.get("message") or "").split())
        if newest is not None and newest.state == "Failed":
            last = ": ".join(filter(None, (newest.reason, newest.message)))
            words = f"{words}; {last}" if words else last
        reason = failed.get("reason") or "Failed"
        replica = Replica(name, "", "Failed", reason=reason, message=words)
    elif newest is None:
        reason, words = "Pending", "its Job has not created a Pod yet"
        if job_status.is_suspended(job):
            reason, words = "Suspended", "suspended by its spec"
        replica = Replica(name, "", "Pending", reason=reason, message=words)
    else:
        # The Job has not decided about its failed Pod yet: it may try again.
        now: State = "Pending" if newest.state == "Failed" else newest.state
        replica = structs.replace(newest, name=name, state=now)
    again = sum(map(_restarts, pods)) + max(len(pods) - 1, 0)
    return structs.replace(replica, restarts=again, created=created_at(job))
