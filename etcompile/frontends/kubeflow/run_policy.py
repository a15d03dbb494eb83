"""Move fields of a run policy from `spec` to `runPolicy`.

Older operators, and tools that still write for them, have these fields directly under `spec`, where
the Training Operator's API drops them.
"""

from collections.abc import Collection, Mapping

from etcompile.diagnostics import Source, ValuePath, codes, diagnose
from etcompile.frontends.kind import Prepared
from etcompile.k8s.path import mapping_at

FIELDS = frozenset(
    {
        *("activeDeadlineSeconds", "backoffLimit", "cleanPodPolicy", "managedBy"),
        *("schedulingPolicy", "suspend", "ttlSecondsAfterFinished"),
    }
)


def with_policy(source: Source, fields: Collection[str], operator: str) -> Prepared | None:
    """Move fields to the run policy; those that are already there take precedence.

    The names of the fields are those of the kind's schema (reference/training-operator.md 1.1,
    1.2). The document need not be valid.
    """
    spec = mapping_at(source.data, ("spec",))
    names = [name for name in spec if name in fields]
    before = spec.get("runPolicy", {})
    if not names or not isinstance(before, Mapping):
        return None
    moved = {name: spec[name] for name in names if name not in before}
    rest = {name: value for name, value in spec.items() if name not in names}
    policy: ValuePath = ("spec", "runPolicy")
    sources: dict[ValuePath, ValuePath] = {(*policy, name): ("spec", name) for name in moved}
    if not before:
        sources[policy] = ("spec", names[0])
    places = _listed([f"spec.{name} to spec.runPolicy.{name}" for name in moved])
    advice = [f"move {places}"] if moved else []
    left_out = {name: f"spec.runPolicy.{name} counts" for name in names if name not in moved}
    advice += [f"remove spec.{name}: {reason}" for name, reason in left_out.items()]
    is_one = len(names) == 1
    warning = diagnose(
        codes.MISPLACED_POLICY,
        source.locate(("spec", names[0]), key=True),
        fields=_listed([f"spec.{name}" for name in names]),
        verb="stands" if is_one else "stand",
        operator=operator,
        them="it" if is_one else "them",
        advice="; ".join(advice),
    )
    changes = (
        f"spec.{name} is left out: {left_out[name]}"
        if name in left_out
        else f"spec.{name} moves to spec.runPolicy.{name}"
        for name in names
    )
    data = {**source.data, "spec": {**rest, "runPolicy": {**before, **moved}}}
    return Prepared(data, sources, warning, tuple(changes))


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
