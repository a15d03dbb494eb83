"""Check everything in the output: compiled objects, and other objects of the input.

No private key passes (reference/gitops.md 5), no two objects share a name, and nothing exceeds the
limits of programs, the API server or tools that apply it. Thousands of Pods and Services of a role
differ only in an index, so one or two of them are checked for all where that suffices.
"""

import marshal
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from etcompile.diagnostics import Diagnostic, Location, Source, ValuePath, codes, diagnose
from etcompile.diagnostics.credentials import holds_key, is_suspicious
from etcompile.k8s.bookkeeping import (
    ANNOTATIONS_LIMIT,
    DATA_LIMIT,
    STORED_LIMIT,
    copied_annotations,
    stored_size,
)
from etcompile.k8s.objects import (
    SYNC_WAVE,
    WAVE_ANNOTATIONS,
    WAVE_PODS,
    Object,
    annotations_of,
    labels_of,
)
from etcompile.k8s.path import containers_of, mappings_of, texts_in
from etcompile.k8s.references import references
from etcompile.model import Job, Origin, Profile
from etcompile.model.protocol import ROLE_LABEL, config_name, hosts_name, status_name

_STRING_LIMIT = 128 * 1024
"""Bytes of an argument or a variable, with the 0 at its end: execve(2), MAX_ARG_STRLEN."""
_COPYING: frozenset[Profile] = frozenset({"plain", "kpt"})
"""Profiles of tools that may store a copy; other tools are configured not to, or never do."""
_LIMITED = frozenset({"ConfigMap", "Secret"})
"""Kinds with a lower limit than all other objects."""

Identity = tuple[str, str, str, str]
"""Group, kind, namespace and name."""


def identity(value: Object) -> Identity:
    """Return the key by which the API server distinguishes objects; the namespace defaults."""
    metadata = value["metadata"]
    group = value["apiVersion"].rpartition("/")[0]
    return group, value["kind"], metadata.get("namespace") or "default", metadata["name"]


# The objects of a job -------------------------------------------------------------------------


def check_compiled(
    job: Job, objects: Sequence[Object], profiles: Sequence[Profile]
) -> list[Diagnostic]:
    place = partial(job.origin.locate, "metadata", "name")
    waves: dict[str, str] = {}
    large: list[Diagnostic] = []
    for value in objects:
        kind, name = value["kind"], value["metadata"]["name"]
        annotations = annotations_of(value)
        if kind == "Pod":
            waves.setdefault(annotations.get(SYNC_WAVE, "0"), name)
        if annotations and (size := _size(annotations)) > ANNOTATIONS_LIMIT:
            facts = {"what": f"{kind} {name} of job '{job.name}'", "size": size // 1024}
            large.append(diagnose(codes.ANNOTATIONS_TOO_LARGE, place(), **facts))
        if kind == "ConfigMap" and (size := _size(value.get("data"))) > DATA_LIMIT:
            large.append(diagnose(codes.CONFIG_TOO_LARGE, place(), name=name, size=size // 1024))
    problems: list[Diagnostic] = []
    seen: set[int] = set()
    for value in objects if _may_contain_private_key(objects) else ():
        spec = value.get("spec")
        parts = [part for key, part in value.items() if key != "spec"]
        if spec is not None and id(spec) not in seen:
            seen.add(id(spec))
            parts.append(spec)
        if _path_of_key(parts) is not None:
            # A key that is not in the job's document comes from a patch.
            path = _path_of_key(job.origin.source.data) or ("metadata", "name")
            what = f"{value['kind']} {value['metadata']['name']} of job '{job.name}'"
            at = job.origin.source.locate(path)
            problems.append(diagnose(codes.PRIVATE_KEY, at, what=what))
    problems += [*large, *_long_texts(job, objects)]
    if len(waves) > 1:
        # Argo CD starts no wave before the Pods of the last one end (reference/gitops.md 0, 1).
        pods = " and ".join(f"{pod} in {wave}" for wave, pod in waves.items())
        problems.insert(0, diagnose(codes.PODS_IN_TWO_WAVES, place(), job=job.name, pods=pods))
    for value in _samples(objects):
        problems += _sizes(value, f" of job '{job.name}'", place, profiles)
    return problems


def _size(texts: object) -> int:
    """Return the bytes of a mapping of texts; the schema reports other values from patches."""
    pairs = texts.items() if isinstance(texts, dict) else ()
    return sum(len(k.encode()) + len(v.encode()) for k, v in pairs if isinstance(v, str))


def _long_texts(job: Job, objects: Iterable[Object]) -> Iterator[Diagnostic]:
    """Report arguments and variables of containers that the kernel does not accept."""
    for role in job.roles:
        for path, container in containers_of(role.template.spec):
            for field in ("command", "args"):
                for index, text in enumerate(container.get(field, ())):
                    if (size := len(text.encode()) + 1) > _STRING_LIMIT:
                        place = role.template.origin.locate("spec", *path, field, index)
                        what = f"{field}[{index}] of container '{container['name']}'"
                        facts = {"what": what, "role": role.name, "size": -(-size // 1024)}
                        advice = "put it into a file, of a ConfigMap for example, and run that"
                        yield diagnose(codes.TOO_LONG_TO_START, place, **facts, advice=advice)
    seen: set[str] = set()
    for value in objects:
        pod = value["spec"]["template"] if value["kind"] == "Job" else value
        name = pod["metadata"].get("labels", {}).get(ROLE_LABEL) if "spec" in pod else None
        if name is None or name in seen or "containers" not in pod["spec"]:
            continue
        seen.add(name)
        sizes = (
            (variable, len(variable["name"].encode()) + len(text.encode()) + 2)
            for _, container in containers_of(pod["spec"])
            for _, variable in mappings_of(container, "env")
            if isinstance(text := variable.get("value"), str)
        )
        variable, size = next((pair for pair in sizes if pair[1] > _STRING_LIMIT), ({}, 0))
        if variable and (owner := job.role(name)):
            if variable["name"] not in {env.name for env in owner.additions.env}:
                advice = "put it into a file, of a ConfigMap for example"
            elif job.names_fewer:
                advice = f"have fewer replicas, or {job.names_fewer}"
            else:
                advice = "have fewer replicas: it names each of them"
            what = f"environment variable {variable['name']}"
            facts = {"what": what, "role": owner.name, "size": -(-size // 1024)}
            place = owner.origin.locate(key=True)
            yield diagnose(codes.TOO_LONG_TO_START, place, **facts, advice=advice)


def _samples(objects: Sequence[Object]) -> Iterator[Object]:
    of_roles: dict[tuple[str, str], list[Object]] = {}
    for value in objects:
        role = labels_of(value).get(ROLE_LABEL)
        if role is None:
            yield value
        else:
            of_roles.setdefault((value["kind"], role), []).append(value)
    for values in of_roles.values():
        yield from values if len(values) == 1 else (values[0], values[-1])


def _sizes(
    value: Object, of_job: str, place: Callable[[], Location], profiles: Sequence[Profile]
) -> Iterator[Diagnostic]:
    what = f"{_what(value)}{of_job}"
    copied = copied_annotations(value)
    if copied > STORED_LIMIT and value["kind"] not in _LIMITED:
        size = stored_size(value)
        if size > STORED_LIMIT:
            facts = {"size": -(-size // 1024), "limit": STORED_LIMIT // 1024}
            yield diagnose(codes.TOO_LARGE_TO_STORE, place(), what=what, **facts)
            return
    if copied > ANNOTATIONS_LIMIT and (not profiles or _COPYING & {*profiles}):
        facts = {"size": -(-copied // 1024), "limit": ANNOTATIONS_LIMIT // 1024}
        yield diagnose(codes.TOO_LARGE_FOR_CLIENT_SIDE_APPLY, place(), what=what, **facts)


# The other objects of the input ---------------------------------------------------------------


def check_others(
    others: Sequence[Source],
    compiled: Sequence[tuple[Job, Iterable[Object]]],
    profiles: Sequence[Profile],
    *,
    allow_plain_secrets: bool,
) -> list[Diagnostic]:
    problems: list[Diagnostic] = []
    if named := [source for source in others if (source.data.get("metadata") or {}).get("name")]:
        owners = {identity(value): job.name for job, objects in compiled for value in objects}
        for job, _ in compiled:
            for name in (hosts_name(job.name), status_name(job.name)):
                owners["", "ConfigMap", job.namespace or "default", name] = job.name
        for source in named:
            if owner := owners.get(identity(source.data)):
                at, what = source.locate(("metadata", "name")), _what(source.data)
                problems.append(diagnose(codes.NAME_CLASH, at, what=what, job=owner))
    problems += _generated_names([job for job, _ in compiled], others)
    for source in others:
        value, what = source.data, _what(source.data)
        if (key := _path_of_key(value)) is not None:
            problems.append(diagnose(codes.PRIVATE_KEY, source.locate(key), what=what))
        elif value["kind"] == "Secret" and not allow_plain_secrets:
            for field in ("data", "stringData"):
                texts = value.get(field)
                listed = texts.values() if isinstance(texts, dict) else [None]
                # SOPS encrypts all texts of a field.
                encrypted = all(
                    isinstance(text, str) and text.startswith("ENC[") for text in listed
                )
                if texts and not (encrypted and isinstance(value.get("sops"), dict)):
                    problems.append(
                        diagnose(codes.PLAIN_SECRET, source.locate((field,), key=True), what=what)
                    )
                    break
        for annotation in WAVE_ANNOTATIONS:
            wave = value.get("metadata", {}).get("annotations", {}).get(annotation, "")
            if isinstance(wave, str) and re.fullmatch("[0-9]{1,9}", wave) and int(wave) > WAVE_PODS:
                place = source.locate(("metadata", "annotations", annotation))
                problems.append(diagnose(codes.LATE_WAVE, place, what=what, wave=wave))
    for source in others:
        if isinstance(source.data.get("metadata"), dict):
            locate = partial(source.locate, ("metadata", "name"))
            problems += _sizes(source.data, "", locate, profiles)
    return problems


def _what(value: Object) -> str:
    metadata = value.get("metadata") or {}
    return f"{value['kind']} '{metadata.get('name') or metadata.get('generateName', '')}'"


def _generated_names(jobs: Sequence[Job], others: Iterable[Source]) -> Iterator[Diagnostic]:
    """Report references of the input to a ConfigMap that only etcompile creates.

    A ConfigMap that an operator also creates, such as `J-etcompile` of an MPIJob, may be meant.
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
    for source in others:
        namespace = (source.data.get("metadata") or {}).get("namespace")
        place = partial(source.locate, ("metadata", "name"))
        users.append((namespace, _what(source.data), place, source.data))
    for namespace, what, locate, value in users:
        for reference in references(value):
            key = namespace or "default", reference.name
            if reference.kind == "ConfigMap" and key in owners:
                facts = {"what": what, "name": reference.name, "job": owners[key]}
                yield diagnose(codes.GENERATED_NAME, locate(), **facts)


# Several jobs ---------------------------------------------------------------------------------


def check_jobs(compiled: Sequence[tuple[Job, Iterable[Object]]]) -> list[Diagnostic]:
    """Report each job that makes an object which another job makes already.

    The names of a job's objects begin with its name, so only jobs with related names are compared,
    and thousands of others cost nothing.
    """
    names = Counter(job.name for job, _ in compiled)
    related = {name for name, count in names.items() if count > 1}
    for name in names:
        parts = name.split("-")
        if shorter := {"-".join(parts[:end]) for end in range(1, len(parts))} & names.keys():
            related |= {name, *shorter}
    problems = []
    owners: dict[Identity, Job] = {}
    for job, objects in compiled:
        if job.name not in related:
            continue
        identities = {identity(value): value for value in objects}
        if twice := next((key for key in identities if key in owners), None):
            other = owners[twice]
            facts = {
                "job": f"{job.kind} '{job.name}'",
                "what": f"{twice[1]} '{twice[3]}'",
                "other": f"{other.kind} '{other.name}' of {other.api_version}",
            }
            place = job.origin.locate("metadata", "name")
            problems.append(diagnose(codes.JOBS_CLASH, place, **facts))
        else:
            owners |= dict.fromkeys(identities, job)
    return problems


def check_autoscalers(others: Sequence[Source], jobs: Sequence[Job]) -> list[Diagnostic]:
    by_name = {(job.kind, job.name, job.namespace or "default"): job for job in jobs}
    problems = []
    for source in others:
        value = source.data
        if value["kind"] != "HorizontalPodAutoscaler":
            continue
        # Kubernetes' schema reports fields that are no mapping.
        spec = value.get("spec")
        target = spec.get("scaleTargetRef") if isinstance(spec, dict) else None
        if not isinstance(target, dict):
            continue
        namespace = value["metadata"].get("namespace") or "default"
        job = by_name.get((str(target.get("kind")), str(target.get("name")), namespace))
        group = str(target.get("apiVersion") or "").rpartition("/")[0]
        if job and group in ("", job.api_version.rpartition("/")[0]):
            place = source.locate(("spec", "scaleTargetRef"), key=True)
            facts = {"what": _what(value), "kind": job.kind, "job": job.name}
            problems.append(diagnose(codes.SCALES_NOTHING, place, **facts))
    return problems


_HOST = r"(?<![\w.-])({job}-[a-z0-9-]{{1,63}})\.({job}(?:-[a-z0-9-]{{0,63}})?)(?![\w-])"
"""The host name of a Pod of a job, and its Service."""


def check_host_names(
    compiled: Sequence[tuple[Job, Iterable[Object]]], others: Sequence[Source]
) -> Iterator[Diagnostic]:
    """Warn of host names of the job's Pods that end in a Service that does not exist.

    Versions of operators name the Service differently: MPI Operator had `JOB-worker`.
    """
    existing = {_name_of(source.data) for source in others if source.data.get("kind") == "Service"}
    for job, objects in compiled:
        host = _HOST.format(job=re.escape(job.name))
        mentions = [
            (role, path, match)
            for role in job.roles
            for path, text in texts_in(role.template.spec)
            if job.name in text
            for match in re.finditer(host, text)
        ]
        if not mentions:
            continue
        services, hosts = {*existing, job.namespace}, dict[str, str]()
        for value in objects:
            if value["kind"] == "Service":
                services.add(_name_of(value))
                hosts.setdefault(_name_of(value), "")
            spec = value.get("spec") or {}
            pod = spec.get("template", {}).get("spec") if value["kind"] == "Job" else spec
            if pod.get("hostname") and pod.get("subdomain"):
                hosts[pod["hostname"]] = f".{pod['subdomain']}"
        for role, path, match in mentions:
            if match[1] in hosts and match[2] not in services:
                facts = {"role": role.name, "name": match[0], "right": match[1] + hosts[match[1]]}
                yield diagnose(
                    codes.NO_SUCH_HOST, role.template.origin.locate("spec", *path), **facts
                )


def _name_of(value: Object) -> str:
    return str((value.get("metadata") or {}).get("name"))


def check_flux_stage(
    groups: Sequence[tuple[Origin | None, Iterable[Object]]],
) -> Iterator[Diagnostic]:
    """Warn of Pods that run as an account which the same Kustomization creates.

    Flux dry-runs all objects of a stage before it applies the first of them, and accounts and Pods
    are in one stage (reference/gitops.md 2.2, 2.3).
    """
    accounts = {
        (value["metadata"].get("namespace", ""), value["metadata"]["name"])
        for _, objects in groups
        for value in objects
        if value["kind"] == "ServiceAccount"
    }
    for origin, objects in groups if accounts else ():
        for value in objects:
            name = value["spec"].get("serviceAccountName") if value["kind"] == "Pod" else None
            if (value["metadata"].get("namespace", ""), name) in accounts:
                place = origin.locate("metadata", "name") if origin else None
                facts = {"pod": value["metadata"]["name"], "account": name}
                yield diagnose(codes.ACCOUNT_IN_THE_SAME_STAGE, place, **facts)


# Private keys ---------------------------------------------------------------------------------


def _may_contain_private_key(values: Sequence[Any]) -> bool:
    # marshal writes each text verbatim, and texts that objects share only once.
    starts = range(0, len(values), 256)
    return any(is_suspicious(marshal.dumps([*values[n : n + 256]])) for n in starts)


def _path_of_key(value: object) -> ValuePath | None:
    if not _may_contain_private_key([value]):
        return None
    return next((path for path, text in texts_in(value) if holds_key(text)), None)
