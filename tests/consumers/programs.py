"""Programs that read what we write: named by the user, on PATH, in a cache, or built here, once.

`go.mod` beside this file says what is built; the cache folder carries a digest of it, so that
another version is another folder.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from controlplane.binaries import NoBinariesError, go

MODULE = Path(__file__).parent
BUILT = {
    "crane": "github.com/google/go-containerregistry/cmd/crane",
    "kustomize": "sigs.k8s.io/kustomize/kustomize/v5",
}


class NoProgramError(Exception):
    """A program is not here; the message says why, in one line."""


def program(name: str, tell: Callable[[str], None]) -> Path:
    """Where a program is.

    Args:
        name: One of `BUILT`. The environment variable ETCOMPILE_NAME wins, then the one on PATH.
        tell: Is told, once, that a build begins.

    Raises:
        NoProgramError: it is not here, and cannot be built.
    """
    if named := os.environ.get(f"ETCOMPILE_{name.upper()}") or shutil.which(name):
        return Path(named)
    folder = _cache()
    file = folder / name
    if file.exists():
        return file
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a test run beside this one may be building
        if not file.exists():
            tell(f"building {name} for tests into {folder}: a minute or two, but only once")
            _build(name, file)
    return file


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    sums = b"".join((MODULE / name).read_bytes() for name in ("go.mod", "go.sum"))
    return Path(base, "etcompile", "consumers", hashlib.sha256(sums).hexdigest()[:8])


def _build(name: str, file: Path) -> None:
    """Builds beside, so that a build that was killed leaves nothing that looks done."""
    fresh = file.with_name(f"{name}.partial")
    try:
        done = subprocess.run(
            [go(), "build", "-trimpath", "-ldflags", "-s -w", "-o", fresh, BUILT[name]],
            cwd=MODULE,
            # What the machine sets for its own builds (-mod=vendor ...) is not for this one.
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"},
            capture_output=True,
            text=True,
            check=False,
        )
    except NoBinariesError as error:
        raise NoProgramError(str(error)) from error
    if done.returncode:
        said = " ".join(done.stderr.split())[-300:]
        raise NoProgramError(f"go cannot build {name}: {said}")
    fresh.rename(file)
