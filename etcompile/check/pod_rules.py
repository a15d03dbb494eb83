"""What the API server refuses in Pods and other objects although their schemas allow it.

The rules stand in `schemas/kubernetes/rules.yaml`; here they get a line and a code, and what only
etcompile demands of a Pod template is added: variables that are set once, images that can be
pulled and stay what they are.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from etcompile.check import kubernetes
from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.diagnostics.spelling import closest
from etcompile.k8s.names import image_problem
from etcompile.k8s.path import containers_of, dotted, mappings_of, value_at
from etcompile.k8s.validation import Problem, Subject, object_problems, pod_problems, templates_of

_Value = Mapping[str, Any]

PlacedDiagnostic = tuple[ValuePath, Diagnostic]
"""A diagnostic, and the path of what it is about."""


def check_object(source: Source, version: str, *, namespaced: bool = True) -> list[Diagnostic]:
    """What the API server would refuse for certain in an object that is no job.

    The templates of a controller are looked at less closely than a Pod itself.
    """
    value, minor = source.data, _minor(version)
    by_schema = kubernetes.check_object(source, version)
    if metadata := kubernetes.check_metadata(source, version):
        # Nothing passes through whose metadata are refused.
        by_schema = [d for d in by_schema if d.code != codes.KUBERNETES_UNKNOWN_KIND]
        found = {diagnostic.where for diagnostic in by_schema}
        by_schema += (diagnostic for diagnostic in metadata if diagnostic.where not in found)
    by_rules = [
        _refusal(source, (), problem)[1]
        for problem in object_problems(value, minor, namespaced=namespaced)
    ]
    is_pod = value["kind"] == "Pod"
    for path in ((),) if is_pod else templates_of(value):
        by_rules += (d for _, d in check_pod_template(source, path, version, pod=is_pod))
        # That others may change an image is the author's business here.
        images_of_pods = check_images(source, path)
        by_rules += (d for _, d in images_of_pods if d.code == codes.IMAGE_NOT_PULLABLE)
    # By the names of the fields, since values of Python have no lines to compare.
    reported = {diagnostic.where for diagnostic in by_schema}
    return [*by_schema, *(d for d in by_rules if not d.where or d.where not in reported)]


def check_pod_template(
    source: Source,
    path: ValuePath,
    version: str | None = None,
    *,
    known_volumes: Collection[str] = (),
    partial: bool = False,
    pod: bool = True,
) -> Iterator[PlacedDiagnostic]:
    """What the API server would refuse for certain in a Pod of this template.

    It may be called whether or not the template passed its schema, which reports what has the
    wrong type.

    Args:
        version: The version of Kubernetes, `1.34`; None for what every version refuses.
        partial: The job fills in what is missing.
        pod: Whether Pods are made of it as it is; False for the template of a controller.
    """
    template = value_at(source.data, path)
    if not isinstance(template, dict):
        return
    minor = None if version is None else _minor(version)
    for problem in pod_problems(Subject(template, minor, known_volumes, pod)):
        if problem.rule.demand == "exactly_one" and problem.rule.of == ["image"]:
            # A misspelt `image` is an unknown field, too, which says more.
            container = value_at(template, problem.path)
            if partial or closest("image", container.keys() - {"image"}) is not None:
                continue
        yield _refusal(source, path, problem)
    for below, container in containers_of(template.get("spec")):
        at = (*path, "spec", *below)
        seen: set[str] = set()
        for index, env in mappings_of(container, "env"):
            if isinstance(name := env.get("name"), str):
                if name in seen:
                    place = (*at, "env", index, "name")
                    facts = {"where": dotted(at), "name": name}
                    yield place, diagnose(codes.SAME_ENV_TWICE, source.locate(place), **facts)
                seen.add(name)


def check_images(source: Source, path: ValuePath) -> Iterator[PlacedDiagnostic]:
    """A warning for each image that no runtime can pull, or that may be another one tomorrow."""
    template = value_at(source.data, path)
    for at, container in containers_of(value_at(template, ("spec",))):
        image = container.get("image")
        if not isinstance(image, str) or not image or image.strip() != image:
            continue
        place = (*path, "spec", *at, "image")
        if problem := image_problem(image):
            facts = {"image": image, "problem": problem}
            yield place, diagnose(codes.IMAGE_NOT_PULLABLE, source.locate(place), **facts)
        elif "@" not in image:
            tag = image.rpartition("/")[2].partition(":")[2]
            if tag in ("", "latest", "master", "test"):
                yield place, diagnose(codes.MUTABLE_IMAGE, source.locate(place), image=image)


def _minor(version: str) -> int:
    return int(version.partition(".")[2])


def _refusal(source: Source, path: ValuePath, problem: Problem) -> PlacedDiagnostic:
    whole = (*path, *problem.path)
    diagnostic = diagnose(
        codes.KUBERNETES_INVALID,
        source.locate(whole, key=problem.at_key),
        where=dotted(whole) or source.data["kind"],
        problem=problem.message,
        advice=problem.hint,
    )
    return whole, diagnostic
