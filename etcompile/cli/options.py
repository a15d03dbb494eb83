"""Options that several commands share, and what they turn into."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from etcompile.compiler import Options
from etcompile.diagnostics import Diagnostic, Severity, has_errors
from etcompile.model import SecretMode, Settings

REFUSED = 2
"""Exit code: usage or refused input."""

_DEFAULTS = Settings()

_COMPILE = (
    click.argument("paths", metavar="PATH...", nargs=-1, required=True),
    click.option(
        "-n",
        "--namespace",
        metavar="NS",
        help="Namespace of documents that name none.",
    ),
    click.option(
        "--kubernetes-version",
        metavar="V",
        default=_DEFAULTS.kubernetes_version,
        show_default=True,
        help="Version of the cluster.",
    ),
    click.option(
        "--secret",
        metavar="MODE",
        default=str(_DEFAULTS.secret),
        show_default=True,
        help="ssh key pair: runtime (made in the cluster when the job is applied),"
        " existing:NAME, or external (External Secrets makes it).",
    ),
    click.option(
        "--services",
        type=click.Choice(["per-replica", "shared"]),
        default=_DEFAULTS.services,
        show_default=True,
        help="One headless Service per worker, or one per job.",
    ),
    click.option(
        "--templates",
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Folder of templates that replace ours of the same name.",
    ),
    click.option(
        "--init-image",
        metavar="IMAGE",
        help="Image of init containers.  [default: the job's own]",
    ),
    click.option(
        "--kubectl-image",
        metavar="IMAGE",
        default=_DEFAULTS.kubectl_image,
        show_default=True,
        help="Image that brings kubectl to a kubexec launcher; '' if its image has one.",
    ),
    click.option(
        "--cluster-domain",
        metavar="DOMAIN",
        default=_DEFAULTS.cluster_domain,
        show_default=True,
        help="DNS domain of the cluster.",
    ),
    click.option(
        "--allow-plain-secrets",
        is_flag=True,
        help="Let Secrets with data among the inputs pass.",
    ),
    click.option("--strict", is_flag=True, help="Refuse warnings too."),
)

_TALK = (
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Colour of diagnostics; NO_COLOR turns auto off.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors."),
)


def compile_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the paths and the options that steer a compilation, and those for talking."""
    for option in reversed((*_COMPILE, *_TALK)):
        command = option(command)
    return command


def options(given: dict[str, Any]) -> Options:
    """The compiler's options from the command line's.

    Raises:
        click.BadParameter: a value has the wrong form.
    """
    from etcompile.check import kubernetes

    version = given["kubernetes_version"].removeprefix("v")
    if version not in kubernetes.versions():
        known = f"{kubernetes.versions()[0]} to {kubernetes.versions()[-1]}"
        raise click.BadParameter(f"{version} is not known; {known} are", param_hint="version")
    return Options(
        namespace=given["namespace"],
        settings=Settings(
            services=given["services"],
            secret=_secret(given["secret"]),
            kubernetes_version=version,
            init_image=given["init_image"] or None,
            kubectl_image=given["kubectl_image"] or None,
            cluster_domain=given["cluster_domain"].strip("."),
        ),
        templates=given["templates"],
        allow_plain_secrets=given["allow_plain_secrets"],
    )


def _secret(mode: str) -> SecretMode:
    kind, _, name = mode.partition(":")
    if kind == "existing" and name:
        return SecretMode("existing", name)
    if mode == "runtime":
        return SecretMode("runtime")
    if mode == "external":
        return SecretMode("external")
    problem = f"'{mode}' is none of runtime, existing:NAME, external"
    raise click.BadParameter(problem, param_hint="--secret")


def tell(diagnostics: Sequence[Diagnostic], given: dict[str, Any]) -> None:
    """Writes diagnostics to standard error, as the options for talking want them."""
    if given["quiet"]:
        diagnostics = [one for one in diagnostics if one.severity is Severity.ERROR]
    if diagnostics:
        from etcompile.diagnostics.text import text

        click.echo(text(diagnostics, color=_color(given["color"])), err=True, nl=False, color=True)


def refuses(diagnostics: Sequence[Diagnostic], *, strict: bool) -> bool:
    """Whether the run is refused: for an error, or under `--strict` for anything."""
    return has_errors(diagnostics) or (strict and bool(diagnostics))


def _color(when: str) -> bool:
    if when == "auto":
        return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return when == "always"
