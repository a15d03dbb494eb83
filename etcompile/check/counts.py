"""Count the Pods and the text of a job before building them.

A number is cheap to write and expensive to build: two billion replicas would use up the machine's
memory. The schemas cannot do this, because a sum over replica types is no field. The watcher, which
needs no schema, also counts the Pods of stored jobs here.
"""

from collections.abc import Iterable

from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.k8s.path import dotted, value_at
from etcompile.load.yaml_values import text_bytes
from etcompile.model import MOST_PODS, IndexedEnv, Job

MOST_BYTES = 2 * 1024**3
"""Bytes that the Pods of one job may take in the output, roughly."""

_MOST_OF_VARIABLES = 512 * 1024**2
"""Bytes for lists of all Pods in the variables of one job. With more Pods than that, each list
exceeds the 128 KiB that Linux allows in one variable, and no container starts."""


def check_counts(
    source: Source, counts: Iterable[ValuePath], templates: Iterable[ValuePath]
) -> list[tuple[ValuePath, Diagnostic]]:
    """Report excessive numbers of a job or a scale intent, each with its path.

    The document need not have passed its schema.

    Returns:
        An error for each number of Pods above `MOST_PODS`, else one for their sum, else one for
        the size of the output.
    """
    values = [(path, value_at(source.data, path)) for path in counts]
    numbers = [(path, value) for path, value in values if type(value) is int]
    too_many = [(path, dotted(path), count) for path, count in numbers if count > MOST_PODS]
    replicas = [(path, count) for path, count in numbers if path[-1] == "replicas"]
    total = sum(count for _, count in replicas)
    if total > MOST_PODS and not too_many:
        largest, _ = max(replicas, key=lambda role: role[1])
        too_many = [(largest, "the sum of all replicas", total)]
    problems: list[tuple[ValuePath, Diagnostic]] = []
    for path, what, count in too_many:
        facts = {"what": what, "count": count, "limit": MOST_PODS}
        problems.append((path, diagnose(codes.TOO_MANY_PODS, source.locate(path), **facts)))
    if problems:
        return problems
    # The output contains each template once for each of its Pods.
    sizes: dict[ValuePath, int] = {}
    for path in templates:
        count = value_at(source.data, (*path[:-1], "replicas"))
        if isinstance(count, int) and count > 1:
            sizes[path] = count * text_bytes(value_at(source.data, path))
    size = sum(sizes.values())
    if size > MOST_BYTES:
        path = max(sizes, key=lambda path: sizes[path])
        facts = {"size": f"{size / 2**30:.0f}", "limit": MOST_BYTES // 2**30}
        place = source.locate(path, key=True)
        problems.append((path, diagnose(codes.TOO_LARGE_OUTPUT, place, **facts)))
    return problems


def check_lists(job: Job) -> list[Diagnostic]:
    """Report a job whose Pods would each hold a list of all others, if the lists are too large.

    Such a list, as in TF_CONFIG, grows with the number of Pods and is repeated in each.
    """
    sizes: dict[str, int] = {}
    for role in job.roles:
        lists = [env for env in role.additions.env if isinstance(env, IndexedEnv)]
        of_pod = sum(len(part) for variable in lists for part in variable.parts)
        sizes[role.name] = len(role.members) * of_pod
    size = sum(sizes.values())
    if size <= _MOST_OF_VARIABLES:
        return []
    largest = max(job.roles, key=lambda role: sizes[role.name])
    place = largest.template.origin.locate()
    facts = {"size": f"{size / 2**30:.1f}", "limit": _MOST_OF_VARIABLES / 2**30}
    return [diagnose(codes.TOO_LARGE_OUTPUT, place, **facts)]
