"""Report everything that is wrong with a document of a job kind, each problem once.

Several checks read one document: the schema of its kind, that of Kubernetes for its Pod templates,
the rules of Pods, the number of replicas. None waits for another, and what two of them report at
one place is one problem. Afterwards a frontend can rely on the document.

The schemas (`schemas/KIND.json`) are stricter than the CRDs they describe: what crashes the
operator or silently means something else is refused here (reference/et-operator.md 6, defects 3
and 19).
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from etcompile.check import kubernetes
from etcompile.check.counts import check_counts
from etcompile.check.faults import MOST_FAULTS, Fault, Problem, faults, with_fix, without_echoes
from etcompile.check.json_schemas import Validator, bundled_schema
from etcompile.check.pod_rules import PlacedDiagnostic, check_images, check_pod_template
from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.k8s.path import text_at, value_at

_CODES: dict[Problem, str] = {
    "unknown": codes.UNKNOWN_FIELD,
    "missing": codes.MISSING_FIELD,
    "type": codes.WRONG_TYPE,
    "choice": codes.NOT_ALLOWED,
    "range": codes.OUT_OF_RANGE,
    "form": codes.MALFORMED,
    "empty": codes.EMPTY,
    "other": codes.INVALID,
}


class Template(Struct, frozen=True):
    """A Pod template of a document."""

    path: ValuePath
    partial: bool  # the job fills in what it lacks
    exit_codes: bool = False  # its replicas have a restartPolicy, which may be `ExitCode`


def findings(
    source: Source,
    templates: Sequence[Template],
    schema: str | Path,
    version: str,
    *,
    volumes: tuple[str, ...] = (),
    pod_counts: tuple[ValuePath, ...] = (),
) -> list[Diagnostic]:
    """Report what is wrong with a document and its Pod templates.

    Args:
        schema: The JSON Schema of its kind.
        version: The version of Kubernetes whose schema its Pod templates must satisfy.
        volumes: Volumes that its Pods have besides the template's.
        pod_counts: Paths of the numbers of Pods.

    Returns:
        One diagnostic for each problem, without those that follow from others.
    """
    by_kind = schema_faults(source.data, schema)
    by_kubernetes: list[Fault] = []
    for template in templates:
        policy = (*template.path, "spec", "restartPolicy")
        allowed = template.exit_codes and value_at(source.data, policy) == "ExitCode"
        in_template = kubernetes.template_faults(source.data, template.path, version)
        by_kubernetes += (
            fault for fault in in_template if not (allowed and fault.field_path == policy)
        )
    # Drop faults at or below a place where another schema has reported one. For a Pod template, the
    # schema of a kind says no more than Kubernetes' in fewer words, but it knows the kind, so its
    # fault wins.
    by_place: dict[tuple[ValuePath, str], Fault] = {}
    for fault in without_echoes([*by_kind, *by_kubernetes]):
        key = (fault.field_path, "" if fault.problem != "form" else str(fault.at_key))
        by_place.setdefault(key, fault)
    mistyped = {fault.field_path for fault in by_place.values() if fault.problem == "type"}
    distinct = [
        fault for fault in by_place.values() if not _leads_through(fault.field_path[:-1], mistyped)
    ]
    of_kind = {id(fault) for fault in by_kind}
    problems = [
        _diagnostic(source, fault)
        if id(fault) in of_kind
        else kubernetes.diagnostic(source, fault, version)
        for fault in distinct[:MOST_FAULTS]
    ]
    if max(len(by_kind), len(distinct)) > MOST_FAULTS:
        what = f"this {text_at(source.data, ('kind',)) or 'document'}"
        place = source.locate(("kind",))
        problems.append(diagnose(codes.MORE_PROBLEMS, place, what=what, limit=MOST_FAULTS))
    wrong = {fault.field_path for fault in distinct[:MOST_FAULTS]}
    placed: list[PlacedDiagnostic] = []
    for template in templates:
        path, partial = template.path, template.partial
        placed += check_pod_template(source, path, version, known_volumes=volumes, partial=partial)
        placed += check_images(source, template.path)
    placed += check_counts(source, pod_counts, [template.path for template in templates])
    return [*problems, *(problem for path, problem in placed if not _leads_through(path, wrong))]


def _leads_through(path: ValuePath, paths: set[ValuePath]) -> bool:
    return any(path[:length] in paths for length in range(len(path), 0, -1))


# Its schema -----------------------------------------------------------------------------------


def check_schema(source: Source, schema: str | Path) -> list[Diagnostic]:
    """Report what is wrong with a document by the schema of its kind.

    A field that is null counts as absent, as it does to the API server.

    Args:
        schema: The schema (draft 2020-12): a file name in `schemas/`, or the path of one.
    """
    return [_diagnostic(source, fault) for fault in schema_faults(source.data, schema)]


def schema_faults(value: Any, schema: str | Path) -> list[Fault]:
    root = text_at(value, ("kind",)) or "the document"
    return faults(_validator(Path(schema)), value, root=root)


@functools.cache
def _validator(path: Path) -> Validator:
    return Validator(bundled_schema(path))


def _diagnostic(source: Source, fault: Fault) -> Diagnostic:
    path, at_key = fault.place
    place = source.locate(path, key=at_key)
    return with_fix(diagnose(_CODES[fault.problem], place, **fault.facts), fault, source)
