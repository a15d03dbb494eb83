"""Merge TrainJobs with the runtimes that they name.

A runtime is a document of the same input, of `--runtimes`, or one that Trainer ships. It becomes a
part of its jobs and is no object of the output.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from etcompile import data
from etcompile.check import kubernetes
from etcompile.check.document_rules import Template, findings, schema_faults
from etcompile.check.faults import Fault
from etcompile.compiler.olderapis import with_runtime_patches
from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.frontends.notes import not_compiled, unused
from etcompile.k8s.path import mapping_at, mappings_of, value_at
from etcompile.load import Document, parse
from etcompile.load.loader import as_written

RUNTIME_VERSION = "trainer.kubeflow.org/v1alpha1"
_JOB = "TrainJob"
RUNTIME_KINDS = ("TrainingRuntime", "ClusterTrainingRuntime")
RUNTIME_SCHEMA = "TrainingRuntime.json"
TRAINER_VERSION = "2.3.0"
"""The version of Trainer whose runtimes ship with etcompile."""
_SHIPPED = "trainer/runtimes.yaml"
SHIPPED_FILE = f"Trainer v{TRAINER_VERSION}"
"""The name, in messages, of the file of Trainer's runtimes."""
NOT_COMPILED = {
    "torch-distributed-with-cache": "its cache asks Trainer's API, and starts a LeaderWorkerSet",
}
"""The other runtimes that Trainer v2.3.0 ships, and why they are not compiled."""


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
        library: Runtimes of `--runtimes` that jobs name, after overlays. Those of the input take
            precedence.
        is_left: Report whether a job is left to another controller, which finds its runtime.

    Returns:
        All documents except runtimes; the relative names of the other files that each merged one
        depends on; and problems of runtimes, or of references to them.
    """
    if not any(document.api_version == RUNTIME_VERSION for document in documents):
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
        if not _is_train_job(document) or is_left(document):
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
        above, field = ("spec", "template", "spec"), "volumeClaimPolicies"
        claims = [
            ((*above, field, place, "templates", number), value_at(template, ("metadata", "name")))
            for place, policy in mappings_of(mapping_at(runtime.data, above), field)
            for number, template in mappings_of(policy, "templates")
        ]
        volumes = tuple(name for _, name in claims if isinstance(name, str))
        templates = _templates(runtime) if is_unmerged else ()
        problems += findings(
            runtime, templates, RUNTIME_SCHEMA, kubernetes_version, volumes=volumes
        )
        for path, _ in claims:
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

    job, problems = with_runtime_patches(document)
    runtime, refusals = _runtime_of(job, runtimes)
    problems += refusals
    if (
        runtime is None
        or runtime in broken
        or "runtime" in job.data
        or schema_faults(job.data, "TrainJob.json")
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
    for template in _templates(runtime):
        for fault in kubernetes.template_faults(runtime.data, template.path, version):
            if fault.problem == "type" or fault.facts.get("field") == "name":
                yield fault


def _templates(runtime: Source) -> list[Template]:
    above, jobs = ("spec", "template", "spec"), "replicatedJobs"
    below = ("template", "spec", "template")
    return [
        Template((*above, jobs, number, *below), partial=True)
        for number, job in mappings_of(mapping_at(runtime.data, above), jobs)
        if isinstance(value_at(job, below), dict)
    ]


def _reference(job: Document) -> Mapping[str, Any]:
    return mapping_at(job.data, ("spec", "runtimeRef"))


def named_runtimes(documents: Iterable[Document]) -> frozenset[str | None]:
    """Return the names of runtimes that TrainJobs refer to, and None for an invalid reference."""
    names = (_reference(job).get("name") for job in documents if _is_train_job(job))
    return frozenset(name if isinstance(name, str) else None for name in names)


def _is_train_job(document: Document) -> bool:
    return document.api_version == RUNTIME_VERSION and document.kind == _JOB


def is_runtime(document: Document) -> bool:
    return document.api_version == RUNTIME_VERSION and document.kind in RUNTIME_KINDS


def _runtime_of(
    job: Document, runtimes: Sequence[Document]
) -> tuple[Document | None, list[Diagnostic]]:
    if "runtime" in job.data:
        reason = "etcompile writes it when it keeps the job"
        place, advice = job.locate(("runtime",), key=True), "name the runtime in spec.runtimeRef"
        return None, [not_compiled(place, "runtime", reason, advice)]
    reference = _reference(job)
    if not isinstance(name := reference.get("name"), str):
        return None, []  # the schema reports it
    kind = reference.get("kind") or "ClusterTrainingRuntime"
    known = [*_in_reach(job, kind, runtimes), *(shipped() if kind == RUNTIME_KINDS[1] else ())]
    for runtime in known:
        if runtime.name == name:
            return runtime, []
    if kind not in RUNTIME_KINDS:
        return None, []
    place = job.locate(("spec", "runtimeRef", "name"))
    if kind == RUNTIME_KINDS[1] and name in NOT_COMPILED:
        return None, [not_compiled(place, f"runtime {name}", NOT_COMPILED[name], "")]
    names = sorted({runtime.name or "" for runtime in known})
    advice = f"known are {', '.join(names)}" if names else "there is none in the input"
    [other] = {*RUNTIME_KINDS} - {kind}
    if any(runtime.name == name for runtime in _in_reach(job, other, runtimes)):
        advice = f"a {other} has this name: add 'kind: {other}' to spec.runtimeRef"
    facts = {"job": job.name or "", "kind": kind, "name": name, "advice": advice}
    return None, [diagnose(codes.NO_SUCH_RUNTIME, place, **facts)]


def _in_reach(job: Document, kind: str, runtimes: Iterable[Document]) -> Iterator[Document]:
    """Yield the runtimes of a kind that a job may name: a TrainingRuntime only in its namespace."""
    for runtime in runtimes:
        namespaces = {runtime.namespace, job.namespace} - {None}
        if runtime.kind == kind and (kind == RUNTIME_KINDS[1] or len(namespaces) < 2):
            yield runtime


@functools.cache
def shipped() -> tuple[Document, ...]:
    file = data.folder("schemas") / _SHIPPED
    return parse(file.read_text("utf-8"), file=SHIPPED_FILE).documents
