"""Where etcd and kube-apiserver are: a folder of the user's, a cache, or built here, once.

`go.mod` beside this file says what is built; with ETCOMPILE_KUBERNETES=1.34.4 that version is. The
cache folder carries a digest of it, so that another version is another folder.
"""

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from gobuilds import NoProgramError, go, run_go

NEEDED = ("etcd", "kube-apiserver")
_BUILT = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}


def binaries(tell: Callable[[str], None]) -> Path:
    """The folder that holds etcd and kube-apiserver, and what else we built where we did.

    Args:
        tell: Is told, once, that a build begins.

    Raises:
        NoProgramError: none are here, and none can be built.
    """
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        missing = [name for name in NEEDED if not Path(assets, name).exists()]
        if missing:
            raise NoProgramError(f"KUBEBUILDER_ASSETS={assets} has no {' and no '.join(missing)}")
        return Path(assets)
    folder = cache()
    if _complete(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a test run beside this one may be building
        if not _complete(folder):
            go()  # before it is said that a build begins
            tell(f"building the control plane for tests into {folder}: minutes, but only once")
            _build(folder)
    return folder


def version() -> str:
    """Return the Kubernetes version that is built."""
    match = re.search(r"k8s\.io/kubernetes v(\S+)", _go_mod())
    assert match
    return match[1]


def cache() -> Path:
    """Return the folder of what was built from this go.mod."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    digest = hashlib.sha256(_go_mod().encode()).hexdigest()[:8]
    return Path(base, "etcompile", "controlplane", f"{version()}-{digest}")


def _go_mod() -> str:
    """Return the go.mod beside this file, of the Kubernetes version that somebody chose."""
    text = Path(__file__).with_name("go.mod").read_text()
    if chosen := os.environ.get("ETCOMPILE_KUBERNETES"):
        text = re.sub(r"(kubernetes v1|v0)\.[\d.]+", rf"\g<1>.{chosen.removeprefix('1.')}", text)
    return text


def _complete(folder: Path) -> bool:
    return all((folder / name).exists() for name in _BUILT)


def _build(folder: Path) -> None:
    """Builds into a folder beside, so that a build that was killed leaves none that looks done."""
    fresh = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    major, minor, _ = version().split(".")
    stamp = "k8s.io/component-base/version.git"
    facts = {"Version": f"v{version()}", "Major": major, "Minor": minor, "TreeState": "clean"}
    linked = " ".join(f"-X {stamp}{key}={value}" for key, value in facts.items())
    (fresh / "go.mod").write_text(_go_mod())
    flags = ["-mod=mod", "-trimpath", "-ldflags", f"-s -w {linked}", "-o", f"{fresh}/"]
    run_go(fresh, "build", *flags, *_BUILT.values())
    (fresh / "server").rename(fresh / "etcd")
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
