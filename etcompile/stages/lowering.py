"""Documents to jobs, scale intents and other objects, each checked on the way.

Apart from building because here every document stands alone: no job meets its intents yet.
"""

from collections.abc import Iterable

from msgspec import Struct

from etcompile import frontends
from etcompile.check import job as job_rules
from etcompile.check import kubernetes, metadata, pods, schema
from etcompile.diagnostics import Diagnostic, diagnose, has_errors
from etcompile.frontends import Kind
from etcompile.load import Document
from etcompile.model import Intent, Job


class LoweredDocuments(Struct, frozen=True):
    """What the documents of a run are.

    Args:
        jobs: The jobs, in the order of the input.
        intents: The scale intents, in the order of the input.
        others: Documents that are neither: other Kubernetes objects.
        diagnostics: What is wrong with any of them.
    """

    jobs: tuple[Job, ...]
    intents: tuple[Intent, ...]
    others: tuple[Document, ...]
    diagnostics: tuple[Diagnostic, ...]


def lowered(documents: Iterable[Document], kubernetes_version: str) -> LoweredDocuments:
    """The jobs, intents and other objects that documents hold.

    Args:
        documents: The documents, after overlays.
        kubernetes_version: The version whose schema Pod templates and objects must satisfy.
    """
    values: list[Job | Intent] = []
    others: list[Document] = []
    diagnostics: list[Diagnostic] = []
    for document in documents:
        kind = frontends.find(document.api_version, document.kind)
        if kind is not None:
            value, problems = _lowered(document, kind, kubernetes_version)
            values += [value] if value else []
        elif problems := _unknown_version(document):
            pass
        else:
            problems = metadata.check_metadata(document)
            if not problems:
                others.append(document)
                problems = kubernetes.check_object(document, kubernetes_version)
        diagnostics += problems
    return LoweredDocuments(
        jobs=tuple(value for value in values if isinstance(value, Job)),
        intents=tuple(value for value in values if isinstance(value, Intent)),
        others=tuple(others),
        diagnostics=tuple(diagnostics),
    )


def _lowered(
    document: Document, kind: Kind, version: str
) -> tuple[Job | Intent | None, list[Diagnostic]]:
    """The job or intent of a document; None if the document is not valid."""
    problems = schema.check_document(document, kind.schema)
    if has_errors(problems):
        return None, problems
    for path in kind.templates_of(document.data):
        problems += kubernetes.check_pod_template(document, path, version)
        partial = path[-2] in kind.completed
        problems += pods.check_pod_template(
            document, path, known_volumes=kind.volumes, partial=partial
        )
        problems += pods.check_images(document, path)
    if has_errors(problems):
        return None, problems
    lowered = kind.lower(document)
    problems += lowered.diagnostics
    if isinstance(lowered.value, Job):
        problems += job_rules.check_spec(lowered.value)
    return lowered.value, problems


def _unknown_version(document: Document) -> list[Diagnostic]:
    """An error for a document of a group of ours, but of no version or kind of it that is known."""
    version, name = document.api_version or "", document.kind or ""
    if known := frontends.served_versions(version, name):
        facts = {"kind": name, "version": version, "known": " or ".join(known)}
        return [diagnose("ET2011", document.locate(("apiVersion",)), **facts)]
    group = version.partition("/")[0]
    if known := frontends.kinds_of(group):
        facts = {"group": group, "kind": name, "known": ", ".join(known)}
        return [diagnose("ET2013", document.locate(("kind",)), **facts)]
    return []
