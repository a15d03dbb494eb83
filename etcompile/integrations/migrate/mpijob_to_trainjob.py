"""An MPIJob of `kubeflow.org/v2beta1` to a TrainJob and its TrainingRuntime.

Both operators start ranks by ssh with Open MPI and a hostfile (reference/mpi-operator-v2.md 3,
reference/trainer-v2.md 5.6). Trainer finds its replicatedJobs by name: workers become `node`, and
a TrainJob's own fields are for the launcher.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, ValuePath, codes, diagnose
from etcompile.frontends import mpijob_v2, trainer_policies
from etcompile.frontends.sshports import RETRIES
from etcompile.frontends.trainer_policies import LAUNCHER, NODE, RESERVED, SSH_HOME
from etcompile.integrations.migrate import carried
from etcompile.load import Document

API_VERSION, KIND = mpijob_v2.API_VERSION, mpijob_v2.FRAMEWORK.kind
_TYPES = mpijob_v2.FRAMEWORK.types
_SSHD = ["/usr/sbin/sshd", "-De"]
_HIDDEN = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")
"""Variables by which a launcher beside workers on the same node takes none of their GPUs."""
_DISCOVERY = "discover_hosts.sh"
_GROUP = 1000
"""The fsGroup of Trainer's own runtimes: any will do, if the user of the containers is not root."""


def refused(document: Document) -> Iterator[Diagnostic]:
    """Why a job is not made into a TrainJob; nothing if it is.

    Args:
        document: An MPIJob that compiles.
    """
    implementation = document.data["spec"].get("mpiImplementation") or "OpenMPI"
    where: ValuePath
    if implementation != "OpenMPI":
        where, reason = ("spec", "mpiImplementation"), "Trainer runs Open MPI only"
    elif _workers(document) == 0:
        where, reason = ("spec", _TYPES), "Trainer has at least one node beside the launcher"
    else:
        for name in ("Launcher", "Worker"):
            main = _replica(document, name)["template"]["spec"]["containers"][0]["name"]
            path = ("spec", _TYPES, _written(document, name), "template")
            yield from carried.name_taken(document, path, main)
        return
    yield diagnose(codes.NO_TRAINJOB, document.locate(where), kind=KIND, reason=reason)


def converted(document: Document) -> tuple[dict[str, Any], dict[str, Any]]:
    """The TrainJob and its TrainingRuntime, JSON.

    Args:
        document: An MPIJob that is not refused.
    """
    spec = document.data["spec"]
    takes_part = bool(spec.get("runLauncherAsWorker"))
    policy: dict[str, Any] = {"mpiImplementation": "OpenMPI"}
    if path := spec.get("sshAuthMountPath"):
        policy["sshAuthMountPath"] = path
    if takes_part:
        policy["runLauncherAsNode"] = True
    keys = _keys(document)
    slots = 1 if spec.get("slotsPerWorker") is None else int(spec["slotsPerWorker"])
    launcher = _launcher(_replica(document, "Launcher"), keys, slots, hides=not takes_part)
    worker = _worker(_replica(document, "Worker"), keys)
    given = (spec.get("runPolicy") or {}).get("backoffLimit")
    limit = {} if given is None else {"backoffLimit": given}
    parts: list[dict[str, Any]] = [
        # An MPIJob does not end when a worker does.
        {
            "name": NODE,
            "template": {"spec": {"backoffLimit": carried.FOR_EVER, "template": worker}},
        },
        {
            "name": LAUNCHER,
            "dependsOn": [{"name": NODE, "status": "Ready"}],
            "template": {
                "metadata": carried.TRAINER,
                "spec": {**limit, "template": launcher},
            },
        },
    ]
    trainer = {
        "numNodes": _workers(document) + int(takes_part),
        # Always: Trainer takes a runtime's 1 for the number of GPUs.
        "numProcPerNode": slots,
    }
    ends = {"operator": "All", "targetReplicatedJobs": [LAUNCHER]}
    runtime = carried.runtime(
        document,
        {"mpi": policy},
        parts,
        network={"publishNotReadyAddresses": True},
        successPolicy=ends,
    )
    return carried.job(document, trainer), runtime


def not_carried(document: Document) -> Iterator[Diagnostic]:
    """What does not carry over, each field with its place.

    Args:
        document: An MPIJob that is not refused.
    """
    spec = document.data["spec"]
    yield from carried.not_of_the_job(document)
    if spec.get("runLauncherAsWorker"):
        yield carried.lost(
            document,
            ("spec", "runLauncherAsWorker"),
            "the launcher is the last of the hostfile, so that rank 0 is on the first node",
            "read what rank 0 writes on NAME-node-0-0",
        )
    if _keys(document) == SSH_HOME:
        yield carried.lost(
            document,
            ("spec", "sshAuthMountPath") if "sshAuthMountPath" in spec else ("spec",),
            "Trainer's private key may be read by its group, which ssh refuses as root",
            "use an image whose user is not root, its sshAuthMountPath, and fsGroup",
            name="spec.sshAuthMountPath",
        )
    for name in ("Launcher", "Worker"):
        at: ValuePath = ("spec", _TYPES, _written(document, name))
        replica = _replica(document, name)
        yield from carried.restart(document, at, replica.get("restartPolicy"))
        path = (*at, "template", "spec", "containers", 0)
        main = replica["template"]["spec"]["containers"][0]
        taken = RESERVED["mpi"] if name == "Launcher" else ()
        yield from carried.reserved(document, path, main, taken)
        for field in ("command", "args"):
            for index, word in enumerate(main.get(field) or ()):
                if _DISCOVERY in word:
                    yield carried.lost(
                        document,
                        (*path, field, index),
                        "Trainer writes no script that tells the hosts of now",
                        f"start a number of ranks that stays, without {_DISCOVERY}",
                        name=_DISCOVERY,
                    )


def _keys(document: Document) -> str:
    """Where the keys are mounted."""
    return str(document.data["spec"].get("sshAuthMountPath") or SSH_HOME).rstrip("/")


def _written(document: Document, name: str) -> str:
    """A replica type as the job writes it."""
    return next(str(each) for each in document.data["spec"][_TYPES] if each.capitalize() == name)


def _replica(document: Document, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = document.data["spec"][_TYPES][_written(document, name)]
    return found


def _workers(document: Document) -> int:
    types = document.data["spec"][_TYPES]
    if not any(name.capitalize() == "Worker" for name in types):
        return 0
    number = _replica(document, "Worker").get("replicas")
    return 1 if number is None else int(number)


def _worker(replica: Mapping[str, Any], keys: str) -> dict[str, Any]:
    main = replica["template"]["spec"]["containers"][0]
    serves = {} if main.get("command") or main.get("args") else {"command": _SSHD}
    env = carried.variables(main, [_role("worker")], ())
    return _template(replica, "Never", {**main, **serves, "env": env}, keys)


def _launcher(replica: Mapping[str, Any], keys: str, slots: int, *, hides: bool) -> dict[str, Any]:
    main = replica["template"]["spec"]["containers"][0]
    told = [_role("launcher")]
    if hides:
        told += ({"name": name, "value": ""} for name in _HIDDEN)
    # Trainer writes the names of Open MPI 4 only, so that 5 would start all ranks here (T2).
    given = {entry["name"] for entry in main.get("env") or ()}
    told += (
        entry
        for entry in trainer_policies.launcher_variables(slots, RETRIES, given)
        if entry["name"] not in RESERVED["mpi"]
    )
    env = carried.variables(main, told, RESERVED["mpi"])
    return _template(replica, "OnFailure", {**main, "env": env}, keys)


def _role(name: str) -> dict[str, Any]:
    return {"name": "K_MPI_JOB_ROLE", "value": name}


def _template(
    replica: Mapping[str, Any], restart: str, main: Mapping[str, Any], keys: str
) -> dict[str, Any]:
    """The Pod template of a replica type.

    Args:
        replica: The replica type, JSON.
        restart: Its restartPolicy, if it says none.
        main: Its first container as it is now, JSON.
        keys: Where the keys are mounted.
    """
    given, spec = replica["template"], dict(replica["template"]["spec"])
    if spec.get("hostNetwork"):
        # Else host names would not resolve (reference/mpi-operator-v2.md 3.4).
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    if keys != SSH_HOME:
        # Only root and the group may read Trainer's key (reference/trainer-v2.md 5.6).
        spec["securityContext"] = {"fsGroup": _GROUP, **(spec.get("securityContext") or {})}
    restart = replica.get("restartPolicy") or restart
    return carried.template({**given, "spec": spec}, main["name"], restart, main)
