"""MPIJob of the Training Operator (`kubeflow.org/v1`) to a job: ranks are started by exec.

reference/training-operator-mpijob.md.
"""

from collections.abc import Iterator

from msgspec import structs

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.frontends import hosts
from etcompile.frontends.annotations import GATE_TIMEOUT, gate_timeout
from etcompile.frontends.hosts import KUBECTL_PATH, KUBEXEC, KUBEXEC_FILE, launcher_access
from etcompile.frontends.kubeflow import framework
from etcompile.frontends.kubeflow.framework import Described, Framework, Replica, Spec
from etcompile.launch.commands import discovers_hosts, least_workers
from etcompile.model import (
    Bounds,
    ConfigFile,
    EmptyDir,
    Env,
    Gate,
    Member,
    Mount,
    Resident,
    Role,
    Success,
)
from etcompile.model.gpus import gpus
from etcompile.model.protocol import SCRIPTS_PATH, config_name

FRAMEWORK = Framework(
    kind="MPIJob",
    types="mpiReplicaSpecs",
    roles=("Launcher", "Worker"),
    operator="mpijob-controller",
    schema="MPIJob.json",
    summary="Training Operator: MPI and Horovod jobs, also elastic ones, by kubectl exec",
    container=None,
    port=None,
    restart="Never",
    none=("Worker",),
    keeps_finalizers=False,
    annotations=(GATE_TIMEOUT,),
)

_KUBECTL = Mount("mpi-job-kubectl", KUBECTL_PATH)
_DELIVERY_RESOURCES = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}

_OPEN_MPI = (hosts.RSH_AGENT, Env("OMPI_MCA_orte_default_hostfile", hosts.HOSTFILE))
_OURS = (
    hosts.NO_TREE_SPAWN,
    # Open MPI 5 reads none of these, but its own (reference/mpi-operator-v2.md 7, D1).
    Env("PRTE_MCA_plm_ssh_agent", KUBEXEC),
    Env("PRTE_MCA_prte_default_hostfile", hosts.HOSTFILE),
    Env("PRTE_MCA_plm_ssh_no_tree_spawn", "1"),
)
_LINE = "{name} slots={slots}"
_INTEL = (Env("I_MPI_HYDRA_BOOTSTRAP", "rsh"), Env("I_MPI_HYDRA_BOOTSTRAP_EXEC", KUBEXEC))


def describe(spec: Spec) -> Described:
    """The roles, files and rights of an MPIJob."""
    timeout, problems = gate_timeout(spec.source)
    launcher, worker = spec.part("Launcher"), spec.of("Worker")
    elastic = discovers_hosts(launcher.template.main_container)
    workers = [_worker(spec, worker, elastic=elastic)] if worker else []
    access, account = launcher_access(spec.name, launcher.template, execs=True, into="worker")
    roles = (*workers, _launcher(spec, launcher, timeout, account))
    return Described(
        roles=roles,
        success=Success(("launcher",)),
        changes={
            "labels": {"app": spec.name},
            "config_name": config_name(spec.name, of_operator=True),
            "files": _files(spec, worker),
            "host_lists": hosts.mpi_host_lists(_LINE, "{host}", launcher=_has_gpus(launcher)),
            "slots": hosts.slots_per_worker(spec.fields),
            "access": access,
        },
        diagnostics=(*problems, *_problems(spec, worker)),
        # Workers only serve it.
        each=("launcher",),
    )


def _base(spec: Spec, replica: Replica) -> Role:
    role = framework.role(spec, replica, ())
    return structs.replace(
        role,
        additions=structs.replace(role.additions, run_once=False),
    )


def _worker(spec: Spec, replica: Replica, *, elastic: bool) -> Role:
    base, launcher = _base(spec, replica), spec.part("Launcher")
    return structs.replace(
        base,
        additions=structs.replace(
            base.additions,
            # MPI's daemons look for their launcher's agent too, and die without it.
            volumes=(hosts.config_files(hosts.CONFIG.volume, KUBEXEC_FILE),),
            mounts=(hosts.CONFIG,),
            resident=Resident(ssh=False),
        ),
        recovery=structs.replace(
            base.recovery,
            serves=True,
            # It ends well only when the run is done, and is not to start again then.
            pod_restart="OnFailure"
            if base.recovery.pod_restart == "Always"
            else base.recovery.pod_restart,
            # Elastic training goes on without it; any other stops (common file, defect 40).
            vital=not elastic,
        ),
        bounds=Bounds(
            min(replica.replicas, 1),
            quorum=least_workers(
                launcher.template.main_container,
                replica.replicas,
                hosts.slots_per_worker(spec.fields),
                others=int(_has_gpus(launcher)),
            ),
        ),
    )


def _launcher(spec: Spec, replica: Replica, timeout: int, account: str | None) -> Role:
    no_gpus = () if _has_gpus(replica) else hosts.NO_GPUS
    ours = hosts.unless_set(replica.template.main_container, *_INTEL, *_OURS)
    base = _base(spec, replica)
    return structs.replace(
        base,
        naming=structs.replace(base.naming, stem=f"{spec.name}-launcher"),
        members=(Member(),) if replica.replicas else (),
        labels=structs.replace(base.labels, pods=framework.MASTER, index=None),
        additions=structs.replace(
            base.additions,
            env=(
                *_OPEN_MPI,
                *no_gpus,
                *ours,
            ),
            volumes=(
                EmptyDir(_KUBECTL.volume),
                hosts.config_files(
                    hosts.CONFIG.volume, KUBEXEC_FILE, ("hostfile", 0o444), (hosts.DISCOVERY, 0o555)
                ),
            ),
            mounts=(_KUBECTL, hosts.CONFIG),
            reads_hosts=True,
            scripts=(hosts.HOSTS,),
            setup=(hosts.kubectl_delivery(_KUBECTL.volume, _DELIVERY_RESOURCES),),
            gate=Gate(
                roles=("worker",),
                hosts=f"{SCRIPTS_PATH}/{hosts.PEERS}",
                mounts=(_KUBECTL, hosts.CONFIG),
                ssh=False,
                timeout=timeout,
                kubexec=KUBEXEC,
                file=hosts.PEERS,
            ),
            run_once=True,
            service_account=account,
        ),
    )


def _has_gpus(launcher: Replica) -> bool:
    """Whether the launcher takes part in the work: it has a GPU of any vendor (reference 2)."""
    return any(map(gpus, launcher.template.spec["containers"]))


def _files(spec: Spec, worker: Replica | None) -> tuple[ConfigFile, ...]:
    named = spec.fields.get("mainContainer")
    sidecars = worker is not None and len(worker.template.spec["containers"]) > 1
    container = named or (worker.template.main if worker and sidecars else None)
    return (hosts.kubexec_script(container), hosts.discovery())


def _problems(spec: Spec, worker: Replica | None) -> Iterator[Diagnostic]:
    named = spec.fields.get("mainContainer")
    if named and worker:
        names = [container["name"] for container in worker.template.spec["containers"]]
        if named not in names:
            place = spec.source.locate(("spec", "mainContainer"))
            facts = {"kind": "MPIJob", "container": named, "names": ", ".join(names)}
            yield diagnose(codes.NO_SUCH_CONTAINER, place, **facts)


KINDS = (
    structs.replace(
        framework.kind(FRAMEWORK, describe), volumes=(hosts.CONFIG.volume, _KUBECTL.volume)
    ),
)
