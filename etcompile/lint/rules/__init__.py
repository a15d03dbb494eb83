"""Every rule, a module each; there is no list to edit.

A module names its `CODE` and has a function `findings` from a job to warnings. Why a rule is there,
where that is written, and whether it must be asked for stands in `diagnostics/catalogue.yaml`.
"""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterable

from msgspec import Struct

from etcompile.diagnostics import RULES, Diagnostic
from etcompile.lint.subject import LintedJob


class LintRule(Struct, frozen=True):
    """A rule of advice.

    Args:
        code: Its code in the catalogue.
        findings: What it says of a job.
        opt_in: It is only asked where somebody selects it.
    """

    code: str
    findings: Callable[[LintedJob], Iterable[Diagnostic]]
    opt_in: bool


@functools.cache
def rules() -> tuple[LintRule, ...]:
    """All rules, in the order of their codes."""
    modules = (importlib.import_module(f"{__name__}.{name}") for name in modules_of_rules())
    found = (
        LintRule(module.CODE, module.findings, RULES[module.CODE].opt_in) for module in modules
    )
    return tuple(sorted(found, key=lambda rule: rule.code))


def modules_of_rules() -> list[str]:
    """The names of the modules of this package."""
    return [module.name for module in pkgutil.iter_modules(__path__)]
