"""TrainingJob of et-operator (`kai.alibabacloud.com/v1alpha1`) to a job.

Names, labels, volumes, files and modes are those of reference/et-operator.md 2; what is
different here, and why, is listed in docs/differences.md. The document has passed its schema,
so this module reads it without looking twice.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.frontends import gang, hosts, restarts
from etcompile.frontends.annotations import (
    GATE_TIMEOUT,
    annotation_value,
    annotations_of,
    gate_timeout,
    unknown_annotations,
)
from etcompile.frontends.document_parts import (
    MOUNTED_HOME,
    clean_document,
    main_container,
    pod_template,
)
from etcompile.frontends.hosts import (
    KUBECTL_PATH,
    KUBEXEC,
    KUBEXEC_FILE,
    NO_TREE_SPAWN,
    RSH_AGENT,
    SSH_PORT,
    config_files,
    launcher_access,
    ssh_port,
)
from etcompile.frontends.kind import Kind, Lowered
from etcompile.frontends.notes import template_notes, unused
from etcompile.frontends.operators import ET_OPERATOR
from etcompile.k8s.path import dotted, value_at
from etcompile.k8s.quantity import number
from etcompile.launch.commands import least_workers
from etcompile.model import (
    Bounds,
    ConfigFile,
    EmptyDir,
    Gate,
    HostList,
    InitContainer,
    Job,
    Member,
    Mount,
    Naming,
    Origin,
    PodAdditions,
    PodTemplate,
    Port,
    Recovery,
    Resident,
    Role,
    RoleLabels,
    RunPolicy,
    SshCredentials,
    Success,
    Volume,
)
from etcompile.model.protocol import HOSTS_PATH, config_name
from etcompile.model.settings import SECRET_NAME

API_VERSION = "kai.alibabacloud.com/v1alpha1"
_GROUP = "kai.alibabacloud.com"

_SUSPEND = "job-supervisor.kube-ai.io/job-suspended"
_SSH_SECRET = "arena.kubeflow.org/ssh-secret"  # noqa: S105 - the name of an annotation
_SSH_MOUNT_PATH = "etcompile.dev/ssh-mount-path"
_ANNOTATIONS = (
    *(_SUSPEND, _SSH_SECRET, _SSH_MOUNT_PATH, SSH_PORT, GATE_TIMEOUT),
    *gang.ANNOTATIONS,
    *restarts.ANNOTATIONS,
)

_MOST_SLOTS = 2**31 - 1
_GPU = "nvidia.com/gpu"
_ROOT_SSH = "/root/.ssh"
_NON_ROOT_PORT = 2222

_ROLES: ValuePath = ("spec", "etReplicaSpecs")
_HOSTFILE = Mount("training-job-hostfile", "/etc/edl")
_CONFIG = Mount("training-job-config", "/etc/mpi")
_KUBECTL = Mount("training-job-kubectl", KUBECTL_PATH)
_DEEPSPEED = Mount("deepspeed-hostfile", "/job")
_SSH_CONFIG = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"

_INIT_HOSTFILE = (  # reference/et-operator.md 2.5, letter by letter
    "cp /etc/mpi/hostfile /etc/edl/hostfile && chmod 600 /etc/edl/hostfile && "
    "cp /etc/mpi/discover_hosts.sh /etc/edl/discover_hosts.sh && "
    "chmod +x /etc/edl/discover_hosts.sh && "
    "cp /etc/mpi/deepspeed-hostfile /job/hostfile && chmod 600 /job/hostfile"
)
_INIT_RESOURCES = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}
_DELIVERY_RESOURCES = {"cpu": "100m", "memory": "64Mi"}


def lower(source: Source) -> Lowered:
    """The job that a TrainingJob describes.

    Returns:
        The job, with its workers as written (scale intents come later), and what is to be said
        about the document; no job if it contradicts itself.
    """
    spec = source.data["spec"]
    mode = spec.get("launcherAttachMode")
    mode = "ssh" if mode is None else mode
    templates = {}
    diagnostics: list[Diagnostic] = [
        *_dead_fields(source),
        *_annotation_errors(source),
        *gate_timeout(source)[1],
        *unknown_annotations(source, _ANNOTATIONS),
    ]
    for role in ("launcher", "worker"):
        template, problems = _template(source, role)
        diagnostics += problems
        if template is not None:
            templates[role] = template
    if len(templates) < 2:
        return Lowered(None, tuple(diagnostics))
    credentials = None
    if mode == "ssh":
        credentials, problems = _credentials(source, templates)
        diagnostics += problems
    asked, gang_problems = gang.by_annotation(source)
    in_place, problems = restarts.by_annotation(source)
    diagnostics += [*gang_problems, *problems]
    job = structs.replace(_job(source, mode, templates, credentials), gang=asked)
    # Elastic Horovod goes on without a worker, so only its launcher needs to run again.
    job = restarts.restarted(job, in_place, ("launcher",))
    return Lowered(job, (*diagnostics, *_no_slots(job)))


def _job(
    source: Source,
    mode: str,
    templates: Mapping[str, PodTemplate],
    credentials: SshCredentials | None,
) -> Job:
    metadata, spec = source.data["metadata"], source.data["spec"]
    name = metadata["name"]
    document = clean_document(source, _ANNOTATIONS)
    # Not by the Pods' names: they would change with every scale-out, and so would the Role.
    access, account = launcher_access(name, templates["launcher"], execs=mode == "kubexec")
    return Job(
        name=name,
        namespace=metadata.get("namespace"),
        kind="TrainingJob",
        api_version=API_VERSION,
        roles=(
            _worker(source, name, mode, templates),
            _launcher(source, name, mode, templates["launcher"], account),
        ),
        labels={"app": name},
        selector={"group-name": _GROUP, "training-job-name": name},
        run=RunPolicy(
            restart=spec.get("restartPolicy", "Never"),
            backoff_limit=spec.get("backoffLimit", 6),
            clean_pods=spec.get("cleanPodPolicy", "Running") or "None",
            success=Success(("launcher",)),
            suspended=annotations_of(source).get(_SUSPEND) == "true",
            keeps=("launcher",),
        ),
        config_name=config_name(name, of_operator=True),
        files=_files(templates["worker"].main),
        host_lists=(
            HostList("hostfile", ("worker",), "{host}:{slots}"),
            HostList("deepspeed-hostfile", ("worker",), "{host} slots={slots}"),
        ),
        slots=_slots(spec, templates["worker"]),
        access=access,
        credentials=credentials,
        document=document,
        identity=_identity(document),
        origin=Origin(source),
    )


# Roles ----------------------------------------------------------------------------------------


def _worker(source: Source, job: str, mode: str, templates: Mapping[str, PodTemplate]) -> Role:
    worker = source.data["spec"]["etReplicaSpecs"]["worker"]
    template = templates["worker"]
    execs = mode == "kubexec"
    return Role(
        name="worker",
        naming=Naming(stem=f"{job}-worker"),
        labels=RoleLabels(common={"training-job-role": "worker"}, index="replica-index"),
        members=tuple(Member(index) for index in range(worker["replicas"])),
        template=template,
        origin=Origin(source, (*_ROLES, "worker")),
        ports=(Port("ssh-port", 22), Port("kubeai-service-port", 9009)),
        additions=PodAdditions(
            # Open MPI's daemons look for their launcher's agent too, and die without it.
            volumes=(config_files(_CONFIG.volume, KUBEXEC_FILE),) if execs else (),
            mounts=(_CONFIG,) if execs else (),
            resident=Resident(ssh=mode == "ssh"),
        ),
        recovery=Recovery(restart=worker.get("restartPolicy") or "Never", vital=False),
        bounds=Bounds(
            worker.get("minReplicas", 1),
            worker.get("maxReplicas"),
            quorum=_quorum(source, templates),
        ),
    )


def _quorum(source: Source, templates: Mapping[str, PodTemplate]) -> int:
    """How many workers the launcher needs to begin."""
    spec = source.data["spec"]
    worker = spec["etReplicaSpecs"]["worker"]
    return least_workers(
        templates["launcher"].main_container,
        worker["replicas"],
        _slots(spec, templates["worker"]),
        stated=worker.get("minReplicas"),
    )


def _launcher(
    source: Source, job: str, mode: str, template: PodTemplate, account: str | None
) -> Role:
    launcher = source.data["spec"]["etReplicaSpecs"]["launcher"]
    execs = mode == "kubexec"
    tools = (_KUBECTL,) if execs else ()
    return Role(
        name="launcher",
        naming=Naming(stem=f"{job}-launcher"),
        labels=RoleLabels(common={"training-job-role": "launcher"}),
        members=(Member(),),
        template=template,
        origin=Origin(source, (*_ROLES, "launcher")),
        additions=PodAdditions(
            env=(RSH_AGENT, NO_TREE_SPAWN) if execs else (),
            volumes=_volumes(execs=execs),
            mounts=(_HOSTFILE, _CONFIG, *tools, _DEEPSPEED),
            reads_hosts=True,
            setup=(*_setup(execs=execs),),
            gate=Gate(
                roles=("worker",),
                hosts=f"{_HOSTFILE.path}/hostfile",
                mounts=(_HOSTFILE, _CONFIG, *tools),
                ssh=mode == "ssh",
                timeout=gate_timeout(source)[0],
                kubexec=KUBEXEC if execs else None,
            ),
            run_once=True,
            service_account=account,
        ),
        recovery=Recovery(restart=launcher.get("restartPolicy") or "Never"),
    )


def _setup(*, execs: bool) -> Iterator[InitContainer]:
    yield InitContainer(
        name="init-hostfile",
        image="init",
        script=_INIT_HOSTFILE,
        mounts=(_HOSTFILE, _DEEPSPEED, _CONFIG),
        resources=_INIT_RESOURCES,
    )
    if execs:
        yield hosts.kubectl_delivery(_KUBECTL.volume, _DELIVERY_RESOURCES)


def _volumes(*, execs: bool) -> tuple[Volume, ...]:
    return (
        EmptyDir(_HOSTFILE.volume),
        EmptyDir(_DEEPSPEED.volume),
        # In ssh mode it would only hide a kubectl of the image (reference defect 41).
        *([EmptyDir(_KUBECTL.volume)] if execs else []),
        config_files(
            _CONFIG.volume,
            ("hostfile", 0o444),
            ("discover_hosts.sh", 0o444),
            KUBEXEC_FILE,
            ("deepspeed-hostfile", 0o444),
        ),
    )


def _files(container: str) -> tuple[ConfigFile, ...]:
    hostfile = f"{_HOSTFILE.path}/hostfile"
    return (
        ConfigFile(
            "discover_hosts.sh",
            "discover_hosts.sh",
            {"live": f"{HOSTS_PATH}/hostfile", "seed": hostfile},
        ),
        hosts.kubexec_script(container),
    )


# Templates ------------------------------------------------------------------------------------


def _template(source: Source, role: str) -> tuple[PodTemplate | None, list[Diagnostic]]:
    origin = Origin(source, (*_ROLES, role, "template"))
    template = source.data["spec"]["etReplicaSpecs"][role]["template"]
    main, problems = main_container(origin, template)
    problems += template_notes(origin, template, restart_policy="Never")
    if main is None:
        return None, problems
    return pod_template(origin, template, main), problems


def _slots(spec: Mapping[str, Any], worker: PodTemplate) -> int:
    """Processes per worker (reference/et-operator.md 1.1, slotsPerWorker): limits only."""
    if (given := spec.get("slotsPerWorker")) is not None:
        return int(given)
    limit = worker.main_container.get("resources", {}).get("limits", {}).get(_GPU)
    if limit is None:
        return 1
    return int(min(number(str(limit)) or 0, _MOST_SLOTS + 1))


def _no_slots(job: Job) -> Iterator[Diagnostic]:
    """An error for a GPU limit that gives no slots, or more than a hostfile can tell."""
    worker = job.roles[0].template
    if not 1 <= job.slots <= _MOST_SLOTS:
        limit = worker.main_container["resources"]["limits"][_GPU]
        place = worker.main_origin.locate("resources", "limits", _GPU)
        yield diagnose(codes.ACCELERATORS_NONE, place, where=f"limits.{_GPU}", found=limit)


# ssh ------------------------------------------------------------------------------------------


def _credentials(
    source: Source, templates: Mapping[str, PodTemplate]
) -> tuple[SshCredentials, list[Diagnostic]]:
    annotations = annotations_of(source)
    path = annotations.get(_SSH_MOUNT_PATH, _ROOT_SSH).rstrip("/")
    others = [role for role, template in templates.items() if not template.runs_as_root]
    problems = []
    if path == _ROOT_SSH:
        problems = [
            diagnose(
                codes.NON_ROOT_SSH, templates[role].origin.locate("spec"), where=role, path=path
            )
            for role in others
        ]
    named = annotations.get(_SSH_SECRET)
    worker = templates["worker"]
    serves = not worker.main_container.get("command")
    port, disagreements = ssh_port(source, templates["launcher"], worker, serves=serves)
    problems += disagreements
    credentials = SshCredentials(
        secret=named or source.data["metadata"]["name"],
        files=(
            ("id_rsa", "id_rsa"),
            ("id_rsa.pub", "id_rsa.pub"),
            ("id_rsa.pub", "authorized_keys"),
            ("config", "config"),
        ),
        mount_path=path,
        port=port or (_NON_ROOT_PORT if "worker" in others else 22),
        owned=not named,
        copied=bool(others),
        config=_SSH_CONFIG,
    )
    return credentials, problems


# The document ---------------------------------------------------------------------------------


def _annotation_errors(source: Source) -> Iterator[Diagnostic]:
    for name, form, expected in (
        (_SSH_SECRET, f"(?:{SECRET_NAME})?", "the name of a Secret"),
        (_SSH_MOUNT_PATH, MOUNTED_HOME, "a plain absolute path that the job does not use itself"),
    ):
        found = annotations_of(source).get(name)
        if found is not None and not re.fullmatch(form, found, re.ASCII):
            yield annotation_value(source, name, expected)


def _identity(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the job's Pods are made of.

    Scaling a run does not make it another run, nor does a policy that only a watcher reads, nor
    the Pods' own labels and annotations, which may change while they run.
    """
    policies = ("restartPolicy", "backoffLimit", "cleanPodPolicy")
    spec = {key: value for key, value in document["spec"].items() if key not in policies}
    roles = {
        role: {"template": {"spec": body["template"]["spec"]}}
        for role, body in spec["etReplicaSpecs"].items()
    }
    return {
        "kind": document["kind"],
        "name": document["metadata"]["name"],
        "spec": {**spec, "etReplicaSpecs": roles},
    }


def _dead_fields(source: Source) -> Iterator[Diagnostic]:
    """Fields accepted for upstream's sake that mean less than they seem to."""
    no_way = "the empty mode gives the launcher no way to reach its workers"
    fields: tuple[tuple[ValuePath, str], ...] = (
        (("spec", "launcherAttachMode"), no_way),
        (("spec", "cleanPodPolicy"), "the empty policy means None"),
        ((*_ROLES, "worker", "restartPolicy"), "the empty policy means Never"),
        ((*_ROLES, "launcher", "restartPolicy"), "the empty policy means Never"),
    )
    for path, reason in fields:
        if value_at(source.data, path) == "":
            yield unused(source.locate(path), dotted(path), reason, "write what you mean")


KINDS = (
    Kind(
        api_version=API_VERSION,
        name="TrainingJob",
        schema="TrainingJob.json",
        lower=lower,
        summary="et-operator: elastic Horovod, DeepSpeed and MPI jobs",
        pod_counts=((*_ROLES, "*", "replicas"), (*_ROLES, "*", "minReplicas")),
        pod_templates=((*_ROLES, "launcher", "template"), (*_ROLES, "worker", "template")),
        volumes=(_HOSTFILE.volume, _CONFIG.volume, _KUBECTL.volume, _DEEPSPEED.volume),
        operator=ET_OPERATOR,
    ),
)
