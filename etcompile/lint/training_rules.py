"""Define the rules of advice: pure functions from a compiled job to warnings.

`diagnostics/catalogue.yaml` says why a rule exists and where its fact is written. What several
rules need to know of a Pod is in `linted_job`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.k8s.path import value_at
from etcompile.k8s.quantity import number
from etcompile.k8s.references import claim_of
from etcompile.k8s.requests import devices
from etcompile.launch.shell import whole_number
from etcompile.lint.linted_job import (
    HOST,
    LintedJob,
    RolePods,
    checkpoints,
    devices_of,
    is_gpu,
    is_on_one_node,
    is_one_per_node,
    is_pytorch,
    limit,
    mounted_at,
    passed,
    place_of,
    processes,
    requests,
    required_labels,
    variables,
)
from etcompile.model.schedulers import QUEUE_ANNOTATIONS, QUEUE_LABELS

# Volumes ----------------------------------------------------------------------------------------

_SHM = "/dev/shm"  # noqa: S108 - a path in containers
_LOADERS = frozenset(
    {"num_workers", "dataloader_num_workers", "data_loader_workers", "loader_workers", "workers"}
)
"""Options of training scripts that set the number of worker processes of a data loader."""


def no_shared_memory(job: LintedJob) -> Iterator[Diagnostic]:
    """Warn of PyTorch processes that share data through the 64 MiB of /dev/shm."""
    for pods in job.pods:
        if pods.spec.get("hostIPC") or not is_pytorch(pods):
            continue
        mounted = mounted_at(pods, _SHM)
        if mounted is not None and mounted.mount["mountPath"].rstrip("/") == _SHM:
            continue
        loaders = (option for option in pods.options if option.name in _LOADERS)
        counted = [
            f"{option.written} {count}"
            for option in loaders
            if (count := whole_number(option.value or ""))
        ]
        count = sum(n for name, n in devices(pods.main).items() if is_gpu(name))
        if counted:
            needed = counted[0]
        elif count > 1:
            # One process per GPU: NCCL passes data on a node through shared memory.
            needed = f"NCCL between {count} GPUs"
        elif count:
            needed = "the data loaders of a training on a GPU"
        else:
            continue
        place = pods.place_in(pods.main, "name")
        yield diagnose(codes.NO_SHARED_MEMORY, place, role=pods.role.name, needed=needed)


def memory_volume_too_large(job: LintedJob) -> Iterator[Diagnostic]:
    for pods in job.pods:
        most = limit(pods.main, "memory")
        mounts = {mount["name"] for mount in pods.main.get("volumeMounts", ())}
        for index, volume in enumerate(pods.role.template.spec.get("volumes", ())):
            directory = volume.get("emptyDir") or {}
            limited = directory.get("sizeLimit") is not None
            size = number(directory["sizeLimit"]) if limited else None
            if directory.get("medium") != "Memory" or size is None or most is None:
                continue
            if volume["name"] in mounts and size >= most:
                yield diagnose(
                    codes.MEMORY_VOLUME_TOO_LARGE,
                    pods.place("volumes", index, "emptyDir", "sizeLimit"),
                    volume=volume["name"],
                    size=directory["sizeLimit"],
                    container=pods.main["name"],
                    limit=pods.main["resources"]["limits"]["memory"],
                )


def lost_checkpoints(job: LintedJob) -> Iterator[Diagnostic]:
    """Warn of checkpoints that are deleted with their container or Pod, or stay on one node."""
    for pods in job.pods:
        # A Pod that is bound to a node by name sees its folders again.
        stays = "nodeName" in pods.spec or HOST in pods.spec.get("nodeSelector", {})
        reported: set[str] = set()
        for checkpoint in checkpoints(pods):
            volume = checkpoint.mounted.volume if checkpoint.mounted else None
            if volume is None:
                code, facts = codes.CHECKPOINT_IN_CONTAINER, {"role": pods.role.name}
            elif "emptyDir" in volume:
                code, facts = codes.CHECKPOINT_IN_EMPTY_DIR, {"volume": volume["name"]}
            elif "hostPath" in volume and not stays:
                path = volume["hostPath"].get("path", "")
                code, facts = codes.CHECKPOINT_ON_ONE_NODE, {"path": path}
            else:
                continue
            if code not in reported:
                yield diagnose(code, checkpoint.place(pods), said=checkpoint.said, **facts)
            reported.add(code)


_SINGLE = {"ReadWriteOnce": "one node", "ReadWriteOncePod": "one Pod"}


def claim_of_one_node(job: LintedJob) -> Iterator[Diagnostic]:
    claims: dict[str, Mapping[str, Any]] = {}
    for value in (source.data for source in job.others):
        near = value["metadata"].get("namespace") in (None, job.job.namespace)
        if value["kind"] == "PersistentVolumeClaim" and near and "name" in value["metadata"]:
            claims[value["metadata"]["name"]] = value.get("spec") or {}
    claims |= {claim.name: claim.spec for claim in job.job.claims}
    for name, spec in claims.items():
        modes = spec.get("accessModes") or ()
        users = [
            (pods, index)
            for pods in job.pods
            for index, volume in enumerate(pods.spec.get("volumes", ()))
            if claim_of(volume) == name
        ]
        count = sum(pods.count for pods, _ in users)
        if not modes or not set(modes) <= _SINGLE.keys() or count < 2:
            continue
        mode = "ReadWriteOnce" if "ReadWriteOnce" in modes else "ReadWriteOncePod"
        if mode == "ReadWriteOnce" and all(is_on_one_node(pods) for pods, _ in users):
            continue
        pods, at = users[0]
        place = pods.place("volumes", at, "persistentVolumeClaim", "claimName")
        facts = {"claim": name, "mode": mode, "where": _SINGLE[mode], "pods": count}
        yield diagnose(codes.CLAIM_OF_ONE_NODE, place, **facts)


# Devices and processors -------------------------------------------------------------------------


def gpu_without_memory(job: LintedJob) -> Iterator[Diagnostic]:
    for pods in job.pods:
        for container in pods.containers:
            requested = devices(container)
            if requested and not requests(pods, container, "memory"):
                device, count = next(iter(requested.items()))
                place = pods.place_in(container, "resources", key=True)
                facts = {"container": container["name"], "device": device, "count": count}
                yield diagnose(codes.GPU_WITHOUT_MEMORY, place, **facts)


def more_processes_than_gpus(job: LintedJob) -> Iterator[Diagnostic]:
    """Warn of a Pod with another number of processes than devices, or an unknown number."""
    for pods in job.pods:
        (count, devices), running = devices_of(job, pods), processes(job, pods)
        # Several processes of Horovod or MPI may share a GPU without NCCL.
        if running is None or not running.torch or count in (0, running.count):
            continue
        option = running.option
        place = option.place if option else pods.place_in(pods.main, "resources", key=True)
        facts = {"role": pods.role.name, "said": running.said, "devices": devices.partition(" ")[0]}
        if count is None:
            yield diagnose(codes.UNCOUNTED_DEVICES, place, **facts)
            continue
        few = count < running.count
        facts["gpus"] = "1 GPU" if count == 1 and devices == "GPUs" else f"{count} {devices}"
        code = codes.MORE_PROCESSES_THAN_GPUS if few else codes.FEWER_PROCESSES_THAN_GPUS
        yield diagnose(code, place, **facts)


_BACKENDS = frozenset({"backend", "dist_backend", "distributed_backend", "ddp_backend"})
"""Options of training scripts that set the backend of torch.distributed."""


def nccl_without_gpu(job: LintedJob) -> Iterator[Diagnostic]:
    for pods in job.pods:
        if devices(pods.main) or pods.main.get("resources", {}).get("claims"):
            continue
        for option in pods.options:
            if option.name in _BACKENDS and option.value == "nccl":
                facts = {"role": pods.role.name, "option": f"{option.written} nccl"}
                yield diagnose(codes.NCCL_WITHOUT_GPU, option.place, **facts)
                break


_THREADS = "OMP_NUM_THREADS"


def fewer_processors_than_threads(job: LintedJob) -> Iterator[Diagnostic]:
    for pods in job.pods:
        most = limit(pods.main, "cpu")
        if most is None:
            continue
        running = processes(job, pods)
        by_option, _ = passed(pods).get(_THREADS, (None, None))
        written = by_option or variables(pods.main).get(_THREADS)
        threads = whole_number(written) if written else None
        # Without the variable torchrun gives each of several processes one thread.
        count = (running.count if running else 1) * (threads or 1)
        # A single thread with a part of a processor is intended.
        if count > 1 and count > most:
            said = [running.said] if running and running.count > 1 else []
            said += [f"{_THREADS} {threads}"] if threads else []
            yield diagnose(
                codes.FEWER_PROCESSORS_THAN_THREADS,
                pods.place_in(pods.main, "resources", "limits", "cpu"),
                container=pods.main["name"],
                limit=pods.main["resources"]["limits"]["cpu"],
                threads=count,
                said=" and ".join(said),
            )


_LOCKING = frozenset({"IPC_LOCK", "CAP_IPC_LOCK", "ALL"})
"""Capabilities that allow a container to lock memory."""


def rdma_without_locked_memory(job: LintedJob) -> Iterator[Diagnostic]:
    for pods in job.pods:
        for container in pods.containers:
            resources = container.get("resources", {})
            names = [*resources.get("limits", {}), *resources.get("requests", {})]
            device = next((name for name in names if name.startswith("rdma/")), None)
            context = container.get("securityContext") or {}
            added = (context.get("capabilities") or {}).get("add") or ()
            may_lock = context.get("privileged") or not _LOCKING.isdisjoint(added)
            if device and not may_lock:
                place = pods.place_in(container, "resources", key=True)
                facts = {"container": container["name"], "device": device}
                yield diagnose(codes.RDMA_WITHOUT_LOCKED_MEMORY, place, **facts)


# Network ----------------------------------------------------------------------------------------


def host_network_without_dns(job: LintedJob) -> Iterator[Diagnostic]:
    """Warn of Pods in their nodes' network that cannot resolve the names of the job's Services."""
    for pods in job.pods if job.count > 1 else ():
        policy = pods.spec.get("dnsPolicy", "ClusterFirst")
        if pods.spec.get("hostNetwork") and policy in ("ClusterFirst", "Default"):
            place = pods.place("hostNetwork", key=True)
            facts = {"role": pods.role.name, "policy": policy}
            yield diagnose(codes.HOST_NETWORK_WITHOUT_DNS, place, **facts)


def host_ports_clash(job: LintedJob) -> Iterator[Diagnostic]:
    """Warn of replicas that listen on the same port of the host and may share a node."""
    for pods in job.pods:
        if pods.count < 2 or not pods.spec.get("hostNetwork") or is_one_per_node(pods):
            continue
        resident = pods.role.additions.resident
        if resident and resident.ssh and job.job.credentials:
            port = job.job.credentials.port or 22
        elif pods.role.ports:
            port = pods.role.ports[0].number
        else:
            continue
        place = pods.place("hostNetwork", key=True)
        facts = {"role": pods.role.name, "count": pods.count, "port": port}
        yield diagnose(codes.HOST_PORTS_CLASH, place, **facts)


_OF_PODS = "eth0"
"""The interface that container runtimes create in a Pod."""
_MORE_NETWORKS = "k8s.v1.cni.cncf.io/networks"
"""Annotation that adds interfaces to a Pod."""


def interface_of_the_host(job: LintedJob) -> Iterator[Diagnostic]:
    """Warn of NCCL or Gloo on a network interface that does not reach the peers."""
    for pods in job.pods:
        by_variable, by_option = variables(pods.main), passed(pods)
        for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            value, option = by_option.get(name) or (by_variable.get(name), None)
            if value and (problem := _interface_problem(job, pods, name, value)):
                names = [env["name"] for env in pods.role.template.main_container.get("env", ())]
                where = ("env", names.index(name), "value") if name in names else ("env",)
                # The option may occur for several variables.
                said = f"{name}={value}"
                place = place_of(option.role, said) if option else pods.place_in(pods.main, *where)
                facts = {"variable": name, "value": value, "problem": problem}
                yield diagnose(codes.INTERFACE_OF_THE_HOST, place, **facts)


def _interface_problem(job: LintedJob, pods: RolePods, name: str, value: str) -> str | None:
    is_nccl = name.startswith("NCCL")
    if is_nccl and value.startswith("^"):
        return None
    exact = not is_nccl or value.startswith("=")
    parts = value.removeprefix("=").split(",")
    interfaces = [part.strip() for part in parts if part.strip()]
    if job.count > 1 and interfaces == ["lo"]:
        return "by the loopback interface no other Pod can be reached"
    if pods.spec.get("hostNetwork") or _MORE_NETWORKS in pods.metadata.get("annotations", {}):
        return None
    if "$(" in value:  # refers to another variable
        return None
    for interface in interfaces:
        # NCCL matches the beginning of a name, unless an exact match is requested.
        if interface in (_OF_PODS, "lo") or (not exact and _OF_PODS.startswith(interface)):
            return None
    return f"a Pod without hostNetwork has only {_OF_PODS} and lo"


# Failures and time ------------------------------------------------------------------------------

_API_DEFAULT = 6
"""The API server's default backoffLimit of a TrainingJob (reference/et-operator.md 0)."""


def retries_contradict(job: LintedJob) -> Iterator[Diagnostic]:
    spec: Mapping[str, Any] = job.job.origin.source.data.get("spec") or {}
    run, roles = job.job.run, [pods.role for pods in job.pods]
    # et-operator counts restarts of the whole job; the others count failed replicas.
    of_job = run.limits == "restarts"
    path = ("spec", "backoffLimit") if of_job else ("spec", "runPolicy", "backoffLimit")
    limit = value_at({"spec": spec}, path)
    if limit is None:
        return
    if of_job:
        policies = [("the job", spec.get("restartPolicy"))]
        never = run.restart == "Never"
    else:
        # The limit of an MPIJob v2beta1 is that of its launcher (reference/mpi-operator-v2.md 2).
        counted = [role for role in roles if role.batch] or roles
        document = job.job.origin.source.data
        policies = [
            (role.name, value_at(document, (*role.origin.path, "restartPolicy")))
            for role in counted
        ]
        never = all(role.recovery.restart == "Never" for role in roles)
    never &= not (run.together or run.in_place or any(role.batch for role in roles))
    retried = [
        (who, policy) for who, policy in policies if policy in ("OnFailure", "Always", "ExitCode")
    ]
    place = job.job.origin.locate(*path)
    if limit == 0 and retried:
        who, policy = retried[0]
        problem = f"restartPolicy {policy} of {who} asks for another try, and it allows none"
        yield diagnose(codes.RETRIES_CONTRADICT, place, limit=limit, problem=problem)
    elif limit > 0 and never and not (of_job and limit == _API_DEFAULT):
        problem = "restartPolicy Never allows no restarts"
        yield diagnose(codes.RETRIES_CONTRADICT, place, limit=limit, problem=problem)


_GRACE = 30
"""Seconds from TERM to KILL if a Pod does not set them (PodSpec, v1)."""
_SLEEP = re.compile(r"\bsleep\s+(\d{1,6})\b")


def short_grace_period(job: LintedJob) -> Iterator[Diagnostic]:
    in_place = job.job.run.in_place
    # Before TERM, a supervisor sends a signal to write a checkpoint.
    signalled = in_place if in_place and in_place.checkpoint_signal else None
    for pods in job.pods:
        seconds = pods.spec.get("terminationGracePeriodSeconds")
        grace = _GRACE if seconds is None else int(seconds)
        hook = value_at(pods.main, ("lifecycle", "preStop", "exec", "command")) or ()
        slept = sum(int(each) for each in _SLEEP.findall(" ".join(hook)))
        if signalled and pods.role.name in signalled.roles and grace // 2 < signalled.stop:
            problem = (
                f"{grace // 2} s of it are for the checkpoint, but etcompile.dev/stop-timeout gives"
                f" the command {signalled.stop} s to end"
            )
        elif slept and slept >= grace:
            problem = (
                f"its preStop hook sleeps {slept} s, so nothing is left for the command to end"
            )
        else:
            continue
        place = pods.place("terminationGracePeriodSeconds")
        if seconds is None:
            place = pods.place_in(pods.main, "name")
        facts = {"grace": grace, "problem": problem}
        yield diagnose(codes.SHORT_GRACE_PERIOD, place, role=pods.role.name, **facts)


_SPOT = {
    "cloud.google.com/gke-spot": "true",
    "cloud.google.com/gke-preemptible": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
    "karpenter.sh/capacity-type": "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "node.kubernetes.io/lifecycle": "spot",
}
"""Labels, and taints, of nodes that a cloud may take away at any time."""


def spot_without_checkpoint_signal(job: LintedJob) -> Iterator[Diagnostic]:
    """Warn of a job of fixed size on spot nodes without a signal before the loss of a node."""
    in_place = job.job.run.in_place
    # Elastic jobs, and jobs that relaunch replicas, continue with the remaining ones.
    elastic = any(pods.role.bounds or pods.role.recovery.relaunch for pods in job.pods)
    if job.count < 2 or elastic or (in_place and in_place.checkpoint_signal):
        return
    for pods in job.pods:
        # Labels that lead the Pods to spot nodes, each with the path of the field.
        spots: list[tuple[str, tuple[str | int, ...]]] = []
        for name, values in required_labels(pods):
            if _SPOT.get(name) in values:
                in_selector = name in pods.spec.get("nodeSelector", {})
                spots.append((name, ("nodeSelector", name) if in_selector else ("affinity",)))
        for index, toleration in enumerate(pods.spec.get("tolerations", ())):
            name = toleration.get("key")
            if name in _SPOT and toleration.get("value", _SPOT[name]) == _SPOT[name]:
                spots.append((name, ("tolerations", index)))
        if spots:
            label, where = spots[0]
            facts = {"role": pods.role.name, "label": label}
            yield diagnose(codes.SPOT_WITHOUT_CHECKPOINT_SIGNAL, pods.place(*where), **facts)


# Gangs and launchers ----------------------------------------------------------------------------

_NEED_QUEUE = {"kueue": "Kueue", "kai": "KAI"}
"""The schedulers that leave Pods pending with hardly any message if their queue does not exist
(reference/gang-scheduling.md 4.1, 7). Others have no queues, or create the default one."""


def gang_without_queue(job: LintedJob) -> Iterator[Diagnostic]:
    scheduler = job.settings.gang
    if scheduler not in _NEED_QUEUE or job.job.gang.queue is not None:
        return
    labels = [name for name, reader in QUEUE_LABELS.items() if reader == scheduler]
    annotations = [name for name, reader in QUEUE_ANNOTATIONS.items() if reader == scheduler]
    metadata = [(job.job.gang.labels, job.job.gang.annotations)]
    metadata += [(role.template.labels, role.template.annotations) for role in job.job.roles]
    if any(names.keys() & {*labels} or notes.keys() & {*annotations} for names, notes in metadata):
        return
    for pods in job.pods:
        of_pods = pods.metadata.get("labels", {})
        if queues := [of_pods[name] for name in labels if name in of_pods]:
            place = job.job.origin.locate("metadata", "name")
            facts = {"scheduler": _NEED_QUEUE[scheduler], "queue": queues[0], "label": labels[0]}
            yield diagnose(codes.GANG_WITHOUT_QUEUE, place, job=job.job.name, **facts)
            return


_RETIRED = "torch.distributed.launch"


def retired_launcher(job: LintedJob) -> Iterator[Diagnostic]:
    for pods in job.pods:
        started = next((run for run in pods.commands if _RETIRED in run.words), None)
        if started is not None:
            place = place_of(started.role, _RETIRED)
            yield diagnose(codes.RETIRED_LAUNCHER, place, role=pods.role.name)


TRAINING_RULES: tuple[Callable[[LintedJob], Iterator[Diagnostic]], ...] = (
    no_shared_memory,
    memory_volume_too_large,
    lost_checkpoints,
    claim_of_one_node,
    gpu_without_memory,
    more_processes_than_gpus,
    nccl_without_gpu,
    fewer_processors_than_threads,
    rdma_without_locked_memory,
    host_network_without_dns,
    host_ports_clash,
    interface_of_the_host,
    retries_contradict,
    short_grace_period,
    spot_without_checkpoint_signal,
    gang_without_queue,
    retired_launcher,
)
"""All rules, in any order: warnings are sorted by code."""
