"""Turn a TrainingJob of et-operator (`kai.alibabacloud.com/v1alpha1`) into a job.

Names, labels, volumes, files and modes are those of reference/et-operator.md 2; docs/differences.md
lists what differs here, and why. The document is valid by its schema.
"""

from collections.abc import Mapping
from typing import Any

from etcompile import model
from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.frontends import annotations, gang, hosts
from etcompile.frontends.annotations import ANY, GATED, annotations_of, matching
from etcompile.frontends.document_parts import (
    MOUNTED_HOME,
    JobDocument,
    clean_document,
    main_container,
    pod_template,
)
from etcompile.frontends.kind import ET_OPERATOR, Kind, Lowered
from etcompile.frontends.notes import template_notes, unused
from etcompile.frontends.ssh_access import SSH_PORT, ssh_port
from etcompile.k8s.path import dotted, value_at
from etcompile.k8s.quantity import number
from etcompile.launch.launchers import least_workers
from etcompile.model.protocol import HOSTS_PATH, config_name
from etcompile.model.settings import SECRET_NAME

API_VERSION = "kai.alibabacloud.com/v1alpha1"
_GROUP = "kai.alibabacloud.com"

_SUSPEND = "job-supervisor.kube-ai.io/job-suspended"
_SSH_SECRET = "arena.kubeflow.org/ssh-secret"  # noqa: S105 - the name of an annotation
_SSH_MOUNT_PATH = "etcompile.dev/ssh-mount-path"
_ANNOTATIONS = {
    _SUSPEND: ANY,
    _SSH_SECRET: matching(f"(?:{SECRET_NAME})?", "the name of a Secret"),
    _SSH_MOUNT_PATH: matching(
        MOUNTED_HOME, "a plain absolute path that the job does not use itself"
    ),
    SSH_PORT: ANY,
    **GATED,
    **gang.ANNOTATIONS,
    **annotations.OF_RESTARTS,
}

_MOST_SLOTS = 2**31 - 1
_GPU = "nvidia.com/gpu"
_ROOT_SSH = "/root/.ssh"
_NON_ROOT_PORT = 2222

_ROLES: ValuePath = ("spec", "etReplicaSpecs")
_HOSTFILE = model.Mount("training-job-hostfile", "/etc/edl")
_CONFIG = model.Mount("training-job-config", "/etc/mpi")
_KUBECTL = model.Mount("training-job-kubectl", hosts.KUBECTL_PATH)
_EDL_FILES = (("hostfile", 0o444), ("discover_hosts.sh", 0o555))
_DEEPSPEED = model.Mount("deepspeed-hostfile", "/job")
_SSH_CONFIG = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"

# reference/et-operator.md 2.5, without /etc/edl: there the live list is mounted.
_INIT_HOSTFILE = "cp /etc/mpi/deepspeed-hostfile /job/hostfile && chmod 600 /job/hostfile"
_INIT_RESOURCES = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}
_DELIVERY_RESOURCES = {"cpu": "100m", "memory": "64Mi"}


def lower(source: Source) -> Lowered:
    diagnostics: list[Diagnostic] = []
    # Upstream accepts these empty fields, which mean less than they seem to.
    no_way = "the empty mode gives the launcher no way to reach its workers"
    fields: tuple[tuple[ValuePath, str], ...] = (
        (("spec", "launcherAttachMode"), no_way),
        (("spec", "cleanPodPolicy"), "the empty policy means None"),
        ((*_ROLES, "worker", "restartPolicy"), "the empty policy means Never"),
        ((*_ROLES, "launcher", "restartPolicy"), "the empty policy means Never"),
    )
    for path, reason in fields:
        if value_at(source.data, path) == "":
            place = source.locate(path)
            diagnostics.append(unused(place, dotted(path), reason, "write what you mean"))
    templates = {}
    for role in ("launcher", "worker"):
        origin = model.Origin(source, (*_ROLES, role, "template"))
        template = source.data["spec"]["etReplicaSpecs"][role]["template"]
        main, problems = main_container(origin, template)
        diagnostics += [*problems, *template_notes(origin, template, restart_policy="Never")]
        if main is not None:
            templates[role] = pod_template(origin, template, main)
    if len(templates) < 2:
        return None, diagnostics
    job, problems = _job(source, templates)
    # Elastic Horovod goes on without a worker, so only its launcher needs to restart.
    return annotations.restarted(job, source, ("launcher",)), [*diagnostics, *problems]


def _job(
    source: Source, templates: Mapping[str, model.PodTemplate]
) -> tuple[model.Job, list[Diagnostic]]:
    read, spec = JobDocument(source), source.data["spec"]
    name = read.name
    stated = spec.get("launcherAttachMode")
    mode = "ssh" if stated is None else str(stated)
    slots, problems = _slots(spec, templates["worker"])
    credentials = None
    if mode == "ssh":
        credentials, ssh_problems = _credentials(source, templates)
        problems += ssh_problems
    document = clean_document(source, _ANNOTATIONS)
    # Rights by Pod name would change the Role with every scale-out.
    access, account = hosts.launcher_access(name, templates["launcher"], execs=mode == "kubexec")
    discovery = {"live": f"{HOSTS_PATH}/hostfile", "seed": f"{_HOSTFILE.path}/hostfile"}
    # The identity excludes what scaling changes, policies that only a watcher reads, and the Pods'
    # labels and annotations, which may change while they run.
    policies = ("restartPolicy", "backoffLimit", "cleanPodPolicy")
    rest = {key: value for key, value in spec.items() if key not in policies}
    pods = {
        role: {"template": {"spec": body["template"]["spec"]}}
        for role, body in spec["etReplicaSpecs"].items()
    }
    job = model.Job(
        **read.of_job,
        roles=(
            _worker(source, templates, slots, mode),
            _launcher(source, templates["launcher"], account, mode),
        ),
        labels={"app": name},
        selector={"group-name": _GROUP, "training-job-name": name},
        run=model.RunPolicy(
            restart=spec.get("restartPolicy", "Never"),
            backoff_limit=spec.get("backoffLimit", 6),
            clean_pods=spec.get("cleanPodPolicy", "Running") or "None",
            success=model.Success(("launcher",)),
            suspended=read.annotation(_SUSPEND) == "true",
            keeps=("launcher",),
        ),
        config_name=config_name(name, of_operator=True),
        files=(
            model.ConfigFile("discover_hosts.sh", "discover_hosts.sh", discovery),
            hosts.kubexec_script(templates["worker"].main),
        ),
        host_lists=(
            model.HostList("hostfile", ("worker",), "{host}:{slots}"),
            model.HostList("deepspeed-hostfile", ("worker",), "{host} slots={slots}"),
        ),
        slots=slots,
        access=access,
        credentials=credentials,
        document=document,
        identity={
            "kind": document["kind"],
            "name": name,
            "spec": {**rest, "etReplicaSpecs": pods},
        },
        gang=gang.by_annotation(source),
    )
    return job, problems


def _worker(
    source: Source, templates: Mapping[str, model.PodTemplate], slots: int, mode: str
) -> model.Role:
    execs, fields = mode == "kubexec", source.data["spec"]["etReplicaSpecs"]["worker"]
    least = fields.get("minReplicas")
    main = templates["launcher"].main_container
    return model.Role(
        name="worker",
        naming=model.Naming(stem=f"{source.data['metadata']['name']}-worker"),
        labels=model.RoleLabels(common={"training-job-role": "worker"}, index="replica-index"),
        members=tuple(model.Member(index) for index in range(fields["replicas"])),
        template=templates["worker"],
        origin=model.Origin(source, (*_ROLES, "worker")),
        ports=(model.Port("ssh-port", 22), model.Port("kubeai-service-port", 9009)),
        additions=model.PodAdditions(
            # Open MPI's daemons also look for their launcher's agent, and die without it.
            volumes=(hosts.config_files(_CONFIG.volume, hosts.KUBEXEC_FILE),) if execs else (),
            mounts=(_CONFIG,) if execs else (),
            resident=model.Resident(ssh=mode == "ssh"),
        ),
        recovery=model.Recovery(restart=fields.get("restartPolicy") or "Never", vital=False),
        bounds=model.Bounds(
            fields.get("minReplicas", 1),
            fields.get("maxReplicas"),
            quorum=least_workers(main, fields["replicas"], slots, stated=least),
        ),
    )


def _launcher(
    source: Source, template: model.PodTemplate, account: str | None, mode: str
) -> model.Role:
    execs, fields = mode == "kubexec", source.data["spec"]["etReplicaSpecs"]["launcher"]
    init = model.InitContainer(
        name="init-hostfile",
        image="init",
        script=_INIT_HOSTFILE,
        mounts=(_DEEPSPEED, _CONFIG),
        resources=_INIT_RESOURCES,
    )
    delivery = hosts.kubectl_delivery(_KUBECTL.volume, _DELIVERY_RESOURCES)
    # In ssh mode the volume would hide a kubectl of the image (reference defect 41).
    tools = (_KUBECTL,) if execs else ()
    return model.Role(
        name="launcher",
        naming=model.Naming(stem=f"{source.data['metadata']['name']}-launcher"),
        labels=model.RoleLabels(common={"training-job-role": "launcher"}),
        members=(model.Member(),),
        template=template,
        origin=model.Origin(source, (*_ROLES, "launcher")),
        additions=model.PodAdditions(
            env=(hosts.RSH_AGENT, hosts.NO_TREE_SPAWN) if execs else (),
            volumes=(
                model.Volume(
                    _HOSTFILE.volume,
                    tuple((key, key, mode) for key, mode in _EDL_FILES),
                    live=True,
                ),
                *(model.Volume(mount.volume) for mount in (_DEEPSPEED, *tools)),
                hosts.config_files(
                    _CONFIG.volume,
                    ("hostfile", 0o444),
                    ("discover_hosts.sh", 0o444),
                    hosts.KUBEXEC_FILE,
                    ("deepspeed-hostfile", 0o444),
                ),
            ),
            mounts=(_HOSTFILE, _CONFIG, *tools, _DEEPSPEED),
            reads_hosts=True,
            setup=(init, delivery) if execs else (init,),
            gate=model.Gate(
                roles=("worker",),
                hosts=f"{_CONFIG.path}/hostfile",  # all hosts: the live list has the ready ones
                mounts=(_CONFIG, *tools),
                ssh=mode == "ssh",
                timeout=annotations.gate_timeout(source),
                kubexec=hosts.KUBEXEC if execs else None,
            ),
            run_once=True,
            service_account=account,
        ),
        recovery=model.Recovery(restart=fields.get("restartPolicy") or "Never"),
    )


def _slots(spec: Mapping[str, Any], worker: model.PodTemplate) -> tuple[int, list[Diagnostic]]:
    """Return the processes per worker (reference/et-operator.md 1.1, slotsPerWorker): limits only.

    A GPU limit that results in no slots, or more than a hostfile can have, is an error.
    """
    stated = spec.get("slotsPerWorker")
    limit = worker.main_container.get("resources", {}).get("limits", {}).get(_GPU)
    slots = 1
    if stated is not None:
        slots = int(stated)
    elif limit is not None:
        slots = int(min(number(str(limit)) or 0, _MOST_SLOTS + 1))
    if 1 <= slots <= _MOST_SLOTS:
        return slots, []
    place = worker.main_origin.locate("resources", "limits", _GPU)
    facts = {"where": f"limits.{_GPU}", "found": limit}
    return slots, [diagnose(codes.ACCELERATORS_NONE, place, **facts)]


def _credentials(
    source: Source, templates: Mapping[str, model.PodTemplate]
) -> tuple[model.SshCredentials, list[Diagnostic]]:
    annotations, worker = annotations_of(source), templates["worker"]
    path = annotations.get(_SSH_MOUNT_PATH, _ROOT_SSH).rstrip("/")
    others = [role for role, template in templates.items() if not template.runs_as_root]
    problems = []
    for role in others if path == _ROOT_SSH else ():
        place = templates[role].origin.locate("spec")
        problems.append(diagnose(codes.NON_ROOT_SSH, place, where=role, path=path))
    named = annotations.get(_SSH_SECRET)
    serves = not worker.main_container.get("command")
    port, disagreements = ssh_port(source, templates["launcher"], worker, serves=serves)
    problems += disagreements
    credentials = model.SshCredentials(
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


KINDS = (
    Kind(
        api_version=API_VERSION,
        name="TrainingJob",
        schema="TrainingJob.json",
        lower=lower,
        summary="et-operator: elastic Horovod, DeepSpeed and MPI jobs",
        annotations=_ANNOTATIONS,
        pod_counts=((*_ROLES, "*", "replicas"), (*_ROLES, "*", "minReplicas")),
        pod_templates=((*_ROLES, "launcher", "template"), (*_ROLES, "worker", "template")),
        volumes=(_HOSTFILE.volume, _CONFIG.volume, _KUBECTL.volume, _DEEPSPEED.volume),
        operator=ET_OPERATOR,
    ),
)
