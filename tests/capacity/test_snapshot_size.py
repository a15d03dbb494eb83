"""How large snapshots of large clusters are, and that they never promise more than there is."""

import random

import pytest

from capacity.clusters import GPU, node, running, workers
from etcompile import emit
from etcompile.capacity import answers, snapshot


@pytest.fixture(scope="module")
def large():
    """5,000 nodes of eight groups in three zones, and 20,000 Pods of which no two are the same."""
    chance = random.Random(1)
    nodes, pods = [], []
    for number in range(5_000):
        group = number % 8
        labels = {"pool": f"pool-{group}", "topology.kubernetes.io/zone": f"z{number % 3}"}
        name = f"node-{number}"
        gpus = 8 * (group % 2)
        nodes.append(node(name, cpu="95", memory="700Gi", gpus=gpus, labels=labels))
        for _ in range(4):
            cpu, memory = f"{chance.randint(10, 18_000)}m", f"{chance.randint(10, 120_000)}Mi"
            few = {"gpus": chance.choice((0, 0, 1))} if gpus else {}
            priority = chance.choice((-10, 0, 0, 1000))
            pods.append(running(name, cpu=cpu, memory=memory, priority=priority, **few))
    return nodes, pods


def test_a_snapshot_of_5000_nodes_has_at_most_200_kilobytes(large):
    text = emit.to_yaml(snapshot.to_document(snapshot.of_objects(*large)))
    assert len(text.encode()) <= 200_000


def test_a_snapshot_never_promises_more_than_there_is(large):
    nodes, pods = large
    shot = snapshot.of_document(snapshot.to_document(snapshot.of_objects(nodes, pods)))
    free = {value["metadata"]["name"]: [95_000, 8] for value in nodes[1::2]}
    for pod in pods:
        if left := free.get(pod["spec"]["nodeName"]):
            requests = pod["spec"]["containers"][0]["resources"]["requests"]
            left[0] -= int(requests["cpu"].removesuffix("m"))
            left[1] -= int(requests.get(GPU, 0))
    slots = sum(min(cpu // 40_000, gpu // 4) for cpu, gpu in free.values())
    assert answers.fit(shot, workers(slots + 1, cpu="40", gpus=4)).verdict != "fits"
    assert answers.fit(shot, workers(slots * 3 // 4, cpu="40", gpus=4)).verdict == "fits"
