"""What a TrainJob and its runtime ask that is not compiled, field by field, and what does nothing.

Apart from the merge, which can then rely on one Job that trains. A field that is refused here is
`refused` in the schemas, so that the pages say so too.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.frontends.kubeflow import TTL_ADVICE, TTL_REASON, TTL_WHEN, no_effect
from etcompile.frontends.trainer_merge import JOB_SET, MAIN, RESERVED, STEP
from etcompile.k8s.fieldpath import dotted
from etcompile.model import Origin

_TEMPLATE: ValuePath = JOB_SET[1:]
_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"

_JOB: Sequence[tuple[ValuePath, str, str]] = (
    (("spec", "initializer"), "nothing here fetches data or models", "fetch them in the command"),
    (("spec", "runtimePatches"), "patches are not merged", "write them into the runtime"),
    (("spec", "podTemplateOverrides"), "patches are not merged", "write them into the runtime"),
    (
        ("spec", "trainer", "resourcesPerNode", "claims"),
        "Trainer loses them, too",
        "write them into the runtime",
    ),
)
_RUNTIME: Sequence[tuple[ValuePath, str, str]] = (
    (("spec", "mlPolicy", "mpi"), "launchers are not made for TrainJob", "write an MPIJob"),
    (("spec", "mlPolicy", "flux"), "Flux is not set up", ""),
    (
        ("spec", "mlPolicy", "torch", "envInjection"),
        "only container 'node' gets the variables",
        "",
    ),
    (("spec", "podGroupPolicy"), "--gang says which scheduler starts all Pods or none", ""),
    (
        ("spec", "template", "metadata", "annotations", _TOPOLOGY),
        "Pods are not kept apart by it",
        "write affinities into the Pod template",
    ),
    (
        (*_TEMPLATE, "failurePolicy"),
        "a restart of all Pods is asked for in another way here",
        'annotate the TrainJob with etcompile.dev/restart-together: "true"',
    ),
    ((*_TEMPLATE, "coordinator"), "no Pod is told of it", ""),
    ((*_TEMPLATE, "managedBy"), "there is no JobSet", ""),
    ((*_TEMPLATE, "volumeClaimPolicies"), "no claims are made", "make the claim beside the job"),
)
_JOB_SPEC = (
    "podFailurePolicy",
    "successPolicy",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
    "ttlSecondsAfterFinished",
    "manualSelector",
    "selector",
    "podReplacementPolicy",
    "managedBy",
)


def refusals(job: Source, runtime: Source) -> list[Diagnostic]:
    """Why a job cannot be compiled with its runtime; nothing if it can.

    Args:
        job: The TrainJob, valid by its schema.
        runtime: The runtime that it names, valid by its schema.
    """
    return [
        *(p for path, why, advice in _JOB for p in _refused(job, path, why, advice)),
        *_of_runtime(runtime),
        *_reserved(job, runtime),
        *_torchtune(job, runtime),
    ]


def notes(job: Source, runtime: Source) -> list[Diagnostic]:
    """Warnings for what a job and its runtime say without effect.

    Args:
        job: The TrainJob, valid by its schema.
        runtime: The runtime that it names, for which nothing is refused.
    """
    told: list[Diagnostic] = []
    if "mlPolicy" not in runtime.data["spec"]:
        reason = "the runtime has no mlPolicy: Trainer ignores it there"
        path = ("spec", "trainer", "resourcesPerNode")
        told += no_effect(job, path, reason, "add mlPolicy: {} to the runtime, or remove it")
    if not {"torch", "mpi"} & runtime.data["spec"].get("mlPolicy", {}).keys():
        reason = "only the policies torch and mpi tell nodes of it"
        told += no_effect(job, ("spec", "trainer", "numProcPerNode"), reason)
    for field in ("labels", "annotations"):
        reason = "it is the JobSet's, and there is none"
        told += no_effect(runtime, ("spec", "template", "metadata", field), reason)
    for field in ("startupPolicy", "suspend"):
        reason = (
            "there is one Job" if field == "startupPolicy" else "suspend of the TrainJob counts"
        )
        told += no_effect(runtime, (*_TEMPLATE, field), reason)
    told += no_effect(
        runtime,
        (*_TEMPLATE, "ttlSecondsAfterFinished"),
        TTL_REASON,
        TTL_ADVICE,
        when=TTL_WHEN,
    )
    origin = Origin(runtime, (*_TEMPLATE, "replicatedJobs", 0, "template"))
    [trained] = _jobs(runtime)
    metadata = trained["template"].get("metadata", {})
    for field in ("labels", "annotations"):
        for name in metadata.get(field, {}):
            if name != STEP:
                facts = {"reason": "it is the Job's, and there is none", "advice": "remove it"}
                place = origin.locate("metadata", field, name, key=True)
                where = f"{field[:-1]} {name}"
                told.append(diagnose(codes.NO_EFFECT, place, where=where, **facts))
    if "suspend" in trained["template"]["spec"]:
        facts = {"reason": "suspend of the TrainJob counts", "advice": "remove it"}
        place = origin.locate("spec", "suspend", key=True)
        told.append(diagnose(codes.NO_EFFECT, place, where="spec.suspend of the Job", **facts))
    return told


def _of_runtime(runtime: Source) -> Iterator[Diagnostic]:
    for path, why, advice in _RUNTIME:
        yield from _refused(runtime, path, why, advice)
    policy = runtime.data["spec"].get("mlPolicy", {})
    named = [name for name in ("torch", "jax", "xgboost", "mpi", "flux") if name in policy]
    if len(named) > 1:
        why = f"a runtime has one policy, and this one has {' and '.join(named)}"
        place = runtime.locate(("spec", "mlPolicy", named[1]), key=True)
        yield _problem(place, f"spec.mlPolicy.{named[1]}", why, "remove the others")
    jobs = _jobs(runtime)
    names = [replicated["name"] for replicated in jobs]
    for target in (
        runtime.data["spec"]["template"]["spec"]
        .get("successPolicy", {})
        .get("targetReplicatedJobs", ())
    ):
        if target not in names:
            place = runtime.locate((*_TEMPLATE, "successPolicy", "targetReplicatedJobs"))
            why = f"the runtime has no replicatedJob '{target}', only {', '.join(names)}"
            where = "successPolicy.targetReplicatedJobs"
            yield _problem(place, where, why, "name one of these")
    for place_of, replicated in enumerate(jobs):
        yield from _of_replicated_job(runtime, place_of, replicated, alone=len(jobs) == 1)


def _of_replicated_job(
    runtime: Source, place_of: int, replicated: Mapping[str, Any], *, alone: bool
) -> Iterator[Diagnostic]:
    origin = Origin(runtime, (*_TEMPLATE, "replicatedJobs", place_of))
    name = replicated["name"]
    metadata = replicated["template"].get("metadata", {})
    step = metadata.get("labels", {}).get(STEP)
    if not alone and step != "trainer":
        why = "only runtimes of one replicatedJob are compiled, the one that trains"
        yield _problem(origin.locate("name"), f"replicatedJob '{name}'", why, "")
    elif step != "trainer":
        why = f"it has not the label {STEP}: trainer, so that the TrainJob would not change it"
        advice = f"give its template the label {STEP}: trainer"
        yield _problem(origin.locate("name"), f"replicatedJob '{name}'", why, advice)
    elif not alone and place_of > 0:
        why = "only one replicatedJob may be the trainer"
        yield _problem(origin.locate("name"), f"replicatedJob '{name}'", why, "")
    if "dependsOn" in replicated:
        why = "its Pods would wait for other Jobs, of which there are none"
        yield _problem(origin.locate("dependsOn", key=True), "dependsOn", why, "remove it")
    if _TOPOLOGY in metadata.get("annotations", {}):
        place = origin.locate("template", "metadata", "annotations", _TOPOLOGY, key=True)
        yield _problem(place, f"annotation {_TOPOLOGY}", "Pods are not kept apart by it", "")
    spec = replicated["template"]["spec"]
    for field in _JOB_SPEC:
        if spec.get(field) is not None:
            place = origin.locate("template", "spec", field, key=True)
            yield _problem(place, f"{field} of the Job", "there is no Job", "remove it")
    pod = spec["template"]["spec"]
    names = [container["name"] for container in pod["containers"]]
    if step == "trainer" and MAIN not in names:
        place = origin.locate("template", "spec", "template", "spec", "containers")
        facts = {"kind": "TrainJob", "container": MAIN, "names": ", ".join(names)}
        yield diagnose(codes.NO_SUCH_CONTAINER, place, **facts)
    if pod.get("restartPolicy") not in (None, "OnFailure", "Never"):
        place = origin.locate("template", "spec", "template", "spec", "restartPolicy")
        why = "Pods of a Job have OnFailure or Never"
        yield _problem(place, f"restartPolicy {pod['restartPolicy']}", why, "write OnFailure")


def _reserved(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """Variables that the runtime's policy sets itself (reference 5.1, 5.4)."""
    policy = runtime.data["spec"].get("mlPolicy", {})
    reserved = {
        name for framework in RESERVED if framework in policy for name in RESERVED[framework]
    }
    for place_of, entry in enumerate(job.data["spec"].get("trainer", {}).get("env", ())):
        if entry["name"] in reserved:
            place = job.locate(("spec", "trainer", "env", place_of, "name"))
            why = "the runtime's policy sets it, and Trainer refuses another value"
            yield _problem(place, f"variable {entry['name']}", why, "remove it")


def _torchtune(job: Source, runtime: Source) -> Iterator[Diagnostic]:
    """A command that Trainer writes anew, from the runtime's name and arguments (reference 5.2)."""
    if "torch" in runtime.data["spec"].get("mlPolicy", {}) and job.data["spec"].get(
        "trainer", {}
    ).get("command") == ["tune", "run"]:
        place = job.locate(("spec", "trainer", "command"))
        why = "Trainer completes the command of torchtune, which is not done here"
        yield _problem(place, "command tune run", why, "write the whole command")


def _refused(source: Source, path: ValuePath, why: str, advice: str) -> Iterator[Diagnostic]:
    value: Any = source.data
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    if value is not None:
        yield _problem(source.locate(path, key=True), dotted(path), why, advice)


def _problem(place: Any, where: str, why: str, advice: str) -> Diagnostic:
    return diagnose(codes.NOT_COMPILED, place, where=where, reason=why, advice=advice)


def _jobs(runtime: Source) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = runtime.data["spec"]["template"]["spec"]["replicatedJobs"]
    return found
