"""Turn documents of a cluster into the files of a hand-over: specs, overlay and instructions.

`migrated` combines the parts: `cleanup` restores the spec, `workers` the running number of workers,
`adoption` decides what becomes of each object, and `handover` writes the instructions.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from etcompile import frontends
from etcompile.check import kubernetes
from etcompile.compiler import olderapis
from etcompile.compiler.choices import Options
from etcompile.compiler.lower import lower
from etcompile.compiler.pipeline import compile  # noqa: A004
from etcompile.diagnostics import Diagnostic, codes, diagnose, has_errors
from etcompile.emit import to_yaml
from etcompile.emit.files import refused, write_files
from etcompile.frontends.trainer.runtimes import is_runtime
from etcompile.integrations.migrate import runtime_snapshots
from etcompile.integrations.migrate.adoption import fates, is_pod
from etcompile.integrations.migrate.cleanup import cleaned, workers
from etcompile.integrations.migrate.handover import Handover, instructions
from etcompile.k8s.objects import labels_of
from etcompile.load import Document
from etcompile.model import Job
from etcompile.plan.step import reference

OVERLAY = "overlay.yaml"
HANDOVER = "HANDOVER.md"
_SPEC = (
    "# {0.label}, from {0.relative}: without its status and what the cluster added.\n"
    "# HANDOVER.md says how it leaves its operator.\n"
)
_OVERLAY_HEAD = (
    "# Keeps what runs as it is: pass it with --overlay. Once you have put its numbers into\n"
    "# the spec, you need it no longer.\n"
)


class Migrated(Struct, frozen=True):
    """The files of a hand-over.

    Args:
        files: Name to text; none if something was refused.
    """

    files: Mapping[str, str]
    diagnostics: tuple[Diagnostic, ...]


def migrated(documents: Iterable[Document], options: Options | None = None) -> Migrated:
    """Return the files with which etcompile takes jobs over from their operator.

    Args:
        documents: Custom resources as a cluster returns them, their scale intents, and objects
            that the operator created for them.
    """
    options = options or Options()
    version = options.settings.kubernetes_version
    diagnostics: list[Diagnostic] = []
    live: list[tuple[Document, frontends.Kind, tuple[str, ...]]] = []
    specs: list[Document] = []
    scalers: list[tuple[Document, frontends.Kind]] = []
    others: list[Document] = []
    for document in documents:
        today = olderapis.current(document)
        diagnostics += today.diagnostics
        kind = frontends.find(today.document.api_version, today.document.kind)
        if kind is None:
            others.append(today.document)
        elif kind.pod_templates:
            live.append((document, kind, today.changes))
            specs.append(cleaned(today.document, kind))
        else:
            scalers.append((today.document, kind))
    if has_errors(diagnostics):
        return Migrated({}, tuple(diagnostics))
    objects = [other for other in others if other.api_version and other.kind]
    objects = [other for other in objects if not is_runtime(other)]
    problems: list[Diagnostic] = []
    for document in objects:
        # The code below relies on these types, as objects of a cluster have them.
        mistyped = kubernetes.check_metadata(document, version)
        problems += mistyped or kubernetes.check_types(document, version)
    if problems:
        return Migrated({}, tuple(problems))
    if not specs:
        return Migrated({}, (diagnose(codes.NOTHING_TO_MIGRATE, None, example="trainingjob"),))
    joined = runtime_snapshots.merged(specs, others, version)
    if has_errors(joined.diagnostics):
        return Migrated({}, (*diagnostics, *joined.diagnostics))
    lowered = lower(joined.whole, version)
    if has_errors(lowered.diagnostics):
        return Migrated({}, (*diagnostics, *lowered.diagnostics))
    numbers = {id(document): number for number, document in enumerate(joined.whole)}
    handovers = []
    for job in lowered.jobs:
        number = numbers[id(job.origin.source)]
        document, kind, changes = live[number]
        intents, scaler_names = [], []
        for scaler, scaler_kind in scalers:
            is_near = (scaler.namespace or "default") == (job.namespace or "default")
            if is_near and scaler_kind.refers(scaler.data, job.kind, job.name):
                intents.append(scaler)
                if scaler.name:
                    scaler_names.append(reference(scaler.data).resource)
        patch, notes = workers(document, kind, job, intents)
        handovers.append(
            Handover(
                live=document,
                kind=kind,
                job=job,
                spec=specs[number],
                patch=patch,
                notes=tuple(filter(None, (*changes, joined.notes[number], *notes))),
                scalers=tuple(scaler_names),
                runtime=joined.runtimes[number],
            )
        )
    values = [document.data for document in objects]
    written = _files(handovers, _overlay(handovers, values), values, options)
    return structs.replace(written, diagnostics=(*diagnostics, *written.diagnostics))


def _overlay(
    handovers: Sequence[Handover], others: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    overlay: dict[str, Any] = {"apiVersion": "etcompile.dev/v1alpha1", "kind": "Overlay"}
    secrets = {name for handover in handovers if (name := _secret(handover.job, others))}
    if len(secrets) == 1:
        overlay["settings"] = {"secret": f"existing:{secrets.pop()}"}
    for handover in handovers:
        if handover.patch:
            job = handover.job
            target = {"apiVersion": job.api_version, "kind": job.kind, "name": job.name}
            target |= {"namespace": job.namespace} if job.namespace else {}
            patch = {"target": target, "patch": handover.patch}
            overlay.setdefault("patches", []).append(patch)
    return overlay if len(overlay) > 2 else None


def _secret(job: Job, others: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the Secret with the keys of the running Pods, if it is not the rendered one."""
    ssh = job.credentials
    if ssh is None:
        return None
    for value in others:
        labels = labels_of(value)
        if not is_pod(value) or any(labels.get(k) != v for k, v in job.selector.items()):
            continue
        for volume in (value.get("spec") or {}).get("volumes") or ():
            source = volume.get("secret") or {}
            keys = {item.get("key") for item in source.get("items") or ()}
            name = source.get("secretName")
            if ssh.private_key in keys and name and name != ssh.secret:
                return str(name)
    return None


# Files ------------------------------------------------------------------------------------------


def _files(
    handovers: Sequence[Handover],
    overlay: Mapping[str, Any] | None,
    others: Sequence[Mapping[str, Any]],
    options: Options,
) -> Migrated:
    plain = [handover.job.name for handover in handovers]
    names = []
    for handover in handovers:
        name = handover.job.name
        if plain.count(name) > 1:
            name = f"{handover.job.kind.lower()}-{handover.job.namespace or 'default'}-{name}"
        names.append(f"{name}.yaml" if f"{name}.yaml" != OVERLAY else f"{name}-job.yaml")
    runtimes: dict[str, Document] = {}
    for name, handover in zip(names, handovers, strict=True):
        runtime = handover.runtime
        if runtime is not None and not any(runtime is known for known in runtimes.values()):
            runtimes[f"{name.removesuffix('.yaml')}-runtime.yaml"] = runtime
    documents = [*(handover.spec for handover in handovers), *runtimes.values()]
    overlays = (*options.overlays, *([overlay] if overlay else []))
    compilation = compile(documents, structs.replace(options, overlays=overlays))
    if not compilation.ok:
        return Migrated({}, compilation.diagnostics)
    files: dict[str, str] = {}
    complete = []
    for name, handover in zip(names, handovers, strict=True):
        files[name] = _SPEC.format(handover.live) + to_yaml(handover.spec.data)
        job, operator = handover.job, handover.kind.operator
        its = [file for file, runtime in runtimes.items() if runtime is handover.runtime]
        objects = [
            value
            for group in compilation.groups
            if group.name == job.name and (group.namespace or None) in (job.namespace, "default")
            for value in group.objects
        ]
        all_go = operator is not None and operator.generates_names
        outcomes = fates(objects, others, handover.live, job, all_go=all_go)
        complete.append(structs.replace(handover, files=(name, *its), fates=outcomes))
    for name, runtime in runtimes.items():
        head = f"# The {runtime.kind} that the job runs with.\n"
        files[name] = head + to_yaml(runtime.data)
    if overlay is not None:
        files[OVERLAY] = _OVERLAY_HEAD + to_yaml(overlay)
    files[HANDOVER] = instructions(complete, overlay=overlay is not None)
    return Migrated(files, compilation.diagnostics)


def written(folder: Path, files: Mapping[str, str]) -> list[Diagnostic]:
    """Write the files of a hand-over into a folder, all of them or none.

    Returns:
        An error for each file that already exists, or cannot be written.
    """
    contents = {name: text.encode() for name, text in files.items()}
    problems = refused(folder, contents)
    for name, content in contents.items():
        path = folder / name
        with contextlib.suppress(OSError):
            if not path.is_symlink() and path.read_bytes() != content:
                problems.append(diagnose(codes.FOREIGN_FILE, None, path=str(path)))
    return problems or write_files(folder, contents)
