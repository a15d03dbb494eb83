"""TrainJob of Kubeflow Trainer v2 (`trainer.kubeflow.org/v1alpha1`) to a job.

reference/trainer-v2.md. The document that is read here is the one that `trainer_merge` makes of a
TrainJob and its runtime. What Trainer leaves to JobSet and to the Job controller is done as they
do it: one headless Service, names of Pods that are their host names, their labels and annotations.
"""

from collections.abc import Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, Source
from etcompile.frontends import gang
from etcompile.frontends.annotations import unknown_annotations
from etcompile.frontends.documents import clean_document
from etcompile.frontends.kind import Kind, Lowered
from etcompile.frontends.kubeflow import TOGETHER, flag_errors
from etcompile.frontends.podtemplates import template_notes
from etcompile.frontends.trainer_merge import INDEX, JOB_SET, MAIN, RUNTIME
from etcompile.model import (
    Job,
    Member,
    Naming,
    Origin,
    PodAdditions,
    PodTemplate,
    Recovery,
    Role,
    RoleLabels,
    RunPolicy,
    SharedService,
    Success,
)
from etcompile.model.protocol import config_name

API_VERSION = "trainer.kubeflow.org/v1alpha1"
_JOB_SET_LABEL = "jobset.sigs.k8s.io"
_ANNOTATIONS = (TOGETHER, *gang.ANNOTATIONS)
_BACKOFF_LIMIT = 6
"""That of a Job without one."""
_TRAINED = (*JOB_SET, "replicatedJobs", 0)


def lower(source: Source) -> Lowered:
    """The job of a TrainJob that its runtime is merged into; none of one without a runtime."""
    if RUNTIME not in source.data:
        return Lowered(None)
    notes = [*unknown_annotations(source, _ANNOTATIONS), *flag_errors(source, (TOGETHER,))]
    asked = gang.by_annotation(source)
    notes += asked.diagnostics
    data, name = source.data, source.data["metadata"]["name"]
    job_set = data[RUNTIME]["spec"]["template"]["spec"]
    [trained] = job_set["replicatedJobs"]
    role, problems = _role(source, name, trained)
    notes += problems
    document = {**clean_document(source, _ANNOTATIONS), RUNTIME: data[RUNTIME]}
    subdomain = job_set.get("network", {}).get("subdomain") or name
    annotations = data["metadata"].get("annotations", {})
    job = Job(
        name=name,
        namespace=data["metadata"].get("namespace"),
        kind="TrainJob",
        api_version=API_VERSION,
        roles=(role,),
        selector={f"{_JOB_SET_LABEL}/jobset-name": name},
        run=RunPolicy(
            restart="Never",
            backoff_limit=_limit(trained["template"]["spec"]),
            # JobSet deletes what still runs and leaves what has ended.
            clean_pods="Running",
            success=Success((role.name,)),
            suspended=bool(data["spec"].get("suspend")),
            suspended_by=("spec", "suspend"),
            deadline=data["spec"].get("activeDeadlineSeconds"),
            ttl=job_set.get("ttlSecondsAfterFinished"),
            together=annotations.get(TOGETHER) == "true",
            limits="failures",
        ),
        config_name=config_name(name),
        document=document,
        identity=_identity(name, role, subdomain, trained),
        origin=Origin(source),
        # Host names are written with the Service's name, so that they need no search domain.
        service=SharedService(subdomain, searched=False),
        gang=asked.gang,
        fixed="every node is told how many there are",
    )
    return Lowered(job, tuple(notes))


def _role(source: Source, job: str, trained: Mapping[str, Any]) -> tuple[Role, list[Diagnostic]]:
    """The nodes: the Pods of an Indexed Job of a JobSet (reference 7.4)."""
    origin = Origin(source, (*_TRAINED, "template", "spec", "template"))
    spec = trained["template"]["spec"]
    template, name = spec["template"], trained["name"]
    restart = template["spec"].get("restartPolicy") or "OnFailure"
    metadata = template.get("metadata", {})
    own = _job_set_keys(trained)
    made = PodTemplate(
        labels=metadata.get("labels", {}),
        annotations={
            **metadata.get("annotations", {}),
            f"{_JOB_SET_LABEL}/jobset-name": job,
            f"{_JOB_SET_LABEL}/replicatedjob-name": name,
            **own,
        },
        spec=template["spec"],
        main=MAIN,
        origin=origin,
    )
    deadlines = [
        seconds
        for seconds in (
            spec.get("activeDeadlineSeconds"),
            source.data["spec"].get("activeDeadlineSeconds"),
        )
        if seconds is not None
    ]
    role = Role(
        name=name,
        naming=Naming(stem=f"{job}-{name}-0"),
        labels=RoleLabels(
            common={f"{_JOB_SET_LABEL}/replicatedjob-name": name},
            pods={
                **own,
                "batch.kubernetes.io/job-name": f"{job}-{name}-0",
                "job-name": f"{job}-{name}-0",
            },
            index=INDEX,
            annotated=True,
        ),
        members=tuple(Member(index) for index in range(spec["parallelism"])),
        template=made,
        origin=origin,
        additions=PodAdditions(run_once=True),
        recovery=Recovery(
            restart="OnFailure",
            pod_restart=restart,
            # The Job controller makes a Pod again that is gone.
            comes_back="when-gone",
            deadline=min(deadlines, default=None),
        ),
    )
    return role, template_notes(origin, template, restart_policy=restart)


def _job_set_keys(trained: Mapping[str, Any]) -> dict[str, str]:
    """Labels, and annotations too, that JobSet gives the Pods of a JobSet of one Job."""
    values = {
        "restart-attempt": "0",
        "replicatedjob-replicas": "1",
        "global-replicas": "1",
        "job-index": "0",
        "job-global-index": "0",
        "group-name": str(trained.get("groupName") or "default"),
        "group-replicas": "1",
        "job-group-index": "0",
    }
    return {f"{_JOB_SET_LABEL}/{key}": value for key, value in values.items()}


def _limit(spec: Mapping[str, Any]) -> int:
    given = spec.get("backoffLimit")
    return _BACKOFF_LIMIT if given is None else int(given)


def _identity(name: str, role: Role, subdomain: str, trained: Mapping[str, Any]) -> dict[str, Any]:
    """What the job's Pods are made of, without what only a watcher reads."""
    return {
        "kind": "TrainJob",
        "name": name,
        "subdomain": subdomain,
        "replicatedJob": trained["name"],
        "nodes": len(role.members),
        "template": {"spec": role.template.spec},
    }


KINDS = (
    Kind(
        api_version=API_VERSION,
        name="TrainJob",
        schema="TrainJob.json",
        lower=lower,
        summary="Kubeflow Trainer v2: torch, JAX, XGBoost and plain jobs of one kind of node",
        pod_counts=(("spec", "trainer", "numNodes"),),
        pod_templates=((*JOB_SET, "replicatedJobs", "*", "template", "spec", "template"),),
        managed_by=("spec", "managedBy"),
        managers=("trainer.kubeflow.org/trainjob-controller",),
    ),
)
