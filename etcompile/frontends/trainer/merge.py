"""A TrainJob and its runtime to one document: what Trainer sends to JobSet, and who wrote what.

reference/trainer-v2.md 4 and 5. The result is the TrainJob with the runtime under `runtime`, into
whose Pod templates everything is merged that the job changes. So the Pod templates that are held
against Kubernetes' rules are those that Pods are made of, and the job that is stored with its
objects needs no runtime any more. Each value still has the place where somebody wrote it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from etcompile.diagnostics import Source, ValuePath
from etcompile.frontends.ssh_access import ssh_arguments
from etcompile.frontends.trainer import policies, torchtune
from etcompile.frontends.trainer.policies import INDEX, LAUNCHER, MAIN, NODE, PORT, NodeFacts
from etcompile.k8s.path import value_at
from etcompile.k8s.traced import Traced
from etcompile.model import Claim

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

_POD: ValuePath = ("template", "spec", "template", "spec")
_INDEX_VARIABLE = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}},
}


def merged(job: Source, runtime: Source) -> Traced:
    """A TrainJob with its runtime, into which everything is merged that the job changes.

    Both are valid by their schemas, and `unsupported` has nothing against them.
    """
    merge = _Merge(job, runtime)
    parts = (
        Traced(runtime.data, runtime)
        .changed((*JOB_SET[1:], "replicatedJobs"), lambda jobs: jobs.with_items(merge.jobs(jobs)))
        .parts()
    )
    metadata = parts["metadata"]
    whole = Traced({}, runtime).with_fields(
        {
            "apiVersion": parts["apiVersion"],
            "kind": parts["kind"],
            "metadata": metadata.with_fields({"name": metadata.parts()["name"]}),
            "spec": parts["spec"],
        }
    )
    return Traced(job.data, job).with_changes({RUNTIME: whole})


def step_of(replicated: Mapping[str, Any]) -> str | None:
    """What a replicatedJob of a runtime does in the training, if it says so."""
    step: str | None = replicated["template"].get("metadata", {}).get("labels", {}).get(STEP)
    return step


def trainers(jobs: Sequence[Mapping[str, Any]]) -> list[int]:
    """Which replicatedJobs are the trainer: the first of them learns of the others."""
    return [place for place, replicated in enumerate(jobs) if step_of(replicated) == TRAINER]


def node_counts(job: Mapping[str, Any], spec: Mapping[str, Any]) -> list[tuple[int, ValuePath]]:
    """How many Pods each replicatedJob has (reference 4, steps 4, 6 and 7; 5.6).

    Returns:
        The number, and the path of what says so: `spec.trainer.numNodes` of the job, else one in
        the runtime.
    """
    jobs = spec["template"]["spec"]["replicatedJobs"]
    nodes = job["spec"].get("trainer", {}).get("numNodes")
    mpi = policies.mpi(spec)
    policy = spec.get("mlPolicy")
    general = (policy or {}).get("numNodes") or 1
    by_job, by_policy = ("spec", "trainer", "numNodes"), ("spec", "mlPolicy", "numNodes")
    first = next(iter(trainers(jobs)), None)
    counts: list[tuple[int, ValuePath]] = []
    for place, replicated in enumerate(jobs):
        own = replicated["template"]["spec"].get("parallelism") or 1
        path: ValuePath = ("spec", "template", "spec", "replicatedJobs", place)
        count = own, (*path, "template", "spec", "parallelism")
        if mpi is not None and replicated["name"] == NODE:
            # The launcher is one of them: alone it needs no other (defect T3).
            less = int(policies.launcher_is_node(spec))
            if nodes is not None:
                count = nodes - less, by_job
            elif general > 1:
                # Trainer would make so many launchers.
                count = general - less, by_policy
        elif mpi is not None and replicated["name"] == LAUNCHER:
            count = 1, path
        elif place == first and nodes is not None:
            count = nodes, by_job
        elif step_of(replicated) == TRAINER and policy is not None:
            count = general, by_policy
        counts.append(count)
    return counts


def with_resources(container: Traced, job: Source, spec: Mapping[str, Any]) -> Traced:
    """A container with what a job asks for; its own without mlPolicy (reference 4, step 5)."""
    wanted = job.data["spec"].get("trainer", {}).get("resourcesPerNode", {})
    if not wanted or "mlPolicy" not in spec:
        return container
    resources = _part(container, "resources", {})
    for field, amounts in wanted.items():
        path = ("spec", "trainer", "resourcesPerNode", field)
        own = _part(resources, field, {})
        for name, amount in amounts.items():
            own = own.with_changes({name: Traced(amount, job, (*path, name))})
        resources = resources.with_changes({field: own})
    return container.with_changes({"resources": resources})


class _Merge:
    """What a TrainJob changes of the replicatedJobs of its runtime."""

    def __init__(self, job: Source, runtime: Source) -> None:
        self._job = job
        self._runtime = runtime
        self._spec: Mapping[str, Any] = runtime.data["spec"]
        self._trainer: Mapping[str, Any] = job.data["spec"].get("trainer", {})
        self._jobs: Sequence[Mapping[str, Any]] = self._spec["template"]["spec"]["replicatedJobs"]
        self._counts = node_counts(job.data, self._spec)
        self._trained = trainers(self._jobs)
        self._policy = policies.policy(self._spec)
        self._job_variables = self._variables(self._trainer, ("spec", "trainer"))
        self._facts = self._node_facts()
        self._node_variables = self._ours(
            policies.node_variables(self._facts) if self._facts else ()
        )

    def jobs(self, before: Traced) -> list[Traced]:
        """The replicatedJobs, as Trainer gives them to JobSet."""
        jobs = [self._replicated_job(place, job) for place, job in enumerate(before.items())]
        return _with_claims(jobs, self._job.data, self._spec)

    def _replicated_job(self, place: int, replicated: Traced) -> Traced:
        # Trainer writes the number of Pods into the Jobs (reference 4, step 7).
        count, path = self._counts[place]
        source = self._job if path[:2] == ("spec", "trainer") else self._runtime
        number = Traced(count, source, path)
        replicated = replicated.changed(
            ("template", "spec"),
            lambda spec: spec.with_changes({"parallelism": number, "completions": number}),
        )
        for field in ("initContainers", "containers"):
            if field in value_at(replicated.value, _POD):
                change = partial(self._containers, place, field)
                replicated = replicated.changed((*_POD, field), change)
        return replicated

    def _containers(self, place: int, field: str, containers: Traced) -> Traced:
        return containers.with_items(
            [self._container(place, field, container) for container in containers.items()]
        )

    def _container(self, place: int, field: str, container: Traced) -> Traced:
        """A container of a Pod template with all that belongs into it."""
        replicated, name = self._jobs[place], container.value["name"]
        if field == "containers" and name == MAIN:
            container = self._main(place, container)
        for target in policies.injections(self._spec):
            if target["jobName"] == replicated["name"] and name in target["containerNames"]:
                container = _with_variables(container, self._node_variables)
        for part, step in INITIALIZERS.items():
            if field == "containers" and name == step == step_of(replicated):
                container = self._initialized(container, part)
        # Every container of an Indexed Job has it (reference 7.4).
        if not any(entry["name"] == _INDEX_VARIABLE["name"] for entry in _env(container)):
            container = _appended(container, "env", _INDEX_VARIABLE)
        return container

    def _main(self, place: int, container: Traced) -> Traced:
        """The container that trains, by what the job says and what the policy tells its nodes.

        The policy's variables come last, but for jax and mpi, where the job's do (reference 4.2):
        a job may replace them. There are some without `spec.trainer`, too (defect T1).
        """
        name, takes, leads = self._jobs[place]["name"], place in self._trained, False
        is_node = policies.mpi(self._spec) is not None and name == NODE
        # Nodes of MPI run the same processes as the launcher, if that is one of them.
        alike = is_node and policies.launcher_is_node(self._spec)
        if takes:
            leads = place == self._trained[0]
            container = self._overridden(container)
        elif is_node:
            container = self._with_image_of_launcher(container)
        if takes or alike:
            container = with_resources(container, self._job, self._spec)
        if (takes or alike) and not leads:
            container = _with_variables(container, self._job_variables)
        ours: Sequence[Traced] = ()
        if leads and self._facts is not None:
            ours = self._node_variables
            if self._policy == "torch" and self._trainer.get("command") == torchtune.COMMAND:
                container = self._with_torchtune(place, container)
                ours = [v for v in ours if not v.value["name"].startswith("PET_MASTER_")]
            # Other ports stay, with or without a name (defect T6).
            ports = container.value.get("ports", ())
            known = {(port.get("containerPort"), port.get("protocol") or "TCP") for port in ports}
            if (PORT, "TCP") not in known:
                container = _appended(container, "ports", {"containerPort": PORT})
        elif self._policy == "mpi" and name == LAUNCHER:
            slots = policies.slots(self._job.data, self._spec, container.value)
            names = {entry["name"] for entry in _env(container)}
            ours = self._ours(policies.launcher_variables(slots, ssh_arguments(self._job), names))
        own = self._job_variables if leads else ()
        for more in (ours, own) if self._policy in ("jax", "mpi") else (own, ours):
            container = _with_variables(container, more)
        return container

    def _overridden(self, container: Traced) -> Traced:
        """A container with image, command and arguments of the job (reference 4.1)."""
        for field in ("image", "command", "args"):
            if (value := self._trainer.get(field)) is None:
                continue
            if value:
                part = Traced(value, self._job, ("spec", "trainer", field))
                container = container.with_changes({field: part})
            else:
                # An empty list takes the runtime's away.
                parts = {key: part for key, part in container.parts().items() if key != field}
                container = container.with_fields(parts)
        return container

    def _with_image_of_launcher(self, container: Traced) -> Traced:
        """The image of the job for nodes of MPI that run the launcher's (defect T4)."""
        launcher = policies.replicated_job(self._spec, LAUNCHER)
        before = policies.main_of(launcher).get("image")
        if not self._trainer.get("image") or before != container.value.get("image"):
            return container
        image = Traced(self._trainer["image"], self._job, ("spec", "trainer", "image"))
        return container.with_changes({"image": image})

    def _with_torchtune(self, place: int, container: Traced) -> Traced:
        """A container with the whole command of torchtune (reference 5.2)."""
        assert self._facts is not None  # noqa: S101 - it leads
        words = policies.main_of(self._jobs[place]).get("command", ())
        name = self._runtime.data["metadata"]["name"]
        command = torchtune.command(self._facts, name, words, self._trainer.get("args", ()))
        part = Traced(command, self._job, ("spec", "trainer", "command"))
        return container.with_changes({"command": part})

    def _node_facts(self) -> NodeFacts | None:
        """What nodes learn of each other; None if their runtime's policy tells them nothing."""
        if not self._trained or self._policy not in ("torch", "jax", "xgboost"):
            return None
        place = self._trained[0]
        leader = self._jobs[place]
        main = Traced(policies.main_of(leader), self._runtime)
        job = self._job.data
        return NodeFacts(
            job,
            self._spec,
            with_resources(main, self._job, self._spec).value,
            self._counts[place][0],
            f"{job['metadata']['name']}-{leader['name']}-0-0",
            policies.elastic(job),
            policies.backoff_limit(leader["template"]["spec"]),
        )

    def _initialized(self, container: Traced, field: str) -> Traced:
        """A container with what the job says of where data or model come from (reference 4.1)."""
        path = ("spec", "initializer", field)
        wanted = self._job.data["spec"].get("initializer", {}).get(field)
        if wanted is None:
            return container
        if (uri := wanted.get("storageUri")) is not None:
            entry = {"name": "STORAGE_URI", "value": uri}
            container = _with_variables(
                container, [Traced(entry, self._job, (*path, "storageUri"))]
            )
        container = _with_variables(container, self._variables(wanted, path))
        if secret := wanted.get("secretRef"):
            container = _appended(
                container, "envFrom", {"secretRef": dict(secret)}, Traced(None, self._job, path)
            )
        return container

    def _variables(self, owner: Mapping[str, Any], path: ValuePath) -> list[Traced]:
        """The variables of a part of the job: without a value they are empty."""
        return [
            Traced(
                entry if "valueFrom" in entry else {**entry, "value": entry.get("value") or ""},
                self._job,
                (*path, "env", number),
            )
            for number, entry in enumerate(owner.get("env", ()))
        ]

    def _ours(self, variables: Iterable[Mapping[str, Any]]) -> list[Traced]:
        """Variables that the job has by its runtime's policy."""
        return [Traced(entry, self._job, ("spec", "runtimeRef")) for entry in variables]


def _env(container: Traced) -> Sequence[Mapping[str, Any]]:
    return container.value.get("env") or ()


def _part(owner: Traced, field: str, default: Any) -> Traced:
    """A field of a mapping; the default, in its place, if it has none."""
    part = owner.part(field)
    if part is not None and part.value is not None:
        return part
    return Traced(default, owner.source, (*owner.path, field))


def _appended(owner: Traced, field: str, value: Any, place: Traced | None = None) -> Traced:
    """A mapping with one more entry in one of its lists, written at a place if anywhere."""
    entries = _part(owner, field, [])
    place = place or entries
    items = [*entries.items(), Traced(value, place.source, place.path)]
    return owner.with_changes({field: entries.with_items(items)})


def _with_variables(container: Traced, more: Sequence[Traced]) -> Traced:
    """A container with variables: one of a name takes the place of the one before."""
    if not more:
        return container
    env = _part(container, "env", [])
    variables = {entry.value["name"]: entry for entry in (*env.items(), *more)}
    return container.with_changes({"env": env.with_items(variables.values())})


# Claims -------------------------------------------------------------------------------------------


def claim_templates(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The templates of claims in the spec of a runtime, JSON (reference 7.3)."""
    for policy in spec["template"]["spec"].get("volumeClaimPolicies", ()):
        yield from policy.get("templates", ())


def claim_name(template: Mapping[str, Any], job: Mapping[str, Any]) -> str:
    """The name of the claim that a job has of a template."""
    return f"{template['metadata']['name']}-{job['metadata']['name']}"


def claim_volume(template: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
    """The volume of a Pod that mounts the claim which a job has of a template."""
    claim = {"claimName": claim_name(template, job)}
    return {"name": template["metadata"]["name"], "persistentVolumeClaim": claim}


def claims(job: Mapping[str, Any], spec: Mapping[str, Any]) -> tuple[Claim, ...]:
    """The claims of a job, which its Pods share."""
    return tuple(
        Claim(
            name=claim_name(template, job),
            spec=template.get("spec", {}),
            labels=template["metadata"].get("labels", {}),
            annotations=template["metadata"].get("annotations", {}),
        )
        for template in claim_templates(spec)
    )


def mounted_volumes(pod: Mapping[str, Any]) -> Iterator[str]:
    """The names of the volumes that the containers of a Pod mount."""
    for field in ("initContainers", "containers"):
        for container in pod.get(field, ()):
            yield from (mount["name"] for mount in container.get("volumeMounts", ()))


def _with_claims(
    jobs: list[Traced], job: Mapping[str, Any], spec: Mapping[str, Any]
) -> list[Traced]:
    """The replicatedJobs with a volume for each claim that one of their containers mounts.

    A claim of ReadWriteOnce can be attached to one node. JobSet makes Pods one after the other;
    here who waits is there from the start, so where each of its Jobs has one Pod these are put
    together: else who waits could hold the volume that another needs on another node.
    """
    for template in claim_templates(spec):
        name, volume = template["metadata"]["name"], claim_volume(template, job)
        users = [
            place
            for place, replicated in enumerate(jobs)
            if name in {*mounted_volumes(value_at(replicated.value, _POD))}
        ]
        is_single = template.get("spec", {}).get("accessModes") == ["ReadWriteOnce"]
        of_users = [jobs[place].value for place in users]
        counts = [
            user["template"]["spec"]["parallelism"] * (user.get("replicas") or 1)
            for user in of_users
        ]
        together = None
        if is_single and len(users) > 1 and set(counts) == {1}:
            together = [user["name"] for user in of_users]
        for place in users:
            change = partial(
                _with_volume, volume=volume, together=together, job=job["metadata"]["name"]
            )
            jobs[place] = jobs[place].changed(_POD, change)
    return jobs


def _with_volume(
    pod: Traced, volume: Mapping[str, Any], together: list[str] | None, job: str
) -> Traced:
    """A Pod with a volume; on the node of the Pods of some replicatedJobs, if there are any."""
    volumes = _part(pod, "volumes", [])
    others = [other for other in volumes.items() if other.value["name"] != volume["name"]]
    own = Traced(volume, volumes.source, volumes.path)
    pod = pod.with_changes({"volumes": volumes.with_items([*others, own])})
    if together is None:
        return pod
    term = {
        "labelSelector": {
            "matchExpressions": [
                {
                    "key": "jobset.sigs.k8s.io/replicatedjob-name",
                    "operator": "In",
                    "values": together,
                }
            ],
            "matchLabels": {"jobset.sigs.k8s.io/jobset-name": job},
        },
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity = _part(pod, "affinity", {})
    near = _part(affinity, "podAffinity", {})
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if term in near.value.get(required, ()):
        return pod
    affinity = affinity.with_changes({"podAffinity": _appended(near, required, term)})
    return pod.with_changes({"affinity": affinity})
