"""What a TrainJob and its runtime ask that is not compiled, field by field, and what does nothing.

The merge can then rely on Jobs that fit together. A field that is refused here is `refused` in the
schemas, so that the pages say so too.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.frontends.gang import VOLCANO_QUEUE
from etcompile.frontends.notes import no_effect, not_compiled, ttl_note, unused
from etcompile.frontends.trainer import policies, torchtune
from etcompile.frontends.trainer.merge import (
    INITIALIZERS,
    JOB_SET,
    STEP,
    TRAINER,
    claim_name,
    claim_templates,
    claim_volume,
    mounted_volumes,
    node_counts,
    step_of,
    trainers,
    with_resources,
)
from etcompile.frontends.trainer.policies import LAUNCHER, MAIN, NODE, RESERVED, NodeFacts
from etcompile.frontends.trainer.runtime_patches import OVERRIDES, renamed
from etcompile.frontends.trainer.trainjob import TOPOLOGY
from etcompile.k8s.names import is_subdomain
from etcompile.k8s.path import containers_of, dotted, value_at
from etcompile.k8s.traced import Traced
from etcompile.model import Origin

_JOB_SET: ValuePath = JOB_SET[1:]
_INJECTION: ValuePath = ("spec", "mlPolicy", "torch", "envInjection", "targets")
_POD: ValuePath = ("template", "spec", "template", "spec")
_MOST_AWAITED = 5
_LONGEST = 63
"""The most characters of a claim's name that JobSet takes, and of a label's value."""

_OF_JOB: Sequence[tuple[ValuePath, str, str]] = (
    *(
        (
            ("spec", field),
            "it is for all Jobs of the runtime, or has patches beside it",
            "name the Jobs in targetJobs, or write patches of spec.runtimePatches alone",
        )
        for field in OVERRIDES
    ),
    (
        ("spec", "trainer", "resourcesPerNode", "claims"),
        "Trainer loses them, too",
        "write them into the runtime",
    ),
)
_OF_RUNTIME: Sequence[tuple[ValuePath, str, str]] = (
    (
        ("spec", "mlPolicy", "flux"),
        "Flux, which starts the processes, is not installed into the Pods",
        "use a runtime with mpi",
    ),
    (
        (*_JOB_SET, "failurePolicy", "rules"),
        "a Job has no reasons of its failure here by which rules could choose",
        "leave the rules out: any Job that fails restarts all, as often as maxRestarts",
    ),
    ((*_JOB_SET, "managedBy"), "there is no JobSet", ""),
)
"""Fields that are not compiled, why, and what to do instead."""
_OF_WHOLE_RUN = "failures are counted for the run as a whole"
_OF_JOB_SPEC = {
    "podFailurePolicy": "a failure has no rules of its own: maxRestarts of the JobSet counts",
    "successPolicy": "successPolicy of the JobSet says which Jobs decide",
    "backoffLimitPerIndex": _OF_WHOLE_RUN,
    "maxFailedIndexes": _OF_WHOLE_RUN,
    "manualSelector": "no controller selects Pods",
    "selector": "no controller selects Pods",
    "managedBy": "there is no Job",
}
"""The same of a Job."""
_IDLE = {
    "startupPolicy": "Pods are made at once; dependsOn says who waits for whom",
    "suspend": "suspend of the TrainJob counts",
}
"""Fields of a JobSet that change nothing, and why."""


def refusals(job: Source, runtime: Source) -> list[Diagnostic]:
    """Why a job cannot be compiled with its runtime; nothing if it can."""
    rows = ((job, _OF_JOB), (runtime, _OF_RUNTIME))
    return [
        *(
            not_compiled(source.locate(path, key=True), dotted(path), why, advice)
            for source, table in rows
            for path, why, advice in table
            if value_at(source.data, path) is not None
        ),
        *_of_runtime(runtime),
        *_claims(job, runtime),
        *_coordinator(job, runtime),
        *_injection(runtime),
        *_initializers(job, runtime),
        *_trainer(job, runtime),
        *_success(job, runtime),
        *_mpi(job, runtime),
        *_torchtune(job, runtime),
    ]


# What does nothing --------------------------------------------------------------------------------


def notes(job: Source, runtime: Source) -> list[Diagnostic]:
    """Warnings for what a job and its runtime say without effect."""
    return [*_old(job, runtime), *_idle_fields(job, runtime), *_idle_parts_of_jobs(job, runtime)]


def _old(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """A runtime that its label calls deprecated (reference 3), and what only 2.0 and 2.1 take."""
    metadata = runtime.data["metadata"]
    if (metadata.get("labels") or {}).get("trainer.kubeflow.org/support") == "deprecated":
        facts = {"kind": runtime.data["kind"], "name": metadata["name"]}
        place = job.locate(("spec", "runtimeRef", "name"))
        yield diagnose(codes.DEPRECATED_RUNTIME, place, **facts)
    torch = runtime.data["spec"].get("mlPolicy", {}).get("torch") or {}
    if "numProcPerNode" in torch:
        advice = "write a number into spec.trainer.numProcPerNode of each TrainJob; auto needs none"
        yield renamed(runtime, ("spec", "mlPolicy", "torch", "numProcPerNode"), advice)
    if isinstance(job.data["spec"].get("trainer", {}).get("numProcPerNode"), str):
        advice = "leave it out, or write a number"
        yield renamed(job, ("spec", "trainer", "numProcPerNode"), advice)


def _idle_fields(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    spec = runtime.data["spec"]
    if "mlPolicy" not in spec:
        reason = "the runtime has no mlPolicy: Trainer ignores it there"
        path: ValuePath = ("spec", "trainer", "resourcesPerNode")
        yield from no_effect(job, path, reason, "add mlPolicy: {} to the runtime, or remove it")
    if not {"torch", "mpi"} & spec.get("mlPolicy", {}).keys():
        reason = "only the policies torch and mpi tell nodes of it"
        yield from no_effect(job, ("spec", "trainer", "numProcPerNode"), reason)
    read = {TOPOLOGY, *([VOLCANO_QUEUE] if "podGroupPolicy" in spec else [])}
    for field in ("labels", "annotations"):
        if spec["template"].get("metadata", {}).get(field, {}).keys() - read:
            reason = "it is the JobSet's, and there is none"
            yield from no_effect(runtime, ("spec", "template", "metadata", field), reason)
    for field, reason in _IDLE.items():
        yield from no_effect(runtime, (*_JOB_SET, field), reason)
    jobs = range(len(_jobs(runtime)))
    for owner in ((), *(("replicatedJobs", place, "template", "spec") for place in jobs)):
        yield from ttl_note(runtime, (*_JOB_SET, *owner, "ttlSecondsAfterFinished"))
    claims = spec["template"]["spec"].get("volumeClaimPolicies", ())
    for place, policy in enumerate(claims):
        if policy.get("retentionPolicy", {}).get("whenDeleted") == "Delete":
            path = (*_JOB_SET, "volumeClaimPolicies", place, "retentionPolicy", "whenDeleted")
            reason = "no claim is deleted with its job, because it holds data"
            advice = "delete the claim by its name when its data is not needed any more"
            yield unused(runtime.locate(path), "retentionPolicy.whenDeleted", reason, advice)


def _idle_parts_of_jobs(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    counts, jobs = node_counts(job.data, runtime.data["spec"]), _jobs(runtime)
    for place, ((count, path), replicated) in enumerate(zip(counts, jobs, strict=True)):
        template = replicated["template"]
        origin = Origin(runtime, (*_JOB_SET, "replicatedJobs", place, "template"))
        # Numbers of Pods that another number overrides (reference 4, step 7).
        for field in ("parallelism", "completions"):
            if template["spec"].get(field) not in (None, count):
                where = f"{field} of the Job '{replicated['name']}'"
                reason = f"{path[-1]} says that there are {count} Pods"
                yield unused(origin.locate("spec", field), where, reason)
        for field in ("labels", "annotations"):
            for name in template.get("metadata", {}).get(field, {}):
                if name not in (STEP, TOPOLOGY):
                    at = origin.locate("metadata", field, name, key=True)
                    yield unused(at, f"{field[:-1]} {name}", "it is the Job's, and there is none")
        if "suspend" in template["spec"]:
            at = origin.locate("spec", "suspend", key=True)
            yield unused(at, "spec.suspend of the Job", _IDLE["suspend"])


# What is refused ----------------------------------------------------------------------------------


def _of_runtime(runtime: Source) -> Iterator[Diagnostic]:
    spec, name = runtime.data["spec"], runtime.data["metadata"]["name"]
    job_set, jobs = spec["template"]["spec"], _jobs(runtime)
    if not is_subdomain(name):
        why = "it is no DNS name: lower-case letters, digits, '-' and '.', at most 253"
        place = runtime.locate(("metadata", "name"))
        yield not_compiled(place, f"name '{name}' of the runtime", why, "rename it")
    policy = spec.get("mlPolicy", {})
    named = [name for name in ("torch", "jax", "xgboost", "mpi", "flux") if name in policy]
    if len(named) > 1:
        why = f"a runtime has one policy, and this one has {' and '.join(named)}"
        place = runtime.locate(("spec", "mlPolicy", named[1]), key=True)
        yield not_compiled(place, f"spec.mlPolicy.{named[1]}", why, "remove the others")
    annotations = spec["template"].get("metadata", {}).get("annotations", {})
    if "volcano" in (spec.get("podGroupPolicy") or {}) and annotations.get(VOLCANO_QUEUE) == "":
        place = runtime.locate(("spec", "template", "metadata", "annotations", VOLCANO_QUEUE))
        why = "Trainer refuses an empty name of a queue"
        yield not_compiled(place, VOLCANO_QUEUE, why, "name a queue, or remove it")
    order = job_set.get("startupPolicy", {}).get("startupPolicyOrder")
    if order == "InOrder" and any(replicated.get("dependsOn") for replicated in jobs):
        place = runtime.locate((*_JOB_SET, "startupPolicy", "startupPolicyOrder"))
        why = "dependsOn says who waits for whom already, and Trainer takes one of the two"
        yield not_compiled(place, "startupPolicyOrder InOrder", why, "remove it")
    names = [replicated["name"] for replicated in jobs]
    references: list[tuple[ValuePath, str, str]] = []
    for target in job_set.get("successPolicy", {}).get("targetReplicatedJobs", ()):
        path = (*_JOB_SET, "successPolicy", "targetReplicatedJobs")
        references.append((path, target, "successPolicy.targetReplicatedJobs"))
    if (coordinator := job_set.get("coordinator")) is not None:
        path = (*_JOB_SET, "coordinator", "replicatedJob")
        references.append((path, coordinator["replicatedJob"], "coordinator"))
    for number, target in enumerate(policies.injections(spec)):
        path, name = (*_INJECTION, number, "jobName"), target["jobName"]
        references.append((path, name, f"envInjection of '{name}'"))
    for path, name, where in references:
        if name not in names:
            why = f"the runtime has no replicatedJob '{name}', only {', '.join(names)}"
            yield not_compiled(runtime.locate(path), where, why, "name one of these")
    for number, replicated in enumerate(jobs):
        origin = Origin(runtime, (*_JOB_SET, "replicatedJobs", number))
        yield from _of_replicated_job(origin, replicated, names[:number], runtime)


def _of_replicated_job(
    origin: Origin, replicated: Mapping[str, Any], before: Sequence[str], runtime: Source
) -> Iterator[Diagnostic]:
    """What is wrong with a replicatedJob; `before` are the names of those in front of it."""
    step = step_of(replicated)
    needed = {TRAINER: MAIN, **{known: known for known in INITIALIZERS.values()}}.get(step or "")
    if needed and (replicated.get("replicas") or 1) != 1:
        where, why = f"replicas of '{replicated['name']}'", f"what is labelled as {step} is one Job"
        yield not_compiled(origin.locate("replicas"), where, why, "write 1")
    yield from _depends_on(origin, replicated.get("dependsOn", ()), before, runtime)
    spec = replicated["template"]["spec"]
    for field, why in _OF_JOB_SPEC.items():
        if spec.get(field) is not None:
            place = origin.locate("template", "spec", field, key=True)
            yield not_compiled(place, f"{field} of the Job", why, "remove it")
    pod, at = spec["template"]["spec"], origin.at(*_POD)
    containers = [container["name"] for container in pod["containers"]]
    if needed and needed not in containers:
        facts = {"kind": "TrainJob", "container": needed, "names": ", ".join(containers)}
        yield diagnose(codes.NO_SUCH_CONTAINER, at.locate("containers"), **facts)
    if (restart := pod.get("restartPolicy")) not in (None, "OnFailure", "Never"):
        why = "Pods of a Job have OnFailure or Never"
        where = f"restartPolicy {restart}"
        yield not_compiled(at.locate("restartPolicy"), where, why, "write OnFailure")


def _depends_on(
    origin: Origin, entries: Sequence[Mapping[str, Any]], before: Sequence[str], runtime: Source
) -> Iterator[Diagnostic]:
    """What JobSet's webhook says of dependsOn (reference 7.1), and what a gate cannot do."""
    if len(entries) > _MOST_AWAITED:
        why = f"JobSet lets a Job wait for at most {_MOST_AWAITED} others"
        place = origin.locate("dependsOn", key=True)
        yield not_compiled(place, "dependsOn", why, "name fewer")
    for number, entry in enumerate(entries):
        if entry["name"] not in before:
            known = f"only for {', '.join(before)}" if before else "and this is the first one"
            why = f"a Job waits only for ones in front of it, {known}"
            at = origin.locate("dependsOn", number, "name")
            yield not_compiled(at, f"dependsOn '{entry['name']}'", why, "change their order")
    # A gate tries one port of all hosts that it waits for.
    is_mpi = policies.mpi(runtime.data["spec"]) is not None
    awaited = {entry["name"] for entry in entries if entry["status"] == "Ready"}
    ports = {
        "ssh" if is_mpi and other["name"] == NODE else policies.ready_port(value_at(other, _POD))
        for other in _jobs(runtime)
        if other["name"] in awaited
    }
    if len(ports) > 1:
        texts = " and ".join(sorted("none" if port is None else str(port) for port in ports))
        why = f"the Jobs that are waited for until they are Ready answer on other ports: {texts}"
        place = origin.locate("dependsOn", key=True)
        yield not_compiled(place, "dependsOn", why, "give their readiness probes one port")


def _claims(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """What JobSet's webhook says of templates of claims (reference 7.3)."""
    pods = [value_at(replicated, _POD) for replicated in _jobs(runtime)]
    mounted = {name for pod in pods for name in mounted_volumes(pod)}
    known: dict[str, Mapping[str, Any]] = {}
    claims = runtime.data["spec"]["template"]["spec"].get("volumeClaimPolicies", ())
    for number, policy in enumerate(claims):
        for index, template in enumerate(policy.get("templates", ())):
            path = (*_JOB_SET, "volumeClaimPolicies", number, "templates", index)
            place = runtime.locate((*path, "metadata", "name"))
            name, full_name = template["metadata"]["name"], claim_name(template, job.data)
            where = f"claim '{name}'"
            if name in known:
                yield not_compiled(place, where, "another template has this name", "rename one")
            elif name not in mounted:
                why = "no container has a volumeMount of this name"
                yield not_compiled(place, where, why, "mount it, or remove it")
            if len(full_name) > _LONGEST:
                why = f"it would be called '{full_name}', and JobSet takes {_LONGEST} characters"
                yield not_compiled(place, where, why, "use a shorter name")
            known[name] = claim_volume(template, job.data)
    for number, pod in enumerate(pods):
        for index, volume in enumerate(pod.get("volumes", ())):
            # A runtime that was merged with the job has the volume of the claim itself.
            if volume["name"] in known and volume != known[volume["name"]]:
                path = (*_JOB_SET, "replicatedJobs", number, *_POD, "volumes", index, "name")
                why = "a template of volumeClaimPolicies has this name"
                where = f"volume '{volume['name']}'"
                yield not_compiled(runtime.locate(path), where, why, "rename one of them")


def _coordinator(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """Whether there is the Pod that all others know, and a label can hold its name."""
    spec = runtime.data["spec"]
    coordinator = spec["template"]["spec"].get("coordinator") or {}
    name, path = coordinator.get("replicatedJob"), (*_JOB_SET, "coordinator")
    host = policies.coordinator(job.data, spec) or ""
    for replicated, (pods, _) in zip(_jobs(runtime), node_counts(job.data, spec), strict=True):
        if replicated["name"] != name:
            continue
        if (coordinator.get("jobIndex") or 0) >= (replicated.get("replicas") or 1):
            place = runtime.locate((*path, "jobIndex"))
            yield not_compiled(place, "coordinator", f"'{name}' has not so many Jobs", "")
        if (coordinator.get("podIndex") or 0) >= pods:
            place, why = runtime.locate((*path, "podIndex")), f"'{name}' has {pods} Pods"
            yield not_compiled(place, "coordinator", f"{why}, counted from 0", "name one of them")
        elif len(host) > _LONGEST:
            place = runtime.locate(path, key=True)
            why = f"'{host}' has {len(host)} characters, and a label may have {_LONGEST}"
            yield not_compiled(place, "coordinator", why, "use shorter names")


def _injection(runtime: Source) -> Iterator[Diagnostic]:
    """Containers that are to have the variables of torch, and are not there (reference 5.1)."""
    pods = {replicated["name"]: value_at(replicated, _POD) for replicated in _jobs(runtime)}
    for number, target in enumerate(policies.injections(runtime.data["spec"])):
        name, pod = target["jobName"], pods.get(target["jobName"], {})
        known = [container["name"] for _, container in containers_of(pod)]
        for index, container in enumerate(target["containerNames"] if pod else ()):
            place = runtime.locate((*_INJECTION, number, "containerNames", index))
            where = f"envInjection of container '{container}'"
            if container == MAIN:
                yield not_compiled(place, where, "it has the variables anyway", "remove it")
            elif container not in known:
                why = f"replicatedJob '{name}' has only {', '.join(known)}"
                yield not_compiled(place, where, why, "name one of these")


def _initializers(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """Initializers that the job asks for, and whether what they fetch arrives (T8, T9, T10)."""
    jobs = _jobs(runtime)
    used = {
        volume
        for replicated in jobs
        if step_of(replicated) not in INITIALIZERS.values()
        for volume in _shared_volumes(replicated, runtime)
    }
    initializer = job.data["spec"].get("initializer", {})
    for field, step in INITIALIZERS.items():
        if (wanted := initializer.get(field)) is None:
            continue
        place = job.locate(("spec", "initializer", field), key=True)
        where = f"spec.initializer.{field}"
        replicated = next((other for other in jobs if step_of(other) == step), None)
        if replicated is None:
            why = f"the runtime {runtime.data['metadata']['name']} has no replicatedJob for it"
            advice = f"give it one whose template has the label {STEP}: {step}"
            yield not_compiled(place, where, why, advice)
        elif str(wanted.get("storageUri") or "").startswith("cache://"):
            place = job.locate(("spec", "initializer", field, "storageUri"))
            why = "the cache asks Trainer's own API, and starts a LeaderWorkerSet"
            yield not_compiled(place, where, why, "")
        elif not used & {*_shared_volumes(replicated, runtime)}:
            why = "what it fetches would reach nobody: no other Job mounts a claim that it mounts"
            advice = "add volumeClaimPolicies to the runtime, and mount the claim in both"
            yield not_compiled(place, where, why, advice)


def _shared_volumes(replicated: Mapping[str, Any], runtime: Source) -> Iterator[str]:
    """The volumes of a Pod template that other Pods may see, too, by what they hold."""
    pod = value_at(replicated, _POD)
    claims = (template["metadata"]["name"] for template in claim_templates(runtime.data["spec"]))
    shared = {name: f"claim {name}" for name in claims}
    for volume in pod.get("volumes", ()):
        for kind in ("persistentVolumeClaim", "nfs", "csi", "hostPath", "cephfs", "azureFile"):
            if kind in volume:
                shared.setdefault(volume["name"], f"{kind} {sorted(volume[kind].items())}")
    return (shared[name] for name in mounted_volumes(pod) if name in shared)


def _trainer(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """Fields for the Job that trains, where no Job of the runtime is marked as that one.

    MPI finds its nodes by the name of their Job, and so needs no label to count them (reference
    5.6).
    """
    if trainers(_jobs(runtime)):
        return
    names = {replicated["name"] for replicated in _jobs(runtime)}
    is_mpi = policies.mpi(runtime.data["spec"]) is not None
    read = {"numNodes", "numProcPerNode"} if is_mpi and NODE in names else set()
    why = f"no Job of the runtime has the label {STEP}: {TRAINER}, so that it would change nothing"
    advice = "give the template of one of its replicatedJobs that label"
    for field in job.data["spec"].get("trainer", {}):
        if field not in read:
            place = job.locate(("spec", "trainer", field), key=True)
            yield not_compiled(place, f"spec.trainer.{field}", why, advice)


def _success(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """A run that ends with any of several Jobs: Pods are told apart here, not Jobs."""
    spec = runtime.data["spec"]
    policy = spec["template"]["spec"].get("successPolicy", {})
    if policy.get("operator") != "Any":
        return
    targets = policy.get("targetReplicatedJobs") or ()
    deciding = [
        (replicated, count)
        for replicated, (count, _) in zip(_jobs(runtime), node_counts(job.data, spec), strict=True)
        if count and (not targets or replicated["name"] in targets)
    ]
    several = sum(replicated.get("replicas") or 1 for replicated, _ in deciding) > 1
    place = runtime.locate((*_JOB_SET, "successPolicy", "operator"))
    for replicated, count in deciding:
        if several and count > 1:
            why = (
                f"'{replicated['name']}' has {count} Pods, and the first of them would end the run"
            )
            advice = "name one Job in targetReplicatedJobs, or all with the operator All"
            yield not_compiled(place, "successPolicy.operator Any", why, advice)


def _mpi(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """What a runtime's policy wants of a job (reference 5.1, 5.4, 5.6), and MPI of its Jobs."""
    policy, trainer = runtime.data["spec"].get("mlPolicy", {}), job.data["spec"].get("trainer", {})
    mpi, processes = policies.mpi(runtime.data["spec"]), trainer.get("numProcPerNode")
    if mpi is not None and isinstance(processes, str):
        place = job.locate(("spec", "trainer", "numProcPerNode"))
        where, advice = f"numProcPerNode: {processes}", "write a number, or leave it out"
        yield not_compiled(place, where, "MPI needs a number", advice)
    names = [replicated["name"] for replicated in _jobs(runtime)]
    nodes = trainer.get("numNodes") or 1
    for needed in (NODE, LAUNCHER) if (mpi or {}).get("runLauncherAsNode") else ():
        if needed not in names and nodes > 1:
            place = runtime.locate(("spec", "mlPolicy", "mpi", "runLauncherAsNode"), key=True)
            where = f"runLauncherAsNode with {nodes} nodes"
            why = f"the runtime has no replicatedJob '{needed}'"
            yield not_compiled(place, where, why, "add one, or leave runLauncherAsNode out")
    reserved = {
        name for framework in RESERVED if framework in policy for name in RESERVED[framework]
    }
    for number, entry in enumerate(trainer.get("env", ())):
        if entry["name"] in reserved:
            place = job.locate(("spec", "trainer", "env", number, "name"))
            why = "the runtime's policy sets it, and Trainer refuses another value"
            yield not_compiled(place, f"variable {entry['name']}", why, "remove it")


def _torchtune(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """Why a command of torchtune cannot be completed (reference 5.2)."""
    spec, trainer = runtime.data["spec"], job.data["spec"].get("trainer", {})
    if "torch" not in spec.get("mlPolicy", {}) or trainer.get("command") != torchtune.COMMAND:
        return
    counts, jobs = node_counts(job.data, spec), _jobs(runtime)
    for number in trainers(jobs)[:1]:
        if not (container := policies.main_of(jobs[number])):
            return
        resources = with_resources(Traced(container, runtime), job, spec).value
        facts = NodeFacts(job.data, spec, resources, counts[number][0], "")
        name, args = runtime.data["metadata"]["name"], trainer.get("args", ())
        for field, why in torchtune.problems(facts, name, args):
            place = job.locate(("spec", "trainer", field))
            advice = "write the whole command to decide yourself"
            yield not_compiled(place, f"{field} of tune run", why, advice)


def _jobs(runtime: Source) -> Sequence[Mapping[str, Any]]:
    jobs: Sequence[Mapping[str, Any]] = runtime.data["spec"]["template"]["spec"]["replicatedJobs"]
    return jobs
