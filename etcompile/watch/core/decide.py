"""Decide what is to be done about a job: from what is known of it to actions.

Everything here is a function from values to values. One value, `Run`, goes through these steps:

- `placement`: which Pod has the place, and the rank, of which declared replica;
- `observed`: what there is to see of the run, written down;
- the listeners' `before`: what optional features know;
- `judged`: each replica in one word;
- `losses`: whether the run is over, and how; else lost replicas come back, one by one or all
  together;
- `scaled_in` and `duplicates`: Pods that must go;
- `hostfile`: the live host lists;
- the listeners' `after`: what else is to be written down, reported or deleted.
"""

from collections.abc import Sequence

from msgspec import structs

from etcompile.model.run_record import (
    NOTHING,
    Leaving,
    ReplicaKey,
    ReplicaRecord,
    RunRecord,
)
from etcompile.watch.core import hostfile, losses
from etcompile.watch.core.followers import duplicates, with_ranks
from etcompile.watch.core.replicas import comes_back, judged, placement
from etcompile.watch.core.run import (
    Action,
    Count,
    CreatePod,
    DeletePod,
    EmitEvent,
    JobView,
    Listener,
    PatchPod,
    Replica,
    Requeue,
    Run,
    WriteStatus,
)


def decide(view: JobView, now: float, listeners: Sequence[Listener] = ()) -> tuple[Action, ...]:
    """Decide what is to be done about a job.

    Args:
        view: What is known of it. It may be older than the cluster: an action that was carried
            out already comes again until the view shows what it did, and does no harm.
        now: In seconds since 1970.
        listeners: The optional features, in the order in which they are asked.

    Returns:
        Actions, to be carried out in this order; at most one `Requeue`, the last.
    """
    run = placement(view, now)
    # A run ends once, and a job that is suspended has nothing to lose.
    if view.job.run.suspended and not run.record.ended:
        run = suspended(run)
    elif not run.record.ended:
        run = observed(run)
        for listener in listeners:
            run = listener.before(run)
        run = judged(run)
        settled = tuple(
            loss
            for loss in run.in_state("lost")
            if not loss.since or now >= loss.settled(run.timeouts)
        )
        if run.restarts_together and any(loss.returns for loss in settled):
            # The others may fail because of a Pod that is deleted, before that one is lost.
            deleted = (replica for replica in run.replicas if replica.was_deleted)
            settled += tuple(replica for replica in deleted if replica not in settled)
        run = _decided(structs.replace(run, losses=settled, attempt=run.record.attempt))
    for listener in listeners:
        run = listener.after(run)
    return _recorded(run)


def _decided(run: Run) -> Run:
    """Ask all rules, each with the record that the ones before it have written."""
    # Whether it is over is asked first: a run that is over needs no replacements.
    end, again = losses.end(run)
    if end is not None and run.now < end.sure_at:
        return run.adding([Requeue(end.sure_at)])
    if end is not None and not end.again:
        learned = tuple(action for action in run.actions if isinstance(action, Count | EmitEvent))
        return losses.ended(structs.replace(run, actions=learned), end)
    known = run.record
    if end is not None:
        run = losses.restarted(run, end.message, end.loss, from_start=True)
    else:
        run = run.adding(again)
        if known.phase != "Restarting" and (restart := run.restart) is not None:
            run = losses.restarted(run, restart.message, counted=restart.counted)
        elif known.phase != "Restarting":
            joint = losses.joint_restart(run)
            run = joint or hostfile.renamed(losses.replaced(run))
    # From here on rules see replicas with what has just been decided.
    if run.record != known:
        run = judged(run)
    if run.record.phase == "Restarting":
        run = run.adding(losses.next_steps(run))
    for replica in run.in_state("left"):
        pod = replica.pod if replica.role.recovery.relaunch else None
        if pod is not None and not pod.ended and not pod.ending:
            run = run.adding([PatchPod("end", pod.name, pod.uid, "Lost")])
    if not run.view.superseded:
        run = scaled_in(run.adding(duplicates(run)))
    # The lists come after all that takes hosts away: no host is listed that is about to go.
    return run.adding(hostfile.listed(run))


def _recorded(run: Run) -> tuple[Action, ...]:
    """Return the actions of a run, the record first if it is worth writing, each Pod going once."""
    # From `quiet` on no Pod has appeared for a while.
    quiet = run.newest + run.timeouts.settle
    due = min((note.due for note in run.notes.values()), default=float("inf"))
    writes = run.now >= due or _worth_writing(run, quiet=run.now >= quiet)
    times = [action.at for action in run.actions if isinstance(action, Requeue)]
    actions: list[Action] = []
    going: set[str] = set()
    for action in run.actions:
        uid = action.uid if isinstance(action, DeletePod | CreatePod) else ""
        if not (isinstance(action, Requeue) or (uid and uid in going)):
            actions.append(action)
        going.add(uid)
    if writes:
        # What is written down is not decided again, so its Events come at once: the requests
        # after it may fail, and then the rest is left.
        actions.sort(key=lambda action: not isinstance(action, EmitEvent))
        notes = {key: text for key, note in run.notes.items() if (text := note.text())}
        actions = [WriteStatus(run.record, notes), *actions]
    else:
        actions = [action for action in actions if not isinstance(action, Count)]
        times.append(due)
        if run.record != run.view.record and run.now < quiet:
            # A time in the past would have the job reconciled again and again, for nothing.
            times.append(quiet)
    again = min(times, default=float("inf"))
    return (*actions, Requeue(again)) if again < float("inf") else tuple(actions)


def _worth_writing(run: Run, *, quiet: bool) -> bool:
    """Return whether the record is to be written.

    Not for each of a thousand Pods that appear one after the other: only once no more come
    (`quiet`), or with something else.
    """
    record, before = run.record, run.view.record
    if not (run.view.copied or record.ended or before is None):
        return True  # the copy of the job beside it is an old one
    if before is None or before.run != record.run:
        # A mark of the run before must stand until its workers have seen it.
        before = RunRecord(record.run, config=record.config)
    if quiet or record.phase == "Running" or record == before:
        return record != before

    def but_seen(record: RunRecord) -> RunRecord:
        replicas = {key: structs.replace(r, seen=False) for key, r in record.every_replica()}
        others = structs.replace(record, replicas={}, started=None, numbers={})
        return others.with_replicas(replicas)

    return but_seen(record) != but_seen(before)


# What there is to see of a run --------------------------------------------------------------------


def observed(run: Run) -> Run:
    """Return the run, with what there is to see now in its record.

    A run is Running once all of its Pods have been there and one of those that decide about it is
    at work. Until then it is Pending, however long its images cannot be pulled; and again, once
    that is so of all replacements (`held_up`). After a suspension it begins again, and so does its
    deadline: whoever applies the job creates the Pods again that went.
    """
    record, actions = run.record, list[Action]()
    if record.phase == "Suspended":
        record = structs.replace(record, phase="Pending", reason="", message="")
        actions.append(EmitEvent("JobResumed", "the job is resumed"))
    gang, pending, complete = frozenset(record.gang), record.phase == "Pending", True
    changed: dict[ReplicaKey, ReplicaRecord] = {}
    records, recorded, doubtful = record.replicas, 0, list[Replica]()
    for replica in run.replicas:
        role, number = replica.key
        written, pod = records.get(role, {}).get(number, NOTHING), replica.pod
        recorded += written is not NOTHING
        if pod is not None and pod.phase == "Running" and pod.uid not in gang:
            if written.seen and written.lost != pod.uid and not written.completed:
                if pod.deleting or pod.exits or replica.others:
                    doubtful.append(replica)
                continue  # like most
            if written.left and pod.uid == written.lost and not (pod.deleting or pod.ending):
                # It was taken out of the job, left alone, and put back: it never failed.
                changed[replica.key] = written = structs.replace(written, lost="", left=False)
        doubtful.append(replica)
        last = replica.latest
        if last is not None and not (last.uid in gang and pending):
            of_old = last.uid in gang or (pod is None and record.phase == "Restarting")
            is_done = written.completed or (
                last.phase == "Succeeded"
                and not (of_old or last.deleting or written.lost == last.uid)
                and not comes_back(replica.role, "succeeded", last)
            )
            if not written.seen or is_done != written.completed:
                written = structs.replace(written, seen=True, completed=is_done)
                changed[replica.key] = written
        # A replica that will not be replaced is not waited for.
        here = (written.left and pending) or (pod is not None and pod.uid not in gang)
        complete = complete and (here or replica.blocked or written.completed)
    if recorded < sum(map(len, records.values())):
        declared = {replica.key for replica in run.replicas}
        for key, written in record.every_replica():
            if key not in declared:
                # A replica that was scaled in and comes again is new.
                changed[key] = structs.replace(written, seen=False)
    started = record.started
    if started is None:
        # When the first Pod was created that has not been on its way out since before the run.
        created = run.view.config_created
        times = (
            pod.created
            for pod in run.pods
            if pod.uid not in gang and not (pod.deleting and pod.created < created)
        )
        started = min(times, default=None)
    record = structs.replace(record.with_replicas(changed), started=started)
    if complete and record.phase in ("Pending", "Restarting"):
        record = structs.replace(record, phase="Pending", gang=())
        if is_at_work(run):
            record = structs.replace(record, phase="Running", reason="", message="")
    readers = run.readers if record.launcher else ()
    if readers and all(pod.uid != record.launcher for pod in readers):
        # A new launcher knows of no host that failed the one before.
        first = {key: structs.replace(r, host_form=0) for key, r in record.every_replica()}
        record = structs.replace(record.with_replicas(first), launcher="")
    return run.adding(actions, record=with_ranks(run, record), doubtful=tuple(doubtful))


def is_at_work(run: Run) -> bool:
    """Return whether one of the Pods that decide about the run has started and was not replaced."""
    deciding = run.job.run.success.roles
    return any(
        pod.phase in ("Running", "Succeeded", "Failed") and pod.role in deciding
        for pod in run.pods
        if pod not in run.replaced
    )


# A suspended job ---------------------------------------------------------------------------------
#
# Nothing runs, nothing is replaced, and it can be resumed (reference/et-operator.md 6, defect 34).


def suspended(run: Run) -> Run:
    """Return the run of a suspended job, whose Pods are deleted.

    If Git declares the Pods, its tool removes them, except followers; those of a Job of Kubernetes
    are the Job's, which is suspended too.
    """
    record, actions = run.record, list[Action]()
    batch = {pod.name for pod in run.batch}
    declared = {name for role in run.job.roles for name in role.pod_names}
    if record.phase != "Suspended":
        actions.append(EmitEvent("JobSuspended", "the job is suspended"))
    going = {replica.gone.pod.uid for replica in run.replicas if replica.gone is not None}
    for pod in run.pods:
        by_tool = run.view.git_managed and (pod.rank is None or pod.name in declared)
        removed = not by_tool and pod.name not in batch
        if removed and not pod.deleting:
            actions.append(DeletePod(pod.name, pod.uid, "Suspended"))
        if removed or pod.deleting:
            going.add(pod.uid)
    if record.phase == "Suspended" and going <= {*record.gang}:
        going = {*record.gang}
    record = RunRecord(
        record.run,
        "Suspended",
        "Suspended",
        "suspended by its spec",
        restarts=record.restarts,
        restarted_at=record.restarted_at,
        replaced=record.replaced,
        lost_restarts=record.lost_restarts,
        numbers=record.numbers,
        gang=tuple(sorted(going)),
        config=record.config,
    )
    return run.adding(actions, record=record)


# Workers that a job does not have any more -----------------------------------------------------
#
# Out of the host list first, then gone. If a tool syncs Git, it removes their Pods, as far as it
# knew them; elsewhere the watcher does, after a while. The removal is written down by UID before it
# happens, so that none is chosen twice (reference/et-operator.md 6, defect 50).


def scaled_in(run: Run) -> Run:
    if not (run.surplus or run.record.leaving):
        return run
    view, listed = run.view, hostfile.listed_hosts(run.view.hosts)
    leaving: dict[str, Leaving] = {}
    actions: list[Action] = []
    for pod in run.surplus:
        before = run.record.leaving.get(pod.name)
        leaves = before is not None and before.uid == pod.uid
        # A follower, or a Pod created here, is perhaps in no tool's inventory.
        if view.git_managed and pod.rank is None and not pod.created_here:
            continue
        # A scale-out creates the Pod before it changes the job: a Pod that was scaled in is older
        # than the change. Only a replacement may be younger.
        is_young = view.declared_at is not None and pod.created > view.declared_at
        if is_young and not pod.created_here and not leaves:
            continue
        leaving[pod.name] = before if before is not None and leaves else Leaving(pod.uid, run.now)
        if before is None:
            actions.append(EmitEvent("WorkerLeaves", "scaled in", pod.name, pod.uid))
        role, due = run.job.role(pod.role), leaving[pod.name].since + run.timeouts.drain
        host = f"{role.naming.stem}-{pod.index}" if role is not None else pod.name
        if run.now < due and not pod.deleting:
            actions.append(Requeue(due))
        elif (pod.ended or host not in listed) and not pod.deleting:
            actions.append(DeletePod(pod.name, pod.uid, "ScaledIn"))
    return run.writing(*actions, leaving=leaving)
