"""A cluster with a scheduler for all tests here, and one with Kueue."""

from collections.abc import Iterator

import pytest
from real_kueue import QueueScheduling
from real_scheduler import FLAGS, Scheduling

from queues.queueing import kueue_programs, on_separate_plane


@pytest.fixture(scope="session")
def scheduling(control_plane, require, tmp_path_factory) -> Iterator[Scheduling]:
    scheduler = control_plane.binaries / "kube-scheduler"
    require("scheduler", present=scheduler.exists(), why=f"there is no {scheduler}")
    folder = tmp_path_factory.mktemp("scheduling")
    with on_separate_plane(
        control_plane, folder, FLAGS, lambda plane: Scheduling(plane, folder)
    ) as running:
        yield running


@pytest.fixture(scope="session")
def queue_scheduling(
    control_plane, require, request, tmp_path_factory
) -> Iterator[QueueScheduling]:
    """The same with Kueue; skips where that cannot be built."""
    programs = kueue_programs(control_plane, require, request.config)
    folder = tmp_path_factory.mktemp("queue-scheduling")
    with on_separate_plane(
        control_plane, folder, FLAGS, lambda plane: QueueScheduling(plane, programs, folder)
    ) as running:
        yield running
