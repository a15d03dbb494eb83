"""kapp: a change group for each wave of a job, and each after all that come before it."""

from etcompile.backend.gitops.situation import Situation, must_not_be_copied
from etcompile.k8s.objects import Object

_NO_COPY = "kapp.k14s.io/disable-original"


def annotations(value: Object, wave: int, situation: Situation) -> dict[str, str]:
    """What kapp should know of an object.

    A rule names every earlier wave and not only the last: kapp leaves unchanged objects out of
    its graph, so that a chain of rules could be broken in the middle (reference/gitops.md 4.1).
    """
    # Else kapp keeps a copy of it in an annotation, as kubectl does.
    large = {_NO_COPY: ""} if must_not_be_copied(value) else {}
    if situation.job is None:
        return large
    earlier = [number for number in situation.waves if number < wave]
    group = f"etcompile.dev/{situation.job}"
    rules = {
        f"kapp.k14s.io/change-rule.{place}": f"upsert after upserting {group}-{number}"
        for place, number in enumerate(earlier)
    }
    return {"kapp.k14s.io/change-group": f"{group}-{wave}", **rules, **large}
