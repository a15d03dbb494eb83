"""A dump that somebody has edited or made up is refused with a place, and never ends in a crash."""

import copy
import random
from typing import Any

import pytest
from dumps import dumped

import specs
from etcompile.compiler import load
from etcompile.compiler.choices import Options
from etcompile.integrations.migrate import Migrated, migrated
from mutations.odd import ODD, paths, put

CASES = 120
"""Changed dumps for each seed."""


def dump() -> list[Any]:
    """A TrainingJob with a ScaleOut that was done, and the objects that were made of it."""
    job = specs.training_job(replicas=2)
    workers = ["mnist-worker-0", "mnist-worker-1"]
    status = {"currentWorkers": workers, "targetWorkers": workers, "replicaStatuses": {}}
    done = {**specs.scale_out("more", 1), "status": {"phase": "ScaleSucceeded", "addPods": ["a"]}}
    objects = copy.deepcopy([dict(one) for one in specs.compiled(job).in_order()])
    for one in objects:
        owner = {"apiVersion": specs.API_VERSION, "kind": "TrainingJob", "name": "mnist"}
        one["metadata"] = {**one["metadata"], "uid": "u", "ownerReferences": [owner]}
    return [dumped(job, **status), done, *objects]


def result(values: list[Any]) -> Migrated | None:
    """What migrate says of a dump; None if it was refused as it was read."""
    loaded = load.loaded(values, Options(), None)
    return migrated(loaded.documents) if not loaded.diagnostics else None


def test_unchanged_dump_is_migrated() -> None:
    migrated = result(dump())
    assert migrated
    assert "mnist.yaml" in migrated.files


@pytest.mark.parametrize("seed", range(4))
def test_dump_with_any_odd_value_is_migrated_or_refused_without_a_crash(seed: int) -> None:
    chance = random.Random(seed)
    whole = dump()
    places = [path for path in paths(whole) if len(path) > 1]
    for _ in range(CASES):
        changed = copy.deepcopy(whole)
        path, odd = chance.choice(places), chance.choice(ODD)
        put(changed, path, odd)
        migrated = result(changed)
        assert migrated is None or migrated.files or migrated.diagnostics, (path, odd)


@pytest.mark.parametrize(
    ("path", "odd", "where"),
    [
        (("metadata", "ownerReferences"), 5, "metadata.ownerReferences"),
        (("metadata", "labels"), "x", "metadata.labels"),
        (("spec", "volumes"), 5, "spec.volumes"),
        (("spec", "containers", 0), 5, "spec.containers[0]"),
        (("status",), [], "status"),
    ],
)
def test_an_object_with_a_wrong_type_is_refused_at_its_place(
    path: tuple[Any, ...], odd: Any, where: str
) -> None:
    values = dump()
    pod = next(one for one in values if one["kind"] == "Pod")
    put(pod, path, odd)
    migrated = result(values)
    assert migrated
    assert not migrated.files
    assert [one.code for one in migrated.diagnostics] == ["ET4002"]
    assert where in migrated.diagnostics[0].message
