"""Explain a diagnostic, or all of them (`etcompile explain`)."""

import click

from etcompile.cli import completion
from etcompile.cli.command_line import HELP, Command, did_you_mean
from etcompile.diagnostics import RULES, rule_text
from etcompile.diagnostics.catalogue import codes_by_name
from etcompile.diagnostics.spelling import probable_code


@click.command("explain", cls=Command, context_settings=HELP)
@click.argument("code", metavar="[CODE]", required=False, shell_complete=completion.codes)
@click.option("--all", "every", is_flag=True, help="Explain all diagnostics.")
def command(code: str | None, every: bool) -> None:
    """Explain an error or a warning: its reason, an example, and what to do.

    CODE is the code in brackets, such as ET2003, or the name, such as replicas-above-max. Without
    one, all codes are listed.
    """
    if code is not None and every:
        raise click.UsageError("name one CODE, or pass --all")
    if code is not None:
        name = code.strip()
        rule = RULES.get(codes_by_name().get(name.lower(), name.upper()))
        if rule is None:
            meant = probable_code(code, RULES)
            near = f" Did you mean '{meant}'?" if meant else did_you_mean(code, codes_by_name())
            known = f"the codes are {min(RULES)} to {max(RULES)}.{near}"
            problem = f"'{code}' is not a diagnostic; {known}"
            raise click.BadParameter(problem, param_hint="CODE")
        click.echo(rule_text.as_text(rule))
    elif not every:
        click.echo("\n".join(f"{rule.code}  {rule.name}" for rule in RULES.values()))
    else:
        click.echo("\n\n\n".join(rule_text.as_text(rule) for rule in RULES.values()))
