"""A request for more or fewer workers to the file that says so: a new intent, or the job's own.

The new intent goes through the same stages as in render before it is written, and is refused for
the same reasons. With `--in-place` the job's own file is edited as `check --fix` edits: only the
number changes. A job that has intents keeps its number, because the intents count from there.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from etcompile import backend, emit, frontends
from etcompile.compiler.build import job_objects
from etcompile.compiler.choices import Options
from etcompile.compiler.fold import by_job, fold_job, ordered
from etcompile.compiler.load import Environment, environment_of, library_of, texts_of
from etcompile.compiler.lower import lower
from etcompile.compiler.patch import patch
from etcompile.diagnostics import Diagnostic, ValuePath, codes, diagnose, has_errors
from etcompile.diagnostics.diagnostic import Fix, Replace
from etcompile.emit.files import outside, write_file
from etcompile.fixes import with_fix
from etcompile.k8s.path import dotted, value_at
from etcompile.load import Document, access, parse
from etcompile.model import Intent, Job
from etcompile.naming import natural
from etcompile.scaling.job_documents import Chosen

_SEQUENCE = "etcompile.dev/sequence"
_OWN = "etcompile.dev/v1alpha1"
_LABEL_LIMIT = 63
"""Characters of a label's value: the Pods of a ScaleOut have its name in one."""
_NUMBERED = re.compile(r"scale-(?P<number>\d{1,9})-(?:out|in)\.ya?ml", re.ASCII)
_WIDTH = 3
_MARK = "\ufeff"


class Request(Struct, frozen=True):
    """How many workers there are to be, said in one of four ways.

    Args:
        to: So many in all.
        add: So many more.
        remove: So many fewer, those with the highest indexes.
        pods: Without these.
    """

    to: int | None = None
    add: int | None = None
    remove: int | None = None
    pods: tuple[str, ...] = ()


class Proposal(Struct, frozen=True):
    """A file that would meet the request.

    Args:
        path: Where it goes; None if the job has as many workers already.
        title: The intent, `ScaleOut bert-scale-003-out`, or the number: `spec.replicas: 1 -> 2`.
        come: The Pods that would be created.
        go: The Pods that would be deleted.
        replaces: The file exists, and this is its new content.
    """

    path: Path | None
    text: str
    title: str
    before: int
    after: int
    come: tuple[str, ...]
    go: tuple[str, ...]
    role: str = ""
    replaces: bool = False


class _Current(Struct, frozen=True):
    """A job with its intents, compiled: `job` is it before them, `folded` after them."""

    job: Job
    folded: Job
    intents: list[Intent]
    pods: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def proposal(
    chosen: Chosen, request: Request, options: Options, *, said: str
) -> tuple[Proposal | None, list[Diagnostic]]:
    """The file of a new intent that meets a request.

    Args:
        request: How many workers there are to be.
        said: The command line, for the file's first line.

    Returns:
        The proposal, or None; and what is wrong with the job, with its intents or with the request.
    """
    environment = environment_of(options)
    if has_errors(environment.diagnostics):
        return None, [*environment.diagnostics]
    texts, notes = texts_of(options)
    if has_errors(notes):
        return None, [*notes]
    documents = (*chosen.runtimes, *chosen.documents)
    now, problems = _compiled(documents, options, environment, texts)
    if now is None:
        return None, problems
    if now.folded.scaled_role is None:
        return None, [_not_elastic(now.folded, chosen.job)]
    before = _workers(now.folded)
    more = (request.add or 0) - (request.remove or 0)
    if request.to is not None:
        more = request.to - before
    spec: dict[str, Any] = {"toAdd": {"count": more}}
    if request.pods:
        # A worker that is named twice is deleted once.
        spec = {"toDelete": {"podNames": [*dict.fromkeys(request.pods)]}}
    elif more < 0:
        spec = {"toDelete": {"count": -more}}
    elif more == 0:
        return Proposal(None, "", "", before, before, (), ()), []
    path, value = _intent(chosen, now, spec)
    text = f"# Written by `{said}`.\n{emit.to_yaml(value)}"
    new = parse(text, file=str(path)).documents
    then, problems = _compiled((*documents, *new), options, environment, texts)
    if then is None:
        return None, problems
    return (
        Proposal(
            path=path,
            text=text,
            title=f"{value['kind']} {value['metadata']['name']}",
            before=before,
            after=_workers(then.folded),
            come=tuple(pod for pod in then.pods if pod not in now.pods),
            go=tuple(pod for pod in now.pods if pod not in then.pods),
            role=now.folded.scaled_role.name,
        ),
        [diagnostic for diagnostic in then.diagnostics if diagnostic not in now.diagnostics],
    )


def _workers(job: Job) -> int:
    """How many workers people say there are: those of the role, and those counted with them."""
    role = job.scaled_role
    return len(role.members) + (role.bounds.others if role.bounds else 0) if role else 0


def _intent(chosen: Chosen, now: _Current, spec: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """The ScaleOut or ScaleIn that changes a job, and its file, so that it counts last.

    If all others have a sequence number, or were created in a cluster, the new one gets the next
    number. An intent without a number counts after every one that has one, in the order of the
    files. After such an intent, the new one needs a file whose name sorts later, and no number
    (docs/scaling.md).
    """
    job, way = now.job, "out" if "toAdd" in spec else "in"
    in_order, _ = ordered(now.intents)
    last = in_order[-1].origin.locate().file if in_order else chosen.job.file
    folder = Path(last).parent
    files = {path.name for path in folder.iterdir()}
    numbers = [match["number"] for name in files if (match := _NUMBERED.fullmatch(name))]
    width = max(map(len, numbers), default=_WIDTH)
    sequences = [intent.sequence for intent in now.intents if intent.sequence is not None]
    number = max([0, *sequences, *map(int, numbers)]) + 1
    used = {name for where, name in chosen.names if where == (job.namespace or "default")}
    used |= {name.partition(".")[0] for name in files}
    while any(name.endswith(f"scale-{number:0{width}}-{way}") for name in used):
        number += 1
    stem = f"scale-{number:0{width}}-{way}"
    name = f"{job.name}-{stem}"
    metadata: dict[str, Any] = {"name": name if len(name) <= _LABEL_LIMIT else stem}
    # As the job's file says it: the new one goes through the same options and overlays.
    if chosen.job.namespace is not None:
        metadata["namespace"] = chosen.job.namespace
    file = f"{stem}.yaml"
    if all(intent.sequence is not None or intent.created is not None for intent in in_order):
        metadata["annotations"] = {_SEQUENCE: str(number)}
    elif natural(file) <= natural(Path(last).name):
        # '_' comes after the dot of the other's suffix.
        file = f"{Path(last).stem}_{file}"
    # et-operator's own kind for its TrainingJob, etcompile's for any other.
    is_own = job.kind != "TrainingJob"
    selector = {"kind": job.kind, "name": job.name} if is_own else {"name": job.name}
    return folder / file, {
        "apiVersion": _OWN if is_own else job.api_version,
        "kind": "ScaleOut" if way == "out" else "ScaleIn",
        "metadata": metadata,
        "spec": {"selector": selector, **spec},
    }


def in_place(chosen: Chosen, intent: Proposal) -> tuple[Proposal | None, list[Diagnostic]]:
    """The same number of workers, written into the job's file.

    Args:
        intent: The intent that would meet the request, which is refused where this one would be.

    Returns:
        The proposal, or None; and why it cannot be.
    """
    if intent.path is None:
        return intent, []
    job = chosen.job

    def refused(reason: str, advice: str = "") -> tuple[None, list[Diagnostic]]:
        facts = {"job": job.name or "", "reason": reason, "advice": advice}
        place = job.locate(("metadata", "name"))
        return None, [diagnose(codes.NUMBER_NOT_WRITTEN, place, **facts)]

    if len(chosen.documents) > 1:
        return refused(
            "it has scale intents, which count from the number in its file",
            "leave out --in-place, or fold the intents into it",
        )
    kind = frontends.find(job.api_version, job.kind)
    paths = [*kind.counts_of(job.data)] if kind else []
    own = [path for path in paths if str(path[-2]).lower() == intent.role.lower()]
    path: ValuePath | None = next(iter(own or (paths if len(paths) == 1 else ())), None)
    if path is None:
        return refused(f"nothing in it says how many {intent.role} there are")
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
    file, after = Path(job.file), _MARK * text.startswith(_MARK) + after
    return structs.replace(intent, path=file, text=after, title=title, replaces=True), []


def written(proposal: Proposal, places: Sequence[str]) -> list[Diagnostic]:
    """Writes the file; what is wrong if it cannot be.

    Args:
        proposal: The file. An existing one is overwritten only if the proposal says so.
        places: The PATHs of the command: nothing is written elsewhere.
    """
    if proposal.path is None:
        return []
    content, only_new = proposal.text.encode(), not proposal.replaces
    return outside(proposal.path, places) or write_file(proposal.path, content, only_new=only_new)


def _compiled(
    documents: Sequence[Document],
    options: Options,
    environment: Environment,
    texts: backend.Texts,
) -> tuple[_Current | None, list[Diagnostic]]:
    """The job of the documents with its intents; None if it is refused, and what is wrong."""
    options = structs.replace(options, settings=environment.settings)
    library = library_of(options)
    patched = patch(documents, options, environment, library.documents)
    lowered = lower(patched.documents, environment.settings.kubernetes_version)
    problems = [*patched.diagnostics, *library.diagnostics, *lowered.diagnostics]
    pairs, unselected = by_job(lowered.jobs, lowered.intents)
    if not has_errors(problems):
        problems += unselected
    if has_errors(problems):
        return None, problems
    ((job, intents),) = pairs
    if job.scaled_role is None:
        # What is wrong with its intents is that it has any.
        return _Current(job, job, intents), []
    folded = fold_job(job, intents, options.settings)
    group, _, more = job_objects(folded, texts, environment, patched.sources)
    problems += more
    if has_errors(problems):
        return None, problems
    pods = tuple(value["metadata"]["name"] for value in group.objects if value["kind"] == "Pod")
    return _Current(job, folded.job, intents, pods, tuple(problems)), problems


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
