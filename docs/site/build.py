"""Builds the documentation site: `python docs/site/build.py`, into `build/site`.

Puts the pages that `docs/README.md` lists, the pages of the commands and that of the Python API
into a folder and has Sphinx make HTML of them. A warning of Sphinx, a broken link among them, ends
the build. Needs the extra `docs`, and no network.
"""

import argparse
import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

sys.path.insert(0, str(Path(__file__).parent))

import commands
import interface
import pages
import published_schemas
from contents import DOCS, ROOT, listed

from etcompile.cli.main import program

_CODE = {ROOT / "etcompile" / "cli": "cli", ROOT / "etcompile" / "operations": "api"}
"""Pages that are made of code, by the folder that the list names for them."""


def main() -> int:
    """Build the site; return Sphinx's exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "site")
    output = parser.parse_args().output.resolve()
    work = output.parent / f"{output.name}-work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(output, ignore_errors=True)
    source = work / "pages"
    stage(source)
    code = build_main(
        [
            *("-q", "-b", "dirhtml", "-W", "--keep-going"),
            *("-c", str(Path(__file__).parent), "-d", str(work / "doctrees")),
            *(str(source), str(output)),
        ]
    )
    if code == 0:
        publish_schemas(output / "schemas")
        shutil.rmtree(work)
        print(f"wrote {output}")
    return code


def stage(folder: Path) -> None:
    """Write the input of Sphinx.

    Args:
        folder: Where to.
    """
    names = {source: _CODE.get(source) or pages.document_name(source) for source in listed()}
    for source, name in names.items():
        if source not in _CODE:
            _write(folder, name, pages.staged(source, names))
    for name, text in commands.pages(program):
        _write(folder, name, text)
    _write(folder, "api", interface.page())
    for picture in (
        *DOCS.glob("*.svg"),
        *pages.PICTURES.glob("*.svg"),
        *pages.PICTURES.glob("*.png"),
    ):
        copy = folder / picture.relative_to(DOCS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, copy)


def publish_schemas(folder: Path) -> None:
    """Write the JSON Schemas, which editors read from the site's address.

    Args:
        folder: Where to.
    """
    for name, text in published_schemas.texts().items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")


def _write(folder: Path, name: str, text: str) -> None:
    file = folder / f"{name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
