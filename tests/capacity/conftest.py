"""A cluster with a scheduler for all tests here, and one with Kueue."""

from collections.abc import Iterator

import pytest
from real_kueue import QueueScheduling
from real_scheduler import FLAGS, Scheduling

from controlplane.fixtures import teller
from controlplane.server import ControlPlane
from gobuilds import NoProgramError
from queues.queueing import Programs


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


@pytest.fixture(scope="session")
def queue_scheduling(
    control_plane, require, request, tmp_path_factory
) -> Iterator[QueueScheduling]:
    """The same with Kueue; skips where that cannot be built."""
    try:
        programs = Programs(control_plane, teller(request.config))
    except NoProgramError as error:
        require("kueue", present=False, why=str(error))
        raise
    folder = tmp_path_factory.mktemp("queue-scheduling")
    plane = ControlPlane(folder, control_plane.binaries, flags=FLAGS)
    try:
        found = QueueScheduling(plane, programs, folder)
        yield found
        found.stop()
    finally:
        plane.stop()
