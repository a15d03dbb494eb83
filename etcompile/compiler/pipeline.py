"""Compile: files to documents to jobs to objects.

`compile` calls all stages in order; reading it explains the program. Each stage is a function from
values to values and reports problems as diagnostics. The first stage that refuses a document
reports all of its problems there, and all other documents go on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from msgspec import Struct, field, structs

from etcompile import emit, overlays
from etcompile.compiler.build import JobObjects, build
from etcompile.compiler.choices import Options, impossible_choices
from etcompile.compiler.fold import fold
from etcompile.compiler.load import Sources, load
from etcompile.compiler.lower import lower
from etcompile.compiler.patch import patch
from etcompile.compiler.reported import reported
from etcompile.diagnostics import Diagnostic, codes, diagnose, has_errors
from etcompile.frontends.trainer.runtimes import is_runtime
from etcompile.load import Document, Input
from etcompile.model import Settings


class Compilation(Struct, frozen=True):
    """The outcome of a run of the compiler.

    Args:
        groups: The objects by job; none if there was an error.
        diagnostics: Everything that is wrong or worth knowing, in the order of the input.
        inputs: The SHA-256 of each of them, by its name independent of the working directory.
        suppressed: The warnings that an option or a comment suppresses; they are not among the
            diagnostics.
        skipped: Unchanged documents of jobs that were left to another controller.
        counts: How many documents of the input are no objects: runtimes, overlays, and scale
            intents whose job is not in the input.
        outputs: Output folders among the inputs, which were skipped.
        declares_version: Somebody chose the version of Kubernetes.
    """

    groups: tuple[JobObjects, ...]
    diagnostics: tuple[Diagnostic, ...]
    files: tuple[str, ...] = ()
    inputs: tuple[tuple[str, str], ...] = ()
    settings: Settings = field(default_factory=Settings)
    suppressed: tuple[Diagnostic, ...] = ()
    skipped: tuple[Document, ...] = ()
    counts: Mapping[str, int] = {}
    outputs: tuple[str, ...] = ()
    declares_version: bool = False

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        """Return the diagnostics, followed by the suppressed ones, which are marked."""
        return (*self.diagnostics, *self.suppressed)

    @property
    def ok(self) -> bool:
        return not has_errors(self.diagnostics)

    @property
    def objects(self) -> tuple[Mapping[str, Any], ...]:
        """Return all objects in the order in which they are applied."""
        return tuple(self.in_order())

    def in_order(self) -> Iterator[Mapping[str, Any]]:
        """Yield all objects in the order in which they are applied, with few of them in memory."""
        return emit.merged(group.objects for group in self.groups)

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(sorted({source for group in self.groups for source in group.sources}))


def compile(  # noqa: A001 - it is what it does
    inputs: Input | Iterable[Input],
    options: Options | None = None,
    *,
    stdin: BinaryIO | None = None,
) -> Compilation:
    """Compile training-job specifications to Kubernetes objects.

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
    sources = load(inputs, options, stdin)
    options, read = sources.options, sources.inputs
    if has_errors(sources.environment.diagnostics):
        return _compilation(sources, (), read.diagnostics)
    patched = patch(sources)
    lowered = lower(patched.documents, options.settings.kubernetes_version, options.managed)
    folded, unselected = fold(lowered.jobs, lowered.intents, options.settings)
    problems = [*read.diagnostics, *patched.diagnostics, *lowered.diagnostics]
    if has_errors(read.diagnostics):
        # The missing runtime may be in an unreadable file.
        problems = [problem for problem in problems if problem.code != codes.NO_SUCH_RUNTIME]
    all_valid = not has_errors(problems)
    partial = not lowered.jobs if options.partial is None else options.partial
    files = {job.origin.locate().file for job in lowered.jobs if unselected}
    for problem in unselected if all_valid else ():
        if not (partial and problem.location and problem.location.file not in files):
            problems.append(problem)
    groups, more = build(folded, lowered, patched, sources, all_valid=all_valid)
    problems += more
    if not (groups or options.allow_empty or options.lint or has_errors(problems)):
        first = next(iter(read.documents), None)
        place = first.locate(("kind",)) if first else None
        problems.append(diagnose(codes.NOTHING_RENDERED, place))
    compilation = _compilation(sources, groups, problems, lowered.skipped)
    counts = {
        "runtime": sum(map(is_runtime, read.documents)),
        "overlay": sum(map(overlays.is_overlay, read.documents)),
        "scale intent": len(unselected),
    }
    return structs.replace(compilation, counts=counts)


def _compilation(
    sources: Sources,
    groups: Sequence[JobObjects],
    problems: Sequence[Diagnostic],
    skipped: tuple[Document, ...] = (),
) -> Compilation:
    diagnostics, suppressed = reported(problems, sources)
    # Runtimes that no job uses are not inputs.
    used = {source for group in groups for source in group.sources}
    runtimes = [runtime for runtime in sources.library if runtime.relative in used]
    environment = sources.environment
    documents = (*sources.inputs.documents, *environment.documents, *runtimes)
    inputs = {(document.relative, document.digest) for document in documents if document.digest}
    inputs |= {*environment.texts.digests(), *(environment.keys.inputs if environment.keys else ())}
    options = sources.options
    is_other = options.settings.kubernetes_version != Settings().kubernetes_version
    return Compilation(
        groups=() if has_errors(problems) else tuple(groups),
        diagnostics=diagnostics,
        files=sources.files,
        inputs=tuple(sorted(inputs)),
        settings=options.settings,
        suppressed=suppressed,
        skipped=skipped,
        outputs=sources.inputs.outputs,
        declares_version=is_other or "kubernetes_version" in (options.known_choices or ()),
    )
