"""Find the runtimes of running TrainJobs, as Trainer recorded them when each job began.

Trainer copies the runtime into a ConfigMap at the first reconcile and reads only that from then on
(reference/trainer-v2.md 4, step 1). So the run uses the copy, even if the runtime has changed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from etcompile.compiler.runtime_merge import with_runtimes
from etcompile.diagnostics import Diagnostic
from etcompile.frontends.trainer.runtimes import TRAINER_VERSION, is_runtime, takes_runtime
from etcompile.integrations.migrate.cleanup import plain_metadata, plain_template
from etcompile.k8s.path import mapping_at, value_at
from etcompile.load import Document, parse

_SNAPSHOT = "{}-runtime-snapshot"
_DEFAULTS = {"replicas": 1, "groupName": "default"}
"""The CRD's defaults of a replicatedJob."""
_EMPTY = ("metadata", "resources", "securityContext", "status")
"""Fields that the server sets to an empty mapping."""


class Merged(Struct, frozen=True):
    """Jobs as they are compiled, each TrainJob with its runtime.

    Args:
        runtimes: The runtime of each job that is to be written; None for none.
        notes: A note on each runtime; empty for none.
    """

    whole: tuple[Document, ...]
    runtimes: tuple[Document | None, ...]
    notes: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


def merged(specs: Sequence[Document], others: Sequence[Document], version: str) -> Merged:
    """Merge jobs with the runtimes of their runs.

    Args:
        specs: The documents of jobs, of any kinds, without what a cluster adds.
        others: The rest of the input: ConfigMaps in which Trainer recorded a runtime, and
            runtimes themselves, which count if there is no record.
    """
    diagnostics: list[Diagnostic] = []
    of_input = [_cleaned(document) for document in others if is_runtime(document)]
    known: list[Document] = []
    runtimes: list[Document | None] = []
    notes: list[str] = []
    for job in specs:
        runtime, note = None, ""
        if takes_runtime(job):
            runtime, problems = _noted(job, others)
            diagnostics += problems
            if runtime is None:
                name = mapping_at(job.data, ("spec", "runtimeRef")).get("name")
                runtime = next((there for there in of_input if there.name == name), None)
                shipped = f"as Trainer {TRAINER_VERSION} ships it"
                note = (
                    f"ConfigMap {_SNAPSHOT.format(job.name)}, in which Trainer noted what the job"
                    " runs with, was not in the input: its runtime is"
                    f" {'the one of the input' if runtime else shipped}"
                )
        if runtime is not None:
            # Jobs share a runtime file if their runtimes are equal.
            runtime = next((there for there in known if there.data == runtime.data), runtime)
            known += [] if any(runtime is there for there in known) else [runtime]
        runtimes.append(runtime)
        notes.append(note)
    whole, _, more = with_runtimes([*specs, *known], {}, version)
    diagnostics += more
    return Merged(whole[: len(specs)], tuple(runtimes), tuple(notes), tuple(diagnostics))


def _noted(
    job: Document, others: Iterable[Document]
) -> tuple[Document | None, tuple[Diagnostic, ...]]:
    for document in others:
        here = (document.namespace or "default") == (job.namespace or "default")
        if document.kind != "ConfigMap" or document.name != _SNAPSHOT.format(job.name) or not here:
            continue
        text = mapping_at(document.data, ("data",)).get("runtime")
        if isinstance(text, str):
            loaded = parse(text, file=f"{document.file}, ConfigMap {document.name}")
            runtimes = (_cleaned(each) for each in loaded.documents if is_runtime(each))
            return next(runtimes, None), loaded.diagnostics
    return None, ()


def _cleaned(runtime: Document) -> Document:
    data = {key: value for key, value in runtime.data.items() if key != "status"}
    data["metadata"] = plain_metadata(mapping_at(runtime.data, ("metadata",)))
    data["spec"] = _without_defaults(data.get("spec"))
    return structs.replace(runtime, data=data)


def _without_defaults(value: Any, around: str = "") -> Any:
    if isinstance(value, list):
        return [_without_defaults(item, around) for item in value]
    if not isinstance(value, Mapping):
        return value
    plain = {}
    for key, below in value.items():
        if key in _EMPTY and below == {}:
            continue
        if around == "replicatedJobs" and _DEFAULTS.get(key) == below:
            continue
        is_pod = key == "template" and value_at(below, ("spec", "containers")) is not None
        plain[key] = plain_template(below) if is_pod else _without_defaults(below, key)
    return plain
