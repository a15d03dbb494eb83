"""What a message of the catalogue consists of.

Apart from the catalogue, which is long and which a run with nothing to report never reads.
"""

import enum

from msgspec import Struct


class Severity(enum.Enum):
    """How much a diagnostic weighs."""

    ERROR = "error"
    """The input is refused; nothing is written."""
    WARNING = "warning"
    """The input compiles; somebody should know this. Refused too under `--strict`."""


class Rule(Struct, frozen=True):
    """An entry of the catalogue.

    Args:
        code: `ET` and four digits.
        name: Short name in kebab case, for people and SARIF.
        severity: Error or warning.
        message: One line; facts in braces.
        hint: What to do; facts in braces; empty when the message says it all.
        why: The long form: what is behind the rule, for `etcompile explain`.
        example: A small input that provokes it, and what to write instead.
        source: Where the fact behind the rule is written: a URL, or a reference page and section;
            empty where the rule is ours.
        opt_in: It is told only where somebody selects it, because it is right in few clusters.
    """

    code: str
    name: str
    severity: Severity
    message: str
    hint: str
    why: str
    example: str
    source: str = ""
    opt_in: bool = False
