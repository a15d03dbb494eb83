"""One cluster with a scheduler for all tests here."""

from collections.abc import Iterator

import pytest
from real_scheduler import FLAGS, Scheduling

from controlplane.server import ControlPlane


@pytest.fixture(scope="session")
def scheduling(control_plane, require, tmp_path_factory) -> Iterator[Scheduling]:
    """A scheduler, and an API server of its own; skips where none was built."""
    scheduler = control_plane.binaries / "kube-scheduler"
    require("scheduler", present=scheduler.exists(), why=f"there is no {scheduler}")
    folder = tmp_path_factory.mktemp("scheduling")
    plane = ControlPlane(folder, control_plane.binaries, flags=FLAGS)
    try:
        found = Scheduling(plane, folder)
        yield found
        found.stop()
    finally:
        plane.stop()
