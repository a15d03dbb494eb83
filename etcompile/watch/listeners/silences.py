"""Find runs whose replicas are all at work and none of which logs anything.

All of them, because most programs let one rank speak for all; a Pod that is on its way in or out,
or a log that cannot be read, says that nobody knows.
"""

import re
from collections.abc import Mapping

from msgspec import Struct

from etcompile.k8s.objects import seconds
from etcompile.k8s.pod_state import PodState
from etcompile.model.run_record import RunRecord
from etcompile.watch.core.placement import Placement
from etcompile.watch.core.view import JobView
from etcompile.watch.listeners.supervisors import speakers, supervised

_HEAD = re.compile(r"etcompile: .*: these processes run$")


class Silence(Struct, frozen=True):
    """A run that is at work, and how long nobody of it has written anything."""

    placement: Placement
    epoch: int
    limit: int  # seconds of silence after which it is stuck
    pods: tuple[PodState, ...]
    since: float  # when the last of them wrote something or began, in seconds since 1970
    supervised: tuple[PodState, ...]  # those of them whose commands have supervisors
    speakers: Mapping[str, PodState]  # whose supervisors are asked for the run, by UID

    @property
    def is_stuck(self) -> bool:
        """Whether it has been silent for too long, as of when the logs were last read."""
        logs = [self.placement.view.log(pod.uid) for pod in self.pods]
        due = self.since + self.limit
        return all(log.at is not None and log.read_at >= due for log in logs)

    def is_settled(self, now: float) -> bool:
        """Whether it is stuck, and supervisors have said who is to blame or had their time to."""
        if not self.is_stuck or self.placement.job.run.in_place is None:
            return self.is_stuck
        times = [at for pod in self.supervised if (at := self.requested_at(pod))]
        if not times:
            return not self.supervised
        if now >= min(times) + 2 * self.placement.view.timeouts.report:
            return True
        return len(times) == len(self.supervised) and all(map(self.report_of, self.supervised))

    def requested_at(self, pod: PodState) -> float:
        """When a Pod's supervisor was asked in this silence, in seconds since 1970; 0 if not."""
        # The supervisor of the first replica tells the others.
        speaker = self.speakers.get(pod.uid) or next(iter(self.speakers.values()), None)
        notice = speaker.notice if speaker is not None else None
        new = notice is not None and notice.is_report and notice.at + 1 > self.since
        return notice.at if notice is not None and new else 0.0

    def report_of(self, pod: PodState) -> list[str]:
        """Return the lines of its supervisor's answer; none while it is not known."""
        lines = self.written(pod)
        heads = [n for n, line in enumerate(lines) if _HEAD.match(line)]
        return lines[heads[-1] :] if heads else []

    def written(self, pod: PodState, *, since: bool = True) -> list[str]:
        """The last lines of a log that were read, since the supervisor was asked or before."""
        requested = self.requested_at(pod)
        lines = [line.partition(" ") for line in self.placement.view.log(pod.uid).tail or ()]
        if not requested:
            return [] if since else [text for _, _, text in lines]
        return [
            text for time, _, text in lines if ((seconds(time) or 0.0) + 1 >= requested) is since
        ]

    def last_to_speak(self) -> list[PodState]:
        """The Pods that wrote within a minute before all fell silent, by time of the last lines."""
        view = self.placement.view
        last = max(_spoke(view, pod) for pod in self.pods)
        pods = [pod for pod in self.pods if last and _spoke(view, pod) >= last - 60.0]
        return sorted(pods or self.pods[:1], key=lambda pod: _spoke(view, pod))


def silence_of(placement: Placement, record: RunRecord) -> Silence | None:
    """How long a run has been silent; None without a limit, or if not all Pods are at work."""
    view, job = placement.view, placement.job
    limit = job.run.stuck_after
    if limit is None or record.phase != "Running":
        return None
    if any(role.recovery.relaunch for role in job.roles):
        return None
    commands = {own.pod.uid for own in supervised(placement)}

    def runs(pod: PodState) -> bool:
        # A command that is between two epochs has nothing to say.
        ready = pod.ready or pod.uid not in commands
        return ready and pod.phase == "Running" and not pod.deleting and not pod.ending

    pods = []
    for replica in placement.replicas:
        written = record.replica(replica.key)
        if written.completed or written.left:
            continue
        if replica.pod is None or not runs(replica.pod) or replica.pod.uid == written.lost:
            return None
        pods.append(replica.pod)
    batch = [pod for pod in placement.batch if not pod.ended]
    pods += batch
    if not pods or not all(map(runs, batch)):
        return None
    # What has just begun has had no time to write anything.
    begun = (max(pod.ready_since or 0.0, pod.created, _spoke(view, pod)) for pod in pods)
    failed = (replica.failed_at for _, replica in record.every_replica())
    requested = (pod.notice.at for pod in pods if pod.notice.is_restart)
    return Silence(
        placement,
        record.epoch or 0,
        limit,
        tuple(pods),
        max(*begun, *failed, *requested, record.restarted_at),
        tuple(pod for pod in pods if pod.uid in commands),
        {own.pod.uid: own.pod for own in speakers(placement)},
    )


def _spoke(view: JobView, pod: PodState) -> float:
    return view.log(pod.uid).at or 0.0
