"""Turn an MPIJob of the Training Operator (`kubeflow.org/v1`) into a job: exec starts the ranks.

See reference/training-operator-mpijob.md.
"""

from etcompile import model
from etcompile.frontends import hosts
from etcompile.frontends.annotations import GATED, gate_timeout
from etcompile.frontends.hosts import KUBECTL_PATH, KUBEXEC, KUBEXEC_FILE, launcher_access
from etcompile.frontends.kubeflow import framework
from etcompile.frontends.kubeflow.framework import Described, Framework, Spec
from etcompile.frontends.kubeflow.run_policy import FIELDS
from etcompile.frontends.notes import no_such_container
from etcompile.k8s.requests import gpus
from etcompile.launch.launchers import discovers_hosts, least_workers
from etcompile.model.protocol import config_name

_KUBECTL = model.Mount("mpi-job-kubectl", KUBECTL_PATH)

FRAMEWORK = Framework(
    kind="MPIJob",
    types="mpiReplicaSpecs",
    roles=("Launcher", "Worker"),
    summary="Training Operator: MPI and Horovod jobs, also elastic ones, by kubectl exec",
    container=None,
    port=None,
    restart="Never",
    none=("Worker",),
    keeps_finalizers=False,
    annotations=GATED,
    volumes=(hosts.CONFIG.volume, _KUBECTL.volume),
    policy=FIELDS - {"cleanPodPolicy"},
    without_trainer="Trainer starts its launcher with other keys, hosts and ranks: write it by"
    " hand",
)

_DELIVERY_RESOURCES = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}

_OPEN_MPI = (hosts.RSH_AGENT, model.Env("OMPI_MCA_orte_default_hostfile", hosts.HOSTFILE))
_OURS = (
    hosts.NO_TREE_SPAWN,
    # Open MPI 5 reads only these (reference/mpi-operator-v2.md 7, D1).
    model.Env("PRTE_MCA_plm_ssh_agent", KUBEXEC),
    model.Env("PRTE_MCA_prte_default_hostfile", hosts.HOSTFILE),
    model.Env("PRTE_MCA_plm_ssh_no_tree_spawn", "1"),
)
_LINE = "{name} slots={slots}"
_INTEL = (
    model.Env("I_MPI_HYDRA_BOOTSTRAP", "rsh"),
    model.Env("I_MPI_HYDRA_BOOTSTRAP_EXEC", KUBEXEC),
)


def describe(spec: Spec) -> Described:
    problems = []
    launcher, worker = spec.part("Launcher"), spec.of("Worker")
    # The launcher is also a worker if it has a GPU of any vendor (reference 2).
    takes_part = any(map(gpus, launcher.template.spec["containers"]))
    access, account = launcher_access(spec.name, launcher.template, execs=True, into="worker")
    no_gpus, mounts = () if takes_part else hosts.NO_GPUS, (_KUBECTL, hosts.CONFIG)
    ours = hosts.unless_set(launcher.template.main_container, *_INTEL, *_OURS)
    files = (KUBEXEC_FILE, ("hostfile", 0o444), (hosts.DISCOVERY, 0o555))
    labels = model.RoleLabels(common={framework.TYPE_LABEL: launcher.role}, pods=framework.MASTER)
    roles = [
        framework.role(
            spec,
            launcher,
            (*_OPEN_MPI, *no_gpus, *ours),
            additions={
                "volumes": (
                    model.Volume(_KUBECTL.volume),
                    hosts.config_files(hosts.CONFIG.volume, *files),
                ),
                "mounts": mounts,
                "reads_hosts": True,
                "scripts": (hosts.HOSTS,),
                "setup": (hosts.kubectl_delivery(_KUBECTL.volume, _DELIVERY_RESOURCES),),
                "gate": hosts.peer_gate(
                    "worker", gate_timeout(spec.source), mounts=mounts, kubexec=KUBEXEC
                ),
                "service_account": account,
            },
            labels=labels,
            members=(model.Member(),) if launcher.replicas else (),
        )
    ]
    container = spec.fields.get("mainContainer")
    if worker:
        main, slots = launcher.template.main_container, hosts.slots_per_worker(spec.fields)
        least = least_workers(main, worker.replicas, slots, others=int(takes_part))
        # It exits with 0 only when the run is done, and must not restart then.
        restart = (
            "OnFailure" if worker.restart == "Always" else framework.pod_restart(worker.restart)
        )
        roles.insert(
            0,
            framework.role(
                spec,
                worker,
                (),
                additions={
                    # MPI's daemons also look for their launcher's agent, and die without it.
                    "volumes": (hosts.config_files(hosts.CONFIG.volume, KUBEXEC_FILE),),
                    "mounts": (hosts.CONFIG,),
                    "resident": model.Resident(ssh=False),
                    "run_once": False,
                },
                # Only elastic training goes on without a worker (common file, defect 40).
                recovery={
                    "serves": True,
                    "pod_restart": restart,
                    "vital": not discovers_hosts(main),
                },
                bounds=model.Bounds(min(worker.replicas, 1), quorum=least),
            ),
        )
        containers = worker.template.spec["containers"]
        if container and all(other["name"] != container for other in containers):
            place = spec.source.locate(("spec", "mainContainer"))
            problems.append(no_such_container(place, "MPIJob", container, containers))
        elif len(containers) > 1:
            container = container or worker.template.main
    return Described(
        roles=tuple(roles),
        success=model.Success(("launcher",)),
        changes={
            "labels": {"app": spec.name},
            "config_name": config_name(spec.name, of_operator=True),
            "files": (hosts.kubexec_script(container), hosts.discovery()),
            "host_lists": hosts.mpi_host_lists(_LINE, "{host}", launcher=takes_part),
            "slots": hosts.slots_per_worker(spec.fields),
            "access": access,
        },
        diagnostics=tuple(problems),
        # Workers only serve the launcher.
        each=("launcher",),
    )


KINDS = (framework.kind(FRAMEWORK, describe),)
