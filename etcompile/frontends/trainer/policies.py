"""Apply the policy of a runtime to a TrainJob: variables, processes, keys and hosts.

See reference/trainer-v2.md 5.1, 5.3, 5.4, 5.6. `merge` decides which containers get the variables.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from etcompile.diagnostics import Diagnostic
from etcompile.frontends.hosts import CONFIG, DISCOVERY, HOSTFILE, HOSTS, config_files, discovery
from etcompile.frontends.ssh_access import kubeflow_ssh_keys, ssh_port
from etcompile.frontends.trainer.training_run import (
    INDEX,
    LAUNCHER,
    MAIN,
    NODE,
    PORT,
    Training,
    backoff_limit,
    main_of,
)
from etcompile.k8s.quantity import number
from etcompile.k8s.requests import gpus
from etcompile.model import HostList, Mount, Role

_OPEN_MPI = (
    "OMPI_MCA_orte_default_hostfile",
    "OMPI_MCA_orte_keep_fqdn_hostnames",
    "OMPI_MCA_orte_set_default_slots",
    "OMPI_MCA_plm_rsh_args",
)
_OPEN_MPI_5 = (
    "PRTE_MCA_prte_default_hostfile",
    "PRTE_MCA_prte_keep_fqdn_hostnames",
    "PRTE_MCA_prte_set_default_slots",
    "PRTE_MCA_plm_ssh_args",
)
RESERVED: Mapping[str, tuple[str, ...]] = {
    "torch": (
        "PET_NNODES",
        "PET_NPROC_PER_NODE",
        "PET_NODE_RANK",
        "PET_MASTER_ADDR",
        "PET_MASTER_PORT",
    ),
    "xgboost": ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"),
    "mpi": _OPEN_MPI,
}
"""Variables that only a policy sets (reference 5.1, 5.4, 5.6)."""
RENDEZVOUS = ("PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT")
"""Variables of torchrun for the place where elastic nodes meet."""

_RANK = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}


def processes(training: Training, container: Mapping[str, Any]) -> str:
    """Return the processes per node, from all of its resources, not only the job's (T5).

    Trainer 2.0 and 2.1 also read it from the runtime, and not only as a number.
    """
    stated = training.stated.get("numProcPerNode")
    if stated is None:
        stated = (training.ml_policy.get("torch") or {}).get("numProcPerNode")
    if stated not in (None, "auto", "cpu"):
        return str(stated)
    if stated != "cpu" and gpus(container):
        return "auto"
    for field in ("requests", "limits"):
        amount = container.get("resources", {}).get(field, {}).get("cpu")
        # A request of 0 is none.
        if amount is not None and (processors := number(amount)):
            return str(max(math.ceil(processors), 1))
    return "1"


def node_variables(training: Training, container: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the variables with which nodes find each other (reference 5.1, 5.3, 5.4).

    Elastic nodes meet at the first one, unless the runtime or the job names another place; torchrun
    does not read a master's address then. It restarts the processes of a node whose peer is lost as
    often as their Job survives failures, instead of never.
    """
    leader, first = training.trainers[0], training.first_host
    nodes = training.nodes
    values: dict[str, Any] = {}
    match training.policy:
        case "torch":
            count = ":".join(map(str, training.limits or (nodes,)))
            addresses = (count, processes(training, container), _RANK, first, str(PORT))
            values = dict(zip(RESERVED["torch"], addresses, strict=True))
            if training.limits:
                owners = (container, training.stated)
                stated = {entry["name"] for owner in owners for entry in owner.get("env", ())}
                failures = str(backoff_limit(training.jobs[leader]))
                names, meets = (
                    (*RENDEZVOUS, "PET_MAX_RESTARTS"),
                    ("c10d", f"{first}:{PORT}", failures),
                )
                ours = zip(names, meets, strict=True)
                values |= {name: value for name, value in ours if name not in stated}
        case "jax":
            values = {
                "JAX_NUM_PROCESSES": str(nodes),
                "JAX_PROCESS_ID": _RANK,
                "JAX_COORDINATOR_ADDRESS": f"{first}:{PORT}",
            }
        case "xgboost":
            workers = str(nodes * max(gpus(container), 1))
            values = dict(zip(RESERVED["xgboost"], (first, str(PORT), _RANK, workers), strict=True))
    for variable, value in values.items():
        yield {"name": variable, "value" if isinstance(value, str) else "valueFrom": value}


def launcher_variables(slots: int, ssh: str, stated: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield the variables of Open MPI for the launcher, for version 5 under its names (T2)."""
    for name, value in zip(_OPEN_MPI, (HOSTFILE, "true", str(slots), ssh), strict=True):
        yield {"name": name, "value": value}
    # With true, PRRTE treats the launcher's line of the hostfile as another host.
    for name, value in zip(_OPEN_MPI_5, (HOSTFILE, "false", str(slots), ssh), strict=True):
        if name not in stated:
            yield {"name": name, "value": value}


MPI_KEYS = "mpi-ssh-auth"
"""The volume of the keys."""
MPI_HOSTS = Mount("mpi-hostfile", CONFIG.path)
_HOSTFILE = "hostfile"
_SSH_HOME = "/root/.ssh"


def with_mpi(
    training: Training, roles: Sequence[Role]
) -> tuple[tuple[Role, ...], dict[str, Any], list[Diagnostic]]:
    if (policy := training.mpi) is None:
        return tuple(roles), {}, []
    reached = {role.name: role for role in roles if role.name in (NODE, LAUNCHER)}
    launcher, node = reached.get(LAUNCHER), reached.get(NODE)
    names = tuple(name for name in reached if name == NODE or training.launcher_is_node)
    changes = training.limits is not None
    lists = [HostList(_HOSTFILE, names, "{host} slots={slots}", live=changes)]
    slots = training.slots(main_of(training.replicated_job(LAUNCHER)))
    fields: dict[str, Any] = {"host_lists": lists, "slots": slots}
    if changes:  # elastic Horovod finds hosts by a script
        lists.append(HostList(HOSTS, names, "{host}:{slots}"))
        fields["files"] = (discovery(),)
    holders = tuple(name for name, role in reached.items() if role.template.main == MAIN)
    if not holders:
        return tuple(roles), fields, []
    port: int | None = None
    problems: list[Diagnostic] = []
    if launcher is not None:
        template = node.template if node is not None else None
        port, problems = ssh_port(training.source, launcher.template, template, serves=False)
    path = str(policy.get("sshAuthMountPath") or _SSH_HOME)
    # Root's ssh refuses a private key that its group may read.
    private = 0o600 if path.rstrip("/") == _SSH_HOME else 0o640
    fields["credentials"] = kubeflow_ssh_keys(
        f"{training.name}-mpi-ssh-auth",
        path,
        port,
        MPI_KEYS,
        mode=0o400,
        modes={"id_rsa": private, "id_rsa.pub": 0o644, "authorized_keys": 0o644},
        roles=holders,
    )
    if launcher is not None and LAUNCHER in holders:
        script = ((DISCOVERY, 0o555),) if changes else ()
        additions = structs.replace(
            launcher.additions,
            volumes=(config_files(MPI_HOSTS.volume, (_HOSTFILE, 0o444), *script),),
            mounts=(MPI_HOSTS,),
            reads_hosts=changes,
            scripts=(HOSTS,) if changes else (),
        )
        changed = structs.replace(launcher, additions=additions)
        roles = [changed if role is launcher else role for role in roles]
    return tuple(roles), fields, problems
