"""Documents to jobs, scale intents and other objects, each checked on the way.

Apart from building because here every document stands alone: no job meets its intents yet.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec import Struct

from etcompile import frontends
from etcompile.check.document_rules import Rules, Template, check_metadata, findings
from etcompile.check.job_rules import check_spec
from etcompile.check.pod_rules import check_object
from etcompile.compiler.misplaced import placed
from etcompile.compiler.neighbours import may_have_namespace
from etcompile.diagnostics import Diagnostic, codes, diagnose, has_errors
from etcompile.diagnostics.spelling import closest
from etcompile.frontends import Kind
from etcompile.frontends.kind import MULTIKUEUE
from etcompile.load import Document
from etcompile.model import Intent, Job

Managed = Literal["refuse", "compile", "skip"]
"""What to do with a job that `managedBy` gives to another controller."""
_TORCHELASTIC = "elastic.pytorch.org/"
_AS_PYTORCHJOB = "TorchElastic is part of PyTorch now: write a PyTorchJob with an elasticPolicy"


class LoweredDocuments(Struct, frozen=True):
    """What the documents of a run are.

    Args:
        jobs: The jobs, in the order of the input.
        intents: The scale intents, in the order of the input.
        others: Documents that are neither: other Kubernetes objects.
        diagnostics: What is wrong with any of them.
        skipped: The documents of jobs that are left to their own controller.
    """

    jobs: tuple[Job, ...]
    intents: tuple[Intent, ...]
    others: tuple[Document, ...]
    diagnostics: tuple[Diagnostic, ...]
    skipped: tuple[Document, ...] = ()


def lowered(
    documents: Iterable[Document], kubernetes_version: str, managed: Managed = "refuse"
) -> LoweredDocuments:
    """The jobs, intents and other objects that documents hold.

    Args:
        documents: The documents, after overlays.
        kubernetes_version: The version whose schema Pod templates and objects must satisfy.
        managed: What to do with jobs that `managedBy` gives to another controller.
    """
    skipped: list[Document] = []
    values: list[Job | Intent] = []
    others: list[Document] = []
    diagnostics: list[Diagnostic] = []
    for document in documents:
        kind = frontends.find(document.api_version, document.kind)
        if kind is not None:
            in_place = placed(document, kind)
            if managed == "skip" and (problem := _skipped(in_place.document, kind)):
                skipped.append(document)
                diagnostics.append(problem)
                continue
            value, problems = _lowered(in_place.document, kind, kubernetes_version)
            problems = [*in_place.diagnostics, *problems]
            if value is not None:
                values.append(value)
                if managed == "refuse":
                    problems += _managed(in_place.document, kind)
        elif not (problems := _unknown_version(document)):
            problems = check_metadata(document)
            if not problems:
                others.append(document)
                namespaced = may_have_namespace(document.data)
                problems = check_object(document, kubernetes_version, namespaced=namespaced)
        diagnostics += problems
    return LoweredDocuments(
        jobs=tuple(value for value in values if isinstance(value, Job)),
        intents=tuple(value for value in values if isinstance(value, Intent)),
        others=tuple(others),
        diagnostics=tuple(diagnostics),
        skipped=tuple(skipped),
    )


def is_skipped(document: Document) -> bool:
    """Whether a document is a job that is left to MultiKueue where such jobs are skipped."""
    kind = frontends.find(document.api_version, document.kind)
    return kind is not None and kind.other_manager(document.data) == MULTIKUEUE


def _skipped(document: Document, kind: Kind) -> Diagnostic | None:
    """A warning for a job that is left to MultiKueue; None for one that is compiled."""
    if not is_skipped(document):
        return None
    facts = {"what": document.label, "manager": MULTIKUEUE}
    return diagnose(codes.MANAGED_JOB_SKIPPED, document.locate(kind.managed_by), **facts)


def _managed(document: Document, kind: Kind) -> Iterator[Diagnostic]:
    """An error for a job that is another controller's (reference 1.2, managedBy)."""
    if (manager := kind.other_manager(document.data)) is not None:
        place = document.locate(kind.managed_by)
        yield diagnose(codes.FOREIGN_MANAGER, place, manager=manager, own=kind.managers[0])


def _lowered(
    document: Document, kind: Kind, version: str
) -> tuple[Job | Intent | None, list[Diagnostic]]:
    """The job or intent of a document; None if the document is faulty."""
    problems = findings(
        document, _templates(document.data, kind), _rules(document.data, kind, version)
    )
    if has_errors(problems):
        return None, problems
    lowered = kind.lower(document)
    problems += lowered.diagnostics
    if isinstance(lowered.value, Job):
        problems += check_spec(lowered.value)
    return lowered.value, problems


def _rules(value: Any, kind: Kind, version: str) -> Rules:
    return Rules(kind.schema, version, kind.volumes, tuple(kind.counts_of(value)))


def _templates(value: Any, kind: Kind) -> list[Template]:
    # reference/training-operator.md 2.4
    exit_codes = kind.api_version == "kubeflow.org/v1"
    return [
        Template(path, path[-2] in kind.completed, exit_codes) for path in kind.templates_of(value)
    ]


def _unknown_version(document: Document) -> list[Diagnostic]:
    """An error for a document of a group of ours, but of no version or kind of it that is known."""
    version, name = document.api_version or "", document.kind or ""
    if frontends.is_known(name):
        from etcompile.compiler.former import former_version  # noqa: PLC0415 - few inputs need it

        if problems := former_version(document):
            return problems
    if version.startswith(_TORCHELASTIC):
        facts = {"kind": name, "version": version, "advice": _AS_PYTORCHJOB}
        return [diagnose(codes.UNKNOWN_VERSION, document.locate(("apiVersion",)), **facts)]
    if known := frontends.served_versions(version, name):
        facts = {"kind": name, "version": version, "advice": f"use {' or '.join(known)}"}
        return [diagnose(codes.UNKNOWN_VERSION, document.locate(("apiVersion",)), **facts)]
    if (meant := frontends.meant_version(version, name)) and meant != version:
        facts = {"kind": name, "version": version, "meant": meant}
        return [diagnose(codes.MISSPELT_GROUP, document.locate(("apiVersion",)), **facts)]
    group = version.partition("/")[0]
    known = frontends.kinds_of(group)
    # A Notebook is an object of another program; an unknown job would be missing.
    meant_kind = closest(name, known)
    if known and (group != frontends.SHARED_GROUP or name.endswith("Job") or meant_kind):
        of_group = f"the kinds of this group are {', '.join(known)}"
        advice = f"did you mean '{meant_kind}'?" if meant_kind else of_group
        facts = {"group": group, "kind": name, "advice": advice}
        return [diagnose(codes.UNKNOWN_KIND, document.locate(("kind",)), **facts)]
    return []
