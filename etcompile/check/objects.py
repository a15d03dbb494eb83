"""The last look at everything that is about to leave: compiled objects and neighbours alike.

No private key gets past it (reference/gitops.md 5), no two objects share a name, and nothing
is larger than the API server takes.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from etcompile.check.keys import contains_private_key, may_contain_private_key, path_of_key
from etcompile.diagnostics import Diagnostic, Location, Source, codes, diagnose
from etcompile.k8s.objects import Object
from etcompile.k8s.references import references
from etcompile.model import Job
from etcompile.model.protocol import config_name, hosts_name, status_name

_CONFIG_MAP_LIMIT = 1024 * 1024
"""Bytes: the API server's limit on the data of one ConfigMap."""
_ANNOTATIONS_LIMIT = 256 * 1024
"""Bytes: the API server's limit on all annotations of one object."""
_PODS_WAVE = 100
_SYNC_WAVE = "argocd.argoproj.io/sync-wave"

Identity = tuple[str, str, str, str]
"""Group, kind, namespace and name."""


def check_compiled(job: Job, objects: Sequence[Object]) -> list[Diagnostic]:
    """What must not leave, or should not, of a job's objects.

    Args:
        job: The job that they are made of.
        objects: Its compiled objects.
    """
    return [*_pod_waves(job, objects), *_compiled(job, objects)]


def check_neighbours(
    neighbours: Sequence[Source],
    made: Sequence[tuple[Job, Iterable[Object]]],
    *,
    allow_plain_secrets: bool,
) -> list[Diagnostic]:
    """What must not leave, or should not, of the other objects of the input.

    Args:
        neighbours: These objects.
        made: Each job with its compiled objects.
        allow_plain_secrets: Let Secrets with data pass.
    """
    return [
        *_clashes(made, neighbours),
        *_generated_names([job for job, _ in made], neighbours),
        *(p for source in neighbours for p in _neighbour(source, allow=allow_plain_secrets)),
    ]


def check_jobs(made: Sequence[tuple[Job, Iterable[Object]]]) -> list[Diagnostic]:
    """An error for each job that makes an object which another one makes already.

    All that a job makes is named like it, or by its name and more. So only jobs with related
    names are looked at: thousands of others cost nothing.

    Args:
        made: Each job with its compiled objects, in the order of the input.
    """
    names = Counter(job.name for job, _ in made)
    related = {name for name, count in names.items() if count > 1}
    for name in names:
        parts = name.split("-")
        if found := {"-".join(parts[:end]) for end in range(1, len(parts))} & names.keys():
            related |= {name, *found}
    problems = []
    owners: dict[Identity, Job] = {}
    for job, objects in made:
        if job.name not in related:
            continue
        own = {identity(value): value for value in objects}
        if twice := next((key for key in own if key in owners), None):
            other = owners[twice]
            facts = {
                "job": f"{job.kind} '{job.name}'",
                "what": f"{twice[1]} '{twice[3]}'",
                "other": f"{other.kind} '{other.name}' of {other.api_version}",
            }
            problems.append(
                diagnose(codes.JOBS_CLASH, job.origin.locate("metadata", "name"), **facts)
            )
        else:
            owners |= dict.fromkeys(own, job)
    return problems


def check_autoscalers(neighbours: Sequence[Source], jobs: Sequence[Job]) -> list[Diagnostic]:
    """A warning for each autoscaler of a job, which is no object that could be scaled any more.

    Args:
        neighbours: The other objects of the input.
        jobs: The jobs of the input.
    """
    by_name = {(job.kind, job.name, job.namespace or "default"): job for job in jobs}
    problems = []
    for source in neighbours:
        value = source.data
        if value["kind"] != "HorizontalPodAutoscaler":
            continue
        # Kubernetes' schema has the last word on what is no mapping.
        spec = value.get("spec")
        target = spec.get("scaleTargetRef") if isinstance(spec, dict) else None
        if not isinstance(target, dict):
            continue
        space = value["metadata"].get("namespace") or "default"
        job = by_name.get((str(target.get("kind")), str(target.get("name")), space))
        group = str(target.get("apiVersion") or "").rpartition("/")[0]
        if job and group in ("", job.api_version.rpartition("/")[0]):
            place = source.locate(("spec", "scaleTargetRef"), key=True)
            what = f"{value['kind']} '{value['metadata'].get('name', '')}'"
            facts = {"what": what, "kind": job.kind, "job": job.name}
            problems.append(diagnose(codes.SCALES_NOTHING, place, **facts))
    return problems


def identity(value: Object) -> Identity:
    """What the API server tells objects apart by; `default` stands for no namespace."""
    metadata = value["metadata"]
    group = value["apiVersion"].rpartition("/")[0]
    return group, value["kind"], metadata.get("namespace") or "default", metadata["name"]


def _compiled(job: Job, objects: Sequence[Object]) -> Iterator[Diagnostic]:
    suspicious = may_contain_private_key(objects)
    seen: set[int] = set()
    for value in objects:
        if suspicious and contains_private_key(_unseen(value, seen)):
            what = f"{value['kind']} {value['metadata']['name']} of job '{job.name}'"
            yield diagnose(codes.PRIVATE_KEY, _place_of_key(job), what=what)
        if (size := _annotations_size(value)) > _ANNOTATIONS_LIMIT:
            what = f"{value['kind']} {value['metadata']['name']} of job '{job.name}'"
            yield diagnose(codes.ANNOTATIONS_TOO_LARGE, _name_of(job), what=what, size=size // 1024)
        if value["kind"] == "ConfigMap":
            yield from _config_size(job, value)


def _name_of(job: Job) -> Location:
    return job.origin.locate("metadata", "name")


def _place_of_key(job: Job) -> Location:
    """Where a private key stands in the job's document, or else its name: a patch adds it."""
    path = path_of_key(job.origin.source.data)
    return _name_of(job) if path is None else job.origin.source.locate(path)


def _unseen(value: Object, seen: set[int]) -> list[Any]:
    """The parts of an object, without a spec that an object before it had: one error says it."""
    spec = value.get("spec")
    parts = [part for key, part in value.items() if key != "spec"]
    if spec is not None and id(spec) not in seen:
        seen.add(id(spec))
        parts.append(spec)
    return parts


def _config_size(job: Job, value: Object) -> Iterator[Diagnostic]:
    if (size := _size(value.get("data"))) > _CONFIG_MAP_LIMIT:
        name = value["metadata"]["name"]
        yield diagnose(codes.CONFIG_TOO_LARGE, _name_of(job), name=name, size=size // 1024)


def _annotations_size(value: Object) -> int:
    return _size(value["metadata"].get("annotations"))


def _size(texts: object) -> int:
    """The bytes of a mapping of texts; what a patch put there instead is the schema's to tell."""
    pairs = texts.items() if isinstance(texts, dict) else ()
    return sum(len(k.encode()) + len(v.encode()) for k, v in pairs if isinstance(v, str))


def _pod_waves(job: Job, objects: Iterable[Object]) -> Iterator[Diagnostic]:
    """Argo CD starts no wave before the Pods of the last one end (reference/gitops.md 0, 1)."""
    waves: dict[str, str] = {}
    for value in objects:
        if value["kind"] == "Pod":
            wave = value["metadata"].get("annotations", {}).get(_SYNC_WAVE, "0")
            waves.setdefault(wave, value["metadata"]["name"])
    if len(waves) > 1:
        pods = " and ".join(f"{pod} in {wave}" for wave, pod in waves.items())
        yield diagnose(codes.PODS_IN_TWO_WAVES, _name_of(job), job=job.name, pods=pods)


def _neighbour(source: Source, *, allow: bool) -> Iterator[Diagnostic]:
    value = source.data
    what = f"{value['kind']} '{value.get('metadata', {}).get('name', '')}'"
    if (key := path_of_key(value)) is not None:
        yield diagnose(codes.PRIVATE_KEY, source.locate(key), what=what)
    elif value["kind"] == "Secret" and not allow:
        for field in ("data", "stringData"):
            if value.get(field) and not _is_encrypted(value, field):
                yield diagnose(codes.PLAIN_SECRET, source.locate((field,), key=True), what=what)
                break
    for annotation in ("etcompile.dev/wave", "argocd.argoproj.io/sync-wave"):
        wave = value.get("metadata", {}).get("annotations", {}).get(annotation, "")
        if isinstance(wave, str) and re.fullmatch("[0-9]{1,9}", wave) and int(wave) > _PODS_WAVE:
            place = source.locate(("metadata", "annotations", annotation))
            yield diagnose(codes.LATE_WAVE, place, what=what, wave=wave)


def _is_encrypted(value: Object, field: str) -> bool:
    """Whether SOPS has encrypted all texts of a field."""
    texts = value[field].values() if isinstance(value[field], dict) else [None]
    return isinstance(value.get("sops"), dict) and all(
        isinstance(text, str) and text.startswith("ENC[") for text in texts
    )


def _clashes(
    made: Iterable[tuple[Job, Iterable[Object]]], neighbours: Iterable[Source]
) -> Iterator[Diagnostic]:
    named = [
        neighbour for neighbour in neighbours if (neighbour.data.get("metadata") or {}).get("name")
    ]
    if not named:
        return
    owners = {identity(value): job.name for job, objects in made for value in objects}
    for job, _ in made:
        for name in (hosts_name(job.name), status_name(job.name)):
            owners["", "ConfigMap", job.namespace or "default", name] = job.name
    for source in named:
        if owner := owners.get(identity(source.data)):
            place = source.locate(("metadata", "name"))
            what = f"{source.data['kind']} '{source.data['metadata']['name']}'"
            yield diagnose(codes.NAME_CLASH, place, what=what, job=owner)


def _generated_names(jobs: Sequence[Job], neighbours: Iterable[Source]) -> Iterator[Diagnostic]:
    """An error for each reference of the input to a ConfigMap that only etcompile creates.

    What an operator creates too, such as `J-etcompile` of an MPIJob, may be meant. These cannot be.
    """
    owners = {
        (job.namespace or "default", name): job.name
        for job in jobs
        for name in (config_name(job.name), hosts_name(job.name), status_name(job.name))
    }
    users: list[tuple[str | None, str, Callable[[], Location], Mapping[str, Any]]] = [
        (
            job.namespace,
            f"role '{role.name}' of job '{job.name}'",
            role.template.origin.locate,
            {"kind": "Pod", "spec": role.template.spec},
        )
        for job in jobs
        for role in job.roles
    ]
    for source in neighbours:
        metadata = source.data.get("metadata") or {}
        what = f"{source.data['kind']} '{metadata.get('name', '')}'"
        place = partial(source.locate, ("metadata", "name"))
        users.append((metadata.get("namespace"), what, place, source.data))
    for namespace, what, locate, value in users:
        for reference in references(value):
            key = namespace or "default", reference.name
            if reference.kind == "ConfigMap" and key in owners:
                facts = {"what": what, "name": reference.name, "job": owners[key]}
                yield diagnose(codes.GENERATED_NAME, locate(), **facts)
