"""Write a request for more or fewer workers as a new intent, or into the job's own file.

Mistakes in other jobs are not reported, and a folder may hold YAML that is no manifest. A file that
cannot be read is reported if it names the job, because it may hold one of its intents.

The new intent goes through the same stages as in render before it is written, and is refused for
the same reasons. In place, the job's own file is edited as `check --fix` edits: only the number
changes. A job that has intents keeps its number, because the intents count from there.
"""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, structs

from etcompile import emit, frontends
from etcompile.compiler.build import job_objects
from etcompile.compiler.choices import Options
from etcompile.compiler.fold import by_job, fold_job, ordered
from etcompile.compiler.load import load, loaded
from etcompile.compiler.lower import kind_of, lower
from etcompile.compiler.olderapis import in_current_version
from etcompile.compiler.patch import patch
from etcompile.diagnostics import Diagnostic, ValuePath, codes, diagnose, has_errors
from etcompile.diagnostics.diagnostic import Fix, Replace
from etcompile.diagnostics.spelling import probably
from etcompile.fixes import with_fix
from etcompile.frontends.et_operator.scaleout_scalein import intent_document
from etcompile.frontends.trainer.runtimes import is_runtime, named_runtimes
from etcompile.k8s.path import dotted, value_at
from etcompile.k8s.pods import KUBECTL_NAMES
from etcompile.load import Document, access, parse
from etcompile.model import Intent, Job
from etcompile.naming import natural

_LISTED = 8
_SEQUENCE = "etcompile.dev/sequence"
_LABEL_LIMIT = 63
"""Characters of a label's value: the Pods of a ScaleOut have its name in one."""
_NUMBERED = re.compile(r"scale-(?P<number>\d{1,9})-(?:out|in)\.ya?ml", re.ASCII)
_WIDTH = 3
_MARK = "\ufeff"


Way = Literal["to", "add", "remove", "pods"]
"""So many workers in all, so many more, so many fewer (the highest indexes), or without these."""


class Proposal(Struct, frozen=True):
    """A file that meets the request.

    Args:
        job: Its name.
        path: Where it goes; None if the job has as many workers already.
        title: The intent, `ScaleOut bert-scale-003-out`, or the number: `spec.replicas: 1 -> 2`.
        come: The Pods that would be created.
        go: The Pods that would be deleted.
        replaces: The file exists, and this is its new content.
    """

    job: str
    path: Path | None
    text: str
    title: str
    before: int
    after: int
    come: tuple[str, ...]
    go: tuple[str, ...]
    replaces: bool = False


class _Current(Struct, frozen=True):
    """A job with its intents, compiled: `job` is it before them, `folded` after them."""

    job: Job
    folded: Job
    intents: list[Intent]
    pods: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def workers(self) -> int:
        role = self.folded.scaled_role
        return len(role.members) + (role.bounds.others if role.bounds else 0) if role else 0


def scaled(
    name: str,
    paths: Sequence[str],
    way: Way,
    value: int | str,
    options: Options,
    *,
    kind: str | None = None,
    in_place: bool | None = None,
) -> tuple[Proposal | None, list[Diagnostic]]:
    """Propose the file that meets a request.

    Args:
        name: The job: its name, `KIND/NAME` or a Pod of it.
        paths: Where it is, with all its intents.
        value: A number of workers, or their names with commas between them.
        options: How to compile; its namespace narrows the choice.
        kind: The job's kind, as kubectl takes it: `MPIJob`, `mpijobs.v2beta1`.
        in_place: Whether the job's own file is changed; if None, where the number alone counts.

    Returns:
        The proposal, or None; and what is wrong with the job, with its intents or with the request.
    """
    of_kind, _, name = name.rpartition("/")
    files = loaded(paths, options, None)
    if problems := [problem for problem in files.diagnostics if _matters(problem, name)]:
        return None, problems
    jobs: list[Document] = []
    intents: list[Document] = []
    inputs = [in_current_version(document)[0] for document in files.documents]
    for document in inputs:
        if known := kind_of(document):
            (jobs if known.pod_templates else intents).append(document)
    job = _named(name, jobs, options, of_kind or kind or "")
    if isinstance(job, Diagnostic):
        return None, [job]
    pod, name = name, job.name or ""
    here, word = options.namespace or "default", json.dumps(name)
    # An unreadable intent counts if it names the job, so that its errors are reported.
    selecting = {
        id(intent)
        for intent in intents
        if (intent.namespace or here) == (job.namespace or here) and word in json.dumps(intent.data)
    }
    runtimes = named_runtimes([job])
    documents = [
        document
        for document in inputs
        if document is job
        or id(document) in selecting
        or (is_runtime(document) and document.name in runtimes)
    ]
    now, problems = _compiled(documents, options)
    if now is None:
        return None, problems
    if pod not in (name, *now.pods):
        facts = {"job": pod, "where": "the input", "advice": f"did you mean '{name}'?"}
        return None, [diagnose(codes.NO_JOB_TO_SCALE, None, **facts)]
    if now.folded.scaled_role is None:
        return None, [_not_elastic(now.folded, job)]
    before = now.workers
    if isinstance(value, str):
        # A worker that is named twice is deleted once.
        pods = dict.fromkeys(pod.strip() for pod in value.split(",") if pod.strip())
        spec: dict[str, Any] = {"toDelete": {"podNames": [*pods]}}
    else:
        more = {"to": value - before, "add": value, "remove": -value}[way]
        if more == 0:
            return Proposal(name, None, "", "", before, before, (), ()), []
        spec = {"toAdd": {"count": more}} if more > 0 else {"toDelete": {"count": -more}}
    names = {
        i.name or ""
        for i in intents
        if (i.namespace or "default") == (now.job.namespace or "default")
    }
    path, intent = _intent(job, now, spec, names)
    said = f"etcompile scale {shlex.quote(name)} --{way} {shlex.quote(str(value))}"
    text = f"# Written by `{said}`.\n{emit.to_yaml(intent)}"
    new = parse(text, file=str(path)).documents
    then, problems = _compiled([*documents, *new], options)
    if then is None:
        return None, problems
    problems = [problem for problem in then.diagnostics if problem not in now.diagnostics]
    proposal = Proposal(
        job=name,
        path=path,
        text=text,
        title=f"{intent['kind']} {intent['metadata']['name']}",
        before=before,
        after=then.workers,
        come=tuple(pod for pod in then.pods if pod not in now.pods),
        go=tuple(pod for pod in now.pods if pod not in then.pods),
    )
    if in_place is None:
        # Not of a kind whose operator scales by documents of their own.
        of_job = frontends.find(job.api_version, job.kind)
        scalers = of_job.operator.scalers if of_job and of_job.operator else ()
        others = way == "pods" or scalers or now.intents
        edited = None if others else _edited(job, now, proposal, documents, options)
        return (edited if isinstance(edited, Proposal) else proposal), problems
    if not in_place:
        return proposal, problems
    edited = _edited(job, now, proposal, documents, options)
    if isinstance(edited, Diagnostic):
        return None, [*problems, edited]
    return edited, problems


def _matters(problem: Diagnostic, name: str) -> bool:
    if problem.location is None or not has_errors([problem]):
        return has_errors([problem])
    try:
        return name.encode() in access.content(problem.location.file)
    except OSError:
        return True


def _named(
    name: str, jobs: Sequence[Document], options: Options, kind: str
) -> Document | Diagnostic:
    """Find the job of a name, or of a Pod that seems to have it, or explain why there is none."""
    kinds = [(known.api_version, known.name) for known in frontends.jobs_called(kind)]
    is_pod = kind.lower() in KUBECTL_NAMES
    any_kind = is_pod or not kind
    same = [] if is_pod else [job for job in jobs if job.name == name]
    if not same and any_kind:
        owners = [job for job in jobs if name.startswith(f"{job.name}-")]
        longest = max((f"{job.name}" for job in owners), key=len, default="")
        same = [job for job in owners if job.name == longest]
    named = [job for job in same if options.namespace in (None, job.namespace or options.namespace)]
    chosen = [job for job in named if any_kind or (job.api_version, job.kind) in kinds]
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        namespaces = {job.namespace or "default" for job in chosen}
        advice = "choose one with --kind, or name its file"
        if len(namespaces) > 1:
            advice = f"choose one with -n: {', '.join(sorted(namespaces))}"
        titles = ", ".join(f"{job.label} ({job.file})" for job in chosen)
        facts = {"job": name, "count": len(chosen), "jobs": titles, "advice": advice}
        return diagnose(codes.WHICH_JOB, chosen[0].locate(("metadata", "name")), **facts)
    where = "the input"
    if options.namespace is not None:
        where = f"namespace '{options.namespace}' of the input"
    others = {job.name for job in jobs if job.name}
    if named:
        advice = f"it is a {named[0].kind}, not a {kind}"
    elif same:
        advice = f"it is in namespace '{same[0].namespace}': -n {same[0].namespace}"
    elif close := probably(name, others):
        advice = f"did you mean '{close}'?"
    elif others:
        advice = f"jobs there: {', '.join(sorted(others)[:_LISTED])}"
    else:
        advice = "there are no jobs: name the folder that holds them"
    title = f"{kind}/{name}" if is_pod else name
    return diagnose(codes.NO_JOB_TO_SCALE, None, job=title, where=where, advice=advice)


def _compiled(
    documents: Sequence[Document], options: Options
) -> tuple[_Current | None, list[Diagnostic]]:
    """Compile the job with its intents; None if it is refused, and what is wrong."""
    sources = load(documents, options, None)
    if has_errors(sources.environment.diagnostics):
        return None, [*sources.inputs.diagnostics]
    patched = patch(sources)
    lowered = lower(patched.documents, sources.options.settings.kubernetes_version)
    problems = [*sources.inputs.diagnostics, *patched.diagnostics, *lowered.diagnostics]
    if has_errors(problems):
        return None, problems
    # Other intents that name it select a job of another kind.
    ((job, intents),), _ = by_job(lowered.jobs, lowered.intents)
    if job.scaled_role is None:
        # Its intents are wrong because it has any.
        return _Current(job, job, intents), []
    folded = fold_job(job, intents, sources.options.settings)
    environment = structs.replace(sources.environment, keys=None)
    group, _, more = job_objects(folded, environment, patched.sources)
    problems += more
    if has_errors(problems):
        return None, problems
    pods = tuple(value["metadata"]["name"] for value in group.objects if value["kind"] == "Pod")
    return _Current(job, folded.job, intents, pods, tuple(problems)), problems


def _intent(
    document: Document, now: _Current, spec: dict[str, Any], names: set[str]
) -> tuple[Path, dict[str, Any]]:
    """Return the ScaleOut or ScaleIn that changes a job, and its file, so that it counts last.

    If all others have a sequence number, or were created in a cluster, the new one gets the next
    number. An intent without a number counts after every one that has one, in the order of the
    files. After such an intent, the new one needs a file whose name sorts later, and no number
    (docs/scaling.md).
    """
    job, way = now.job, "out" if "toAdd" in spec else "in"
    in_order, _ = ordered(now.intents)
    last = in_order[-1].origin.locate().file if in_order else document.file
    folder = Path(last).parent
    files = {path.name for path in folder.iterdir()}
    numbers = [match["number"] for name in files if (match := _NUMBERED.fullmatch(name))]
    width = max(map(len, numbers), default=_WIDTH)
    sequences = [intent.sequence for intent in now.intents if intent.sequence is not None]
    number = max([0, *sequences, *map(int, numbers)]) + 1
    used = names | {name.partition(".")[0] for name in files}
    while any(name.endswith(f"scale-{number:0{width}}-{way}") for name in used):
        number += 1
    stem = f"scale-{number:0{width}}-{way}"
    name = f"{job.name}-{stem}"
    metadata: dict[str, Any] = {"name": name if len(name) <= _LABEL_LIMIT else stem}
    # As the job's file says it: the new one goes through the same options and overlays.
    if document.namespace is not None:
        metadata["namespace"] = document.namespace
    file = f"{stem}.yaml"
    if all(intent.sequence is not None or intent.created is not None for intent in in_order):
        metadata["annotations"] = {_SEQUENCE: str(number)}
    elif natural(file) <= natural(Path(last).name):
        # '_' comes after the dot of the other's suffix.
        file = f"{Path(last).stem}_{file}"
    return folder / file, intent_document(job.api_version, job.kind, job.name, metadata, spec)


def _edited(
    job: Document, now: _Current, intent: Proposal, documents: list[Document], options: Options
) -> Proposal | Diagnostic:
    def refused(reason: str, advice: str = "") -> Diagnostic:
        facts = {"job": job.name or "", "reason": reason, "advice": advice}
        return diagnose(codes.NUMBER_NOT_WRITTEN, job.locate(("metadata", "name")), **facts)

    if now.intents:
        return refused(
            "it has scale intents, which count from the number in its file",
            "leave out --in-place, or fold the intents into it",
        )
    role = now.folded.scaled_role.name if now.folded.scaled_role else ""
    kind = frontends.find(job.api_version, job.kind)
    paths = [*kind.counts_of(job.data)] if kind else []
    of_role = [path for path in paths if str(path[-2]).lower() == role.lower()]
    path: ValuePath | None = next(iter(of_role or (paths if len(paths) == 1 else ())), None)
    if path is None:
        return refused(f"nothing in it says how many {role} there are")
    where = dotted(path)
    advice = f"write {where}: {intent.after} there"
    if value_at(job.data, path) is None:
        return refused(f"it does not have {where}", advice)
    title = f"{where}: {intent.before} -> {intent.after}"
    fix = Fix(title, (Replace(job.locate(path), intent.after),), is_safe=True)
    try:
        text = access.content(job.file).decode()
        after = with_fix(text.removeprefix(_MARK), fix)
    except (OSError, UnicodeDecodeError):
        after = None
    if after is None:
        return refused("its file cannot be edited at that place", advice)
    if options.overlays:
        job_key = (job.kind, job.namespace, job.name)
        edited = [in_current_version(new)[0] for new in parse(after, file=job.file).documents]
        edited = [new for new in edited if (new.kind, new.namespace, new.name) == job_key]
        others = [document for document in documents if document is not job]
        then, _ = _compiled([*edited, *others], options)
        if then is None or then.workers != intent.after:
            return refused("an overlay sets the number", "leave out --in-place, or change it there")
    file, after = Path(job.file), _MARK * text.startswith(_MARK) + after
    return structs.replace(intent, path=file, text=after, title=title, replaces=True)


def _not_elastic(job: Job, document: Document) -> Diagnostic:
    kind = frontends.find(job.api_version, job.kind)
    fixed = "each replica knows a fixed number of replicas"
    reason = job.fixed or fixed
    if job.role("worker") is None and not job.fixed:
        reason = "it has no workers"
    counts = [*kind.counts_of(document.data)] if kind else []
    number = dotted(counts[0]) if len(counts) == 1 else "its replicas"
    new_run = f"change {number}, and its annotation etcompile.dev/run, for new Pods"
    field = kind.elastic if kind else ""
    advice = f"set {field} and start it anew; or {new_run}" if field else new_run
    facts = {"kind": job.kind, "job": job.name, "reason": reason, "advice": advice}
    return diagnose(codes.NOT_ELASTIC, document.locate(("metadata", "name")), **facts)
