"""The jobs of `examples/`, to be changed in their Pod templates: for rules of every kind."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

import specs
from etcompile import Compilation, Options, frontends
from etcompile.compiler import load
from etcompile.compiler.runtime_merge import with_runtimes

EXAMPLES = Path(__file__).parents[2] / "examples"


def _documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(EXAMPLES.glob("*/*/*.yaml")):
        documents = [document for document in yaml.safe_load_all(path.read_text()) if document]
        if any(document["kind"] == "TrainJob" for document in documents):
            documents = _with_runtimes(path.parent)
        for document in documents:
            kind = frontends.find(document["apiVersion"], document["kind"])
            if kind and [*kind.templates_of(document)]:
                yield "/".join(path.parts[-3:-1]), document


def _with_runtimes(folder: Path) -> list[dict[str, Any]]:
    """The TrainJobs of a folder, each with the runtime that has its Pod templates."""
    loaded = load.loaded([folder], Options(), None)
    documents, _, _ = with_runtimes(loaded.documents, {}, "1.34")
    return [copy.deepcopy(dict(document.data)) for document in documents]


JOBS = dict(_documents())
"""Each example's job by its folder."""


def changed(job: dict[str, Any], change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """A copy of a job, with a change made to each of its Pod templates."""
    copied = copy.deepcopy(job)
    for template in templates(copied):
        change(template)
    return copied


def compiled(job: dict[str, Any], **options: Any) -> Compilation:
    """The compilation of a job that must be accepted, whose runtime is a document of its own."""
    plain_job = {key: value for key, value in job.items() if key != "runtime"}
    return specs.compiled(*(one for one in (plain_job, job.get("runtime")) if one), **options)


def templates(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    kind = frontends.find(job["apiVersion"], job["kind"])
    assert kind is not None
    for path in kind.templates_of(job):
        value: Any = job
        for step in path:
            value = value[step]
        yield value


def pod_templates(objects: Any) -> Iterator[dict[str, Any]]:
    """The Pods of a compilation, and the templates of those that a Job makes."""
    for value in objects:
        if value["kind"] == "Pod":
            yield value
        elif value["kind"] == "Job":
            yield value["spec"]["template"]
