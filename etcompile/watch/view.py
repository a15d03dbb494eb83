"""What is known of a job, as the rules are shown it: one value, and nothing to ask.

What the store has of a job was written by others, and may be of another run, of another controller,
or of a job of this name that there was before. That is told apart here, so that the rules need not:
a Pod that is not of the run is of no run to them.
"""

from collections.abc import Collection, Mapping

from msgspec import structs

from etcompile.failures import read_log
from etcompile.goodput import read_timeline
from etcompile.k8s.objects import seconds
from etcompile.model.protocol import SPEC_HASH
from etcompile.watch.executor import Case
from etcompile.watch.ownership import Owners, stranger
from etcompile.watch.runs import wants_copy
from etcompile.watch.state import Gone, JobView, PodView, Timeouts, hosts_record
from etcompile.watch.store import SeenJob


def view(
    case: Case,
    strangers: Collection[str],
    timeouts: Timeouts,
    *,
    since: float,
    superseded: bool,
    unreadable: str,
    reannotated: Collection[str] = frozenset(),
) -> JobView:
    """What the rules are shown of a job.

    Args:
        case: The job.
        strangers: The UIDs of Pods that are not of the run (`strangers_of`).
        timeouts: How long to wait for what.
        since: Since when everything is seen, in seconds since 1970.
        superseded: Whether the ConfigMap describes another run.
        unreadable: Why it cannot be read; empty if it can.
        reannotated: The UIDs of Pods of the run that say they are of the other one.
    """
    seen, run = case.seen, case.run

    def shown(pod: PodView) -> PodView:
        if pod.uid in strangers:
            return structs.replace(pod, spec_hash="")
        return structs.replace(pod, spec_hash=run.spec_hash) if pod.uid in reannotated else pod

    batch = next((role for role in run.job.roles if role.batch), None)
    name = batch.pod_name(batch.members[0]) if batch and batch.members else ""
    known = seen.batch.get(name)
    return JobView(
        job=run.job,
        settings=run.settings,
        namespace=case.key[0],
        spec_hash=run.spec_hash,
        pods={name: shown(pod.view) for name, pod in seen.pods.items()},
        gone={
            name: structs.replace(gone, pod=shown(gone.pod))
            for name, gone in _of_this_job(seen).items()
        },
        record=case.record,
        hosts=hosts_record(seen.hosts.data, seen.hosts.annotations) if seen.hosts else None,
        batch=known.view if known else None,
        git_managed=run.git_managed,
        watched_since=max(seen.since, since),
        declared_at=seen.config.written if seen.config else None,
        timeouts=timeouts,
        heard={pod.view.uid: pod.heard for pod in seen.pods.values() if pod.heard},
        tails={pod.view.uid: pod.tail for pod in seen.pods.values() if pod.tail},
        epochs={pod.view.uid: pod.epochs for pod in seen.pods.values() if pod.epochs},
        failures=read_log(seen.status.data) if seen.status else None,
        timeline=read_timeline(seen.status.data) if seen.status else None,
        config_uid=run.uid,
        config_created=run.created,
        copied=not wants_copy(run, seen.status),
        superseded=superseded,
        unreadable=unreadable,
    )


def strangers_of(case: Case) -> dict[str, tuple[PodView, str]]:
    """By UID, the Pods that carry the marks of the run and are not of it, each with the reason."""
    run, seen, config = case.run, case.seen, case.seen.config
    views = [pod.view for pod in seen.pods.values()]
    views += [gone.pod for gone in seen.gone.values()]
    jobs = frozenset(batch_job.view.uid for batch_job in seen.batch.values())
    owners = Owners(config.value["metadata"]["uid"] if config else "", jobs)
    found = {}
    for pod in views:
        if not pod.spec_hash and pod.name in run.names:
            found[pod.uid] = pod, f"it has lost the annotation {SPEC_HASH}"
        if pod.spec_hash != run.spec_hash:
            continue
        why = stranger(pod, run.job, owners, run.names)
        if not why and pod.ended and pod.name in run.names:
            why = run.difference(pod)
        if why:
            found[pod.uid] = pod, why
    return found


def _of_this_job(seen: SeenJob) -> Mapping[str, Gone]:
    """The Pods that vanished of a job as it is declared now.

    Who deletes a job and applies it again makes its Pods again, too: those from before its
    ConfigMap are not missed.
    """
    metadata = seen.config.value["metadata"] if seen.config else {}
    declared = seconds(metadata.get("creationTimestamp")) or 0.0
    return {name: gone for name, gone in seen.gone.items() if gone.pod.created >= declared}
