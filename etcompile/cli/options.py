"""Options that several commands share, and what they turn into."""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import click
import yaml  # noqa: F401 - early; see below
from click.core import ParameterSource
from msgspec import Struct

from etcompile.cli import completing
from etcompile.cli.structs import Decorator, adds
from etcompile.cli.suggestion import Choice
from etcompile.compiler import Options
from etcompile.diagnostics import Diagnostic, Severity, has_errors
from etcompile.diagnostics.output import FORMATS, SUPPRESSION_FORMS, Format
from etcompile.k8s.names import is_label
from etcompile.model import DLROVER_NEWEST, GANGS, PROFILES, Profile, SecretMode, Settings
from etcompile.model.settings import Services, secret_mode

# yaml compiles patterns when it is imported. Its first user stands at the end of a long chain of
# imports; there, CPython 3.11 maps and unmaps memory at each call of that: 1,500 times.

_DEFAULTS = Settings()
OVERRIDES = f"{__name__}.overrides"
"""Where a command keeps the settings that its command line has instead of the file."""
"""Where a command keeps the codes that its configuration file ignores in some files."""


def minor_version(given: str) -> str:
    """The minor version of `--kubernetes-version`: a server says v1.34.4 of itself.

    Args:
        given: What the option has: `1.34`, with or without a `v` before it and a patch behind.

    Returns:
        The version that there is a schema of: `1.34`.

    Raises:
        click.BadParameter: there is none of it.
    """
    from etcompile.check import kubernetes

    version = ".".join(given.removeprefix("v").split(".")[:2])
    if version not in kubernetes.versions():
        known = f"{kubernetes.versions()[0]} to {kubernetes.versions()[-1]}"
        raise click.BadParameter(
            f"{version} is not known; use {known}", param_hint="--kubernetes-version"
        )
    return version


def _namespace(given: str | None) -> str | None:
    if given is not None and not is_label(given):
        raise click.BadParameter(f"'{given}' is not a valid namespace", param_hint="--namespace")
    return given


def _dlrover_version(given: str | None) -> str | None:
    if given is not None and not re.fullmatch(r"v?\d{1,3}\.\d{1,3}(\.\d{1,3})?", given):
        problem = f"'{given}' is not a version such as 0.6.1"
        raise click.BadParameter(problem, param_hint="--dlrover-version")
    return given


def _secret(mode: str) -> SecretMode:
    try:
        return secret_mode(mode)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--secret") from error


def _checked(
    check: Callable[[Any], object],
) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback that refuses the values that a check refuses, so that all are told at once."""

    def callback(ctx: click.Context, _param: click.Parameter, given: Any) -> Any:
        if not ctx.resilient_parsing:
            check(given)
        return given

    return callback


def kubernetes_version_option(*, hidden: bool = False) -> Decorator:
    """`--kubernetes-version`, whose value `minor_version` reads."""
    return click.option(
        "--kubernetes-version",
        cls=Setting,
        hidden=hidden,
        metavar="V",
        default=_DEFAULTS.kubernetes_version,
        show_default=True,
        help="Kubernetes version of the cluster.",
        callback=_checked(minor_version),
        shell_complete=completing.versions,
    )


class Setting(click.Option):
    """A setting of `etcompile.toml`; where it is hidden, `--config KEY=VALUE` is its only flag."""

    @property
    def key(self) -> str:
        """Its name in the file."""
        return max(self.opts, key=len).removeprefix("--")

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """A flag, unless it is hidden."""
        if not self.hidden:
            super().add_to_parser(parser, ctx)

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """The value, that of `--config KEY=VALUE` before that of the file."""
        value = ctx.meta.get(OVERRIDES, {}).get(self.key)
        if value is not None and self.name is not None:
            opts = {**opts, self.name: value.split(",") if self.multiple else value}
        return super().handle_parse_result(ctx, opts, args)


def file_only(*keep: str) -> Decorator:
    """Hides the settings of a command, but those to keep: they stand in the configuration file."""

    def hidden(command: Callable[..., Any]) -> Callable[..., Any]:
        for param in getattr(command, "__click_params__", ()):
            if isinstance(param, Setting) and param.key not in keep:
                param.hidden = True
        return command

    return hidden


concurrency_option = click.option(
    "--concurrency",
    cls=Setting,
    metavar="N",
    type=click.IntRange(1, 256),
    default=16,
    show_default=True,
    help="Number of parallel writes.",
)
ignore_differences_option = click.option(
    "--ignore-differences",
    cls=Setting,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Leave fields as they are that FILE names: ignoreDifferences as Argo CD has it, in a"
    " document of its own or in an Application.",
)


class _Paths(click.Argument):
    """PATHs, with the files of `-f` before them."""

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """The paths, however they are written."""
        if files := opts.get("filenames"):
            paths = opts.get("paths")
            opts = {**opts, "paths": (*files, *(paths if isinstance(paths, tuple) else ()))}
        return super().handle_parse_result(ctx, opts, args)


def paths_argument(*, required: bool) -> Decorator:
    """`PATH...`, and `-f FILE` as kubectl has it."""
    return adds(
        click.argument(
            "paths",
            cls=_Paths,
            metavar="PATH..." if required else "[PATH...]",
            nargs=-1,
            required=required,
            shell_complete=completing.files,
        ),
        click.option(
            "-f",
            "--filename",
            "filenames",
            metavar="FILE",
            multiple=True,
            expose_value=False,
            shell_complete=completing.files,
            help="Another PATH. May be repeated.",
        ),
    )


_COMPILE = (
    paths_argument(required=True),
    click.option(
        "-n",
        "--namespace",
        metavar="NS",
        callback=_checked(_namespace),
        shell_complete=completing.namespaces,
        help="Namespace of the jobs that do not name one.",
    ),
    click.option(
        "--overlay",
        "overlays",
        metavar="FILE",
        multiple=True,
        shell_complete=completing.overlays,
        help="Apply an overlay: a file, or dev, prod, resilient or spot. May be repeated; the order"
        " counts.",
    ),
    click.option(
        "--runtimes",
        cls=Setting,
        metavar="PATH",
        multiple=True,
        shell_complete=completing.files,
        help="File or folder of TrainingRuntimes and ClusterTrainingRuntimes that TrainJobs may"
        " name. May be repeated. Those of the input count before them, the ones that Trainer ships"
        " after them.",
    ),
    kubernetes_version_option(hidden=True),
    click.option(
        "--secret",
        cls=Setting,
        metavar="MODE",
        callback=_checked(_secret),
        shell_complete=completing.secrets,
        default=str(_DEFAULTS.secret),
        show_default=True,
        help="Where the ssh key pair comes from: runtime (apply or the watcher creates a Secret in"
        " the cluster), existing:NAME (a Secret that you created), external[:STORE/PATH] (External"
        " Secrets), csi:NAME (mounted from a vault), or encrypted in the output:"
        " sealed:[SCOPE:]CERT.pem (Sealed Secrets), sops:age1... (SOPS).",
    ),
    click.option(
        "--services",
        cls=Setting,
        hidden=True,
        type=Choice(["per-replica", "shared"]),
        default=_DEFAULTS.services,
        show_default=True,
        help="Create one headless Service per worker, or one per job.",
    ),
    click.option(
        "--templates",
        cls=Setting,
        hidden=True,
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Folder of templates that replace the built-in ones of the same name.",
    ),
    click.option(
        "--init-image",
        cls=Setting,
        hidden=True,
        metavar="IMAGE",
        help="Image of init containers.  [default: the image of the job]",
    ),
    click.option(
        "--kubectl-image",
        cls=Setting,
        hidden=True,
        metavar="IMAGE",
        default=_DEFAULTS.kubectl_image,
        show_default=True,
        help="Image that provides kubectl to a launcher that starts its workers with kubectl exec."
        " '' if the image of the launcher has kubectl.",
    ),
    click.option(
        "--cluster-domain",
        cls=Setting,
        hidden=True,
        metavar="DOMAIN",
        default=_DEFAULTS.cluster_domain,
        show_default=True,
        help="DNS domain of the cluster.",
    ),
    click.option(
        "--profile",
        "profiles",
        cls=Setting,
        type=Choice(PROFILES),
        multiple=True,
        help="Add the annotations that a GitOps tool needs. May be repeated.  [default: plain]",
    ),
    click.option(
        "--gang",
        cls=Setting,
        type=Choice(GANGS),
        default=_DEFAULTS.gang,
        show_default=True,
        help="Gang scheduler of the cluster, which starts all Pods of a job or none of them.",
    ),
    click.option(
        "--gang-scheduler",
        cls=Setting,
        hidden=True,
        metavar="NAME",
        help="schedulerName of the gang scheduler.  [default: the one of its installation guide]",
    ),
    click.option(
        "--run",
        cls=Setting,
        metavar="ID|auto",
        help="Run of jobs that name none in the annotation etcompile.dev/run: their Pods are called"
        " JOB-ID-worker-0. auto derives the ID from the spec.",
    ),
    click.option(
        "--allow-plain-secrets",
        cls=Setting,
        hidden=True,
        is_flag=True,
        help="Accept Secrets with plain data among the inputs.",
    ),
    click.option(
        "--allow-empty",
        cls=Setting,
        is_flag=True,
        help="Accept inputs without any object, once the last job has left them.",
    ),
    click.option(
        "--ignore-managed-by",
        cls=Setting,
        hidden=True,
        is_flag=True,
        help="Also compile jobs whose managedBy names another controller.",
    ),
    click.option(
        "--skip-managed-by",
        cls=Setting,
        hidden=True,
        is_flag=True,
        help="Leave jobs out that managedBy gives to MultiKueue, each with a warning.",
    ),
    click.option(
        "--dlrover-version",
        cls=Setting,
        hidden=True,
        metavar="VERSION",
        callback=_checked(_dlrover_version),
        help="Version of DLRover in the images of ElasticJobs."
        "  [default: the tag of the image, else {}.{}]".format(*DLROVER_NEWEST),
    ),
    click.option("--strict", cls=Setting, is_flag=True, help="Treat warnings as errors."),
    click.option(
        "--environment",
        metavar="NAME",
        help="Environment of the configuration file whose settings count.",
        shell_complete=completing.environments,
    ),
    click.option(
        "--config",
        metavar="FILE|KEY=VALUE",
        multiple=True,
        shell_complete=completing.files,
        help="Configuration file, or a setting that counts before the file's, such as gang=volcano."
        " May be repeated.  [default: the nearest etcompile.toml above the first PATH, or"
        " pyproject.toml with a table tool.etcompile, up to the root of the repository]",
    ),
    click.option("--isolated", is_flag=True, help="Read no configuration file."),
)


def _ignored(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> Any:
    """The codes of `--ignore`; only a warning's can be ignored."""
    if not given:
        return ()
    from etcompile.diagnostics.suppression import codes_of, problem

    codes = codes_of(given)
    if found := [f"{code}: {why[0]}; {why[1]}" for code in codes if (why := problem(code))]:
        raise click.BadParameter("; ".join(found))
    return codes


_TALK = (
    click.option(
        "--output-format",
        "form",
        type=Choice(FORMATS),
        default="text",
        show_default=True,
        help="Format of errors and warnings: for people, for scripts, for code scanners, for the"
        " log of a GitHub workflow, or for reviewdog. All but the first are what"
        " check writes to standard output; everything else goes to standard error.",
    ),
    click.option(
        "--ignore",
        cls=Setting,
        metavar="CODE",
        multiple=True,
        callback=_ignored,
        shell_complete=completing.warnings,
        help="Do not report this warning, such as ET2040, or several, separated by commas. May be"
        " repeated. In a file, write # etcompile: ignore[ET2040] on the line.",
    ),
    click.option(
        "--color",
        cls=Setting,
        type=Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Colour the output. auto colours on a terminal, unless NO_COLOR is set.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Report errors only."),
)


class TalkOptions(Struct, frozen=True, kw_only=True):
    """What `talk_options` adds, and whether warnings are errors where a command compiles."""

    form: Format
    ignore: tuple[str, ...]
    color: str
    quiet: bool
    strict: bool = False


class SettingOptions(TalkOptions, frozen=True, kw_only=True):
    """What `setting_options` adds."""

    namespace: str | None
    overlays: tuple[str, ...]
    runtimes: tuple[str, ...]
    kubernetes_version: str
    secret: str
    services: Services
    templates: Path | None
    init_image: str | None
    kubectl_image: str | None
    cluster_domain: str
    profiles: tuple[Profile, ...]
    gang: str
    gang_scheduler: str | None
    run: str | None
    allow_plain_secrets: bool
    allow_empty: bool
    ignore_managed_by: bool
    skip_managed_by: bool
    dlrover_version: str | None
    environment: str | None
    config: tuple[str, ...]
    isolated: bool


class CompileOptions(SettingOptions, frozen=True, kw_only=True):
    """What `compile_options` adds."""

    paths: tuple[str, ...]


compile_options = adds(*_COMPILE, *_TALK)
setting_options = adds(*_COMPILE[1:], *_TALK)


def file_setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`setting_options` of a command that compiles on the way to something else."""
    return file_only("ignore", "strict")(setting_options(command))


talk_options = adds(*_TALK)


def options(given: SettingOptions) -> Options:
    """The compiler's options from the command line's.

    Raises:
        click.BadParameter: a value has the wrong form.
    """
    return Options(
        namespace=_namespace(given.namespace),
        settings=Settings(
            services=given.services,
            secret=_secret(given.secret),
            kubernetes_version=minor_version(given.kubernetes_version),
            init_image=given.init_image or None,
            kubectl_image=given.kubectl_image or None,
            cluster_domain=given.cluster_domain.strip("."),
            profiles=_profiles(given.profiles),
            run=given.run or None,
            gang=given.gang,
            gang_scheduler=given.gang_scheduler or None,
        ),
        overlays=given.overlays,
        runtimes=given.runtimes,
        explicit=explicit(),
        templates=given.templates,
        allow_plain_secrets=given.allow_plain_secrets,
        allow_empty=given.allow_empty,
        ignore_managed_by=given.ignore_managed_by,
        skip_managed_by=given.skip_managed_by,
        dlrover_version=_dlrover_version(given.dlrover_version),
        ignore=given.ignore,
    )


def _profiles(given: Sequence[Profile]) -> tuple[Profile, ...]:
    """The tools in an order of their own: that of the flags must not change the stored job."""
    return tuple(profile for profile in PROFILES if profile in given and profile != "plain")


def explicit() -> frozenset[str]:
    """The options that somebody gave, which are named as the settings are."""
    context = click.get_current_context()
    default = (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
    return frozenset(
        name for name in context.params if context.get_parameter_source(name) not in default
    )


def tell(diagnostics: Sequence[Diagnostic], given: TalkOptions, *, are_data: bool = False) -> None:
    """Writes all diagnostics of a run, as the options for talking want them.

    Args:
        diagnostics: All of them: a form for machines is one document. Of those that are
            suppressed only the forms that have a word for it tell.
        given: The command line's options.
        are_data: They are what the command is for, so that machines find them on standard
            output.
    """
    form = given.form
    diagnostics = _marked(diagnostics, given.ignore)
    if given.quiet and not given.strict:
        diagnostics = [
            diagnostic for diagnostic in diagnostics if diagnostic.severity is Severity.ERROR
        ]
    if form not in SUPPRESSION_FORMS:
        diagnostics = [diagnostic for diagnostic in diagnostics if diagnostic.suppressed is None]
    if form == "text" and not diagnostics:
        return
    from etcompile.diagnostics.output import Audience, render, repository

    audience = Audience(colored(given.color, sys.stderr), repository(Path.cwd()))
    words = render(form, diagnostics, audience)
    if form == "text":
        click.echo(words, err=True, nl=False, color=True)
    else:
        stream = sys.stdout if are_data else sys.stderr
        # As bytes: what a machine reads is UTF-8, whatever the terminal's encoding.
        stream.buffer.write(words.encode())
        stream.flush()


def talks(given: TalkOptions) -> bool:
    """Whether a person reads, who may be told what was done."""
    return given.form == "text" and not given.quiet


def write(*texts: str, errors: str = "strict") -> None:
    """Writes to standard output as bytes, so that every terminal gets what a file would.

    Args:
        texts: What to write.
        errors: What becomes of a character that UTF-8 has not, as for `str.encode`.
    """
    for text in texts:
        sys.stdout.buffer.write(text.encode(errors=errors))
    sys.stdout.flush()


def counted(number: int, noun: str) -> str:
    """A number of things in words: `1 job`, `7 objects`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def refuses(diagnostics: Sequence[Diagnostic], given: TalkOptions) -> bool:
    """Whether the run is refused: for an error, or under `--strict` for any that is told."""
    if has_errors(diagnostics) or not given.strict:
        return has_errors(diagnostics)
    marked = _marked(diagnostics, given.ignore)
    return any(diagnostic.suppressed is None for diagnostic in marked)


def _marked(diagnostics: Sequence[Diagnostic], ignored: Sequence[str]) -> list[Diagnostic]:
    """The diagnostics, those marked that `--ignore` silences."""
    if not ignored:
        return [*diagnostics]
    from etcompile.diagnostics.suppression import by_option

    return [*by_option(diagnostics, ignored)]


def colored(when: str, stream: TextIO) -> bool:
    """Whether what goes to a stream is to be coloured, as `--color` wants it."""
    if when == "auto":
        return stream.isatty() and not os.environ.get("NO_COLOR")
    return when == "always"
