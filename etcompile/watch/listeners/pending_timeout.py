"""End a run whose Pods wait too long to start, where the kind says so (reference/dlrover.md 4.3).

Not if a gang scheduler makes them wait, however long its queue is.
"""

from etcompile.watch.core.run import End, Listener, Requeue, Run


def _before(run: Run) -> Run:
    gang, times = frozenset(run.record.gang), list[Requeue]()
    if run.view.settings.gang != "none" or not any(r.recovery.relaunch for r in run.job.roles):
        return run
    for replica in run.replicas:
        role, pod, rules = replica.role, replica.pod, replica.role.recovery.relaunch
        if rules is None or rules.pending is None or rules.tolerance == "never":
            continue
        if pod is None or pod.phase != "Pending" or pod.deleting or pod.refused:
            continue
        if pod.uid in gang or pod.uid == run.record.replica(replica.key).lost:
            continue
        due = pod.created + rules.pending
        running = sum(r.pod is not None and r.pod.ready for r in run.replicas if r.role is role)
        least = role.bounds.minimum if role.bounds else len(role.members)
        if run.now < due:
            times.append(Requeue(due))
        elif run.end is None and (rules.tolerance == "any" or running < least):
            message = f"a Pod of {role.name} did not start within {rules.pending} s"
            end = End("PendingTimeout", f"{message}; {running} of them are ready")
            return run.adding(times, end=end)
    return run.adding(times)


LISTENER = Listener(before=_before)
