"""ElasticJob of DLRover (`elastic.iml.github.io/v1alpha1`) to a job.

reference/dlrover.md. AllreduceStrategy needs nothing of DLRover in the cluster but its images;
ParameterServerStrategy keeps DLRover's master, or does without one. What is common is here.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.frontends import gang, restarts
from etcompile.frontends.annotations import NNODES, annotations_of, unknown_annotations
from etcompile.frontends.dlrover import (
    allreduce,
    elastic_spec,
    master,
    parameter_servers,
    replica_types,
)
from etcompile.frontends.dlrover.elastic_spec import MASTER, Spec
from etcompile.frontends.document_parts import MAIN_CONTAINER, clean_document
from etcompile.frontends.kind import Kind, Lowered
from etcompile.frontends.notes import template_notes, unused
from etcompile.frontends.operators import DLROVER
from etcompile.model import DLROVER_VERSION, Job, Origin, RunPolicy, Success
from etcompile.model.protocol import config_name
from etcompile.model.sizes import LAST_APPLIED

_MAIN = "main"
_FIXED = (
    "each of its Pods knows all others by TF_CONFIG",
    "DLRover's master makes its Pods, and from 0.6 on it reads no plans",
)
_POLICIES = ("restartCount", "restartPolicy", "restartTimeout", "criticalNodes", "BatchScheduler")
"""Fields of a type that change no Pod."""


def lower(source: Source) -> Lowered:
    """The job of an ElasticJob that `schemas/ElasticJob.json` accepts."""
    known = (*elastic_spec.ANNOTATIONS, *gang.ANNOTATIONS, *restarts.ANNOTATIONS)
    notes = [*unknown_annotations(source, known), *_in_place(source)]
    mains, problems = _mains(source)
    notes += problems
    if mains is None:
        return Lowered(None, tuple(notes))
    version, problems = elastic_spec.read_version(source)
    spec = Spec(source, version, mains)
    notes += [*problems, *_notes(spec)]
    if any(note.code in (codes.NO_PARAMETER_SERVERS, codes.NOBODY_TRAINS) for note in notes):
        return Lowered(None, tuple(notes))
    asked, problems = gang.by_annotation(source)
    return Lowered(structs.replace(_job(spec), gang=asked), (*notes, *problems))


def _in_place(source: Source) -> Iterator[Diagnostic]:
    """What is wrong with a wish that DLRover fulfils in its own way (reference/dlrover.md 4)."""
    asked, problems = restarts.by_annotation(source)
    yield from problems
    if asked is None:
        return
    advice = f"remove {restarts.RESTART}"
    if source.data["spec"].get("distributionStrategy") == elastic_spec.ALLREDUCE:
        problem = "dlrover-run itself starts its processes again, in their container"
        advice += ", and say how often with dlrover-run --max_restarts"
    else:
        problem = "a replica that failed is followed by another Pod, as DLRover's master does it"
    yield restarts.impossible(source, problem, advice)


def _mains(source: Source) -> tuple[dict[str, str] | None, list[Diagnostic]]:
    """The container that trains, by type: the only one, or the one named `main`.

    Upstream drops a Pod with several containers and none of that name, and says so in a log
    only (reference 3.3). kubectl's annotation names another one, as in all kinds.
    """
    found: dict[str, str] = {}
    for name, given in source.data["spec"]["replicaSpecs"].items():
        origin = Origin(source, ("spec", "replicaSpecs", name, "template"))
        names = [container["name"] for container in given["template"]["spec"]["containers"]]
        annotations = given["template"].get("metadata", {}).get("annotations", {})
        wanted = annotations.get(MAIN_CONTAINER, _MAIN if len(names) > 1 else names[0])
        if wanted not in names:
            place = origin.locate("spec", "containers")
            facts = {"kind": "ElasticJob", "container": wanted, "names": ", ".join(names)}
            return None, [diagnose(codes.NO_SUCH_CONTAINER, place, **facts)]
        found[name] = wanted
    return found, []


def _job(spec: Spec) -> Job:
    document = _document(spec)
    job = Job(
        name=spec.name,
        namespace=spec.source.data["metadata"].get("namespace"),
        kind="ElasticJob",
        api_version=elastic_spec.API_VERSION,
        roles=(),
        selector={elastic_spec.JOB_LABEL: spec.name},
        run=_run_policy(spec, Success((MASTER,))),
        config_name=config_name(spec.name),
        document=document,
        identity=_identity(spec),
        origin=Origin(spec.source),
        # Not `elasticjob`: an operator that runs dies of a Pod with that name and without an
        # owner (reference 7, defect d).
        app="dlrover",
    )
    if spec.is_allreduce:
        success = allreduce.success(spec)
        changes = allreduce.changes(spec)
        roles = allreduce.roles(spec)
        return structs.replace(job, roles=roles, run=_run_policy(spec, success), **changes)
    if parameter_servers.is_static(spec):
        return structs.replace(
            job,
            roles=parameter_servers.static_roles(spec),
            run=_run_policy(spec, parameter_servers.static_success(spec)),
            names_namespace="TF_CONFIG contains it",
            fixed=_FIXED[0],
        )
    plans = parameter_servers.reads_plans(spec)
    return structs.replace(
        job,
        roles=(parameter_servers.master_role(spec),),
        access=parameter_servers.access(spec),
        custom=(parameter_servers.custom_resource(spec),),
        keeps_plans=plans,
        fixed=None if plans else _FIXED[1],
    )


def _run_policy(spec: Spec, success: Success) -> RunPolicy:
    return RunPolicy(
        restart="Never",
        backoff_limit=None,
        # Upstream's newest masters delete every Pod at the end, also failed ones (defect 12), and
        # older ones leave all running that do (defect 24).
        clean_pods="Running",
        # It ends by itself, and its log is the job's.
        keeps=(MASTER,),
        success=success,
        suspended=bool(spec.fields.get("suspend")),
        suspended_by=("spec", "suspend"),
    )


def _document(spec: Spec) -> dict[str, Any]:
    """The document with all labels and annotations, the version of DLRover among them."""
    document = clean_document(spec.source, ())
    metadata = document["metadata"]
    # The master's Pod has them all, so whoever makes it again must know them.
    if labels := spec.source.data["metadata"].get("labels"):
        metadata["labels"] = labels
    annotations = {k: v for k, v in annotations_of(spec.source).items() if k != LAST_APPLIED}
    # Whichever is the newest by then: a Pod that is made again is made for the same.
    annotations.setdefault(DLROVER_VERSION, _text(spec.version))
    metadata["annotations"] = annotations
    return document


def _identity(spec: Spec) -> dict[str, Any]:
    """What the job's Pods are made of; their number too, because `NODE_NUM` tells it."""
    types = {
        name: {
            **{k: v for k, v in given.items() if k not in (*_POLICIES, "template")},
            "template": {"spec": given["template"]["spec"]},
        }
        for name, given in spec.types.items()
    }
    fields = {k: v for k, v in spec.fields.items() if k != "suspend"}
    annotations = (elastic_spec.PARAMETER_SERVERS, NNODES, *master.ANNOTATIONS)
    given = annotations_of(spec.source)
    return {
        "kind": "ElasticJob",
        "name": spec.name,
        "version": _text(spec.version),
        "annotations": {name: given[name] for name in annotations if name in given},
        "spec": {**fields, "replicaSpecs": types},
    }


def _text(version: elastic_spec.Version) -> str:
    return ".".join(map(str, version))


# What is wrong, and what changes nothing ----------------------------------------------------------


def _notes(spec: Spec) -> Iterator[Diagnostic]:
    yield from replica_types.dead_notes(spec)
    for name, given in spec.types.items():
        if name != MASTER:
            yield from _template_notes(spec, name, given["template"])
    yield from replica_types.priority_notes(
        spec, [replica_type for replica_type in spec.types if replica_type != MASTER]
    )
    if spec.is_allreduce:
        yield from allreduce.notes(spec)
    else:
        yield from parameter_servers.notes(spec)
    if spec.is_allreduce or not parameter_servers.is_static(spec):
        yield from master.notes(spec, local=spec.is_allreduce)
        yield from master.template_notes(spec)
        yield from master.label_notes(spec)
    yield from _nobody(spec)


def _template_notes(spec: Spec, name: str, template: Mapping[str, Any]) -> Iterator[Diagnostic]:
    origin = spec.origin(name).at("template")
    policy = template["spec"].get("restartPolicy", "Never")
    yield from template_notes(origin, template, restart_policy=policy)
    yield from elastic_spec.crash_notes(origin.at("metadata"), template.get("metadata", {}))
    if policy != "Never" and (spec.is_allreduce or name != "worker"):
        place = origin.locate("spec", "restartPolicy")
        where = f"{name}.template.spec.restartPolicy"
        reason = "DLRover's Pods have Never; another Pod follows one that failed"
        yield unused(place, where, reason, "restartCount says how often")


def _nobody(spec: Spec) -> Iterator[Diagnostic]:
    """An error for a job without workers, which upstream's master ends within seconds."""
    empty = not spec.replicas("worker")
    if not spec.is_allreduce and "ps" in spec.types:
        found = parameter_servers.counts(spec)
        empty = not (found["worker"] or found["chief"])
    if empty and not spec.fields.get("suspend"):
        place = spec.origin("worker").locate("replicas")
        yield diagnose(codes.NOBODY_TRAINS, place, job=spec.name, where="worker")


KINDS = (
    Kind(
        api_version=elastic_spec.API_VERSION,
        name="ElasticJob",
        schema="ElasticJob.json",
        lower=lower,
        summary="DLRover: elastic PyTorch, and TensorFlow with parameter servers",
        pod_counts=(("spec", "replicaSpecs", "*", "replicas"),),
        pod_templates=(("spec", "replicaSpecs", "*", "template"),),
        completed=(MASTER,),
        operator=DLROVER,
    ),
)
