"""`etcompile explain`: the long form of a diagnostic, or of all of them."""

import click

from etcompile.cli import completing
from etcompile.diagnostics import RULES, Rule, explanation


@click.command("explain")
@click.argument("code", metavar="[CODE]", required=False, shell_complete=completing.codes)
@click.option("--all", "every", is_flag=True, help="Explain all diagnostics.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown"]),
    default="text",
    show_default=True,
    help="For the terminal, or for a page.",
)
def command(code: str | None, form: str, *, every: bool) -> None:
    """Explain a diagnostic: what is behind it, and an example.

    CODE is what stands in brackets, such as ET2003, or its name, such as replicas-above-max.
    """
    if (code is None) is not every:
        raise click.UsageError("name one CODE, or pass --all")
    if code is not None:
        explain = explanation.as_text if form == "text" else explanation.as_markdown
        click.echo(explain(_rule(code)))
    elif form == "text":
        click.echo("\n\n\n".join(explanation.as_text(rule) for rule in _in_order()))
    else:
        click.echo(explanation.page(_in_order()), nl=False)


def _rule(code: str) -> Rule:
    wanted = code.strip().lower()
    rule = next((r for r in RULES.values() if wanted in (r.code.lower(), r.name)), None)
    if rule is None:
        known = f"{min(RULES)} to {max(RULES)}"
        raise click.BadParameter(f"'{code}' is no diagnostic; there are {known}", param_hint="CODE")
    return rule


def _in_order() -> list[Rule]:
    return sorted(RULES.values(), key=lambda rule: rule.code)
