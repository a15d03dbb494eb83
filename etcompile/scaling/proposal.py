"""Makes the file of a new intent, and shows what it changes; refused as render would refuse it."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, structs

from etcompile import backend, emit, frontends
from etcompile.compiler.build import JobObjects, job_objects
from etcompile.compiler.choices import Options
from etcompile.compiler.fold import by_job, fold_job
from etcompile.compiler.load import Environment, environment_of, library_of, texts_of
from etcompile.compiler.lower import lower
from etcompile.compiler.patch import patch
from etcompile.diagnostics import Diagnostic, codes, diagnose, has_errors
from etcompile.emit.files import outside, write_file
from etcompile.k8s.path import dotted
from etcompile.load import Document, parse
from etcompile.model import Intent, Job
from etcompile.scaling.intents import (
    Change,
    Request,
    change,
    intent_document,
    intent_name,
    number_of,
)
from etcompile.scaling.placement import Place, place
from etcompile.scaling.selection import Chosen


class Proposal(Struct, frozen=True):
    """A file that would meet the request.

    Args:
        path: Where it goes; None if the job is as wished already.
        text: What it holds.
        title: The intent: `ScaleOut bert-scale-003-out`.
        before: How many workers there are.
        after: How many there would be.
        come: The Pods that come.
        go: The Pods that go.
        files: The files of the job and its intents, in order, without the new one.
        role: The role whose replicas they are.
        replaces: The file is there, and this is what it is to hold.
    """

    path: Path | None
    text: str
    title: str
    before: int
    after: int
    come: tuple[str, ...]
    go: tuple[str, ...]
    files: tuple[str, ...]
    role: str = ""
    replaces: bool = False


class _Current(Struct, frozen=True):
    """A job with its intents, compiled.

    Args:
        job: The job as its document describes it.
        folded: The job after its intents.
        group: Its objects.
        diagnostics: What is wrong.
    """

    job: Job
    folded: Job
    intents: list[Intent]
    group: JobObjects
    diagnostics: tuple[Diagnostic, ...]


def proposal(
    found: Chosen, request: Request, options: Options, *, said: str
) -> tuple[Proposal | None, list[Diagnostic]]:
    """The file that meets a request.

    Args:
        found: The job and its intents.
        request: How many workers there are to be.
        options: How to compile.
        said: How the wish was said, for the file's first line.

    Returns:
        The proposal, or None; and what is wrong with the job, with its intents or with the request.
    """
    environment = environment_of(options)
    if has_errors(environment.diagnostics):
        return None, [*environment.diagnostics]
    texts, notes = texts_of(options)
    if has_errors(notes):
        return None, [*notes]
    now, problems = _standing((*found.runtimes, *found.documents), options, environment, texts)
    if now is None:
        return None, problems
    if now.folded.scaled_role is None:
        return None, [_not_elastic(now.folded, found.job)]
    files = tuple(dict.fromkeys(document.file for document in found.documents))
    wanted = change(now.folded, request)
    count = _workers(now.folded)
    if wanted is None:
        return Proposal(None, "", "", count, count, (), (), files), []
    where = _place(found, now, wanted)
    value = intent_document(
        # As the job's file says it: the new one goes through the same options and overlays.
        structs.replace(now.job, namespace=found.job.namespace),
        wanted,
        intent_name(now.job, where.stem),
        where.sequence,
        versioned=found.versioned,
    )
    text = f"# Written by `{said}`.\n{emit.to_yaml(value)}"
    new = parse(text, file=str(where.path)).documents
    then, problems = _standing(
        (*found.runtimes, *found.documents, *new), options, environment, texts
    )
    if then is None:
        return None, problems
    standing, future = _pods(now.group), _pods(then.group)
    return (
        Proposal(
            path=where.path,
            text=text,
            title=f"{value['kind']} {value['metadata']['name']}",
            before=count,
            after=_workers(then.folded),
            come=tuple(pod for pod in future if pod not in standing),
            go=tuple(pod for pod in standing if pod not in future),
            files=files,
            role=now.folded.scaled_role.name,
        ),
        [diagnostic for diagnostic in then.diagnostics if diagnostic not in now.diagnostics],
    )


def written(made: Proposal, places: Sequence[str]) -> list[Diagnostic]:
    """Writes the file; what is wrong if it cannot be.

    Args:
        made: A proposal that has a file. What is there already is only overwritten by one that
            says so.
        places: Where the user told to look for the job: nothing is written elsewhere.
    """
    if made.path is None:
        return []
    content, only_new = made.text.encode(), not made.replaces
    return outside(made.path, places) or write_file(made.path, content, only_new=only_new)


def _standing(
    documents: Sequence[Document],
    options: Options,
    environment: Environment,
    texts: backend.Texts,
) -> tuple[_Current | None, list[Diagnostic]]:
    """The job of the documents with its intents, and what speaks against it."""
    options = structs.replace(options, settings=environment.settings)
    library = library_of(options)
    patched = patch(documents, options, environment, library.documents)
    told = [*patched.diagnostics, *library.diagnostics]
    lowered = lower(patched.documents, environment.settings.kubernetes_version)
    told += lowered.diagnostics
    pairs, unselected = by_job(lowered.jobs, lowered.intents)
    if not has_errors(told):
        told += unselected
    if has_errors(told):
        return None, told
    ((job, its_intents),) = pairs
    if job.scaled_role is None:
        # What is wrong with its intents is that it has any.
        return _Current(job, job, its_intents, JobObjects(None, None, emit.Packed(()), ()), ()), []
    folded = fold_job(job, its_intents, options.settings)
    group, _, problems = job_objects(folded, texts, environment, patched.sources)
    told += problems
    if has_errors(told):
        return None, told
    return _Current(job, folded.job, its_intents, group, tuple(told)), told


def _place(found: Chosen, now: _Current, wanted: Change) -> Place:
    files = [intent.origin.locate().file for intent in now.intents]
    namespace = now.job.namespace or "default"
    taken = {
        name.removeprefix(f"{now.job.name}-") for space, name in found.names if space == namespace
    }
    return place(found.job, now.intents, files, wanted.way, taken)


def _not_elastic(job: Job, document: Document) -> Diagnostic:
    kind = frontends.find(job.api_version, job.kind)
    told = "each of its replicas is told how many there are, and that cannot change in a Pod"
    reason = job.fixed or told
    if job.role("worker") is None and not job.fixed:
        reason = "it has no workers"
    counts = [*kind.counts_of(document.data)] if kind else []
    number = dotted(counts[0]) if len(counts) == 1 else "its replicas"
    anew = f"change {number}, and its annotation etcompile.dev/run: a new gang of Pods"
    field = kind.elastic if kind else ""
    advice = f"set {field} and start it anew; or {anew}" if field else anew
    facts = {"kind": job.kind, "job": job.name, "reason": reason, "advice": advice}
    return diagnose(codes.NOT_ELASTIC, document.locate(("metadata", "name")), **facts)


def _workers(job: Job) -> int:
    return number_of(job.scaled_role) if job.scaled_role else 0


def _pods(group: JobObjects) -> list[str]:
    """The names of the Pods of a job, in order."""
    return [value["metadata"]["name"] for value in group.objects if value["kind"] == "Pod"]
