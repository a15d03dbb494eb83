"""The pipeline: files to documents to jobs to objects.

`compile` is the one function that strings the stages together; reading it explains the
program. Each stage is a function from values to values and reports what is wrong as
diagnostics, so that all problems of a run are told at once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from msgspec import Struct, field, structs

from etcompile import backend, emit, intents, overlays, stages
from etcompile.check import objects
from etcompile.diagnostics import Diagnostic, diagnose, has_errors
from etcompile.load import Document
from etcompile.model import Settings
from etcompile.options import Input, Options, OverlayInput
from etcompile.stages import JobObjects

__all__ = ["Compilation", "Input", "JobObjects", "Options", "OverlayInput", "compile"]


class Compilation(Struct, frozen=True):
    """What a run of the compiler made.

    Args:
        groups: The objects by job; none if there was an error.
        diagnostics: Everything that is wrong or worth knowing, in the order of the input.
        files: The files that were read, as the user named them.
        inputs: The SHA-256 of each of them, by its name independent of the working directory.
        settings: How they were compiled, after overlays.
    """

    groups: tuple[JobObjects, ...]
    diagnostics: tuple[Diagnostic, ...]
    files: tuple[str, ...] = ()
    inputs: tuple[tuple[str, str], ...] = ()
    settings: Settings = field(default_factory=Settings)

    @property
    def ok(self) -> bool:
        """Whether nothing was refused."""
        return not has_errors(self.diagnostics)

    @property
    def objects(self) -> tuple[Mapping[str, Any], ...]:
        """All objects in the order in which they are applied."""
        return tuple(self.in_order())

    def in_order(self) -> Iterator[Mapping[str, Any]]:
        """The same, but few of them in memory at a time."""
        return emit.merged(group.objects for group in self.groups)

    @property
    def sources(self) -> tuple[str, ...]:
        """All files that something came from."""
        return tuple(sorted({source for group in self.groups for source in group.sources}))


def compile(  # noqa: A001 - it is what it does
    inputs: Input | Iterable[Input],
    options: Options | None = None,
    *,
    stdin: BinaryIO | None = None,
) -> Compilation:
    """Compiles training-job specifications to Kubernetes objects.

    Args:
        inputs: Files, directories, globs, `-` for standard input, or documents as mappings.
        options: How to compile; the defaults if None.
        stdin: What `-` reads; the process's standard input if None.

    Returns:
        The objects and the diagnostics. With an error among these there are no objects. Bad
        input never raises.
    """
    options = options or Options()
    loaded = stages.loaded(inputs, options, stdin)
    environment = stages.environment(options)
    told = [*loaded.diagnostics, *environment.diagnostics]
    groups: list[JobObjects] = []
    texts = backend.Texts(options.templates)
    keys = stages.KeySource()
    told += stages.template_notes(texts)
    if not has_errors(environment.diagnostics):
        options = structs.replace(options, settings=environment.settings)
        keys = stages.key_source(options)
        told += keys.diagnostics
        groups, problems = _compiled(loaded.documents, options, environment, texts, keys)
        # What could not be read may have been the job.
        broken = has_errors(loaded.diagnostics)
        told += [one for one in problems if not (broken and one.code == "ET5006")]
    files = tuple(dict.fromkeys((*(one.file for one in loaded.documents), *environment.files)))
    return Compilation(
        groups=() if has_errors(told) else tuple(groups),
        diagnostics=stages.in_order(told, files, environment.files),
        files=files,
        inputs=_digests((*loaded.documents, *environment.documents), texts, keys),
        settings=options.settings,
    )


def _compiled(
    documents: Sequence[Document],
    options: Options,
    environment: stages.Environment,
    texts: backend.Texts,
    keys: stages.KeySource,
) -> tuple[list[JobObjects], list[Diagnostic]]:
    """The objects of the documents, by job, those that belong to none first."""
    patched, told = stages.patched(documents, options, environment)
    lowered = stages.lowered(patched.documents, options.settings.kubernetes_version)
    told += [
        one
        for one in lowered.diagnostics
        if not (one.code == "ET2060" and options.ignore_managed_by)
    ]
    selected = intents.by_job(lowered.jobs, lowered.intents)
    # An intent may only seem to lack its job, when that one is broken.
    told += selected.diagnostics if not has_errors(told) else ()

    groups: list[JobObjects] = []
    matched = environment.matched | patched.matched
    for job, wishes in selected.pairs:
        group, edits, problems = stages.job_objects(
            job, wishes, texts, environment, patched.sources, keys
        )
        groups.append(group)
        matched |= edits
        told += problems
    neighbours, problems = stages.neighbour_objects(lowered.others, options, patched.sources)
    told += problems

    made = [(job, one.objects) for (job, _), one in zip(selected.pairs, groups, strict=True)]
    # The same document twice is told of already.
    told += objects.check_jobs(made) if not has_errors(told) else ()
    told += objects.check_neighbours(
        lowered.others,
        [(group.name or "", group.objects) for group in groups],
        allow_plain_secrets=options.allow_plain_secrets,
    )
    told += objects.check_autoscalers(lowered.others, [job for job, _ in selected.pairs])
    if not has_errors(told):
        values = [document.data for document in patched.documents]
        compiled = (value for group in groups for value in group.objects)
        told += overlays.unmatched(environment.edits, matched, values, compiled)
    if not has_errors(told) and not groups and not neighbours.objects:
        told.append(diagnose("ET5006", None))
    return [*([neighbours] if neighbours.objects else []), *groups], told


def _digests(
    documents: Sequence[Document], texts: backend.Texts, keys: stages.KeySource
) -> tuple[tuple[str, str], ...]:
    """The digests of everything that was read, templates of the user's own included."""
    read = [(one.relative, one.digest) for one in documents if one.digest is not None]
    return tuple(sorted({*read, *texts.digests(), *keys.inputs}))
