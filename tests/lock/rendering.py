"""`etcompile render` in this process, for tests that call it often."""

from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from etcompile.cli.render import command


def render(*arguments: object) -> Result:
    """The outcome of `etcompile render ARGUMENTS`; an exception in it is one here."""
    return CliRunner().invoke(command, [str(one) for one in arguments], catch_exceptions=False)


def done(*arguments: object) -> Result:
    result = render(*arguments)
    assert result.exit_code == 0, result.stderr
    return result


def write(file: Path, *documents: Any) -> Path:
    file.write_text(yaml.safe_dump_all(documents, sort_keys=False))
    return file


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
