"""How many Pods and how much text a document asks for, before any of it is built.

A number is cheap to write and dear to carry out: two billion replicas would occupy the machine
until it has no memory left. Apart from the schemas, because a sum over replica types is no field,
and from the rules of jobs, which look at replicas that are built already.
"""

from collections.abc import Iterable, Iterator, Mapping

from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.k8s.path import dotted, value_at
from etcompile.load.values import text_bytes
from etcompile.model import MOST_PODS, IndexedEnv, Job, Variable

MOST_BYTES = 2 * 1024**3
"""Bytes that the Pods of one job may take in the output, about."""

_MOST_OF_VARIABLES = 512 * 1024**2
"""Bytes that lists of all Pods may take in the variables of one job. With more Pods than this
allows, each list is above the 128 KiB that Linux takes in one variable, and no container starts."""


def check_counts(
    source: Source, counts: Iterable[ValuePath], templates: Iterable[ValuePath]
) -> list[Diagnostic]:
    """What is wrong with the numbers of a job or a scale intent.

    It may be called whether or not the document passed its schema.

    Args:
        source: The document.
        counts: Where it says how many Pods there are to be, if it does (`Kind.counts_of`).
        templates: Where its Pod templates stand.

    Returns:
        An error for each number of Pods above `MOST_PODS`, else one for their sum, else one for
        the output that they would make.
    """
    values = [(path, value_at(source.data, path)) for path in counts]
    found = [
        (path, value)
        for path, value in values
        if isinstance(value, int) and not isinstance(value, bool)
    ]
    problems = [
        _too_many(source, path, dotted(path), count) for path, count in found if count > MOST_PODS
    ]
    roles = [(path[:-1], count) for path, count in found if path[-1] == "replicas"]
    total = sum(count for _, count in roles)
    if total > MOST_PODS and not problems:
        largest = max(roles, key=lambda role: role[1])[0]
        place = (*largest, "replicas")
        problems = [_too_many(source, place, "the sum of all replicas", total)]
    return problems or list(_too_much(source, templates))


def check_variables(job: Job) -> list[Diagnostic]:
    """An error for a job whose Pods would each hold a list of all others, if these are too many.

    Such a list, as in TF_CONFIG, grows with the number of Pods, and is written once for each.

    Args:
        job: The job, after its intents.
    """
    sizes = {
        role.name: len(role.members) * sum(map(_variable_size, role.additions.env))
        for role in job.roles
    }
    size = sum(sizes.values())
    if size <= _MOST_OF_VARIABLES:
        return []
    largest = max(job.roles, key=lambda role: sizes[role.name])
    place = largest.template.origin.locate()
    facts = {"size": f"{size / 2**30:.1f}", "limit": _MOST_OF_VARIABLES / 2**30}
    return [diagnose(codes.TOO_LARGE_OUTPUT, place, **facts)]


def _variable_size(variable: Variable) -> int:
    return sum(map(len, variable.parts)) if isinstance(variable, IndexedEnv) else 0


def _too_many(source: Source, path: ValuePath, what: str, count: int) -> Diagnostic:
    return diagnose(
        codes.TOO_MANY_PODS, source.locate(path), what=what, count=count, limit=MOST_PODS
    )


def _too_much(source: Source, templates: Iterable[ValuePath]) -> Iterator[Diagnostic]:
    """An error for Pods whose templates, each written out, are more than anybody can keep."""
    size, largest, most = 0, None, 0
    for path in templates:
        role = value_at(source.data, path[:-1])
        count = role.get("replicas") if isinstance(role, Mapping) else None
        if isinstance(count, int) and count > 1:
            part = count * text_bytes(value_at(source.data, path))
            size += part
            largest, most = (path, part) if part > most else (largest, most)
    if size > MOST_BYTES and largest is not None:
        facts = {"size": f"{size / 2**30:.0f}", "limit": MOST_BYTES // 2**30}
        yield diagnose(codes.TOO_LARGE_OUTPUT, source.locate(largest, key=True), **facts)
