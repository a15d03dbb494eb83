"""`etcompile render`: job specifications to manifests, on standard output or in a folder."""

import contextlib
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from msgspec.structs import replace

from etcompile import emit
from etcompile.cli.commands import refuse_without
from etcompile.cli.configured import CompilingCommand, of
from etcompile.cli.options import CompileOptions, LayoutOptions, compiler_options, explicit
from etcompile.cli.parameters import option, subcommand
from etcompile.cli.reporting import colored, notices, refuses, report, write
from etcompile.compiler import Compilation, compile  # noqa: A004
from etcompile.exitcodes import DIFFERENT, REFUSED

if TYPE_CHECKING:
    from etcompile.diagnostics import Diagnostic


class _Folder(click.Path):
    """A path that somebody wrote down: an empty one would be the current directory."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if value in ("", "-"):
            named = "'-' would be a folder of that name" if value else "the name is empty"
            self.fail(f"{named}; leave -d out to write to standard output", param, ctx)
        return super().convert(value, param, ctx)


class RenderOptions(CompileOptions, frozen=True, kw_only=True):
    """The options of `etcompile render`."""

    output_dir: Path | None = option(
        "-d",
        metavar="DIR",
        type=_Folder(path_type=Path),
        help="Write a folder with a kustomization instead of a stream. Its content is replaced.",
    )
    output: Literal["yaml", "json", "name"] = option(
        "-o",
        default="yaml",
        help="Format of standard output: manifests, a List in JSON, or names of the form"
        " kind/name.",
    )
    folder: LayoutOptions
    check: bool = option(
        help="With -d: write nothing. Show which files are out of date; exit with 1 if any is."
    )
    force: bool = option(help="With -d: overwrite files that were edited by hand.")
    replaced: bool = option(
        "--replace",
        help="With -d: write changes that Kubernetes refuses on a live object, which you delete"
        " yourself.",
    )


@subcommand("render", RenderOptions, cls=CompilingCommand)
def command(ctx: click.Context, options: RenderOptions) -> None:
    """Compile job specifications to Kubernetes manifests.

    PATH is a file, a directory, a glob, or - for standard input. A ScaleOut or ScaleIn is applied
    to the job that it names; the order of the files does not matter.
    """
    output = options.output_dir
    if output is None:
        flags = {"check": options.check, "force": options.force, "replace": options.replaced}
        # The configuration file may say how a folder is laid out, without there being one.
        named = explicit()
        split = options.folder.split and "split" in named
        layout = options.folder.layout != "jobs" and "layout" in named
        refuse_without("-d DIR", split=split, **flags, layout=layout)
    elif options.output != "yaml":
        raise click.UsageError("-o is the format of standard output: leave out -d DIR")
    if options.check and (options.force or options.replaced):
        raise click.UsageError("--check writes nothing: leave out --force and --replace")
    chosen = compiler_options(options)
    # Before anything is read: that the output folder is not read would be reported first.
    if output is not None and (problem := _unusable(output, options)):
        report([problem], options)
        ctx.exit(REFUSED)
    compilation = compile(options.paths, replace(chosen, output=output))
    if output is not None and options.folder.layout == "jobs":
        compilation = _in_one_stage(compilation)
    if refuses(compilation.diagnostics, options):
        report(compilation.findings, options)
        ctx.exit(REFUSED)
    if output is None:
        report(compilation.findings, options)
        for text in _stream(compilation, options.output):
            write(text)
    else:
        files = output_files(compilation, options)
        ctx.exit((_check if options.check else _write)(compilation, output, files, options))


def _stream(compilation: Compilation, form: str) -> Iterable[str]:
    """What goes to standard output, as kubectl has it: `-o yaml`, `json` or `name`."""
    if form == "yaml":
        return emit.blocks(compilation.in_order(), compilation.sources)
    objects = compilation.in_order()
    if form == "json":
        items = {"apiVersion": "v1", "kind": "List", "items": [*objects]}
        return (f"{json.dumps(items, indent=4, ensure_ascii=False)}\n",)
    return (f"{_name(manifest)}\n" for manifest in objects)


def _name(manifest: Mapping[str, Any]) -> str:
    group = manifest["apiVersion"].rpartition("/")[0]
    kind = f"{manifest['kind']}.{group}".rstrip(".").lower()
    return f"{kind}/{manifest['metadata']['name']}"


def _in_one_stage(compilation: Compilation) -> Compilation:
    """The same, with what Flux has against a folder of one stage."""
    if "flux" not in compilation.settings.profiles:
        return compilation
    from etcompile.check.stages import unstaged

    groups = [(group.origin, group.objects) for group in compilation.groups]
    diagnostics = (*compilation.diagnostics, *unstaged(groups))
    return replace(compilation, diagnostics=diagnostics)


def _unusable(output: Path, options: RenderOptions) -> "Diagnostic | None":
    """Why the output folder cannot be used with these paths."""
    inputs = [Path(path) for path in options.paths if path != "-"]
    # What the system has against the folder is reported where it is touched.
    with contextlib.suppress(OSError, ValueError):
        return emit.refusal(output, inputs, reads_only=options.check)
    return None


def output_files(compilation: Compilation, options: RenderOptions) -> dict[str, str]:
    """The files of the output folder, its lock file among them.

    Args:
        compilation: What goes there.
        options: The layout, among others.
    """
    from etcompile._version import __version__
    from etcompile.compiler.stored import settings_value
    from etcompile.operations.declarations import job_title

    groups = [
        emit.Group(group.name, group.namespace, tuple(group.objects), group.sources)
        for group in compilation.groups
    ]
    staged = options.folder.layout == "staged"
    settings = settings_value(compilation.settings) | {"split": options.folder.split}
    settings |= {"layout": options.folder.layout} if staged else {}
    if options.namespace:
        settings["namespace"] = options.namespace
    runs = {job_title(g.namespace, g.name): g.run for g in compilation.groups if g.run}
    settings |= {"runs": runs} if runs else {}
    configuration = of(click.get_current_context()).record
    record = emit.Record(__version__, settings, compilation.inputs, configuration)
    return emit.with_lock(emit.layout(groups, split=options.folder.split, staged=staged), record)


def _check(
    compilation: Compilation, output: Path, files: dict[str, str], options: RenderOptions
) -> int:
    """Shows what is not up to date; the exit code."""
    comparison = emit.compare(output, files)
    problems = emit.refusals(output, comparison, force=True)
    report((*compilation.findings, *problems), options)
    if problems:
        return REFUSED
    if not comparison.equal and not options.quiet:
        from etcompile.cli.outdated import difference

        lines = difference(output, comparison, files, color=colored(options.color, sys.stdout))
        write(*(f"{line}\n" for line in lines), errors="replace")
    if notices(options):
        state = (
            "up to date"
            if comparison.equal
            else "out of date: run etcompile render and commit the result"
        )
        click.echo(f"{output}: {state}", err=True)
    return 0 if comparison.equal else DIFFERENT


def _write(
    compilation: Compilation, output: Path, files: dict[str, str], options: RenderOptions
) -> int:
    """Writes the folder unless something speaks against it; the exit code."""
    found: list[Diagnostic] = []

    def agrees(comparison: emit.Comparison) -> bool:
        if comparison.changed or comparison.stale:
            from etcompile.compiler.previous import replacements

            version = compilation.settings.kubernetes_version
            found.extend(
                replacements(output, comparison, files, version, replaced=options.replaced)
            )
        return not refuses(found, options)

    inputs = [Path(path) for path in (*options.paths, *compilation.files) if path != "-"]
    written = emit.write(output, files, inputs=inputs, force=options.force, agrees=agrees)
    report((*compilation.findings, *written.diagnostics, *found), options)
    if written.diagnostics or refuses(found, options):
        return REFUSED
    if notices(options):
        counts = f"{written.written} written, {written.unchanged} unchanged"
        removed = f", {len(written.removed)} removed" if written.removed else ""
        click.echo(f"{output}: {counts}{removed}", err=True)
    return 0
