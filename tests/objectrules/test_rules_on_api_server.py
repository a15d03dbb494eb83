"""Each row of the tables of objects, held against a real API server in both directions."""

import etcompile
from controlplane.binaries import version
from etcompile.k8s.validation.objects import object_problems
from mutations.cluster import Cluster
from objectrules.rows import kinds, read, rows

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
    assert len(held) > 400


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


def test_what_the_server_takes_by_an_exception_is_taken_too(control_plane):
    cluster = Cluster(control_plane)
    head = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    flex = {"flexVolume": {"driver": "a/b"}}
    nfs = {"nfs": {"server": "a", "path": "/a"}}
    csi = {"csi": {"driver": "a.b", "volumeHandle": "a"}}
    host = {"hostPath": {"path": "/a"}}
    for sources in ({**nfs, **flex}, {**host, **flex}, {**nfs, **host}, {**csi, **flex}, flex):
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a"}}
        assert_agreed(cluster, {**volume, "spec": {**head, **sources}})
    ask = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for field in ("dataSource", "dataSourceRef"):
        for reference in (
            *({"kind": "Foo"}, {"kind": "Foo", "name": "a"}, {"kind": "PersistentVolumeClaim"}),
            *({"name": "a"}, {"apiGroup": "a.b", "kind": "Foo"}, {}, {"namespace": "default"}),
            {"kind": "Foo", "name": "a", "namespace": "default"},
        ):
            claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}}
            assert_agreed(cluster, {**claim, "spec": {**ask, field: reference}})
    source = {"kind": "PersistentVolumeClaim", "name": "a"}
    for other in ({"name": "b"}, {"name": "a"}, {"name": "b", "namespace": "default"}):
        fields = {"dataSource": source, "dataSourceRef": {**source, **other}}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}}
        assert_agreed(cluster, {**claim, "spec": {**ask, **fields}})
    cluster.close()


def test_a_finalizer_without_a_domain_is_what_the_server_takes_it_for(control_plane):
    cluster, wrong, held = Cluster(control_plane), [], 0
    for kind in kinds():
        value = read(kind.example)
        if not cluster.serves(value) or cluster.refusal(value):
            continue
        held += 1
        value["metadata"]["finalizers"] = ["mine"]
        said = cluster.refusal(value)
        if bool(said) is not any(object_problems(value, MINOR)):
            wrong.append(f"{kind.names[0]}: {said}")
    cluster.close()
    assert wrong == []
    assert held > 20


def assert_agreed(cluster, value):
    refusal, made = cluster.refusal(value), etcompile.compile([value])
    assert made.ok is not bool(refusal), f"{value}: {refusal or made.diagnostics}"
