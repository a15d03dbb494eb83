"""PATHs to the set of jobs that they are, so that a job whose file is gone is noticed.

A folder is a set: what left it is an orphan. A single file is none, since nobody says that the
other files next to it are gone. The id must be the same for every clone of a repository, and
another one for every other folder, so it comes from the repository's address and the path in it;
and from the default namespace, because the same folder may be applied once for each of several.
"""

import hashlib
import os
import re
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from etcompile.k8s.names import is_label_value
from etcompile.plan.sets import JobSet

_LONGEST = 50
"""Characters of the name of a set: a digest follows it in the value of a label."""
_REMOTE = re.compile(r"^(?:[a-z+]+://)?(?:[^@/]*@)?([^/:]+)(?::\d+(?=/))?[:/]+(.+?)(?:\.git)?/*$")


def job_set(paths: Sequence[str], name: str | None, namespace: str) -> JobSet | None:
    """The set that PATHs are; None for single files and for standard input.

    Args:
        paths: What is compiled.
        name: What `--set` gives.
        namespace: The namespace of documents that name none.

    Raises:
        ValueError: it cannot be the value of a label.
    """
    if name is not None:
        if not 0 < len(name) <= _LONGEST or not is_label_value(name):
            allowed = f"at most {_LONGEST} letters, digits, '-', '_' and '.'"
            raise ValueError(f"'{name}' is not a name of {allowed}")
        return JobSet(f"{name}-{_digest([namespace])}", f"--set {name}")
    folders = [Path(path).resolve() for path in paths if path != "-" and Path(path).is_dir()]
    if not paths or len(folders) != len(paths):
        return None
    names = sorted(filter(None, map(_address, folders)))
    source = ", ".join(names)
    stem = re.sub(r"[^A-Za-z0-9]+", "-", names[0].rpartition("/")[2]).strip("-")[:40].strip("-")
    return JobSet(f"{stem or 'jobs'}-{_digest([namespace, *names])}", source)


def _digest(parts: Sequence[str]) -> str:
    text = "\n".join(parts).encode(errors="surrogateescape")
    return hashlib.sha256(text).hexdigest()[:10]


def _address(folder: Path) -> str:
    """A folder as everybody who has the repository calls it: `github.com/team/repo/jobs`."""
    top = _git(folder, "rev-parse", "--show-toplevel")
    remote = _git(folder, "config", "--get", "remote.origin.url") if top else None
    if top and remote and (found := _REMOTE.match(remote)):
        inside = os.path.relpath(folder, Path(top).resolve())
        place = f"{found[1]}/{found[2]}".lower()
        return place if inside == "." else f"{place}/{inside}"
    return f"{socket.gethostname()}:{folder}"


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says of a folder; None if it is in no repository, or there is no git."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - arguments of our own
            command, capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return os.fsdecode(done.stdout).strip() if done.returncode == 0 else None
