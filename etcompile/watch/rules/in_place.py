"""Commands run again in the Pods that are there, epoch by epoch.

Why this is hard: a process of an old epoch must never meet one of a new one, or a straggler joins
the new rendezvous and the run is wrong without anybody knowing. Nobody in a Pod may ask the API
server anything. So the conversation is narrow. Down there is an annotation of the Pod, which its
kubelet puts into a file: `4 hold` (end what is older than epoch 4, and wait), `4 run` (begin it).
Up there is one bit, the readiness of the container, which it has exactly while the command runs.

A bit says what is, not what it answers. What makes an answer of it is what was seen when the Pod
was told something, and was written beside that: how often its container had ended by then, and
since when its containers had been ready or not. If the container has ended since, or is not ready
now and that time is another, then the command has run and has stopped since. Else nothing is known
yet, and nothing is done. A container that was started again heeds no command that was meant for the
one before it. All of it stands in the Pod, so it does not matter which watcher looks, or
how old its view is: a Pod only goes forward.

Together, nobody is told to run an epoch before every replica is known to have no process of an
older one (`_gathered`). Each by itself, there is nobody to wait for but the workers of a launcher.

docs/recovery.md has the whole of it, second by second, and what it costs.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct, structs

from etcompile.k8s.objects import seconds
from etcompile.model import InPlace, Role
from etcompile.model.epochs import NEW, STOPPED, Command
from etcompile.model.run_record import ReplicaKey, ReplicaRecord, RunRecord
from etcompile.watch.actions import (
    Action,
    CommandPod,
    CreatePod,
    Decision,
    DeletePod,
    EmitEvent,
    ReplacePod,
    Requeue,
)
from etcompile.watch.rules import restart
from etcompile.watch.rules.completion import MOST_IN_A_ROW
from etcompile.watch.rules.placement import Placement
from etcompile.watch.rules.replica_state import Replica, ReplicaStates
from etcompile.watch.rules.restart_policy import counts_failures, why
from etcompile.watch.rules.silence import is_settled, last_to_speak, suspects
from etcompile.watch.state import PodView, SupervisedContainer

_ANSWERS = 100
"""So many Pods are given a second more to answer."""
_FRESH = 3.0
"""Seconds without being ready after which a container that was told nothing waits to be told: a
command that runs is seen within one."""

CommandState = Literal["working", "stopped", "down", "unknown"]
"""Of the command of a Pod: it runs; it does not run any more, or not yet; its container does not
run, so neither does the command; nobody can tell yet."""


def command_state(pod: PodView, main: str) -> CommandState:
    """What is known of a Pod's command, from the Pod alone.

    Args:
        pod: The Pod; one that has not ended.
        main: The name of the container with the command.
    """
    container = _container(pod, main)
    supervised = pod.supervised
    if supervised is None or container is None or not container.started:
        return "down"
    if container.ready:
        return "working"
    told = supervised.command
    if container.ends > (told.ends if told else 0):
        return "stopped"  # what the kubelet has started again waits to be told
    if told is not None and not told.run and told.since in (NEW, STOPPED):
        return "stopped"  # it ran nothing when it was told to wait, and was told nothing since
    if told is not None and told.since != NEW:
        return "stopped" if supervised.since != told.since else "unknown"
    return "stopped" if supervised.since > container.started else "unknown"


def _container(pod: PodView, main: str) -> SupervisedContainer | None:
    if pod.supervised is None:
        return None
    return next((found for found in pod.supervised.containers if found.name == main), None)


def epoch_of(pod: PodView) -> int:
    """The epoch that a Pod was last told to run, or was created for; -1 if it is yet to run any."""
    told = pod.supervised.command if pod.supervised is not None else None
    if told is None:
        return 0
    return told.epoch if told.run else -1


def _command(pod: PodView, main: str, epoch: int, now: float, *, run: bool) -> CommandPod:
    """Tells a Pod something, with what is seen of its container now."""
    container, supervised = _container(pod, main), pod.supervised
    since = supervised.since if supervised is not None else ""
    if not run and command_state(pod, main) == "stopped":
        since = STOPPED
    ends = container.ends if container is not None else 0
    return CommandPod(pod.name, pod.uid, Command(epoch, run, ends, since, now))


def _reminded(pods: Sequence[tuple[Role, PodView]], now: float, remind: float) -> Iterator[Action]:
    """The same again to Pods that do not answer; or when to look whether they have.

    On a busy node a change of an annotation that came soon after another one was seen to be in the
    Pod only after a minute, when the kubelet looked at it again by itself. That has not been
    reproduced at will; the likely place is what the kubelet still has to mount of the change before
    (k8s.io/kubernetes, pkg/kubelet/volumemanager/cache/actual_state_of_world.go, AddPodToVolume).
    """
    # An API server that hears of thousands of Pods at once needs its time.
    patience = remind + len(pods) / _ANSWERS
    for role, pod in pods:
        told = pod.supervised.command if pod.supervised is not None else None
        if told is None or not told.at or not _may_run(pod):
            continue
        state = command_state(pod, role.template.main)
        if state != "unknown" and (told.run or state != "working"):
            continue
        last = max(told.at, told.reminded)
        due = last + max(patience, last - told.at)
        if now >= due:
            yield CommandPod(pod.name, pod.uid, structs.replace(told, reminded=now))
        else:
            yield Requeue(due)


# Together ----------------------------------------------------------------------------------------


class _Cause(Struct, frozen=True):
    """Why an epoch ends.

    Args:
        message: In a sentence.
        role: The role of the replica that is to blame, if it failed by itself.
        counted: It counts among the epochs that fail in a row; what somebody deleted does not.
    """

    message: str
    role: str | None = None
    counted: bool = True


def together(states: ReplicaStates, record: RunRecord, now: float) -> Decision | None:
    """What is to be done so that all replicas run the same epoch.

    Args:
        states: What has become of the replicas.
        record: The run record.
        now: The time, in seconds since 1970.

    Returns:
        None if commands cannot be run again in place this time: another way is needed.
    """
    in_place = states.placement.job.run.in_place
    if in_place is None or in_place.mode != "together":
        return None
    record = _first_epoch(states, record, in_place)
    cause, again = _cause(states, record, now)
    actions: list[Action] = [Requeue(again)] if again is not None else []
    if cause is not None:
        if _is_out_of_place(states, record, cause, now):
            loss = next(iter(states.new_returns(now)), None)
            anew = restart.restarted(states, record, now, cause.message, loss, anew=False)
            epoch = (record.epoch or 0) + 1
            record = structs.replace(anew.record, epoch=epoch, epoch_reason=cause.message)
            return Decision(record, anew.actions)
        record = _next_epoch(states, record, now, cause)
        message = f"{cause.message}: epoch {record.epoch} begins, in the Pods that are there"
        actions.append(EmitEvent("EpochBegins", message, warning=cause.role is not None))
    alone = restart.replaced(_lost_for_good(states), record, now)
    gathered = _gathered(states, alone.record, in_place, now)
    actions += _first_words(states, in_place, gathered.record, now)
    actions += (*alone.actions, *gathered.actions, *restart.let_go(states))
    told_now = {action.name for action in actions if isinstance(action, CommandPod | DeletePod)}
    silent = [
        (role, pod)
        for role, pod in _supervised_roles(states, in_place)
        if pod.name not in told_now and not _is_behind(pod, gathered.record.epoch or 0)
    ]
    actions += _reminded(silent, now, states.placement.view.timeouts.remind)
    return Decision(gathered.record, tuple(actions))


def _lost_for_good(states: ReplicaStates) -> ReplicaStates:
    """Only the replicas that were just lost and do not come back."""
    lost = (found for found in states.replicas if found.state == "lost" and not found.returns)
    return structs.replace(states, replicas=tuple(lost))


def _first_epoch(states: ReplicaStates, record: RunRecord, in_place: InPlace) -> RunRecord:
    """The record, with its first epoch once all commands have been seen to run.

    From then on whoever starts is not the first of its replica, and waits to be told.
    """
    if record.epoch is not None or record.phase != "Running":
        return record
    pods = [
        (replica.place.role, replica.place.pod)
        for replica in states.replicas
        if replica.place.role.name in in_place.roles and replica.state != "left"
    ]
    batch = ((states.placement.job.role(pod.role), pod) for pod in states.placement.batch)
    for role, pod in (*pods, *batch):
        if role is None or pod is None or command_state(pod, role.template.main) != "working":
            return record
    return structs.replace(record, epoch=0)


def _first_words(
    states: ReplicaStates, in_place: InPlace, record: RunRecord, now: float
) -> Iterator[CommandPod]:
    """Word of their first epoch, to those who began it by themselves.

    Who looks after the run stands in `J-status`. A kubelet takes more than a minute to bring that
    into a Pod, and until then a command that fails takes its container along; unless the Pod is
    touched.
    """
    if record.epoch is None or (record.epoch > 0 and in_place.mode == "together"):
        return
    for role, pod in _supervised_roles(states, in_place):
        if pod.supervised is None or pod.supervised.command is not None or pod.deleting:
            continue
        if command_state(pod, role.template.main) == "working":
            yield _command(pod, role.template.main, 0, now, run=True)


def _cause(
    states: ReplicaStates, record: RunRecord, now: float
) -> tuple[_Cause | None, float | None]:
    """Why the epoch ends that runs, if it does; or when to look again whether it does."""
    epoch = record.epoch or 0
    for loss in states.new_returns(now):
        # Who was lost while all are gathered has had no part in the epoch that is to begin.
        if loss.last is None or loss.last.supervised is None or epoch_of(loss.last) == epoch:
            role = loss.place.role
            message = f"{loss.place.name}: {why(role, loss.cause or 'failed', loss.last)}"
            failed = loss.is_failure
            return _Cause(message, role.name if failed else None, counted=failed), None
    there = [
        (replica.place.role, replica.place.pod)
        for replica in states.those("there")
        if replica.place.pod is not None and _may_run(replica.place.pod)
    ]
    for replica in states.those("returning"):
        # Another Pod was promised for one that it lost before, and it has had that: the others
        # would not have begun without it.
        if (
            replica.place.pod is None
            and epoch > 0
            and any(epoch_of(pod) == epoch for _, pod in there)
        ):
            message = f"{replica.place.name}: its Pod went while no watcher was running"
            return _Cause(message), None
    if is_settled(states.placement, record, now):
        [pod, *_] = last_to_speak(states.placement, record)
        message = f"nobody has written anything for {states.placement.job.run.stuck_after} s"
        for suspect in suspects(states.placement, record)[:1]:
            pod = suspect.pod
            message = f"{pod.name}: {suspect.what}, and {message}"
        stuck_role = states.placement.job.role(pod.role)
        return _Cause(message, _blamed(stuck_role) if stuck_role is not None else None), None
    stopped: list[tuple[Role, PodView]] = []
    again: list[float] = []
    for role, pod in there:
        if _has_succeeded(pod, role):
            continue  # its phase says so in a moment
        if epoch_of(pod) == epoch and _has_ended_since(pod, role):
            return _Cause(f"{pod.name}: its container ended", _blamed(role)), None
        state = command_state(pod, role.template.main)
        if epoch_of(pod) == epoch and state == "stopped":
            stopped.append((role, pod))
        for due, message in _overdue(pod, role, state, record, there, states.placement):
            if now >= due:
                return _Cause(f"{pod.name}: {message}"), None
            again.append(due)
    if not stopped:
        return None, min(again, default=None)
    sure = _sure_at(states.placement, [pod for _, pod in stopped])
    if now < sure:
        return None, sure
    role, pod = stopped[0]
    more = len(stopped) - 1
    others = f", and so did {more} more" if more else ""
    return _Cause(f"{pod.name}: its command ended{others}", _blamed(role)), None


def _may_run(pod: PodView) -> bool:
    return pod.supervised is not None and not (pod.deleting or pod.ended)


def _blamed(role: Role) -> str | None:
    """The role whose failures a failure of its command counts among, if they count at all."""
    return role.name if counts_failures(role) else None


def _has_succeeded(pod: PodView, role: Role) -> bool:
    container = _container(pod, role.template.main)
    return container is not None and container.succeeded


def _has_ended_since(pod: PodView, role: Role) -> bool:
    """Whether the container of a Pod has ended since it was told something."""
    container = _container(pod, role.template.main)
    told = pod.supervised.command if pod.supervised is not None else None
    return container is not None and container.ends > (told.ends if told else 0)


def _overdue(
    pod: PodView,
    role: Role,
    state: CommandState,
    record: RunRecord,
    there: Sequence[tuple[Role, PodView]],
    placement: Placement,
) -> Iterator[tuple[float, str]]:
    """From when on a Pod is one whose command should run and does not, and what to say then."""
    epoch, main = record.epoch or 0, role.template.main
    container = _container(pod, main)
    told = pod.supervised.command if pod.supervised is not None else None
    fresh = _fresh_from(pod, main)
    if fresh is not None and record.epoch is not None:
        # It is not the Pod that was there before, and nobody saw that one go.
        others = any(epoch_of(other) == epoch for _, other in there if other is not pod)
        if others and (epoch > 0 or state == "unknown"):
            yield 0.0 if epoch > 0 else fresh, "somebody has made its Pod again"
    if state == "unknown" and told is not None and container is not None and epoch_of(pod) == epoch:
        began = max(told.at, seconds(container.started) or 0.0)
        yield began + placement.view.timeouts.begin, "its command was not seen to begin"


def _sure_at(placement: Placement, stopped: Sequence[PodView]) -> float:
    """When it is sure that commands have ended whose containers are not ready.

    A kubelet that is started again calls its containers not ready for a moment, and so may one
    whose container ends well, before it says that it has ended.
    """
    times = (seconds(pod.supervised.since) or 0.0 for pod in stopped if pod.supervised is not None)
    return max(times, default=0.0) + placement.view.timeouts.confirm


def _is_out_of_place(states: ReplicaStates, record: RunRecord, cause: _Cause, now: float) -> bool:
    """Whether all Pods are to be made again: a replica is done, or epochs have failed too often."""
    if any(replica.state == "done" for replica in states.replicas):
        return True
    timeouts = states.placement.view.timeouts
    row = restart.in_a_row(record.restarts_in_a_row, now - record.restarted_at, timeouts)
    return cause.counted and row == MOST_IN_A_ROW + 1


def _next_epoch(states: ReplicaStates, record: RunRecord, now: float, cause: _Cause) -> RunRecord:
    timeouts = states.placement.view.timeouts
    row = restart.in_a_row(record.restarts_in_a_row, now - record.restarted_at, timeouts)
    replaced = {**record.replaced}
    if cause.role is not None:
        replaced[cause.role] = replaced.get(cause.role, 0) + 1
    fence = record.fence
    had: dict[ReplicaKey, ReplicaRecord] = {}
    for replica in states.replicas:
        place, written = replica.place, record.replica(replica.place.key)
        if replica.state == "returning" and place.pod is None:
            fence = max(fence, now + _grace(place.role))
        elif place.pod is not None and written.returns and place.pod.uid != written.lost:
            had[place.key] = structs.replace(written, lost="")
    return structs.replace(
        record.with_replicas(had),
        fence=fence,
        epoch=(record.epoch or 0) + 1,
        epoch_reason=cause.message,
        restarts=record.restarts + 1,
        restarted_at=now,
        restarts_in_a_row=row if cause.counted else record.restarts_in_a_row,
        replaced=replaced,
    )


def _gathered(states: ReplicaStates, record: RunRecord, in_place: InPlace, now: float) -> Decision:
    """What is left to do until all replicas run the epoch of the record."""
    timeouts = states.placement.view.timeouts
    epoch = record.epoch or 0
    changed: dict[ReplicaKey, ReplicaRecord] = {}
    fence = record.fence
    actions: list[Action] = []
    waiting: list[tuple[PodView, str]] = []
    may_begin = True
    hurry = record.restarted_at + in_place.stop + timeouts.stop
    held_at = record.restarted_at + in_place.hold / 3
    for replica in states.replicas:
        place, pod, main = replica.place, replica.place.pod, replica.place.role.template.main
        if replica.state == "lost" and replica.returns:
            if replica.since and now < replica.since + timeouts.settle:
                actions.append(Requeue(replica.since + timeouts.settle))
                may_begin = False
                continue
            written = restart.decided(record.replica(place.key), replica, now, timeouts)
            # It is the run that backs off, not the replica.
            changed[place.key] = written = structs.replace(written, failed=0, failed_at=0.0)
            fence = max(fence, _lives_until(replica))
            actions += _brought_back(replica, written, epoch, now, states.placement)
            may_begin = False
        elif replica.state == "returning":
            actions += _brought_back(
                replica, record.replica(place.key), epoch, now, states.placement
            )
            may_begin = False
        elif replica.state == "awaited":
            may_begin = may_begin and epoch == 0
        elif replica.state != "there" or pod is None or pod.deleting or pod.supervised is None:
            may_begin = may_begin and replica.state == "done"
        elif epoch_of(pod) != epoch:
            waiting.append((pod, main))
    for pod, main in waiting:
        state = command_state(pod, main)
        told = pod.supervised.command if pod.supervised is not None else None
        fresh = _fresh_from(pod, main) if state == "unknown" else None
        if state == "stopped" or (fresh is not None and now >= fresh):
            if _must_be_told(told, epoch) and now >= held_at:
                actions.append(_command(pod, main, epoch, now, run=False))
            continue
        may_begin = False
        container = _container(pod, main)
        if container is not None and container.backs_off:
            actions.append(DeletePod(pod.name, pod.uid, "BackOff"))
        elif state != "down" and now >= hurry:
            actions.append(DeletePod(pod.name, pod.uid, "NotStopped"))
        elif state != "down":
            actions.append(Requeue(hurry))
            if fresh is not None:
                actions.append(Requeue(fresh))
            elif _must_be_told(told, epoch) and now < record.restarted_at + timeouts.linger:
                actions.append(Requeue(record.restarted_at + timeouts.linger))
            elif _must_be_told(told, epoch):
                actions.append(_command(pod, main, epoch, now, run=False))
    record = structs.replace(record.with_replicas(changed), fence=fence)
    if not waiting:
        return Decision(record, tuple(actions))
    if not may_begin:
        return Decision(record, (*actions, *([Requeue(held_at)] if now < held_at else [])))
    due = max(fence, record.restarted_at + restart.wait(record.restarts_in_a_row, timeouts))
    if now < due:
        return Decision(record, (*actions, Requeue(due)))
    begins = [_command(pod, main, epoch, now, run=True) for pod, main in waiting]
    return Decision(record, (*(a for a in actions if not isinstance(a, CommandPod)), *begins))


def _is_behind(pod: PodView, epoch: int) -> bool:
    told = pod.supervised.command if pod.supervised is not None else None
    return _must_be_told(told, epoch)


def _must_be_told(told: Command | None, epoch: int) -> bool:
    return told is None or told.epoch < epoch


def _fresh_from(pod: PodView, main: str) -> float | None:
    """From when on a Pod that was told nothing waits to be told; None if it was told something."""
    container = _container(pod, main)
    if pod.supervised is None or pod.supervised.command is not None or container is None:
        return None
    return (seconds(container.started) or 0.0) + _FRESH


def _lives_until(loss: Replica) -> float:
    """Until when a process of a lost Pod may live, of which nobody saw that it ended; else 0."""
    last = loss.last
    if last is not None and (last.ended or last.supervised is None):
        return 0.0
    return (loss.since or 0.0) + _grace(loss.place.role)


def _grace(role: Role) -> float:
    """Seconds that the processes of a role's Pods may take to end (PodSpec, v1)."""
    seconds_given = role.template.spec.get("terminationGracePeriodSeconds")
    return float(30 if seconds_given is None else seconds_given)


def _brought_back(
    replica: Replica, written: ReplicaRecord, epoch: int, now: float, placement: Placement
) -> Iterator[Action]:
    """Another Pod for a replica, which waits until all others may begin."""
    told = Command(epoch, run=False, since=NEW)
    for action in restart.brought_back(replica, written, now, placement.view.timeouts):
        if isinstance(action, CreatePod | ReplacePod):
            yield structs.replace(action, command=told)
        else:
            yield action


# Each by itself ----------------------------------------------------------------------------------


def _supervised_roles(states: ReplicaStates, in_place: InPlace) -> Iterator[tuple[Role, PodView]]:
    """The Pods whose commands restart each by itself, those of a Job of Kubernetes included."""
    for replica in states.those("there"):
        if replica.place.role.name in in_place.roles and replica.place.pod is not None:
            yield replica.place.role, replica.place.pod
    for pod in states.placement.batch:
        role = states.placement.job.role(pod.role)
        if role is not None and role.name in in_place.roles:
            yield role, pod


def each(states: ReplicaStates, record: RunRecord, now: float) -> Decision:
    """What is to be done so that commands that ended run again, each by itself.

    Args:
        states: What has become of the replicas.
        record: The run record.
        now: The time, in seconds since 1970.
    """
    in_place = states.placement.job.run.in_place
    if in_place is None or in_place.mode != "each":
        return Decision(record)
    stuck = is_settled(states.placement, record, now)
    record = _first_epoch(states, record, in_place)
    actions: list[Action] = [*_first_words(states, in_place, record, now)]
    for role, pod in _supervised_roles(states, in_place):
        if pod.supervised is None or not _may_run(pod) or _has_succeeded(pod, role):
            continue
        key = role.name, pod.index or 0
        main, told = role.template.main, pod.supervised.command
        written = record.replica(key)
        running = told.epoch if told is not None else 0
        state = command_state(pod, main)
        if written.epoch > running:
            actions += _due_again(states, record, role, pod, now)
            continue
        fresh = _fresh_from(pod, main) if record.epoch is not None else None
        if told is None and state == "unknown" and fresh is not None:
            # A tool has created it again, and told it nothing.
            run = _command(pod, main, max(written.epoch, record.epoch or 0), now, run=True)
            actions.append(run if now >= fresh else Requeue(fresh))
            continue
        ended = _has_ended_since(pod, role)
        hangs = stuck and state == "working" and _may_restart(states, record, role)
        if hangs:
            why_again = f"nobody has written anything for {states.placement.job.run.stuck_after} s"
            record, told_of = _again(states, record, role, pod, now, why_again)
            actions += (told_of, *_due_again(states, record, role, pod, now))
            continue
        if state != "stopped" and not (ended and state == "down"):
            actions += _reminded([(role, pod)], now, states.placement.view.timeouts.remind)
            continue
        due = 0.0 if ended else _sure_at(states.placement, [pod])
        if now < due:
            actions.append(Requeue(due))
        elif _may_restart(states, record, role):
            record, told_of = _again(states, record, role, pod, now)
            actions += (told_of, *_due_again(states, record, role, pod, now))
    return Decision(record, tuple(actions))


def _may_restart(states: ReplicaStates, record: RunRecord, role: Role) -> bool:
    """Whether the policy of the job has a restart left.

    If not, nobody is told anything: the supervisor gives up, and its container ends as it would
    have (reference/gitops.md 9).
    """
    run = states.placement.job.run
    if role.batch is not None:
        limit = 6 if role.batch.backoff_limit is None else role.batch.backoff_limit
        return record.replaced.get(role.name, 0) < limit
    if role.recovery.failures is not None:
        return record.replaced.get(role.name, 0) < role.recovery.failures
    if run.limits != "restarts" or run.backoff_limit is None:
        return True
    if run.restart == "OnFailure":
        return record.restarts < run.backoff_limit
    return record.replaced.get(role.name, 0) < run.backoff_limit


def _again(
    states: ReplicaStates,
    record: RunRecord,
    role: Role,
    pod: PodView,
    now: float,
    reason: str = "its command ended",
) -> tuple[RunRecord, Action]:
    """The record of a run in which a command is to run again, and word of it."""
    timeouts = states.placement.view.timeouts
    key = role.name, pod.index or 0
    before = record.replica(key)
    lived = now - before.failed_at if before.failed_at else timeouts.forget
    epoch = (record.epoch or 0) + 1
    written = structs.replace(
        before,
        epoch=epoch,
        failed=restart.in_a_row(before.failed, lived, timeouts),
        failed_at=now,
    )
    message = f"{pod.name}: {reason}"
    # A role with a limit of its own leaves the restarts of the job for when that is reached.
    whole = states.placement.job.run.restart == "OnFailure" and role.recovery.failures is None
    record = structs.replace(
        record.with_replicas({key: written}),
        epoch=epoch,
        epoch_reason=message,
        restarts=record.restarts + whole,
        replaced={**record.replaced, role.name: record.replaced.get(role.name, 0) + 1},
    )
    told = f"{message}: it runs again in the same Pod"
    return record, EmitEvent("CommandRestarted", told, pod.name, pod.uid, warning=True)


def _due_again(
    states: ReplicaStates, record: RunRecord, role: Role, pod: PodView, now: float
) -> Iterator[Action]:
    """Tells a command to run again, once it may: a launcher not before its workers are there."""
    written = record.replica((role.name, pod.index or 0))
    due = restart.due_at(written, states.placement.view.timeouts)
    if now < due:
        yield Requeue(due)
    elif role.additions.gate is None or _are_ready(states, role.additions.gate.roles):
        yield _command(pod, role.template.main, written.epoch, now, run=True)


def _are_ready(states: ReplicaStates, roles: Sequence[str]) -> bool:
    return all(
        replica.place.pod is not None and replica.place.pod.ready
        for replica in states.replicas
        if replica.place.role.name in roles and replica.state != "done"
    )


def commanded(states: ReplicaStates, record: RunRecord, actions: Sequence[Action]) -> list[Action]:
    """Actions, with what the Pods that they create are told from the beginning.

    Args:
        states: What has become of the replicas.
        record: The run record.
        actions: Actions of other rules.
    """
    in_place = states.placement.job.run.in_place
    if in_place is None or record.epoch is None:
        return [*actions]
    told = Command(record.epoch, run=in_place.mode == "each", since=NEW)
    return [
        structs.replace(action, command=told)
        if isinstance(action, CreatePod | ReplacePod)
        and action.command is None
        and action.role in in_place.roles
        else action
        for action in actions
    ]
