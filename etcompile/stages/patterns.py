"""A SecretProviderClass of the user's to one for each job.

Which vault there is and what its provider must be told nobody but the user knows; what differs from
job to job stands in the pattern as `$(job)`, `$(namespace)` and the like.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from etcompile.diagnostics import Diagnostic, ValuePath, diagnose, has_errors
from etcompile.load import Document, Limits, load
from etcompile.model import Job

Object = Mapping[str, Any]
_KIND = "SecretProviderClass"
_VARIABLE = re.compile(r"\$\(([A-Za-z]+)\)")


Fill = Callable[[Object, Job], tuple[Object, Sequence[Diagnostic]]]


def pattern(
    file: str, limits: Limits
) -> tuple[Fill | None, tuple[tuple[str, str], ...], tuple[Diagnostic, ...]]:
    """The pattern in a file.

    Args:
        file: A file with one SecretProviderClass.
        limits: Bounds on what is read.

    Returns:
        What fills a SecretProviderClass without a spec, the name and the SHA-256 of the file, and
        what is wrong with it.
    """
    loaded = load([file], limits=limits)
    inputs = tuple((one.relative, one.digest) for one in loaded.documents if one.digest)
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
        problem = f"there is no {found[0]}; there are {', '.join(f'$({one})' for one in values)}"
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
    return diagnose("ET5016", document.locate(path), option="--secret csi", problem=problem)
