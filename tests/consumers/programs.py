"""Programs that read what we write: named by the user, on PATH, in a cache, or built here, once.

`go.mod` beside this file says what is built.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from gobuilds import built

MODULE = Path(__file__).parent
BUILT = {
    "actionlint": "github.com/rhysd/actionlint/cmd/actionlint",
    "crane": "github.com/google/go-containerregistry/cmd/crane",
    "kustomize": "sigs.k8s.io/kustomize/kustomize/v5",
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
    return built(MODULE, name, BUILT[name], tell)
