"""What the two operators create for an MPIJob: a model of their references.

reference/training-operator-mpijob.md 1 to 4 and reference/mpi-operator-v2.md 3. Like
`upstream`, it is written from these alone, shares no code with etcompile, and must reproduce
the recordings exactly. No PodGroups: without a flag the operators make none.
"""

import copy
from collections.abc import Mapping
from typing import Any

from defaults import defaulted

PREFIX = "training.kubeflow.org"
KUBEXEC = "/etc/mpi/kubexec.sh"
HOSTFILE = "/etc/mpi/hostfile"
RETRIES = "-o ConnectionAttempts=10"
NO_GPUS = {"NVIDIA_VISIBLE_DEVICES": None, "NVIDIA_DRIVER_CAPABILITIES": None}
CONFIG = {"name": "mpi-job-config", "mountPath": "/etc/mpi"}
MODES = {"kubexec.sh": 0o555, "hostfile": 0o444, "discover_hosts.sh": 0o555}


def children(job: Mapping[str, Any], namespace: str) -> list[dict[str, Any]]:
    """The objects of a job as the API server stores them first, owner references aside."""
    job = _without_nulls(dict(job))
    for replica in job["spec"]["mpiReplicaSpecs"].values():
        replica.get("template", {}).setdefault("metadata", {})
    objects = _v2(job, namespace) if job["apiVersion"].endswith("v2beta1") else _v1(job, namespace)
    for value in objects:
        value["metadata"]["namespace"] = namespace
    return [defaulted(value) for value in objects]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


# The Training Operator ---------------------------------------------------------------------------


def _v1(job: dict[str, Any], namespace: str) -> list[dict[str, Any]]:
    name, spec = job["metadata"]["name"], job["spec"]
    launcher, worker = _roles(spec)
    hosts = [f"{name}-worker-{index}" for index in range((worker or {}).get("replicas") or 0)]
    account = launcher["template"]["spec"].get("serviceAccountName") or f"{name}-launcher"
    limits = (c.get("resources", {}).get("limits", {}) for c in _containers(launcher))
    gpus = any("gpu" in limit for one in limits for limit in one)
    slots = spec.get("slotsPerWorker", 1)
    listed = [f"{name}-launcher", *hosts] if gpus else hosts
    container = f" --container {spec['mainContainer']}" if spec.get("mainContainer") else ""
    data = {
        "kubexec.sh": "#!/bin/sh\nset -x\nPOD_NAME=$1\nshift\n"
        f'/opt/kube/kubectl exec ${{POD_NAME}}{container} -- /bin/sh -c "$*"',
        "hostfile": "".join(f"{host} slots={slots}\n" for host in listed),
        "discover_hosts.sh": "#!/bin/sh" + (f"\necho {name}-launcher:{slots}" if gpus else ""),
    }
    group = "rbac.authorization.k8s.io"
    may_exec = {"verbs": ["create"], "apiGroups": [""], "resources": ["pods/exec"]}
    rules = [
        {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods"]},
        {**may_exec, "resourceNames": hosts} if hosts else may_exec,
    ]
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    ref = {"apiGroup": group, "kind": "Role", "name": f"{name}-launcher"}
    role, binding = f"{name}-launcher", {"subjects": [subject], "roleRef": ref}
    return [
        _shared("ServiceAccount", name, account),
        _shared("ConfigMap", name, f"{name}-config", data=data),
        _shared("Role", name, role, f"{group}/v1", rules=rules),
        _shared("RoleBinding", name, role, f"{group}/v1", **binding),
        *(_v1_worker(name, worker or {}, index) for index in range(len(hosts))),
        _v1_launcher(name, launcher, account, namespace, gpus=gpus),
    ]


def _v1_labels(name: str, role: str) -> dict[str, str]:
    labels = {"operator-name": "mpijob-controller", "job-name": name, "replica-type": role}
    return {f"{PREFIX}/{label}": value for label, value in labels.items()}


def _v1_worker(name: str, worker: dict[str, Any], index: int) -> dict[str, Any]:
    template = copy.deepcopy(worker["template"])
    main = template["spec"]["containers"][0]
    if not main.get("command"):
        main.update(command=["sleep"], args=["365d"])
    main.setdefault("volumeMounts", []).append(dict(CONFIG))
    _add_config(template["spec"], name, ["kubexec.sh"])
    template["spec"]["restartPolicy"] = _pod_restart(worker, "Never")
    labels = {**_v1_labels(name, "worker"), f"{PREFIX}/replica-index": str(index)}
    return _pod(f"{name}-worker-{index}", template, labels)


def _v1_launcher(
    name: str, launcher: dict[str, Any], account: str, namespace: str, *, gpus: bool
) -> dict[str, Any]:
    template = copy.deepcopy(launcher["template"])
    spec = template["spec"]
    main = spec["containers"][0]
    declared = {env["name"] for env in main.get("env", ())}
    intel = {"I_MPI_HYDRA_BOOTSTRAP": "rsh", "I_MPI_HYDRA_BOOTSTRAP_EXEC": KUBEXEC}
    _add_env(
        main,
        {
            "OMPI_MCA_plm_rsh_agent": KUBEXEC,
            "OMPI_MCA_orte_default_hostfile": HOSTFILE,
            **({} if gpus else NO_GPUS),
            **{variable: value for variable, value in intel.items() if variable not in declared},
        },
    )
    kubectl = {"name": "mpi-job-kubectl", "mountPath": "/opt/kube"}
    main.setdefault("volumeMounts", []).extend([kubectl, dict(CONFIG)])
    resources = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}
    delivery = {
        "name": "kubectl-delivery",
        "image": "ghcr.io/kubeflow/training-v1/kubectl-delivery:latest",
        "imagePullPolicy": "IfNotPresent",
        "resources": {"limits": resources, "requests": dict(resources)},
        "volumeMounts": [kubectl, dict(CONFIG)],
    }
    _add_env(delivery, {"TARGET_DIR": "/opt/kube", "NAMESPACE": namespace})
    spec.setdefault("initContainers", []).append(delivery)
    spec.setdefault("volumes", []).append({"name": kubectl["name"], "emptyDir": {}})
    _add_config(spec, name, list(MODES))
    spec["serviceAccountName"] = account
    spec["restartPolicy"] = _pod_restart(launcher, "Never")
    labels = {**_v1_labels(name, "launcher"), f"{PREFIX}/job-role": "master"}
    return _pod(f"{name}-launcher", template, labels)


# The MPI Operator --------------------------------------------------------------------------------


def _v2(job: dict[str, Any], namespace: str) -> list[dict[str, Any]]:
    name, spec = job["metadata"]["name"], job["spec"]
    _, worker = _roles(spec)
    suspended = spec.get("runPolicy", {}).get("suspend", False)
    host_too = spec.get("runLauncherAsWorker", False)
    workers = [f"{name}-worker-{index}" for index in range((worker or {}).get("replicas") or 0)]
    hosts = [f"{host}.{name}.{namespace}.svc" for host in workers]
    launcher_host = f"{name}-launcher.{name}.{namespace}.svc"
    slots = spec.get("slotsPerWorker", 1)
    line = "{} slots={}\n" if _implementation(spec) == "OpenMPI" else "{}:{}\n"
    listed = [launcher_host, *hosts] if host_too else hosts
    data = {
        "hostfile": "".join(line.format(host, slots) for host in listed),
        "discover_hosts.sh": "#!/bin/sh\n" + (f"echo {launcher_host}\n" if host_too else ""),
    }
    service = {
        "clusterIP": "None",
        "selector": _v2_labels(name),
        **({"publishNotReadyAddresses": True} if host_too else {}),
    }
    keys = {"ssh-privatekey": "<488 characters>", "ssh-publickey": "<340 characters>"}
    pods = () if suspended else range(len(workers))
    return [
        _shared("Service", name, name, spec=service),
        _shared("ConfigMap", name, f"{name}-config", data=data),
        _shared("Secret", name, f"{name}-ssh", data=keys, type="kubernetes.io/ssh-auth"),
        *(_v2_worker(name, spec, namespace, index) for index in pods),
        _v2_launcher(name, spec, suspended=suspended),
    ]


def _v2_labels(name: str, **more: str) -> dict[str, str]:
    labels = {"operator-name": "mpi-operator", "job-name": name, **more}
    return {f"{PREFIX}/{label}": value for label, value in labels.items()}


def _v2_worker(name: str, spec: dict[str, Any], namespace: str, index: int) -> dict[str, Any]:
    worker = spec["mpiReplicaSpecs"]["Worker"]
    template = copy.deepcopy(worker["template"])
    pod = template["spec"]
    main = pod["containers"][0]
    if not main.get("command") and not main.get("args"):
        main["command"] = ["/usr/sbin/sshd", "-De"]
    _add_env(main, {"K_MPI_JOB_ROLE": "worker"})
    _reachable(pod, name, f"{name}-worker-{index}")
    searches = pod.setdefault("dnsConfig", {}).setdefault("searches", [])
    searches.append(f"{name}.{namespace}.svc.cluster.local")
    _add_keys(pod, spec, name)
    pod["restartPolicy"] = _pod_restart(worker, "Never")
    number = index + 1 if spec.get("runLauncherAsWorker") else index
    labels = _v2_labels(name, **{"job-role": "worker", "replica-index": str(number)})
    return _pod(f"{name}-worker-{index}", template, labels)


def _v2_launcher(name: str, spec: dict[str, Any], *, suspended: bool) -> dict[str, Any]:
    launcher = spec["mpiReplicaSpecs"]["Launcher"]
    template = copy.deepcopy(launcher["template"])
    pod = template["spec"]
    main, slots = pod["containers"][0], str(spec.get("slotsPerWorker", 1))
    host_too = spec.get("runLauncherAsWorker", False)
    variables = {
        "OpenMPI": {
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_orte_default_hostfile": HOSTFILE,
            "OMPI_MCA_plm_rsh_args": RETRIES,
            "OMPI_MCA_orte_set_default_slots": slots,
        },
        "Intel": {
            "I_MPI_HYDRA_HOST_FILE": HOSTFILE,
            "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": RETRIES,
            "I_MPI_PERHOST": slots,
        },
        "MPICH": {"HYDRA_HOST_FILE": HOSTFILE, "HYDRA_LAUNCH_EXTRA_ARGS": RETRIES},
    }[_implementation(spec)]
    _add_env(main, {"K_MPI_JOB_ROLE": "launcher", **variables, **({} if host_too else NO_GPUS)})
    _reachable(pod, name, f"{name}-launcher")
    _add_keys(pod, spec, name)
    main["volumeMounts"].append(dict(CONFIG))
    _add_config(pod, name, ["hostfile", "discover_hosts.sh"])
    pod["restartPolicy"] = _pod_restart(launcher, "OnFailure")
    labels = {"job-role": "launcher", **({"replica-index": "0"} if host_too else {})}
    metadata = template["metadata"]
    meta = {"labels": {**metadata.get("labels", {}), **_v2_labels(name, **labels)}}
    if metadata.get("annotations"):
        meta["annotations"] = metadata["annotations"]
    limits = ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
    policy = {k: v for k, v in spec.get("runPolicy", {}).items() if k in limits}
    if suspended:
        policy["suspend"] = True
    body = {**policy, "template": {"metadata": meta, "spec": pod}}
    return _shared("Job", name, f"{name}-launcher", "batch/v1", spec=body)


def _implementation(spec: dict[str, Any]) -> str:
    return str(spec.get("mpiImplementation", "OpenMPI"))


def _reachable(pod: dict[str, Any], service: str, host: str) -> None:
    pod.update(hostname=host, subdomain=service)
    if pod.get("hostNetwork"):
        pod["dnsPolicy"] = "ClusterFirstWithHostNet"


def _add_keys(pod: dict[str, Any], spec: dict[str, Any], name: str) -> None:
    path = spec.get("sshAuthMountPath") or "/root/.ssh"
    files = {"id_rsa": "privatekey", "id_rsa.pub": "publickey", "authorized_keys": "publickey"}
    secret = {
        "secretName": f"{name}-ssh",
        "items": [{"key": f"ssh-{key}", "path": file} for file, key in files.items()],
        **({"defaultMode": 0o600} if path == "/root/.ssh" else {}),
    }
    pod.setdefault("volumes", []).append({"name": "ssh-auth", "secret": secret})
    mount = {"name": "ssh-auth", "mountPath": path}
    pod["containers"][0].setdefault("volumeMounts", []).append(mount)


# Both --------------------------------------------------------------------------------------------


def _roles(spec: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    roles = spec["mpiReplicaSpecs"]
    return roles["Launcher"], roles.get("Worker")


def _containers(replica: dict[str, Any]) -> list[dict[str, Any]]:
    containers: list[dict[str, Any]] = replica["template"]["spec"]["containers"]
    return containers


def _pod_restart(replica: dict[str, Any], default: str) -> str:
    policy = replica.get("restartPolicy") or default
    return "Never" if policy == "ExitCode" else str(policy)


def _add_env(container: dict[str, Any], variables: Mapping[str, str | None]) -> None:
    entries = [{"name": k} if v is None else {"name": k, "value": v} for k, v in variables.items()]
    container.setdefault("env", []).extend(entries)


def _add_config(pod: dict[str, Any], name: str, keys: list[str]) -> None:
    items = [{"key": key, "path": key, "mode": MODES[key]} for key in keys]
    volume = {"name": CONFIG["name"], "configMap": {"name": f"{name}-config", "items": items}}
    pod.setdefault("volumes", []).append(volume)


def _pod(name: str, template: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    metadata = template["metadata"]
    meta: dict[str, Any] = {"name": name, "labels": {**metadata.get("labels", {}), **labels}}
    if metadata.get("annotations"):
        meta["annotations"] = metadata["annotations"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}


def _shared(kind: str, job: str, name: str, version: str = "v1", **fields: Any) -> dict[str, Any]:
    meta = {"name": name, "labels": {"app": job}}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **fields}
