"""Programs that read what we write: named by the user, on PATH, in a cache, or built here, once.

A `go.mod` says what is built: the one beside this file, or that of `tests/installation`.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from gobuilds import built

MODULE = Path(__file__).parent
# Apart, so that the versions that Helm wants of others' modules are not those of kustomize.
INSTALLATION = MODULE.parent / "installation"
BUILT = {
    "actionlint": (MODULE, "github.com/rhysd/actionlint/cmd/actionlint"),
    "crane": (MODULE, "github.com/google/go-containerregistry/cmd/crane"),
    "helm": (INSTALLATION, "helm.sh/helm/v4/cmd/helm"),
    "kustomize": (MODULE, "sigs.k8s.io/kustomize/kustomize/v5"),
}


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
    module, package = BUILT[name]
    return built(module, name, package, tell)
