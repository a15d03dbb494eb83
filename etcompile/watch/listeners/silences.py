"""Find runs whose replicas are all at work and none of which logs anything.

All of them, because most programs let one rank speak for all. While a Pod is on its way in or out,
or a log cannot be read, nobody knows.
"""

from etcompile.k8s.objects import seconds
from etcompile.k8s.pod_state import PodState
from etcompile.model import Role
from etcompile.watch.core.run import JobView, ReadLog, Run
from etcompile.watch.listeners.supervisors import supervised

PURPOSE = "activity"


def silence_of(run: Run) -> tuple[list[PodState], float] | None:
    """Return the Pods at work, and since when none of them has written; None if not all are."""
    view, record = run.view, run.record
    if record.phase != "Running":
        return None
    commands = {command.pod.uid for command in supervised(run)}

    def runs(pod: PodState) -> bool:
        # A command that is between two epochs has nothing to say.
        ready = pod.ready or pod.uid not in commands
        return ready and pod.phase == "Running" and not pod.deleting and not pod.ending

    pods = []
    for replica in run.replicas:
        written = record.replica(replica.key)
        if written.completed or written.left:
            continue
        if replica.pod is None or not runs(replica.pod) or replica.pod.uid == written.lost:
            return None
        pods.append(replica.pod)
    batch = [pod for pod in run.batch if not pod.ended]
    pods += batch
    if not pods or not all(map(runs, batch)):
        return None
    # What has just begun has had no time to write anything.
    begun = (max(pod.ready_since or 0.0, pod.created, spoke(view, pod)) for pod in pods)
    failed = (replica.failed_at for _, replica in record.every_replica())
    requested = (pod.notice.at for pod in pods if pod.notice.is_restart)
    return pods, max(*begun, *failed, *requested, record.restarted_at)


def spoke(view: JobView, pod: PodState) -> float:
    """Return when a Pod last wrote something; 0 if that is not known."""
    time, _, _ = last_line(view, pod).partition(" ")
    return seconds(time) or 0.0


def last_line(view: JobView, pod: PodState) -> str:
    return "".join(view.log(pod.uid, PURPOSE).lines or ()).strip()


def is_read(view: JobView, pod: PodState, due: float) -> bool:
    """Return whether a Pod's last line was read, and no earlier than a time."""
    log = view.log(pod.uid, PURPOSE)
    return log.lines is not None and log.at >= due


def to_read(pod: PodState, role: Role) -> ReadLog:
    return ReadLog(pod.name, pod.uid, role.template.main, PURPOSE, tail=1, limit=512)
