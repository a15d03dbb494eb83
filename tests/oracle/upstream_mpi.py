"""What the two operators create for an MPIJob: a model of their references.

What they add is in `upstream_mpi.yaml`; here is what depends on the job. Like `upstream`, it is
written from the references alone, shares no code with etcompile, and must reproduce the recordings
exactly. No PodGroups: without a flag the operators make none.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import upstream
from defaults import defaulted

TEXT = Path(__file__).with_name("upstream_mpi.yaml").read_text("utf-8")


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
    launcher = spec["mpiReplicaSpecs"]["Launcher"]
    hosts = _workers(job)
    account = launcher["template"]["spec"].get("serviceAccountName") or f"{name}-launcher"
    containers = launcher["template"]["spec"]["containers"]
    limits = (container.get("resources", {}).get("limits", {}) for container in containers)
    gpus = any("gpu" in limit for one in limits for limit in one)
    slots = spec.get("slotsPerWorker", 1)
    main = f" --container {spec['mainContainer']}" if spec.get("mainContainer") else ""
    facts = {"job": name, "namespace": namespace, "account": account, "container": main}
    additions, no_gpus = _additions(job, facts)
    _, config, role, _ = additions["objects"]
    listed = [f"{name}-launcher", *hosts] if gpus else hosts
    config["data"] |= {
        "hostfile": "".join(f"{host} slots={slots}\n" for host in listed),
        "discover_hosts.sh": "#!/bin/sh" + (f"\necho {name}-launcher:{slots}" if gpus else ""),
    }
    if hosts:
        role["rules"][1]["resourceNames"] = hosts
    pod = _v1_launcher(job, additions, {} if gpus else no_gpus)
    pod["spec"]["serviceAccountName"] = account
    objects = [*additions["objects"], pod]
    for index, host in enumerate(hosts):
        objects.append(_v1_worker(job, host, _additions(job, {**facts, "index": str(index)})[0]))
    return objects


def _v1_worker(job: dict[str, Any], host: str, additions: Any) -> dict[str, Any]:
    pod = _pod(job, "Worker", host, additions, "Never")
    main = pod["spec"]["containers"][0]
    if not main.get("command"):
        main.update(command=["sleep"], args=["365d"])
    _add(pod["spec"], additions["worker"])
    return pod


def _v1_launcher(job: dict[str, Any], additions: Any, no_gpus: Any) -> dict[str, Any]:
    pod = _pod(job, "Launcher", f"{job['metadata']['name']}-launcher", additions, "Never")
    main = pod["spec"]["containers"][0]
    declared = {env["name"] for env in main.get("env", ())}
    _add(pod["spec"], additions["launcher"])
    upstream.extend(main, no_gpus)
    others = [env for env in additions["unless declared"]["env"] if env["name"] not in declared]
    upstream.extend(main, {"env": others})
    return pod


# The MPI Operator --------------------------------------------------------------------------------


def _v2(job: dict[str, Any], namespace: str) -> list[dict[str, Any]]:
    name, spec = job["metadata"]["name"], job["spec"]
    suspended = spec.get("runPolicy", {}).get("suspend", False)
    host_too = spec.get("runLauncherAsWorker", False)
    slots, path = str(spec.get("slotsPerWorker", 1)), spec.get("sshAuthMountPath") or "/root/.ssh"
    facts = {"job": name, "slots": slots, "keys": path}
    additions, no_gpus = _additions(job, facts)
    service, config, _ = additions["objects"]
    launcher_host = f"{name}-launcher.{name}.{namespace}.svc"
    hosts = [f"{host}.{name}.{namespace}.svc" for host in _workers(job)]
    line = "{} slots={}\n" if _implementation(spec) == "OpenMPI" else "{}:{}\n"
    listed = [launcher_host, *hosts] if host_too else hosts
    config["data"] |= {
        "hostfile": "".join(line.format(host, slots) for host in listed),
        "discover_hosts.sh": "#!/bin/sh\n" + (f"echo {launcher_host}\n" if host_too else ""),
    }
    if host_too:
        service["spec"]["publishNotReadyAddresses"] = True
    workers = []
    for index, host in enumerate([] if suspended else _workers(job)):
        number = index + 1 if host_too else index
        of_worker, _ = _additions(job, {**facts, "index": str(number)})
        workers.append(_v2_worker(job, host, namespace, of_worker))
    if host_too:
        additions["labels"]["launcher"]["training.kubeflow.org/replica-index"] = "0"
    launcher = _v2_launcher(job, additions, {} if host_too else no_gpus)
    policy = spec.get("runPolicy", {})
    limits = ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
    body = {key: policy[key] for key in limits if key in policy}
    if suspended:
        body["suspend"] = True
    metadata = {"name": f"{name}-launcher", "labels": {"app": name}}
    batch = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    return [*additions["objects"], *workers, {**batch, "spec": {**body, "template": launcher}}]


def _v2_worker(job: dict[str, Any], host: str, namespace: str, additions: Any) -> dict[str, Any]:
    name = job["metadata"]["name"]
    pod = _pod(job, "Worker", host, additions, "Never")
    main = pod["spec"]["containers"][0]
    if not main.get("command") and not main.get("args"):
        main["command"] = ["/usr/sbin/sshd", "-De"]
    _add(pod["spec"], additions["worker"])
    _make_reachable(pod["spec"], name, host)
    searches = pod["spec"].setdefault("dnsConfig", {}).setdefault("searches", [])
    searches.append(f"{name}.{namespace}.svc.cluster.local")
    _add_keys(job, pod["spec"], additions)
    return pod


def _v2_launcher(job: dict[str, Any], additions: Any, no_gpus: Any) -> dict[str, Any]:
    """The template of the launcher's Job."""
    name = job["metadata"]["name"]
    pod = _pod(job, "Launcher", f"{name}-launcher", additions, "OnFailure")
    main = pod["spec"]["containers"][0]
    _add(pod["spec"], additions["launcher"])
    upstream.extend(main, additions[_implementation(job["spec"])])
    upstream.extend(main, no_gpus)
    _make_reachable(pod["spec"], name, f"{name}-launcher")
    _add_keys(job, pod["spec"], additions)
    _add(pod["spec"], additions["config"])
    del pod["metadata"]["name"]
    return {"metadata": pod["metadata"], "spec": pod["spec"]}


def _implementation(spec: dict[str, Any]) -> str:
    return str(spec.get("mpiImplementation", "OpenMPI"))


def _make_reachable(pod: dict[str, Any], service: str, host: str) -> None:
    pod.update(hostname=host, subdomain=service)
    if pod.get("hostNetwork"):
        pod["dnsPolicy"] = "ClusterFirstWithHostNet"


def _add_keys(job: dict[str, Any], pod: dict[str, Any], additions: Any) -> None:
    _add(pod, additions["keys"])
    if (job["spec"].get("sshAuthMountPath") or "/root/.ssh") == "/root/.ssh":
        pod["volumes"][-1]["secret"]["defaultMode"] = 0o600


# Both --------------------------------------------------------------------------------------------


def _additions(job: dict[str, Any], facts: dict[str, str]) -> tuple[Any, Any]:
    """What the operator of a job adds, and the variables of a launcher without GPUs."""
    filled = upstream.filled(TEXT, facts)
    return filled[job["apiVersion"].rpartition("/")[2]], filled["no GPUs"]


def _workers(job: dict[str, Any]) -> list[str]:
    count = job["spec"]["mpiReplicaSpecs"].get("Worker", {}).get("replicas") or 0
    return [f"{job['metadata']['name']}-worker-{index}" for index in range(count)]


def _pod(job: dict[str, Any], role: str, name: str, additions: Any, restart: str) -> dict[str, Any]:
    replica = job["spec"]["mpiReplicaSpecs"][role]
    pod = upstream.pod(replica["template"], name, additions["labels"][role.lower()])
    policy = replica.get("restartPolicy") or restart
    pod["spec"]["restartPolicy"] = "Never" if policy == "ExitCode" else policy
    return pod


def _add(pod: dict[str, Any], additions: Any) -> None:
    """Adds lists to a Pod's spec and to its first container."""
    upstream.extend(pod["containers"][0], additions["main"])
    upstream.extend(pod, additions["pod"])
