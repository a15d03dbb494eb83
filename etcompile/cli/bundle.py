"""`etcompile bundle`: what render would write into a folder, as one archive, or as an OCI image."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from etcompile.cli.options import REFUSED, compile_options, options, refuses, tell
from etcompile.cli.render import output_files
from etcompile.compiler import compile  # noqa: A004


@click.command("bundle")
@compile_options
@click.option(
    "-o",
    "--output",
    metavar="FILE.tar.gz",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="The archive to write; - for standard output.",
)
@click.option(
    "--oci-layout",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="An OCI image layout to write, for crane, oras or skopeo to push.",
)
@click.option("--source", metavar="URL", help="With --oci-layout: where the sources are.")
@click.option(
    "--revision",
    metavar="REV",
    help="With --oci-layout: which revision of them, main@sha1:COMMIT.",
)
@click.option("--split", is_flag=True, help="One file per object.")
@click.option(
    "--layout",
    type=click.Choice(["jobs", "staged"]),
    default="jobs",
    show_default=True,
    help="A folder a job; or staged: all of that in prereqs/ and in pods/, for Flux.",
)
@click.option(
    "--previous",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Rendered folder whose encrypted key pairs are kept.",
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    output: Path | None,
    oci_layout: Path | None,
    source: str | None,
    revision: str | None,
    previous: Path | None,
    **given: Any,
) -> None:
    """Pack what render would write into a folder.

    The same input makes the same bytes. Prints the digest of the archive, which is that of the
    image's layer, too.
    """
    if output is None and oci_layout is None:
        raise click.UsageError("name a file with -o, a folder with --oci-layout, or both")
    if oci_layout is None and (source or revision):
        raise click.UsageError("--source and --revision need --oci-layout DIR")
    if oci_layout and oci_layout.exists() and not _is_image(oci_layout):
        problem = f"{oci_layout} holds something else than an image"
        raise click.BadParameter(problem, param_hint="--oci-layout")
    compilation = compile(given["paths"], replace(options(given), previous=previous))
    tell(compilation.diagnostics, given)
    if refuses(compilation.diagnostics, strict=given["strict"]):
        ctx.exit(REFUSED)
    from etcompile import bundle

    archive = bundle.tar(output_files(compilation, given))
    packed = bundle.gzipped(archive)
    try:
        if output is not None:
            with click.open_file(str(output), "wb") as file:
                file.write(packed)
        if oci_layout:
            _write(oci_layout, bundle.oci_layout(archive, source=source, revision=revision))
    except OSError as error:
        raise click.ClickException(f"cannot write {error.filename}: {error.strerror}") from error
    digest = f"sha256:{hashlib.sha256(packed).hexdigest()}"
    click.echo(digest, err=str(output) == "-")


def _is_image(folder: Path) -> bool:
    """Whether a folder is an image layout, or nothing yet."""
    return (folder / "oci-layout").is_file() or not any(folder.iterdir())


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Makes a folder this image; its index, which names all else, comes last."""
    for name in sorted(files, key=lambda name: name == "index.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(files[name])
    for blob in (folder / "blobs" / "sha256").iterdir():
        if f"blobs/sha256/{blob.name}" not in files:
            blob.unlink()
