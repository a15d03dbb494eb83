"""Each row of the tables of objects, held against a real API server in both directions."""

from controlplane.binaries import version
from etcompile.k8s.validation.objects import object_problems
from mutations.cluster import Cluster
from objectrules.rows import rows

MINOR = int(version().split(".")[1])


def test_the_server_refuses_each_example_and_takes_its_correction(control_plane):
    cluster, wrong = Cluster(control_plane), []
    held = [row for row in rows() if row.rule.since <= MINOR <= row.rule.until]
    for row in held:
        if not cluster.serves(row.broken):
            continue  # a custom resource: its definition is somebody else's
        if not cluster.refusal(row.broken):
            wrong.append(f"{row.name}: the server takes {row.broken}")
        if said := cluster.refusal(row.corrected):
            wrong.append(f"{row.name}: the server refuses the correction: {said}")
    cluster.close()
    assert wrong == []
    assert len(held) > 90


def test_each_row_finds_its_example_and_no_row_its_correction():
    wrong = []
    for row in rows():
        minor = min(max(MINOR, row.rule.since), row.rule.until)
        found = {one.rule.message for one in object_problems(row.broken, minor)}
        if row.rule.message not in found:
            wrong.append(f"{row.name} does not find {row.broken}")
        wrong += [
            f"{row.name}: {one.message}: {row.corrected}"
            for one in object_problems(row.corrected, minor)
        ]
    assert wrong == []
