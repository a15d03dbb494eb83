"""The init container that asks whether a Pod may train on its node.

It is made of the finished main container, after overlays, because it must see what that one will
see: its image, its devices, its volumes and its variables.
"""

from collections.abc import Sequence

from etcompile.backend.job_config import PREFLIGHT_SCRIPT
from etcompile.k8s.objects import Object
from etcompile.model import Job
from etcompile.model.protocol import (
    HOSTS,
    PREFLIGHT,
    ROLE_LABEL,
    RUN_STATE,
    SCRIPTS,
    SCRIPTS_PATH,
    STATUS,
)

_SAME = (
    "image",
    "imagePullPolicy",
    "workingDir",
    "envFrom",
    "env",
    "resources",
    "securityContext",
    "volumeDevices",
)
"""The fields of the main container that its preflight has as well."""
_OURS = frozenset({SCRIPTS, HOSTS, STATUS, RUN_STATE})
_GPU = "nvidia.com/gpu"


def with_preflight(job: Job, objects: Sequence[Object]) -> tuple[Object, ...]:
    """Objects of a job, whose Pods ask first where the job wants it."""
    if job.preflight is None:
        return tuple(objects)
    asking = []
    for value in objects:
        if value["kind"] == "Job":
            template = _asking(job, value["spec"]["template"])
            value = {**value, "spec": {**value["spec"], "template": template}}  # noqa: PLW2901
        asking.append(_asking(job, value) if value["kind"] == "Pod" else value)
    return tuple(asking)


def _asking(job: Job, pod: Object) -> Object:
    role = job.role((pod["metadata"].get("labels") or {}).get(ROLE_LABEL, ""))
    if job.preflight is None or role is None or role.name not in job.preflight.roles:
        return pod
    spec = pod["spec"]
    main = next((c for c in spec["containers"] if c["name"] == role.template.main), None)
    inits = [*spec.get("initContainers", ())]
    if main is None or any(container["name"] == PREFLIGHT for container in inits):
        return pod  # an overlay has its own
    # What runs beside all others, such as a proxy, is there before them.
    first = next((n for n, c in enumerate(inits) if c.get("restartPolicy") != "Always"), len(inits))
    resources = main.get("resources") or {}
    gpus = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}.get(_GPU, 0)
    # Of our own volumes it needs the scripts alone.
    mounts = [m for m in main.get("volumeMounts", ()) if m["name"] not in _OURS]
    mounts.append({"name": SCRIPTS, "mountPath": SCRIPTS_PATH, "readOnly": True})
    container = {
        "name": PREFLIGHT,
        **{field: main[field] for field in _SAME if field in main},
        "command": ["sh", f"{SCRIPTS_PATH}/{PREFLIGHT_SCRIPT}", str(gpus)],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    return {**pod, "spec": {**spec, "initContainers": [*inits[:first], container, *inits[first:]]}}
