"""Documents to jobs, scale intents and other objects, each checked on the way.

Apart from building because here every document stands alone: no job meets its intents yet.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal

from msgspec import Struct, structs

from etcompile import frontends
from etcompile.check import job as job_rules
from etcompile.check import kubernetes, metadata
from etcompile.check.document import Asked, Finding, Rules, Template, findings
from etcompile.diagnostics import Diagnostic, codes, diagnose, has_errors
from etcompile.frontends import Kind
from etcompile.frontends.kind import MULTIKUEUE
from etcompile.load import Document
from etcompile.model import Intent, Job
from etcompile.stages.misplaced import placed
from etcompile.stages.neighbours import may_have_namespace

Managed = Literal["refuse", "compile", "skip"]
"""What to do with a job that `managedBy` gives to another controller."""


class LoweredDocuments(Struct, frozen=True):
    """What the documents of a run are.

    Args:
        jobs: The jobs, in the order of the input.
        intents: The scale intents, in the order of the input.
        others: Documents that are neither: other Kubernetes objects.
        diagnostics: What is wrong with any of them.
        skipped: The documents of jobs that are left to their own controller.
        lost: Some document is a job or an intent of which nothing more is known.
        repairs: The same with faulty documents repaired in one way and another, to find what else
            is wrong; empty if no document is faulty. Their diagnostics are those of the repaired
            documents alone.
    """

    jobs: tuple[Job, ...]
    intents: tuple[Intent, ...]
    others: tuple[Document, ...]
    diagnostics: tuple[Diagnostic, ...]
    skipped: tuple[Document, ...] = ()
    lost: bool = False
    repairs: "tuple[LoweredDocuments, ...]" = ()


class _Lowered(Struct, frozen=True):
    """What a document of a kind of ours became; no value if it is none, or faulty."""

    value: Job | Intent | None
    diagnostics: list[Diagnostic]
    repairs: "tuple[_Lowered, ...]" = ()


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
    values: list[_Lowered] = []
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
            made = _lowered(in_place.document, kind, kubernetes_version)
            values.append(made)
            problems = [*in_place.diagnostics, *made.diagnostics]
            # A manager that no schema knows is told of as that, and as nothing else.
            known = kind.other_manager(in_place.document.data) == MULTIKUEUE and made.repairs
            if managed == "refuse" and (made.value is not None or known):
                problems += _managed(in_place.document, kind)
        elif problems := _unknown_version(document):
            values.append(_Lowered(None, problems))
        else:
            problems = metadata.check_metadata(document)
            if not problems:
                others.append(document)
                problems = kubernetes.check_object(document, kubernetes_version)
                from etcompile.check import rules  # noqa: PLC0415 - many inputs hold jobs alone

                problems += rules.check_object(
                    document,
                    kubernetes_version,
                    problems,
                    namespaced=may_have_namespace(document.data),
                )
        diagnostics += problems
    whole = structs.replace(_together(values, others, diagnostics), skipped=tuple(skipped))
    if not any(result.repairs for result in values):
        return whole
    ways = []
    for way in range(max(len(result.repairs) for result in values)):
        chosen = [
            result.repairs[way % len(result.repairs)] if result.repairs else result
            for result in values
        ]
        told = [
            p
            for result, repair in zip(values, chosen, strict=True)
            if result is not repair
            for p in repair.diagnostics
        ]
        ways.append(structs.replace(_together(chosen, others, told), skipped=whole.skipped))
    return structs.replace(whole, repairs=tuple(ways))


def _together(
    values: Iterable[_Lowered], others: Iterable[Document], diagnostics: Iterable[Diagnostic]
) -> LoweredDocuments:
    values = list(values)
    return LoweredDocuments(
        jobs=tuple(result.value for result in values if isinstance(result.value, Job)),
        intents=tuple(result.value for result in values if isinstance(result.value, Intent)),
        others=tuple(others),
        diagnostics=tuple(diagnostics),
        lost=any(result.value is None and has_errors(result.diagnostics) for result in values),
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


def _lowered(document: Document, kind: Kind, version: str) -> _Lowered:
    """The job or intent of a document."""
    found = findings(
        document, _templates(document.data, kind), _rules(document.data, kind, version)
    )
    if found and (meant := _respelt(document, found)) is not None:
        from etcompile.stages.repairs import identity  # noqa: PLC0415 - only what is faulty needs it

        known = {identity(finding.diagnostic) for finding in found}
        inside = findings(meant, _templates(meant.data, kind), _rules(meant.data, kind, version))
        found += [finding for finding in inside if identity(finding.diagnostic) not in known]
    problems = [finding.diagnostic for finding in found]
    if has_errors(problems):
        return _Lowered(None, problems, _repaired(document, found, kind, version))
    made = _read(document, kind)
    return structs.replace(made, diagnostics=[*problems, *made.diagnostics])


def _respelt(document: Document, found: Sequence[Finding]) -> Document | None:
    from etcompile.stages.repairs import respelt  # noqa: PLC0415 - only what is faulty needs it

    return respelt(document, found)


def _read(document: Document, kind: Kind) -> _Lowered:
    """The job or intent of a document in which nothing is wrong by its schemas."""
    lowered = kind.lower(document)
    problems = [*lowered.diagnostics]
    if isinstance(lowered.value, Job):
        problems += job_rules.check_spec(lowered.value)
    return _Lowered(lowered.value, problems)


def _repaired(
    document: Document, found: list[Finding], kind: Kind, version: str
) -> tuple[_Lowered, ...]:
    """What the document would be without its faults; nothing if they are too many."""
    # Only what is faulty needs it.
    from etcompile.stages.repairs import WAYS, key, remembered, repaired  # noqa: PLC0415

    check = remembered(partial(_value_findings, kind, version), document.data, found)
    ways = (repaired(document, found, check, way) for way in range(WAYS))
    different = {key(repair.data): repair for repair in ways if repair is not None}
    return tuple(_read(repair, kind) for repair in different.values())


def _value_findings(kind: Kind, version: str, value: Any) -> list[Finding]:
    source = Asked(None, value)
    return findings(source, _templates(value, kind), _rules(value, kind, version))


def _rules(value: Any, kind: Kind, version: str) -> Rules:
    return Rules(kind.schema, version, kind.volumes, tuple(kind.counts_of(value)))


def _templates(value: Any, kind: Kind) -> list[Template]:
    return [Template(path, path[-2] in kind.completed) for path in kind.templates_of(value)]


def _unknown_version(document: Document) -> list[Diagnostic]:
    """An error for a document of a group of ours, but of no version or kind of it that is known."""
    version, name = document.api_version or "", document.kind or ""
    if frontends.is_known(name):
        from etcompile.stages.former import former_version  # noqa: PLC0415 - few inputs need it

        if problems := former_version(document):
            return problems
    if known := frontends.served_versions(version, name):
        facts = {"kind": name, "version": version, "advice": f"use {' or '.join(known)}"}
        return [diagnose(codes.UNKNOWN_VERSION, document.locate(("apiVersion",)), **facts)]
    if (meant := frontends.meant_version(version, name)) and meant != version:
        facts = {"kind": name, "version": version, "meant": meant}
        return [diagnose(codes.MISSPELT_GROUP, document.locate(("apiVersion",)), **facts)]
    group = version.partition("/")[0]
    if known := frontends.kinds_of(group):
        facts = {"group": group, "kind": name, "known": ", ".join(known)}
        return [diagnose(codes.UNKNOWN_KIND, document.locate(("kind",)), **facts)]
    return []
