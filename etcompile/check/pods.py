"""What the API server refuses in a Pod although its schema allows it.

The rules stand in `schemas/kubernetes/rules.yaml`; here they get a line and a code, and what only
etcompile demands of a template is added: variables that are set once, images that can be pulled
and stay what they are.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from etcompile.check.explain import closest
from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.k8s import images
from etcompile.k8s.path import dotted, value_at
from etcompile.k8s.validation import Problem, Subject, pod_problems

_Value = Mapping[str, Any]


def check_pod_template(
    source: Source,
    path: ValuePath,
    version: str | None = None,
    *,
    known_volumes: Collection[str] = (),
    partial: bool = False,
    pod: bool = True,
) -> list[Diagnostic]:
    """What the API server would refuse for certain in a Pod of this template.

    It may be called whether or not the template passed its schema: what has the wrong type is
    left to `kubernetes.check_pod_template`.

    Args:
        source: The document that holds the template.
        path: Where.
        version: The version of Kubernetes, `1.34`; None for what every version refuses.
        known_volumes: Volumes that the Pod will have besides the template's own.
        partial: The job fills in what is missing.
        pod: Whether Pods are made of it as it is; False for the template of a controller.

    Returns:
        An error for each fault, at its place.
    """
    template = value_at(source.data, path)
    if not isinstance(template, dict):
        return []
    subject = Subject(template, _minor(version), known_volumes, pod)
    found = [
        diagnose(
            codes.KUBERNETES_INVALID,
            source.locate((*path, *problem.path), key=problem.at_key),
            where=dotted((*path, *problem.path)),
            problem=problem.message,
            advice=problem.hint,
        )
        for problem in pod_problems(subject)
        if not (_needs_image(problem) and (partial or _misspelt_image(problem, template)))
    ]
    for at, container in _containers(template, path):
        found += _same_env_twice(source, at, container)
    return found


def _minor(version: str | None) -> int | None:
    return None if version is None else int(version.partition(".")[2])


def _needs_image(problem: Problem) -> bool:
    return problem.rule.demand == "exactly_one" and problem.rule.of == ["image"]


def _misspelt_image(problem: Problem, template: _Value) -> bool:
    """A misspelt `image` is told as an unknown field; that it is missing is no news."""
    container = value_at(template, problem.path)
    return closest("image", container.keys() - {"image"}) is not None


def check_images(source: Source, path: ValuePath) -> list[Diagnostic]:
    """What is wrong with the images of a Pod template.

    Args:
        source: The document that holds the template.
        path: Where.

    Returns:
        A warning for each image that no runtime can pull, or that may be another one tomorrow.
    """
    template = value_at(source.data, path)
    if not isinstance(template, dict):
        return []
    return [
        found
        for at, container in _containers(template, path)
        if isinstance(image := container.get("image"), str) and image.strip() == image != ""
        for code, facts in _image_problems(image)
        # Only here: to look a place up takes longer than all of the check.
        for found in [diagnose(code, source.locate((*at, "image")), **facts)]
    ]


def _image_problems(image: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The code and the facts of what is wrong with an image."""
    if problem := images.reference_problem(image):
        meant = images.probably(image)
        advice = f"did you mean '{meant}'?" if meant else "write [REGISTRY/]PATH[:TAG][@DIGEST]"
        yield codes.IMAGE_NOT_PULLABLE, {"image": image, "problem": problem, "advice": advice}
    elif _is_mutable(image):
        yield codes.MUTABLE_IMAGE, {"image": image}


def _is_mutable(image: str) -> bool:
    if "@" in image:
        return False
    tag = image.rpartition("/")[2].partition(":")[2]
    return tag in ("", "latest", "master", "test")


def _same_env_twice(source: Source, at: ValuePath, container: _Value) -> Iterator[Diagnostic]:
    seen: set[str] = set()
    for place, env in _mappings(container, "env", at):
        if isinstance(name := env.get("name"), str):
            if name in seen:
                where = source.locate((*place, "name"))
                yield diagnose(codes.SAME_ENV_TWICE, where, where=dotted(at), name=name)
            seen.add(name)


# Reading what may have any shape --------------------------------------------------------------


def _mappings(value: Any, field: str, at: ValuePath) -> Iterator[tuple[ValuePath, _Value]]:
    found = value.get(field) if isinstance(value, dict) else None
    for index, item in enumerate(found if isinstance(found, list) else ()):
        if isinstance(item, dict):
            yield (*at, field, index), item


def _containers(template: _Value, at: ValuePath) -> Iterator[tuple[ValuePath, _Value]]:
    for field in ("initContainers", "containers"):
        yield from _mappings(template.get("spec"), field, (*at, "spec"))
