"""Merge a TrainJob and its runtime into one document, as Trainer does before it creates a JobSet.

See reference/trainer-v2.md 4 and 5. The result is the TrainJob with the runtime under `runtime`,
and the job's changes in its Pod templates. So Kubernetes' rules are checked against the final Pod
templates, and the stored job needs no runtime. Each value still has the place where it was written.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from etcompile.diagnostics import Source, ValuePath
from etcompile.frontends.ssh_access import ssh_arguments
from etcompile.frontends.trainer import policies, torchtune
from etcompile.frontends.trainer.training_run import (
    INDEX,
    INITIALIZERS,
    JOB_SET,
    LAUNCHER,
    MAIN,
    NODE,
    POD,
    PORT,
    RUNTIME,
    Training,
    main_of,
    mounted_volumes,
    step_of,
)
from etcompile.k8s import strategic
from etcompile.k8s.path import value_at
from etcompile.k8s.traced import Step, Traced
from etcompile.model import Origin

_INDEX_VARIABLE = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}},
}
_REFERENCE: ValuePath = ("spec", "runtimeRef")
"""The place of what follows from the policy of the runtime."""
_REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def merged(job: Source, runtime: Source) -> Traced:
    """Merge a TrainJob into its runtime. Both are valid, and `unsupported` accepts them."""
    merge = _Merge(Training(job, Origin(runtime)))
    parts = Traced(runtime.data, runtime).changed((*JOB_SET, "replicatedJobs"), merge.jobs).parts()
    name = parts["metadata"].parts()["name"]
    parts["metadata"] = parts["metadata"].with_fields({"name": name})
    fields = ("apiVersion", "kind", "metadata", "spec")
    whole = Traced({}, runtime).with_fields({field: parts[field] for field in fields})
    return Traced(job.data, job).with_changes({RUNTIME: whole})


def with_resources(container: Traced, training: Training) -> Traced:
    """Add the resources of a job to a container, if there is an mlPolicy (reference 4, step 5)."""
    job = Traced(training.source.data, training.source)
    stated = job.at(("spec", "trainer", "resourcesPerNode"))
    if stated is None or not stated.value or "mlPolicy" not in training.spec:
        return container
    resources = _part(container, "resources", {})
    return container.with_changes({"resources": strategic.merged(resources, stated, "TrainJob")})


class _Merge:
    """The changes of a TrainJob to the replicatedJobs of its runtime."""

    def __init__(self, training: Training) -> None:
        self._training, self._job = training, training.source
        self._counts, self._trained = training.counts, training.trainers
        self._variables = self._variables_of(training.stated, ("spec", "trainer"))
        self._main: Mapping[str, Any] = {}
        self._node_variables: Sequence[Traced] = ()
        if self._trained:
            leader = Traced(main_of(training.jobs[self._trained[0]]), training.runtime.source)
            self._main = with_resources(leader, training).value
            self._node_variables = [
                Traced(entry, self._job, _REFERENCE)
                for entry in policies.node_variables(training, self._main)
            ]

    def jobs(self, before: Traced) -> Traced:
        jobs = []
        for place, replicated in enumerate(before.items()):
            # Trainer writes the number of Pods into the Jobs (reference 4, step 7).
            count, path = self._counts[place]
            source = self._job if path[:2] == ("spec", "trainer") else self._training.runtime.source
            number = Traced(count, source, path)
            counts: dict[Step, Traced] = {"parallelism": number, "completions": number}
            change = partial(Traced.with_changes, parts=counts)
            job = replicated.changed(("template", "spec"), change)
            for field in ("initContainers", "containers"):
                if containers := job.at((*POD, field)):
                    items = [self._container(place, field, part) for part in containers.items()]
                    job = job.changed((*POD, field), partial(Traced.with_items, items=items))
            jobs.append(job)
        return before.with_items(_with_claims(jobs, self._training))

    def _container(self, place: int, field: str, container: Traced) -> Traced:
        replicated, name = self._training.jobs[place], container.value["name"]
        if field == "containers" and name == MAIN:
            container = self._training_container(place, container)
        for target in self._training.injections:
            if target["jobName"] == replicated["name"] and name in target["containerNames"]:
                container = _with_variables(container, self._node_variables)
        # The source of data or model of the job (reference 4.1).
        for part, step in INITIALIZERS.items():
            path = ("spec", "initializer", part)
            stated = value_at(self._job.data, path)
            is_initializer = field == "containers" and name == step == step_of(replicated)
            if stated is None or not is_initializer:
                continue
            variables = self._variables_of(stated, path)
            if (uri := stated.get("storageUri")) is not None:
                entry = {"name": "STORAGE_URI", "value": uri}
                variables.insert(0, Traced(entry, self._job, (*path, "storageUri")))
            container = _with_variables(container, variables)
            if secret := stated.get("secretRef"):
                value = {"secretRef": dict(secret)}
                container = _appended(container, "envFrom", value, Traced(None, self._job, path))
        # Every container of an Indexed Job has it (reference 7.4).
        env = container.value.get("env") or ()
        if not any(entry["name"] == _INDEX_VARIABLE["name"] for entry in env):
            container = _appended(container, "env", _INDEX_VARIABLE)
        return container

    def _training_container(self, place: int, container: Traced) -> Traced:
        """Return the container that trains, with the job's settings and the policy's variables.

        The policy's variables come last, except for jax and mpi, whose variables a job may replace
        (reference 4.2). There are some without `spec.trainer`, too (defect T1).
        """
        training, name = self._training, self._training.jobs[place]["name"]
        takes, leads = place in self._trained, self._trained[:1] == [place]
        is_node = training.mpi is not None and name == NODE
        settings = Traced(training.stated, self._job, ("spec", "trainer")).parts()
        if takes:
            # Image, command and arguments of the job (reference 4.1).
            parts = container.parts()
            for field in ("image", "command", "args"):
                if training.stated.get(field):
                    parts[field] = settings[field]
                elif training.stated.get(field) is not None:
                    parts.pop(field, None)  # an empty list removes the runtime's
            container = container.with_fields(parts)
        elif is_node and training.stated.get("image"):
            # Nodes of MPI that run the launcher's image get the job's, too (defect T4).
            before = main_of(training.replicated_job(LAUNCHER)).get("image")
            if before == container.value.get("image"):
                container = container.with_changes({"image": settings["image"]})
        # If the launcher is a node, the nodes of MPI run the same processes.
        if takes or (is_node and training.launcher_is_node):
            container = with_resources(container, training)
            if not leads:
                container = _with_variables(container, self._variables)
        ours: Sequence[Traced] = ()
        if leads and training.policy in ("torch", "jax", "xgboost"):
            ours = self._node_variables
            if training.is_torchtune:
                words = torchtune.command(training, self._main)
                command = Traced(words, self._job, ("spec", "trainer", "command"))
                container = container.with_changes({"command": command})
                ours = [v for v in ours if not v.value["name"].startswith("PET_MASTER_")]
            # Other ports stay, with or without a name (defect T6).
            ports = container.value.get("ports", ())
            known = {(port.get("containerPort"), port.get("protocol") or "TCP") for port in ports}
            if (PORT, "TCP") not in known:
                container = _appended(container, "ports", {"containerPort": PORT})
        elif training.policy == "mpi" and name == LAUNCHER:
            slots = training.slots(container.value)
            names = {entry["name"] for entry in container.value.get("env") or ()}
            added = policies.launcher_variables(slots, ssh_arguments(self._job), names)
            ours = [Traced(entry, self._job, _REFERENCE) for entry in added]
        stated = self._variables if leads else ()
        for more in (ours, stated) if training.policy in ("jax", "mpi") else (stated, ours):
            container = _with_variables(container, more)
        return container

    def _variables_of(self, owner: Mapping[str, Any], path: ValuePath) -> list[Traced]:
        return [
            Traced(
                entry if "valueFrom" in entry else {**entry, "value": entry.get("value") or ""},
                self._job,
                (*path, "env", number),
            )
            for number, entry in enumerate(owner.get("env", ()))
        ]


def _part(owner: Traced, field: str, default: Any) -> Traced:
    part = owner.part(field)
    if part is not None and part.value is not None:
        return part
    return Traced(default, owner.source, (*owner.path, field))


def _appended(owner: Traced, field: str, value: Any, place: Traced | None = None) -> Traced:
    """Append an entry to a list of a mapping, written at `place` if it is known."""
    entries = _part(owner, field, [])
    place = place or entries
    items = [*entries.items(), Traced(value, place.source, place.path)]
    return owner.with_changes({field: entries.with_items(items)})


def _with_variables(container: Traced, more: Sequence[Traced]) -> Traced:
    """Add variables to a container; they replace those of the same names."""
    if not more:
        return container
    env = _part(container, "env", [])
    variables = {entry.value["name"]: entry for entry in (*env.items(), *more)}
    return container.with_changes({"env": env.with_items(variables.values())})


def _with_claims(jobs: list[Traced], training: Training) -> list[Traced]:
    """Add a volume for each claim to the replicatedJobs whose containers mount it.

    A claim of ReadWriteOnce can be attached to one node. JobSet creates Pods one after the other,
    but here waiting Pods exist from the start. So if each of a claim's Jobs has one Pod, an
    affinity puts these together: otherwise a waiting Pod could hold the volume on another node.
    """
    for template in training.claims:
        name, volume = template["metadata"]["name"], training.claim_volume(template)
        users = [
            place
            for place, replicated in enumerate(jobs)
            if name in {*mounted_volumes(value_at(replicated.value, POD))}
        ]
        is_single = template.get("spec", {}).get("accessModes") == ["ReadWriteOnce"]
        of_users = [jobs[place].value for place in users]
        pods = {
            user["template"]["spec"]["parallelism"] * (user.get("replicas") or 1)
            for user in of_users
        }
        names = [user["name"] for user in of_users]
        is_together = is_single and len(users) > 1 and pods == {1}
        term = {
            "labelSelector": {
                "matchExpressions": [{"key": _REPLICATED_JOB, "operator": "In", "values": names}],
                "matchLabels": {"jobset.sigs.k8s.io/jobset-name": training.name},
            },
            "topologyKey": "kubernetes.io/hostname",
        }
        for place in users:
            pod = jobs[place].at(POD)
            assert pod is not None  # noqa: S101 - the schema requires it
            volumes = _part(pod, "volumes", [])
            others = [other for other in volumes.items() if other.value["name"] != name]
            added = Traced(volume, volumes.source, volumes.path)
            changes: dict[Step, Traced] = {"volumes": volumes.with_items([*others, added])}
            affinity = _part(pod, "affinity", {})
            near = _part(affinity, "podAffinity", {})
            if is_together and term not in near.value.get(_REQUIRED, ()):
                near = _appended(near, _REQUIRED, term)
                changes["affinity"] = affinity.with_changes({"podAffinity": near})
            jobs[place] = jobs[place].changed(POD, partial(Traced.with_changes, parts=changes))
    return jobs
