"""A document held against the JSON Schema of its kind (`schemas/KIND.json`).

The schemas are stricter than the CRDs they describe: what crashes the operator or silently
means something else is refused here (reference/et-operator.md 6, defects 3 and 19). Apart from
the frontends, which then read the document without looking twice.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etcompile.check.bundled import bundled_schema
from etcompile.check.corrections import with_fix
from etcompile.check.explain import Fault, Problem, faults
from etcompile.check.validator import Validator
from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.k8s.objects import without_nulls

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


def check_document(source: Source, schema: str | Path) -> list[Diagnostic]:
    """What is wrong with a document by the schema of its kind.

    A field that is null counts as absent, as it does to the API server.

    Args:
        source: The document.
        schema: The schema (draft 2020-12): a file name in `schemas/`, or the path of one.

    Returns:
        An error for each fault, at the place of the field; none for a valid document.

    Raises:
        OSError: the schema cannot be read.
        ValueError: it is not a JSON Schema.
    """
    return [diagnostic(source, fault) for fault in document_faults(source.data, schema)]


def document_faults(value: Any, schema: str | Path) -> list[Fault]:
    """The same, as faults.

    Args:
        value: The document, JSON.
        schema: As for `check_document`.
    """
    validator = _validator(Path(schema))
    # Valid with its nulls is valid without: no schema of ours has a type that null is of.
    if validator.is_valid(value):
        return []
    return faults(validator, without_nulls(value), root=_name(value))


def rules(schema: str | Path) -> Mapping[str, Any]:
    """A schema with all it refers to, as documents are held against it; not to be changed.

    Args:
        schema: A file name in `schemas/`, or the path of a schema.
    """
    return _validator(Path(schema)).rules


@functools.cache
def _validator(path: Path) -> Validator:
    return Validator(bundled_schema(path))


def _name(value: object) -> str:
    kind = value.get("kind") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) and kind else "the document"


def diagnostic(source: Source, fault: Fault) -> Diagnostic:
    """The error that a fault of a document is."""
    path, at_key = fault.place
    told = diagnose(_CODES[fault.problem], source.locate(path, key=at_key), **fault.facts)
    return with_fix(told, fault, source)
