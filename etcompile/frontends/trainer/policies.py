"""What the policy of a runtime tells the nodes of a TrainJob: variables, ports, processes, slots.

reference/trainer-v2.md 5.1, 5.3, 5.4, 5.6. Apart from the merge, which knows where they go.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from etcompile.diagnostics import Diagnostic, Source
from etcompile.frontends.annotations import NNODES
from etcompile.frontends.hosts import CONFIG, DISCOVERY, HOSTFILE, HOSTS, config_files, discovery
from etcompile.frontends.rendezvous import node_range
from etcompile.frontends.ssh_access import kubeflow_ssh_keys, ssh_port
from etcompile.k8s.quantity import number
from etcompile.k8s.requests import gpus
from etcompile.model import HostList, Mount, Role

MAIN = "node"
"""The container that trains."""
NODE = "node"
LAUNCHER = "launcher"
"""The replicatedJobs that the policy mpi knows by their names."""
INDEX = "batch.kubernetes.io/job-completion-index"
PORT = 29500
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
"""Variables that a policy sets and a TrainJob must not (reference 5.1, 5.4, 5.6)."""

RENDEZVOUS = ("PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT")
"""Variables that tell torchrun where nodes meet that come and go."""

_RESTARTS = "PET_MAX_RESTARTS"
_BACKOFF_LIMIT = 6
"""That of a Job without one."""

_RANK = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}


class NodeFacts(Struct, frozen=True):
    """What the variables of the nodes of a job depend on.

    Args:
        container: The container that trains, with all its resources, JSON.
        leader: The bare host name of the first.
        elastic: The fewest and the most nodes there may be; None if their number stays.
        failures: How many failures of its Pods their Job survives.
    """

    job: Mapping[str, Any]
    spec: Mapping[str, Any]
    container: Mapping[str, Any]
    nodes: int
    leader: str
    elastic: tuple[int, int] | None = None
    failures: int = 0

    @property
    def address(self) -> str:
        """The host name of the first node."""
        return f"{self.leader}.{subdomain(self.job, self.spec)}"

    @property
    def processes(self) -> str:
        """Processes per node: of all resources that it has, not only of the job's own (T5).

        Trainer 2.0 and 2.1 take it from the runtime, too, and not only a number.
        """
        stated = self.job["spec"].get("trainer", {}).get("numProcPerNode")
        if stated is None:
            stated = (self.spec.get("mlPolicy", {}).get("torch") or {}).get("numProcPerNode")
        if stated not in (None, "auto", "cpu"):
            return str(stated)
        if stated != "cpu" and gpus(self.container):
            return "auto"
        for field in ("requests", "limits"):
            amount = self.container.get("resources", {}).get(field, {}).get("cpu")
            # A request of 0 is as good as none.
            if amount is not None and (processors := number(amount)):
                return str(max(math.ceil(processors), 1))
        return "1"


def subdomain(job: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    """The headless Service that host names end with (defect T11)."""
    network = spec["template"]["spec"].get("network", {})
    return str(network.get("subdomain") or job["metadata"]["name"])


def coordinator(job: Mapping[str, Any], spec: Mapping[str, Any]) -> str | None:
    """The host name of the Pod that all others are told of, if there is one (reference 7.4)."""
    if not (named := spec["template"]["spec"].get("coordinator")):
        return None
    pod = (named["replicatedJob"], named.get("jobIndex") or 0, named.get("podIndex") or 0)
    return f"{job['metadata']['name']}-{'-'.join(map(str, pod))}.{subdomain(job, spec)}"


def policy(spec: Mapping[str, Any]) -> str | None:
    """The framework that a runtime tells its nodes of each other for, if it does."""
    ml_policy = spec.get("mlPolicy", {})
    return next((name for name in ("torch", "jax", "xgboost", "mpi") if name in ml_policy), None)


def elastic(job: Mapping[str, Any]) -> tuple[int, int] | None:
    """The fewest and the most nodes that a job asks for, where their number may change.

    Returns:
        The two; None if it asks for nothing that can be read.
    """
    stated = (job["metadata"].get("annotations") or {}).get(NNODES)
    return node_range(stated) if isinstance(stated, str) else None


def backoff_limit(spec: Mapping[str, Any]) -> int:
    """How many failures of its Pods a Job survives."""
    stated = spec.get("backoffLimit")
    return _BACKOFF_LIMIT if stated is None else int(stated)


def replicated_job(spec: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The replicatedJob of this name, JSON, if a runtime has it."""
    jobs: Sequence[Mapping[str, Any]] = spec["template"]["spec"]["replicatedJobs"]
    return next((replicated for replicated in jobs if replicated["name"] == name), None)


def main_of(replicated: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The container of a replicatedJob that trains, JSON; empty if it has none."""
    if replicated is None:
        return {}
    containers = replicated["template"]["spec"]["template"]["spec"]["containers"]
    return next((container for container in containers if container["name"] == MAIN), {})


def injections(spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The targets of `envInjection`: containers that are told of the nodes, too."""
    torch = spec.get("mlPolicy", {}).get("torch") or {}
    targets: Sequence[Mapping[str, Any]] = torch.get("envInjection", {}).get("targets") or ()
    return targets


def ready_port(pod: Mapping[str, Any]) -> int | None:
    """The port by which a Pod is known to be ready: the one that a readiness probe tries."""
    for container in pod["containers"]:
        named = {port.get("name"): port["containerPort"] for port in container.get("ports", ())}
        for kind in ("tcpSocket", "httpGet", "grpc"):
            port = container.get("readinessProbe", {}).get(kind, {}).get("port")
            port = named.get(port, port)
            if isinstance(port, int):
                return port
    return None


def mpi(spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The policy of MPI, if the runtime has it."""
    policy: Mapping[str, Any] | None = spec.get("mlPolicy", {}).get("mpi")
    return policy


def launcher_is_node(spec: Mapping[str, Any]) -> bool:
    """Whether the launcher of a runtime of MPI is one of the nodes."""
    takes_part = bool((mpi(spec) or {}).get("runLauncherAsNode"))
    return takes_part and replicated_job(spec, LAUNCHER) is not None


def slots(job: Mapping[str, Any], spec: Mapping[str, Any], container: Mapping[str, Any]) -> int:
    """Processes that MPI starts on a host (reference 5.6)."""
    if (stated := job["spec"].get("trainer", {}).get("numProcPerNode")) is not None:
        return int(stated)
    own = (mpi(spec) or {}).get("numProcPerNode") or 1
    return max(gpus(container), 1) if own == 1 else int(own)


def node_variables(facts: NodeFacts) -> Iterator[dict[str, Any]]:
    """The variables by which nodes find each other (reference 5.1, 5.3, 5.4).

    Nodes that come and go meet at the first one, unless the runtime or the job names another
    place; torchrun does not read the address of a master then. It starts the processes of a node
    that has lost another one again as often as their Job survives failures, instead of never.
    """
    values: dict[str, Any]
    nodes, first = facts.nodes, facts.address
    match policy(facts.spec):
        case "torch":
            count = ":".join(map(str, facts.elastic or (nodes,)))
            addresses = (count, facts.processes, _RANK, first, str(PORT))
            values = dict(zip(RESERVED["torch"], addresses, strict=True))
            if facts.elastic:
                own = (facts.container, facts.job["spec"].get("trainer", {}))
                stated = {entry["name"] for owner in own for entry in owner.get("env", ())}
                meets = ("c10d", f"{first}:{PORT}", str(facts.failures))
                ours = zip((*RENDEZVOUS, _RESTARTS), meets, strict=True)
                values |= {name: value for name, value in ours if name not in stated}
        case "jax":
            values = {
                "JAX_NUM_PROCESSES": str(nodes),
                "JAX_PROCESS_ID": _RANK,
                "JAX_COORDINATOR_ADDRESS": f"{first}:{PORT}",
            }
        case "xgboost":
            workers = str(nodes * max(gpus(facts.container), 1))
            values = dict(zip(RESERVED["xgboost"], (first, str(PORT), _RANK, workers), strict=True))
        case _:
            values = {}
    for variable, value in values.items():
        yield {"name": variable, "value" if isinstance(value, str) else "valueFrom": value}


def launcher_variables(slots: int, ssh: str, stated: Collection[str]) -> Iterator[dict[str, Any]]:
    """What Open MPI is told on the launcher, version 5 under the names that it reads (T2)."""
    values = (HOSTFILE, "true", str(slots), ssh)
    for name, value in zip(_OPEN_MPI, values, strict=True):
        yield {"name": name, "value": value}
    # With true, PRRTE takes the launcher's own line of the hostfile for another host.
    values = (HOSTFILE, "false", str(slots), ssh)
    for name, value in zip(_OPEN_MPI_5, values, strict=True):
        if name not in stated:
            yield {"name": name, "value": value}


# The policy mpi: keys, hostfile, and who is reached by ssh (reference 5.6) ------------------------

MPI_KEYS = "mpi-ssh-auth"
"""The volume of the keys."""
MPI_HOSTS = Mount("mpi-hostfile", CONFIG.path)
_HOSTFILE = "hostfile"
_SSH_HOME = "/root/.ssh"


def with_mpi(
    source: Source, runtime: Mapping[str, Any], roles: Sequence[Role]
) -> tuple[tuple[Role, ...], dict[str, Any], list[Diagnostic]]:
    """The policy's part of a job.

    Returns:
        All roles, the launcher with what the policy adds to it; fields of the job; and what is to
        be said about the port of ssh.
    """
    if (policy := mpi(runtime)) is None:
        return tuple(roles), {}, []
    reached = {role.name: role for role in roles if role.name in (NODE, LAUNCHER)}
    launcher, node = reached.get(LAUNCHER), reached.get(NODE)
    is_host = {NODE, LAUNCHER} if launcher_is_node(runtime) else {NODE}
    names = tuple(name for name in reached if name in is_host)
    changes = elastic(source.data) is not None
    lists = [HostList(_HOSTFILE, names, "{host} slots={slots}", live=changes)]
    fields: dict[str, Any] = {"host_lists": lists, "slots": slots_of(source.data, runtime)}
    if changes:  # by a script elastic Horovod finds hosts
        lists.append(HostList(HOSTS, names, "{host}:{slots}"))
        fields["files"] = (discovery(),)
    holders = tuple(name for name, role in reached.items() if role.template.main == MAIN)
    if not holders:
        return tuple(roles), fields, []
    port: int | None = None
    problems: list[Diagnostic] = []
    if launcher is not None:
        template = node.template if node is not None else None
        port, problems = ssh_port(source, launcher.template, template, serves=False)
    path = str(policy.get("sshAuthMountPath") or _SSH_HOME)
    # Root's ssh refuses a private key that its group may read.
    private = 0o600 if path.rstrip("/") == _SSH_HOME else 0o640
    fields["credentials"] = kubeflow_ssh_keys(
        f"{source.data['metadata']['name']}-mpi-ssh-auth",
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
        own = structs.replace(launcher, additions=additions)
        roles = [own if role is launcher else role for role in roles]
    return tuple(roles), fields, problems


def slots_of(job: Mapping[str, Any], runtime: Mapping[str, Any]) -> int:
    """Processes that the launcher starts on each host."""
    main = main_of(replicated_job(runtime, LAUNCHER))
    return slots(job, runtime, main)
