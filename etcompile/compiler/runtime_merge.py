"""Merge TrainJobs with the runtimes that they name, and check both.

A runtime becomes a part of its jobs and is no object of the output.
"""

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from msgspec import structs

from etcompile import data
from etcompile.check import kubernetes
from etcompile.check.document_rules import Template, findings, schema_faults
from etcompile.check.faults import Fault
from etcompile.diagnostics import Diagnostic, Source
from etcompile.frontends.notes import unused
from etcompile.frontends.trainer.runtimes import (
    JOB_SCHEMA,
    RUNTIME_SCHEMA,
    SHIPPED_FILE,
    claim_paths,
    is_runtime,
    named_runtimes,
    runtime_of,
    takes_runtime,
    template_paths,
)
from etcompile.k8s.path import value_at
from etcompile.load import Document, parse
from etcompile.load.loader import as_written, relocated


def with_runtimes(
    documents: Sequence[Document],
    changed_by: Mapping[Document, Sequence[str]],
    kubernetes_version: str,
    library: Sequence[Document] = (),
    *,
    is_left: Callable[[Document], bool] = lambda _: False,
) -> tuple[tuple[Document, ...], dict[Document, tuple[str, ...]], list[Diagnostic]]:
    """Merge each TrainJob with its runtime.

    Args:
        changed_by: The overlays that changed a document, by their relative names.
        library: Runtimes of the setting `runtimes` that jobs name, after overlays. Those of the
            input take precedence.
        is_left: Report whether a job is left to another controller, which finds its runtime.

    Returns:
        All documents except runtimes; the relative names of the other files that each merged one
        depends on; and problems of runtimes, or of references to them.
    """
    if not any(takes_runtime(each) or is_runtime(each) for each in documents):
        return tuple(documents), {}, []
    of_input = [document for document in documents if is_runtime(document)]
    runtimes = [*of_input, *library]
    broken = {runtime for runtime in runtimes if [*_broken_parts(runtime, kubernetes_version)]}
    problems: list[Diagnostic] = []
    results: list[Document] = []
    # Pod templates of merged runtimes are checked in their jobs.
    merged: set[Document] = set()
    sources: dict[Document, tuple[str, ...]] = {}
    for document in documents:
        if is_runtime(document):
            continue
        if not takes_runtime(document) or is_left(document):
            results.append(document)
            continue
        result, runtime, notes = _with_runtime(document, runtimes, broken, kubernetes_version)
        results.append(result)
        problems += notes
        if runtime is not None:
            merged.add(runtime)
            file = (runtime.relative,) if runtime in runtimes else ()
            changes = (*changed_by.get(document, ()), *changed_by.get(runtime, ()))
            sources[result] = (*changes, *file)
    named = named_runtimes(document for document in documents if not is_left(document))
    named_by_any = named_runtimes(documents)
    for runtime in runtimes:
        is_unmerged = runtime not in merged and (runtime.name in named or not named_by_any)
        claims = claim_paths(runtime)
        names = (value_at(runtime.data, (*path, "metadata", "name")) for path in claims)
        volumes = tuple(name for name in names if isinstance(name, str))
        paths = template_paths(runtime) if is_unmerged else ()
        templates = [Template(path, partial=True) for path in paths]
        problems += findings(
            runtime, templates, RUNTIME_SCHEMA, kubernetes_version, volumes=volumes
        )
        for path in claims:
            problems += kubernetes.check_claim_template(runtime, path, kubernetes_version)
    for runtime in of_input if named_by_any else ():
        if runtime.name not in named_by_any:
            what = f"{runtime.kind} {runtime.name or ''}".strip()
            reason = "no TrainJob of the input names it"
            advice = "name it in spec.runtimeRef, or leave it out"
            problems.append(unused(runtime.locate(("kind",)), what, reason, advice))
    return tuple(results), sources, [*dict.fromkeys(problems)]


def _with_runtime(
    document: Document, runtimes: Sequence[Document], broken: Collection[Document], version: str
) -> tuple[Document, Document | None, list[Diagnostic]]:
    """Return a TrainJob merged with its runtime, that runtime (None if refused), and problems."""
    # Few inputs have a TrainJob.
    from etcompile.frontends.trainer import merge, runtime_patches, unsupported  # noqa: PLC0415

    job, problems = document, list[Diagnostic]()
    if (prepared := runtime_patches.from_overrides(document)) is not None:
        job = relocated(document, prepared.data, prepared.moved)
        problems.append(prepared.warning)
    runtime, refusals = runtime_of(job, runtimes, shipped)
    problems += refusals
    if (
        runtime is None
        or runtime in broken
        or "runtime" in job.data
        or schema_faults(job.data, JOB_SCHEMA)
        or schema_faults(runtime.data, RUNTIME_SCHEMA)
    ):
        # Other stages report what is invalid in the two.
        rest = {key: value for key, value in job.data.items() if key != "runtime"}
        return structs.replace(job, data=rest) if "runtime" in job.data else job, None, problems
    if refusals := runtime_patches.problems(job, runtime):
        return job, None, [*problems, *(as_written(job, each) for each in refusals)]
    patched = runtime_patches.patched(job, runtime)
    if patched is not runtime and (faults := [*_broken_parts(patched, version)]):
        in_patched = (kubernetes.diagnostic(patched, fault, version) for fault in faults)
        refusals = [as_written(patched, each) for each in in_patched]
    if refusals := refusals or unsupported.refusals(job, patched):
        return job, None, [*problems, *refusals]
    problems += (as_written(job, each) for each in runtime_patches.notes(job))
    problems += [*unsupported.notes(job, patched)]
    result = merge.merged(job, patched)
    return structs.replace(job, data=result.value, origin=result, path=()), runtime, problems


def _broken_parts(runtime: Source, version: str) -> Iterator[Fault]:
    """Yield faults of Pod templates that prevent merging: a wrong type, or no name."""
    for path in template_paths(runtime):
        for fault in kubernetes.template_faults(runtime.data, path, version):
            if fault.problem == "type" or fault.facts.get("field") == "name":
                yield fault


@functools.cache
def shipped() -> tuple[Document, ...]:
    file = data.folder("schemas") / "trainer/runtimes.yaml"
    return parse(file.read_text("utf-8"), file=SHIPPED_FILE).documents
