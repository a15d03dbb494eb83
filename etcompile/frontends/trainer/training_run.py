"""Read a TrainJob together with its runtime: its trainers, numbers of Pods, and their names.

See reference/trainer-v2.md 4, 5 and 7. Both are valid by their schemas. The runtime is a separate
document, or already part of the job (`merge`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etcompile.diagnostics import ValuePath
from etcompile.frontends.annotations import NNODES
from etcompile.frontends.document_parts import JobDocument
from etcompile.frontends.rendezvous import node_range
from etcompile.k8s.path import containers_of, value_at
from etcompile.k8s.requests import gpus
from etcompile.model import Origin

RUNTIME = "runtime"
JOB_SET: ValuePath = ("spec", "template", "spec")
POD: ValuePath = ("template", "spec", "template", "spec")
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
"""The label of a Job template with the Job's part in the training."""
TRAINER = "trainer"
INITIALIZERS = {field: f"{field}-initializer" for field in ("dataset", "model")}
"""Fields of `spec.initializer`, each with its step and container."""
MAIN = "node"
"""The container that trains."""
NODE = "node"
LAUNCHER = "launcher"
"""The replicatedJobs that the policy mpi finds by their names."""
POLICIES = ("torch", "jax", "xgboost", "mpi")
INDEX = "batch.kubernetes.io/job-completion-index"
PORT = 29500
TUNE = ["tune", "run"]
"""The command of a TrainJob that Trainer completes."""


class Training(JobDocument, frozen=True):
    """A TrainJob and its runtime.

    Args:
        runtime: The place of the runtime.
    """

    runtime: Origin

    @property
    def runtime_name(self) -> str:
        whole = value_at(self.runtime.source.data, self.runtime.path)
        return str(whole["metadata"]["name"])

    @property
    def stated(self) -> Mapping[str, Any]:
        stated: Mapping[str, Any] = self.fields.get("trainer", {})
        return stated

    @property
    def spec(self) -> Mapping[str, Any]:
        spec: Mapping[str, Any] = value_at(self.runtime.source.data, self.runtime.path)["spec"]
        return spec

    @property
    def job_set(self) -> Mapping[str, Any]:
        job_set: Mapping[str, Any] = self.spec["template"]["spec"]
        return job_set

    @property
    def jobs(self) -> Sequence[Mapping[str, Any]]:
        jobs: Sequence[Mapping[str, Any]] = self.job_set["replicatedJobs"]
        return jobs

    def replicated_job(self, name: str) -> Mapping[str, Any] | None:
        return next((replicated for replicated in self.jobs if replicated["name"] == name), None)

    @property
    def trainers(self) -> list[int]:
        """Return the places of replicatedJobs that train; the first one knows the others."""
        return [place for place, job in enumerate(self.jobs) if step_of(job) == TRAINER]

    @property
    def ml_policy(self) -> Mapping[str, Any]:
        policy: Mapping[str, Any] = self.spec.get("mlPolicy", {})
        return policy

    @property
    def policy(self) -> str | None:
        return next((name for name in POLICIES if name in self.ml_policy), None)

    @property
    def is_torchtune(self) -> bool:
        return "torch" in self.ml_policy and self.stated.get("command") == TUNE

    @property
    def mpi(self) -> Mapping[str, Any] | None:
        policy: Mapping[str, Any] | None = self.ml_policy.get("mpi")
        return policy

    @property
    def launcher_is_node(self) -> bool:
        takes_part = bool((self.mpi or {}).get("runLauncherAsNode"))
        return takes_part and self.replicated_job(LAUNCHER) is not None

    def slots(self, launcher: Mapping[str, Any]) -> int:
        """Return the processes that the launcher starts on each host (reference 5.6)."""
        if (stated := self.stated.get("numProcPerNode")) is not None:
            return int(stated)
        general = (self.mpi or {}).get("numProcPerNode") or 1
        return max(gpus(launcher), 1) if general == 1 else int(general)

    @property
    def limits(self) -> tuple[int, int] | None:
        """Return the fewest and the most nodes of the annotation; None if absent or invalid."""
        stated = self.annotation(NNODES)
        return node_range(stated) if isinstance(stated, str) else None

    @property
    def injections(self) -> Sequence[Mapping[str, Any]]:
        """Return the targets of `envInjection`: containers that get the nodes' variables, too."""
        torch = self.ml_policy.get("torch") or {}
        targets: Sequence[Mapping[str, Any]] = torch.get("envInjection", {}).get("targets") or ()
        return targets

    @property
    def subdomain(self) -> str:
        """Return the headless Service with which host names end (defect T11)."""
        return str(self.job_set.get("network", {}).get("subdomain") or self.name)

    @property
    def first_host(self) -> str:
        return f"{self.name}-{self.jobs[self.trainers[0]]['name']}-0-0.{self.subdomain}"

    @property
    def coordinator(self) -> str | None:
        """Return the host name of the Pod that all others know, if there is one (reference 7.4)."""
        if not (named := self.job_set.get("coordinator")):
            return None
        pod = (named["replicatedJob"], named.get("jobIndex") or 0, named.get("podIndex") or 0)
        return f"{self.name}-{'-'.join(map(str, pod))}.{self.subdomain}"

    @property
    def counts(self) -> list[tuple[int, ValuePath]]:
        """Return how many Pods each replicatedJob has, and the path of that number.

        See reference 4, steps 4, 6 and 7, and 5.6. The path is `spec.trainer.numNodes` of the job,
        or one in the runtime.
        """
        nodes, policy = self.stated.get("numNodes"), self.spec.get("mlPolicy")
        trainers = self.trainers
        general = (policy or {}).get("numNodes") or 1
        by_job, by_policy = ("spec", "trainer", "numNodes"), ("spec", "mlPolicy", "numNodes")
        counts: list[tuple[int, ValuePath]] = []
        for place, replicated in enumerate(self.jobs):
            path: ValuePath = (*JOB_SET, "replicatedJobs", place)
            parallelism = replicated["template"]["spec"].get("parallelism") or 1
            count = parallelism, (*path, "template", "spec", "parallelism")
            if self.mpi is not None and replicated["name"] == NODE:
                # The launcher is one of them, and may be the only one (defect T3).
                less = int(self.launcher_is_node)
                if nodes is not None:
                    count = nodes - less, by_job
                elif general > 1:
                    # Trainer would create as many launchers.
                    count = general - less, by_policy
            elif self.mpi is not None and replicated["name"] == LAUNCHER:
                count = 1, path
            elif trainers[:1] == [place] and nodes is not None:
                count = nodes, by_job
            elif place in trainers and policy is not None:
                count = general, by_policy
            counts.append(count)
        return counts

    @property
    def nodes(self) -> int:
        return self.counts[self.trainers[0]][0]

    @property
    def claims(self) -> Iterator[Mapping[str, Any]]:
        for policy in self.job_set.get("volumeClaimPolicies", ()):
            yield from policy.get("templates", ())

    def claim_name(self, template: Mapping[str, Any]) -> str:
        return f"{template['metadata']['name']}-{self.name}"

    def claim_volume(self, template: Mapping[str, Any]) -> dict[str, Any]:
        claim = {"claimName": self.claim_name(template)}
        return {"name": template["metadata"]["name"], "persistentVolumeClaim": claim}


def step_of(replicated: Mapping[str, Any]) -> str | None:
    step: str | None = replicated["template"].get("metadata", {}).get("labels", {}).get(STEP)
    return step


def main_of(replicated: Mapping[str, Any] | None) -> Mapping[str, Any]:
    containers = value_at(replicated, POD)["containers"] if replicated else ()
    return next((container for container in containers if container["name"] == MAIN), {})


def backoff_limit(replicated: Mapping[str, Any]) -> int:
    """Return how many failures of its Pods a Job survives, by default 6."""
    stated = replicated["template"]["spec"].get("backoffLimit")
    return 6 if stated is None else int(stated)


def mounted_volumes(pod: Mapping[str, Any]) -> Iterator[str]:
    for _, container in containers_of(pod):
        yield from (mount["name"] for mount in container.get("volumeMounts", ()))


def ready_port(pod: Mapping[str, Any]) -> int | None:
    for container in pod["containers"]:
        named = {port.get("name"): port["containerPort"] for port in container.get("ports", ())}
        for kind in ("tcpSocket", "httpGet", "grpc"):
            port = container.get("readinessProbe", {}).get(kind, {}).get("port")
            port = named.get(port, port)
            if isinstance(port, int):
                return port
    return None
