"""The long form of the catalogue's entries, for a terminal and for `docs/diagnostics.md`."""

import re
import textwrap
from collections.abc import Iterable

from etcompile.diagnostics.catalogue import Rule
from etcompile.diagnostics.diagnostic import Diagnostic, diagnose

_STAGES = {
    "1": "Loading",
    "2": "The job's specification",
    "3": "Scale intents",
    "4": "Kubernetes objects",
    "5": "Output",
    "6": "Overlays",
    "7": "Plans",
    "8": "Clusters",
    "9": "Advice about training",
}
"""What the first digit of a code stands for."""

_PREAMBLE = """\
# Diagnostics

Everything that etcompile can say about an input. An error is refused: nothing is written. A
warning compiles, unless `--strict` is given. A code keeps its meaning for ever.

`etcompile explain CODE` prints one of these sections. A message with names and numbers is the one
for the example below it, or for an input like it. What is said of operators and other tools is as
[sources.md](sources.md) has it. This page is generated:
`etcompile explain --all -o markdown > docs/diagnostics.md`.
"""


def as_text(rule: Rule) -> str:
    """The long form of a rule for a terminal, without a line break at its end."""
    shown = sample(rule)
    parts = [
        f"{rule.code} {rule.name} ({rule.severity.value})",
        f"{_label(rule)}: {shown.message}",
        textwrap.fill(rule.why, 80, break_on_hyphens=False),
        "Example:\n\n" + textwrap.indent(rule.example, "    "),
    ]
    if shown.hint:
        parts.append(f"What to do: {shown.hint}")
    if rule.source:
        parts.append(f"Source: {rule.source}")
    if rule.opt_in:
        parts.append(f"Reported only with: etcompile check --select {rule.code}")
    return "\n\n".join(parts)


def as_markdown(rule: Rule) -> str:
    """The long form of a rule in GitHub's Markdown, without heading or final line break."""
    shown = sample(rule)
    example = shown.message
    fence = "``" if "`" in example else "`"
    parts = [
        f"{rule.severity.value.capitalize()} **{rule.name}**.",
        f"{_label(rule)}: {fence}{example}{fence}",
        _prose(rule.why),
        f"```\n{rule.example}\n```",
    ]
    if shown.hint:
        parts.append(f"What to do: {_prose(shown.hint)}")
    if rule.source.startswith("https://"):
        parts.append(f"Source: [{rule.source.split('/')[2]}]({rule.source})")
    elif rule.source:
        reference, _, section = rule.source.partition(" ")
        parts.append(f"Source: [{reference}]({reference}) {section}".rstrip())
    if rule.opt_in:
        parts.append(f"Reported only with `etcompile check --select {rule.code}`.")
    return "\n\n".join(parts)


def sample(rule: Rule) -> Diagnostic:
    """A diagnostic of a rule as it is reported for the rule's example, or for an input like it."""
    return diagnose(rule.code, None, **rule.sample)


def page(rules: Iterable[Rule]) -> str:
    """The documentation of rules, in the order of their codes: a table, then their sections."""
    table = ["| code | name | severity |", "|---|---|---|"]
    sections: list[str] = []
    stage = ""
    for rule in rules:
        link = f"[{rule.code}](#{rule.code.lower()})"
        table.append(f"| {link} | {rule.name} | {rule.severity.value} |")
        if rule.code[2] != stage:
            stage = rule.code[2]
            sections.append(f"## {stage}xxx: {_STAGES[stage]}\n")
        # The code alone: the heading is the address of the section.
        sections.append(f"### {rule.code}\n\n{as_markdown(rule)}\n")
    return "\n".join([_PREAMBLE, *table, "", *sections])


def _label(rule: Rule) -> str:
    return "Message, for example" if rule.sample else "Message"


def _prose(words: str) -> str:
    """Plain words with what Markdown would read as markup escaped, but for `code`."""
    parts = re.split(r"(`[^`]*`)", words)
    return "".join(
        part if part.startswith("`") else re.sub(r"([\\*_<>\[\]|])", r"\\\1", part)
        for part in parts
    )
