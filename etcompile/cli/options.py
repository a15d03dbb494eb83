"""Declare the options that several commands share, in groups, and convert them.

Every setting of `etcompile.toml` is a field of one of these groups (`etcompile.cli.command_line`).
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from click.core import ParameterSource
from msgspec import Struct

from etcompile.cli import completion
from etcompile.cli.command_line import Paths, argument, converted, option, setting
from etcompile.diagnostics.output import Format
from etcompile.k8s.names import is_label
from etcompile.model import GANGS, PROFILES, Profile, SecretMode, Settings
from etcompile.model.settings import Services, secret_mode

if TYPE_CHECKING:
    from etcompile.compiler import Options
    from etcompile.kubeapi import Cluster
    from etcompile.plan.ignore_differences import Ignored
    from etcompile.plan.scope import Rights

FOLDER = f"{__name__}.folder"
"""Key in `ctx.meta` of the folder of the configuration file."""
_DEFAULTS = Settings()
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def duration(value: str) -> float:
    """Return the seconds of `90s`, `10m`, `1h30m` or `90`; 0 is no limit."""
    if not re.fullmatch(r"\d+|(\d+[smhd])+", value):
        raise ValueError(f"'{value}' is not a duration; write 90s, 10m or 1h30m")
    parts = re.findall(r"(\d+)(\D?)", value)
    return float(sum(int(number) * _UNITS[unit] for number, unit in parts))


def namespace_name(value: str) -> str:
    if not is_label(value):
        raise ValueError(f"'{value}' is not a valid namespace")
    return value


def _minor_version(value: str) -> str:
    """Return the version of a schema: 1.34 for v1.34.4, which a server reports."""
    from etcompile.check import kubernetes

    version = ".".join(value.removeprefix("v").split(".")[:2])
    known = kubernetes.versions()
    if version not in known:
        raise ValueError(f"{version} is not known; use {known[0]} to {known[-1]}")
    return version


def _dlrover_version(value: str) -> str:
    if not re.fullmatch(r"v?\d{1,3}\.\d{1,3}(\.\d{1,3})?", value):
        raise ValueError(f"'{value}' is not a version such as 0.6.1")
    return value


def _profiles(values: tuple[Profile, ...]) -> tuple[Profile, ...]:
    """Return the tools in a fixed order: that of the flags must not change the stored job."""
    return tuple(profile for profile in PROFILES if profile in values and profile != "plain")


def _text(name: str, read: Callable[[str], str | None] = lambda text: text or None) -> Any:

    def checked(value: str) -> str | None:
        text = read(value)
        if text not in (None, getattr(_DEFAULTS, name)):
            from etcompile.compiler.choices import refusal

            if problem := refusal(name, text):
                raise ValueError(problem)
        return text

    return converted(checked)


def _prices(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if not re.fullmatch(r"[^=]+=\d+(\.\d+)?", value):
            raise ValueError(f"'{value}' is no price; write RESOURCE=PRICE: nvidia.com/gpu=2.50")
    return values


def _codes(values: tuple[str, ...]) -> tuple[str, ...]:
    if not values:
        return ()
    from etcompile.diagnostics.suppression import codes_of, option_problems

    if words := [f"{problem.message}; {problem.hint}" for problem in option_problems(values)]:
        raise ValueError("; ".join(words))
    return codes_of(values)


def _patterns(values: tuple[str, ...]) -> tuple[str, ...]:
    from etcompile.load.access import Exclude

    Exclude(values).matches(".")
    return values


PATHS = argument("PATH...", cls=Paths, type=click.Path())
OPTIONAL_PATHS = argument("[PATH...]", cls=Paths, required=False, type=click.Path())
JOB = argument("JOB")
IGNORE = setting(metavar="CODE", callback=converted(_codes), shell_complete=completion.codes)
KUBERNETES_VERSION = setting(
    default=_DEFAULTS.kubernetes_version,
    metavar="V",
    hidden=True,
    callback=converted(_minor_version),
)
LIVE_NAMESPACE = option("-n", metavar="NS", help="Namespace.  [default: that of the context]")
SET_NAME = option(
    "--set",
    metavar="NAME",
    help="Name of the set of jobs that the PATHs are. A job that was applied with it and is no"
    " longer declared is pruned.  [default: the folder, if every PATH is one]",
)


class ReportOptions(Struct, frozen=True, kw_only=True):
    """How to report errors and warnings.

    `ignore` and `strict` are options of commands that report warnings.
    """

    form: Format = setting("--output-format", default="text", per_call=True)
    ignore: tuple[str, ...] = ()
    color: Literal["auto", "always", "never"] = setting(default="auto")
    quiet: bool = setting("-q", per_call=True)
    strict: bool = False


class SettingOptions(ReportOptions, frozen=True, kw_only=True):
    namespace: str | None = setting(
        "-n", metavar="NS", per_call=True, callback=converted(namespace_name)
    )
    overlays: tuple[str, ...] = setting(
        "--overlay", metavar="FILE", is_file=True, per_call=True, shell_complete=completion.overlays
    )
    runtimes: tuple[str, ...] = setting(metavar="PATH", is_file=True, type=click.Path())
    kubernetes_version: str = KUBERNETES_VERSION
    secret: SecretMode = setting(
        default=str(_DEFAULTS.secret), metavar="MODE", callback=converted(secret_mode)
    )
    services: Services = setting(default=_DEFAULTS.services, hidden=True)
    templates: Path | None = setting(
        metavar="DIR",
        hidden=True,
        is_file=True,
        danger="a template is a program",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
    )
    init_image: str | None = setting(metavar="IMAGE", hidden=True, callback=_text("init_image"))
    kubectl_image: str | None = setting(
        default=_DEFAULTS.kubectl_image,
        metavar="IMAGE",
        hidden=True,
        callback=_text("kubectl_image"),
    )
    cluster_domain: str = setting(
        default=_DEFAULTS.cluster_domain,
        metavar="DOMAIN",
        hidden=True,
        callback=_text("cluster_domain", lambda domain: domain.strip(".")),
    )
    profiles: tuple[Profile, ...] = setting("--profile", callback=converted(_profiles))
    gang: str = setting(default=_DEFAULTS.gang, type=click.Choice(GANGS))
    gang_scheduler: str | None = setting(
        metavar="NAME", hidden=True, callback=_text("gang_scheduler")
    )
    run: str | None = setting(metavar="ID|auto", callback=_text("run"))
    allow_plain_secrets: bool = setting(hidden=True, danger="it lets Secrets pass")
    allow_empty: bool = setting()
    ignore_managed_by: bool = setting(hidden=True)
    skip_managed_by: bool = setting(hidden=True)
    dlrover_version: str | None = setting(
        metavar="VERSION", hidden=True, callback=converted(_dlrover_version)
    )
    exclude: tuple[str, ...] = setting(
        metavar="PATTERN", hidden=True, callback=converted(_patterns)
    )
    strict: bool = setting()
    ignore: tuple[str, ...] = IGNORE
    environment: str | None = option(
        metavar="NAME", help="Environment in the configuration file whose settings apply."
    )
    config: tuple[str, ...] = option(
        metavar="FILE|KEY=VALUE",
        type=click.Path(),
        help="Configuration file, or a setting that overrides the file's, such as"
        " gang=volcano. May be repeated.  [default: the nearest etcompile.toml above the first"
        " PATH, or pyproject.toml with a table tool.etcompile, up to the root of the repository]",
    )
    isolated: bool = option(help="Read no configuration file.")


class CompileOptions(SettingOptions, frozen=True, kw_only=True):
    paths: tuple[str, ...] = PATHS


class LayoutOptions(Struct, frozen=True, kw_only=True):
    split: bool = setting(per_call=True)
    layout: Literal["jobs", "staged"] = setting(default="jobs", per_call=True)


class CapacityOptions(Struct, frozen=True, kw_only=True):
    """The cluster that the jobs must fit, and the prices of its resources."""

    capacity: str | None = setting(
        metavar="FILE|cluster[:CONTEXT]", is_file=True, type=click.Path()
    )
    prices: tuple[str, ...] = setting(
        "--price", metavar="RESOURCE=PRICE", hidden=True, callback=converted(_prices)
    )


class RepositoryOptions(Struct, frozen=True, kw_only=True):
    """Settings of the file that are options of no command."""

    repository_name: str | None = setting(hidden=True)


class Connection(Struct, frozen=True, kw_only=True):
    context: str | None = option(
        metavar="NAME",
        shell_complete=completion.contexts,
        help="Context of the kubeconfig.  [default: the current context]",
    )
    kubeconfig: Path | None = option(
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Path of the kubeconfig.  [default: $KUBECONFIG, else ~/.kube/config]",
    )

    def connect(self, namespace: str | None = None, **how: Any) -> "Cluster":
        """Connect to the cluster; the arguments are those of `kubeapi.connect`."""
        from etcompile.kubeapi import connect

        return connect(self.context, namespace, self.kubeconfig, **how)


class ClusterOptions(Connection, frozen=True, kw_only=True):
    output: Literal["text", "json"] = option(
        "-o",
        default="text",
        help="Progress as text for people, or as one JSON event per line for programs.",
    )
    concurrency: int = setting(default=32, metavar="N", type=click.IntRange(1, 256))


class RightsOptions(Struct, frozen=True, kw_only=True):
    prune: bool = option(help="Delete objects that are no longer in the files.")
    replace: bool = option(help="Delete and recreate objects whose changed fields are immutable.")
    replace_data: tuple[str, ...] = option(
        metavar="NAME",
        help="Replace this object although it holds data: NAME, KIND/NAME or NAMESPACE/KIND/NAME."
        " May be repeated.",
    )
    adopt: bool = option(help="Take over objects that other people or tools created.")
    take_ownership: tuple[str, ...] = option(
        metavar="MANAGER", help="Change fields that this field manager owns. May be repeated."
    )
    ignore_differences: str | None = setting(
        metavar="FILE", is_file=True, type=click.Path(exists=True, dir_okay=False)
    )
    targets: tuple[str, ...] = option(
        "--target",
        metavar="NAME",
        help="Limit the run to this object: NAME, KIND/NAME or NAMESPACE/KIND/NAME. May be"
        " repeated.",
    )

    def rights(self) -> "Rights":
        """Return the rights of a plan.

        Raises:
            click.BadParameter: the file of `--ignore-differences` cannot be read.
        """
        from etcompile.load import load
        from etcompile.plan.ignore_differences import IgnoreError, ignored
        from etcompile.plan.scope import Rights

        rules: list[Ignored] = []
        if self.ignore_differences is not None:
            hint = "--ignore-differences"
            loaded = load([self.ignore_differences])
            for diagnostic in loaded.diagnostics:
                problem = f"{diagnostic.location}: {diagnostic.message}"
                raise click.BadParameter(problem, param_hint=hint)
            for document in loaded.documents:
                try:
                    rules += ignored(document.data)
                except IgnoreError as error:
                    problem = f"{document.locate(error.path)}: {error.problem}"
                    raise click.BadParameter(problem, param_hint=hint) from error
        return Rights(
            replace=self.replace,
            replace_data=frozenset(self.replace_data),
            adopt=self.adopt,
            prune=self.prune,
            take_ownership=frozenset(self.take_ownership),
            ignored=tuple(rules),
        )


SETTINGS = (
    *(CompileOptions, LayoutOptions, CapacityOptions, ClusterOptions),
    *(RightsOptions, RepositoryOptions),
)
"""The groups that together contain every setting of the configuration file."""


def compiler_options(options: SettingOptions) -> "Options":
    from etcompile.compiler import Options
    from etcompile.load.access import Exclude, Limits

    settings = {name: getattr(options, name) for name in Settings.__struct_fields__}
    names = {*SettingOptions.__struct_fields__} & {*Options.__struct_fields__}
    chosen = {name: getattr(options, name) for name in names}
    named, declared = explicit(), explicit(in_file=True)
    folder = "." if "exclude" in named else click.get_current_context().meta.get(FOLDER, ".")
    limits = Limits(exclude=Exclude(options.exclude, folder))
    everything = Settings(**settings)
    return Options(settings=everything, explicit=named, chosen=declared, limits=limits, **chosen)


def explicit(*, in_file: bool = False) -> frozenset[str]:
    """Return the names of options on the command line; with those of the file if `in_file`."""
    context = click.get_current_context()
    unset = {ParameterSource.DEFAULT, *(() if in_file else (ParameterSource.DEFAULT_MAP,))}
    return frozenset(
        name for name in context.params if context.get_parameter_source(name) not in unset
    )
