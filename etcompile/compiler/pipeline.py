"""The pipeline: files to documents to jobs to objects.

`compile` is the one function that strings the stages together; reading it explains the
program. Each stage is a function from values to values and reports what is wrong as
diagnostics. The first stage that refuses a document reports everything it finds wrong there, and
all other documents go on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from msgspec import Struct, field

from etcompile import emit
from etcompile.compiler.advice import unheard
from etcompile.compiler.choices import impossible_choices
from etcompile.compiler.fold import fold
from etcompile.compiler.inputs import Sources, read
from etcompile.compiler.jobs import JobObjects, built
from etcompile.compiler.lowering import lowered
from etcompile.compiler.options import Input, Options, OverlayInput
from etcompile.compiler.patching import patched
from etcompile.compiler.reporting import divided, in_order
from etcompile.diagnostics import Diagnostic, codes, diagnose, has_errors
from etcompile.load import Document
from etcompile.model import Settings

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
    if refused := impossible_choices(options):
        return Compilation((), tuple(refused))
    sources = read(inputs, options, stdin)
    options, environment = sources.options, sources.environment
    if has_errors(environment.diagnostics):
        return _compilation(sources, (), sources.diagnostics)
    version = options.settings.kubernetes_version
    documents = patched(sources.documents, options, environment, sources.library)
    jobs = lowered(documents.documents, version, options.managed)
    folded, unselected = fold(jobs.jobs, jobs.intents, options.settings)
    problems = [*sources.diagnostics, *_readable(documents.diagnostics, sources)]
    problems += jobs.diagnostics
    # What is said of several documents holds only if each of them could be read.
    whole = not has_errors(problems)
    problems += unselected if whole else ()
    objects = built(folded, jobs, documents, sources, whole=whole)
    problems += objects.diagnostics
    if not (objects.groups or options.allow_empty or has_errors(problems)):
        first = next(iter(sources.documents), None)
        place = first.locate(("kind",)) if first else None
        problems.append(diagnose(codes.NOTHING_RENDERED, place))
    return _compilation(sources, objects.groups, problems, jobs.skipped)


def _readable(problems: Iterable[Diagnostic], sources: Sources) -> list[Diagnostic]:
    """The problems without missing runtimes, which may be in a file that could not be read."""
    unread = has_errors(sources.diagnostics)
    return [p for p in problems if not (unread and p.code == codes.NO_SUCH_RUNTIME)]


def _compilation(
    sources: Sources,
    groups: Sequence[JobObjects],
    problems: Sequence[Diagnostic],
    skipped: tuple[Document, ...] = (),
) -> Compilation:
    """The outcome of a run, with what it says of its diagnostics in a reader's order."""
    options, environment = sources.options, sources.environment
    failed = has_errors(problems)
    if failed:
        # What is refused first is corrected first; advice is for what can run.
        problems = [problem for problem in problems if not problem.code.startswith("ET9")]
    quiet = unheard(options) if sources.comments and not failed else frozenset()
    reported, suppressed = divided(
        problems, sources.comments, options.ignore, whole=not failed, unheard=quiet
    )
    # Runtimes from which jobs take nothing may change as they like.
    taken = {source for group in groups for source in group.sources}
    runtimes = [runtime for runtime in sources.library if runtime.relative in taken]
    read = [
        (document.relative, document.digest)
        for document in (*sources.documents, *environment.documents, *runtimes)
        if document.digest is not None
    ]
    return Compilation(
        groups=() if failed else tuple(groups),
        diagnostics=in_order(reported, sources.files, environment.files),
        files=sources.files,
        inputs=tuple(sorted({*read, *sources.texts.digests(), *sources.keys.inputs})),
        settings=options.settings,
        suppressed=in_order(suppressed, sources.files, environment.files),
        skipped=skipped,
    )
