"""`etcompile explain`: the long form of a diagnostic, or of all of them."""

import click

from etcompile.cli import completing
from etcompile.cli.structs import output_option
from etcompile.cli.suggestion import did_you_mean
from etcompile.cli.usage import Command
from etcompile.diagnostics import RULES, Rule, explanation
from etcompile.diagnostics.catalogue import codes_by_name
from etcompile.diagnostics.spelling import probable_code


@click.command("explain", cls=Command)
@click.argument("code", metavar="[CODE]", required=False, shell_complete=completing.codes)
@click.option("--all", "every", is_flag=True, help="Explain all diagnostics.")
@output_option(
    "text",
    "markdown",
    help="Text for a terminal, or Markdown.",
)
def command(code: str | None, output: str, *, every: bool) -> None:
    """Explain an error or a warning: its reason, an example, and what to do.

    CODE is the code in brackets, such as ET2003, or the name, such as replicas-above-max.
    """
    if (code is None) is not every:
        raise click.UsageError("name one CODE, or pass --all")
    if code is not None:
        explain = explanation.as_text if output == "text" else explanation.as_markdown
        click.echo(explain(_rule(code)))
    elif output == "text":
        click.echo("\n\n\n".join(explanation.as_text(rule) for rule in RULES.values()))
    else:
        click.echo(explanation.page(RULES.values()), nl=False)


def _rule(code: str) -> Rule:
    wanted = code.strip()
    rule = RULES.get(codes_by_name().get(wanted.lower(), wanted.upper()))
    if rule is None:
        meant = probable_code(code, RULES)
        near = f" Did you mean '{meant}'?" if meant else did_you_mean(code, codes_by_name())
        problem = f"'{code}' is not a diagnostic; the codes are {min(RULES)} to {max(RULES)}.{near}"
        raise click.BadParameter(problem, param_hint="CODE")
    return rule
