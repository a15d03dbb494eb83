"""The sections under which `--help` lists the options of a command.

A command that compiles has about thirty options. A table says which belong together, the same for
every command; what it does not name comes last.
"""

from collections.abc import Iterator

import click

from etcompile.cli.usage import Command

_SECTIONS = {
    "Input": (
        "--filename",
        "--namespace",
        "--overlay",
        "--runtimes",
        "--templates",
        "--set",
        "--beside",
        "--allow-empty",
        "--job",
    ),
    "Configuration": ("--environment", "--config", "--isolated"),
    "Output": (
        *("--output", "--output-dir", "--archive", "--oci-layout", "--plan"),
        *("--split", "--layout", "--check"),
        *("--run", "--source", "--revision", "--previous"),
        "--exit-zero",
    ),
    "Changes": (
        *("--against", "--dry-run", "--force", "--prune", "--replace"),
        *("--replace-data", "--adopt", "--ignore-differences", "--target", "--yes"),
        *(
            "--take-ownership",
            "--to",
            "--add",
            "--remove",
            "--pods",
            "--kind",
            "--in-place",
            "--apply",
        ),
    ),
    "Corrections": ("--fix", "--unsafe-fixes", "--diff"),
    "Waiting": ("--wait", "--timeout", "--drain"),
    "Cluster": ("--context", "--kubeconfig", "--concurrency"),
    "Kubernetes": (
        *("--kubernetes-version", "--services", "--cluster-domain"),
        *("--init-image", "--kubectl-image"),
    ),
    "Gang scheduling": ("--gang", "--gang-scheduler"),
    "Secrets": ("--secret", "--allow-plain-secrets"),
    "GitOps": ("--profile",),
    "Operators": ("--ignore-managed-by", "--skip-managed-by", "--dlrover-version"),
    "Diagnostics": (
        *("--strict", "--ignore", "--select"),
        *("--output-format", "--color", "--quiet", "--verbose"),
    ),
}
"""The options by section, both in the order in which they are shown."""

OTHER = "Other options"


class SectionedCommand(Command):
    """A command whose help has its options in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, each under the title of its section."""
        shown = {
            param: record
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx))
        }
        for title in (*_SECTIONS, OTHER):
            listed = [
                (_place(param), record)
                for param, record in shown.items()
                if section_of(param) == title
            ]
            if listed:
                with formatter.section(title):
                    formatter.write_dl([record for _, record in sorted(listed)])


def section_of(param: click.Parameter) -> str:
    """The title of the section that an option belongs to."""
    return next((title for title, names in _SECTIONS.items() if _in(param, names)), OTHER)


def _in(param: click.Parameter, names: tuple[str, ...]) -> bool:
    return any(option in names for option in _long(param))


def _place(param: click.Parameter) -> int:
    names = _SECTIONS.get(section_of(param), ())
    return min((names.index(option) for option in _long(param) if option in names), default=0)


def _long(param: click.Parameter) -> Iterator[str]:
    return (option for option in param.opts if option.startswith("--"))
