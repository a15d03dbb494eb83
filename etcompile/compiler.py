"""The pipeline: files to documents to jobs to objects.

`compile` is the one function that strings the stages together; reading it explains the
program. Each stage is a function from values to values and reports what is wrong as
diagnostics. The first stage that refuses a document reports everything it finds wrong there, and
all other documents go on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from msgspec import Struct, field, structs

from etcompile import backend, emit, intents, stages
from etcompile.check import objects, sizes
from etcompile.diagnostics import Diagnostic, codes, diagnose, has_errors
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
        suppressed: The warnings that an option or a comment silences; they are not among the
            diagnostics.
        skipped: Documents of jobs that were left to their own controller, as they came.
    """

    groups: tuple[JobObjects, ...]
    diagnostics: tuple[Diagnostic, ...]
    files: tuple[str, ...] = ()
    inputs: tuple[tuple[str, str], ...] = ()
    settings: Settings = field(default_factory=Settings)
    suppressed: tuple[Diagnostic, ...] = ()
    skipped: tuple[Document, ...] = ()

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        """The diagnostics, and the suppressed ones, which are marked, behind them."""
        return (*self.diagnostics, *self.suppressed)

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


_LARGE = 2_000
"""Replicas of a job whose objects are not made beside an error, which renders nothing anyway."""


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
    if refused := stages.impossible_choices(options):
        return Compilation((), tuple(refused))
    loaded = stages.loaded(inputs, options, stdin)
    documents = loaded.documents
    environment = stages.environment(options)
    library = stages.library(options)
    told = [*stages.ignored_problems(options.ignore), *stages.selected_problems(options.select)]
    told += (
        problem
        for problem in loaded.diagnostics
        if not (options.allow_empty and problem.code == codes.NO_DOCUMENTS)
    )
    told += [*environment.diagnostics, *library.diagnostics]
    told += stages.credential_notes((*documents, *environment.documents, *library.documents))
    groups: list[JobObjects] = []
    skipped: tuple[Document, ...] = ()
    texts, notes = stages.texts_of(options)
    keys = stages.KeySource()
    told += notes
    if not has_errors(environment.diagnostics):
        options = structs.replace(options, settings=environment.settings)
        keys = stages.key_source(options, environment.place_of("secret"))
        told += keys.diagnostics
        groups, skipped = _compiled(
            documents, options, environment, library.documents, texts, keys, told
        )
    named = [document.file for document in (*documents, *library.documents)]
    files = tuple(dict.fromkeys((*named, *environment.files)))
    failed = has_errors(told)
    if failed:
        # What is refused first is corrected first; advice is for what can run.
        told = [diagnostic for diagnostic in told if not diagnostic.code.startswith("ET9")]
    comments = [*loaded.comments, *environment.comments, *library.comments]
    # What jobs take nothing from may change as it likes.
    taken = {source for group in groups for source in group.sources}
    runtimes = [runtime for runtime in library.documents if runtime.relative in taken]
    unheard = stages.unheard(options) if comments and not failed else frozenset()
    heard, silenced = stages.divided(
        told,
        comments,
        options.ignore,
        whole=not failed,
        unheard=unheard,
    )
    return Compilation(
        groups=() if failed else tuple(groups),
        diagnostics=stages.in_order(heard, files, environment.files),
        files=files,
        inputs=_digests((*documents, *environment.documents, *runtimes), texts, keys),
        settings=options.settings,
        suppressed=stages.in_order(silenced, files, environment.files),
        skipped=skipped,
    )


def _compiled(
    documents: Sequence[Document],
    options: Options,
    environment: stages.Environment,
    library: Sequence[Document],
    texts: backend.Texts,
    keys: stages.KeySource,
    told: list[Diagnostic],
) -> tuple[list[JobObjects], tuple[Document, ...]]:
    """The objects of the documents, by job, those that belong to none first; what was skipped.

    Args:
        documents: The documents of the input.
        options: How to compile.
        environment: What overlays come to.
        library: The runtimes of `--runtimes`.
        texts: The templates of scripts.
        keys: What fills objects with what only the outside has.
        told: What is wrong so far, to which this adds.
    """
    patched, problems = stages.patched(documents, options, environment, library)
    unread = has_errors(told)  # maybe the runtime of a job
    told += (p for p in problems if not (unread and p.code == codes.NO_SUCH_RUNTIME))
    lowered = stages.lowered(
        patched.documents, options.settings.kubernetes_version, options.managed
    )
    told += lowered.diagnostics
    # What is said of several documents holds only if each of them could be read.
    whole = not has_errors(told)
    selected = intents.by_job(lowered.jobs, lowered.intents)
    told += selected.diagnostics if whole else ()

    advice = stages.advice(options, lowered.others) if options.lint else None
    groups: list[JobObjects] = []
    matched = environment.matched | patched.matched
    # The objects of a large job are not made only to be thrown away.
    pairs = [
        (job, wishes)
        for job, wishes in selected.pairs
        if whole or sum(len(role.members) for role in job.roles) <= _LARGE
    ]
    for job, wishes in pairs:
        group, edits, problems = stages.job_objects(
            job, wishes, texts, environment, patched.sources, keys, advice=advice
        )
        groups.append(group)
        matched |= edits
        told += problems
    neighbours, problems = stages.neighbour_objects(lowered.others, options, patched.sources)
    told += problems

    made = [(job, built.objects) for (job, _), built in zip(pairs, groups, strict=True)]
    told += objects.check_jobs(made) if whole else ()
    told += objects.check_neighbours(
        lowered.others,
        made,
        allow_plain_secrets=options.allow_plain_secrets,
    )
    told += sizes.check_neighbour_sizes(lowered.others, options.settings.profiles)
    told += objects.check_autoscalers(lowered.others, [job for job, _ in selected.pairs])
    # What an overlay changes in a job that is skipped cannot be seen.
    if (
        environment.edits
        and whole
        and not lowered.skipped
        and all(built.objects for built in groups)
    ):
        from etcompile.overlays.unmatched import unmatched  # noqa: PLC0415 - few runs have edits

        values = [document.data for document in patched.documents]
        compiled = (value for group in groups for value in group.objects)
        told += unmatched(environment.edits, matched, values, compiled)
    if neighbours.objects:
        groups.insert(0, neighbours)
    if not (groups or options.allow_empty or has_errors(told)):
        first = next(iter(documents), None)
        told.append(diagnose(codes.NOTHING_RENDERED, first.locate(("kind",)) if first else None))
    return groups, lowered.skipped


def _digests(
    documents: Sequence[Document], texts: backend.Texts, keys: stages.KeySource
) -> tuple[tuple[str, str], ...]:
    """The digests of everything that was read, templates of the user's own included."""
    read = [
        (document.relative, document.digest)
        for document in documents
        if document.digest is not None
    ]
    return tuple(sorted({*read, *texts.digests(), *keys.inputs}))
