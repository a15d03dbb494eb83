"""The same as a pytest fixture, which skips where a program is not to be had."""

from collections.abc import Callable
from pathlib import Path

import pytest

from consumers.programs import program
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
