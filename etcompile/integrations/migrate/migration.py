"""Documents of a cluster to the files of a hand-over: specs, overlay and instructions.

The one function that strings the parts together: `cleanup` and `history` say what was asked
for, `workers` what runs, `adoption` what becomes of each object, `handover` what to do.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from etcompile import frontends, intents, stages
from etcompile.check import kubernetes, metadata
from etcompile.compiler import Compilation, Options, compile  # noqa: A004
from etcompile.diagnostics import Diagnostic, codes, diagnose, has_errors
from etcompile.emit import to_yaml
from etcompile.frontends import Kind
from etcompile.integrations.migrate import runtimes
from etcompile.integrations.migrate.adoption import fates, is_pod
from etcompile.integrations.migrate.cleanup import cleaned
from etcompile.integrations.migrate.files import marked
from etcompile.integrations.migrate.handover import instructions
from etcompile.integrations.migrate.history import History, history
from etcompile.integrations.migrate.subject import Handover
from etcompile.integrations.migrate.workers import workers
from etcompile.load import Document
from etcompile.model import Intent, Job
from etcompile.stages import JobObjects, former
from etcompile.stages.runtimes import is_runtime

OVERLAY = "overlay.yaml"
HANDOVER = "HANDOVER.md"


class Migrated(Struct, frozen=True):
    """The files of a hand-over.

    Args:
        files: Name to text; none if something was refused.
        diagnostics: What is wrong with the input, or worth knowing.
    """

    files: Mapping[str, str]
    diagnostics: tuple[Diagnostic, ...]


class _Taken(Struct, frozen=True):
    """A job and what its files need.

    Args:
        live: Its document, as it came.
        documents: The documents of its file.
        patch: The overlay's patch of its document.
        notes: What is worth knowing.
        scalers: Its scale intents in the cluster.
        runtime: Its runtime, for a kind that has one.
    """

    live: Document
    kind: Kind
    job: Job
    documents: tuple[Document, ...]
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
    live = list(documents)
    current, changes, told = _current(live)
    if has_errors(told):
        return Migrated({}, told)
    known = [
        (document, frontends.find(document.api_version, document.kind)) for document in current
    ]
    lives = {
        id(now): (document, more)
        for now, document, more in zip(current, live, changes, strict=True)
    }
    jobs = [(document, kind) for document, kind in known if kind is not None and kind.pod_templates]
    scalers = [
        (document, kind) for document, kind in known if kind is not None and not kind.pod_templates
    ]
    made = [
        document
        for document, kind in known
        if kind is None and document.api_version and document.kind
    ]
    noted = made
    made = [document for document in made if not is_runtime(document)]
    version = options.settings.kubernetes_version
    if problems := tuple(_odd(made, version)):
        return Migrated({}, problems)
    others = [document.data for document in made]
    if not jobs:
        return Migrated({}, (diagnose(codes.NOTHING_TO_MIGRATE, None, example="trainingjob"),))
    done = {name: history(found) for name, found in _by_job(scalers).items()}
    cleaner = [cleaned(document, kind) for document, kind in jobs]
    joined = runtimes.merged(cleaner, noted, version)
    if has_errors(joined.diagnostics):
        return Migrated({}, (*told, *joined.diagnostics))
    specs = joined.whole
    wanted = (document for found in done.values() for document in found.documents)
    lowered = stages.lowered((*specs, *wanted), version)
    if has_errors(lowered.diagnostics):
        return Migrated({}, (*told, *lowered.diagnostics))
    selected = intents.by_job(lowered.jobs, lowered.intents)
    if has_errors(selected.diagnostics):
        return Migrated({}, (*told, *lowered.diagnostics, *selected.diagnostics))
    rows = zip(jobs, joined.specs, joined.runtimes, joined.notes, strict=True)
    origins = dict(zip(map(id, specs), rows, strict=True))
    taken = []
    for job, wishes in selected.pairs:
        (now, kind), spec, runtime, notes = origins[id(job.origin.source)]
        live_now, more = lives[id(now)]
        found = _taken(job, wishes, (live_now, (*more, *notes), kind), done, spec)
        taken.append(structs.replace(found, runtime=runtime))
    written = _files(taken, _overlay(taken, others), others, options)
    return structs.replace(written, diagnostics=(*told, *written.diagnostics))


def _current(
    documents: Sequence[Document],
) -> tuple[list[Document], list[tuple[str, ...]], tuple[Diagnostic, ...]]:
    """The documents as they are written today, what has changed in each, and what to say of it."""
    found: list[Document] = []
    changes: list[tuple[str, ...]] = []
    told: list[Diagnostic] = []
    for document in documents:
        now = former.current(document)
        found.append(now.document)
        changes.append(now.changes)
        told += now.diagnostics
    return found, changes, tuple(told)


def _odd(objects: Iterable[Document], version: str) -> Iterator[Diagnostic]:
    """What no cluster gives out: objects are compared on the word that they have these types."""
    for document in objects:
        yield from metadata.check_metadata(document) or kubernetes.check_types(document, version)


_Name = tuple[str, str]
"""A job's namespace and name."""


def _by_job(scalers: Iterable[tuple[Document, Kind]]) -> dict[_Name, list[tuple[Document, Kind]]]:
    """The intents by the job that they select."""
    found: dict[_Name, list[tuple[Document, Kind]]] = {}
    for document, kind in scalers:
        spec = document.data.get("spec")
        selector = spec.get("selector") if isinstance(spec, dict) else None
        job = str(selector.get("name")) if isinstance(selector, dict) else ""
        found.setdefault((document.namespace or "default", job), []).append((document, kind))
    return found


def _taken(
    job: Job,
    wishes: Sequence[Intent],
    origin: tuple[Document, tuple[str, ...], Kind],
    histories: Mapping[_Name, History],
    spec: Document,
) -> _Taken:
    live, changes, kind = origin
    done = histories.get((job.namespace or "default", job.name), History((), ()))
    found = workers(live, kind, job, wishes)
    # The sources of lowered values are the documents that were lowered.
    kept: list[Any] = [wish.origin.source for wish in wishes] if found.history else []
    kept.sort(
        key=lambda manifest: int(manifest.data["metadata"]["annotations"]["etcompile.dev/sequence"])
    )
    notes = (*changes, *done.notes, *found.notes)
    return _Taken(live, kind, job, (spec, *kept), found.patch, notes, done.resources)


def _overlay(taken: Sequence[_Taken], others: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The overlay that keeps names and numbers of what runs; None if nothing needs to be kept."""
    made: dict[str, Any] = {"apiVersion": "etcompile.dev/v1alpha1", "kind": "Overlay"}
    secrets = {name for taken_job in taken if (name := _secret(taken_job.job, others))}
    if len(secrets) == 1:
        made["settings"] = {"secret": f"existing:{secrets.pop()}"}
    patches = [
        {
            "target": {
                "apiVersion": taken_job.job.api_version,
                "kind": taken_job.job.kind,
                "name": taken_job.job.name,
                **({"namespace": taken_job.job.namespace} if taken_job.job.namespace else {}),
            },
            "patch": taken_job.patch,
        }
        for taken_job in taken
        if taken_job.patch
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
    taken: Sequence[_Taken],
    overlay: Mapping[str, Any] | None,
    others: Sequence[Mapping[str, Any]],
    options: Options,
) -> Migrated:
    names = _names(taken)
    runtime_files = dict(runtimes.written((each.runtime for each in taken), names))
    documents = [document for taken_job in taken for document in taken_job.documents]
    documents += runtime_files.values()
    overlays = (*options.overlays, *([overlay] if overlay else []))
    compilation = compile(documents, structs.replace(options, overlays=overlays))
    if not compilation.ok:
        return Migrated({}, compilation.diagnostics)
    files = {
        name: marked(name, _spec_text(taken_job))
        for name, taken_job in zip(names, taken, strict=True)
    }
    files |= {name: marked(name, _runtime_text(runtime)) for name, runtime in runtime_files.items()}
    if overlay is not None:
        files[OVERLAY] = marked(OVERLAY, _overlay_text(overlay))
    files[HANDOVER] = _instructions(taken, names, runtime_files, compilation, others, overlay)
    return Migrated(files, compilation.diagnostics)


def _instructions(
    taken: Sequence[_Taken],
    names: Sequence[str],
    runtime_files: Mapping[str, Document],
    compilation: Compilation,
    others: Sequence[Mapping[str, Any]],
    overlay: Mapping[str, Any] | None,
) -> str:
    """HANDOVER.md."""
    handovers = [
        Handover(
            live=taken_job.live,
            kind=taken_job.kind,
            job=taken_job.job,
            file=name,
            fates=fates(
                _objects(compilation, taken_job.job),
                others,
                taken_job.live,
                taken_job.job,
                all_go=taken_job.kind.operator is not None
                and taken_job.kind.operator.generates_names,
            ),
            notes=taken_job.notes,
            scalers=taken_job.scalers,
            beside=tuple(
                file for file, runtime in runtime_files.items() if runtime is taken_job.runtime
            ),
        )
        for name, taken_job in zip(names, taken, strict=True)
    ]
    return marked(HANDOVER, instructions(handovers, overlay=overlay is not None))


def _objects(compilation: Compilation, job: Job) -> Sequence[Mapping[str, Any]]:
    def is_of(group: JobObjects) -> bool:
        return group.name == job.name and (group.namespace or None) in (job.namespace, "default")

    return [value for group in compilation.groups if is_of(group) for value in group.objects]


def _names(taken: Sequence[_Taken]) -> list[str]:
    """A name for each job's file: the job's, with more where two jobs share it."""
    plain = [taken_job.job.name for taken_job in taken]
    made = []
    for taken_job in taken:
        name = taken_job.job.name
        if plain.count(name) > 1:
            name = f"{taken_job.job.kind.lower()}-{taken_job.job.namespace or 'default'}-{name}"
        made.append(f"{name}.yaml" if f"{name}.yaml" != OVERLAY else f"{name}-job.yaml")
    return made


def _spec_text(taken_job: _Taken) -> str:
    live = taken_job.live
    made = [
        f"# {live.label}, from {live.relative}: without its status and what the cluster added.\n",
        "# HANDOVER.md says how it leaves its operator.\n",
    ]
    if len(taken_job.documents) > 1:
        made.append("# The scale intents are those that were done, in that order.\n")
    return "".join(made) + "---\n".join(to_yaml(document.data) for document in taken_job.documents)


def _runtime_text(runtime: Document) -> str:
    return f"# The {runtime.kind} that the job runs with.\n" + to_yaml(runtime.data)


def _overlay_text(overlay: Mapping[str, Any]) -> str:
    return (
        "# Keeps what runs as it is: pass it with --overlay. Once you have put its numbers into\n"
        "# the spec, you need it no longer.\n"
    ) + to_yaml(overlay)
