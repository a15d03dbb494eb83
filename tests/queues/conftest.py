"""One cluster with Kueue for all tests here."""

from collections.abc import Iterator

import pytest
from queueing import FLAGS, Queues, kueue_programs, on_separate_plane


@pytest.fixture(scope="session")
def queues(control_plane, require, request, tmp_path_factory) -> Iterator[Queues]:
    """Kueue, with nodes; skips where it cannot be built."""
    programs = kueue_programs(control_plane, require, request.config)
    folder = tmp_path_factory.mktemp("queues")
    with on_separate_plane(
        control_plane, folder, FLAGS, lambda plane: Queues(plane, programs, folder)
    ) as running:
        yield running
