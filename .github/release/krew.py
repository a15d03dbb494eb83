"""Packs the single files of a release for krew, and writes the manifest of the plugin.

`python krew.py VERSION SINGLE OUT`: SINGLE has a file `etcompile-OS-ARCH` for each platform. OUT
gets an archive of each, with the name that kubectl looks for, and `etcompile.yaml`, for the index.
"""

import hashlib
import io
import sys
import tarfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "https://github.com/etcompile/etcompile"
PROGRAM = "kubectl-etcompile"
_ARCHITECTURES = {"x86_64": "amd64"}
"""What Go calls an architecture, where it has a name of its own for it."""
_SYSTEMS = {"macos": "darwin"}


def archive(program: Path) -> bytes:
    """Pack a program and the licence into an archive."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name, file, mode in ((PROGRAM, program, 0o755), ("LICENSE", ROOT / "LICENSE", 0o644)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = file.stat().st_size, mode
            tar.addfile(entry, io.BytesIO(file.read_bytes()))
    return written.getvalue()


def platform(file: str, uri: str, content: bytes) -> dict[str, Any]:
    """Return the entry of a platform in the manifest."""
    _, system, architecture = file.split("-")
    labels = {
        "os": _SYSTEMS.get(system, system),
        "arch": _ARCHITECTURES.get(architecture, architecture),
    }
    return {
        "selector": {"matchLabels": labels},
        "uri": uri,
        "sha256": hashlib.sha256(content).hexdigest(),
        "bin": PROGRAM,
        "files": [{"from": name, "to": "."} for name in (PROGRAM, "LICENSE")],
    }


def main(version: str, single: Path, out: Path) -> None:
    """Write the archives and the manifest."""
    out.mkdir(parents=True, exist_ok=True)
    platforms = []
    for program in sorted(single.glob("etcompile-*")):
        name, content = f"kubectl-{program.name}.tar.gz", archive(program)
        (out / name).write_bytes(content)
        uri = f"{REPOSITORY}/releases/download/v{version}/{name}"
        platforms.append(platform(program.name, uri, content))
    manifest = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "etcompile"},
        "spec": {
            "version": f"v{version}",
            "homepage": REPOSITORY,
            "shortDescription": "Compile training jobs to plain manifests",
            "description": "Compiles PyTorchJob, MPIJob, TrainJob and other training jobs to Pods,"
            " Services and ConfigMaps, applies them, and shows why a job failed.",
            "caveats": "Needs Python 3.11 or newer.",
            "platforms": platforms,
        },
    }
    (out / "etcompile.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
