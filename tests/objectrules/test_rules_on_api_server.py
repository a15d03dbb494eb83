"""Each row of the rules, held against a real API server in both directions."""

import pytest

from controlplane.binaries import version
from mutations.cluster import Cluster
from objectrules.rows import rows

MINOR = int(version().split(".")[1])

ROWS = [pytest.param(row, id=f"{index}-{row.name}") for index, row in enumerate(rows())]


@pytest.fixture(scope="module")
def cluster(control_plane):
    started = Cluster(control_plane)
    yield started
    started.close()


@pytest.mark.parametrize("row", ROWS)
def test_the_server_refuses_what_breaks_a_rule_and_takes_its_correction(cluster, row):
    if row.version(MINOR) != MINOR:
        return  # a rule of other versions
    if not cluster.serves(row.broken):
        assert row.kind in ("any object", "any custom resource")  # whose definition is not there
        return
    assert cluster.refusal(row.broken, lenient=False), "the server takes it"
    assert cluster.refusal(row.corrected, lenient=False) == ""
