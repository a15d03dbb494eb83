"""Options that several commands share, and what they turn into."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

import click
from click.core import ParameterSource

from etcompile.cli import completing
from etcompile.compiler import Options
from etcompile.diagnostics import Diagnostic, Severity, has_errors
from etcompile.diagnostics.output import FORMATS
from etcompile.model import GANGS, PROFILES, Profile, SecretMode, Settings
from etcompile.model.settings import secret_mode

REFUSED = 2
"""Exit code: usage or refused input."""

_DEFAULTS = Settings()

_COMPILE = (
    click.argument(
        "paths", metavar="PATH...", nargs=-1, required=True, shell_complete=completing.files
    ),
    click.option(
        "-n",
        "--namespace",
        metavar="NS",
        help="Namespace of documents that name none.",
    ),
    click.option(
        "--overlay",
        "overlays",
        metavar="FILE",
        multiple=True,
        shell_complete=completing.overlays,
        help="Apply an overlay: a file, or dev, prod or spot; may be repeated, in order.",
    ),
    click.option(
        "--kubernetes-version",
        metavar="V",
        shell_complete=completing.versions,
        default=_DEFAULTS.kubernetes_version,
        show_default=True,
        help="Version of the cluster.",
    ),
    click.option(
        "--secret",
        metavar="MODE",
        shell_complete=completing.secrets,
        default=str(_DEFAULTS.secret),
        show_default=True,
        help="ssh key pair: runtime (a Secret made in the cluster, outside of render),"
        " existing:NAME, external[:STORE/PATH] (by External Secrets), csi:NAME (mounted from a"
        " vault), or encrypted in the output: sealed:[SCOPE:]CERT.pem, sops:age1...",
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
        "--profile",
        "profiles",
        type=click.Choice(PROFILES),
        multiple=True,
        help="Annotate for a tool that syncs the output; may be repeated.  [default: plain]",
    ),
    click.option(
        "--gang",
        type=click.Choice(GANGS),
        default=_DEFAULTS.gang,
        show_default=True,
        help="Gang scheduler of the cluster: it starts all Pods that a job needs, or none.",
    ),
    click.option(
        "--gang-scheduler",
        metavar="NAME",
        help="schedulerName by which Pods find it.  [default: its usual one]",
    ),
    click.option(
        "--run",
        metavar="ID|auto",
        help="Name the Pods JOB-ID-worker-0, for a run of its own; auto makes an ID of the spec.",
    ),
    click.option(
        "--allow-plain-secrets",
        is_flag=True,
        help="Let Secrets with data among the inputs pass.",
    ),
    click.option(
        "--ignore-managed-by",
        is_flag=True,
        help="Compile jobs that managedBy gives to another controller, too.",
    ),
    click.option(
        "--dlrover-version",
        metavar="VERSION",
        help="DLRover in the images of ElasticJobs.  [default: their tag's, else the newest]",
    ),
    click.option("--strict", is_flag=True, help="Refuse warnings too."),
)

_TALK = (
    click.option(
        "--format",
        "form",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help="Form of diagnostics: for people, scripts, code scanners or the log of a GitHub"
        " workflow. text goes to standard error; the others are what check writes to standard"
        " output, and all that other commands write to standard error.",
    ),
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


def setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the same options, to a command that takes its paths in a way of its own."""
    for option in reversed((*_COMPILE[1:], *_TALK)):
        command = option(command)
    return command


def talk_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options for talking alone."""
    for option in reversed(_TALK):
        command = option(command)
    return command


def options(given: dict[str, Any]) -> Options:
    """The compiler's options from the command line's.

    Raises:
        click.BadParameter: a value has the wrong form.
    """
    from etcompile.check import kubernetes

    # A server says v1.34.4 of itself; the schema is that of 1.34.
    version = ".".join(given["kubernetes_version"].removeprefix("v").split(".")[:2])
    if version not in kubernetes.versions():
        known = f"{kubernetes.versions()[0]} to {kubernetes.versions()[-1]}"
        raise click.BadParameter(
            f"{version} is not known; {known} are", param_hint="--kubernetes-version"
        )
    namespace = given["namespace"]
    if namespace is not None and not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", namespace):
        raise click.BadParameter(f"'{namespace}' is no namespace", param_hint="--namespace")
    return Options(
        namespace=given["namespace"],
        settings=Settings(
            services=given["services"],
            secret=_secret(given["secret"]),
            kubernetes_version=version,
            init_image=given["init_image"] or None,
            kubectl_image=given["kubectl_image"] or None,
            cluster_domain=given["cluster_domain"].strip("."),
            profiles=_profiles(given["profiles"]),
            run=given["run"] or None,
            gang=given["gang"],
            gang_scheduler=given["gang_scheduler"] or None,
        ),
        overlays=given["overlays"],
        explicit=_explicit(),
        templates=given["templates"],
        allow_plain_secrets=given["allow_plain_secrets"],
        ignore_managed_by=given["ignore_managed_by"],
        dlrover_version=_dlrover_version(given["dlrover_version"]),
    )


def _dlrover_version(given: str | None) -> str | None:
    if given is not None and not re.fullmatch(r"v?\d{1,3}\.\d{1,3}(\.\d{1,3})?", given):
        problem = f"'{given}' is no version such as 0.6.1"
        raise click.BadParameter(problem, param_hint="--dlrover-version")
    return given


def _profiles(given: Sequence[Profile]) -> tuple[Profile, ...]:
    """The tools in an order of their own: that of the flags must not change the stored job."""
    return tuple(profile for profile in PROFILES if profile in given and profile != "plain")


def _explicit() -> frozenset[str]:
    """The options that somebody gave, which are named as the settings are."""
    context = click.get_current_context()
    default = (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
    return frozenset(
        name for name in context.params if context.get_parameter_source(name) not in default
    )


def _secret(mode: str) -> SecretMode:
    try:
        return secret_mode(mode)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--secret") from error


def tell(
    diagnostics: Sequence[Diagnostic], given: dict[str, Any], *, are_data: bool = False
) -> None:
    """Writes all diagnostics of a run, as the options for talking want them.

    Args:
        diagnostics: All of them: a form for machines is one document.
        given: The command line's options.
        are_data: They are what the command is for, so that machines find them on standard
            output.
    """
    form = given["form"]
    if given["quiet"] and not given["strict"]:
        diagnostics = [one for one in diagnostics if one.severity is Severity.ERROR]
    if form == "text" and not diagnostics:
        return
    from etcompile.diagnostics.output import Audience, render, repository

    audience = Audience(colored(given["color"], sys.stderr), repository(Path.cwd()))
    words = render(form, diagnostics, audience)
    if form == "text":
        click.echo(words, err=True, nl=False, color=True)
    else:
        stream = sys.stdout if are_data else sys.stderr
        # As bytes: what a machine reads is UTF-8, whatever the terminal's encoding.
        stream.buffer.write(words.encode())
        stream.flush()


def talks(given: dict[str, Any]) -> bool:
    """Whether a person reads, who may be told what was done."""
    return given["form"] == "text" and not given["quiet"]


def refuses(diagnostics: Sequence[Diagnostic], *, strict: bool) -> bool:
    """Whether the run is refused: for an error, or under `--strict` for anything."""
    return has_errors(diagnostics) or (strict and bool(diagnostics))


def colored(when: str, stream: TextIO) -> bool:
    """Whether what goes to a stream is to be coloured, as `--color` wants it."""
    if when == "auto":
        return stream.isatty() and not os.environ.get("NO_COLOR")
    return when == "always"
