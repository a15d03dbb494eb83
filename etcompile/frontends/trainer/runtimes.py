"""Find the runtime that a TrainJob names.

A runtime is a document of the same input, of the setting `runtimes`, or one that Trainer ships.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.frontends.notes import not_compiled
from etcompile.k8s.path import mapping_at, mappings_of, text_at, value_at

RUNTIME_VERSION = "trainer.kubeflow.org/v1alpha1"
JOB_KIND = "TrainJob"
RUNTIME_KINDS = ("TrainingRuntime", "ClusterTrainingRuntime")
RUNTIME_SCHEMA = "TrainingRuntime.json"
JOB_SCHEMA = "TrainJob.json"
TRAINER_VERSION = "2.3.0"
"""The version of Trainer whose runtimes ship with etcompile."""
SHIPPED_FILE = f"Trainer v{TRAINER_VERSION}"
"""The name, in messages, of the file of Trainer's runtimes."""
NOT_COMPILED = {
    "torch-distributed-with-cache": "its cache asks Trainer's API, and starts a LeaderWorkerSet",
}
"""The other runtimes that Trainer v2.3.0 ships, and why they are not compiled."""

_JOB_SET = ("spec", "template", "spec")
_NAME = ("metadata", "name")
_S = TypeVar("_S", bound=Source)


def takes_runtime(document: Source) -> bool:
    data = document.data
    return (data.get("apiVersion"), data.get("kind")) == (RUNTIME_VERSION, JOB_KIND)


def is_runtime(document: Source) -> bool:
    data = document.data
    return data.get("apiVersion") == RUNTIME_VERSION and data.get("kind") in RUNTIME_KINDS


def named_runtimes(documents: Iterable[Source]) -> frozenset[str | None]:
    """Return the names of runtimes that TrainJobs refer to, and None for an invalid reference."""
    path = ("spec", "runtimeRef")
    names = (mapping_at(job.data, path).get("name") for job in documents if takes_runtime(job))
    return frozenset(name if isinstance(name, str) else None for name in names)


def template_paths(runtime: Source) -> list[ValuePath]:
    below = ("template", "spec", "template")
    return [
        (*_JOB_SET, "replicatedJobs", number, *below)
        for number, job in mappings_of(mapping_at(runtime.data, _JOB_SET), "replicatedJobs")
        if isinstance(value_at(job, below), dict)
    ]


def claim_paths(runtime: Source) -> list[ValuePath]:
    field = "volumeClaimPolicies"
    return [
        (*_JOB_SET, field, place, "templates", number)
        for place, policy in mappings_of(mapping_at(runtime.data, _JOB_SET), field)
        for number, _ in mappings_of(policy, "templates")
    ]


def runtime_of(
    job: Source, runtimes: Sequence[_S], shipped: Callable[[], Iterable[_S]]
) -> tuple[_S | None, list[Diagnostic]]:
    """Return the runtime that a job names, or problems if there is none."""
    if "runtime" in job.data:
        reason = "etcompile writes it when it keeps the job"
        place, advice = job.locate(("runtime",), key=True), "name the runtime in spec.runtimeRef"
        return None, [not_compiled(place, "runtime", reason, advice)]
    reference = mapping_at(job.data, ("spec", "runtimeRef"))
    if not isinstance(name := reference.get("name"), str):
        return None, []  # the schema reports it
    kind = reference.get("kind") or RUNTIME_KINDS[1]
    known = [*_in_reach(job, kind, runtimes), *(shipped() if kind == RUNTIME_KINDS[1] else ())]
    names = [text_at(runtime.data, _NAME) for runtime in known]
    if name in names:
        return known[names.index(name)], []
    if kind not in RUNTIME_KINDS:
        return None, []
    place = job.locate(("spec", "runtimeRef", "name"))
    if kind == RUNTIME_KINDS[1] and name in NOT_COMPILED:
        return None, [not_compiled(place, f"runtime {name}", NOT_COMPILED[name], "")]
    listed = sorted({name for name in names if name})
    advice = f"known are {', '.join(listed)}" if listed else "there is none in the input"
    [other] = {*RUNTIME_KINDS} - {kind}
    if any(text_at(each.data, _NAME) == name for each in _in_reach(job, other, runtimes)):
        advice = f"a {other} has this name: add 'kind: {other}' to spec.runtimeRef"
    title = text_at(job.data, _NAME) or text_at(job.data, ("metadata", "generateName")) or ""
    facts = {"job": title, "kind": kind, "name": name, "advice": advice}
    return None, [diagnose(codes.NO_SUCH_RUNTIME, place, **facts)]


def _in_reach(job: Source, kind: str, runtimes: Iterable[_S]) -> Iterator[_S]:
    """Yield the runtimes of a kind that a job may name: a TrainingRuntime only in its namespace."""
    for runtime in runtimes:
        namespaces = {text_at(each.data, ("metadata", "namespace")) for each in (runtime, job)}
        is_near = kind == RUNTIME_KINDS[1] or len(namespaces - {None}) < 2
        if runtime.data.get("kind") == kind and is_near:
            yield runtime
