"""Turn an ElasticJob of DLRover (`elastic.iml.github.io/v1alpha1`) into a job.

See reference/dlrover.md. AllreduceStrategy needs nothing of DLRover but its images;
ParameterServerStrategy runs DLRover's master, or none. This module has what both share.
"""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.frontends import annotations, gang
from etcompile.frontends.annotations import NNODES, annotations_of
from etcompile.frontends.dlrover import allreduce, elastic_pods, parameter_servers
from etcompile.frontends.dlrover.elastic_spec import (
    ALLREDUCE,
    ANNOTATIONS,
    API_VERSION,
    JOB_LABEL,
    MASTER,
    PARAMETER_SERVERS,
    Spec,
    crash_notes,
    read_version,
)
from etcompile.frontends.document_parts import MAIN_CONTAINER, clean_document
from etcompile.frontends.kind import DLROVER, Kind, Lowered
from etcompile.frontends.notes import no_such_container, template_notes, unused
from etcompile.k8s.bookkeeping import LAST_APPLIED
from etcompile.model import DLROVER_VERSION, Job, RunPolicy
from etcompile.model.protocol import config_name


def lower(source: Source) -> Lowered:
    notes = []
    if annotations.restarts_in_place(source):
        # DLRover itself restarts processes or Pods (reference/dlrover.md 4).
        advice = f"remove {annotations.RESTART}"
        problem = "a replica that failed is followed by another Pod, as DLRover's master does it"
        if source.data["spec"].get("distributionStrategy") == ALLREDUCE:
            problem = "dlrover-run itself starts its processes again, in their container"
            advice += ", and say how often with dlrover-run --max_restarts"
        notes.append(annotations.impossible(source, problem, advice))
    # The container that trains is the only one, or the one named `main`. Upstream drops a Pod with
    # several containers and none of that name, and only logs it (reference 3.3). kubectl's
    # annotation names another one, as in all kinds.
    mains: dict[str, str] = {}
    valid = True
    for name, fields in source.data["spec"]["replicaSpecs"].items():
        template = fields["template"]
        containers = template["spec"]["containers"]
        named = template.get("metadata", {}).get("annotations", {}).get(MAIN_CONTAINER)
        default = "main" if len(containers) > 1 else containers[0]["name"]
        mains[name] = default if named is None else named
        if all(container["name"] != mains[name] for container in containers):
            place = source.locate(("spec", "replicaSpecs", name, "template", "spec", "containers"))
            notes.append(no_such_container(place, "ElasticJob", mains[name], containers))
            valid = False
    if not valid:
        return None, notes
    version, problems = read_version(source)
    spec = Spec(source, version, mains)
    notes += [*problems, *_notes(spec)]
    if any(note.code in (codes.NO_PARAMETER_SERVERS, codes.NOBODY_TRAINS) for note in notes):
        return None, notes
    return _job(spec), notes


def _job(spec: Spec) -> Job:
    strategy = allreduce if spec.is_allreduce else parameter_servers
    fields = strategy.described(spec)
    metadata, version = spec.source.data["metadata"], ".".join(map(str, spec.version))
    document = clean_document(spec.source, ())
    # The master's Pod has all of them, so recreating it needs them.
    if labels := metadata.get("labels"):
        document["metadata"]["labels"] = labels
    written = annotations_of(spec.source)
    stored = {name: text for name, text in written.items() if name != LAST_APPLIED}
    # A Pod that is recreated must be for the same version, whichever is the newest then.
    stored.setdefault(DLROVER_VERSION, version)
    document["metadata"]["annotations"] = stored
    # The identity includes the number of Pods, which is in `NODE_NUM`.
    policies = ("restartCount", *elastic_pods.UNREAD_OF_TYPE, "template")
    types = {
        name: {
            **{k: v for k, v in body.items() if k not in policies},
            "template": {"spec": body["template"]["spec"]},
        }
        for name, body in spec.types.items()
    }
    rest = {k: v for k, v in spec.fields.items() if k != "suspend"}
    names = (PARAMETER_SERVERS, NNODES, *elastic_pods.ANNOTATIONS)
    return Job(
        **spec.of_job,
        selector={JOB_LABEL: spec.name},
        run=RunPolicy(
            restart="Never",
            backoff_limit=None,
            # Upstream's newest masters delete every Pod at the end, even failed ones (defect 12),
            # and older ones leave all running Pods (defect 24).
            clean_pods="Running",
            # It ends by itself, and its log is that of the job.
            keeps=(MASTER,),
            success=fields.pop("success"),
            suspended=bool(spec.fields.get("suspend")),
            suspended_by=("spec", "suspend"),
        ),
        config_name=config_name(spec.name),
        document=document,
        identity={
            "kind": "ElasticJob",
            "name": spec.name,
            "version": version,
            "annotations": {name: written[name] for name in names if name in written},
            "spec": {**rest, "replicaSpecs": types},
        },
        # A Pod with `elasticjob` and without an owner crashes a running operator (reference 7,
        # defect d).
        app="dlrover",
        gang=gang.by_annotation(spec.source),
        **fields,
    )


def _notes(spec: Spec) -> Iterator[Diagnostic]:
    yield from elastic_pods.notes(spec)
    for name, fields in spec.types.items():
        if name == MASTER:
            continue
        origin, template = spec.origin(name).at("template"), fields["template"]
        policy = template["spec"].get("restartPolicy", "Never")
        yield from template_notes(origin, template, restart_policy=policy)
        yield from crash_notes(origin.at("metadata"), template.get("metadata", {}))
        if policy != "Never" and (spec.is_allreduce or name != "worker"):
            place = origin.locate("spec", "restartPolicy")
            where = f"{name}.template.spec.restartPolicy"
            reason = "DLRover's Pods have Never; another Pod follows one that failed"
            yield unused(place, where, reason, "restartCount says how often")
    yield from (allreduce if spec.is_allreduce else parameter_servers).notes(spec)
    if spec.is_allreduce or not parameter_servers.is_static(spec):
        yield from elastic_pods.master_notes(spec, local=spec.is_allreduce)
    # Upstream's master ends a job without workers within seconds.
    empty = not spec.replicas("worker")
    if not spec.is_allreduce and "ps" in spec.types:
        counts = parameter_servers.counts_of(spec)
        empty = not (counts["worker"] or counts["chief"])
    if empty and not spec.fields.get("suspend"):
        place = spec.origin("worker").locate("replicas")
        yield diagnose(codes.NOBODY_TRAINS, place, job=spec.name, where="worker")


KINDS = (
    Kind(
        api_version=API_VERSION,
        name="ElasticJob",
        schema="ElasticJob.json",
        lower=lower,
        summary="DLRover: elastic PyTorch, and TensorFlow with parameter servers",
        annotations={**ANNOTATIONS, **gang.ANNOTATIONS, **annotations.OF_RESTARTS},
        pod_counts=(("spec", "replicaSpecs", "*", "replicas"),),
        pod_templates=(("spec", "replicaSpecs", "*", "template"),),
        completed=(MASTER,),
        operator=DLROVER,
    ),
)
