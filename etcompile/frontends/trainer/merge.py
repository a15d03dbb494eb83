"""A TrainJob and its runtime to one document: what Trainer sends to JobSet, and who wrote what.

reference/trainer-v2.md 4 and 5. The result is the TrainJob with the runtime under `runtime`, into
whose Pod templates everything is merged that the job changes. So the Pod templates that are held
against Kubernetes' rules are those that Pods are made of, and the job that is stored with its
objects needs no runtime any more. Each value still has the place where somebody wrote it.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile.diagnostics import Location, Source, ValuePath
from etcompile.frontends.hosts import ssh_arguments
from etcompile.frontends.trainer import policies, torchtune, volume_claims
from etcompile.frontends.trainer.policies import INDEX, LAUNCHER, MAIN, NODE, Told
from etcompile.model import Origin

RUNTIME = "runtime"
"""The field of a merged document that holds its runtime."""
JOB_SET: ValuePath = (RUNTIME, "spec", "template", "spec")
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
"""The label of a Job template that says what the Job does in the training."""
TRAINER = "trainer"
INITIALIZERS: Mapping[str, str] = {
    "dataset": "dataset-initializer",
    "model": "model-initializer",
}
"""Fields of `spec.initializer`, and the step and container that each is for."""

_INDEX_VARIABLE = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}},
}


class Merged(Struct, frozen=True):
    """A TrainJob with its runtime.

    Args:
        data: The document, JSON.
        places: Where its parts were written, by their path in it; a value below one of these
            paths stands below that origin.
    """

    data: dict[str, Any]
    places: Mapping[ValuePath, Origin]

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:
        """The place of a value, in the file of the job or of the runtime."""
        return _written(self.places, path).locate(key=key)


def merged(job: Source, runtime: Source) -> Merged:
    """A TrainJob with its runtime, into which everything is merged that the job changes.

    Both are valid by their schemas, and `unsupported` has nothing against them.
    """
    return _Merge(job, runtime).result()


def _written(places: Mapping[ValuePath, Origin], path: ValuePath) -> Origin:
    """Where a value was written: below the longest path whose origin is known."""
    length = next(n for n in range(len(path), -1, -1) if path[:n] in places)
    return places[path[:length]].at(*path[length:])


def step_of(replicated: Mapping[str, Any]) -> str | None:
    """What a replicatedJob of a runtime does in the training, if it says so."""
    labels = replicated["template"].get("metadata", {}).get("labels", {})
    found: str | None = labels.get(STEP)
    return found


def trainers(jobs: Sequence[Mapping[str, Any]]) -> list[int]:
    """Which replicatedJobs are the trainer: the first of them is told of the others."""
    return [place for place, replicated in enumerate(jobs) if step_of(replicated) == TRAINER]


def node_counts(job: Mapping[str, Any], spec: Mapping[str, Any]) -> list[tuple[int, ValuePath]]:
    """How many Pods each replicatedJob has (reference 4, steps 4, 6 and 7; 5.6).

    Returns:
        The number, and the path of what says so: `spec.trainer.numNodes` of the job, else one in
        the runtime.
    """
    jobs = spec["template"]["spec"]["replicatedJobs"]
    asked = job["spec"].get("trainer", {}).get("numNodes")
    mpi = policies.mpi(spec)
    policy = spec.get("mlPolicy")
    general = (policy or {}).get("numNodes") or 1
    by_job, by_policy = ("spec", "trainer", "numNodes"), ("spec", "mlPolicy", "numNodes")
    first = next(iter(trainers(jobs)), None)
    found: list[tuple[int, ValuePath]] = []
    for place, replicated in enumerate(jobs):
        own = replicated["template"]["spec"].get("parallelism") or 1
        path: ValuePath = ("spec", "template", "spec", "replicatedJobs", place)
        counted = own, (*path, "template", "spec", "parallelism")
        if mpi is not None and replicated["name"] == NODE:
            # The launcher is one of them: alone it needs no other (defect T3).
            less = int(policies.launcher_is_node(spec))
            if asked is not None:
                counted = asked - less, by_job
            elif general > 1:
                # Trainer would make so many launchers.
                counted = general - less, by_policy
        elif mpi is not None and replicated["name"] == LAUNCHER:
            counted = 1, path
        elif place == first and asked is not None:
            counted = asked, by_job
        elif step_of(replicated) == TRAINER and policy is not None:
            counted = general, by_policy
        found.append(counted)
    return found


def with_resources(
    container: Mapping[str, Any], trainer: Mapping[str, Any], spec: Mapping[str, Any]
) -> dict[str, Any]:
    """A container with what a job asks for; its own without mlPolicy (reference 4, step 5)."""
    asked = trainer.get("resourcesPerNode", {}) if "mlPolicy" in spec else {}
    own = container.get("resources", {})
    amounts = {field: {**own.get(field, {}), **more} for field, more in asked.items()}
    return {**container, "resources": {**own, **amounts}} if amounts else dict(container)


Entries = list[tuple[Mapping[str, Any], Origin]]


class _Merge:
    """The merge of one job: its document as far as it is made, and who wrote what of it."""

    def __init__(self, job: Source, runtime: Source) -> None:
        self._job = job
        self._runtime = runtime
        self._trainer: Mapping[str, Any] = job.data["spec"].get("trainer", {})
        self._spec = copy.deepcopy(runtime.data["spec"])
        self._places: dict[ValuePath, Origin] = {(): Origin(job), (RUNTIME,): Origin(runtime)}
        self._jobs: list[dict[str, Any]] = self._spec["template"]["spec"]["replicatedJobs"]

    def result(self) -> Merged:
        """The TrainJob with the runtime that it has changed."""
        self._count()
        trained = trainers(self._jobs)
        mpi = policies.mpi(self._spec)
        for place, replicated in enumerate(self._jobs):
            takes = place in trained
            # Nodes of MPI run the same processes as the launcher, if that is one of them.
            alike = (
                mpi is not None
                and replicated["name"] == NODE
                and policies.launcher_is_node(self._spec)
            )
            for there, container in self._containers(place, MAIN):
                if takes:
                    self._override(there, container, first=trained[0] == place)
                elif mpi is not None and replicated["name"] == NODE:
                    self._same_image(there, container)
                if takes or alike:
                    self._resources(there, container)
                if not takes and alike:
                    self._add(there, container, self._own())
        for place in range(len(self._jobs)):
            self._tell(place, trained[:1])
        for field, step in INITIALIZERS.items():
            self._initialize(field, step)
        volume_claims.mount(self._job.data, self._spec)
        for replicated in self._jobs:
            pod = replicated["template"]["spec"]["template"]["spec"]
            for field in ("initContainers", "containers"):
                for container in pod.get(field, ()):
                    _tell_index(container)
        head = {field: self._runtime.data[field] for field in ("apiVersion", "kind")}
        named = {"name": self._runtime.data["metadata"]["name"]}
        runtime = {**head, "metadata": named, "spec": self._spec}
        return Merged({**self._job.data, RUNTIME: runtime}, self._places)

    def _count(self) -> None:
        """Numbers of Pods, as Trainer writes them into the Jobs (reference 4, step 7)."""
        counts = node_counts(self._job.data, self._spec)
        for place, (count, path) in enumerate(counts):
            source = self._job if path[:2] == ("spec", "trainer") else self._runtime
            for field in ("parallelism", "completions"):
                self._jobs[place]["template"]["spec"][field] = count
                there = (*JOB_SET, "replicatedJobs", place, "template", "spec", field)
                self._places[there] = Origin(source, path)

    def _containers(
        self, place: int, *names: str, inits: bool = False
    ) -> Iterator[tuple[ValuePath, dict[str, Any]]]:
        """The containers of some names of a Pod template, or all, with their paths."""
        pod = self._jobs[place]["template"]["spec"]["template"]["spec"]
        path = (*JOB_SET, "replicatedJobs", place, "template", "spec", "template", "spec")
        for field in ("initContainers", "containers") if inits else ("containers",):
            for number, container in enumerate(pod.get(field, ())):
                if not names or container["name"] in names:
                    yield (*path, field, number), container

    def _override(self, path: ValuePath, container: dict[str, Any], *, first: bool) -> None:
        """Image, command and arguments of the job (reference 4.1), and its variables."""
        for field in ("image", "command", "args"):
            if self._trainer.get(field) is not None:
                # An empty list takes the runtime's away.
                container[field] = self._trainer[field]
                self._places[(*path, field)] = Origin(self._job, ("spec", "trainer", field))
                if not container[field]:
                    del container[field]
        if not first:
            self._add(path, container, self._own())

    def _same_image(self, path: ValuePath, container: dict[str, Any]) -> None:
        """The image of the job for nodes of MPI that run the launcher's (defect T4)."""
        launcher = policies.replicated_job(self._runtime.data["spec"], LAUNCHER)
        before = policies.main_of(launcher).get("image")
        if self._trainer.get("image") and before == container.get("image"):
            container["image"] = self._trainer["image"]
            self._places[(*path, "image")] = Origin(self._job, ("spec", "trainer", "image"))

    def _resources(self, path: ValuePath, container: dict[str, Any]) -> None:
        """What the job asks for, amount by amount."""
        container |= with_resources(container, self._trainer, self._spec)
        for field, amounts in self._trainer.get("resourcesPerNode", {}).items():
            for name in amounts:
                origin = Origin(self._job, ("spec", "trainer", "resourcesPerNode", field, name))
                self._places[(*path, "resources", field, name)] = origin

    def _tell(self, place: int, trained: Sequence[int]) -> None:
        """What the policy tells the nodes of each other (reference 5.1, 5.3, 5.4, 5.6).

        Also without `spec.trainer` (defect T1). The policy's variables come last, but for jax and
        mpi, where the job's do (reference 4.2): a job may replace them.
        """
        leads = place in trained
        policy = policies.policy(self._spec)
        for there, container in self._containers(place, MAIN):
            told: Sequence[dict[str, Any]] = ()
            if leads and policy in ("torch", "jax", "xgboost"):
                told = [*policies.told(self._told(place, container))]
                if policy == "torch":
                    self._inject(told)
                    told = self._completed_command(container, place, told)
                policies.open_port(container)
            elif policy == "mpi" and self._jobs[place]["name"] == LAUNCHER:
                given = {entry["name"] for entry in container.get("env", ())}
                slots = policies.slots(self._job.data, self._spec, container)
                ssh = ssh_arguments(self._job)
                told = [*policies.launcher_variables(slots, ssh, given)]
            ours: Entries = [(entry, Origin(self._job, ("spec", "runtimeRef"))) for entry in told]
            own = self._own() if leads else []
            for more in (ours, own) if policy in ("jax", "mpi") else (own, ours):
                self._add(there, container, more)

    def _inject(self, told: Sequence[dict[str, Any]]) -> None:
        """Gives the variables of torch to other containers that are to have them."""
        ours: Entries = [(entry, Origin(self._job, ("spec", "runtimeRef"))) for entry in told]
        for target in policies.injections(self._spec):
            for place, replicated in enumerate(self._jobs):
                if replicated["name"] == target["jobName"]:
                    names = target["containerNames"]
                    for there, container in self._containers(place, *names, inits=True):
                        self._add(there, container, ours)

    def _told(self, place: int, container: Mapping[str, Any]) -> Told:
        nodes = self._jobs[place]["template"]["spec"]["parallelism"]
        name = self._job.data["metadata"]["name"]
        leader = f"{name}-{self._jobs[place]['name']}-0-0"
        elastic = policies.elastic(self._job.data)
        failures = policies.backoff_limit(self._jobs[place]["template"]["spec"])
        return Told(self._job.data, self._spec, container, nodes, leader, elastic, failures)

    def _completed_command(
        self,
        container: dict[str, Any],
        place: int,
        told: Sequence[dict[str, Any]],
    ) -> Sequence[dict[str, Any]]:
        """The variables of a node, and its command where that is torchtune's (reference 5.2)."""
        if self._trainer.get("command") != torchtune.COMMAND:
            return told
        facts = self._told(place, container)
        before = self._runtime.data["spec"]["template"]["spec"]["replicatedJobs"][place]
        words = policies.main_of(before).get("command", ())
        name = self._runtime.data["metadata"]["name"]
        container["command"] = torchtune.command(facts, name, words, self._trainer.get("args", ()))
        return [entry for entry in told if not entry["name"].startswith("PET_MASTER_")]

    def _own(self) -> Entries:
        """The variables of the job."""
        return _variables(self._trainer, Origin(self._job, ("spec", "trainer")))

    def _add(self, path: ValuePath, container: dict[str, Any], more: Entries) -> None:
        """Variables: one of a name takes the place of the one before, new ones follow."""
        new = {entry["name"]: (entry, origin) for entry, origin in more}
        if not new:
            return
        before: Entries = [
            (entry, _written(self._places, (*path, "env", place)))
            for place, entry in enumerate(container.get("env", ()))
        ]
        found = [*(new.pop(entry["name"], (entry, origin)) for entry, origin in before)]
        container["env"] = []
        for place, (entry, origin) in enumerate([*found, *new.values()]):
            container["env"].append(entry)
            self._places[(*path, "env", place)] = origin

    def _initialize(self, field: str, step: str) -> None:
        """What the job says of where data or model come from (reference 4.1)."""
        asked = self._job.data["spec"].get("initializer", {}).get(field)
        if asked is None:
            return
        origin = Origin(self._job, ("spec", "initializer", field))
        for place, replicated in enumerate(self._jobs):
            if step_of(replicated) != step:
                continue
            for there, container in self._containers(place, step):
                more: Entries = []
                if asked.get("storageUri") is not None:
                    entry = {"name": "STORAGE_URI", "value": asked["storageUri"]}
                    more.append((entry, origin.at("storageUri")))
                self._add(there, container, more)
                self._add(there, container, _variables(asked, origin))
                if secret := asked.get("secretRef"):
                    sources = container.get("envFrom", [])
                    container["envFrom"] = [*sources, {"secretRef": dict(secret)}]
                    self._places[(*there, "envFrom", len(sources))] = origin


def _variables(owner: Mapping[str, Any], origin: Origin) -> Entries:
    """The variables of a part of the job: without a value they are empty."""
    return [
        (
            entry if "valueFrom" in entry else {**entry, "value": entry.get("value") or ""},
            origin.at("env", number),
        )
        for number, entry in enumerate(owner.get("env", ()))
    ]


def _tell_index(container: dict[str, Any]) -> None:
    """Adds the variable of its index that each container of an Indexed Job has (reference 7.4)."""
    given = container.get("env") or []
    if not any(entry.get("name") == _INDEX_VARIABLE["name"] for entry in given):
        container["env"] = [*given, copy.deepcopy(_INDEX_VARIABLE)]
