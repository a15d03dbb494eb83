"""The version before this one, as a source tree: what the tests of upgrades compare with.

That is the newest release in the history, by its tag `vX.Y.Z`; before there is any, the last commit
whose `etcompile/_version.py` names another version than this tree does. `ETCOMPILE_PREVIOUS` names
another revision, to see what has changed since.
"""

import io
import os
import re
import subprocess
import tarfile
from pathlib import Path

from etcompile import __version__

ROOT = Path(__file__).parents[2]
_FILE = "etcompile/_version.py"


class NoHistoryError(Exception):
    """The history does not reach back to another version; its text says why."""


def git(*arguments: str) -> str:
    """What Git says of this repository.

    Raises:
        NoHistoryError: there is no Git, no repository, or it refuses.
    """
    try:
        done = subprocess.run(
            ["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True
        )
    except FileNotFoundError as error:
        raise NoHistoryError("there is no git") from error
    except subprocess.CalledProcessError as error:
        raise NoHistoryError(f"git {arguments[0]}: {error.stderr.strip()}") from error
    return done.stdout


def version_at(revision: str) -> str:
    """The version that a revision names."""
    found = re.search(r'__version__ = "(.*)"', git("show", f"{revision}:{_FILE}"))
    return found[1] if found else ""


def previous_revision() -> str:
    """The revision of the version before this one.

    Raises:
        NoHistoryError: there is none in the history that is here.
    """
    if named := os.environ.get("ETCOMPILE_PREVIOUS"):
        return git("rev-parse", f"{named}^{{commit}}").strip()
    if Path(git("rev-parse", "--show-toplevel").strip()).resolve() != ROOT.resolve():
        raise NoHistoryError("this is no checkout: the repository around it is another one")
    if version_at("HEAD") != __version__:
        return git("rev-parse", "HEAD").strip()  # raised, and not committed yet
    tags = git("tag", "--merged", "HEAD", "--list", "v*", "--sort=-version:refname").split()
    for tag in tags:
        if re.fullmatch(r"v\d+\.\d+\.\d+", tag) and tag != f"v{__version__}":
            return git("rev-parse", f"{tag}^{{commit}}").strip()
    for commit in git("log", "--format=%H", "HEAD", "--", _FILE).split():
        if version_at(commit) != __version__:
            return commit
        parents = git("rev-list", "--parents", "-n", "1", commit).split()[1:]
        for parent in parents:
            if version_at(parent) != __version__:
                return parent
    shallow = git("rev-parse", "--is-shallow-repository").strip() == "true"
    raise NoHistoryError(
        "the clone is shallow" if shallow else f"no commit has another version than {__version__}"
    )


def source_tree(revision: str, folder: Path) -> Path:
    """The files of a revision, written into a folder."""
    done = subprocess.run(
        ["git", "-C", ROOT, "archive", "--format=tar", revision], capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder
