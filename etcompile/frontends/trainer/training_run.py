"""A TrainJob and its runtime, read together: who trains, how many Pods there are, and their names.

reference/trainer-v2.md 4, 5 and 7. Both are valid by their schemas. The runtime is a document of
its own, or already part of the job (`merge`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etcompile.diagnostics import ValuePath
from etcompile.frontends.annotations import NNODES
from etcompile.frontends.document_parts import JobDocument
from etcompile.frontends.rendezvous import node_range
from etcompile.k8s.path import value_at
from etcompile.k8s.requests import gpus
from etcompile.model import Origin

RUNTIME = "runtime"
"""The field of a merged document that holds its runtime."""
JOB_SET: ValuePath = ("spec", "template", "spec")
"""Where a runtime has its JobSet."""
POD: ValuePath = ("template", "spec", "template", "spec")
"""Where a replicatedJob has the spec of its Pods."""
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
"""The label of a Job template that says what the Job does in the training."""
TRAINER = "trainer"
INITIALIZERS = {field: f"{field}-initializer" for field in ("dataset", "model")}
"""Fields of `spec.initializer`, and the step and container that each is for."""
MAIN = "node"
"""The container that trains."""
NODE = "node"
LAUNCHER = "launcher"
"""The replicatedJobs that the policy mpi knows by their names."""
POLICIES = ("torch", "jax", "xgboost", "mpi")
INDEX = "batch.kubernetes.io/job-completion-index"
PORT = 29500
TUNE = ["tune", "run"]
"""The command of a TrainJob that Trainer completes."""


class Training(JobDocument, frozen=True):
    """A TrainJob and its runtime.

    Args:
        runtime: Where the runtime begins.
    """

    runtime: Origin

    @property
    def runtime_name(self) -> str:
        """The name of its runtime."""
        whole = value_at(self.runtime.source.data, self.runtime.path)
        return str(whole["metadata"]["name"])

    @property
    def stated(self) -> Mapping[str, Any]:
        """What the job says of its nodes: `spec.trainer`."""
        stated: Mapping[str, Any] = self.fields.get("trainer", {})
        return stated

    @property
    def spec(self) -> Mapping[str, Any]:
        """The `spec` of the runtime."""
        spec: Mapping[str, Any] = value_at(self.runtime.source.data, self.runtime.path)["spec"]
        return spec

    @property
    def job_set(self) -> Mapping[str, Any]:
        """The spec of the JobSet that Trainer would make."""
        job_set: Mapping[str, Any] = self.spec["template"]["spec"]
        return job_set

    @property
    def jobs(self) -> Sequence[Mapping[str, Any]]:
        """The replicatedJobs."""
        jobs: Sequence[Mapping[str, Any]] = self.job_set["replicatedJobs"]
        return jobs

    def replicated_job(self, name: str) -> Mapping[str, Any] | None:
        """The replicatedJob of this name, if there is one."""
        return next((replicated for replicated in self.jobs if replicated["name"] == name), None)

    @property
    def trainers(self) -> list[int]:
        """Which replicatedJobs are the trainer: the first of them learns of the others."""
        return [place for place, job in enumerate(self.jobs) if step_of(job) == TRAINER]

    @property
    def ml_policy(self) -> Mapping[str, Any]:
        """What the runtime tells its nodes, by framework."""
        policy: Mapping[str, Any] = self.spec.get("mlPolicy", {})
        return policy

    @property
    def policy(self) -> str | None:
        """The framework that the runtime tells its nodes of each other for, if it does."""
        return next((name for name in POLICIES if name in self.ml_policy), None)

    @property
    def is_torchtune(self) -> bool:
        """Whether Trainer completes the command of its nodes."""
        return "torch" in self.ml_policy and self.stated.get("command") == TUNE

    @property
    def mpi(self) -> Mapping[str, Any] | None:
        """The policy of MPI, if the runtime has it."""
        policy: Mapping[str, Any] | None = self.ml_policy.get("mpi")
        return policy

    @property
    def launcher_is_node(self) -> bool:
        """Whether the launcher of a runtime of MPI is one of the nodes."""
        takes_part = bool((self.mpi or {}).get("runLauncherAsNode"))
        return takes_part and self.replicated_job(LAUNCHER) is not None

    def slots(self, launcher: Mapping[str, Any]) -> int:
        """Processes that the launcher, a container, starts on each host (reference 5.6)."""
        if (stated := self.stated.get("numProcPerNode")) is not None:
            return int(stated)
        own = (self.mpi or {}).get("numProcPerNode") or 1
        return max(gpus(launcher), 1) if own == 1 else int(own)

    @property
    def limits(self) -> tuple[int, int] | None:
        """The fewest and the most nodes that the job asks for; None if nothing that can be read."""
        stated = self.annotation(NNODES)
        return node_range(stated) if isinstance(stated, str) else None

    @property
    def injections(self) -> Sequence[Mapping[str, Any]]:
        """The targets of `envInjection`: containers that are told of the nodes, too."""
        torch = self.ml_policy.get("torch") or {}
        targets: Sequence[Mapping[str, Any]] = torch.get("envInjection", {}).get("targets") or ()
        return targets

    @property
    def subdomain(self) -> str:
        """The headless Service that host names end with (defect T11)."""
        return str(self.job_set.get("network", {}).get("subdomain") or self.name)

    @property
    def first_host(self) -> str:
        """The host name of the first node."""
        return f"{self.name}-{self.jobs[self.trainers[0]]['name']}-0-0.{self.subdomain}"

    @property
    def coordinator(self) -> str | None:
        """The host name of the Pod that all others are told of, if there is one (reference 7.4)."""
        if not (named := self.job_set.get("coordinator")):
            return None
        pod = (named["replicatedJob"], named.get("jobIndex") or 0, named.get("podIndex") or 0)
        return f"{self.name}-{'-'.join(map(str, pod))}.{self.subdomain}"

    @property
    def counts(self) -> list[tuple[int, ValuePath]]:
        """How many Pods each replicatedJob has (reference 4, steps 4, 6 and 7; 5.6).

        With the path of what says so: `spec.trainer.numNodes` of the job, else one in the runtime.
        """
        nodes, policy, trainers = (
            self.stated.get("numNodes"),
            self.spec.get("mlPolicy"),
            self.trainers,
        )
        general = (policy or {}).get("numNodes") or 1
        by_job, by_policy = ("spec", "trainer", "numNodes"), ("spec", "mlPolicy", "numNodes")
        counts: list[tuple[int, ValuePath]] = []
        for place, replicated in enumerate(self.jobs):
            own = replicated["template"]["spec"].get("parallelism") or 1
            path: ValuePath = (*JOB_SET, "replicatedJobs", place)
            count = own, (*path, "template", "spec", "parallelism")
            if self.mpi is not None and replicated["name"] == NODE:
                # The launcher is one of them: alone it needs no other (defect T3).
                less = int(self.launcher_is_node)
                if nodes is not None:
                    count = nodes - less, by_job
                elif general > 1:
                    # Trainer would make so many launchers.
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
        """How many Pods the first trainer has."""
        return self.counts[self.trainers[0]][0]

    @property
    def claims(self) -> Iterator[Mapping[str, Any]]:
        """The templates of its claims (reference 7.3)."""
        for policy in self.job_set.get("volumeClaimPolicies", ()):
            yield from policy.get("templates", ())

    def claim_name(self, template: Mapping[str, Any]) -> str:
        """The name of the claim that the job has of a template."""
        return f"{template['metadata']['name']}-{self.name}"

    def claim_volume(self, template: Mapping[str, Any]) -> dict[str, Any]:
        """The volume of a Pod that mounts the claim which the job has of a template."""
        claim = {"claimName": self.claim_name(template)}
        return {"name": template["metadata"]["name"], "persistentVolumeClaim": claim}


def step_of(replicated: Mapping[str, Any]) -> str | None:
    """What a replicatedJob of a runtime does in the training, if it says so."""
    step: str | None = replicated["template"].get("metadata", {}).get("labels", {}).get(STEP)
    return step


def main_of(replicated: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The container of a replicatedJob that trains; empty if it has none."""
    containers = value_at(replicated, POD)["containers"] if replicated else ()
    return next((container for container in containers if container["name"] == MAIN), {})


def backoff_limit(replicated: Mapping[str, Any]) -> int:
    """How many failures of its Pods a Job survives; a Job without one has 6."""
    stated = replicated["template"]["spec"].get("backoffLimit")
    return 6 if stated is None else int(stated)


def mounted_volumes(pod: Mapping[str, Any]) -> Iterator[str]:
    """The names of the volumes that the containers of a Pod mount."""
    for field in ("initContainers", "containers"):
        for container in pod.get(field, ()):
            yield from (mount["name"] for mount in container.get("volumeMounts", ()))


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
