"""PATHs to the set of jobs that they are, so that a job whose file is gone is noticed.

A folder is a set: what left it is an orphan. A single file is a part of its folder's set, and says
nothing about the other files there. The id must be the same for every clone of a repository, and
another one for every other repository. It comes from the repository's name in `etcompile.toml`, or
the address of its Git remote, and the path in it. Without either there is no set: a path or a host
name differ from one CI run to the next, or are the same for two repositories.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from etcompile.k8s.names import is_label_value
from etcompile.plan.step import JobSet

_LONGEST = 50
"""Characters of the name of a set: a digest follows it in the value of a label."""
_REMOTE = re.compile(
    r"^(?:(?P<scheme>[a-z+]+)://)?(?:[^@/]*@)?(?P<host>[^/:]+)(?::\d+(?=/))?"
    r"[:/]+(?P<path>.+?)(?:\.git)?/*$"
)


def job_set(
    paths: Sequence[str], name: str | None = None, *, repository: tuple[str, str] | None = None
) -> JobSet | None:
    """The set that PATHs are, or are a part of; None if nothing says whose they are.

    Args:
        name: What `--set` gives.
        repository: The name that the configuration file gives the repository, and its folder.

    Raises:
        ValueError: `name` cannot be the value of a label.
    """
    if name is not None:
        if not 0 < len(name) <= _LONGEST or not is_label_value(name):
            allowed = f"at most {_LONGEST} letters, digits, '-', '_' and '.'"
            raise ValueError(f"'{name}' is not a name of {allowed}")
        return JobSet(name, f"--set {name}", f"--set {name}")
    places = [Path("." if path == "-" else path).resolve() for path in paths or (".",)]
    folders = {place if place.is_dir() else place.parent for place in places}
    known = (_address(folder, repository) for folder in folders)
    addresses = sorted(address for address in known if address is not None)
    if len(addresses) != len(folders):
        return None
    names = ["/".join(filter(None, address)) for address in addresses]
    stem = re.sub(r"[^A-Za-z0-9]+", "-", names[0].rpartition("/")[2]).strip("-")[:40].strip("-")
    text = "\n".join(names).encode(errors="surrogateescape")
    return JobSet(
        f"{stem or 'jobs'}-{hashlib.sha256(text).hexdigest()[:10]}",
        ", ".join(names),
        addresses[0][0],
        bool(paths) and "-" not in paths and all(place.is_dir() for place in places),
    )


def _address(folder: Path, repository: tuple[str, str] | None) -> tuple[str, str] | None:
    """A folder as everybody who has the repository calls it: `github.com/team/repo` and `jobs`."""
    if repository is not None:
        name, top = repository[0].strip("/"), repository[1]
    else:
        remote = command_output("git", "-C", str(folder), "remote", "get-url", "origin")
        top = (
            command_output("git", "-C", str(folder), "rev-parse", "--show-toplevel")
            if remote
            else ""
        )
        name = normalised(remote)
    if not name or not top:
        return None
    inside = os.path.relpath(folder, Path(top).resolve())
    return name, "" if inside == "." else inside


def normalised(remote: str) -> str:
    """A remote's address without what differs between clones: `github.com/team/repo`.

    The scheme, the user, the port, an alias of ssh's configuration, and the case.
    """
    match = _REMOTE.match(remote)
    local = "://" not in remote and ":" not in remote.partition("/")[0]
    if match is None or local or remote.startswith("file:"):
        return ""
    host = match["host"]
    if match["scheme"] in (None, "ssh", "git+ssh") and not host.startswith("-"):
        lines = command_output("ssh", "-G", host).splitlines()
        host = next((line[9:] for line in lines if line.startswith("hostname ")), host)
    return f"{host}/{match['path'].lstrip('/')}".lower()


def command_output(*command: str) -> str:
    """What a program prints; nothing if there is no such program, or it fails."""
    try:
        done = subprocess.run(  # noqa: S603 - arguments of our own
            command, capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return os.fsdecode(done.stdout).strip() if done.returncode == 0 else ""
