"""Turn an MPIJob of the MPI Operator (`kubeflow.org/v2beta1`) into a job: ssh starts the ranks.

See reference/mpi-operator-v2.md. All replicas are behind one Service, with whose name host names
end. The image decides about sshd and its port.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from etcompile import model
from etcompile.diagnostics import codes, diagnose
from etcompile.frontends import gang, hosts
from etcompile.frontends.annotations import ANY, GATED, gate_timeout, one_of
from etcompile.frontends.document_parts import MOUNTED_HOME
from etcompile.frontends.kind import MPI_OPERATOR
from etcompile.frontends.kubeflow import framework
from etcompile.frontends.kubeflow.framework import Described, Framework, Replica, Spec
from etcompile.frontends.ssh_access import SSH_PORT, kubeflow_ssh_keys, ssh_arguments, ssh_port
from etcompile.launch.launchers import least_workers
from etcompile.model.protocol import config_name

API_VERSION = "kubeflow.org/v2beta1"
_LAUNCHER = "etcompile.dev/launcher"
_ROOT_SSH = "/root/.ssh"

FRAMEWORK = Framework(
    kind="MPIJob",
    types="mpiReplicaSpecs",
    roles=("Launcher", "Worker"),
    operator="mpi-operator",
    schema="MPIJobV2.json",
    summary="MPI Operator: MPI and Horovod jobs, also elastic ones, by ssh",
    container=None,
    port=None,
    restart="Never",
    # A Job recreates its Pod; the watcher replaces a plain Pod.
    restarts={"Launcher": "OnFailure"},
    keeps_finalizers=False,
    api_version=API_VERSION,
    annotations={_LAUNCHER: one_of("job", "pod"), SSH_PORT: ANY, **GATED},
    managers=("kubeflow.org/mpi-operator",),
    run_by=MPI_OPERATOR,
    gangs=gang.MPI_OPERATOR,
    volumes=("ssh-auth", hosts.CONFIG.volume),
)


def describe(spec: Spec) -> Described:
    launcher, worker = spec.part("Launcher"), spec.of("Worker")
    takes_part = bool(spec.fields.get("runLauncherAsWorker"))
    roles = (
        *([_worker(spec, worker, takes_part=takes_part)] if worker else []),
        _launcher(spec, launcher, takes_part=takes_part),
    )
    is_open_mpi = (spec.fields.get("mpiImplementation") or "OpenMPI") == "OpenMPI"
    line = "{name} slots={slots}" if is_open_mpi else "{name}:{slots}"
    slots = hosts.slots_per_worker(spec.fields)
    # The operator gives elastic Horovod no slots (reference 3.2), so horovodrun needs
    # --slots-per-host. If a command has it, the host list must not override it.
    program = launcher.template.main_container
    words = (*program.get("command", ()), *program.get("args", ()))
    stated = any("--slots-per-host" in word for word in words)
    host_lists = hosts.mpi_host_lists(
        line, f"{{host}}{model.DOMAIN}", launcher=takes_part, slots=slots > 0 and not stated
    )
    main = worker.template.main_container if worker else {}
    serves = not (main.get("command") or main.get("args"))
    template = worker.template if worker else None
    port, problems = ssh_port(spec.source, launcher.template, template, serves=serves)
    path = str(spec.fields.get("sshAuthMountPath") or _ROOT_SSH)
    if not re.fullmatch(MOUNTED_HOME, path, re.ASCII):
        place = spec.source.locate(("spec", "sshAuthMountPath"))
        facts = {"where": "spec.sshAuthMountPath", "found": path, "advice": ""}
        expected = "a plain absolute path that the job does not use itself"
        problems.append(diagnose(codes.MALFORMED, place, **facts, expected=expected))
    # Root's ssh requires this mode; another user can only read a key that everybody can read.
    mode = 0o600 if path == _ROOT_SSH else None
    credentials = kubeflow_ssh_keys(f"{spec.name}-ssh", path, port, "ssh-auth", mode=mode)
    return Described(
        roles=roles,
        success=model.Success(("launcher",)),
        changes={
            "labels": {"app": spec.name},
            "config_name": config_name(spec.name, of_operator=True),
            "files": (hosts.discovery(),),
            "host_lists": host_lists,
            "slots": slots,
            "credentials": credentials,
            "service": model.SharedService(spec.name),
            "names_namespace": "its host names contain it",
        },
        diagnostics=tuple(problems),
        # Workers only serve the launcher.
        each=("launcher",),
    )


def _role(
    spec: Spec,
    replica: Replica,
    labels: Mapping[str, Any],
    *,
    recovery: Mapping[str, Any],
    **changes: Any,
) -> model.Role:
    """Return a role without what only the Training Operator's kinds have."""
    template = replica.template
    if template.spec.get("hostNetwork"):
        # Otherwise the Service's names would not resolve (reference 3.4).
        host_spec = {**template.spec, "dnsPolicy": "ClusterFirstWithHostNet"}
        template = structs.replace(template, spec=host_spec)
    return framework.role(
        spec,
        replica,
        (),
        template=template,
        labels=model.RoleLabels(common={framework.ROLE_LABEL: replica.role}, **labels),
        recovery={"deadline": None, **recovery},
        **changes,
    )


def _worker(spec: Spec, replica: Replica, *, takes_part: bool) -> model.Role:
    main, slots = spec.part("Launcher").template.main_container, hosts.slots_per_worker(spec.fields)
    least = least_workers(main, replica.replicas, slots, others=int(takes_part))
    return _role(
        spec,
        replica,
        {"index": framework.INDEX_LABEL, "index_offset": int(takes_part)},
        additions={
            "env": (model.Env("K_MPI_JOB_ROLE", "worker"),),
            "resident": model.Resident(ssh=True, keeps_args=True),
            "run_once": False,
        },
        # The launcher's retry would find only the dead host (reference 7, D7).
        recovery={"serves": True, "comes_back": "always", "vital": False},
        bounds=model.Bounds(quorum=least),
    )


def _launcher(spec: Spec, replica: Replica, *, takes_part: bool) -> model.Role:
    policy = spec.fields.get("runPolicy", {})
    batch = model.BatchJob(policy.get("backoffLimit"), policy.get("activeDeadlineSeconds"))
    plain = spec.annotation(_LAUNCHER) == "pod"
    gate = None
    if spec.of("Worker"):
        gate = hosts.peer_gate("worker", gate_timeout(spec.source), ssh=True)
    files = ("hostfile", 0o444), (hosts.DISCOVERY, 0o555)
    return _role(
        spec,
        replica,
        {"pods": {framework.INDEX_LABEL: "0"} if takes_part else {}},
        members=(model.Member(),),
        additions={
            "env": tuple(_variables(spec, replica, takes_part=takes_part)),
            "volumes": (hosts.config_files(hosts.CONFIG.volume, *files),),
            "mounts": (hosts.CONFIG,),
            "reads_hosts": True,
            "scripts": (hosts.HOSTS,),
            "gate": gate,
        },
        recovery={"deadline": batch.deadline if plain else None},
        batch=None if plain else batch,
    )


def _variables(spec: Spec, launcher: Replica, *, takes_part: bool) -> Iterator[model.Env]:
    """Yield the launcher's variables (reference 3.5), for Open MPI 5 under its names too (D1)."""
    slots = str(hosts.slots_per_worker(spec.fields))
    implementation = spec.fields.get("mpiImplementation") or "OpenMPI"
    ssh = ssh_arguments(spec.source)
    yield model.Env("K_MPI_JOB_ROLE", "launcher")
    if implementation == "OpenMPI":
        yield model.Env("OMPI_MCA_orte_keep_fqdn_hostnames", "true")
        yield model.Env("OMPI_MCA_orte_default_hostfile", hosts.HOSTFILE)
        yield model.Env("OMPI_MCA_plm_rsh_args", ssh)
        yield model.Env("OMPI_MCA_orte_set_default_slots", slots)
    elif implementation == "Intel":
        yield model.Env("I_MPI_HYDRA_HOST_FILE", hosts.HOSTFILE)
        yield model.Env("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", ssh)
        yield model.Env("I_MPI_PERHOST", slots)
    else:
        yield model.Env("HYDRA_HOST_FILE", hosts.HOSTFILE)
        yield model.Env("HYDRA_LAUNCH_EXTRA_ARGS", ssh)
    if not takes_part:
        yield from hosts.NO_GPUS
    if implementation == "OpenMPI":
        yield from hosts.unless_set(
            launcher.template.main_container,
            # With true, a launcher in the hostfile treats its line as another host.
            model.Env("PRTE_MCA_prte_keep_fqdn_hostnames", "false"),
            model.Env("PRTE_MCA_prte_default_hostfile", hosts.HOSTFILE),
            model.Env("PRTE_MCA_plm_ssh_args", ssh),
            model.Env("PRTE_MCA_prte_set_default_slots", slots),
        )


KINDS = (framework.kind(FRAMEWORK, describe),)
