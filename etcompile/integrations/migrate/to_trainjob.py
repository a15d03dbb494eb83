"""Jobs of the Training Operator to the files of TrainJobs, each with a TrainingRuntime.

This is for those whose clusters change to Trainer. What has no counterpart there is reported with
its place.
"""

from collections.abc import Mapping, Sequence

from msgspec import structs

from etcompile.compiler import Options, compile, olderapis  # noqa: A004
from etcompile.diagnostics import Diagnostic, codes, diagnose, has_errors
from etcompile.emit import to_yaml
from etcompile.integrations.migrate import trainjob_losses
from etcompile.integrations.migrate.files import marked
from etcompile.integrations.migrate.migration import Migrated
from etcompile.integrations.migrate.trainjob_objects import FRAMEWORKS, converted
from etcompile.load import Document

_API_VERSION = "kubeflow.org/v1"
_REFUSED: Mapping[str, str] = {
    "TFJob": "Trainer has no policy for TensorFlow, whose TF_CONFIG names hosts of several roles",
    "PaddleJob": "Trainer has no policy for Paddle, whose nodes are told of each other",
    "MXJob": "Trainer has no policy for MXNet, whose nodes have roles",
    "MPIJob": "Trainer starts its launcher with other keys, hosts and ranks: write it by hand",
}
"""Kinds that are not converted, and why."""


def to_trainjobs(documents: Sequence[Document], options: Options | None = None) -> Migrated:
    """The files of TrainJobs that do what jobs of the former operator do.

    Args:
        documents: Jobs of `kubeflow.org/v1`, or of a former version.
        options: How to compile what is made, to find what is wrong with it.

    Returns:
        NAME.yaml and NAME-runtime.yaml of each job; none if one was refused. The diagnostics say
        what does not carry over.
    """
    # What Kueue starts in another cluster has to compile, too.
    options = structs.replace(options or Options(), ignore_managed_by=True)
    files: dict[str, str] = {}
    diagnostics: list[Diagnostic] = []
    for document in documents:
        today = olderapis.current(document)
        diagnostics += today.diagnostics
        if not has_errors(today.diagnostics):
            result = _to_trainjob(today.document, options)
            files |= result.files
            diagnostics += result.diagnostics
    if not files and not diagnostics:
        diagnostics.append(diagnose(codes.NOTHING_TO_MIGRATE, None, example="pytorchjob"))
    return Migrated({} if has_errors(diagnostics) else files, tuple(dict.fromkeys(diagnostics)))


def _to_trainjob(document: Document, options: Options) -> Migrated:
    """The two files of a job; none if it is refused."""
    kind = document.kind or ""
    framework = FRAMEWORKS.get(kind)
    if framework is None or document.api_version != _API_VERSION:
        only = f"only {', '.join(FRAMEWORKS)} of {_API_VERSION} are converted"
        problem = trainjob_losses.refusal(document, ("kind",), _REFUSED.get(kind, only))
        return Migrated({}, (problem,))
    before = compile([document], options)
    if not before.ok:
        return Migrated({}, before.diagnostics)
    if refusals := tuple(trainjob_losses.name_taken(document, framework)):
        return Migrated({}, refusals)
    diagnostics = [*trainjob_losses.losses(document, framework)]
    objects = converted(document, framework)
    if refusals := tuple(trainjob_losses.too_long(document, *objects)):
        return Migrated({}, (*diagnostics, *refusals))
    after = compile(objects, options)
    diagnostics += (found for found in after.diagnostics if found.severity.value == "error")
    head = f"# {document.label} of {document.relative}, for Kubeflow Trainer.\n"
    names = (f"{document.name}.yaml", f"{document.name}-runtime.yaml")
    files = {
        name: marked(name, head + to_yaml(value))
        for name, value in zip(names, objects, strict=True)
    }
    return Migrated(files, tuple(diagnostics))
