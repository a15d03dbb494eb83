"""Which optional advice a run reports, because `--select` names its code.

A rule that is right in few clusters only is off until it is selected, as with ruff.
"""

from collections.abc import Collection, Iterable

from etcompile.diagnostics import codes
from etcompile.diagnostics.catalogue import RULES
from etcompile.diagnostics.diagnostic import Diagnostic, diagnose
from etcompile.diagnostics.spelling import probable_code
from etcompile.diagnostics.suppression import codes_of


def selectable() -> tuple[str, ...]:
    """The codes that may be selected, in order."""
    return tuple(sorted(code for code, rule in RULES.items() if rule.opt_in))


def unheard(*, linted: bool, selected: Collection[str]) -> frozenset[str]:
    """The codes of advice that a run does not check.

    Args:
        linted: Whether the run checks for advice at all.
        selected: The codes of `--select`.
    """
    advice = (code for code in RULES if code.startswith("ET9"))
    return frozenset(
        code for code in advice if not linted or (RULES[code].opt_in and code not in selected)
    )


def problem(code: str) -> tuple[str, str] | None:
    """Why a code cannot be selected, and what to do; None if it can."""
    known = selectable()
    if code.upper() in known:
        return None
    if code.upper() in RULES:
        return "it is always reported", "leave it out"
    near = probable_code(code, RULES)
    advice = f"did you mean {near}?" if near else f"choose among {', '.join(known)}"
    return "there is no diagnostic with this code", advice


def option_problems(selected: str | Iterable[str]) -> list[Diagnostic]:
    """An error for each code of an option that cannot be selected."""
    reasons = ((code, problem(code)) for code in codes_of(selected))
    return [
        diagnose(codes.OPTION, None, option=f"--select '{code}'", problem=why[0], advice=why[1])
        for code, why in reasons
        if why is not None
    ]
