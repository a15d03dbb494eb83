"""The control plane as pytest fixtures: one server for the whole run, a namespace for each test."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane.binaries import binaries
from controlplane.server import ControlPlane
from faultproxy import FaultProxy
from gobuilds import NoProgramError


@pytest.fixture(scope="session")
def control_plane(request, require, tmp_path_factory) -> Iterator[ControlPlane]:
    """A running etcd and kube-apiserver; skips, and says so at the end, where there are none."""
    try:
        programs = binaries(teller(request.config))
    except NoProgramError as error:
        request.config.stash[_MISSING] = str(error)
        require("controlplane", present=False, why=str(error))
        raise
    plane = ControlPlane(tmp_path_factory.mktemp("control-plane"), programs)
    yield plane
    plane.stop()


@pytest.fixture(scope="session")
def admitting_plane(control_plane, tmp_path_factory) -> Iterator[ControlPlane]:
    """Another API server, which pulls images always and takes MutatingAdmissionPolicies."""
    flags = (
        "--enable-admission-plugins=AlwaysPullImages",
        "--feature-gates=MutatingAdmissionPolicy=true",
        "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
    )
    folder = tmp_path_factory.mktemp("admitting-plane")
    plane = ControlPlane(folder, control_plane.binaries, flags=flags)
    yield plane
    plane.stop()


@pytest.fixture
def namespace(control_plane) -> str:
    """A namespace that no other test uses."""
    return control_plane.namespace()


@pytest.fixture(scope="session")
def proxy_certificate(control_plane) -> tuple[Path, Path]:
    """What a proxy shows instead of the API server's."""
    return control_plane.authority.server("proxy")


@pytest.fixture
def proxy(control_plane, proxy_certificate) -> Iterator[FaultProxy]:
    """A proxy that breaks what a test tells it to."""
    trusted = control_plane.authority.file
    with FaultProxy(control_plane.server, trusted, *proxy_certificate) as running:
        yield running


_MISSING = pytest.StashKey[str]()


def pytest_terminal_summary(terminalreporter, config) -> None:
    """One loud line where nothing was tested against a real API server."""
    if missing := config.stash.get(_MISSING, ""):
        terminalreporter.write_line(
            f"NOT TESTED against a Kubernetes API server: {missing}", red=True, bold=True
        )


def teller(config: pytest.Config) -> Callable[[str], None]:
    """Writes to the terminal while a test's output is captured: a build takes minutes."""

    def tell(message: str) -> None:
        capture = config.pluginmanager.getplugin("capturemanager")
        reporter = config.pluginmanager.getplugin("terminalreporter")
        if capture is None or reporter is None or os.environ.get("PYTEST_XDIST_WORKER"):
            return
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(message)

    return tell
