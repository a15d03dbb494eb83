"""Restart a job, or request a checkpoint, as its ConfigMap in the cluster declares the job.

A checkpoint is requested from the commands of the job directly, without the watcher.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from msgspec import Struct, structs

from etcompile import backend
from etcompile.compiler.stored import StoredJobError
from etcompile.compiler.stored_run import StoredRun
from etcompile.diagnostics import codes
from etcompile.k8s import pods
from etcompile.k8s.objects import LiveObject, Object, annotations_of, is_going, labels_of
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.model.protocol import (
    INDEX_LABEL,
    JOB_LABEL,
    NOTICE,
    ROLE_LABEL,
    RUN_STATE,
    WATCHER,
    hosts_name,
    status_name,
)
from etcompile.model.run_record import written_record
from etcompile.model.supervision import REMINDED, SAME, Notice, first_replica, notice, read_notice
from etcompile.operations.cluster_plan import impossible, named_job, quotas
from etcompile.plan.deletion import restart
from etcompile.plan.owners import is_member, stranger
from etcompile.plan.quotas import within_quotas
from etcompile.plan.scope import Rights
from etcompile.plan.step import ObjectRef, Plan, reference
from etcompile.rollout.inventory import seen_version
from etcompile.rollout.live import Live, belongings, inventory_of
from etcompile.rollout.machine.messages import Proposal, ProposedJob
from etcompile.status import Seen
from etcompile.status.job_status import is_config

_NOTICED = 2.0
"""Seconds in which a watcher notices that the Pods of a run are gone, and then that its record is.
Until then it takes new Pods for such as are left of that run, and deletes them."""
_REASON = "somebody has asked for a checkpoint"


def restart_proposal(cluster: Cluster, job: str, *, adopt: bool = False) -> Proposal:
    """Propose what replaces all Pods of a job, as its last apply declared them.

    Args:
        adopt: Also replace Pods that other people or tools manage.

    Raises:
        ClusterError: the cluster cannot be read.
        ImpossibleError: there is no such job, or it cannot be run.
    """
    job = named_job(cluster, job)
    parent = inventory_of(cluster, job, cluster.namespace)
    version = seen_version(parent, cluster.now())
    observed, run = _declared(cluster, job, codes.CANNOT_BE_RESTARTED)
    if run.job.run.suspended:
        advice = "remove the suspension from the job's file, and apply it"
        facts = {"problem": "it is suspended", "advice": advice}
        raise impossible(codes.CANNOT_BE_RESTARTED, job=job, **facts)
    title = f"{run.namespace}/{job}"
    declared = [
        {**pod, "metadata": {**pod["metadata"], "namespace": run.namespace}}
        for role in run.job.roles
        for _, pod in run.pods(role.name, [member.index for member in role.members])
    ]
    live: dict[ObjectRef, Object] = {
        reference(value): value
        for value in (
            *(value for value in observed.objects.values() if value["kind"] in ("Pod", "Job")),
            *Live(cluster).get([reference(pod) for pod in declared]),
        )
    }
    names = (("ConfigMap", run.namespace, name) for name in (status_name(job), hosts_name(job)))
    records = [observed.objects[name] for name in names if name in observed.objects]
    plans = removed, forgotten, created = restart(
        declared,
        live.values(),
        records,
        job=title,
        waits=backend.waits(run.job),
        config=run.uid,
        applied=parent is not None,
        adopt=adopt,
        context=cluster.context or cluster.server,
        namespace=cluster.namespace,
    )
    whole = Plan((*removed.steps, *created.steps), namespace=cluster.namespace)
    ending = {ref.key: value for ref, value in live.items()}
    within = within_quotas(whole, ending, quotas(cluster, whole))
    checked = {step.id: step for step in within.steps}
    created = structs.replace(created, steps=tuple(checked[step.id] for step in created.steps))
    changing = {
        step.ref for part in plans for step in part.steps if step.action in ("delete", "create")
    }
    members = [
        reference(value)
        for value in belongings(cluster, job, run.namespace)
        if is_member(value) and reference(value) not in changing
    ]
    return Proposal(
        plan=created,
        rights=Rights(adopt=adopt, prune=True),
        before=(removed, forgotten) if records else (removed,),
        pause=_NOTICED if records else 0.0,
        jobs={
            title: ProposedJob(
                deciding=backend.deciding(run.job),
                runs=frozenset({run.spec_hash}),
                remaining=members,
                version=version,
            )
        },
    )


def _declared(cluster: Cluster, job: str, code: str) -> tuple[Seen, StoredRun]:
    """Return what the cluster has of a job, and the job that its ConfigMap there declares.

    Raises:
        ImpossibleError: with this code: there is none that this version of etcompile can read.
    """
    observed = Seen(job, cluster.namespace)
    observed.read(cluster)
    problem = ""
    configs = [value for value in observed.objects.values() if is_config(value)]
    # A copy of it, which somebody made with its labels, is another one's or nobody's.
    for value in sorted(configs, key=lambda value: stranger(value) is not None):
        try:
            run = StoredRun(value)
        except StoredJobError as error:
            problem = str(error)
            continue
        if run.job.config_name == value["metadata"]["name"]:
            return observed, run
        problem = problem or f"its ConfigMap is called {value['metadata']['name']}"
        labelled = value["metadata"]["labels"][JOB_LABEL]
        problem += f", and not {run.job.config_name}, for {labelled}"
    raise impossible(code, job=job, problem=problem, advice="")


# Checkpoints --------------------------------------------------------------------------------------


class CheckpointRequest(Struct, frozen=True):
    """The result of a request for a checkpoint.

    Args:
        signal: What processes that handle it are sent: `USR1`.
        not_running: Pods whose command does not run, which were not signaled.
        earlier: Why the job got a notice a moment ago, if so; then it gets none now.
        ago: How long ago that was, in seconds.
    """

    job: str
    signal: str
    pods: tuple[str, ...] = ()
    not_running: tuple[str, ...] = ()
    earlier: str = ""
    ago: float = 0.0


def request_checkpoint(cluster: Cluster, job: str, *, concurrency: int = 16) -> CheckpointRequest:
    """Request a checkpoint of all commands of a job in the default namespace.

    The Pod of its first replica gets the annotation `etcompile.dev/notice`, or each of its Pods
    where each restarts by itself. The supervisors pass the signal on that the job names in
    `etcompile.dev/checkpoint-signal` (docs/recovery.md). Nobody answers, so each Pod gets it twice,
    and its supervisor heeds that once.

    Raises:
        ClusterError: the cluster cannot be read, or refuses.
        ImpossibleError: there is no such job, or nobody can be asked.
    """
    job = named_job(cluster, job)
    refused = partial(impossible, codes.CANNOT_BE_ASKED, job=job)
    observed, run = _declared(cluster, job, codes.CANNOT_BE_ASKED)
    in_place = run.job.run.in_place
    if in_place is None or in_place.checkpoint_signal is None:
        advice = "set etcompile.dev/restart: in-place and etcompile.dev/checkpoint-signal: USR1"
        raise refused(problem="it names no checkpoint signal", advice=advice)
    title, signal = f"{run.namespace}/{job}", in_place.checkpoint_signal
    mains = {role.name: role.template.main for role in run.job.roles if role.name in in_place.roles}
    running, idle = _supervised(observed, mains)
    if not running:
        advice = f"see etcompile status {job}"
        raise refused(problem="none of its commands is running", advice=advice)
    now = cluster.now()
    notes = (annotations_of(pod).get(NOTICE) for pod in running)
    last = max((read_notice(note or "") for note in notes), key=lambda other: other.at)
    if now < last.at + SAME:
        # Pods that go are part of the same disturbance, and one checkpoint is enough.
        return CheckpointRequest(title, signal, (), tuple(idle), last.why, now - last.at)
    status = observed.objects.get(("ConfigMap", run.namespace, status_name(job)), {})
    record = written_record(status.get("data") or {})  # None unless a watcher manages the run
    new = notice((record.epoch if record else None) or 0, now, signal, _REASON)
    first = first_replica(run.job)
    receivers = running
    if first is not None:
        # The supervisor of the first replica passes it on to all others.
        role, member = first
        labels = {ROLE_LABEL: role.name}
        if member.index is not None:
            labels[INDEX_LABEL] = str(member.index)
        receivers = [pod for pod in running if labels.items() <= pod["metadata"]["labels"].items()]
    if not receivers:
        problem = "the supervisor of its first replica, which notifies the others, is not running"
        raise refused(problem=problem, advice="")
    reached = _annotate(cluster, receivers, new, concurrency)
    time.sleep(REMINDED)
    _annotate(cluster, reached, new.again(), concurrency)
    notified = running if first is not None and reached else reached
    names = tuple(pod["metadata"]["name"] for pod in notified)
    return CheckpointRequest(title, signal, names, tuple(idle))


def _supervised(observed: Seen, mains: Mapping[str, str]) -> tuple[list[LiveObject], list[str]]:
    """Return Pods whose supervisor has a command to signal, and the names of those that have none.

    Args:
        mains: By role with supervisors, the container whose command has one: it is ready
            exactly while the command runs.
    """
    running: list[LiveObject] = []
    idle: list[str] = []
    for value in observed.objects.values():
        if value["kind"] != "Pod" or is_going(value) or pods.has_ended(value):
            continue
        volumes = (value.get("spec") or {}).get("volumes") or ()
        role = labels_of(value).get(ROLE_LABEL) or ""
        if role in mains and any(volume["name"] == RUN_STATE for volume in volumes):
            ready = (container for container in pods.containers(value) if container.get("ready"))
            runs = any(container.get("name") == mains[role] for container in ready)
            if runs:
                running.append(value)
            else:
                idle.append(value["metadata"]["name"])
    return running, idle


def _annotate(
    cluster: Cluster, receivers: Sequence[LiveObject], new: Notice, concurrency: int
) -> list[LiveObject]:
    kind = cluster.resource("v1", "Pod")

    def write(pod: LiveObject) -> LiveObject | None:
        metadata = pod["metadata"]
        change = {"metadata": {"uid": metadata["uid"], "annotations": {NOTICE: new.text}}}
        try:
            cluster.patch(
                kind, metadata["name"], change, metadata["namespace"], field_manager=WATCHER
            )
        except ClusterError as error:
            if error.conflict or error.not_found:
                return None  # that Pod is gone meanwhile
            raise
        return pod

    with ThreadPoolExecutor(concurrency) as pool:
        return [*filter(None, pool.map(write, receivers))]
