"""Documents of a cluster to the files of a hand-over: specs, overlay and instructions.

`migrated` strings the parts together: `cleanup` says what was asked for, `workers` what runs,
`adoption` what becomes of each object, and `handover` what to do.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from etcompile import frontends
from etcompile.check import kubernetes
from etcompile.check.document_rules import check_metadata
from etcompile.compiler import Compilation, JobObjects, Options, compile, olderapis  # noqa: A004
from etcompile.compiler.lower import lower
from etcompile.compiler.runtimes import is_runtime
from etcompile.diagnostics import Diagnostic, codes, diagnose, has_errors
from etcompile.emit import to_yaml
from etcompile.frontends import Kind
from etcompile.integrations.migrate import runtimes
from etcompile.integrations.migrate.adoption import fates, is_pod
from etcompile.integrations.migrate.cleanup import cleaned
from etcompile.integrations.migrate.files import marked
from etcompile.integrations.migrate.handover import Handover, instructions
from etcompile.integrations.migrate.workers import workers
from etcompile.k8s.path import value_at
from etcompile.load import Document
from etcompile.model import Job

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
_SCALED_JOB = (("spec", "selector", "name"), ("spec", "ownerJob"))
"""Where a scale intent names its job."""


class Migrated(Struct, frozen=True):
    """The files of a hand-over.

    Args:
        files: Name to text; none if something was refused.
        diagnostics: What is wrong with the input, or worth knowing.
    """

    files: Mapping[str, str]
    diagnostics: tuple[Diagnostic, ...]


class _Takeover(Struct, frozen=True):
    """A job and what its files need.

    Args:
        live: Its document, as it came.
        spec: Its document, clean.
        patch: The overlay's patch of its document.
        notes: What is worth knowing.
        scalers: Its scale intents in the cluster, as kubectl names them.
        runtime: Its runtime, for a kind that has one.
    """

    live: Document
    kind: Kind
    job: Job
    spec: Document
    patch: Mapping[str, Any] | None
    notes: tuple[str, ...]
    scalers: tuple[str, ...]
    runtime: Document | None = None


def migrated(documents: Iterable[Document], options: Options | None = None) -> Migrated:
    """The files with which etcompile takes jobs over from their operator.

    Args:
        documents: Custom resources as a cluster gives them, with their scale intents, and
            objects that the operator made of them.
        options: How to compile.

    Returns:
        The files, and what is to be said. Bad input never raises.
    """
    options = options or Options()
    version = options.settings.kubernetes_version
    diagnostics: list[Diagnostic] = []
    live: list[tuple[Document, Kind, tuple[str, ...]]] = []
    specs: list[Document] = []
    scalers: list[Document] = []
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
            scalers.append(today.document)
    if has_errors(diagnostics):
        return Migrated({}, tuple(diagnostics))
    objects = [found for found in others if found.api_version and found.kind]
    objects = [found for found in objects if not is_runtime(found)]
    if problems := tuple(_odd(objects, version)):
        return Migrated({}, problems)
    if not specs:
        return Migrated({}, (diagnose(codes.NOTHING_TO_MIGRATE, None, example="trainingjob"),))
    joined = runtimes.merged(specs, others, version)
    if has_errors(joined.diagnostics):
        return Migrated({}, (*diagnostics, *joined.diagnostics))
    lowered = lower(joined.whole, version)
    if has_errors(lowered.diagnostics):
        return Migrated({}, (*diagnostics, *lowered.diagnostics))
    numbers = {id(document): number for number, document in enumerate(joined.whole)}
    takeovers = []
    for job in lowered.jobs:
        number = numbers[id(job.origin.source)]
        document, kind, changes = live[number]
        intents = [scaler for scaler in scalers if _scales(scaler, job)]
        found = workers(document, kind, job, intents)
        takeovers.append(
            _Takeover(
                live=document,
                kind=kind,
                job=job,
                spec=joined.specs[number],
                patch=found.patch,
                notes=(*changes, *joined.notes[number], *found.notes),
                scalers=tuple(_resource(intent) for intent in intents if intent.name),
                runtime=joined.runtimes[number],
            )
        )
    values = [document.data for document in objects]
    written = _files(takeovers, _overlay(takeovers, values), values, options)
    return structs.replace(written, diagnostics=(*diagnostics, *written.diagnostics))


def _scales(scaler: Document, job: Job) -> bool:
    """Whether a scale intent names a job."""
    names = [value_at(scaler.data, path) for path in _SCALED_JOB]
    return job.name in names and (scaler.namespace or "default") == (job.namespace or "default")


def _resource(document: Document) -> str:
    """An object as kubectl names it."""
    group = str(document.api_version).partition("/")[0]
    return f"{str(document.kind).lower()}.{group}/{document.name}"


def _odd(objects: Iterable[Document], version: str) -> Iterator[Diagnostic]:
    """What no cluster gives out: objects are compared on the word that they have these types."""
    for document in objects:
        yield from check_metadata(document) or kubernetes.check_types(document, version)


def _overlay(
    takeovers: Sequence[_Takeover], others: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """The overlay that keeps names and numbers of what runs; None if nothing needs to be kept."""
    made: dict[str, Any] = {"apiVersion": "etcompile.dev/v1alpha1", "kind": "Overlay"}
    secrets = {name for takeover in takeovers if (name := _secret(takeover.job, others))}
    if len(secrets) == 1:
        made["settings"] = {"secret": f"existing:{secrets.pop()}"}
    patches = [
        {
            "target": {
                "apiVersion": takeover.job.api_version,
                "kind": takeover.job.kind,
                "name": takeover.job.name,
                **({"namespace": takeover.job.namespace} if takeover.job.namespace else {}),
            },
            "patch": takeover.patch,
        }
        for takeover in takeovers
        if takeover.patch
    ]
    if patches:
        made["patches"] = patches
    return made if len(made) > 2 else None


def _secret(job: Job, others: Sequence[Mapping[str, Any]]) -> str | None:
    """The Secret that the running Pods take their keys from, if it is another than rendered."""
    ssh = job.credentials
    if ssh is None:
        return None
    for value in others:
        labels = value["metadata"].get("labels") or {}
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
    takeovers: Sequence[_Takeover],
    overlay: Mapping[str, Any] | None,
    others: Sequence[Mapping[str, Any]],
    options: Options,
) -> Migrated:
    names = _names(takeovers)
    runtime_files = dict(runtimes.written((each.runtime for each in takeovers), names))
    documents = [*(takeover.spec for takeover in takeovers), *runtime_files.values()]
    overlays = (*options.overlays, *([overlay] if overlay else []))
    compilation = compile(documents, structs.replace(options, overlays=overlays))
    if not compilation.ok:
        return Migrated({}, compilation.diagnostics)
    files = {
        name: marked(name, _SPEC.format(takeover.live) + to_yaml(takeover.spec.data))
        for name, takeover in zip(names, takeovers, strict=True)
    }
    for name, runtime in runtime_files.items():
        head = f"# The {runtime.kind} that the job runs with.\n"
        files[name] = marked(name, head + to_yaml(runtime.data))
    if overlay is not None:
        files[OVERLAY] = marked(OVERLAY, _OVERLAY_HEAD + to_yaml(overlay))
    files[HANDOVER] = _instructions(takeovers, names, runtime_files, compilation, others, overlay)
    return Migrated(files, compilation.diagnostics)


def _instructions(
    takeovers: Sequence[_Takeover],
    names: Sequence[str],
    runtime_files: Mapping[str, Document],
    compilation: Compilation,
    others: Sequence[Mapping[str, Any]],
    overlay: Mapping[str, Any] | None,
) -> str:
    """HANDOVER.md."""
    handovers = [
        Handover(
            live=takeover.live,
            kind=takeover.kind,
            job=takeover.job,
            files=(
                name,
                *(file for file, runtime in runtime_files.items() if runtime is takeover.runtime),
            ),
            fates=fates(
                _objects(compilation, takeover.job),
                others,
                takeover.live,
                takeover.job,
                all_go=takeover.kind.operator is not None
                and takeover.kind.operator.generates_names,
            ),
            notes=takeover.notes,
            scalers=takeover.scalers,
        )
        for name, takeover in zip(names, takeovers, strict=True)
    ]
    return marked(HANDOVER, instructions(handovers, overlay=overlay is not None))


def _objects(compilation: Compilation, job: Job) -> Sequence[Mapping[str, Any]]:
    def is_of(group: JobObjects) -> bool:
        return group.name == job.name and (group.namespace or None) in (job.namespace, "default")

    return [value for group in compilation.groups if is_of(group) for value in group.objects]


def _names(takeovers: Sequence[_Takeover]) -> list[str]:
    """A name for each job's file: the job's, with more where two jobs share it."""
    plain = [takeover.job.name for takeover in takeovers]
    made = []
    for takeover in takeovers:
        name = takeover.job.name
        if plain.count(name) > 1:
            name = f"{takeover.job.kind.lower()}-{takeover.job.namespace or 'default'}-{name}"
        made.append(f"{name}.yaml" if f"{name}.yaml" != OVERLAY else f"{name}-job.yaml")
    return made
