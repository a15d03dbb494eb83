"""`etcompile explain`: the long form of a diagnostic, or of all of them."""

from typing import Literal

import click
from msgspec import Struct

from etcompile.cli import completing
from etcompile.cli.commands import did_you_mean
from etcompile.cli.parameters import argument, option, subcommand
from etcompile.diagnostics import Rule, explanation
from etcompile.diagnostics.catalogue import RULES
from etcompile.diagnostics.spelling import probable_code


class ExplainOptions(Struct, frozen=True, kw_only=True):
    """The options of `etcompile explain`."""

    code: str | None = argument("[CODE]", shell_complete=completing.codes)
    all: bool = option(help="Explain all diagnostics.")
    output: Literal["text", "markdown"] = option(
        "-o", default="text", help="Text for a terminal, or Markdown."
    )


@subcommand("explain", ExplainOptions)
def command(_ctx: click.Context, options: ExplainOptions) -> None:
    """Explain an error or a warning: its reason, an example, and what to do.

    CODE is the code in brackets, such as ET2003, or the name, such as replicas-above-max.
    """
    if (options.code is None) is not options.all:
        raise click.UsageError("name one CODE, or pass --all")
    as_text, as_markdown = explanation.as_text, explanation.as_markdown
    try:
        if options.code is not None:
            rule = _rule(options.code)
            click.echo(as_text(rule) if options.output == "text" else as_markdown(rule))
            return
        rules = sorted(RULES.values(), key=lambda rule: rule.code)
        if options.output == "text":
            click.echo("\n\n\n".join(map(as_text, rules)))
        else:
            click.echo(explanation.page(rules), nl=False)
    except explanation.NoSampleError as error:
        raise click.UsageError(str(error)) from error


def _rule(code: str) -> Rule:
    wanted = code.strip().lower()
    rule = next((r for r in RULES.values() if wanted in (r.code.lower(), r.name)), None)
    if rule is None:
        meant = probable_code(code, RULES)
        names = [rule.name for rule in RULES.values()]
        near = f" Did you mean '{meant}'?" if meant else did_you_mean(code, names)
        problem = f"'{code}' is not a diagnostic; the codes are {min(RULES)} to {max(RULES)}.{near}"
        raise click.BadParameter(problem, param_hint="CODE")
    return rule
