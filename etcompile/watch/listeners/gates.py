"""Open the gates of Pods that wait until others have succeeded.

A gate reads the run and the succeeded roles in `J-status`, which its kubelet fetches at once when
the Pod is changed.
"""

from msgspec import structs

from etcompile.model import Job
from etcompile.model.protocol import COMPLETED
from etcompile.model.run_record import RunRecord
from etcompile.watch.core.run import Listener, Note, PatchPod, Run


def succeeded(job: Job, record: RunRecord) -> list[str] | None:
    """Return the succeeded roles, of those that others wait for; None if none is awaited."""
    awaited = {
        name for role in job.roles if (gate := role.additions.gate) for name in gate.completed
    }
    if not awaited:
        return None
    return [
        role.name
        for role in job.roles
        if role.name in awaited
        and all(record.replica((role.name, member.place or 0)).completed for member in role.members)
    ]


def _after(run: Run) -> Run:
    """Write down who has succeeded, and touch Pods that wait for nothing any more."""
    done = succeeded(run.job, run.record)
    if done is None:
        return run
    lines = "".join(f"{line}\n" for line in (run.record.run, *done))
    run = structs.replace(run, notes={**run.notes, COMPLETED: Note(lambda: lines)})
    value, touches = f"{run.record.run} {' '.join(done)}", list[PatchPod]()
    is_open = done and not (run.record.ended or run.job.run.suspended)
    for replica in run.replicas if is_open else ():
        gate, pod = replica.role.additions.gate, replica.pod
        if gate is None or not gate.completed or not {*gate.completed} <= {*done}:
            continue
        if pod is not None and pod.phase == "Pending" and not pod.deleting and pod.touched != value:
            touches.append(PatchPod("touch", pod.name, pod.uid, value))
    return run.adding(touches)


LISTENER = Listener(after=_after)
