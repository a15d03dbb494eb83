"""`etcompile explain`: the long form of a diagnostic."""

import textwrap

import click

from etcompile.diagnostics import RULES, Rule


@click.command("explain")
@click.argument("code", metavar="CODE")
def command(code: str) -> None:
    """Explain a diagnostic: what is behind it, and an example.

    CODE is what stands in brackets, such as ET2003, or its name, such as replicas-above-max.
    """
    wanted = code.strip().lower()
    rule = next((r for r in RULES.values() if wanted in (r.code.lower(), r.name)), None)
    if rule is None:
        known = f"{next(iter(RULES))} to {next(reversed(RULES))}"
        raise click.BadParameter(f"'{code}' is no diagnostic; there are {known}", param_hint="CODE")
    click.echo(_long_form(rule))


def _long_form(rule: Rule) -> str:
    parts = [
        f"{rule.code} {rule.name} ({rule.severity.value})",
        f"Message: {rule.message}",
        textwrap.fill(rule.why, 80, break_on_hyphens=False),
        "Example:\n\n" + textwrap.indent(rule.example, "    "),
    ]
    if rule.hint.strip("{}") not in ("", "advice"):
        parts.append(f"What to do: {rule.hint}")
    return "\n\n".join(parts)
