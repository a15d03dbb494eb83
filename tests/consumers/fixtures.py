"""The same as pytest fixtures, which skip where a program is not to be had."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from consumers.programs import program
from controlplane.binaries import binaries
from controlplane.fixtures import teller
from gobuilds import NoProgramError


@pytest.fixture(scope="session")
def consumer(request, require) -> Callable[[str], Path]:
    """`consumer("kustomize")`: the program; skips, with the reason, where there is none."""

    def find(name: str) -> Path:
        try:
            return program(name, teller(request.config))
        except NoProgramError as error:
            require(name, present=False, why=str(error))
            raise

    return find


@pytest.fixture(scope="session")
def kubectl_program(request, require) -> Path:
    """kubectl: the one that ETCOMPILE_KUBECTL names, that of the control plane, or that on PATH."""
    program = os.environ.get("ETCOMPILE_KUBECTL")
    if not program:
        try:
            built = binaries(teller(request.config)) / "kubectl"
            program = str(built) if built.exists() else shutil.which("kubectl")
        except NoProgramError:
            program = shutil.which("kubectl")
    require("kubectl", present=bool(program), why="there is none on PATH, nor in ETCOMPILE_KUBECTL")
    return Path(str(program))
