"""Whether a Pod that looks like one of a job's is one: by its owner, its place and what it ran.

Labels and annotations are anybody's who may create a Pod. A Pod that somebody else made must not
end a run, be followed, or keep a replica from coming back (docs/security.md says what is left).
"""

from etcompile.model.protocol import SPEC_HASH
from etcompile.watch.pod_view import PodView
from etcompile.watch.seen import SeenJob
from etcompile.watch.stored_run import StoredRun


def strangers(run: StoredRun, seen: SeenJob) -> dict[str, tuple[PodView, str]]:
    """By UID, the Pods that carry the marks of the run and are not of it, each with the reason."""
    config = seen.config.metadata["uid"] if seen.config else ""
    jobs = frozenset(batch_job.view.uid for batch_job in seen.batch.values())
    foreign = {}
    pods = [pod.view for pod in seen.pods.values()]
    for pod in (*pods, *(gone.pod for gone in seen.gone.values())):
        if not pod.spec_hash and pod.name in run.names:
            foreign[pod.uid] = pod, f"it has lost the annotation {SPEC_HASH}"
        if pod.spec_hash != run.spec_hash:
            continue
        why = _by_owner(pod, run, config, jobs)
        if not why and pod.ended and pod.name in run.names:
            why = run.difference(pod)
        if why:
            foreign[pod.uid] = pod, why
    return foreign


def _by_owner(pod: PodView, run: StoredRun, config: str, jobs: frozenset[str]) -> str:
    """Why a Pod with the labels of a run is not one of it; empty if it is, as far as that shows.

    Args:
        config: The UID of the job's ConfigMap, which owns Pods that follow others.
        jobs: The UIDs of the Jobs of Kubernetes that make its Pods.
    """
    role = run.job.role(pod.role)
    if role is None:
        return ""  # no rule asks for it
    if role.batch is not None:
        if pod.controller and pod.controller in jobs:
            return ""
        return f"the Job of Kubernetes that makes the Pods of {role.name} has not made it"
    if pod.controller:
        return "another controller has made it"
    if pod.name in run.names:
        is_own = run.names[pod.name].name == pod.role
        return "" if is_own else "its name is that of another role"
    if role.recovery.relaunch is not None and pod.owner != config:
        places = {member.place for member in role.members}
        places |= {member.index for member in role.members}
        if ({pod.index, pod.rank} - {None}) & places:
            return "the watcher has not made it, and the job does not declare it"
    return ""
