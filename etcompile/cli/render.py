"""Compile job specifications to manifests, as a stream or a folder (`etcompile render`)."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from etcompile.cli.command_line import HELP, CompilingCommand, refuse_without
from etcompile.cli.options import PATHS, RENDERING, compiles
from etcompile.cli.reporting import Reporting, compiled, notices, refuses, report, write
from etcompile.diagnostics import RefusedError, codes, diagnose
from etcompile.exitcodes import DIFFERENT, REFUSED

if TYPE_CHECKING:
    from etcompile.compiler.configured import Configured
    from etcompile.compiler.pipeline import Compilation
    from etcompile.diagnostics import Diagnostic
    from etcompile.emit.output_state import Comparison

_LONGEST_DIFF = 200
"""Lines that `--check` shows of all files."""


class _Folder(click.Path):
    """A path on the command line: an empty one would be the current directory."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if value in ("", "-"):
            named = "'-' would be a folder of that name" if value else "the name is empty"
            self.fail(f"{named}; leave -d out to write to standard output", param, ctx)
        return super().convert(value, param, ctx)


class _Format(click.Choice):  # type: ignore[type-arg]  # click 8.1 has no generic one
    """A format; some users try the name of a file."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if "." in value or "/" in value:
            self.fail(f"{value!r} is no format: use > {value}, or -d DIR for a folder", param, ctx)
        return super().convert(value, param, ctx)


@click.command("render", cls=CompilingCommand, context_settings=HELP)
@PATHS
@compiles(*RENDERING)
@click.option(
    "-d",
    "--output-dir",
    metavar="DIR",
    type=_Folder(path_type=Path),
    help="Write a folder with a kustomization instead of a stream. Its content is replaced.",
)
@click.option(
    "-o",
    "--output",
    "form",
    type=_Format(["yaml", "json", "name"]),
    default="yaml",
    show_default=True,
    help="Format of standard output: manifests, a List in JSON, or names of the form kind/name.",
)
@click.option(
    "--check",
    is_flag=True,
    help="With -d: write nothing. Show which files are out of date; exit with 1 if any is.",
)
@click.option(
    "--against",
    metavar="REV",
    help="With --check: also refuse changes that objects rendered at this Git revision cannot"
    " take.  [default: the base of the pull request, if GitHub or GitLab names one]",
)
@click.option("--force", is_flag=True, help="With -d: overwrite files that were edited by hand.")
@click.option(
    "--replace",
    "replaced",
    is_flag=True,
    help="With -d: accept changes that Kubernetes refuses on a live object, which you delete"
    " yourself.",
)
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    configured: "Configured",
    reporting: Reporting,
    output_dir: Path | None,
    form: str,
    check: bool,
    against: str | None,
    force: bool,
    replaced: bool,
) -> None:
    """Compile job specifications to Kubernetes manifests.

    PATH is a file, a directory, a glob, or - for standard input. A ScaleOut or ScaleIn is applied
    to the job that it names. The order of the PATHs does not matter: intents without a sequence
    number count in the order of the names of their files.
    """
    output = output_dir
    if output is None:
        refuse_without("-d DIR", "check", "force", "replaced")
    elif form != "yaml":
        raise click.UsageError("-o is the format of standard output: leave out -d DIR")
    if check and force:
        raise click.UsageError("--check writes nothing: leave out --force")
    if not check:
        refuse_without("--check", "against")
    if output is not None:
        from etcompile.emit import directory

        # Before anything is read: else the report that the folder is skipped would come first.
        inputs = [Path(path) for path in paths if path != "-"]
        # Errors of the system are reported where the folder is opened.
        with contextlib.suppress(OSError, ValueError):
            if (refusal := directory.refusal(output, inputs, reads_only=check)) is not None:
                raise RefusedError([refusal])
    compilation = compiled(paths, replace(configured.options, output=output), reporting)
    has_one_stage = output is not None and configured.values["layout"] == "jobs"
    if has_one_stage and "flux" in compilation.settings.profiles:
        from etcompile.check.output_rules import check_flux_stage

        stages = [(group.origin, group.objects) for group in compilation.groups]
        diagnostics = (*compilation.diagnostics, *check_flux_stage(stages))
        compilation = replace(compilation, diagnostics=diagnostics)
    if refuses(compilation.diagnostics, reporting):
        raise RefusedError(compilation.findings)
    if output is None:
        report(compilation.findings, reporting)
        for text in _stream(compilation, form):
            write(text)
        return
    files = output_files(compilation, configured)
    if check:
        ctx.exit(_check(compilation, output, files, against, reporting, replaced=replaced))
    version = compilation.settings.kubernetes_version
    problems: list[Diagnostic] = []

    def agrees(comparison: "Comparison") -> bool:
        if comparison.changed or comparison.stale:
            from etcompile.compiler.previous import replacements

            problems.extend(replacements(output, comparison, files, version, replaced=replaced))
        return not refuses(problems, reporting)

    inputs = [Path(path) for path in (*paths, *compilation.files) if path != "-"]
    written = directory.write(output, files, inputs=inputs, force=force, agrees=agrees)
    report((*compilation.findings, *written.diagnostics, *problems), reporting)
    if written.diagnostics or refuses(problems, reporting):
        ctx.exit(REFUSED)
    if notices(reporting):
        counts = f"{written.written} written, {written.unchanged} unchanged"
        removed = f", {len(written.removed)} removed" if written.removed else ""
        click.echo(f"{output}: {counts}{removed}", err=True)


def _stream(compilation: "Compilation", form: str) -> Iterable[str]:
    """Yield the output as kubectl formats it: `-o yaml`, `json` or `name`."""
    from etcompile import emit

    objects = compilation.in_order()
    if form == "json":
        items = {"apiVersion": "v1", "kind": "List", "items": [*objects]}
        yield f"{json.dumps(items, indent=4, ensure_ascii=False)}\n"
    elif form == "name":
        for manifest in objects:
            group = manifest["apiVersion"].rpartition("/")[0]
            kind = f"{manifest['kind']}.{group}".rstrip(".").lower()
            yield f"{kind}/{manifest['metadata']['name']}\n"
    else:
        yield from emit.blocks(objects, compilation.sources)


def output_files(compilation: "Compilation", configured: "Configured") -> dict[str, str]:
    from etcompile import emit
    from etcompile._version import __version__
    from etcompile.compiler.stored import settings_value
    from etcompile.emit.output_state import Record, with_lock

    groups = [
        emit.Group(group.name, group.namespace, tuple(group.objects), group.sources)
        for group in compilation.groups
    ]
    values = configured.values
    split, staged = values["split"], values["layout"] == "staged"
    settings = settings_value(compilation.settings) | {"split": split}
    settings |= {"layout": values["layout"]} if staged else {}
    if values["namespace"]:
        settings["namespace"] = values["namespace"]
    runs = {group.title: group.run for group in compilation.groups if group.run}
    settings |= {"runs": runs} if runs else {}
    record = Record(__version__, settings, compilation.inputs, configured.record)
    return with_lock(emit.layout(groups, split=split, staged=staged), record)


def _check(
    compilation: "Compilation",
    output: Path,
    files: dict[str, str],
    against: str | None,
    reporting: Reporting,
    *,
    replaced: bool,
) -> int:
    """Show what is not up to date; return the exit code.

    Args:
        against: The revision whose objects must be able to take the changes.
        replaced: The user deletes objects that cannot.
    """
    from etcompile.compiler.previous import replacements, replacements_since
    from etcompile.emit.directory import refusals
    from etcompile.emit.output_state import compare
    from etcompile.load.revision import RevisionError, base

    comparison = compare(output, files)
    version = compilation.settings.kubernetes_version
    problems = list(refusals(output, comparison, force=True))
    if not problems:
        problems = replacements(output, comparison, files, version, replaced=replaced)
        try:
            if (revision := base(against, output)) is not None:
                more = replacements_since(revision, output, files, version, replaced=replaced)
                known = {problem.message for problem in problems}
                problems += (problem for problem in more if problem.message not in known)
        except RevisionError as error:
            option = "--against" if against is not None else "the base of the pull request"
            advice = "fetch it, or name another revision with --against"
            facts = {"option": option, "problem": error, "advice": advice}
            problems.append(diagnose(codes.OPTION, None, **facts))
    report((*compilation.findings, *problems), reporting)
    if refuses(problems, reporting):
        return REFUSED
    if not comparison.equal and not reporting.quiet:
        lines = _difference(output, comparison, files)
        write(*(f"{line}\n" for line in lines), errors="replace")
    if notices(reporting):
        state = "up to date"
        if not comparison.equal:
            by_hand = comparison.edited or comparison.damage
            what = "render --force, which discards edits," if by_hand else "render"
            state = f"out of date: run etcompile {what} and commit the result"
        click.echo(f"{output}: {state}", err=True)
    return 0 if comparison.equal else DIFFERENT


def _difference(
    directory: Path, comparison: "Comparison", files: Mapping[str, str]
) -> Iterator[str]:
    """Yield a line for each file that differs, then a diff of them all, cut where it gets long."""
    from etcompile.diagnostics.message_text import printable
    from etcompile.diagnostics.redaction import redacted
    from etcompile.emit.difference import unified
    from etcompile.emit.output_state import LOCK

    states = {
        **dict.fromkeys(comparison.changed, "changed"),
        **dict.fromkeys(comparison.missing, "missing"),
        **dict.fromkeys(comparison.stale, "stale"),
    }
    for path, state in sorted(states.items()):
        by_hand = f" ({comparison.edited[path]})" if path in comparison.edited else ""
        yield f"{state:<8} {directory / path}{by_hand}"

    # New and deleted files come late, as their diffs are long and say little, and the lock file
    # last, as it only repeats the others.
    paths = (*comparison.changed, *comparison.stale, *comparison.missing)
    lines: list[str] = []
    for path in sorted(paths, key=lambda path: str(path) == LOCK):
        file = directory / path
        old = file.read_text("utf-8", errors="replace") if file.is_file() else ""
        lines += unified(str(file), redacted(old), redacted(files.get(str(path), "")))
    yield from (printable(line, keep="\t") for line in lines[:_LONGEST_DIFF])
    if len(lines) > _LONGEST_DIFF:
        yield f"… {len(lines) - _LONGEST_DIFF} more lines"
