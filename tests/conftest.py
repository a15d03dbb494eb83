"""What all tests share: how a test says that it needs something of the machine."""

import os
import shutil
from collections.abc import Callable

import hypothesis
import pytest

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile(
    "etcompile", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("etcompile")

pytest_plugins = ["controlplane.fixtures", "consumers.fixtures"]

_SYSTEM = "/usr/local/sbin:/usr/sbin:/sbin"
"""Not in everybody's PATH, and sshd is there."""


@pytest.fixture(scope="session")
def require() -> Callable[..., str]:
    """`require(thing, which=PROGRAM)` or `require(thing, present=BOOL, why=TEXT)`.

    Skips the test when the machine lacks it. Where the environment variable ETCOMPILE_REQUIRE
    lists the thing (`ssh,shells`), as in CI, the test fails instead: there a skip would hide that
    nothing was tested. Returns the program's path, or "".
    """
    demanded = {thing.strip() for thing in os.environ.get("ETCOMPILE_REQUIRE", "").split(",")}

    def need(thing: str, *, which: str = "", present: bool = True, why: str = "") -> str:
        search = f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM}"
        program = (shutil.which(which, path=search) or "") if which else ""
        if present and (program or not which):
            return program
        reason = f"needs {thing}: {why or f'there is no {which}'}"
        if thing in demanded:
            pytest.fail(f"{reason} (ETCOMPILE_REQUIRE lists {thing})")
        pytest.skip(reason)

    return need


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the flag that writes goldens anew."""
    parser.addoption("--update-goldens", action="store_true", help="write golden/ anew")
