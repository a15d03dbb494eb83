"""Let Kueue end the groups that it admits.

Kueue's finalizer keeps a Pod that has ended until another one of its role is there, or its
Workload has finished; and no other Pod can have its name before it goes. Kueue counts a Pod that
failed, or never ran, as absent, so others of its run can do without it. One that ended with 0 is
counted as done, and Kueue never looks after the group again if it vanishes. When all have ended,
Kueue finishes the group and lets them go (reference/gang-scheduling.md 4.5).
"""

from etcompile.watch.core.run import Listener, PatchPod, Restart, Run


def _before(run: Run) -> Run:
    view, record = run.view, run.record
    if view.settings.gang != "kueue":
        return run
    # The Workload goes after its Pods; one that has finished would take the new ones.
    last = max((gone.at for gone in view.gone.values()), default=float("-inf"))
    run = run.adding(until=last + view.timeouts.settle)
    if run.restart is not None or record.phase == "Restarting":
        return run
    gang = frozenset(record.gang)
    pods = [
        replica.pod
        for replica in run.replicas
        if replica.pod is not None and not replica.pod.queued_alone
        if not record.replica(replica.key).completed
        if replica.pod.uid not in gang and replica.pod.uid != record.replica(replica.key).lost
        if replica.pod.deleting or replica.pod.phase != "Failed"
    ]
    for pod in pods:
        if pod.left_out_by_queue:
            message = f"{pod.name}: Kueue had finished its group"
            return run.adding(restart=Restart(message, counted=False))
    if all(pod.deleting for pod in pods):
        return run  # Kueue ends the group by itself
    for pod in pods:
        # Kueue would delete another Pod as one too many. The Pods come back in another Workload,
        # which Kueue makes once those of this one are gone.
        if pod.held_by_queue and pod.deleting and pod.phase == "Succeeded":
            why = "it ended with exit code 0 when it was deleted, so Kueue counts it as done"
            return run.adding(restart=Restart(f"{pod.name}: {why}", counted=False))
    return run


def _after(run: Run) -> Run:
    """Release the Pods that are being deleted, and that nothing but Kueue's finalizer keeps."""
    view = run.view
    held = [pod for pod in view.pods.values() if pod.held_by_queue and pod.deleting]
    if not held:
        return run
    at_work = {
        pod.spec_hash for pod in view.pods.values() if pod.node and not (pod.ended or pod.deleting)
    }
    released = [
        PatchPod("release", pod.name, pod.uid)
        for pod in held
        if not pod.node or (pod.phase == "Failed" and pod.spec_hash in at_work)
    ]
    return run.adding(released)


LISTENER = Listener(before=_before, after=_after)
