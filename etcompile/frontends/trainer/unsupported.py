"""Report fields of a TrainJob and its runtime that are not compiled, or have no effect.

So the merge can rely on Jobs that fit together. A field that is refused here is `refused` in the
schemas, so that the pages say so too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.frontends.gang import VOLCANO_QUEUE
from etcompile.frontends.notes import no_effect, no_such_container, not_compiled, ttl_note, unused
from etcompile.frontends.trainer import torchtune
from etcompile.frontends.trainer.merge import with_resources
from etcompile.frontends.trainer.policies import RESERVED
from etcompile.frontends.trainer.training_run import (
    INITIALIZERS,
    JOB_SET,
    LAUNCHER,
    MAIN,
    NODE,
    POD,
    POLICIES,
    STEP,
    TRAINER,
    Training,
    main_of,
    mounted_volumes,
    ready_port,
    step_of,
)
from etcompile.frontends.trainer.trainjob import TOPOLOGY
from etcompile.k8s.names import is_subdomain
from etcompile.k8s.path import containers_of, dotted, value_at
from etcompile.k8s.traced import Traced
from etcompile.model import Origin

_INJECTION: ValuePath = ("spec", "mlPolicy", "torch", "envInjection", "targets")
_JOBS: ValuePath = (*JOB_SET, "replicatedJobs")

_MOST_AWAITED = 5
_LONGEST = 63  # the most characters of a claim's name in JobSet, and of a label's value

_OF_JOB: Sequence[tuple[ValuePath, str, str]] = (
    *(
        (
            ("spec", field),
            "it is for all Jobs of the runtime, or has patches beside it",
            "name the Jobs in targetJobs, or write patches of spec.runtimePatches alone",
        )
        for field in ("podTemplateOverrides", "podSpecOverrides")
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
        (*JOB_SET, "failurePolicy", "rules"),
        "a Job has no reasons of its failure here by which rules could choose",
        "leave the rules out: any Job that fails restarts all, as often as maxRestarts",
    ),
    ((*JOB_SET, "managedBy"), "there is no JobSet", ""),
)
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
"""The same for a Job."""
_IDLE = {
    "startupPolicy": "Pods are made at once; dependsOn says who waits for whom",
    "suspend": "suspend of the TrainJob counts",
}


def refusals(job: Source, runtime: Source) -> list[Diagnostic]:
    training = Training(job, Origin(runtime))
    rows = ((job, _OF_JOB), (runtime, _OF_RUNTIME))
    return [
        *(
            not_compiled(source.locate(path, key=True), dotted(path), why, advice)
            for source, table in rows
            for path, why, advice in table
            if value_at(source.data, path) is not None
        ),
        *(refusal for rule in RULES for refusal in rule(training)),
    ]


# Fields without effect ----------------------------------------------------------------------------


def notes(job: Source, runtime: Source) -> list[Diagnostic]:
    training = Training(job, Origin(runtime))
    problems: list[Diagnostic] = []
    metadata = runtime.data["metadata"]
    # A deprecated runtime (reference 3).
    if (metadata.get("labels") or {}).get("trainer.kubeflow.org/support") == "deprecated":
        facts = {"kind": runtime.data["kind"], "name": metadata["name"]}
        place = job.locate(("spec", "runtimeRef", "name"))
        problems.append(diagnose(codes.DEPRECATED_RUNTIME, place, **facts))
    # Fields of Trainer 2.0 and 2.1.
    if "numProcPerNode" in (training.ml_policy.get("torch") or {}):
        advice = "write a number into spec.trainer.numProcPerNode of each TrainJob; auto needs none"
        path: ValuePath = ("spec", "mlPolicy", "torch", "numProcPerNode")
        place = runtime.locate(path, key=True)
        problems.append(diagnose(codes.FORMER_TRAINER, place, field=dotted(path), advice=advice))
    if isinstance(training.stated.get("numProcPerNode"), str):
        advice, path = "leave it out, or write a number", ("spec", "trainer", "numProcPerNode")
        place = job.locate(path, key=True)
        problems.append(diagnose(codes.FORMER_TRAINER, place, field=dotted(path), advice=advice))
    # MPI finds its nodes by the name of their Job, which needs no label to count (reference 5.6).
    is_counted = training.mpi is not None and training.replicated_job(NODE) is not None
    read = {"numNodes", "numProcPerNode"} if is_counted else set()
    unread = [field for field in training.stated if field not in read]
    if unread and not training.trainers:
        why = f"no Job of the runtime has the label {STEP}: {TRAINER}, and Trainer ignores it"
        advice = "give the template of one of its replicatedJobs that label"
        place = job.locate(("spec", "trainer", *unread[:1]), key=True)
        where = ", ".join(f"spec.trainer.{field}" for field in unread)
        problems.append(unused(place, where, why, advice))
    return [*problems, *_idle_fields(training)]


def _idle_fields(training: Training) -> Iterator[Diagnostic]:
    job, runtime, spec = training.source, training.runtime.source, training.spec
    if "mlPolicy" not in spec:
        reason = "the runtime has no mlPolicy: Trainer ignores it there"
        path: ValuePath = ("spec", "trainer", "resourcesPerNode")
        yield from no_effect(job, path, reason, "add mlPolicy: {} to the runtime, or remove it")
    if not {"torch", "mpi"} & training.ml_policy.keys():
        reason = "only the policies torch and mpi tell nodes of it"
        yield from no_effect(job, ("spec", "trainer", "numProcPerNode"), reason)
    read = {TOPOLOGY, *([VOLCANO_QUEUE] if "podGroupPolicy" in spec else [])}
    for field in ("labels", "annotations"):
        if spec["template"].get("metadata", {}).get(field, {}).keys() - read:
            reason = "it is the JobSet's, and there is none"
            yield from no_effect(runtime, ("spec", "template", "metadata", field), reason)
    for field, reason in _IDLE.items():
        yield from no_effect(runtime, (*JOB_SET, field), reason)
    yield from ttl_note(runtime, (*JOB_SET, "ttlSecondsAfterFinished"))
    for place in range(len(training.jobs)):
        path = (*_JOBS, place, "template", "spec", "ttlSecondsAfterFinished")
        yield from ttl_note(runtime, path)
    for place, policy in enumerate(training.job_set.get("volumeClaimPolicies", ())):
        if policy.get("retentionPolicy", {}).get("whenDeleted") == "Delete":
            path = (*JOB_SET, "volumeClaimPolicies", place, "retentionPolicy", "whenDeleted")
            reason = "no claim is deleted with its job, because it holds data"
            advice = "delete the claim by its name when its data is not needed any more"
            yield unused(runtime.locate(path), "retentionPolicy.whenDeleted", reason, advice)
    for place, ((count, path), replicated) in enumerate(
        zip(training.counts, training.jobs, strict=True)
    ):
        template, origin = replicated["template"], training.runtime.at(*_JOBS, place, "template")
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


# Refused fields -----------------------------------------------------------------------------------


def runtime_fields(training: Training) -> Iterator[Diagnostic]:
    runtime, name = training.runtime, training.runtime_name
    job_set, jobs = training.job_set, training.jobs
    if not is_subdomain(name):
        why = "it is no DNS name: lower-case letters, digits, '-' and '.', at most 253"
        place = runtime.locate("metadata", "name")
        yield not_compiled(place, f"name '{name}' of the runtime", why, "rename it")
    named = [name for name in (*POLICIES, "flux") if name in training.ml_policy]
    if len(named) > 1:
        why = f"a runtime has one policy, and this one has {' and '.join(named)}"
        place = runtime.locate("spec", "mlPolicy", named[1], key=True)
        yield not_compiled(place, f"spec.mlPolicy.{named[1]}", why, "remove the others")
    annotations = training.spec["template"].get("metadata", {}).get("annotations", {})
    groups = training.spec.get("podGroupPolicy") or {}
    if "volcano" in groups and annotations.get(VOLCANO_QUEUE) == "":
        place = runtime.locate("spec", "template", "metadata", "annotations", VOLCANO_QUEUE)
        why = "Trainer refuses an empty name of a queue"
        yield not_compiled(place, VOLCANO_QUEUE, why, "name a queue, or remove it")
    order = job_set.get("startupPolicy", {}).get("startupPolicyOrder")
    if order == "InOrder" and any(replicated.get("dependsOn") for replicated in jobs):
        place = runtime.locate(*JOB_SET, "startupPolicy", "startupPolicyOrder")
        why = "dependsOn says who waits for whom already, and Trainer takes one of the two"
        yield not_compiled(place, "startupPolicyOrder InOrder", why, "remove it")
    names = [replicated["name"] for replicated in jobs]
    path: ValuePath = (*JOB_SET, "successPolicy", "targetReplicatedJobs")
    targets = job_set.get("successPolicy", {}).get("targetReplicatedJobs", ())
    references = [(path, target, "successPolicy.targetReplicatedJobs") for target in targets]
    if (stated := job_set.get("coordinator")) is not None:
        path = (*JOB_SET, "coordinator", "replicatedJob")
        references.append((path, stated["replicatedJob"], "coordinator"))
    for number, target in enumerate(training.injections):
        path, name = (*_INJECTION, number, "jobName"), target["jobName"]
        references.append((path, name, f"envInjection of '{name}'"))
    for path, name, where in references:
        if name not in names:
            why = f"the runtime has no replicatedJob '{name}', only {', '.join(names)}"
            yield not_compiled(runtime.locate(*path), where, why, "name one of these")


def replicated_jobs(training: Training) -> Iterator[Diagnostic]:
    names = [replicated["name"] for replicated in training.jobs]
    for number, replicated in enumerate(training.jobs):
        origin = training.runtime.at(*_JOBS, number)
        step = step_of(replicated)
        needed = MAIN if step == TRAINER else step if step in INITIALIZERS.values() else None
        if needed and (replicated.get("replicas") or 1) != 1:
            where = f"replicas of '{replicated['name']}'"
            why = f"what is labelled as {step} is one Job"
            yield not_compiled(origin.locate("replicas"), where, why, "write 1")
        for field, why in _OF_JOB_SPEC.items():
            if replicated["template"]["spec"].get(field) is not None:
                place = origin.locate("template", "spec", field, key=True)
                yield not_compiled(place, f"{field} of the Job", why, "remove it")
        pod, at = value_at(replicated, POD), origin.at(*POD)
        if needed and all(container["name"] != needed for container in pod["containers"]):
            yield no_such_container(at.locate("containers"), "TrainJob", needed, pod["containers"])
        if (restart := pod.get("restartPolicy")) not in (None, "OnFailure", "Never"):
            why, where = "Pods of a Job have OnFailure or Never", f"restartPolicy {restart}"
            yield not_compiled(at.locate("restartPolicy"), where, why, "write OnFailure")
        # Check dependsOn as JobSet's webhook does (reference 7.1), and for what a gate cannot do.
        entries = replicated.get("dependsOn", ())
        origin = origin.at("dependsOn")
        before = names[:number]
        if len(entries) > _MOST_AWAITED:
            why = f"JobSet lets a Job wait for at most {_MOST_AWAITED} others"
            yield not_compiled(origin.locate(key=True), "dependsOn", why, "name fewer")
        for index, entry in enumerate(entries):
            if entry["name"] not in before:
                known = f"only for {', '.join(before)}" if before else "and this is the first one"
                why = f"a Job waits only for ones in front of it, {known}"
                where = f"dependsOn '{entry['name']}'"
                yield not_compiled(origin.locate(index, "name"), where, why, "change their order")
        # A gate tries one port of all hosts that it waits for.
        awaited = {entry["name"] for entry in entries if entry["status"] == "Ready"}
        ports = {
            "ssh"
            if training.mpi is not None and other["name"] == NODE
            else ready_port(value_at(other, POD))
            for other in training.jobs
            if other["name"] in awaited
        }
        if len(ports) > 1:
            texts = " and ".join(sorted("none" if port is None else str(port) for port in ports))
            why = (
                f"the Jobs that are waited for until they are Ready answer on other ports: {texts}"
            )
            advice = "give their readiness probes one port"
            yield not_compiled(origin.locate(key=True), "dependsOn", why, advice)


def claim_templates(training: Training) -> Iterator[Diagnostic]:
    """Check templates of claims as JobSet's webhook does (reference 7.3)."""
    runtime, pods = training.runtime, [value_at(job, POD) for job in training.jobs]
    mounted = {name for pod in pods for name in mounted_volumes(pod)}
    known: dict[str, Mapping[str, Any]] = {}
    for number, policy in enumerate(training.job_set.get("volumeClaimPolicies", ())):
        for index, template in enumerate(policy.get("templates", ())):
            path = (*JOB_SET, "volumeClaimPolicies", number, "templates", index)
            place = runtime.locate(*path, "metadata", "name")
            name, full_name = template["metadata"]["name"], training.claim_name(template)
            where = f"claim '{name}'"
            if name in known:
                yield not_compiled(place, where, "another template has this name", "rename one")
            elif name not in mounted:
                why = "no container has a volumeMount of this name"
                yield not_compiled(place, where, why, "mount it, or remove it")
            if len(full_name) > _LONGEST:
                why = f"it would be called '{full_name}', and JobSet takes {_LONGEST} characters"
                yield not_compiled(place, where, why, "use a shorter name")
            known[name] = training.claim_volume(template)
    for number, pod in enumerate(pods):
        for index, volume in enumerate(pod.get("volumes", ())):
            # A runtime that was already merged has the volume of the claim.
            if volume["name"] in known and volume != known[volume["name"]]:
                place = runtime.locate(*_JOBS, number, *POD, "volumes", index, "name")
                why = "a template of volumeClaimPolicies has this name"
                yield not_compiled(place, f"volume '{volume['name']}'", why, "rename one of them")


def coordinator(training: Training) -> Iterator[Diagnostic]:
    """Check that the coordinator exists, and that a label can hold its name."""
    origin, host = training.runtime.at(*JOB_SET, "coordinator"), training.coordinator or ""
    stated = training.job_set.get("coordinator") or {}
    name = stated.get("replicatedJob")
    for replicated, (pods, _) in zip(training.jobs, training.counts, strict=True):
        if replicated["name"] != name:
            continue
        if (stated.get("jobIndex") or 0) >= (replicated.get("replicas") or 1):
            place = origin.locate("jobIndex")
            yield not_compiled(place, "coordinator", f"'{name}' has not so many Jobs", "")
        if (stated.get("podIndex") or 0) >= pods:
            place, why = origin.locate("podIndex"), f"'{name}' has {pods} Pods"
            yield not_compiled(place, "coordinator", f"{why}, counted from 0", "name one of them")
        elif len(host) > _LONGEST:
            why = f"'{host}' has {len(host)} characters, and a label may have {_LONGEST}"
            yield not_compiled(origin.locate(key=True), "coordinator", why, "use shorter names")


def injected_variables(training: Training) -> Iterator[Diagnostic]:
    """Report missing containers in `envInjection` (reference 5.1)."""
    for number, target in enumerate(training.injections):
        replicated = training.replicated_job(name := target["jobName"])
        known = [container["name"] for _, container in containers_of(value_at(replicated, POD))]
        for index, container in enumerate(target["containerNames"] if replicated else ()):
            place = training.runtime.locate(*_INJECTION, number, "containerNames", index)
            where = f"envInjection of container '{container}'"
            if container == MAIN:
                yield not_compiled(place, where, "it has the variables anyway", "remove it")
            elif container not in known:
                why = f"replicatedJob '{name}' has only {', '.join(known)}"
                yield not_compiled(place, where, why, "name one of these")


def initializers(training: Training) -> Iterator[Diagnostic]:
    used = {
        volume
        for replicated in training.jobs
        if step_of(replicated) not in INITIALIZERS.values()
        for volume in _shared_volumes(training, replicated)
    }
    origin = Origin(training.source, ("spec", "initializer"))
    for field, step in INITIALIZERS.items():
        if (stated := value_at(training.source.data, (*origin.path, field))) is None:
            continue
        place, where = origin.locate(field, key=True), f"spec.initializer.{field}"
        replicated = next((other for other in training.jobs if step_of(other) == step), None)
        if replicated is None:
            why = f"the runtime {training.runtime_name} has no replicatedJob for it"
            advice = f"give it one whose template has the label {STEP}: {step}"
            yield not_compiled(place, where, why, advice)
        elif str(stated.get("storageUri") or "").startswith("cache://"):
            why = "the cache asks Trainer's own API, and starts a LeaderWorkerSet"
            yield not_compiled(origin.locate(field, "storageUri"), where, why, "")
        elif not used & {*_shared_volumes(training, replicated)}:
            why = "what it fetches would reach nobody: no other Job mounts a claim that it mounts"
            advice = "add volumeClaimPolicies to the runtime, and mount the claim in both"
            yield not_compiled(place, where, why, advice)


def _shared_volumes(training: Training, replicated: Mapping[str, Any]) -> Iterator[str]:
    """Yield the contents of volumes that other Pods may share."""
    pod = value_at(replicated, POD)
    names = (template["metadata"]["name"] for template in training.claims)
    shared = {name: f"claim {name}" for name in names}
    for volume in pod.get("volumes", ()):
        for kind in ("persistentVolumeClaim", "nfs", "csi", "hostPath", "cephfs", "azureFile"):
            if kind in volume:
                shared.setdefault(volume["name"], f"{kind} {sorted(volume[kind].items())}")
    return (shared[name] for name in mounted_volumes(pod) if name in shared)


def success_policy(training: Training) -> Iterator[Diagnostic]:
    """Report a run that ends with any of several Jobs, some of which have several Pods."""
    policy = training.job_set.get("successPolicy", {})
    if policy.get("operator") != "Any":
        return
    targets = policy.get("targetReplicatedJobs") or ()
    deciding = [
        (replicated, count)
        for replicated, (count, _) in zip(training.jobs, training.counts, strict=True)
        if count and (not targets or replicated["name"] in targets)
    ]
    several = sum(replicated.get("replicas") or 1 for replicated, _ in deciding) > 1
    place = training.runtime.locate(*JOB_SET, "successPolicy", "operator")
    for replicated, count in deciding:
        if several and count > 1:
            name = replicated["name"]
            why = f"'{name}' has {count} Pods, and the first of them would end the run"
            advice = "name one Job in targetReplicatedJobs, or all with the operator All"
            yield not_compiled(place, "successPolicy.operator Any", why, advice)


def framework_settings(training: Training) -> Iterator[Diagnostic]:
    origin, mpi = Origin(training.source, ("spec", "trainer")), training.mpi
    processes = training.stated.get("numProcPerNode")
    if mpi is not None and isinstance(processes, str):
        where, advice = f"numProcPerNode: {processes}", "write a number, or leave it out"
        yield not_compiled(origin.locate("numProcPerNode"), where, "MPI needs a number", advice)
    nodes = training.stated.get("numNodes") or 1
    for needed in (NODE, LAUNCHER) if (mpi or {}).get("runLauncherAsNode") else ():
        if nodes > 1 and training.replicated_job(needed) is None:
            place = training.runtime.locate(
                "spec", "mlPolicy", "mpi", "runLauncherAsNode", key=True
            )
            where = f"runLauncherAsNode with {nodes} nodes"
            why = f"the runtime has no replicatedJob '{needed}'"
            yield not_compiled(place, where, why, "add one, or leave runLauncherAsNode out")
    reserved = {name for framework in training.ml_policy for name in RESERVED.get(framework, ())}
    for number, entry in enumerate(training.stated.get("env", ())):
        if entry["name"] in reserved:
            place = origin.locate("env", number, "name")
            why = "the runtime's policy sets it, and Trainer refuses another value"
            yield not_compiled(place, f"variable {entry['name']}", why, "remove it")
    if training.is_torchtune and training.trainers:
        container = main_of(training.jobs[training.trainers[0]])
        if container:
            container = with_resources(Traced(container, training.source), training).value
            for field, why in torchtune.problems(training, container):
                advice = "write the whole command to decide yourself"
                where = f"{field} of tune run"
                yield not_compiled(origin.locate(field), where, why, advice)


RULES: tuple[Callable[[Training], Iterator[Diagnostic]], ...] = (
    runtime_fields,
    replicated_jobs,
    claim_templates,
    coordinator,
    injected_variables,
    initializers,
    success_policy,
    framework_settings,
)
