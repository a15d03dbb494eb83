"""Turn documents into jobs, scale intents and other objects, and check each document.

Jobs do not meet their intents here.
"""

import os
from collections.abc import Iterable

from msgspec import Struct

from etcompile import frontends
from etcompile.check import kubernetes
from etcompile.check.document_rules import Template, findings
from etcompile.check.job_rules import check_name, check_spec
from etcompile.check.pod_rules import check_object
from etcompile.compiler.choices import Managed
from etcompile.compiler.olderapis import placed
from etcompile.diagnostics import Diagnostic, codes, diagnose, has_errors
from etcompile.diagnostics.spelling import closest
from etcompile.frontends import Kind
from etcompile.frontends.kind import MULTIKUEUE
from etcompile.k8s.objects import may_have_namespace
from etcompile.load import Document
from etcompile.load.loader import as_written
from etcompile.model import Intent, Job, Origin
from etcompile.naming import Natural, natural


class LoweredDocuments(Struct, frozen=True):
    """The contents of the documents of a run, in the order of the input.

    Args:
        intents: In the order of `_place`, which does not depend on the command line.
        others: Other Kubernetes objects.
    """

    jobs: tuple[Job, ...]
    intents: tuple[Intent, ...]
    others: tuple[Document, ...]
    diagnostics: tuple[Diagnostic, ...]
    skipped: tuple[Document, ...] = ()


def lower(
    documents: Iterable[Document], kubernetes_version: str, managed: Managed = "refuse"
) -> LoweredDocuments:
    skipped: list[Document] = []
    values: list[tuple[Document, Job | Intent]] = []
    others: list[Document] = []
    diagnostics: list[Diagnostic] = []
    for document in documents:
        kind = kind_of(document)
        if kind is None:
            problems = [] if document.is_rendered else unknown_version(document)
            if not problems:
                if not kubernetes.check_metadata(document, kubernetes_version):
                    others.append(document)
                namespaced = may_have_namespace(document.data)
                problems = check_object(document, kubernetes_version, namespaced=namespaced)
                for path, inner in frontends.jobs_inside(document.data):
                    facts = {"kind": inner, "outer": document.label}
                    place = document.locate(path)
                    problems.append(diagnose(codes.JOB_INSIDE, place, **facts))
            if document.is_rendered:  # the render has reported it
                problems = [each for each in problems if each.code != codes.KUBERNETES_UNKNOWN_KIND]
            diagnostics += problems
            continue
        in_place = placed(document, kind)
        document = in_place.document  # noqa: PLW2901 - with its fields in their current places
        if managed == "skip" and is_skipped(document):
            skipped.append(document)
            facts = {"what": document.label, "manager": MULTIKUEUE}
            place = document.locate(kind.managed_by)
            diagnostics.append(diagnose(codes.MANAGED_JOB_SKIPPED, place, **facts))
            continue
        value, problems = _lowered(document, kind, kubernetes_version)
        diagnostics += [*in_place.diagnostics, *problems]
        if value is not None:
            values.append((document, value))
            if managed == "refuse" and (manager := kind.other_manager(document.data)) is not None:
                # reference 1.2, managedBy
                facts = {"manager": manager, "own": kind.managers[0]}
                place = document.locate(kind.managed_by)
                diagnostics.append(diagnose(codes.FOREIGN_MANAGER, place, **facts))
    return LoweredDocuments(
        jobs=tuple(value for _, value in values if isinstance(value, Job)),
        intents=tuple(
            value
            for _, value in sorted(values, key=lambda pair: _place(pair[0]))
            if isinstance(value, Intent)
        ),
        others=tuple(others),
        diagnostics=tuple(diagnostics),
        skipped=tuple(skipped),
    )


def _place(document: Document) -> tuple[bool, list[Natural], int]:
    """Return a sort key: files by path as a folder lists them, then input from elsewhere.

    So the same files result in the same job, in whichever order the command line names them.
    """
    if document.digest is None or document.file == "-":
        return True, [], 0
    path = os.path.abspath(document.file)  # noqa: PTH100 - start quickly
    return False, [natural(name) for name in path.split(os.sep)], document.index  # noqa: PTH206


def kind_of(document: Document) -> Kind | None:
    """Return the kind that a document is compiled as; None for objects, and for earlier output."""
    return None if document.is_rendered else frontends.find(document.api_version, document.kind)


def is_skipped(document: Document) -> bool:
    """Report whether a document is a job of MultiKueue, which may be skipped."""
    kind = kind_of(document)
    return kind is not None and kind.other_manager(document.data) == MULTIKUEUE


def _lowered(
    document: Document, kind: Kind, version: str
) -> tuple[Job | Intent | None, list[Diagnostic]]:
    templates = [
        Template(path, path[-2] in kind.completed, kind.exit_codes)
        for path in kind.templates_of(document.data)
    ]
    counts = tuple(kind.counts_of(document.data))
    problems = findings(
        document, templates, kind.schema, version, volumes=kind.volumes, pod_counts=counts
    )
    # Checks that need no valid document are reported together with the schema's.
    named = kind.problems(document)
    if kind.pod_templates and document.name:
        named += check_name(document.name, Origin(document))
    if has_errors(problems):
        return None, [as_written(document, problem) for problem in [*problems, *named]]
    value, notes = kind.lowered(document)
    problems += [*named, *notes]
    if isinstance(value, Job):
        problems += check_spec(value)
    return value, [as_written(document, problem) for problem in problems]


def unknown_version(document: Document) -> list[Diagnostic]:
    version, name = document.api_version or "", document.kind or ""
    facts = {"kind": name, "version": version}
    older = frontends.older_versions(name)
    advice = next((row.steps for row in older if row.version == version), "")
    if not advice and (known := frontends.served_versions(version, name)):
        readable = [row.version for row in older if row.today in known]
        also = f"; {', '.join(readable)} can be read, too" if readable else ""
        advice = f"use {' or '.join(known)}{also}"
    if advice:
        place = document.locate(("apiVersion",))
        return [diagnose(codes.UNKNOWN_VERSION, place, **facts, advice=advice)]
    if (meant := frontends.meant_version(version, name)) and meant != version:
        place = document.locate(("apiVersion",))
        return [diagnose(codes.MISSPELT_GROUP, place, **facts, meant=meant)]
    group = version.partition("/")[0]
    known = frontends.kinds_of(group)
    # Report a misspelt job; other kinds of the group, such as Notebook, pass.
    if meant_kind := closest(name, known):
        facts = {"group": group, "kind": name, "meant": meant_kind}
        return [diagnose(codes.UNKNOWN_KIND, document.locate(("kind",)), **facts)]
    return []
