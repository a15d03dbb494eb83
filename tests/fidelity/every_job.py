"""The jobs of `examples/`, to be changed in their Pod templates: for rules of every kind."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from etcompile import frontends

EXAMPLES = Path(__file__).parents[2] / "examples"


def _documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(EXAMPLES.glob("*/*/*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            kind = document and frontends.find(document["apiVersion"], document["kind"])
            # A TrainJob has its Pod template in another document: tests/fidelity/test_trainjob.py.
            if kind and [*kind.templates_of(document)]:
                yield "/".join(path.parts[-3:-1]), document


JOBS = dict(_documents())
"""Each example's job by its folder."""


def changed(job: dict[str, Any], change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """A copy of a job, with a change made to each of its Pod templates."""
    made = copy.deepcopy(job)
    for template in templates(made):
        change(template)
    return made


def templates(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The Pod templates of a job."""
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
