"""What a TrainJob and its runtime ask that is not compiled, field by field, and what does nothing.

Apart from the merge, which can then rely on Jobs that fit together. A field that is refused here is
`refused` in the schemas, so that the pages say so too.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.frontends.gang import VOLCANO_QUEUE
from etcompile.frontends.notes import no_effect, not_compiled, ttl_note, unused
from etcompile.frontends.trainer import old_fields, policies, torchtune
from etcompile.frontends.trainer.exclusive_topology import TOPOLOGY
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
from etcompile.k8s.names import is_subdomain
from etcompile.k8s.path import dotted, value_at
from etcompile.k8s.traced import Traced
from etcompile.model import Origin

_TEMPLATE: ValuePath = JOB_SET[1:]
_MOST_AWAITED = 5

_JOB: Sequence[tuple[ValuePath, str, str]] = (
    *(
        (
            ("spec", field),
            "it is for all Jobs of the runtime, or has patches beside it",
            "name the Jobs in targetJobs, or write patches of spec.runtimePatches alone",
        )
        for field in old_fields.OVERRIDES
    ),
    (
        ("spec", "trainer", "resourcesPerNode", "claims"),
        "Trainer loses them, too",
        "write them into the runtime",
    ),
)
_RUNTIME: Sequence[tuple[ValuePath, str, str]] = (
    (
        ("spec", "mlPolicy", "flux"),
        "Flux, which starts the processes, is not installed into the Pods",
        "use a runtime with mpi",
    ),
    (
        (*_TEMPLATE, "failurePolicy", "rules"),
        "a Job has no reasons of its failure here by which rules could choose",
        "leave the rules out: any Job that fails restarts all, as often as maxRestarts",
    ),
    ((*_TEMPLATE, "managedBy"), "there is no JobSet", ""),
)
_LONGEST = 63
"""The most characters of a claim's name that JobSet takes, and of a label's value."""
_OF_WHOLE_RUN = "failures are counted for the run as a whole"
_JOB_SPEC = {
    "podFailurePolicy": "a failure has no rules of its own: maxRestarts of the JobSet counts",
    "successPolicy": "successPolicy of the JobSet says which Jobs decide",
    "backoffLimitPerIndex": _OF_WHOLE_RUN,
    "maxFailedIndexes": _OF_WHOLE_RUN,
    "manualSelector": "no controller selects Pods",
    "selector": "no controller selects Pods",
    "managedBy": "there is no Job",
}
"""Fields of a Job that are not compiled, and why."""


def refusals(job: Source, runtime: Source) -> list[Diagnostic]:
    """Why a job cannot be compiled with its runtime; nothing if it can."""
    return [
        *(p for path, why, advice in _JOB for p in _refused(job, path, why, advice)),
        *_of_runtime(runtime),
        *_claims(job, runtime),
        *_coordinated(job, runtime),
        *_injection(runtime),
        *_initializers(job, runtime),
        *_trained(job, runtime),
        *_succeeds(job, runtime),
        *_mpi(job, runtime),
        *_reserved(job, runtime),
        *_torchtune(job, runtime),
    ]


def _deprecated(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """A warning for a runtime that its label calls deprecated (reference 3)."""
    metadata = runtime.data["metadata"]
    if (metadata.get("labels") or {}).get("trainer.kubeflow.org/support") == "deprecated":
        facts = {"kind": runtime.data["kind"], "name": metadata["name"]}
        place = job.locate(("spec", "runtimeRef", "name"))
        yield diagnose(codes.DEPRECATED_RUNTIME, place, **facts)


def notes(job: Source, runtime: Source) -> list[Diagnostic]:
    """Warnings for what a job and its runtime say without effect."""
    told: list[Diagnostic] = [*_deprecated(job, runtime), *old_fields.notes(job, runtime)]
    if "mlPolicy" not in runtime.data["spec"]:
        reason = "the runtime has no mlPolicy: Trainer ignores it there"
        path = ("spec", "trainer", "resourcesPerNode")
        told += no_effect(job, path, reason, "add mlPolicy: {} to the runtime, or remove it")
    if not {"torch", "mpi"} & runtime.data["spec"].get("mlPolicy", {}).keys():
        reason = "only the policies torch and mpi tell nodes of it"
        told += no_effect(job, ("spec", "trainer", "numProcPerNode"), reason)
    told += _of_job_set(runtime)
    reasons = {
        "startupPolicy": "Pods are made at once; dependsOn says who waits for whom",
        "suspend": "suspend of the TrainJob counts",
    }
    for field, reason in reasons.items():
        told += no_effect(runtime, (*_TEMPLATE, field), reason)
    jobs = range(len(_jobs(runtime)))
    below: list[ValuePath] = [("replicatedJobs", at, "template", "spec") for at in jobs]
    for owner in [(), *below]:
        ttl: ValuePath = (*_TEMPLATE, *owner, "ttlSecondsAfterFinished")
        told += ttl_note(runtime, ttl)
    told += _deletions(runtime)
    told += _counts(job, runtime)
    for place_of, replicated in enumerate(_jobs(runtime)):
        told += _notes_of(Origin(runtime, (*_TEMPLATE, "replicatedJobs", place_of)), replicated)
    return told


def _of_job_set(runtime: Source) -> Iterator[Diagnostic]:
    """Labels and annotations of the JobSet, but the queue of Volcano."""
    read = {TOPOLOGY, *([VOLCANO_QUEUE] if "podGroupPolicy" in runtime.data["spec"] else [])}
    metadata = runtime.data["spec"]["template"].get("metadata", {})
    for field in ("labels", "annotations"):
        if metadata.get(field, {}).keys() - read:
            reason = "it is the JobSet's, and there is none"
            yield from no_effect(runtime, ("spec", "template", "metadata", field), reason)


def _deletions(runtime: Source) -> Iterator[Diagnostic]:
    """Retention of claims: what they hold is never deleted without being asked."""
    policies = runtime.data["spec"]["template"]["spec"].get("volumeClaimPolicies", ())
    for place_of, policy in enumerate(policies):
        if policy.get("retentionPolicy", {}).get("whenDeleted") == "Delete":
            path = (*_TEMPLATE, "volumeClaimPolicies", place_of, "retentionPolicy", "whenDeleted")
            reason = "no claim is deleted with its job, because it holds data"
            advice = "delete the claim by its name when its data is not needed any more"
            yield unused(runtime.locate(path), "retentionPolicy.whenDeleted", reason, advice)


def _counts(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """Numbers of Pods in a Job template that another number overrides (reference 4, step 7)."""
    counts = node_counts(job.data, runtime.data["spec"])
    for place_of, ((count, path), replicated) in enumerate(
        zip(counts, _jobs(runtime), strict=True)
    ):
        for field in ("parallelism", "completions"):
            given = replicated["template"]["spec"].get(field)
            if given is None or given == count:
                continue
            below = ("replicatedJobs", place_of, "template", "spec", field)
            where = f"{field} of the Job '{replicated['name']}'"
            reason = f"{path[-1]} says that there are {count} Pods"
            yield unused(runtime.locate((*_TEMPLATE, *below)), where, reason, "remove it")


def _notes_of(origin: Origin, replicated: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Warnings for a replicatedJob."""
    template = replicated["template"]
    for field in ("labels", "annotations"):
        for name in template.get("metadata", {}).get(field, {}):
            if name not in (STEP, TOPOLOGY):
                place = origin.locate("template", "metadata", field, name, key=True)
                where = f"{field[:-1]} {name}"
                yield unused(place, where, "it is the Job's, and there is none", "remove it")
    spec = template["spec"]
    if "suspend" in spec:
        place = origin.locate("template", "spec", "suspend", key=True)
        reason = "suspend of the TrainJob counts"
        yield unused(place, "spec.suspend of the Job", reason, "remove it")


def _of_runtime(runtime: Source) -> Iterator[Diagnostic]:
    for path, why, advice in _RUNTIME:
        yield from _refused(runtime, path, why, advice)
    name = runtime.data["metadata"]["name"]
    if not is_subdomain(name):
        why = "it is no DNS name: lower-case letters, digits, '-' and '.', at most 253"
        place = runtime.locate(("metadata", "name"))
        yield not_compiled(place, f"name '{name}' of the runtime", why, "rename it")
    policy = runtime.data["spec"].get("mlPolicy", {})
    named = [name for name in ("torch", "jax", "xgboost", "mpi", "flux") if name in policy]
    if len(named) > 1:
        why = f"a runtime has one policy, and this one has {' and '.join(named)}"
        place = runtime.locate(("spec", "mlPolicy", named[1]), key=True)
        yield not_compiled(place, f"spec.mlPolicy.{named[1]}", why, "remove the others")
    annotations = runtime.data["spec"]["template"].get("metadata", {}).get("annotations", {})
    groups = runtime.data["spec"].get("podGroupPolicy") or {}
    if "volcano" in groups and annotations.get(VOLCANO_QUEUE) == "":
        path = ("spec", "template", "metadata", "annotations", VOLCANO_QUEUE)
        why = "Trainer refuses an empty name of a queue"
        yield not_compiled(runtime.locate(path), VOLCANO_QUEUE, why, "name a queue, or remove it")
    yield from _in_order(runtime)
    jobs = _jobs(runtime)
    names = [replicated["name"] for replicated in jobs]
    success = runtime.data["spec"]["template"]["spec"].get("successPolicy", {})
    targets = success.get("targetReplicatedJobs", ())
    for target in targets:
        if target not in names:
            place = runtime.locate((*_TEMPLATE, "successPolicy", "targetReplicatedJobs"))
            why = f"the runtime has no replicatedJob '{target}', only {', '.join(names)}"
            where = "successPolicy.targetReplicatedJobs"
            yield not_compiled(place, where, why, "name one of these")
    yield from _coordinator(runtime)
    for place_of, replicated in enumerate(jobs):
        yield from _of_replicated_job(runtime, place_of, replicated)


def _in_order(runtime: Source) -> Iterator[Diagnostic]:
    """Two orders of Jobs, which the CRD of runtimes excludes."""
    path = (*_TEMPLATE, "startupPolicy", "startupPolicyOrder")
    order = runtime.data["spec"]["template"]["spec"].get("startupPolicy", {})
    waits = any(replicated.get("dependsOn") for replicated in _jobs(runtime))
    if order.get("startupPolicyOrder") == "InOrder" and waits:
        why = "dependsOn says who waits for whom already, and Trainer takes one of the two"
        yield not_compiled(runtime.locate(path), "startupPolicyOrder InOrder", why, "remove it")


def _claims(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """What JobSet's webhook says of templates of claims (reference 7.3)."""
    policies = runtime.data["spec"]["template"]["spec"].get("volumeClaimPolicies", ())
    known: dict[str, Mapping[str, Any]] = {}
    jobs = _jobs(runtime)
    pods = [replicated["template"]["spec"]["template"]["spec"] for replicated in jobs]
    mounted = {name for pod in pods for name in mounted_volumes(pod)}
    for number, policy in enumerate(policies):
        for place_of, template in enumerate(policy.get("templates", ())):
            path = (*_TEMPLATE, "volumeClaimPolicies", number, "templates", place_of)
            place = runtime.locate((*path, "metadata", "name"))
            name = template["metadata"]["name"]
            made = claim_name(template, job.data)
            where = f"claim '{name}'"
            if name in known:
                yield not_compiled(place, where, "another template has this name", "rename one")
            elif name not in mounted:
                why = "no container has a volumeMount of this name"
                yield not_compiled(place, where, why, "mount it, or remove it")
            if len(made) > _LONGEST:
                why = f"it would be called '{made}', and JobSet takes {_LONGEST} characters"
                yield not_compiled(place, where, why, "use a shorter name")
            known[name] = claim_volume(template, job.data)
    for place_of, pod in enumerate(pods):
        for number, volume in enumerate(pod.get("volumes", ())):
            # A runtime that was merged with the job has the volume of the claim itself.
            if volume["name"] in known and volume != known[volume["name"]]:
                below = ("replicatedJobs", place_of, "template", "spec", "template", "spec")
                place = runtime.locate((*_TEMPLATE, *below, "volumes", number, "name"))
                why = "a template of volumeClaimPolicies has this name"
                yield not_compiled(place, f"volume '{volume['name']}'", why, "rename one of them")


def _coordinated(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """Whether there is the Pod that all others are told of, and a label can hold its name."""
    spec = runtime.data["spec"]
    named = spec["template"]["spec"].get("coordinator")
    counts = zip(_jobs(runtime), node_counts(job.data, spec), strict=True)
    known = {replicated["name"]: pods for replicated, (pods, _) in counts}
    count = known.get((named or {}).get("replicatedJob"))
    if named is None or count is None:
        return
    index = named.get("podIndex") or 0
    host = policies.coordinator(job.data, spec)
    if index >= count:
        why = f"'{named['replicatedJob']}' has {count} Pods, counted from 0"
        place = runtime.locate((*_TEMPLATE, "coordinator", "podIndex"))
        yield not_compiled(place, "coordinator", why, "name one of them")
    elif host is not None and len(host) > _LONGEST:
        why = f"'{host}' has {len(host)} characters, and a label may have {_LONGEST}"
        place = runtime.locate((*_TEMPLATE, "coordinator"), key=True)
        yield not_compiled(place, "coordinator", why, "use shorter names")


def _coordinator(runtime: Source) -> Iterator[Diagnostic]:
    """A Pod that all others are told of, and that must be there."""
    job_set = runtime.data["spec"]["template"]["spec"]
    if (named := job_set.get("coordinator")) is None:
        return
    known = {replicated["name"]: replicated.get("replicas") or 1 for replicated in _jobs(runtime)}
    if named["replicatedJob"] not in known:
        why = f"the runtime has no replicatedJob '{named['replicatedJob']}'"
        place = runtime.locate((*_TEMPLATE, "coordinator", "replicatedJob"))
        yield not_compiled(place, "coordinator", why, f"name one of {', '.join(known)}")
    elif (named.get("jobIndex") or 0) >= known[named["replicatedJob"]]:
        why = f"'{named['replicatedJob']}' has not so many Jobs"
        yield not_compiled(
            runtime.locate((*_TEMPLATE, "coordinator", "jobIndex")), "coordinator", why, ""
        )


def _of_replicated_job(
    runtime: Source, place_of: int, replicated: Mapping[str, Any]
) -> Iterator[Diagnostic]:
    origin = Origin(runtime, (*_TEMPLATE, "replicatedJobs", place_of))
    name = replicated["name"]
    names = [other["name"] for other in _jobs(runtime)]
    step = step_of(replicated)
    needed = {TRAINER: MAIN, **{known: known for known in INITIALIZERS.values()}}.get(step or "")
    if needed and (replicated.get("replicas") or 1) != 1:
        why = f"what is labelled as {step} is one Job"
        yield not_compiled(origin.locate("replicas"), f"replicas of '{name}'", why, "write 1")
    yield from _depends_on(origin, replicated, names[:place_of])
    yield from _ready(origin, replicated, runtime)
    spec = replicated["template"]["spec"]
    for field, why in _JOB_SPEC.items():
        if spec.get(field) is not None:
            place = origin.locate("template", "spec", field, key=True)
            yield not_compiled(place, f"{field} of the Job", why, "remove it")
    pod = spec["template"]["spec"]
    containers = [container["name"] for container in pod["containers"]]
    if needed and needed not in containers:
        place = origin.locate("template", "spec", "template", "spec", "containers")
        facts = {"kind": "TrainJob", "container": needed, "names": ", ".join(containers)}
        yield diagnose(codes.NO_SUCH_CONTAINER, place, **facts)
    if pod.get("restartPolicy") not in (None, "OnFailure", "Never"):
        place = origin.locate("template", "spec", "template", "spec", "restartPolicy")
        why = "Pods of a Job have OnFailure or Never"
        yield not_compiled(place, f"restartPolicy {pod['restartPolicy']}", why, "write OnFailure")


def _depends_on(
    origin: Origin, replicated: Mapping[str, Any], before: Sequence[str]
) -> Iterator[Diagnostic]:
    """What JobSet's webhook says of dependsOn (reference 7.1)."""
    awaited = replicated.get("dependsOn", ())
    if len(awaited) > _MOST_AWAITED:
        why = f"JobSet lets a Job wait for at most {_MOST_AWAITED} others"
        yield not_compiled(origin.locate("dependsOn", key=True), "dependsOn", why, "name fewer")
    for number, entry in enumerate(awaited):
        if entry["name"] not in before:
            known = f"only for {', '.join(before)}" if before else "and this is the first one"
            why = f"a Job waits only for ones in front of it, {known}"
            place = origin.locate("dependsOn", number, "name")
            yield not_compiled(place, f"dependsOn '{entry['name']}'", why, "change their order")


def _ready(origin: Origin, replicated: Mapping[str, Any], runtime: Source) -> Iterator[Diagnostic]:
    """Jobs that are waited for until they are ready: their hosts are asked on one port."""
    is_mpi = policies.mpi(runtime.data["spec"]) is not None
    awaited = {
        entry["name"] for entry in replicated.get("dependsOn", ()) if entry["status"] == "Ready"
    }
    ports = {
        "ssh"
        if is_mpi and other["name"] == NODE
        else policies.ready_port(other["template"]["spec"]["template"]["spec"])
        for other in _jobs(runtime)
        if other["name"] in awaited
    }
    if len(ports) > 1:
        told = " and ".join(sorted("none" if port is None else str(port) for port in ports))
        why = f"the Jobs that are waited for until they are Ready answer on other ports: {told}"
        advice = "give their readiness probes one port"
        yield not_compiled(origin.locate("dependsOn", key=True), "dependsOn", why, advice)


def _injection(runtime: Source) -> Iterator[Diagnostic]:
    """Containers that are to have the variables of torch, and are not there (reference 5.1)."""
    pods = {
        replicated["name"]: replicated["template"]["spec"]["template"]["spec"]
        for replicated in _jobs(runtime)
    }
    for place_of, target in enumerate(policies.injections(runtime.data["spec"])):
        path = ("spec", "mlPolicy", "torch", "envInjection", "targets", place_of)
        pod = pods.get(target["jobName"])
        if pod is None:
            why = f"the runtime has no replicatedJob of this name, only {', '.join(pods)}"
            place = runtime.locate((*path, "jobName"))
            where = f"envInjection of '{target['jobName']}'"
            yield not_compiled(place, where, why, "name one of these")
            continue
        known = [c["name"] for f in ("initContainers", "containers") for c in pod.get(f, ())]
        for number, name in enumerate(target["containerNames"]):
            place = runtime.locate((*path, "containerNames", number))
            where = f"envInjection of container '{name}'"
            if name == MAIN:
                why = "it has the variables anyway"
                yield not_compiled(place, where, why, "remove it")
            elif name not in known:
                why = f"replicatedJob '{target['jobName']}' has only {', '.join(known)}"
                yield not_compiled(place, where, why, "name one of these")


def _initializers(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """Initializers that the job asks for, and whether what they fetch arrives (T8, T9, T10)."""
    asked = job.data["spec"].get("initializer", {})
    jobs = _jobs(runtime)
    users = {
        volume
        for replicated in jobs
        if step_of(replicated) not in INITIALIZERS.values()
        for volume in _shared(replicated, runtime)
    }
    for field, step in INITIALIZERS.items():
        if field not in asked:
            continue
        place = job.locate(("spec", "initializer", field), key=True)
        where = f"spec.initializer.{field}"
        made = next((other for other in jobs if step_of(other) == step), None)
        uri = str(asked[field].get("storageUri") or "")
        if made is None:
            why = f"the runtime {runtime.data['metadata']['name']} has no replicatedJob for it"
            advice = f"give it one whose template has the label {STEP}: {step}"
            yield not_compiled(place, where, why, advice)
        elif uri.startswith("cache://"):
            why = "the cache asks Trainer's own API, and starts a LeaderWorkerSet"
            yield not_compiled(
                job.locate(("spec", "initializer", field, "storageUri")), where, why, ""
            )
        elif not users & {*_shared(made, runtime)}:
            why = "what it fetches would reach nobody: no other Job mounts a claim that it mounts"
            advice = "add volumeClaimPolicies to the runtime, and mount the claim in both"
            yield not_compiled(place, where, why, advice)


def _shared(replicated: Mapping[str, Any], runtime: Source) -> Iterator[str]:
    """The volumes of a Pod template that other Pods may see, too, by what they hold."""
    pod = replicated["template"]["spec"]["template"]["spec"]
    own = {
        template["metadata"]["name"]: f"claim {template['metadata']['name']}"
        for template in claim_templates(runtime.data["spec"])
    }
    for volume in pod.get("volumes", ()):
        for kind in ("persistentVolumeClaim", "nfs", "csi", "hostPath", "cephfs", "azureFile"):
            if kind in volume:
                own.setdefault(volume["name"], f"{kind} {sorted(volume[kind].items())}")
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        for mount in container.get("volumeMounts", ()):
            if mount["name"] in own:
                yield own[mount["name"]]


def _trained(job: Source, runtime: Source) -> Iterator[Diagnostic]:
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
        if field in read:
            continue
        place = job.locate(("spec", "trainer", field), key=True)
        yield not_compiled(place, f"spec.trainer.{field}", why, advice)


def _succeeds(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """A run that ends with any of several Jobs: Pods are told apart here, not Jobs."""
    spec = runtime.data["spec"]
    policy = spec["template"]["spec"].get("successPolicy", {})
    if policy.get("operator") != "Any":
        return
    targets = policy.get("targetReplicatedJobs") or ()
    decide = [
        (replicated, count)
        for replicated, (count, _) in zip(_jobs(runtime), node_counts(job.data, spec), strict=True)
        if count and (not targets or replicated["name"] in targets)
    ]
    several = sum(replicated.get("replicas") or 1 for replicated, _ in decide) > 1
    for replicated, count in decide:
        if several and count > 1:
            place = runtime.locate((*_TEMPLATE, "successPolicy", "operator"))
            why = (
                f"'{replicated['name']}' has {count} Pods, and the first of them would end the run"
            )
            advice = "name one Job in targetReplicatedJobs, or all with the operator All"
            yield not_compiled(place, "successPolicy.operator Any", why, advice)


def _mpi(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """A runtime of MPI whose launcher takes part has both Jobs that the policy knows."""
    mpi = policies.mpi(runtime.data["spec"])
    processes = job.data["spec"].get("trainer", {}).get("numProcPerNode")
    if mpi is not None and isinstance(processes, str):
        place = job.locate(("spec", "trainer", "numProcPerNode"))
        where, advice = f"numProcPerNode: {processes}", "write a number, or leave it out"
        yield not_compiled(place, where, "MPI needs a number", advice)
    if mpi is None or not mpi.get("runLauncherAsNode"):
        return
    names = [replicated["name"] for replicated in _jobs(runtime)]
    nodes = job.data["spec"].get("trainer", {}).get("numNodes") or 1
    for needed in (NODE, LAUNCHER):
        if needed not in names and nodes > 1:
            place = runtime.locate(("spec", "mlPolicy", "mpi", "runLauncherAsNode"), key=True)
            where = f"runLauncherAsNode with {nodes} nodes"
            why = f"the runtime has no replicatedJob '{needed}'"
            yield not_compiled(place, where, why, "add one, or leave runLauncherAsNode out")


def _reserved(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """Variables that the runtime's policy sets itself (reference 5.1, 5.4, 5.6)."""
    policy = runtime.data["spec"].get("mlPolicy", {})
    reserved = {
        name for framework in RESERVED if framework in policy for name in RESERVED[framework]
    }
    for place_of, entry in enumerate(job.data["spec"].get("trainer", {}).get("env", ())):
        if entry["name"] in reserved:
            place = job.locate(("spec", "trainer", "env", place_of, "name"))
            why = "the runtime's policy sets it, and Trainer refuses another value"
            yield not_compiled(place, f"variable {entry['name']}", why, "remove it")


def _torchtune(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """Why a command of torchtune cannot be completed (reference 5.2)."""
    spec, trainer = runtime.data["spec"], job.data["spec"].get("trainer", {})
    if "torch" not in spec.get("mlPolicy", {}) or trainer.get("command") != torchtune.COMMAND:
        return
    counts, jobs = node_counts(job.data, spec), _jobs(runtime)
    for place_of in trainers(jobs)[:1]:
        if not (container := policies.main_of(jobs[place_of])):
            return
        made = with_resources(Traced(container, runtime), job, spec).value
        facts = NodeFacts(job.data, spec, made, counts[place_of][0], "")
        name, args = runtime.data["metadata"]["name"], trainer.get("args", ())
        for field, why in torchtune.problems(facts, name, args):
            place = job.locate(("spec", "trainer", field))
            advice = "write the whole command to decide yourself"
            yield not_compiled(place, f"{field} of tune run", why, advice)


def _refused(source: Source, path: ValuePath, why: str, advice: str) -> Iterator[Diagnostic]:
    if value_at(source.data, path) is not None:
        yield not_compiled(source.locate(path, key=True), dotted(path), why, advice)


def _jobs(runtime: Source) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = runtime.data["spec"]["template"]["spec"]["replicatedJobs"]
    return found
