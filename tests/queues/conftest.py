"""One cluster with Kueue for all tests here."""

from collections.abc import Iterator

import pytest
from queueing import FLAGS, Programs, Queues

from controlplane.fixtures import teller
from controlplane.server import ControlPlane
from gobuilds import NoProgramError


@pytest.fixture(scope="session")
def queues(control_plane, require, request, tmp_path_factory) -> Iterator[Queues]:
    """Kueue, with nodes; skips where it cannot be built."""
    try:
        programs = Programs(control_plane, teller(request.config))
    except NoProgramError as error:
        require("kueue", present=False, why=str(error))
        raise
    folder = tmp_path_factory.mktemp("queues")
    plane = ControlPlane(folder, control_plane.binaries, flags=FLAGS)
    try:
        found = Queues(plane, programs, folder)
        yield found
        found.stop()
    finally:
        plane.stop()
