"""Write the long form of catalogue entries, for a terminal and for `docs/diagnostics`."""

import re
import textwrap

from etcompile.diagnostics.catalogue import Rule
from etcompile.diagnostics.diagnostic import Diagnostic, diagnose


def page_of(code: str) -> str:
    return f"{code[:3].lower()}xxx.md"


def as_text(rule: Rule) -> str:
    shown = sample(rule)
    parts = [
        f"{rule.code} {rule.name} ({rule.severity.value})",
        f"{'Message, for example' if rule.sample else 'Message'}: {shown.message}",
        textwrap.fill(rule.why, 80, break_on_hyphens=False),
        "Example:\n\n" + textwrap.indent(rule.example, "    "),
    ]
    if shown.hint:
        parts.append(f"What to do: {shown.hint}")
    if rule.source:
        parts.append(f"Source: {rule.source}")
    return "\n\n".join(parts)


def as_markdown(rule: Rule) -> str:
    shown = sample(rule)
    example = shown.message
    fence = "``" if "`" in example else "`"
    parts = [
        f"{rule.severity.value.capitalize()} **{rule.name}**: {fence}{example}{fence}",
        _prose(rule.why),
        textwrap.indent(rule.example, "    "),
    ]
    if shown.hint:
        parts.append(f"Fix: {_prose(shown.hint)}")
    if rule.source.startswith("https://"):
        parts.append(f"Source: [{rule.source.split('/')[2]}]({rule.source})")
    elif rule.source:
        reference, _, section = rule.source.partition(" ")
        parts.append(f"Source: [{reference}](../{reference}) {section}".rstrip())
    return "\n\n".join(parts)


def sample(rule: Rule) -> Diagnostic:
    return diagnose(rule.code, None, **rule.sample)


def _prose(words: str) -> str:
    parts = re.split(r"(`[^`]*`)", words)
    return "".join(
        part if part.startswith("`") else re.sub(r"([\\*_<>\[\]|])", r"\\\1", part)
        for part in parts
    )
