"""`etcompile bundle`: what render would write into a folder, as one archive, or as an OCI image."""

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import click
from msgspec.structs import replace

from etcompile.cli.configured import CompilingCommand
from etcompile.cli.options import compile_options, options, refuses, tell
from etcompile.cli.render import FolderOptions, output_files
from etcompile.cli.structs import takes
from etcompile.cli.suggestion import Choice
from etcompile.compiler import compile  # noqa: A004
from etcompile.diagnostics import Diagnostic
from etcompile.exitcodes import REFUSED


class BundleOptions(FolderOptions, frozen=True, kw_only=True):
    """The options of `etcompile bundle`."""

    output: Path | None
    oci_layout: Path | None
    source: str | None
    revision: str | None
    previous: Path | None


@click.command("bundle", cls=CompilingCommand)
@compile_options
@click.option(
    "--archive",
    "output",
    metavar="FILE.tar.gz",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Write this archive; - is standard output.",
)
@click.option(
    "--oci-layout",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write an OCI image layout, which crane, oras or skopeo can push.",
)
@click.option("--source", metavar="URL", help="With --oci-layout: URL of the sources.")
@click.option(
    "--revision",
    metavar="REV",
    help="With --oci-layout: revision of the sources, such as main@sha1:COMMIT.",
)
@click.option("--split", is_flag=True, help="Write one file per object.")
@click.option(
    "--layout",
    type=Choice(["jobs", "staged"]),
    default="jobs",
    show_default=True,
    help="One folder per job, or staged: separate folders prereqs/ and pods/ for Flux.",
)
@click.option(
    "--previous",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Keep the encrypted key pairs of this rendered folder.",
)
@takes(BundleOptions)
def command(ctx: click.Context, given: BundleOptions) -> None:
    """Pack the rendered manifests into an archive or an OCI image.

    The same input gives the same bytes. Prints the digest of the archive, which is also that of
    the image's layer.
    """
    output, oci_layout = given.output, given.oci_layout
    if output is None and oci_layout is None:
        raise click.UsageError("name a file with --archive, a folder with --oci-layout, or both")
    if oci_layout is None and (given.source or given.revision):
        raise click.UsageError("--source and --revision need --oci-layout DIR")
    if oci_layout and oci_layout.exists() and not _is_image(oci_layout):
        problem = f"{oci_layout} holds something other than an image"
        raise click.BadParameter(problem, param_hint="--oci-layout")
    compilation = compile(given.paths, replace(options(given), previous=given.previous))
    tell(compilation.findings, given)
    if refuses(compilation.diagnostics, given):
        ctx.exit(REFUSED)
    from etcompile.integrations import bundle

    archive = bundle.tar(output_files(compilation, given))
    packed = bundle.gzipped(archive)
    image = None
    if oci_layout:
        image = bundle.oci_layout(archive, source=given.source, revision=given.revision)
    problems = _written(packed, output, image, oci_layout)
    if problems:
        tell(problems, given)
        ctx.exit(REFUSED)
    digest = f"sha256:{hashlib.sha256(packed).hexdigest()}"
    click.echo(digest, err=str(output) == "-")


def _is_image(folder: Path) -> bool:
    """Whether a folder is an image layout, or nothing yet."""
    return (folder / "oci-layout").is_file() or not any(folder.iterdir())


def _written(
    packed: bytes, output: Path | None, image: Mapping[str, bytes] | None, folder: Path | None
) -> list[Diagnostic]:
    """Writes the archive and the image; what is wrong if that cannot be.

    The index of the image, which names all else, comes last, and then old blobs go.
    """
    from etcompile.emit.files import refused, remove_files, write_file, write_files

    problems = refused(folder, image) if folder is not None and image else []
    if problems:
        return problems
    if str(output) == "-":
        sys.stdout.buffer.write(packed)
    elif output is not None:
        problems = write_file(output, packed)
    if folder is None or not image or problems:
        return problems
    in_order = {name: image[name] for name in sorted(image, key=lambda name: name == "index.json")}
    kept = [PurePosixPath(name).name for name in image]
    return write_files(folder, in_order) or remove_files(
        folder, "blobs/sha256", "[0-9a-f]{64}", kept
    )
