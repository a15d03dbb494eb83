"""What the API server refuses in an object that is no job, although its schema allows it.

The rules stand in `schemas/kubernetes/rules.yaml`; here they get a line and a code. Pod templates
are told apart because those of a controller are looked at less closely than a Pod itself.
"""

from collections.abc import Iterable

from etcompile.check import pods
from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.k8s.path import dotted
from etcompile.k8s.validation import object_problems, templates_of


def check_object(
    source: Source, version: str, told: Iterable[Diagnostic] = (), *, namespaced: bool = True
) -> list[Diagnostic]:
    """What the API server would refuse for certain in an object.

    It may be called whether or not the object passed its schema: what has the wrong type is left
    to that.

    Args:
        source: The object, with apiVersion and kind.
        version: The version of Kubernetes: `1.34`.
        told: What is wrong with it already; nothing is told twice of one place.
        namespaced: Whether its namespace means anything.

    Returns:
        An error for each fault, at its place.
    """
    value = source.data
    minor = int(version.partition(".")[2])
    found = [
        diagnose(
            codes.KUBERNETES_INVALID,
            source.locate(problem.path, key=problem.at_key),
            where=dotted(problem.path) or value["kind"],
            problem=problem.message,
            advice=problem.hint,
        )
        for problem in object_problems(value, minor, namespaced=namespaced)
    ]
    if value["kind"] == "Pod":
        found += pods.check_pod_template(source, (), version)
        found += _impossible_images(source, ())
    for path in templates_of(value):
        found += pods.check_pod_template(source, path, version, pod=False)
        found += _impossible_images(source, path)
    # By the names of the fields, since values of Python have no lines to compare.
    places = {diagnostic.where for diagnostic in told}
    return [
        diagnostic for diagnostic in found if not diagnostic.where or diagnostic.where not in places
    ]


def _impossible_images(source: Source, path: ValuePath) -> list[Diagnostic]:
    """Images that no runtime can pull; that others may change is the author's business here."""
    return [
        diagnostic
        for diagnostic in pods.check_images(source, path)
        if diagnostic.code == codes.IMAGE_NOT_PULLABLE
    ]
