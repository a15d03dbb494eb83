"""Where the data folders are: schemas, templates, overlays, examples.

They stand at the top of the repository in a checkout and inside the package in an installed
wheel. Everything that needs one asks here, so that both are found in the same way.
"""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def folder(name: str) -> Path:
    """The data folder of that name.

    Args:
        name: One of `schemas`, `templates`, `overlays`, `examples`.

    Returns:
        The folder inside an installed package, else the one of the checkout.

    Raises:
        FileNotFoundError: the installation lacks it.
    """
    for base in (_PACKAGE / "_data", _PACKAGE.parent):
        if (found := base / name).is_dir():
            return found
    raise FileNotFoundError(f"etcompile's data folder '{name}' is missing; reinstall etcompile")
