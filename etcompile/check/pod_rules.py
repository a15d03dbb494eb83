"""Report what the API server refuses in Pods and other objects although their schemas allow it.

The rules are in `schemas/kubernetes/rules.yaml`; this module adds places and codes, and rules of
etcompile for Pod templates: variables that are set once, images that can be pulled and do not
change.
"""

from collections.abc import Collection, Iterator

from etcompile.check import kubernetes
from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.diagnostics.spelling import closest
from etcompile.k8s.names import image_problem
from etcompile.k8s.path import containers_of, dotted, mappings_of, value_at
from etcompile.k8s.validation import Problem, Subject, object_problems, pod_problems, templates_of

PlacedDiagnostic = tuple[ValuePath, Diagnostic]
"""A diagnostic, and the path of its subject."""


def check_object(source: Source, version: str, *, namespaced: bool = True) -> list[Diagnostic]:
    """Report what the API server would certainly refuse in an object that is no job.

    Templates of a controller are checked less strictly than a Pod.
    """
    value, minor = source.data, int(version.partition(".")[2])
    by_schema = kubernetes.check_object(source, version)
    if metadata := kubernetes.check_metadata(source, version):
        # Metadata are checked even if the kind is unknown.
        by_schema = [d for d in by_schema if d.code != codes.KUBERNETES_UNKNOWN_KIND]
        faulty = {diagnostic.where for diagnostic in by_schema}
        by_schema += (diagnostic for diagnostic in metadata if diagnostic.where not in faulty)
    by_rules = [
        _refusal(source, (), problem)[1]
        for problem in object_problems(value, minor, namespaced=namespaced)
    ]
    is_pod = value["kind"] == "Pod"
    for path in ((),) if is_pod else templates_of(value):
        by_rules += (d for _, d in check_pod_template(source, path, version, pod=is_pod))
        # Mutable images are up to the author in objects that are no job.
        images_of_pods = check_images(source, path)
        by_rules += (d for _, d in images_of_pods if d.code == codes.IMAGE_NOT_PULLABLE)
    # Compared by the names of fields, because values of Python have no lines.
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
    """Report what the API server would certainly refuse in a Pod of this template.

    The template need not have passed its schema, which reports values of a wrong type.

    Args:
        version: The version of Kubernetes, `1.34`; None for what every version refuses.
        partial: The job fills in what is missing.
        pod: Pods are made of it as it is; False for the template of a controller.
    """
    template = value_at(source.data, path)
    if not isinstance(template, dict):
        return
    minor = None if version is None else int(version.partition(".")[2])
    for problem in pod_problems(Subject(template, minor, known_volumes, pod)):
        if problem.rule.demand == "exactly_one" and problem.rule.of == ["image"]:
            # A misspelt `image` is reported as an unknown field, which says more.
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
    """Warn of each image that no runtime can pull, or whose tag may change."""
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
