"""The variables of a container: its template's, then the job's, each name once.

The source operators append theirs, so that a name that a template has too stands twice and its
last entry counts (reference/et-operator.md 2.5, item 3; reference/training-operator.md 2.2 and 7,
defect 26; reference/mpi-operator-v2.md 3.5; reference/dlrover.md 3.2). Server-side apply refuses
such a list. Apart from the Pods, because the earlier entry cannot simply go: what stands between
the two may refer to it as `$(NAME)`, and must get what it got.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

Variables = Sequence[Mapping[str, Any]]

_SYNTAX = re.compile(r"\$\$|\$\(([^)]*)\)|\$")
"""An escaped dollar, a reference, or a dollar that stays: as the kubelet reads a value."""
_KEPT = "ETCOMPILE_TEMPLATE_"


def merged_variables(given: Variables, ours: Variables) -> list[Mapping[str, Any]]:
    """The variables of a container, which come to what `[*given, *ours]` comes to.

    The kubelet goes through the list in order. A reference in a value is to what stood before it;
    one to nothing known stays as it is written; `$$` is a dollar; the last entry of a name counts.

    Args:
        given: The template's, each name once.
        ours: The job's, each name once; they refer to each other only, to what stands before.

    Returns:
        The list with each name once. A reference to an entry that was overridden is replaced by
        the text of that entry. Where its text would not mean the same there, or it has none of its
        own, as with a key of a Secret, the entry stays under another name.
    """
    overridden = {env["name"] for env in ours}.intersection(env["name"] for env in given)
    if not overridden:
        return [*given, *ours]
    return [*_without(given, overridden), *ours]


def _without(given: Variables, overridden: Collection[str]) -> Iterator[Mapping[str, Any]]:
    wanted = {name for env in given for name in _referred(env) if name != env["name"]}
    texts: dict[str, str] = {}
    names = {env["name"] for env in given}
    # What an entry cannot refer to, but what refers to the entry might.
    later = names - {*overridden}
    for env in given:
        name = env["name"]
        made = _rewritten(env, texts)
        later.discard(name)
        if name not in overridden:
            yield made
        elif name in wanted and ("valueFrom" in env or later & {*_referred(env)}):
            kept = _free(name, names)
            texts[name] = f"$({kept})"
            yield {**made, "name": kept}
        else:
            texts[name] = _SYNTAX.sub(_complete, str(made.get("value") or ""))


def _referred(env: Mapping[str, Any]) -> Iterator[str]:
    """The names that a variable's value refers to."""
    value = env.get("value")
    if isinstance(value, str) and "$(" in value:
        yield from (match[1] for match in _SYNTAX.finditer(value) if match[1] is not None)


def _rewritten(env: Mapping[str, Any], texts: Mapping[str, str]) -> Mapping[str, Any]:
    """A variable with references to overridden entries replaced by their texts."""
    if texts.keys().isdisjoint(_referred(env)):
        return env
    return {**env, "value": _SYNTAX.sub(lambda m: texts.get(m[1], m[0]), env["value"])}


def _complete(match: re.Match[str]) -> str:
    """A piece of a text that means the same wherever the text is put: no dollar is left open."""
    return "$$" if match[0] == "$" else match[0]


def _free(name: str, names: Collection[str]) -> str:
    kept = f"{_KEPT}{name}"
    while kept in names:
        kept += "_"
    return kept
