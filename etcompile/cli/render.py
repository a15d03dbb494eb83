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
from etcompile.cli.configured import CompilingCommand, of
from etcompile.cli.options import (
    CompileOptions,
    colored,
    compile_options,
    explicit,
    options,
    refuses,
    talks,
    tell,
    write,
)
from etcompile.cli.structs import output_option, takes
from etcompile.cli.suggestion import Choice
from etcompile.cli.usage import refuse_without
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


class FolderOptions(CompileOptions, frozen=True, kw_only=True):
    """The options of commands that write the output folder, or pack it."""

    split: bool
    layout: Literal["jobs", "staged"]


class RenderOptions(FolderOptions, frozen=True, kw_only=True):
    """The options of `etcompile render`."""

    output_dir: Path | None
    output: Literal["yaml", "json", "name"]
    check: bool
    force: bool
    replaced: bool


@click.command("render", cls=CompilingCommand)
@compile_options
@click.option(
    "-d",
    "--output-dir",
    metavar="DIR",
    type=_Folder(path_type=Path),
    help="Write a folder with a kustomization instead of a stream. Its content is replaced.",
)
@output_option(
    "yaml",
    "json",
    "name",
    help="Format of standard output: manifests, a List in JSON, or names of the form kind/name.",
)
@click.option("--split", is_flag=True, help="With -d: write one file per object.")
@click.option(
    "--layout",
    type=Choice(["jobs", "staged"]),
    default="jobs",
    show_default=True,
    help="With -d: one folder per job, or staged: separate folders prereqs/ and pods/ for Flux.",
)
@click.option(
    "--check",
    is_flag=True,
    help="With -d: write nothing. Show which files are out of date; exit with 1 if any is.",
)
@click.option("--force", is_flag=True, help="With -d: overwrite files that were edited by hand.")
@click.option(
    "--replace",
    "replaced",
    is_flag=True,
    help="With -d: write changes that Kubernetes refuses on a live object, which you delete"
    " yourself.",
)
@takes(RenderOptions)
def command(ctx: click.Context, given: RenderOptions) -> None:
    """Compile job specifications to Kubernetes manifests.

    PATH is a file, a directory, a glob, or - for standard input. A ScaleOut or ScaleIn is applied
    to the job that it names; the order of the files does not matter.
    """
    output = given.output_dir
    if output is None:
        flags = {"check": given.check, "force": given.force, "replace": given.replaced}
        # The configuration file may say how a folder is laid out, without there being one.
        said = explicit()
        split = given.split and "split" in said
        layout = given.layout != "jobs" and "layout" in said
        refuse_without("-d DIR", split=split, **flags, layout=layout)
    elif given.output != "yaml":
        raise click.UsageError("-o is the format of standard output: leave out -d DIR")
    if given.check and (given.force or given.replaced):
        raise click.UsageError("--check writes nothing: leave out --force and --replace")
    wanted = options(given)
    # Before anything is read: what is in the output folder is not read, which would be told first.
    if output is not None and (problem := _unusable(output, given)):
        tell([problem], given)
        ctx.exit(REFUSED)
    compilation = compile(given.paths, replace(wanted, output=output))
    if output is not None and given.layout == "jobs":
        compilation = _in_one_stage(compilation)
    if refuses(compilation.diagnostics, given):
        tell(compilation.findings, given)
        ctx.exit(REFUSED)
    if output is None:
        tell(compilation.findings, given)
        for text in _stream(compilation, given.output):
            write(text)
    else:
        files = output_files(compilation, given)
        ctx.exit((_check if given.check else _write)(compilation, output, files, given))


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
    told = (*compilation.diagnostics, *unstaged(groups))
    return replace(compilation, diagnostics=told)


def _unusable(output: Path, given: RenderOptions) -> "Diagnostic | None":
    """Why the output folder cannot be used with these paths."""
    inputs = [Path(path) for path in given.paths if path != "-"]
    # What the system has against the folder is told where it is touched.
    with contextlib.suppress(OSError, ValueError):
        return emit.refusal(output, inputs, reads_only=given.check)
    return None


def output_files(compilation: Compilation, given: FolderOptions) -> dict[str, str]:
    """The files of the output folder, its lock file among them.

    Args:
        compilation: What goes there.
        given: The command line's options.
    """
    from etcompile._version import __version__
    from etcompile.operations.declarations import job_title
    from etcompile.stages.stored import settings_value

    groups = [
        emit.Group(group.name, group.namespace, tuple(group.objects), group.sources)
        for group in compilation.groups
    ]
    staged = given.layout == "staged"
    settings = settings_value(compilation.settings) | {"split": given.split}
    settings |= {"layout": given.layout} if staged else {}
    if given.namespace:
        settings["namespace"] = given.namespace
    runs = {job_title(g.namespace, g.name): g.run for g in compilation.groups if g.run}
    settings |= {"runs": runs} if runs else {}
    configuration = of(click.get_current_context()).record
    record = emit.Record(__version__, settings, compilation.inputs, configuration)
    return emit.with_lock(emit.layout(groups, split=given.split, staged=staged), record)


def _check(
    compilation: Compilation, output: Path, files: dict[str, str], given: RenderOptions
) -> int:
    """Tells what is not up to date; the exit code."""
    comparison = emit.compare(output, files)
    problems = emit.refusals(output, comparison, force=True)
    tell((*compilation.findings, *problems), given)
    if problems:
        return REFUSED
    if not comparison.equal and not given.quiet:
        from etcompile.cli.outdated import report

        lines = report(output, comparison, files, color=colored(given.color, sys.stdout))
        write(*(f"{line}\n" for line in lines), errors="replace")
    if talks(given):
        state = (
            "up to date"
            if comparison.equal
            else "out of date: run etcompile render and commit the result"
        )
        click.echo(f"{output}: {state}", err=True)
    return 0 if comparison.equal else DIFFERENT


def _write(
    compilation: Compilation, output: Path, files: dict[str, str], given: RenderOptions
) -> int:
    """Writes the folder unless something speaks against it; the exit code."""
    found: list[Diagnostic] = []

    def agrees(comparison: emit.Comparison) -> bool:
        if comparison.changed or comparison.stale:
            from etcompile.stages.previous import replacements

            version = compilation.settings.kubernetes_version
            told = replacements(output, comparison, files, version, replaced=given.replaced)
            found.extend(told)
        return not refuses(found, given)

    inputs = [Path(path) for path in (*given.paths, *compilation.files) if path != "-"]
    written = emit.write(output, files, inputs=inputs, force=given.force, agrees=agrees)
    tell((*compilation.findings, *written.diagnostics, *found), given)
    if written.diagnostics or refuses(found, given):
        return REFUSED
    if talks(given):
        counts = f"{written.written} written, {written.unchanged} unchanged"
        removed = f", {len(written.removed)} removed" if written.removed else ""
        click.echo(f"{output}: {counts}{removed}", err=True)
    return 0
