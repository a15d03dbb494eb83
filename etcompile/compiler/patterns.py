"""A SecretProviderClass of the user's to one for each job.

Which vault there is and what its provider must be told nobody but the user knows; what differs from
job to job stands in the pattern as `$(job)`, `$(namespace)` and the like.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import structs

from etcompile.diagnostics import Diagnostic, Location, ValuePath, codes, diagnose, has_errors
from etcompile.k8s.objects import Object
from etcompile.load import Document, Limits, Loaded, load
from etcompile.model import Job

_KIND = "SecretProviderClass"
_CLOSED = (
    codes.UNREADABLE_FILE,
    codes.NO_SUCH_PATH,
    codes.FILE_TOO_LARGE,
    codes.NOT_A_REGULAR_FILE,
)
"""What is said of a file that was not read, which quotes nothing of it."""
_VARIABLE = re.compile(r"\$\(([A-Za-z]+)\)")


Fill = Callable[[Object, Job], tuple[Object, Sequence[Diagnostic]]]


def pattern(
    file: str, limits: Limits, place: Location | None = None
) -> tuple[Fill | None, tuple[tuple[str, str], ...], tuple[Diagnostic, ...]]:
    """The pattern in a file.

    Args:
        file: A file with one SecretProviderClass.
        limits: Bounds on what is read.
        place: Where an overlay names the file; None if whoever runs the program did. Then nothing
            of a file that is no pattern is quoted: an overlay may name any file.

    Returns:
        What fills a SecretProviderClass without a spec, the name and the SHA-256 of the file, and
        what is wrong with it.
    """
    loaded = load([file], limits=limits)
    if place is not None and not _is_pattern(loaded):
        return None, (), _unquoted(file, loaded, place)
    inputs = tuple((entry.relative, entry.digest) for entry in loaded.documents if entry.digest)
    if has_errors(loaded.diagnostics):
        return None, inputs, loaded.diagnostics
    document = loaded.documents[0]
    spec = document.data.get("spec")
    problem = None
    if len(loaded.documents) > 1 or document.kind != _KIND:
        problem = _refused(document, ("kind",), f"it must hold one {_KIND} and nothing else")
    elif not isinstance(spec, Mapping) or not spec.get("provider"):
        problem = _refused(document, ("spec",), "its spec must name a provider")
    if problem:
        return None, inputs, (problem,)
    return lambda value, job: _filled(value, job, document), inputs, loaded.diagnostics


def _is_pattern(loaded: Loaded) -> bool:
    found = loaded.documents
    return not has_errors(loaded.diagnostics) and len(found) == 1 and found[0].kind == _KIND


def _unquoted(file: str, loaded: Loaded, place: Location) -> tuple[Diagnostic, ...]:
    """Why a file that an overlay names is no pattern, without a word of what is in it."""
    outside = next(
        (
            diagnostic
            for diagnostic in loaded.diagnostics
            if diagnostic.code == codes.OUTSIDE_THE_BOUNDARY
        ),
        None,
    )
    if outside is not None:
        return (structs.replace(outside, location=place),)
    closed = [diagnostic for diagnostic in loaded.diagnostics if diagnostic.code in _CLOSED]
    if closed and not loaded.documents:
        problem = f"'{file}': {closed[0].message}"
    else:
        problem = f"'{file}' must hold one {_KIND} and nothing else; see etcompile check '{file}'"
    return (diagnose(codes.SECRET_SOURCE, place, option="--secret csi", problem=problem),)


def _filled(value: Object, job: Job, document: Document) -> tuple[Object, Sequence[Diagnostic]]:
    ssh = job.credentials
    values = {"job": job.name, "namespace": job.namespace}
    if ssh is not None:
        values |= {"privateKey": ssh.private_key, "publicKey": ssh.public_key}
    problems: list[Diagnostic] = []

    def text(found: re.Match[str]) -> str:
        name = found[1]
        if (known := values.get(name)) is not None:
            return known
        there = ", ".join(f"$({variable})" for variable in values)
        problem = f"there is no {found[0]}; there are {there}"
        if name in values:
            problem = f"$({name}) is not known: the job names none"
        problems.append(_refused(document, ("spec",), problem))
        return found[0]

    return {**value, "spec": _written(document.data["spec"], text)}, problems


def _written(value: Any, text: Callable[[re.Match[str]], str]) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(text, value)
    if isinstance(value, Mapping):
        return {key: _written(inner, text) for key, inner in value.items()}
    return [_written(inner, text) for inner in value] if isinstance(value, list) else value


def _refused(document: Document, path: ValuePath, problem: str) -> Diagnostic:
    return diagnose(
        codes.SECRET_SOURCE, document.locate(path), option="--secret csi", problem=problem
    )
